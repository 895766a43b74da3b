/* doctor.h: is this machine, this MPI, this folder fit for the work? Checks by known answers, a small function each.
 *
 * The checks of all ranks come first, in the order of the table; they may communicate. Those of rank 0 alone come when MPI has
 * ended, since they start processes of their own. A check says what it saw with doctor_say; the worst that any rank
 * said is printed. None can hang: each has a time limit, kept by an alarm that says which check it was and ends the program.
 */
#ifndef INVAR_MPI_DOCTOR_H
#define INVAR_MPI_DOCTOR_H

#include "mpi/options.h"
#include "mpi/world.h"

#include <stdbool.h>
#include <stddef.h>

/* CHECK(name, who, what to do when it gives no answer) */
#define DOCTOR_TABLE(CHECK) \
    CHECK(mpi_start, ALL, "MPI_Init does not return. Is a rank stopped or a node unreachable? Try OMPI_MCA_btl=tcp,self; " \
                          "`mpirun --mca btl_base_verbose 30` shows more") \
    CHECK(launch, ALL, "MPI does not bring the ranks together" DOCTOR_NETWORK) \
    CHECK(program, ALL, "MPI_Bcast does not return" DOCTOR_NETWORK) \
    CHECK(mpi_threads, ALL, "MPI does not answer") \
    CHECK(mpi_sum, ALL, "MPI_Allreduce does not return" DOCTOR_NETWORK) \
    CHECK(mpi_pairs, ALL, "a message between two ranks does not arrive" DOCTOR_NETWORK) \
    CHECK(mpi_large, ALL, "large messages do not arrive" DOCTOR_NETWORK) \
    CHECK(cores, ALL, "MPI_Allgather does not return" DOCTOR_NETWORK) \
    CHECK(threads, ALL, "the BLAS does not answer") \
    CHECK(blas, ALL, "the BLAS does not answer: try another one (update-alternatives, modules)") \
    CHECK(scalapack, ALL, "a factorisation does not end: ScaLAPACK and MPI do not fit each other (is it built for this MPI?)") \
    CHECK(repeatable, ALL, "a factorisation does not end: ScaLAPACK and MPI do not fit each other (is it built for this MPI?)") \
    CHECK(philox, ALL, "the processor is extremely slow") \
    CHECK(float_mode, ALL, "the processor is extremely slow") \
    CHECK(kernels, ALL, "a small training does not end: is the machine overloaded? Choose another instruction set with INVAR_ISA") \
    CHECK(signals, ALL, "the ranks do not meet again after SIGUSR1: mpirun may have taken it for itself") \
    CHECK(clock, ALL, "the clock stands still") \
    CHECK(memory, ALL, "the limits of this process cannot be read") \
    CHECK(slurm, ALL, "the environment cannot be read") \
    CHECK(folder, ALL, "the folder's file system does not answer: choose another one") \
    CHECK(shared, ALL, "the folder's file system does not answer on some node: choose another one") \
    CHECK(mpi_end, FIRST, "MPI_Finalize does not return. Results are safe all the same: they are written before. Run `invar " \
                          "doctor` without mpirun for the checks that follow") \
    CHECK(space, FIRST, "the folder's file system does not answer: choose another one") \
    CHECK(netcdf, FIRST, "the NetCDF library does not answer") \
    CHECK(publish, FIRST, "fsync does not return: the file system is overloaded or its server gone") \
    CHECK(rename, FIRST, "renaming does not return: the file system is overloaded or its server gone") \
    CHECK(kill_safety, FIRST, "the file system is overloaded or its server gone") \
    CHECK(locks, FIRST, "a file lock does not return: the lock service of the file server does not answer (NFS: lockd)") \
    CHECK(listing, FIRST, "the folder's file system does not answer: choose another one") \
    CHECK(hdf5, FIRST, "HDF5 waits for a file lock: export HDF5_USE_FILE_LOCKING=FALSE") \
    CHECK(gnuplot, FIRST, "gnuplot does not end")
#define DOCTOR_NETWORK ": try OMPI_MCA_btl=tcp,self, and OMPI_MCA_btl_tcp_if_include=IF with the network that joins the nodes"

enum doctor_verdict { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_WRONG };

struct doctor {
    const struct options *options;
    const struct world *w;           /* NULL when MPI has ended */
    bool speaks;                     /* this rank prints */
    double patience;                 /* seconds that a check may take; waits inside it take less */
    const char *dir;                 /* where output shall lie */
    char *scratch;                   /* a folder of our own in it, equal on all ranks; NULL: it could not be made */
    /* what the present check has said on this rank */
    enum doctor_verdict verdict;
    char said[1024];
};

/* Says what a check saw: the worst verdict counts; of one verdict all that is said, in one line. */
void doctor_say(struct doctor *d, enum doctor_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* To be called before MPI is started: notes the environment as it was, and sets the alarm for MPI's start.
 * fails: STATUS_ENVIRONMENT when MPI cannot be started here; all is then said */
enum status doctor_begin(const struct options *o, bool speaks);
/* Threads that the environment asked for before this program set its own: the value of OMP_NUM_THREADS (0), of
 * OPENBLAS_NUM_THREADS (1), of MKL_NUM_THREADS (2); "" when not set. */
const char *doctor_asked_threads(int which);
/* Seconds since the present check began. */
double doctor_seconds(void);

/* Starts a process that runs `run(context)` and ends with what it returns, and that dies with this one; its number, or -1. Not
 * while MPI is up. */
int doctor_child(int (*run)(void *context), void *context);
/* Waits for it.   returns its exit code, or -1 when a signal ended it */
int doctor_wait(int child);

bool doctor_lives(int child);

/* Whether there is a folder to try things in; says that nothing was tried when there is none. */
bool doctor_has_scratch(struct doctor *d);
char *doctor_in_scratch(const struct doctor *d, const char *name);       /* a path there; memory_free */
/* Leaves the output folder as it was; to be called by the rank that has made the scratch folder. */
void doctor_remove_scratch(struct doctor *d);

/* Each check; with ALL collective over d->w. */
#define CHECK(name, who, hint) void doctor_check_##name(struct doctor *d);
DOCTOR_TABLE(CHECK)
#undef CHECK

#endif
