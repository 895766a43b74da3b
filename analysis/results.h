/* results.h: the files of one gathered folder, open for the figures and the report. */
#ifndef INVAR_ANALYSIS_RESULTS_H
#define INVAR_ANALYSIS_RESULTS_H

#include "base/status.h"
#include "job/job.h"
#include "store/ncfile.h"

#include <stddef.h>

struct results {
    const struct job *job;
    struct ncfile *runs, *cross, *map;     /* runs.nc; cross_run.nc and phase_map.nc, NULL where they are not there */
    size_t n;                              /* runs of the job; of a refined map those that were trained */
    double *seed, *outcome;                /* [n]; outcome NAN where the run is missing */
};

/* out: *r, to be closed also on failure   fails: STATUS_IO, STATUS_CORRUPT */
enum status results_open(const char *dir, const struct job *job, struct results *r);
/* The first error that reading met. */
enum status results_close(struct results *r);

/* A variable, NAN where it has no value; NULL when file or variable are not there. memory_free. */
double *results_get(struct ncfile *f, const char *name);
/* Whether the variable is there and has a finite value. */
int results_has(struct ncfile *f, const char *name);

/* Smallest and largest finite of n values, and how many are finite (0: low and high are NAN). */
struct range { double low, high; size_t n; };
struct range results_range(const double *x, size_t n);
/* The value that all finite ones share, or NAN. */
double results_constant(const double *x, size_t n);

#endif
