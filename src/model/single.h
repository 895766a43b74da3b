/* single.h: inside the model room: one-layer decoders without norm, through tables of (token, position) rows.
 *
 * What enters block 1 is token row + position row, so everything linear in it is a sum of two table rows: queries, keys,
 * values, values times the output matrix (one row a head), and those again times the MLP's first matrix and times the
 * unembedding. A looked row is then a mixture of table rows with its attention weights,
 *     hidden = activation(base[query] + sum over heads and keys of p U[key, head]),
 * and no product with d_model rows a sample remains but those that the planner finds cheaper without tables.
 */
#ifndef INVAR_MODEL_SINGLE_H
#define INVAR_MODEL_SINGLE_H

#include "model/decoder.h"
#include "model/planner.h"

/* What is taken from tables. Without any: x after the attention half is mixed, and the rest is done row by row. */
enum single_flags {
    SINGLE_HIDDEN = 1,               /* hidden units before activation, tables times W_up */
    SINGLE_LOGITS = 2,               /* the attention half's part of the logits, tables times the unembedding */
    SINGLE_MERGED = 4                /* logits += h (W_down U), the product formed once a step */
};

/* Appends the candidate with the cheapest flags for a step of `shape`, or why it cannot be taken.   out: *p */
void single_plan(const struct decoder *d, struct task_shape shape, int f64, struct planner *p);

/* Reads d->flags, a union of single_flags. No activations: the complete passes are asked. */
extern const struct model_passes single_f32, single_f64;

#endif
