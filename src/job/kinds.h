/* kinds.h: which keys a run reads, by the kinds of its task, model and initialisation. The others are refused when they are
 * given, and not printed. */
#ifndef INVAR_JOB_KINDS_H
#define INVAR_JOB_KINDS_H

#include "job/job.h"

/* Whether a run with these keys reads key `k`. */
bool kinds_reads(const struct spec *s, const struct key *k);
/* The key whose value is the reason that it does not; NULL when it does. */
const struct key *kinds_decided_by(const struct spec *s, const struct key *k);
/* Whether any run of a job with this spec and these axes does: the keys that decide may be axes. */
bool kinds_any_reads(const struct spec *s, const struct axis *axis, int axes, const struct key *k);
/* Whether `k` is one of the keys that decide. */
bool kinds_decides(const struct key *k);

/* Whether a run needs the directions of the invariant manifold: a manifold model; an attention_only one that begins at a point
 * of it or is measured by it. */
bool kinds_on_manifold(const struct spec *s);
/* Whether the sequences are drawn, and a step takes some of them; else every step takes all that the task has. */
bool kinds_draws(const struct spec *s);

/* Width of the residual stream after `layer` blocks (0: the embedding), where `vocabulary` tokens are known. Positions are
 * those of the task where it has its own, else model.max_length. A manifold model has none; this is that of the full one. */
double kinds_width(const struct spec *s, double vocabulary, int64_t layer);

#endif
