/* cases.h: small models of every kind with random weights and batches, for the tests of this folder. */
#ifndef INVAR_TESTS_MODEL_CASES_H
#define INVAR_TESTS_MODEL_CASES_H

#include "base/memory.h"
#include "base/stream.h"
#include "job/keys.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct model_case {
    const char *name;
    int layers, d_model, heads, d_head;
    int d_mlp[3];                /* one per layer; d_mlp[1] = -1: the first for all */
    int norm, bias, activation, tied, loss;
    int vocabulary, classes, length, sequences;
    int positions[3];            /* positions of the loss, ascending; -1 ends; none: all */
    double scale;                /* of the random weights, times 1 / sqrt(fan_in) */
};

#define ALL {-1}
#define CASES \
    {"one_block",        1, 8, 2, 0, {12, -1}, NORM_POST, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 3, ALL, 1.0}, \
    {"two_blocks",       2, 8, 4, 0, {12, -1}, NORM_POST, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 3, ALL, 1.0}, \
    {"pre_norm",         2, 8, 2, 0, {12, -1}, NORM_PRE, 1, ACTIVATION_GELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 3, ALL, 1.0}, \
    {"no_norm",          2, 8, 2, 0, {12, -1}, NORM_NONE, 1, ACTIVATION_GELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 3, ALL, 1.0}, \
    {"no_bias",          2, 8, 2, 0, {12, -1}, NORM_POST, 0, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 3, ALL, 1.0}, \
    {"odd_sizes",        1, 9, 3, 5, {7, -1}, NORM_PRE, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 6, 6, 5, 2, ALL, 1.0}, \
    {"narrow_heads",     1, 6, 6, 1, {3, -1}, NORM_POST, 1, ACTIVATION_GELU, 0, LOSS_CROSS_ENTROPY, 4, 4, 6, 2, ALL, 1.0}, \
    {"wide_head",        1, 5, 1, 17, {33, -1}, NORM_NONE, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 4, 4, 3, 2, ALL, 1.0}, \
    {"tied",             2, 8, 2, 0, {12, -1}, NORM_PRE, 1, ACTIVATION_RELU, 1, LOSS_CROSS_ENTROPY, 5, 5, 7, 3, ALL, 1.0}, \
    {"tied_no_bias",     1, 8, 2, 3, {12, -1}, NORM_POST, 0, ACTIVATION_GELU, 1, LOSS_CROSS_ENTROPY, 5, 5, 4, 2, ALL, 1.0}, \
    {"no_mlp",           2, 8, 2, 0, {0, -1}, NORM_POST, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 3, ALL, 1.0}, \
    {"mlp_by_layer",     3, 6, 2, 0, {0, 9, 5}, NORM_PRE, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 6, 2, ALL, 1.0}, \
    {"mlp_by_layer_post", 3, 6, 2, 0, {4, 0, 20}, NORM_POST, 1, ACTIVATION_GELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 6, 2, ALL, 1.0}, \
    {"mse",              1, 8, 2, 0, {12, -1}, NORM_POST, 1, ACTIVATION_RELU, 0, LOSS_MSE, 5, 5, 7, 3, ALL, 1.0}, \
    {"mse_two_blocks",   2, 8, 2, 0, {12, -1}, NORM_NONE, 0, ACTIVATION_GELU, 0, LOSS_MSE, 5, 5, 7, 3, ALL, 1.0}, \
    {"last_position",    1, 8, 2, 0, {12, -1}, NORM_POST, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 3, {6, -1}, 1.0}, \
    {"last_of_two_blocks", 2, 8, 2, 0, {12, -1}, NORM_PRE, 1, ACTIVATION_GELU, 0, LOSS_MSE, 5, 5, 7, 3, {6, -1}, 1.0}, \
    {"some_positions",   3, 6, 2, 0, {9, -1}, NORM_POST, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 3, {1, 4, -1}, 1.0}, \
    {"first_position",   2, 6, 2, 0, {9, -1}, NORM_NONE, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 3, {0, -1}, 1.0}, \
    {"few_classes",      2, 8, 2, 0, {12, -1}, NORM_POST, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 7, 3, 6, 3, ALL, 1.0}, \
    {"many_classes",     1, 8, 2, 0, {12, -1}, NORM_PRE, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 3, 37, 6, 2, {2, 5, -1}, 1.0}, \
    {"two_chunks",       1, 20, 2, 0, {40, -1}, NORM_POST, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 19, 2, ALL, 1.0}, \
    {"long_two_blocks",  2, 4, 1, 0, {6, -1}, NORM_PRE, 1, ACTIVATION_GELU, 0, LOSS_CROSS_ENTROPY, 3, 3, 35, 1, ALL, 1.0}, \
    {"one_token",        2, 8, 2, 0, {12, -1}, NORM_POST, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 1, 4, ALL, 1.0}, \
    {"large_weights",    2, 8, 2, 0, {12, -1}, NORM_POST, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 3, ALL, 4.0}, \
    {"large_weights_pre", 1, 8, 2, 0, {12, -1}, NORM_PRE, 1, ACTIVATION_GELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 3, ALL, 5.0}, \
    {"small_weights",    2, 8, 2, 0, {12, -1}, NORM_NONE, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 3, ALL, 0.05}

static const struct model_case model_cases[] __attribute__((unused)) = {CASES};
#define MODEL_CASES ((int)(sizeof model_cases / sizeof model_cases[0]))

static inline struct spec case_spec(const struct model_case *c, int precision)
{
    struct spec s;
    key_defaults(&s);
    s.model.layers = c->layers;
    s.model.d_model = c->d_model;
    s.model.heads = c->heads;
    s.model.d_head = c->d_head;
    s.model.d_mlp.count = c->d_mlp[1] < 0 ? 1 : c->layers;
    for (int i = 0; i < s.model.d_mlp.count; i++)
        s.model.d_mlp.value[i] = c->d_mlp[i];
    s.model.norm = c->norm;
    s.model.bias = c->bias;
    s.model.activation = c->activation;
    s.model.tied = c->tied;
    s.model.dropout = 0.0;
    s.model.max_length = c->length + 2;
    s.model.precision = precision;
    s.train.loss = c->loss;
    s.train.positions.count = 0;
    for (int i = 0; i < 3 && c->positions[i] >= 0; i++)
        s.train.positions.value[s.train.positions.count++] = c->positions[i];
    return s;
}

/* Planned for a loss at one position, so that the shortcuts are taken, whatever the batches then look at. */
static inline struct task_shape case_shape(const struct model_case *c)
{
    return (struct task_shape){.vocabulary = c->vocabulary, .classes = c->classes, .length = c->length, .looked = 1};
}

static inline struct model *case_model(const struct model_case *c, const struct spec *s)
{
    struct model *m = NULL;
    if (model_open(s, case_shape(c), &m) != STATUS_OK) {
        fprintf(stderr, "%s: model_open: %s\n", c->name, status_text());
        exit(1);
    }
    return m;
}

/* Random weights everywhere, biases, gains and shifts too, as the model's precision holds them.   out: flat */
static inline void case_weights(const struct model_case *c, struct model *m, double *flat)
{
    const struct tensor *table;
    int n = model_tensors(m, &table);
    memset(flat, 0, model_flat_length(m) * sizeof *flat);
    for (int i = 0; i < n; i++) {
        struct stream s = stream_open(17, PURPOSE_PROBE, (uint32_t)i);
        int embedding = table[i].group == GROUP_TOKEN || table[i].group == GROUP_POSITION;
        double scale = embedding ? 1.0 : table[i].rows == 1 ? 0.3 : c->scale / sqrt((double)table[i].rows);
        int gain = strstr(table[i].name, "gain") != NULL;
        for (int k = 0; k < table[i].rows * table[i].cols; k++)
            flat[table[i].offset + (size_t)k] = scale * stream_normal(&s) + gain;
    }
    model_weights_set(m, flat);
    model_weights_get(m, flat);
}

/* Random tokens and targets; ragged: other positions in every sequence, and none in the second. */
static inline struct batch case_batch(const struct model_case *c, int ragged)
{
    struct batch b = batch_new(c->sequences, c->length);
    struct stream s = stream_open(18, PURPOSE_PROBE, 0);
    for (int q = 0; q < c->sequences; q++)
        for (int i = 0; i < c->length; i++) {
            b.token[q * c->length + i] = (int32_t)stream_below(&s, (uint32_t)c->vocabulary);
            int32_t target = (int32_t)stream_below(&s, (uint32_t)c->classes);
            int asked = c->positions[0] < 0;
            for (int k = 0; k < 3 && c->positions[k] >= 0; k++)
                asked |= c->positions[k] == i;
            if (ragged)
                asked = q != 1 && (stream_below(&s, 2) || i == q);
            b.target[q * c->length + i] = asked ? target : -1;
        }
    return b;
}

#endif
