/* refine.h: maps that are refined where something changes. Pure.
 *
 * The axes of a job with refine.levels > 0 are its finest grid. Training begins with every 2^levels-th point of each
 * refined axis: level 0. A cell of level l has the corners of a block of 2^(levels - l) steps; when its corners
 * disagree, or one of them has no label since its runs failed, it is halved along every refined axis, and so are the
 * `halo` cells around it: the new points belong to level l + 1. What lies in a cell that is not halved takes the label
 * of its corners. Refined are all axes that are ranges (axis_is_range); others are slices, each with a map of its own.
 *
 * Runs are numbered level by level, within a level by seed, then by block of the coarsest cells: so a tile belongs to
 * one level, and its runs are neighbours.
 *
 * A point is a number in the product of all axes, the last one fastest.
 */
#ifndef INVAR_JOB_REFINE_H
#define INVAR_JOB_REFINE_H

#include "job/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REFINE_UNKNOWN (-1)          /* label of a point that is not trained yet */
#define REFINE_NONE (-2)             /* of one that is, without a result */

/* The order of a refined job's points; belongs to the job. */
struct refine_order {
    int levels;
    size_t points;
    size_t *first;                   /* [levels + 2] of each level in `point` */
    uint32_t *point;                 /* [points] by level */
    uint32_t *rank;                  /* [points] place of each point in `point` */
};

/* NULL where the job is not refined. */
struct refine_order *refine_order_new(const struct job *job);
void refine_order_free(struct refine_order *o);

/* One past the last run of the level that holds run `run`; of a job that is not refined: its number of runs. */
size_t refine_level_end(const struct job *job, size_t run);

size_t refine_points(const struct job *job);
size_t refine_point(const struct job *job, const int *position);
void refine_position(const struct job *job, size_t point, int *position);
/* Of any job: the point of a run, and the run of a point and the number of a seed: the inverse of job_locate. */
size_t refine_point_of(const struct job *job, size_t run);
size_t refine_run(const struct job *job, size_t point, int seed_index);
/* The level of the grid to which a point belongs. */
int refine_level(const struct job *job, size_t point);

/* The points that are to be trained, as far as the labels of what is trained decide it: the whole of the first level
 * whose cells cannot be judged yet, and all before it.   in: label[points]   out: wanted[points]; returns the number of
 * that level, `levels` when nothing is open beyond what is wanted */
int refine_wanted(const struct job *job, const int *label, bool *wanted);

/* The full map. A point without a label takes the results of the nearest corner of the smallest cell around it.
 * in: label[points], REFINE_UNKNOWN where nothing was trained   out: source[points], the point whose results a point
 * takes: itself where it is trained, and in an unfinished map where a corner of that cell is not; level[points], that
 * of the cell, or of the point itself */
void refine_fill(const struct job *job, const int *label, size_t *source, int *level);

#endif
