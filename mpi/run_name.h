/* run_name.h: how a run is called in lists: its id, its seed, and its place on the axes. */
#ifndef INVAR_MPI_RUN_NAME_H
#define INVAR_MPI_RUN_NAME_H

#include "base/text.h"
#include "job/job.h"

#include <stdbool.h>

/* Appends "  seed 3  train.lr 0.1", or for JSON ", \"seed\": 3, \"train.lr\": 0.1". */
void run_name_add(struct text *t, const struct job *job, size_t run, bool json);
/* Whether "KEY=VALUE" (KEY: seed or an axis) holds for the run.
 * out: *holds   fails: STATUS_USAGE when the job has no such axis, or VALUE is no value of its kind */
enum status run_name_match(const struct job *job, size_t run, const char *word, bool *holds);

#endif
