/* gather.h: the collective stage, from the tiles of a store to runs.nc, cross_run.nc and phase_map.nc.
 *
 * This folder reads files and knows no model. What needs the model again (the consensus ablation) is a hook that the
 * program fills in.
 */
#ifndef INVAR_ANALYSIS_GATHER_H
#define INVAR_ANALYSIS_GATHER_H

#include "base/status.h"
#include "job/job.h"
#include "store/store.h"

#include <mpi.h>

struct gather_hooks {
    void *context;
    /* Accuracy of run `run` (its record is given) when only the span of the consensus is kept in, or is removed from, the
     * probed layer. consensus: [samples][dim], orthonormal columns in the space of the probe inputs; it is mapped back
     * to the layer by least squares. Local to the calling rank. */
    enum status (*ablate)(void *context, const struct job *job, size_t run, const struct record *r,
                          const double *consensus, size_t samples, int dim, double *keep, double *removed);
};

/* Writes everything that the job asks for. Rank 0 holds the store; the other ranks pass a joined one.
 * collective over comm (any size; ranks outside the process grid are legal)
 * repeats: the same bits for any size of comm
 * fails: STATUS_USAGE when the job's grid needs more ranks than there are; STATUS_NUMERIC, STATUS_IO; on all ranks alike */
enum status gather(MPI_Comm comm, struct store *store, const struct job *job, const struct gather_hooks *hooks);

#endif
