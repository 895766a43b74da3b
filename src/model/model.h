/* model.h: a model is a table of tensors, a forward pass and its exact gradient.
 *
 * All weights lie in one flat array of the model's precision (float or double), tensor by tensor in the order of the
 * table; gradients and optimiser moments are arrays of the same layout. The same bits come out for the same weights,
 * batch and dropout key, on any instruction set and for any number of ranks.
 *
 * Rows: a batch has sequences x length positions. What is said "per row" concerns the positions at which the loss
 * looks (target >= 0), in order sequence by sequence, position by position.
 */
#ifndef INVAR_MODEL_MODEL_H
#define INVAR_MODEL_MODEL_H

#include "base/status.h"
#include "job/keys.h"
#include "task/task.h"

#include <stddef.h>
#include <stdint.h>

struct model;
struct planner;

/* Tensor groups, as in the keys init.scale.*. */
enum tensor_group {
    GROUP_TOKEN, GROUP_POSITION, GROUP_QUERY_KEY, GROUP_VALUE_OUTPUT, GROUP_MLP, GROUP_UNEMBEDDING, GROUP_NORM,
    GROUP_COUNT
};

/* One tensor of the table. Matrices are row-major [rows][cols], from input to output: y = x W, W[in][out].
 * Vectors have rows 1. Queries, keys and values are tensors of their own ("block1.attention.query.weight",
 * [d_model][heads * d_head], head h in columns h * d_head and on). */
struct tensor {
    char name[64];
    enum tensor_group group;
    int rows, cols;
    size_t offset;           /* of its first element in the flat arrays, in elements */
};

/* Builds the model; weights are zero until model_initialise or model_weights_set.
 * fails: STATUS_JOB when keys and shape do not fit together (text says which key and what to do) */
enum status model_open(const struct spec *s, struct task_shape shape, struct model **model);
void model_free(struct model *m);

/* Number of tensors and the table; flat length in elements (padding between tensors included, always zero). */
int model_tensors(const struct model *m, const struct tensor **table);
size_t model_flat_length(const struct model *m);
size_t model_parameters(const struct model *m);                 /* without padding */
size_t model_element_size(const struct model *m);               /* 4 or 8 */
int model_width(const struct model *m);                         /* d_model: width of the embedding */
int model_layer_width(const struct model *m, int layer);        /* d: width of the stream after block `layer` */
int model_layers(const struct model *m);

/* The order of computation that was chosen, and the others, counted for a step of the shape's batch (planner.h). */
const struct planner *model_plan(const struct model *m);

/* Initial weights by the init keys, from streams (seed, PURPOSE_INIT, number of the tensor). Scheme coordinates: the point of the
 * invariant manifold (job/manifold.h) and noise; NaN where the model has no such point, which the job's rules exclude. */
void model_initialise(struct model *m, const struct spec *s, uint64_t seed);

/* The flat arrays themselves, for checkpoints, and copies in double. */
void *model_weights(struct model *m);
void *model_gradient(struct model *m);
void model_weights_get(const struct model *m, double *flat);
void model_weights_set(struct model *m, const double *flat);
void model_gradient_get(const struct model *m, double *flat);

struct model_result {
    double loss;             /* mean over the rows, each with the weight of its sequence */
    size_t rows, correct;    /* rows whose largest logit is the target's (ties: lowest class) */
    double weight, correct_weight;       /* sums over those; without weights their numbers */
};

/* Loss of the batch with dropout of (seed, step), and the gradient of the mean loss into model_gradient.
 * A loss that is not finite is returned as it is. */
struct model_result model_train_pass(struct model *m, const struct batch *b, uint64_t seed, uint64_t step);

/* A linear intervention on the output of block `layer` (1..layers): h <- mean + (h - mean) P, at the rows where the
 * loss looks. P = basis basis' (keep) or I - basis basis' (remove); basis [d][rank], orthonormal columns. */
struct intervention {
    int layer, rank;
    int remove;              /* 0: keep only the span, 1: remove it */
    const double *basis;
    const double *mean;      /* [d] or NULL for zero */
};

/* Loss and accuracy without dropout; `v` may be NULL. */
struct model_result model_evaluate(struct model *m, const struct batch *b, const struct intervention *v);

/* Logits per row, without dropout.   out: logits [rows][classes] */
void model_logits(struct model *m, const struct batch *b, double *logits);
/* Output of block `layer` per row, without dropout.   out: h [rows][d]; returns rows */
size_t model_activations(struct model *m, const struct batch *b, int layer, double *h);
/* Jacobian rows of ACE: d logit[c] / d h at each row's own position, h the output of block `layer`, everything
 * downstream included (later attention too).   out: g [rows][d]; returns rows */
size_t model_logit_gradient(struct model *m, const struct batch *b, int layer, int c, double *g);

/* ---- optimiser: one step on the model's weights from its gradient ---- */

struct optimizer;            /* moments, in the model's precision and layout */
struct optimizer *optimizer_new(const struct model *m, const struct spec *s);
void optimizer_free(struct optimizer *o);
/* Step number t (from 1). AdamW: p <- p (1 - lr wd); m, v; p <- p - lr m^ / (sqrt(v^) + eps), in that order.
 * SGD: g += wd p; u <- momentum u + g; p <- p - lr u. Both on every parameter. */
void optimizer_step(struct optimizer *o, struct model *m, uint64_t t);
/* Raw state for checkpoints: out: *bytes; the pointer stays the optimiser's. */
void *optimizer_state(struct optimizer *o, size_t *bytes);

/* Whether all weights are finite. */
int model_is_finite(const struct model *m);
/* Name of the instruction set in use ("avx512", "avx2", "neon", "scalar"). INVAR_ISA pins it. */
const char *model_isa(void);

#endif
