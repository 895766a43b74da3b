/* decoder.h: inside the model room: the decoder's sizes, where its tensors lie, and its passes in one precision. */
#ifndef INVAR_MODEL_DECODER_H
#define INVAR_MODEL_DECODER_H

#include "job/keys.h"
#include "model/model.h"
#include "task/task.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DECODER_LAYERS_MAX 64
#define DECODER_NONE SIZE_MAX        /* offset of a tensor that this model has not */

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
};

/* The passes in one precision; weights and gradient are flat arrays of it. `work` holds the buffers. */
struct decoder_passes {
    size_t element_size;
    /* NULL with the reason in status_text() when there are no kernels (kern_get). */
    void *(*open)(const struct decoder *d);
    void (*free)(void *work);
    struct model_result (*train)(void *work, const void *weights, void *gradient, const struct batch *b, uint64_t seed,
                                 uint64_t step);
    struct model_result (*evaluate)(void *work, const void *weights, const struct batch *b,
                                    const struct intervention *v);
    void (*logits)(void *work, const void *weights, const struct batch *b, double *logits);
    size_t (*activations)(void *work, const void *weights, const struct batch *b, int layer, double *h);
    size_t (*logit_gradient)(void *work, const void *weights, const struct batch *b, int layer, int c, double *g);
};

extern const struct decoder_passes decoder_f32, decoder_f64;

#endif
