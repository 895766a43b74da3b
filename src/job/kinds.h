/* kinds.h: which keys a kind of model reads. The others are refused when they are given, and not printed. */
#ifndef INVAR_JOB_KINDS_H
#define INVAR_JOB_KINDS_H

#include "job/job.h"

/* Whether a run with these keys reads key `k`. */
bool kinds_reads(const struct spec *s, const struct key *k);
/* Whether any run of a job with this spec and these axes does: model.kind may be an axis. */
bool kinds_any_reads(const struct spec *s, const struct axis *axis, int axes, const struct key *k);

/* Width of the residual stream after `layer` blocks (0: the embedding), where `vocabulary` tokens are known. */
double kinds_width(const struct spec *s, double vocabulary, int64_t layer);

#endif
