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

#define NO_LIMIT 1e18                /* version 1 says about 2^63 where there is none */

/* The least number in the files `name` of the folder root/path and of those above it, down to root. */
static double least_upwards(const char *root, const char *path, size_t length, const char *name)
{
    double limit = 0;
    char *at = memory_format("%s%.*s", root, (int)length, path);
    for (size_t n = strlen(at); n >= strlen(root); n--) {
        if (at[n] != '\0' && at[n] != '/')
            continue;
        at[n] = '\0';
        char *file = memory_format("%s/%s", at, name);
        double v = number_in(file, "");
        limit = least(limit, v < NO_LIMIT ? v : 0);
        memory_free(file);
    }
    memory_free(at);
    return limit;
}

double limits_group_memory(const char *root, const char *groups)
{
    double limit = 0;
    for (const char *line = groups; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            break;
        size_t length = strcspn(path + 1, "\n");
        if (path == names + 1)
            limit = least(limit, least_upwards(root, path + 1, length, "memory.max"));
        else if (strstr(names, "memory") && strstr(names, "memory") < path) {
            char *old = memory_format("%s/memory", root);
            limit = least(limit, least_upwards(old, path + 1, length, "memory.limit_in_bytes"));
            memory_free(old);
        }
    }
    return limit;
}

/* Of this process's group and those above it: a batch system sets the job's. */
static double group_limit(void)
{
    double limit = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", "");     /* a container's own */
    char *groups = text_read_file("/proc/self/cgroup", NULL);
    limit = least(limit < NO_LIMIT ? limit : 0, groups ? limits_group_memory("/sys/fs/cgroup", groups) : 0);
    memory_free(groups);
    return limit;
}

double limits_cores(void)
{
    char *s = text_read_file("/sys/fs/cgroup/cpu.max", NULL);
    double quota = 0, period = 0;
    bool limited = s && sscanf(s, "%lf %lf", &quota, &period) == 2 && period > 0;
    memory_free(s);
    return limited ? quota / period : 0;
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
