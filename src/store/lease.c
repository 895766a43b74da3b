#include "store/lease.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/publish.h"

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

#define RENEW_SECONDS 2.0            /* between renewals, or a fifth of the lease time */
#define LOOK_SECONDS 0.1             /* between looks of a waiter */
enum { MACHINE_TEXT = 40, HOLDER_TEXT = 600 };

/* The first line of the file: id, counter, machine, process. The counter is rewritten in place. */
#define HEAD "%016llx %012llu %36s %ld\n"
enum { COUNTER_AT = 17, COUNTER_LENGTH = 12 };

struct lease {
    char *path;
    int fd;
    int parts;
    char id[LEASE_ID_TEXT];
    double renew;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool ending;
    atomic_bool lost;
};

void lease_suffix(char text[32], int part, int parts)
{
    text[0] = '\0';
    if (parts)
        snprintf(text, 32, ".%d-of-%d", part, parts);
}

static char *path_of(const char *dir, int part, int parts)
{
    char suffix[32];
    lease_suffix(suffix, part, parts);
    return memory_format("%s/lock%s", dir, suffix);
}

/* ---- the record lock ---- */

/* 0, or errno. Kernels and file systems without locks of open file descriptions get the older kind, which the process
 * owns: it holds as well here, since the program opens its own lease file only once. */
static int lock_command(int fd, int ofd, int older, struct flock *f)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    *f = whole;
    if (fcntl(fd, ofd, f) == 0)
        return 0;
    if (errno == EINVAL || errno == ENOTSUP || errno == ENOSYS) {
        *f = whole;
        if (fcntl(fd, older, f) == 0)
            return 0;
    }
    return errno;
}

static int try_lock(int fd)
{
    struct flock f;
    return lock_command(fd, F_OFD_SETLK, F_SETLK, &f);
}

/* out: *locked by somebody, where there are locks at all; returns whether there are */
static bool ask_lock(int fd, bool *locked)
{
    struct flock f;
    bool has_locks = lock_command(fd, F_OFD_GETLK, F_GETLK, &f) == 0;
    *locked = has_locks && f.l_type != F_UNLCK;
    return has_locks;
}

/* ---- the file ---- */

/* Names the running kernel: the same for all processes, containers included, between which its locks hold. */
static void this_machine(char text[MACHINE_TEXT])
{
    size_t n = 0;
    char *s = text_read_file("/proc/sys/kernel/random/boot_id", &n);
    snprintf(text, MACHINE_TEXT, "%.36s", s && n >= 36 ? s : "-");
    memory_free(s);
}

struct content {
    uint64_t id, counter;
    char machine[MACHINE_TEXT];
    long pid;
    char holder[HOLDER_TEXT];
};

/* An empty file, or one that is none of ours, is nobody's. */
static void read_content(int fd, struct content *c)
{
    char s[HOLDER_TEXT + 128];
    unsigned long long id, counter;
    int used = 0;
    *c = (struct content){0};
    ssize_t n = pread(fd, s, sizeof s - 1, 0);
    s[n > 0 ? n : 0] = '\0';
    if (sscanf(s, "%16llx %12llu %36s %ld%n", &id, &counter, c->machine, &c->pid, &used) != 4)
        return;
    c->id = id;
    c->counter = counter;
    const char *line = strchr(s, '\n');
    snprintf(c->holder, sizeof c->holder, "%s", line ? line + 1 : "");
    c->holder[strcspn(c->holder, "\n")] = '\0';
}

/* "invar run jobs/x.yaml" as it was called. */
static void add_command(struct text *t)
{
    size_t n = 0;
    char *line = text_read_file("/proc/self/cmdline", &n);
    for (size_t i = 0; i + 1 < n && i < 400; i++)
        text_add(t, "%c", line[i] && line[i] != '\n' ? line[i] : ' ');
    memory_free(line);
}

/* 0, or errno. */
static int write_content(int fd, const char *id)
{
    char host[128] = "", stamp[32], machine[MACHINE_TEXT];
    time_t now = time(NULL);
    struct tm tm;
    struct text t = {0};
    gethostname(host, sizeof host - 1);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    this_machine(machine);
    text_add(&t, HEAD, strtoull(id, NULL, 16), 0ULL, machine, (long)getpid());
    text_add(&t, "process %ld on %s since %s: ", (long)getpid(), host, stamp);
    add_command(&t);
    text_add(&t, "\n");
    int error = ftruncate(fd, 0) ? errno : 0;
    if (!error && pwrite(fd, t.s, t.length, 0) != (ssize_t)t.length)
        error = errno ? errno : ENOSPC;
    if (!error && fsync(fd) && errno != EINVAL)
        error = errno;
    text_free(&t);
    return error;
}

static bool same_file(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Whether a process of this machine is stopped; false when that cannot be seen. */
static bool is_stopped(long pid)
{
    char *path = memory_format("/proc/%ld/stat", pid), *s = text_read_file(path, NULL);
    const char *state = s ? strrchr(s, ')') : NULL;
    bool stopped = state && (state[2] == 'T' || state[2] == 't');
    memory_free(s);
    memory_free(path);
    return stopped;
}

static struct lease_look look_at(const struct content *c, bool locked, bool has_locks)
{
    char machine[MACHINE_TEXT];
    this_machine(machine);
    bool here = has_locks && !strcmp(machine, c->machine) && strcmp(machine, "-");
    return (struct lease_look){.locked = locked, .here = here, .stopped = here && is_stopped(c->pid), .id = c->id,
                               .counter = c->counter};
}

/* ---- taking ---- */

/* One attempt of a waiter, or many. */
struct waiter {
    const struct lease_terms *terms;
    double seconds, until;           /* lease time; clock until which a living holder is waited for */
    bool said;                       /* that it waits */
};

static enum status refuse(const char *path, const struct content *c)
{
    return status_fail(STATUS_LOCKED, "%s: the folder is in use by %s; wait for it to end (--wait TIME), or choose another "
                       "folder (-o)", path, *c->holder ? c->holder : "a process that has not said its name");
}

static void say_waiting(struct waiter *w, enum lease_verdict verdict, const struct content *c)
{
    if (w->said)
        return;
    w->said = true;
    if (verdict == LEASE_UNSURE)
        log_line(LOG_INFO, "the folder was in use by %s; watching up to %.0f s whether it is still at work", c->holder,
                 w->seconds);
    else
        log_line(LOG_INFO, "waiting for %s", *c->holder ? c->holder : "the launch that uses the folder");
}

/* Whether the waiter is to look again; it has rested then. */
static bool wait_more(struct waiter *w, enum lease_verdict verdict, const struct content *c)
{
    if (verdict == LEASE_ALIVE && clock_now() >= w->until)
        return false;
    say_waiting(w, verdict, c);
    clock_rest(LOOK_SECONDS);
    return true;
}

static void draw_id(char id[LEASE_ID_TEXT])
{
    uint64_t v = 0;
    if (getrandom(&v, sizeof v, GRND_NONBLOCK) != sizeof v || v == 0)
        v = ((uint64_t)time(NULL) << 32 | (uint64_t)getpid()) + 1;
    snprintf(id, LEASE_ID_TEXT, "%016llx", (unsigned long long)v);
}

/* The old holder keeps its lock on the old file for as long as it likes.   0, or errno */
static int replace(const char *path, const char *id, int *fd)
{
    char *temporary = publish_temporary(path);
    int fresh = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666), error = fresh < 0 ? errno : 0;
    if (!error) {
        try_lock(fresh);
        error = write_content(fresh, id);
    }
    if (!error && rename(temporary, path))
        error = errno;
    if (error) {
        unlink(temporary);
        if (fresh >= 0)
            close(fresh);
    } else {
        close(*fd);
        *fd = fresh;
    }
    memory_free(temporary);
    return error;
}

/* Writes the id; where locks do not exclude, the last of several writers has it.
 * out: *won   0, or errno */
static int claim(const char *path, const char *id, bool locked, bool has_locks, int *fd, bool *won)
{
    struct content c;
    int error = locked ? replace(path, id, fd) : write_content(*fd, id);
    if (!error && (locked || !has_locks))
        clock_rest(2 * LOOK_SECONDS);
    int again = error ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    *won = false;
    if (again >= 0) {
        read_content(again, &c);
        close(again);
        *won = c.id == strtoull(id, NULL, 16);
    }
    return error;
}

static enum status cannot(const char *path, const char *what, int error)
{
    return status_fail(STATUS_IO, "%s: cannot be %s: %s", path, what, strerror(error));
}

/* Takes the lease file itself.   out: *fd, locked and written */
static enum status take_file(const char *path, const char *id, struct waiter *w, int *fd)
{
    struct lease_watch watch = {0};
    for (;;) {
        *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (*fd < 0)
            return cannot(path, "opened", errno);
        int error = try_lock(*fd);
        bool locked = error == EAGAIN || error == EACCES, has_locks = locked || !error, won = false;
        if (!same_file(*fd, path)) {
            close(*fd);
            continue;
        }
        struct content c;
        read_content(*fd, &c);
        struct lease_look look = look_at(&c, locked, has_locks);
        enum lease_verdict verdict = lease_judge(&watch, &look, clock_now(), w->seconds);
        if (verdict == LEASE_FREE || verdict == LEASE_LAPSED) {
            error = claim(path, id, locked, has_locks, fd, &won);
            if (won)
                return STATUS_OK;
            close(*fd);
            if (error)
                return cannot(path, "written", error);
            continue;
        }
        close(*fd);
        if (!wait_more(w, verdict, &c)) {
            clock_rest(*c.holder ? 0 : 0.05);      /* the holder writes its name just after it has taken the lock */
            if (*c.holder || clock_now() > w->until + 0.5)
                return refuse(path, &c);
        }
    }
}

/* ---- leases that exclude this one ---- */

struct conflicts {
    const char *dir;
    int part, parts;
    int count;
    char *path[64];
};

static void add_conflict(void *context, const char *name, int part, int parts, const char *id)
{
    struct conflicts *c = context;
    bool own = part == c->part && parts == c->parts, beside = c->parts && parts == c->parts;
    if (own || beside || !*id || c->count == (int)(sizeof c->path / sizeof *c->path))
        return;
    c->path[c->count++] = memory_format("%s/%s", c->dir, name);
}

/* Waits until the lease at `path` is nobody's; what a dead launch has left is removed, so that one which only seemed dead
 * finds it gone. */
static enum status outlive(const char *path, struct waiter *w)
{
    struct lease_watch watch = {0};
    for (;;) {
        struct content c = {0};
        int fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return STATUS_OK;
        read_content(fd, &c);
        int error = try_lock(fd);
        bool locked = error == EAGAIN || error == EACCES;
        struct lease_look look = look_at(&c, locked, locked || !error);
        enum lease_verdict verdict = c.id ? lease_judge(&watch, &look, clock_now(), w->seconds) : LEASE_FREE;
        bool goes = verdict == LEASE_LAPSED || (verdict == LEASE_FREE && c.id);
        if (goes && unlink(path) && errno != ENOENT) {
            enum status status = cannot(path, "removed", errno);
            close(fd);
            return status;
        }
        close(fd);
        if (verdict == LEASE_LAPSED || verdict == LEASE_FREE)
            return STATUS_OK;
        if (!wait_more(w, verdict, &c))
            return refuse(path, &c);
    }
}

/* A handful at a time: what was outlived is gone from the folder. */
static enum status outlive_all(const char *dir, const struct lease_terms *terms, struct waiter *w)
{
    enum status status = STATUS_OK;
    bool more = true;
    while (status == STATUS_OK && more) {
        struct conflicts c = {.dir = dir, .part = terms->part, .parts = terms->parts};
        lease_list(dir, add_conflict, &c);
        more = c.count == (int)(sizeof c.path / sizeof *c.path);
        for (int i = 0; i < c.count; i++) {
            if (status == STATUS_OK)
                status = outlive(c.path[i], w);
            memory_free(c.path[i]);
        }
    }
    return status;
}

/* ---- renewing ---- */

/* Whether the file at the path still holds this lease's id. */
static bool is_own(const struct lease *l)
{
    struct content c;
    if (!same_file(l->fd, l->path))
        return false;
    read_content(l->fd, &c);
    return c.id == strtoull(l->id, NULL, 16);
}

/* A lease that is another's by now is not touched. */
static void renew(struct lease *l, uint64_t counter)
{
    if (!is_own(l)) {
        atomic_store(&l->lost, true);
        return;
    }
    char digits[COUNTER_LENGTH + 1];
    snprintf(digits, sizeof digits, "%012llu", (unsigned long long)counter);
    if (pwrite(l->fd, digits, COUNTER_LENGTH, COUNTER_AT) == COUNTER_LENGTH)
        fdatasync(l->fd);
}

static void *keep(void *context)
{
    struct lease *l = context;
    pthread_mutex_lock(&l->lock);
    for (uint64_t counter = 1; !l->ending && !atomic_load(&l->lost); counter++) {
        const struct timespec until = clock_in(l->renew);
        if (pthread_cond_timedwait(&l->wake, &l->lock, &until) == 0)
            continue;
        pthread_mutex_unlock(&l->lock);
        renew(l, counter);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Signals are for the threads that wait for them. */
static int start_thread(struct lease *l)
{
    sigset_t all, before;
    pthread_condattr_t attribute;
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&attribute);
    pthread_condattr_setclock(&attribute, CLOCK_MONOTONIC);
    pthread_cond_init(&l->wake, &attribute);
    pthread_condattr_destroy(&attribute);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&l->thread, NULL, keep, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

enum status lease_take(const char *dir, const struct lease_terms *terms, struct lease **lease)
{
    struct lease *l = memory_new(1, sizeof *l);
    struct waiter w = {.terms = terms, .seconds = terms->seconds > 0 ? terms->seconds : LEASE_SECONDS,
                       .until = clock_now() + terms->wait};
    l->path = path_of(dir, terms->part, terms->parts);
    l->parts = terms->parts;
    l->renew = w.seconds / 5 < RENEW_SECONDS ? w.seconds / 5 : RENEW_SECONDS;
    draw_id(l->id);
    enum status status = take_file(l->path, l->id, &w, &l->fd);
    if (status == STATUS_OK) {
        int error = start_thread(l);
        if (error) {
            close(l->fd);
            status = cannot(l->path, "kept by a thread", error);
        }
    }
    if (status != STATUS_OK) {
        memory_free(l->path);
        memory_free(l);
        return status;
    }
    status = outlive_all(dir, terms, &w);
    if (status != STATUS_OK) {
        lease_release(l);
        return status;
    }
    *lease = l;
    return STATUS_OK;
}

void lease_release(struct lease *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->ending = true;
    pthread_cond_signal(&l->wake);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->lock);
    if (is_own(l) && (l->parts ? unlink(l->path) : ftruncate(l->fd, 0)))
        errno = 0;
    close(l->fd);
    memory_free(l->path);
    memory_free(l);
}

const char *lease_id(const struct lease *l) { return l->id; }
bool lease_lost(const struct lease *l) { return atomic_load(&l->lost); }

/* ---- looking ---- */

enum status lease_check(const char *dir, int part, int parts, const char *id)
{
    char *path = path_of(dir, part, parts);
    struct content c;
    enum status status = STATUS_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        read_content(fd, &c);
        close(fd);
        if (c.id != strtoull(id, NULL, 16))
            status = status_fail(STATUS_LOCKED, "%s: the folder was taken over%s%s while this launch gave no sign of life; it "
                                 "writes nothing more. What it had finished is kept", path, c.id ? " by " : "", c.holder);
    } else if (errno == ENOENT)
        status = status_fail(STATUS_LOCKED, "%s: is gone: the folder was removed, or taken over by another launch; this "
                             "one writes nothing more. Run the same command again", path);
    memory_free(path);
    return status;
}

bool lease_is_held(const char *path)
{
    struct lease_watch watch = {0};
    for (;;) {
        struct content c;
        int fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return false;
        bool locked, has_locks = ask_lock(fd, &locked);
        read_content(fd, &c);
        close(fd);
        struct lease_look look = look_at(&c, locked, has_locks);
        if (locked && look.stopped)
            return true;
        enum lease_verdict verdict = lease_judge(&watch, &look, clock_now(), 2 * RENEW_SECONDS);
        if (verdict != LEASE_UNSURE)
            return verdict == LEASE_ALIVE;
        clock_rest(LOOK_SECONDS);
    }
}

void lease_list(const char *dir, lease_each *each, void *context)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));) {
        int part = 0, parts = 0, used = 0;
        bool whole = !strcmp(e->d_name, "lock");
        if (!whole && (sscanf(e->d_name, "lock.%d-of-%d%n", &part, &parts, &used) != 2 || e->d_name[used]))
            continue;
        struct content c = {0};
        char id[LEASE_ID_TEXT] = "";
        int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        read_content(fd, &c);
        close(fd);
        if (c.id)
            snprintf(id, sizeof id, "%016llx", (unsigned long long)c.id);
        each(context, e->d_name, part, parts, id);
    }
    closedir(d);
}
