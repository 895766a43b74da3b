/* broken.c: a library to be preloaded that breaks things, as a bad machine, library or file system would; BROKEN names them,
 * each between blanks. For test_doctor.sh (what doctor does not find there, it does not find) and test_exit_codes.sh. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <mpi.h>
#include <netcdf.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int broken(const char *what)
{
    const char *b = getenv("BROKEN"), *at = b ? strstr(b, what) : NULL;
    size_t n = strlen(what);
    return at && (at == b || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0');
}

static int is_second(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank && !strcmp(rank, "1");
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* ---- the file system ---- */

int fsync(int fd)
{
    errno = EIO;
    return broken("fsync") ? -1 : REAL(fsync)(fd);
}

char *mkdtemp(char *name)
{
    errno = EROFS;
    return broken("folder") ? NULL : REAL(mkdtemp)(name);
}

/* The name is there before the content. */
static int slow_rename(const char *from, const char *to)
{
    char buffer[20000];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ssize_t n;
    while ((n = read(in, buffer, sizeof buffer)) > 0) {
        if (write(out, buffer, (size_t)n) != n)
            return -1;
        usleep(500);
    }
    close(in), close(out);
    return unlink(from);
}

int rename(const char *from, const char *to) { return broken("rename") ? slow_rename(from, to) : REAL(rename)(from, to); }

static int locking(int fd, int command, void *argument)
{
    errno = ENOTSUP;
    if (command == F_OFD_SETLK && broken("locks"))
        return 0;
    if (command == F_OFD_SETLK && broken("no_locks"))
        return -1;
    return REAL(fcntl)(fd, command, argument);
}

int fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *argument = va_arg(args, void *);
    va_end(args);
    return locking(fd, command, argument);
}

int fcntl64(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *argument = va_arg(args, void *);
    va_end(args);
    return locking(fd, command, argument);
}

/* A listing that stays old: everywhere, or on another node. */
struct dirent *readdir(DIR *d)
{
    struct dirent *e = REAL(readdir)(d);
    while (e && ((broken("listing") && !strcmp(e->d_name, "listed")) ||
                 (broken("shared") && is_second() && !strcmp(e->d_name, "shared"))))
        e = REAL(readdir)(d);
    return e;
}

int statvfs(const char *path, struct statvfs *s)
{
    int code = REAL(statvfs)(path, s);
    if (broken("space"))
        s->f_bavail = 10;
    if (broken("inodes"))
        s->f_files = 1000, s->f_favail = 10;
    return code;
}

int nc_create(const char *path, int mode, int *id)
{
    return broken("hdf5") && strstr(path, "locking") ? -101 : REAL(nc_create)(path, mode, id);
}

/* ---- MPI ---- */

int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    int code = PMPI_Allreduce(in, out, n, type, op, comm);
    if (broken("sum") && type == MPI_DOUBLE)
        *(double *)out += 1;
    return code;
}

int MPI_Sendrecv(const void *out, int n, MPI_Datatype type, int to, int tag, void *in, int m, MPI_Datatype type_in, int from,
                 int tag_in, MPI_Comm comm, MPI_Status *status)
{
    if (broken("hang") && is_second())
        pause();
    int code = PMPI_Sendrecv(out, n, type, to, tag, in, m, type_in, from, tag_in, comm, status);
    if ((broken("message") && m == 1) || (broken("large") && m > 1000))
        ((char *)in)[m / 2] ^= 1;
    return code;
}

/* ---- BLAS and ScaLAPACK ---- */

int openblas_get_num_threads(void) { return broken("threads") ? 4 : 1; }

char *openblas_get_config(void)
{
    char *(*real)(void) = (char *(*)(void))dlsym(RTLD_NEXT, "openblas_get_config");
    return broken("libraries") && is_second() ? "OpenBLAS 9.9.9" : real();
}

/* A first singular value that is a little off, or has another last bit from call to call. */
void pdgesvd_(const char *job_u, const char *job_vt, const int *m, const int *n, double *a, const int *ia, const int *ja,
              const int *desc_a, double *s, double *u, const int *iu, const int *ju, const int *desc_u, double *vt,
              const int *ivt, const int *jvt, const int *desc_vt, double *work, const int *lwork, int *info,
              size_t length_u, size_t length_vt)
{
    static int calls;
    REAL(pdgesvd_)(job_u, job_vt, m, n, a, ia, ja, desc_a, s, u, iu, ju, desc_u, vt, ivt, jvt, desc_vt, work, lwork, info,
                   length_u, length_vt);
    if (*lwork > 0 && broken("svd"))
        s[0] *= 1 + 1e-9;
    if (*lwork > 0 && broken("bits") && calls++ % 2)
        s[0] = nextafter(s[0], 1e9);
}

/* A probe that cannot do its work: its run FAILED. */
int LAPACKE_dgeqrf(int layout, int m, int n, double *a, int lda, double *tau)
{
    int (*real)(int, int, int, double *, int, double *) = dlsym(RTLD_NEXT, "LAPACKE_dgeqrf");
    return broken("lapack") ? 3 : real(layout, m, n, a, lda, tau);
}

/* ---- signals ---- */

int sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    return REAL(sigaction)(number, broken("signals") && number == SIGUSR1 && new ? &ignore : new, old);
}
