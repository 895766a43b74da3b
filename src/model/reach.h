/* reach.h: inside the model room: the last two blocks, of which the first is never formed.
 *
 * When the last but one is attention alone, its output is a sum over paths: x[t] + sum over heads h and positions u of
 * P_h[t, u] x[u] OV_h. The last block reads it only where few positions ask, through products with queries and through
 * mixtures by attention weights, and both can go through P_h first, as vectors over positions, and then through x.
 * With two blocks x are token rows plus position rows; x OV_h and the last block's keys and values of all of these are
 * tables of a few hundred rows then, formed once a step, and no product remains that has a row for every position of the
 * batch (decoder_reach.inc). With more blocks x are rows that the row engine computes (decoder_reach_rows.inc).
 */
#ifndef INVAR_MODEL_REACH_H
#define INVAR_MODEL_REACH_H

#include "model/decoder.h"
#include "model/planner.h"

#define REACH_HEADS_MAX 64

enum reach_flags {
    REACH_FUSED = 1                  /* last block, one head: query-key and value-output as one matrix each */
};

/* Appends the candidate for a step of `shape`, fused or not, or why it cannot be taken.   out: *p */
void reach_plan(const struct decoder *d, struct task_shape shape, int f64, struct planner *p);

/* Reads d->flags. No activations: the complete passes are asked. */
extern const struct model_passes decoder_reach_f32, decoder_reach_f64;
/* The same for three and more blocks. */
extern const struct model_passes decoder_reach_rows_f32, decoder_reach_rows_f64;

#endif
