/* attention_only.h: inside the model room: the attention_only kind.
 *
 * Tokens and positions enter one-hot: x_t = (e_token, e_position), d_0 = vocabulary + positions numbers; the positions are
 * the task's, or max_length where it has none of its own, and 0, 1, 2, ... where a batch does not say which. Head h of
 * block l has one fused key-query matrix W, [d][d] of the stream's width d = d_(l-1): the score of key u for query t is
 * x_t' W x_u, without a scale, and what it attends to, sum_u p_tu x_u, is written unchanged behind the stream, segment h:
 * the stream after the block is [x, A_1 x, ..., A_H x], (1 + H) d wide (Musat et al., arXiv 2607.11875, the "disentangled"
 * transformer). Logits are x U. Trained are the W and U. Centred embeddings are C x, with C = 1 - 1/n over the common tokens,
 * over the rare ones and over each period of positions.
 *
 * Segment p of d_0 numbers of a stream is what came by path p: digit l of p in base 1 + H (the lowest digit is block 1)
 * says through which head of block l it went, 0 past them all. So stream(t)[p] = sum_u P_p[t][u] x_u, P_p the product of the
 * attention matrices along the path, later blocks on the left. attention_only_paths.inc computes with the P_p.
 */
#ifndef INVAR_MODEL_ATTENTION_ONLY_H
#define INVAR_MODEL_ATTENTION_ONLY_H

#include "job/keys.h"
#include "model/passes.h"
#include "model/planner.h"
#include "task/task.h"

#include <stddef.h>

#define ATTENTION_ONLY_LAYERS_MAX 12
#define ATTENTION_ONLY_HEADS_MAX 128

#define ATTENTION_ONLY_WHOLE 1           /* planner's flag: see `whole` */

struct attention_only {
    int layers, heads, vocabulary, classes;
    int positions;                       /* rows of the position embedding */
    int common, period;                  /* groups that are centred: tokens 0..common-1, the others; so many positions */
    int looked;                          /* positions per sequence where the loss is expected to look */
    int blind;                           /* a position does not attend to itself */
    int centred;                         /* embeddings are one-hot minus their means over these groups */
    enum loss loss;
    size_t width[ATTENTION_ONLY_LAYERS_MAX + 1];      /* of the stream after so many blocks */
    size_t paths[ATTENTION_ONLY_LAYERS_MAX + 1];      /* segments of it */
    size_t query_key[ATTENTION_ONLY_LAYERS_MAX][ATTENTION_ONLY_HEADS_MAX], unembedding;
    size_t length;                       /* of the flat arrays */
    size_t tile_bytes;                   /* buffers of a tile of sequences */
    int whole;                           /* by paths: the last block at every position, like the blocks between */
};

/* The first coordinate of the group in which coordinate c < d_0 is centred, and how many it has. */
size_t attention_only_group(const struct attention_only *d, size_t c, size_t *count);

/* All orders of computation, counted for one step of `shape`, and the choice.   out: *p */
void attention_only_plan(const struct attention_only *d, struct task_shape shape, int f64, int dense, struct planner *p);

/* Row by row, complete: also interventions and probes. */
extern const struct model_passes attention_only_f32, attention_only_f64;
/* By paths: no stream is formed but where the loss looks. */
extern const struct model_passes attention_only_paths_f32, attention_only_paths_f64;

#endif
