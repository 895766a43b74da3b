/* manifold.h: where a model stands on the invariant manifold (job/manifold.h), and what its coordinates do.
 *
 * Coordinates and leakage come from the projection of the weights on the whole manifold, whatever model.coordinates names
 * of it.
 * Measures are means over the training set, all of it where it is enumerated, else at most as many sequences as the test set
 * has. They are computed in double whatever the training's precision.
 *     gradient        d loss / d coordinate = <d loss / d W, B>, B the direction's matrix
 *     gradient_ratio  over that of the same task with task.rare 1; NAN where that is 0
 *     theory          f_r + (1 - f_r)(f_v + (1 - f_v)(1 - delta)), f_r task.rare, f_v task.variability (theorem 2 of Musat
 *                     et al., arXiv 2607.11875)
 *     rise            loss without the circuit's beta (of all heads), less the loss; without all gammas; without delta
 *     winner          the circuit of the largest rise, the first of equals, if it is above 0 and the loss below winner_below
 */
#ifndef INVAR_PROBE_MANIFOLD_H
#define INVAR_PROBE_MANIFOLD_H

#include "base/status.h"
#include "job/keys.h"
#include "job/manifold.h"
#include "model/model.h"
#include "probe/measures.h"
#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>

/* Roles of coordinates: beta_lm of any head (block `second` matches its token with what block `first` wrote), gamma_l,
 * delta. */
bool manifold_is_beta(const struct manifold *m, int coordinate, int first, int second);
bool manifold_is_gamma(const struct manifold *m, int coordinate);
bool manifold_is_delta(const struct manifold *m, int coordinate);

double manifold_ratio_theory(const struct spec *s, double delta);
/* The winner by rises [circuits]; `circuits`: none. */
int manifold_winner(const struct spec *s, double loss, const double *rise, int circuits);

/* Coordinates of an attention_only or manifold model.   out: value [coordinates of manifold_new]   fails: STATUS_JOB */
enum status manifold_values(const struct spec *s, const struct model *model, double *value);

/* Looks at a model of the run (s, seed) as s->probe_manifold wants. The model is left as it is.
 * out: *r without its step, cleared with manifold_clear   fails: STATUS_JOB */
enum status manifold_look(const struct spec *s, uint64_t seed, const struct task *t, const struct model *model,
                          struct record_manifold *r);
void manifold_clear(struct record_manifold *r);

#endif
