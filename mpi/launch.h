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
    bool retry_quarantined;      /* strikes of earlier launches are forgotten */
    int max_failures;            /* stops after so many FAILED runs and tiles; 0: never */
    double heartbeat;            /* a rank that is silent for so many seconds is lost */
    int part, parts;             /* trains the tiles t of the plan with t mod parts == part - 1; 0, 0: all */
    double seconds_left;         /* until the time limit; INFINITY: none */
};

struct launch_result {
    size_t runs;                          /* of the job */
    size_t outcome[OUTCOME_COUNT];        /* runs in the store by outcome */
    size_t missing;                       /* runs that the store lacks; of a part: of its own tiles */
    size_t missing_elsewhere;             /* runs that other parts have not finished by the end of this launch */
    size_t tiles_failed, tiles_quarantined;
    int ranks_lost;
};

/* Trains every run of the job that the store lacks. All ranks return together, but those that were lost: then w is broken,
 * rank 0 goes on alone and the others have to leave the program.
 * in: store, opened on rank 0 and joined on the others; options of rank 0 count
 * out: *result, filled on rank 0, also on failure
 * collective over w->comm, with the same job
 * fails, on all ranks alike: STATUS_STOPPED (time limit or signal), STATUS_LOCKED (another launch has taken the folder over),
 * STATUS_RUNS_FAILED (options->max_failures), STATUS_IO (tiles could not be finished, mostly for want of
 * room on the disk; everything else was done), STATUS_ENVIRONMENT (the job does not fit into memory). FAILED runs and
 * quarantined tiles are in *result. */
enum status launch_train(struct world *w, struct store *store, const struct job *job,
                         const struct launch_options *options, struct launch_result *result);

#endif
