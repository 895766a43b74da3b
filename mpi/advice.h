/* advice.h: what about the way in which this launch was started is not as it should be, and the fix. */
#ifndef INVAR_MPI_ADVICE_H
#define INVAR_MPI_ADVICE_H

#include "base/text.h"
#include "mpi/world.h"

/* What is known of the start; pure facts, so that the advice is tested without a cluster. */
struct advice_facts {
    int size, node_ranks;        /* ranks in all, and on this machine */
    int cores;                   /* that the ranks of this machine may use together; 0: unknown */
    int tasks;                   /* of the SLURM job; 0: none */
    int cpus_per_task;           /* of SLURM; 0: unknown */
    int threads;                 /* OMP_NUM_THREADS or OPENBLAS_NUM_THREADS as the program was started; 0: not set */
    bool yields;                 /* idle ranks give their core away (mpi_yield_when_idle) */
};

/* A line for each thing that is not as it should be. */
void advice_add(struct text *t, const struct advice_facts *f);

/* Gathers the facts, and warns in the log on rank 0.   collective over w->comm */
void advice_give(const struct world *w);
/* "SLURM job 12, restart 2; the launch before ended with exit code 75", on a restart; "" otherwise. `before`: what
 * progress.json of the launch before says, NULL when there is none. */
void advice_add_restart(struct text *t, const char *before);

#endif
