/* runs.h: runs.nc, one row per finished run of the job. */
#ifndef INVAR_ANALYSIS_RUNS_H
#define INVAR_ANALYSIS_RUNS_H

#include "base/status.h"
#include "job/job.h"
#include "store/store.h"

/* Writes DIR/runs.nc from the tiles. One rank only. Runs that the store lacks have outcome _FillValue.
 * fails: STATUS_IO */
enum status runs_write(struct store *store, const struct job *job);

#endif
