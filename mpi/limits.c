#include "mpi/limits.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "mpi/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/* The first number in a file after `key`; 0 when there is none ("max"). */
static double number_in(const char *path, const char *key)
{
    char *s = text_read_file(path, NULL);
    const char *at = s ? strstr(s, key) : NULL;
    double v = at ? strtod(at + strlen(key), NULL) : 0;
    memory_free(s);
    return v;
}

static double least(double a, double b) { return a <= 0 || (b > 0 && b < a) ? b : a; }

/* The tightest limit of this process's control group and those above it (a batch system sets the job's); 0: none. */
static double group_limit(void)
{
    double limit = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", "");     /* version 1 */
    char *groups = text_read_file("/proc/self/cgroup", NULL);
    char *path = groups ? strstr(groups, "0::/") : NULL;
    if (path) {
        path += strlen("0::");
        path[strcspn(path, "\n")] = '\0';
        for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
            *end = '\0';
            char *file = memory_format("/sys/fs/cgroup%s/memory.max", path);
            limit = least(limit, number_in(file, ""));
            memory_free(file);
        }
    }
    memory_free(groups);
    return limit;
}

double limits_memory(void) { return least(1024 * number_in("/proc/meminfo", "MemAvailable:"), group_limit()); }

double limits_disk(const char *path)
{
    char *folder = memory_text(path);
    struct statvfs s;
    int there;
    while ((there = statvfs(folder, &s)) != 0) {
        char *slash = strrchr(folder, '/');
        if (!slash || slash == folder)
            break;
        *slash = '\0';
    }
    if (there != 0)
        there = statvfs(path[0] == '/' ? "/" : ".", &s);
    memory_free(folder);
    return there == 0 ? (double)s.f_bavail * (double)s.f_frsize : 0;
}

enum status limits_check(const struct world *w, const struct plan *plan, const char *dir)
{
    double need = plan->memory * w->node_ranks, there = limits_memory();
    enum status status = STATUS_OK;
    if (there > 0 && need > there)
        status = status_fail(STATUS_ENVIRONMENT, "the job needs %.1f GB on this machine (%d ranks of %.2f GB), but %.1f GB "
                             "are free: start fewer ranks a machine, or make the model or the batch smaller",
                             need / 1e9, w->node_ranks, plan->memory / 1e9, there / 1e9);
    if (w->rank == 0) {
        double room = limits_disk(dir);
        if (room > 0 && plan->disk > room)
            log_line(LOG_WARNING, "%s has %.1f GB free; the whole job may take up to %.1f GB", dir, room / 1e9,
                     plan->disk / 1e9);
    }
    return agree(w->comm, status);
}
