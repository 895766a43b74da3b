/* state.h: a training between two steps as one block of bytes, and back. */
#ifndef INVAR_RUN_STATE_H
#define INVAR_RUN_STATE_H

#include "base/status.h"
#include "base/text.h"
#include "run/training.h"

/* Appends the state to `out`; record.steps and record.wall_time must be up to date. */
void state_write(struct training *t, struct text *out);

/* Puts an opened training where the state was written.   out: record, weights and the optimiser's moments
 * fails: STATUS_CORRUPT (damaged), STATUS_VERSION, STATUS_JOB (of another run): the training is untouched */
enum status state_read(struct training *t, const void *bytes, size_t n);

#endif
