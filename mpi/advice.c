#include "mpi/advice.h"

#include "base/log.h"
#include "base/memory.h"
#include "mpi/limits.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static int number(const char *name)
{
    const char *s = getenv(name);
    int v = s ? atoi(s) : 0;
    return v > 0 ? v : 0;
}

void advice_add(struct text *t, const struct advice_facts *f)
{
    if (f->cores && f->node_ranks > f->cores)
        text_add(t, "%d ranks share %d core%s of this machine: nothing is gained by more ranks than cores (mpirun -n %d, or "
                 "--ntasks-per-node=%d)%s\n", f->node_ranks, f->cores, f->cores == 1 ? "" : "s", f->cores, f->cores,
                 f->yields ? "" : "; if it is meant, set OMPI_MCA_mpi_yield_when_idle=1, or waiting ranks hold up the others");
    if (f->tasks > 1 && f->size == 1)
        text_add(t, "the SLURM job has %d tasks, but this program runs alone on one core: start it with srun --mpi=pmix or with "
                 "mpirun\n", f->tasks);
    else if (f->tasks > f->size)
        text_add(t, "the SLURM job has %d tasks, but only %d ranks were started: the other cores are idle\n", f->tasks, f->size);
    if (f->cpus_per_task > 1)
        text_add(t, "a task has %d cores (--cpus-per-task) and uses one: more tasks with --cpus-per-task=1 use them all\n",
                 f->cpus_per_task);
    if (f->threads > 1)
        text_add(t, "OMP_NUM_THREADS or OPENBLAS_NUM_THREADS asks for %d threads a rank: ranks are the parallelism here, each "
                 "works with one (set them to 1)\n", f->threads);
}

/* Cores that any rank of this machine may run on, and not more than the control group's share of time. */
static int cores_of_machine(const struct world *w)
{
    cpu_set_t mine, all;
    MPI_Comm node;
    CPU_ZERO(&mine);
    CPU_ZERO(&all);
    if (sched_getaffinity(0, sizeof mine, &mine))
        return 0;
    MPI_Comm_split_type(w->comm, MPI_COMM_TYPE_SHARED, w->rank, MPI_INFO_NULL, &node);
    MPI_Allreduce(&mine, &all, sizeof mine, MPI_BYTE, MPI_BOR, node);
    MPI_Comm_free(&node);
    double share = limits_cores();
    int cores = CPU_COUNT(&all);
    return share > 0 && ceil(share) < cores ? (int)ceil(share) : cores;
}

void advice_give(const struct world *w)
{
    const char *yield = getenv("OMPI_MCA_mpi_yield_when_idle");
    struct advice_facts f = {.size = w->size, .node_ranks = w->node_ranks, .cores = cores_of_machine(w),
                             .tasks = number("SLURM_NTASKS"), .cpus_per_task = number("SLURM_CPUS_PER_TASK"),
                             .threads = world_threads_asked(), .yields = yield && *yield == '1'};
    struct text t = {0};
    if (w->rank != 0)
        return;
    advice_add(&t, &f);
    for (char *line = t.length ? t.s : NULL; line && *line;) {
        char *end = strchr(line, '\n');
        *end = '\0';
        log_line(LOG_WARNING, "%s", line);
        line = end + 1;
    }
    text_free(&t);
}

void advice_add_restart(struct text *t, const char *before)
{
    const char *job = getenv("SLURM_JOB_ID"), *code = before ? strstr(before, "\"exit_code\": ") : NULL;
    if (!job || number("SLURM_RESTART_COUNT") == 0)
        return;
    text_add(t, "SLURM job %s, restart %d; the launch before ", job, number("SLURM_RESTART_COUNT"));
    if (code)
        text_add(t, "ended with exit code %d", atoi(code + strlen("\"exit_code\": ")));
    else if (before)
        text_add(t, "ended without a word (killed, or its node failed)");
    else
        text_add(t, "had not begun to train");
}
