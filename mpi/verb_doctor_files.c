/* Checks of doctor: the folder in which output shall lie, tried out in a folder of our own inside it. */
#include "mpi/doctor.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "mpi/limits.h"
#include "store/publish.h"
#include "store/seal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- the folder ---- */

/* The folder itself or, when it is not there yet, the nearest one above it. */
static char *existing_folder(const char *dir)
{
    char *path = memory_text(dir);
    struct stat st;
    while (stat(path, &st) && errno == ENOENT) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path) {
            memory_free(path);
            return memory_text(slash ? "/" : ".");
        }
        *slash = '\0';
    }
    return path;
}

static void make_scratch(struct doctor *d)
{
    char *folder = existing_folder(d->dir), *path = memory_format("%s/.doctor-XXXXXX", folder);
    struct stat st;
    if (stat(folder, &st) == 0 && !S_ISDIR(st.st_mode))
        doctor_say(d, DOCTOR_WRONG, "%s is a file: name a folder", folder);
    else if (!mkdtemp(path))
        doctor_say(d, DOCTOR_WRONG, "%s: nothing can be written there: %s. Choose another folder (-o), or mend its rights", folder,
                   strerror(errno));
    else {
        d->scratch = path;
        path = NULL;
        doctor_say(d, DOCTOR_OK, "%s can be written%s", folder, strcmp(folder, d->dir) ? " (the folder itself is not there yet)" : "");
    }
    memory_free(path);
    memory_free(folder);
}

/* All ranks learn of the folder from rank 0.   out: d->scratch, NULL when it could not be made */
void doctor_check_folder(struct doctor *d)
{
    const struct world *w = d->w;
    if (w->rank == 0)
        make_scratch(d);
    int n = d->scratch ? (int)strlen(d->scratch) + 1 : 0;
    MPI_Bcast(&n, 1, MPI_INT, 0, w->comm);
    if (n == 0)
        return;
    if (w->rank > 0)
        d->scratch = memory_new((size_t)n, 1);
    MPI_Bcast(d->scratch, n, MPI_CHAR, 0, w->comm);
}

/* Empties a folder of plain files and removes it. */
void doctor_remove_scratch(struct doctor *d)
{
    DIR *folder = d->scratch ? opendir(d->scratch) : NULL;
    for (struct dirent *e; folder && (e = readdir(folder));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            unlinkat(dirfd(folder), e->d_name, 0);
    if (folder)
        closedir(folder);
    if (d->scratch)
        rmdir(d->scratch);
    memory_free(d->scratch);
    d->scratch = NULL;
}

bool doctor_has_scratch(struct doctor *d)
{
    if (!d->scratch)
        doctor_say(d, DOCTOR_NOTE, "not tried: nothing can be written in the folder");
    return d->scratch != NULL;
}

char *doctor_in_scratch(const struct doctor *d, const char *name) { return memory_format("%s/%s", d->scratch, name); }

/* ---- several processes ---- */

static bool is_listed(const char *folder, const char *name)
{
    DIR *f = opendir(folder);
    bool found = false;
    for (struct dirent *e; f && !found && (e = readdir(f));)
        found = !strcmp(e->d_name, name);
    if (f)
        closedir(f);
    return found;
}

/* Seconds until the folder lists the name; INFINITY: not within `limit`. */
static double seconds_until_listed(const char *folder, const char *name, double limit)
{
    double start = doctor_seconds();
    while (!is_listed(folder, name)) {
        if (doctor_seconds() - start > limit)
            return INFINITY;
        clock_rest(0.002);
    }
    return doctor_seconds() - start;
}

/* Whether the file has these words; a moment of patience, as for the listing. */
static bool holds(const char *path, const char *words, double limit)
{
    bool same = false;
    for (double start = doctor_seconds(); !same && doctor_seconds() - start < limit;) {
        char *s = text_read_file(path, NULL);
        same = s && !strcmp(s, words);
        memory_free(s);
        if (!same)
            clock_rest(0.002);
    }
    return same;
}

/* ---- record locks of an open file description, as leases use them ---- */

/* A file that is locked until it is closed; -1 with errno: EAGAIN when another has it. */
static int lock_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fd >= 0 && fcntl(fd, F_OFD_SETLK, &whole)) {
        int error = errno;
        close(fd);
        errno = error == EACCES ? EAGAIN : error;
        fd = -1;
    }
    return fd;
}

static bool is_locked(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    bool known = fd >= 0 && fcntl(fd, F_OFD_GETLK, &whole) == 0;
    if (fd >= 0)
        close(fd);
    return known && whole.l_type != F_UNLCK;
}

/* What rank 0 publishes must be seen, whole, by the others; the lock that it takes should be, too. */
void doctor_check_shared(struct doctor *d)
{
    static const char words[] = "written by rank 0\n";
    const struct world *w = d->w;
    if (!doctor_has_scratch(d))
        return;
    char *file = doctor_in_scratch(d, "shared"), *lock_path = doctor_in_scratch(d, "shared_lock"), host[64] = "";
    gethostname(host, sizeof host - 1);
    int lock = w->rank == 0 ? lock_file(lock_path) : -1, locked = lock >= 0;
    if (w->rank == 0 && publish_bytes(file, words, sizeof words - 1) != STATUS_OK)
        doctor_say(d, DOCTOR_WRONG, "%.600s", status_text());
    MPI_Bcast(&locked, 1, MPI_INT, 0, w->comm);
    double seconds = seconds_until_listed(d->scratch, "shared", d->patience / 3);
    if (isinf(seconds) || !holds(file, words, d->patience / 6))
        doctor_say(d, DOCTOR_WRONG, "%s does not see what rank 0 has written in %s: it must lie on a file system that all nodes share",
                   host, d->dir);
    else if (w->rank > 0 && locked && !is_locked(lock_path))
        doctor_say(d, DOCTOR_NOTE, "%s does not see that rank 0 has locked a file in %s: a launch that died on another node is noticed "
                   "after its lease only (--heartbeat). To mend it mount with locks (Lustre: flock, NFS: its lock service)", host,
                   d->dir);
    else if (seconds > 0.5)
        doctor_say(d, DOCTOR_NOTE, "a new file is seen on %s after %.1f s only", host, seconds);
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, w->comm);
    if (lock >= 0)
        close(lock);
    doctor_say(d, DOCTOR_OK, "all ranks see a new file within %.0f ms%s", 1e3 * seconds,
               w->size > 1 && locked ? ", and rank 0's lock" : "");
    memory_free(lock_path);
    memory_free(file);
}

/* ---- room ---- */

void doctor_check_space(struct doctor *d)
{
    char *folder = existing_folder(d->dir);
    struct statvfs s;
    double room = limits_disk(folder);
    bool known = statvfs(folder, &s) == 0;
    if (known && s.f_files > 0 && s.f_favail < 100)
        doctor_say(d, DOCTOR_WRONG, "only %llu files can still be made in %s: remove some, or choose another folder",
                   (unsigned long long)s.f_favail, folder);
    else if (known && s.f_files > 0 && s.f_favail < 10000)
        doctor_say(d, DOCTOR_NOTE, "only %llu files can still be made in %s; a job needs one a tile (store.tile_runs makes them fewer)",
                   (unsigned long long)s.f_favail, folder);
    if (room > 0 && room < 100e6)
        doctor_say(d, DOCTOR_WRONG, "only %.0f MB are free in %s: remove something, or choose another folder", room / 1e6, folder);
    else if (room > 0 && room < 2e9)
        doctor_say(d, DOCTOR_NOTE, "only %.1f GB are free in %s; `invar plan` says what a job takes", room / 1e9, folder);
    if (!known)
        doctor_say(d, DOCTOR_NOTE, "%s: its free space cannot be read: %s", folder, strerror(errno));
    else if (s.f_files > 0)
        doctor_say(d, DOCTOR_OK, "%.1f GB and %.3g files free (quotas are not seen here)", room / 1e9, (double)s.f_favail);
    else
        doctor_say(d, DOCTOR_OK, "%.1f GB free (quotas are not seen here)", room / 1e9);
    memory_free(folder);
}

/* ---- durable files ---- */

void doctor_check_publish(struct doctor *d)
{
    enum { TIMES = 5, BYTES = 100000 };
    if (!doctor_has_scratch(d))
        return;
    char *path = doctor_in_scratch(d, "durable"), *bytes = memory_new(BYTES, 1);
    enum status status = STATUS_OK;
    double start = doctor_seconds();
    for (int i = 0; i < TIMES && status == STATUS_OK; i++)
        status = publish_bytes(path, bytes, BYTES);
    double seconds = (doctor_seconds() - start) / TIMES;
    if (status != STATUS_OK)
        doctor_say(d, DOCTOR_WRONG, "%.600s", status_text());
    else if (seconds > 0.5)
        doctor_say(d, DOCTOR_NOTE, "to make a file durable takes %.1f s: let tiles be larger (store.tile_runs) and checkpoints rarer "
                   "(store.checkpoint_every)", seconds);
    else
        doctor_say(d, DOCTOR_OK, "written, fsync, renamed, fsync of the folder: %.1f ms a file", 1e3 * seconds);
    memory_free(bytes);
    memory_free(path);
}

/* What a writing process of ours needs. */
struct writer {
    const char *folder;
    int files, times;            /* names that it writes under in turn; how often, 0: until it is killed */
};

enum { PAYLOAD = 200000 };

/* Writes sealed files of one repeated letter, published as tiles are. */
static int write_files(void *context)
{
    const struct writer *w = context;
    char *bytes = memory_new(PAYLOAD, 1);
    for (int i = 0; w->times == 0 || i < w->times; i++) {
        char *target = memory_format("%s/file%d", w->folder, i % w->files), *temporary = publish_temporary(target);
        memset(bytes, 'a' + i % 26, PAYLOAD);
        if (seal_write(temporary, bytes, PAYLOAD, "") != STATUS_OK || publish_file(temporary, target) != STATUS_OK)
            return 1;
        memory_free(temporary);
        memory_free(target);
    }
    return 0;
}

/* Whether the file is whole: one letter, all of it, and its checksum. */
static bool is_whole(const char *path)
{
    struct sealed file;
    if (seal_read(path, &file) != STATUS_OK)
        return false;
    const char *c = file.content;
    bool whole = file.length == PAYLOAD;
    for (size_t i = 0; whole && i < PAYLOAD; i++)
        whole = c[i] == c[0];
    memory_free(file.content);
    return whole;
}

/* A name that is replaced again and again must at all times be a whole file. */
void doctor_check_rename(struct doctor *d)
{
    if (!doctor_has_scratch(d))
        return;
    struct writer w = {.folder = d->scratch, .files = 1, .times = 40};
    char *path = doctor_in_scratch(d, "file0");
    int looks = 0, broken = 0, code = -1;
    if (write_files(&(struct writer){.folder = d->scratch, .files = 1, .times = 1}) == 0) {
        int child = doctor_child(write_files, &w);
        for (; doctor_lives(child); looks++)
            broken += !is_whole(path);
        code = doctor_wait(child);
    }
    if (code != 0)
        doctor_say(d, DOCTOR_WRONG, "a process could not write there: no room, or no rights?");
    else if (broken)
        doctor_say(d, DOCTOR_WRONG, "%d of %d looks found a file missing or cut while it was replaced: renaming is not atomic on this "
                   "file system; choose another folder", broken, looks);
    else
        doctor_say(d, DOCTOR_OK, "replaced %d times, whole at each of %d looks", w.times, looks);
    unlink(path);
    memory_free(path);
}

struct found {
    int whole, broken, unfinished;
};

static struct found look_at_files(const char *folder)
{
    struct found f = {0};
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char *path = memory_format("%s/%s", folder, e->d_name);
        if (!strncmp(e->d_name, "file", 4))
            *(is_whole(path) ? &f.whole : &f.broken) += 1;
        f.unfinished += !strncmp(e->d_name, ".tmp-", 5);
        memory_free(path);
    }
    if (dir)
        closedir(dir);
    return f;
}

/* A writer is killed at random moments; what lies under a proper name is whole, and the rest is swept away. */
void doctor_check_kill_safety(struct doctor *d)
{
    enum { KILLS = 12 };
    if (!doctor_has_scratch(d))
        return;
    unsigned seed = 0, left = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
        seed = (unsigned)getpid();
    unsigned state = seed;
    struct writer w = {.folder = d->scratch, .files = 3};
    struct found f = {0};
    int code = -1;
    for (int i = 0; i < KILLS && f.broken == 0 && code < 0; i++) {
        int child = doctor_child(write_files, &w);
        clock_rest(1e-5 * (rand_r(&state) % 2000));
        if (child > 0)
            kill(child, SIGKILL);
        code = doctor_wait(child);
        f = look_at_files(d->scratch);
        left += (unsigned)f.unfinished;
        publish_remove_strays(d->scratch, "");
    }
    if (code >= 0)
        doctor_say(d, DOCTOR_WRONG, "a process could not write there: no room, or no rights?");
    else if (f.broken)
        doctor_say(d, DOCTOR_WRONG, "%d files are broken after their writer was killed (seed %u): this file system keeps a name before "
                   "its content; choose another folder", f.broken, seed);
    else if (look_at_files(d->scratch).unfinished)
        doctor_say(d, DOCTOR_WRONG, "unfinished files cannot be removed from %s", d->dir);
    else
        doctor_say(d, DOCTOR_OK, "a writer killed %d times: all files whole, %u unfinished ones removed", KILLS, left);
}

/* ---- locks ---- */

enum { LOCK_GOT, LOCK_TAKEN, LOCK_BROKEN };

static int try_lock(void *path) { return lock_file(path) >= 0 ? LOCK_GOT : errno == EAGAIN ? LOCK_TAKEN : LOCK_BROKEN; }

static int keep_lock(void *path)
{
    int got = try_lock(path);
    while (got == LOCK_GOT)
        pause();
    return got;
}

static bool wait_for_lock(const struct doctor *d, const char *path, bool locked)
{
    for (double start = doctor_seconds(); is_locked(path) != locked && doctor_seconds() - start < d->patience / 6;)
        clock_rest(0.001);
    return is_locked(path) == locked;
}

/* One process locks, another tries, the first is killed, the other tries again. */
void doctor_check_locks(struct doctor *d)
{
    if (!doctor_has_scratch(d))
        return;
    char *path = doctor_in_scratch(d, "lock");
    int works = doctor_wait(doctor_child(try_lock, path)), holder = doctor_child(keep_lock, path);
    bool seen = works == LOCK_GOT && wait_for_lock(d, path, true);
    int meanwhile = seen ? doctor_wait(doctor_child(try_lock, path)) : LOCK_TAKEN;
    if (holder > 0)
        kill(holder, SIGKILL);
    doctor_wait(holder);
    bool dropped = !seen || wait_for_lock(d, path, false);
    if (works != LOCK_GOT)
        doctor_say(d, DOCTOR_NOTE, "files cannot be locked there: a launch that died is noticed after its lease only (--heartbeat). To "
                   "mend it mount with locks (Lustre: flock, NFS: its lock service)");
    else if (!seen || meanwhile == LOCK_GOT)
        doctor_say(d, DOCTOR_WRONG, "a second process gets the lock that the first one holds: two launches could work there at once. "
                   "Choose another folder, or mount it with locks (Lustre: flock, NFS: its lock service)");
    else if (!dropped)
        doctor_say(d, DOCTOR_WRONG, "the lock of a killed process stays: the folder would be in use for ever. Choose another folder");
    else
        doctor_say(d, DOCTOR_OK, "one process at a time, and free again when its holder is killed");
    memory_free(path);
}

/* ---- listing ---- */

static int make_file(void *context) { return publish_bytes(context, "x", 1) == STATUS_OK ? 0 : 1; }

void doctor_check_listing(struct doctor *d)
{
    if (!doctor_has_scratch(d))
        return;
    char *path = doctor_in_scratch(d, "listed");
    int code = is_listed(d->scratch, "listed") ? 1 : doctor_wait(doctor_child(make_file, path));
    double seconds = code == 0 ? seconds_until_listed(d->scratch, "listed", d->patience / 3) : INFINITY;
    if (isinf(seconds))
        doctor_say(d, DOCTOR_WRONG, "a file that another process has made is not listed within %g s: finished runs would be trained "
                   "twice; choose another folder", d->patience / 3);
    else if (seconds > 0.5)
        doctor_say(d, DOCTOR_NOTE, "a file that another process has made is listed after %.1f s only", seconds);
    else
        doctor_say(d, DOCTOR_OK, "a file of another process is listed at once");
    memory_free(path);
}
