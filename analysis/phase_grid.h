/* phase_grid.h: the grid of phase_map.nc: the job's axes, each by ascending value, the last one fastest. */
#ifndef INVAR_ANALYSIS_PHASE_GRID_H
#define INVAR_ANALYSIS_PHASE_GRID_H

#include "base/text.h"
#include "job/job.h"
#include "store/ncfile.h"

struct grid {
    const struct job *job;
    size_t points, rows;         /* rows of runs.nc */
    size_t *point;               /* [rows] the point of each row's run */
    int *rank[JOB_AXES_MAX];     /* of every axis: place of each position by ascending value */
    char *name[JOB_AXES_MAX];
    struct text dims;            /* the axes' names, for variables */
    /* Of a refined map, else NULL: */
    size_t *source;              /* [points] the trained point that a point takes its values from */
    double *level;               /* [points] of the cell that it lies in */
};

/* in: runs.nc   out: *g without source and level   fails: STATUS_CORRUPT when its rows are not runs of the job */
enum status grid_read(struct grid *g, const struct job *job, struct ncfile *runs);
void grid_clear(struct grid *g);
/* Fills source and level by the labels of the points, NAN: none.   in: label[points], there[points]: runs of each point */
void grid_refine(struct grid *g, const double *label, const double *there);
/* Gives the points of a refined map that were not trained what their source has.   in/out: x[points][width] */
void grid_spread(const struct grid *g, size_t width, double *x);
/* The coordinate variables. */
void grid_put_axes(struct ncfile *f, const struct grid *g);

#endif
