/* axis.h: the values of one axis, from a list or from {from, to, points, scale}. */
#ifndef INVAR_JOB_AXIS_H
#define INVAR_JOB_AXIS_H

#include "job/job.h"
#include "job/tree.h"

#define AXIS_VALUES_MAX 100000

/* Reads the values of the axis over scalar key k. Points between the ends of a range are rounded to 12 significant
 * digits, so that they, and with them the run ids, do not depend on the machine's pow().
 * out: *axis, its values owned by the caller (memory_free); untouched, with complaints, when false is returned */
bool axis_read(const struct key *k, const struct tree *t, struct axis *axis, struct complaints *c);

/* Whether an axis of numbers has the values of a range of more than two points, linear or log, also where they were listed:
 * those that refine.levels can halve. */
bool axis_is_range(const struct axis *a);

#endif
