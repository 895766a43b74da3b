#include "store/lock.h"

#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct lock {
    int fd;
};

/* 0, or errno. Kernels and file systems without OFD locks get the older kind, which the process owns: it holds as well
 * here, since no other part of the program opens the file. */
static int try_lock(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &whole) == 0)
        return 0;
    if (errno == EINVAL || errno == ENOTSUP || errno == ENOSYS) {
        whole = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fcntl(fd, F_SETLK, &whole) == 0)
            return 0;
    }
    return errno;
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

/* Says who holds it. The lock holds without these words, so a disk that is full is no reason to fail. */
static void write_holder(int fd)
{
    char host[128] = "", stamp[32];
    time_t now = time(NULL);
    struct tm tm;
    gethostname(host, sizeof host - 1);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    struct text t = {0};
    text_add(&t, "process %ld on %s since %s: ", (long)getpid(), host, stamp);
    add_command(&t);
    text_add(&t, "\n");
    if (ftruncate(fd, 0) == 0 && pwrite(fd, text_string(&t), t.length, 0) < 0)
        errno = 0;
    text_free(&t);
}

/* The holder writes its name just after it has taken the lock: give it a moment. */
static void read_holder(int fd, char *text, size_t size)
{
    ssize_t n = 0;
    for (int i = 0; i < 50 && n <= 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        n = pread(fd, text, size - 1, 0);
    }
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

enum status lock_take(const char *path, struct lock **lock)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return status_fail(STATUS_IO, "%s: cannot be opened: %s", path, strerror(errno));
    int error = try_lock(fd);
    if (error == 0) {
        write_holder(fd);
        *lock = memory_new(1, sizeof **lock);
        (*lock)->fd = fd;
        return STATUS_OK;
    }
    enum status s;
    if (error == EAGAIN || error == EACCES) {
        char holder[600];
        read_holder(fd, holder, sizeof holder);
        s = status_fail(STATUS_LOCKED, "%s: the folder is in use by %s; wait for it to end, or choose another folder "
                        "(-o)", path, *holder ? holder : "a process that has not said its name");
    } else
        s = status_fail(STATUS_IO, "%s: cannot be locked: %s; the output folder must lie on a file system with locks "
                        "(Lustre: mounted with flock, NFS: with a lock service): choose another one (-o)", path,
                        strerror(error));
    close(fd);
    return s;
}

void lock_release(struct lock *lock)
{
    if (!lock)
        return;
    if (ftruncate(lock->fd, 0))
        errno = 0;
    close(lock->fd);
    memory_free(lock);
}

int lock_is_held(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return 0;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int known = fcntl(fd, F_OFD_GETLK, &whole) == 0;
    if (!known) {
        whole = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
        known = fcntl(fd, F_GETLK, &whole) == 0;
    }
    close(fd);
    return known && whole.l_type != F_UNLCK;
}
