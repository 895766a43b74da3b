/* wanted.h: which runs of a job are to be trained, by what the store has: all, or those of a refined map (job/refine.h). */
#ifndef INVAR_STORE_WANTED_H
#define INVAR_STORE_WANTED_H

#include "store/store.h"

/* Labels of the points of a refined map: the most frequent winner, or outcome, over the seeds; of equals the first. A
 * point counts when all its seeds are there.   in: outcome[runs of the job] of store_scan   out: label[refine_points]
 * fails: STATUS_IO, STATUS_CORRUPT */
enum status wanted_labels(struct store *store, const struct job *job, const int *outcome, int *label);

/* out: wanted[runs of the job]; *level the level that is open (refine_wanted); both filled for jobs that are not
 * refined, too */
enum status wanted_runs(struct store *store, const struct job *job, const int *outcome, bool *wanted, int *level);

#endif
