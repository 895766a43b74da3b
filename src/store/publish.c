#include "store/publish.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MARK ".tmp-"

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* "a/b" of "a/b/c", "." of "c"; the caller frees it. */
static char *folder_name(const char *path)
{
    const char *base = base_name(path);
    if (base == path)
        return memory_text(".");
    return memory_format("%.*s", base - path > 1 ? (int)(base - path - 1) : 1, path);
}

/* ---- temporary names ---- */

/* HOST without characters that would end it early. */
static void host_name(char host[64])
{
    host[0] = host[63] = '\0';
    gethostname(host, 63);
    for (char *p = host; *p; p++)
        if (*p == '.' || *p == '/' || *p == '-')
            *p = '_';
}

/* Drawn anew after a fork, too. */
static unsigned token(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pid_t drawn_for;
    static unsigned value;
    pthread_mutex_lock(&lock);
    if (drawn_for != getpid()) {
        drawn_for = getpid();
        if (getrandom(&value, sizeof value, GRND_NONBLOCK) != sizeof value)
            value = (unsigned)time(NULL);
    }
    unsigned mine = value;
    pthread_mutex_unlock(&lock);
    return mine;
}

static char launch[17] = "0";

void publish_launch(const char *id) { snprintf(launch, sizeof launch, "%s", *id ? id : "0"); }

char *publish_temporary(const char *target)
{
    static atomic_uint counter;
    char host[64];
    host_name(host);
    char *folder = folder_name(target);
    char *path = memory_format("%s/" MARK "%s.%ld.%08x.%u.%s-%s", folder, host, (long)getpid(), token(),
                               atomic_fetch_add(&counter, 1), launch, base_name(target));
    memory_free(folder);
    return path;
}

/* A process that was killed answers signals until its parent has taken note, but has no command line any more. */
static int lives(long pid)
{
    if (kill((pid_t)pid, 0) && errno != EPERM)
        return 0;
    size_t n = 1;
    char *path = memory_format("/proc/%ld/cmdline", pid), *line = text_read_file(path, &n);
    int dead = line && n == 0;
    memory_free(line);
    memory_free(path);
    return !dead;
}

/* Whether `name` is a temporary of one of these launches. A launch that is none of them has lost the folder, though its process
 * may live: without its temporary it publishes nothing when it wakes up between asking for its lease and renaming. What was
 * written without a lease belongs to its process. */
static int is_in_use(const char *name, const char *launches)
{
    char mine[64], host[64], id[17] = "";
    long pid;
    host_name(mine);
    if (sscanf(name, MARK "%63[^.].%ld.%*8[0-9a-f].%*u.%16[0-9a-f]-", host, &pid, id) < 2)
        return 0;
    if (strlen(id) == 16)
        return strstr(launches, id) != NULL;
    return !strcmp(host, mine) && lives(pid);
}

void publish_remove_strays(const char *folder, const char *launches)
{
    DIR *d = opendir(folder);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));)
        if (!strncmp(e->d_name, MARK, sizeof MARK - 1) && !is_in_use(e->d_name, launches) && !unlinkat(dirfd(d), e->d_name, 0))
            log_line(LOG_DETAIL, "%s/%s: an unfinished file of an earlier launch was removed", folder, e->d_name);
    closedir(d);
}

/* ---- durable files ---- */

static _Thread_local int last_error;

int publish_error(void) { return last_error; }
void publish_error_set(int error) { last_error = error; }

int publish_error_may_pass(int error)
{
    static const int passing[] = {ENOSPC, EDQUOT, EIO, ESTALE, EINTR, EAGAIN, ETIMEDOUT, ENETDOWN, ENETUNREACH, ENOLINK, ENOENT};
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        if (error == passing[i])
            return 1;
    return 0;
}

/* 0, or errno. Some file systems cannot sync a folder and need not: they say EINVAL. */
static int sync_path(const char *path, int flags)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    if (fd < 0)
        return errno;
    int error = fsync(fd) ? errno : 0;
    if (close(fd) && !error)
        error = errno;
    return (flags & O_DIRECTORY) && (error == EINVAL || error == ENOTSUP) ? 0 : error;
}

enum status publish_sync_folder(const char *path)
{
    int error = sync_path(path, O_DIRECTORY);
    if (error)
        last_error = error;
    return error ? status_fail(STATUS_IO, "%s: cannot be made durable: %s", path, strerror(error)) : STATUS_OK;
}

enum status publish_file(const char *temporary, const char *target)
{
    int error = sync_path(temporary, 0);
    if (!error && rename(temporary, target))
        error = errno;
    if (error) {
        unlink(temporary);
        last_error = error;
        return status_fail(STATUS_IO, "%s: cannot be written: %s", target, strerror(error));
    }
    char *folder = folder_name(target);
    enum status s = publish_sync_folder(folder);
    memory_free(folder);
    return s;
}

enum status publish_bytes(const char *target, const void *bytes, size_t n)
{
    char *temporary = publish_temporary(target);
    enum status s = STATUS_OK;
    FILE *f = fopen(temporary, "wbe");
    int error = f ? 0 : errno;
    if (f && n && fwrite(bytes, n, 1, f) != 1)
        error = errno;
    if (f && fclose(f) && !error)
        error = errno;
    if (error) {
        unlink(temporary);
        s = status_fail(STATUS_IO, "%s: cannot be written: %s", target, strerror(error));
    } else
        s = publish_file(temporary, target);
    memory_free(temporary);
    return s;
}

enum status publish_folder(const char *path)
{
    char *partial = memory_text(path);
    int error = 0;
    for (char *p = partial + 1; !error && *p; p++)
        if (*p == '/') {
            *p = '\0';
            if (mkdir(partial, 0777) && errno != EEXIST && access(partial, F_OK))
                error = errno;
            *p = '/';
        }
    if (!error && mkdir(partial, 0777) && errno != EEXIST)
        error = errno;
    struct stat st;
    if (!error && (stat(path, &st) || !S_ISDIR(st.st_mode)))
        error = ENOTDIR;
    memory_free(partial);
    return error ? status_fail(STATUS_IO, "%s: the folder cannot be made: %s", path, strerror(error)) : STATUS_OK;
}

enum status publish_move_aside(const char *path, const char *folder, const char *why)
{
    char *reason = memory_text(why);            /* it may be status_text(), which failures below replace */
    enum status s = publish_folder(folder);
    char *target = memory_format("%s/%s", folder, base_name(path));
    for (int i = 1; s == STATUS_OK && access(target, F_OK) == 0; i++) {
        memory_free(target);
        target = memory_format("%s/%s.%d", folder, base_name(path), i);
    }
    if (s == STATUS_OK && rename(path, target) && errno != ENOENT)
        s = status_fail(STATUS_IO, "%s: cannot be moved to %s: %s", path, target, strerror(errno));
    if (s == STATUS_OK)
        log_line(LOG_WARNING, "%s; moved to %s", reason, target);
    memory_free(target);
    memory_free(reason);
    return s;
}
