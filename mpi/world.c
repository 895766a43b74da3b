#include "mpi/world.h"

#include "mpi/peers.h"
#include "mpi/startup_guard.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A whole number in the environment, or `otherwise`. */
static long environment(const char *name, long otherwise)
{
    const char *s = getenv(name);
    char *end;
    if (!s || !*s)
        return otherwise;
    long v = strtol(s, &end, 10);
    return *end ? otherwise : v;
}

int world_mpirun(void) { return environment("OMPI_COMM_WORLD_SIZE", 0) > 0; }

/* Tasks of the srun step this process belongs to; 0 in a batch script, where SLURM_NTASKS speaks of the allocation. */
static long srun_tasks(void) { return environment("SLURM_STEP_NUM_TASKS", 0); }

int world_launched_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        long rank = environment(names[i], -1);
        if (rank >= 0)
            return (int)rank;
    }
    return srun_tasks() > 1 ? (int)environment("SLURM_PROCID", 0) : 0;
}

int world_launched_size(void)
{
    long ranks = environment("OMPI_COMM_WORLD_SIZE", environment("SLURM_NTASKS", 0));
    return ranks > 0 ? (int)ranks : 0;
}

int world_launched(void)
{
    return world_mpirun() || getenv("PMIX_RANK") || getenv("PMI_RANK") || srun_tasks() > 1;
}

static int threads_asked;

int world_threads_asked(void) { return threads_asked; }

typedef void set_threads(int n);

/* The threads of a BLAS that is already loaded cannot be set by environment variables any more; these are for children. */
static void one_thread(void)
{
    static const char *const setters[] = {"openblas_set_num_threads", "omp_set_num_threads", "MKL_Set_Num_Threads",
                                          "bli_thread_set_num_threads"};
    long omp = environment("OMP_NUM_THREADS", 0), blas = environment("OPENBLAS_NUM_THREADS", 0);
    threads_asked = (int)(omp > blas ? omp : blas);
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    for (size_t i = 0; i < sizeof setters / sizeof *setters; i++) {
        void *symbol = dlsym(RTLD_DEFAULT, setters[i]);
        set_threads *set;
        memcpy(&set, &symbol, sizeof set);
        if (symbol)
            set(1);
    }
}

/* srun without a PMI that this MPI speaks starts N programs that all believe they are rank 0 of 1. */
static enum status check_singletons(int size)
{
    if (size > 1 || world_mpirun())
        return STATUS_OK;
    long tasks = srun_tasks(), number = environment("SLURM_PROCID", 0);
    if (tasks <= 1 && number == 0)
        return STATUS_OK;
    return status_fail(STATUS_ENVIRONMENT,
                       "srun started %ld tasks, but MPI sees only one: each would train everything. Start with "
                       "`srun --mpi=pmix` (`srun --mpi=list` shows what is there) or with mpirun inside the allocation",
                       tasks > 1 ? tasks : environment("SLURM_NTASKS", 2));
}

enum status world_check_start(void)
{
    if (srun_tasks() <= 1 || world_mpirun() || getenv("PMIX_RANK") || getenv("PMI_RANK") || getenv("PMI_FD"))
        return STATUS_OK;
    return status_fail(STATUS_ENVIRONMENT, "MPI is not started: srun has given its %ld tasks no way to find each other. Start with "
                       "`srun --mpi=pmix` (`srun --mpi=list` shows what is there) or with mpirun inside the allocation",
                       srun_tasks());
}

enum status world_open(int *argc, char ***argv, struct world *w)
{
    int provided = 0;
    if (!world_launched()) {     /* a program started alone needs no helper daemon */
        setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
        setenv("OMPI_MCA_pml", "ob1", 0);        /* nor a search for networks, which takes a quarter of a second */
        setenv("OMPI_MCA_btl", "self", 0);
        if (srun_tasks() == 1)   /* a shell that srun has started: Open MPI would look for srun's PMI, and give up */
            unsetenv("SLURM_NODELIST");
    }
    one_thread();
    startup_guard_start((int)environment("OMPI_COMM_WORLD_LOCAL_SIZE", 0));
    MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_dup(MPI_COMM_WORLD, &w->comm);
    MPI_Comm_rank(w->comm, &w->rank);
    MPI_Comm_size(w->comm, &w->size);
    MPI_Comm node;
    MPI_Comm_split_type(w->comm, MPI_COMM_TYPE_SHARED, w->rank, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &w->node_ranks);
    MPI_Comm_free(&node);
    w->peers = peers_new(w->comm);
    startup_guard_stop();
    w->broken = false;
    if (provided < MPI_THREAD_SERIALIZED && w->size > 1)
        return status_fail(STATUS_ENVIRONMENT, "this MPI was built without threads (MPI_THREAD_SERIALIZED): rank 0 trains "
                                               "and coordinates at once. Use a build with threads");
    return check_singletons(w->size);
}

void world_break(struct world *w)
{
    MPI_Comm_dup(MPI_COMM_SELF, &w->comm);
    w->size = w->node_ranks = 1;
    w->broken = true;
}

void world_close(struct world *w)
{
    peers_guard_stop();
    peers_free(w->peers);
    MPI_Comm_free(&w->comm);
    if (!w->broken)
        MPI_Finalize();
}
