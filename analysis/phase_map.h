/* phase_map.h: phase_map.nc, the order parameters of runs.nc on the job's axes. */
#ifndef INVAR_ANALYSIS_PHASE_MAP_H
#define INVAR_ANALYSIS_PHASE_MAP_H

#include "base/status.h"
#include "job/job.h"
#include "store/store.h"

/* Writes DIR/phase_map.nc from DIR/runs.nc when the job has axes (otherwise does nothing). One rank only.
 * Per grid point: outcome by majority (ties: the worse outcome) and its share; mean, standard deviation and count over seeds of
 * every scalar of runs.nc, over the runs where it is finite. */
enum status phase_map_write(struct store *store, const struct job *job);

#endif
