/* shim.c: meddles with the file calls of one rank, for LD_PRELOAD. The k-th call of a kind on a file in a folder fails
 * with a chosen error, is done by half, or finds the process killed or stopped just before it. The wall clock can jump.
 *
 *     SHIM_FOLDER   absolute path; only files below it count
 *     SHIM_CALL     "RANK KIND FIRST COUNT DEED": in rank RANK (-1: any) the calls FIRST .. FIRST + COUNT - 1 of this KIND
 *                   KIND: open (that makes a file), read (an open to read), write, fsync, close, rename, unlink, mkdir, any;
 *                   or bcast, a call of MPI_Bcast
 *                   DEED: an error (ENOSPC, EDQUOT, EIO, EROFS, ESTALE, EACCES), half (a short write), kill, stop
 *     SHIM_CLOCK    "AFTER JUMP": AFTER seconds after the start the wall clock jumps by JUMP seconds; CLOCK_MONOTONIC,
 *                   which never jumps, is left alone
 *     SHIM_SLOW     "RANK MICROSECONDS": in this rank every file call and every look at the clock takes so much longer
 *     SHIM_LATE     SECONDS: files younger than that are not listed in their folders, though they can be opened
 *     SHIM_LOG      a line is appended for the first deed of each process, so that what happened can be counted
 *
 * Calls are counted in each process, so the k-th is the same moment of its work in every repetition.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* The function that the hook stands before, looked up once. */
#define REAL(name) (*({ static __typeof__(&name) found; if (!found) found = (__typeof__(&name))real(#name); &found; }))

enum kind { OPEN, READ, WRITE, FSYNC, CLOSE, RENAME, UNLINK, MKDIR, ANY, BCAST, KINDS };
static const char *const kind_name[KINDS] = {"open", "read", "write", "fsync", "close", "rename", "unlink", "mkdir", "any",
                                              "bcast"};

enum deed { NOTHING, FAIL, HALF, KILL, STOP };
static const struct { const char *name; enum deed deed; int error; } deeds[] = {
    {"ENOSPC", FAIL, ENOSPC}, {"EDQUOT", FAIL, EDQUOT}, {"EIO", FAIL, EIO},    {"EROFS", FAIL, EROFS},
    {"ESTALE", FAIL, ESTALE}, {"EACCES", FAIL, EACCES}, {"half", HALF, 0},     {"kill", KILL, 0},
    {"stop", STOP, 0},
};

static struct {
    const char *folder, *log;
    size_t length;               /* of folder */
    enum kind kind;
    long first, count;
    enum deed deed;
    int error;
    double clock_after, clock_jump;
    long slow;                   /* microseconds */
    double late;                 /* seconds */
    struct timespec began;
} plan = {.deed = NOTHING};

static atomic_long calls;
static atomic_bool said;

static void *real(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (!f)
        abort();
    return f;
}

/* ---- the plan ---- */

static bool is_rank(int rank)
{
    const char *mine = getenv("OMPI_COMM_WORLD_RANK");
    return rank < 0 || atoi(mine ? mine : "0") == rank;
}

static void plan_call(const char *text)
{
    char kind[16], deed[16];
    int rank;
    if (sscanf(text, "%d %15s %ld %ld %15s", &rank, kind, &plan.first, &plan.count, deed) != 5)
        abort();
    if (!is_rank(rank))
        return;
    plan.kind = KINDS;
    for (int k = 0; k < KINDS; k++)
        if (!strcmp(kind, kind_name[k]))
            plan.kind = (enum kind)k;
    for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++)
        if (!strcmp(deed, deeds[i].name)) {
            plan.deed = deeds[i].deed;
            plan.error = deeds[i].error;
        }
    if (plan.kind == KINDS || plan.deed == NOTHING)
        abort();
}

__attribute__((constructor)) static void read_plan(void)
{
    const char *call = getenv("SHIM_CALL"), *jump = getenv("SHIM_CLOCK");
    const char *slow = getenv("SHIM_SLOW"), *late = getenv("SHIM_LATE");
    int rank;
    plan.folder = getenv("SHIM_FOLDER");
    plan.length = plan.folder ? strlen(plan.folder) : 0;
    plan.log = getenv("SHIM_LOG");
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &plan.began);
    if (call && plan.folder)
        plan_call(call);
    plan.late = late ? atof(late) : 0;
    if (jump)
        sscanf(jump, "%lf %lf", &plan.clock_after, &plan.clock_jump);
    if (slow && (sscanf(slow, "%d %ld", &rank, &plan.slow) != 2 || !is_rank(rank)))
        plan.slow = 0;
}

/* ---- deeds ---- */

/* By plain system calls: the functions below are hooked. */
static void say(const char *what, const char *path)
{
    char line[600];
    if (!plan.log || atomic_exchange(&said, true))
        return;
    int n = snprintf(line, sizeof line, "process %d: call %ld: %s %s\n", (int)getpid(), atomic_load(&calls), what, path);
    long fd = syscall(SYS_openat, AT_FDCWD, plan.log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd >= 0 && n > 0)
        syscall(SYS_write, fd, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    syscall(SYS_close, fd);
}

static bool is_below(const char *path)
{
    return plan.length && !strncmp(path, plan.folder, plan.length) && (path[plan.length] == '/' || !path[plan.length]);
}

static void drag(void)
{
    if (plan.slow)
        syscall(SYS_nanosleep, &(struct timespec){.tv_sec = plan.slow / 1000000, .tv_nsec = 1000 * (plan.slow % 1000000)},
                NULL);
}

/* Counts this call; what is to become of it. */
static enum deed meddle(enum kind kind, const char *path)
{
    if (!path || !is_below(path))
        return NOTHING;
    drag();
    if (plan.deed == NOTHING || (plan.kind != kind && (plan.kind != ANY || kind == BCAST)))
        return NOTHING;
    long n = atomic_fetch_add(&calls, 1) + 1;
    if (n < plan.first || n >= plan.first + plan.count || (plan.deed == HALF && kind != WRITE))
        return NOTHING;
    say(kind_name[kind], path);
    if (plan.deed == KILL)
        kill(getpid(), SIGKILL);
    if (plan.deed == STOP)
        kill(getpid(), SIGSTOP);
    errno = plan.error;
    return plan.deed == FAIL || plan.deed == HALF ? plan.deed : NOTHING;
}

/* The path behind a descriptor, "" when there is none. */
static const char *path_of(int fd, char path[4096])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, 4095);
    path[n > 0 ? n : 0] = '\0';
    return path;
}

static enum deed meddle_fd(enum kind kind, int fd)
{
    char path[4096];
    return meddle(kind, path_of(fd, path));
}

/* ---- the hooked calls ---- */

static bool open_fails(const char *path, int flags)
{
    return meddle(flags & O_CREAT ? OPEN : READ, path) == FAIL;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return open_fails(path, flags) ? -1 : REAL(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return open_fails(path, flags) ? -1 : REAL(open64)(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    return open_fails(path, *mode == 'r' ? 0 : O_CREAT) ? NULL : REAL(fopen)(path, mode);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    enum deed deed = fd > 2 ? meddle_fd(WRITE, fd) : NOTHING;
    return deed == FAIL ? -1 : REAL(write)(fd, bytes, deed == HALF ? (n + 1) / 2 : n);
}

int fsync(int fd) { return meddle_fd(FSYNC, fd) == FAIL ? -1 : REAL(fsync)(fd); }

/* The descriptor is closed also when the call fails. */
int close(int fd)
{
    bool fails = meddle_fd(CLOSE, fd) == FAIL;
    int error = errno, result = REAL(close)(fd);
    if (fails)
        errno = error;
    return fails ? -1 : result;
}

int fclose(FILE *f)
{
    bool fails = meddle_fd(CLOSE, fileno(f)) == FAIL;
    int error = errno, result = REAL(fclose)(f);
    if (fails)
        errno = error;
    return fails ? EOF : result;
}

int rename(const char *from, const char *to) { return meddle(RENAME, to) == FAIL ? -1 : REAL(rename)(from, to); }
int unlink(const char *path) { return meddle(UNLINK, path) == FAIL ? -1 : REAL(unlink)(path); }
int mkdir(const char *path, mode_t mode) { return meddle(MKDIR, path) == FAIL ? -1 : REAL(mkdir)(path, mode); }

/* As on a file system whose listings are cached. */
static bool is_late(DIR *d, const struct dirent *e)
{
    char folder[4096];
    struct stat s;
    struct timespec now;
    if (!plan.late || !is_below(path_of(dirfd(d), folder)) || fstatat(dirfd(d), e->d_name, &s, 0) || !S_ISREG(s.st_mode))
        return false;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    bool late = difftime(now.tv_sec, s.st_ctim.tv_sec) < plan.late;
    if (late)
        say("listing lacks", e->d_name);
    return late;
}

struct dirent *readdir(DIR *d)
{
    struct dirent *e;
    do
        e = REAL(readdir)(d);
    while (e && is_late(d, e));
    return e;
}

/* ---- MPI ---- */

/* As Open MPI declares it, where types are pointers. */
int MPI_Bcast(void *buffer, int count, void *type, int root, void *comm);

int MPI_Bcast(void *buffer, int count, void *type, int root, void *comm)
{
    meddle(BCAST, plan.folder);
    return REAL(MPI_Bcast)(buffer, count, type, root, comm);
}

/* ---- clocks ---- */

static double since_start(void)
{
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return (double)(t.tv_sec - plan.began.tv_sec) + 1e-9 * (double)(t.tv_nsec - plan.began.tv_nsec);
}

static time_t jump(void)
{
    if (plan.clock_jump == 0 || since_start() < plan.clock_after)
        return 0;
    say("clock", "jumps");
    return (time_t)plan.clock_jump;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    drag();
    int result = REAL(clock_gettime)(clock, t);
    if (result == 0 && clock == CLOCK_REALTIME)
        t->tv_sec += jump();
    return result;
}

time_t time(time_t *out)
{
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &t);
    t.tv_sec += jump();
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    int result = REAL(gettimeofday)(t, zone);
    t->tv_sec += jump();
    return result;
}
