/* cross_run.h: cross_run.nc: canonical correlations, overlaps and the consensus of all pairs of runs. */
#ifndef INVAR_ANALYSIS_CROSS_RUN_H
#define INVAR_ANALYSIS_CROSS_RUN_H

#include "analysis/gather.h"

/* Writes DIR/cross_run.nc from the last probe of every DONE run that kept core coordinates. With fewer than two such
 * runs nothing is written, and the log says so.   collective over comm */
enum status cross_run_write(MPI_Comm comm, struct store *store, const struct job *job, const struct gather_hooks *hooks);

#endif
