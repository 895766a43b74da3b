/* wanted.h: which runs of a job are to be trained, by what the store has: all, or those of a refined map (job/refine.h). */
#ifndef INVAR_STORE_WANTED_H
#define INVAR_STORE_WANTED_H

#include "store/store.h"

/* Labels of the points of a refined map over the seeds: the most frequent winner, of equals the first; or the most
 * frequent outcome, of equals the worse (outcome_most), where FAILED is no label. A point counts when all its seeds are
 * there.   in: outcome[runs of the job] of store_scan   out: label[refine_points]   fails: STATUS_IO, STATUS_CORRUPT */
enum status wanted_labels(struct store *store, const struct job *job, const int *outcome, int *label);

/* out: wanted[runs of the job]; *level the level that is open (refine_wanted); both filled for jobs that are not
 * refined, too */
enum status wanted_runs(struct store *store, const struct job *job, const int *outcome, bool *wanted, int *level);

#endif
