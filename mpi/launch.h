/* launch.h: the training stage over all ranks: what the store lacks, handed out, trained, published. */
#ifndef INVAR_MPI_LAUNCH_H
#define INVAR_MPI_LAUNCH_H

#include "base/status.h"
#include "job/job.h"
#include "job/outcome.h"
#include "mpi/world.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>

struct launch_options {
    bool quiet;
    bool retry_failed;           /* FAILED runs are trained anew */
    double seconds_left;         /* until the time limit; INFINITY: none */
};

struct launch_result {
    size_t runs;                          /* of the job */
    size_t outcome[OUTCOME_COUNT];        /* runs in the store by outcome */
    size_t missing;                       /* runs that the store lacks */
    size_t tiles_failed, tiles_quarantined;
};

/* Trains every run of the job that the store lacks. All ranks return together.
 * in: store, opened on rank 0 and joined on the others; options of rank 0 count
 * out: *result, filled on rank 0, also on failure
 * collective over w->comm, with the same job
 * fails, on all ranks alike: STATUS_STOPPED (time limit or signal), STATUS_IO (tiles could not be finished, mostly for want of
 * room on the disk; everything else was done), STATUS_ENVIRONMENT (the job does not fit into memory). FAILED runs and
 * quarantined tiles are in *result. */
enum status launch_train(const struct world *w, struct store *store, const struct job *job,
                         const struct launch_options *options, struct launch_result *result);

#endif
