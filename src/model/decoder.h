/* decoder.h: inside the model room: the decoder's sizes, where its tensors lie, and its passes in one precision. */
#ifndef INVAR_MODEL_DECODER_H
#define INVAR_MODEL_DECODER_H

#include "job/keys.h"
#include "model/passes.h"
#include "model/planner.h"
#include "task/task.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DECODER_LAYERS_MAX 64
#define DECODER_NONE SIZE_MAX        /* MODEL_NONE: offset of a tensor that this model has not */

/* Offsets into the flat arrays, in elements. */
struct decoder_block {
    int d_mlp;                       /* 0: attention only */
    size_t query, query_bias, key, key_bias, value, value_bias, output, output_bias;
    size_t norm1_gain, norm1_shift;
    size_t up, up_bias, down, down_bias;
    size_t norm2_gain, norm2_shift;
};

struct decoder {
    int layers, d_model, heads, d_head, vocabulary, classes, max_length;
    enum norm norm;
    enum activation activation;
    enum loss loss;
    bool tied;
    double dropout;
    struct decoder_block block[DECODER_LAYERS_MAX];
    size_t token, position, norm_gain, norm_shift, unembedding, unembedding_bias;
    size_t length;                   /* of the flat arrays */
    size_t tile_bytes;               /* buffers of a tile of sequences */
    unsigned rows;                   /* decoder_rows of the row engine, whoever trains */
    unsigned flags;                  /* of the order that was chosen: decoder_rows, reach_flags, single_flags */
};

/* How the rows of a batch are computed (decoder.inc). 0: every block at every position, no tables. */
enum decoder_rows {
    DECODER_LOOKED = 1,              /* the last block only where the loss looks */
    DECODER_TABLE = 2,               /* block 1 from a table of (token, position) rows, when a batch has enough rows */
    DECODER_KEYS = 4                 /* with DECODER_LOOKED: keys and values of the last block are not formed */
};

/* All orders of computation, counted for one step of `shape`, and the choice.   out: *p */
void decoder_plan(const struct decoder *d, struct task_shape shape, int f64, int dense, struct planner *p);

/* FLOPs of block `layer` (from 0) computed row by row, with flags of enum decoder_rows, added to *c. */
void decoder_plan_block(const struct decoder *d, struct task_shape shape, int layer, unsigned flags,
                        struct planner_count *c);

/* Row by row, complete: also interventions and probes. */
extern const struct model_passes decoder_f32, decoder_f64;

#endif
