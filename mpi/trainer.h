/* trainer.h: the work of a rank: trains the missing runs of a tile, keeps its checkpoint, publishes it. No MPI in here. */
#ifndef INVAR_MPI_TRAINER_H
#define INVAR_MPI_TRAINER_H

#include "job/job.h"
#include "job/plan.h"
#include "mpi/worker.h"
#include "run/group.h"
#include "store/store.h"

struct trainer {
    const struct job *job;
    const struct plan *plan;
    struct store *store;
    int rank;                /* of this process */
    const bool *missing;     /* [runs of the job] to be trained */
    const size_t *open;      /* open tile -> tile of the plan */
    struct group *group;     /* for runs that are trained side by side */
};

/* For struct work, with a struct trainer as context.
 *
 * A run that cannot be trained becomes a FAILED record; when it is the machine that cannot, the tile fails instead. A
 * checkpoint that cannot be written is said in the log and the training goes on. A tile that cannot be published fails; what
 * it holds is then kept as a checkpoint if that can be written. Runs that the store has already are left alone. */
enum work_end trainer_tile(void *context, size_t tile, struct worker *w);

#endif
