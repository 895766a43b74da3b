/* values.h: arrays with named, labelled dimensions, for the arithmetic of claims.
 *
 * Two arrays meet by the names of their dimensions, as in xarray: a dimension that one of them lacks is repeated, one
 * that both have is cut to the labels that both have (the runs that a cross-run analysis left out drop out). NAN is "no
 * value" and stays so through every operation; a result that is not finite becomes NAN. Everything lives in an arena.
 */
#ifndef INVAR_ANALYSIS_VALUES_H
#define INVAR_ANALYSIS_VALUES_H

#include "base/memory.h"
#include "store/ncfile.h"

#include <stddef.h>

#define VALUES_RANK_MAX 10

struct values {
    int rank;
    const char *dim[VALUES_RANK_MAX];
    size_t length[VALUES_RANK_MAX];
    const double *label[VALUES_RANK_MAX];    /* [length], ascending: the dimension's coordinate, or 0, 1, 2, ... */
    size_t count;                            /* product of the lengths; 1 for a number */
    double *x;                               /* slowest dimension first */
};

struct values *values_number(struct arena *a, double x);
/* A variable of a file. Of an array over pairs (dimensions run and run_other) only pairs run < run_other have values. */
struct values *values_load(struct arena *a, struct ncfile *f, const char *name);
/* Element `index` of one dimension, which goes. */
struct values *values_at(struct arena *a, const struct values *v, int dim, size_t index);
/* Number of the dimension with this name, or -1. */
int values_dimension(const struct values *v, const char *name);

typedef double values_function(double x, double y);
struct values *values_combine(struct arena *a, const struct values *x, const struct values *y, values_function *f);

/* min, max, mean, median, std (of the sample), count, share (of values that are not 0), over the finite values.
 * NAN where there are too few of them; NULL when there is no such reducer. */
struct values *values_reduce(struct arena *a, const struct values *v, const char *reducer);
/* Slope of the least-squares line of y over x, where both are finite; NAN where x does not vary. */
struct values *values_slope(struct arena *a, const struct values *y, const struct values *x);
size_t values_finite(const struct values *v);

#endif
