/* report.h: figures (SVG and PNG, by gnuplot) and one self-contained report.html with the claims table. */
#ifndef INVAR_ANALYSIS_REPORT_H
#define INVAR_ANALYSIS_REPORT_H

#include "base/status.h"
#include "job/job.h"
#include "store/store.h"

/* Writes DIR/figures/ and DIR/report.html from runs.nc, cross_run.nc and phase_map.nc. Starts gnuplot: to be called after
 * MPI_Finalize or by a program without MPI. Without gnuplot the report is written without pictures and says so.
 * out: *claims_failed = number of claims that do not hold or are unknown
 * fails: STATUS_IO, STATUS_ENVIRONMENT */
enum status report_write(struct store *store, const struct job *job, int *claims_failed);

#endif
