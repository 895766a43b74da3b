/* attention_only_twin.h: the attention_only model once more, in double on the tape of twin.h, straight from its definition:
 * one-hot inputs, scores x_t' W x_u, what a head attends to written behind the stream. */
#ifndef INVAR_TESTS_MODEL_ATTENTION_ONLY_TWIN_H
#define INVAR_TESTS_MODEL_ATTENTION_ONLY_TWIN_H

#include "model/cases.h"
#include "model/twin.h"

/* What a block list has of its own; all 0: nothing. */
struct ao_own {
    int positions, period, common;       /* of the shape; each token has a random position */
    int weighted;                        /* sequences have weights: 0, 1, 1 and others */
};
#define OWN_NONE {0, 0, 0, 0}

struct ao_case {
    const char *name;
    int layers, heads, blind, loss, vocabulary, classes, length, max_length, sequences;
    int positions[3];            /* as in cases.h */
    double scale;                /* standard deviation of all weights */
    int centred;
    struct ao_own own;
};

#define AO_CASES \
    {"one_layer",        1, 1, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 7, 3, ALL, 1.0, 0, OWN_NONE}, \
    {"one_layer_last",   1, 2, 0, LOSS_CROSS_ENTROPY, 5, 4, 7, 9, 3, {6, -1}, 1.0, 0, OWN_NONE}, \
    {"one_layer_blind",  1, 2, 1, LOSS_MSE, 5, 5, 7, 7, 3, ALL, 1.0, 0, OWN_NONE}, \
    {"two_layers",       2, 1, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 7, 3, ALL, 0.5, 0, OWN_NONE}, \
    {"two_last",         2, 1, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 8, 4, {6, -1}, 0.5, 0, OWN_NONE}, \
    {"two_heads_last",   2, 2, 0, LOSS_MSE, 4, 6, 6, 6, 3, {5, -1}, 0.5, 0, OWN_NONE}, \
    {"two_blind",        2, 1, 1, LOSS_CROSS_ENTROPY, 5, 5, 7, 7, 3, ALL, 0.5, 0, OWN_NONE}, \
    {"two_blind_last",   2, 2, 1, LOSS_MSE, 5, 5, 6, 6, 3, {5, -1}, 0.5, 0, OWN_NONE}, \
    {"two_first",        2, 1, 1, LOSS_CROSS_ENTROPY, 5, 5, 6, 6, 3, {0, -1}, 0.5, 0, OWN_NONE}, \
    {"two_some",         2, 2, 0, LOSS_CROSS_ENTROPY, 5, 5, 6, 6, 3, {1, 4, -1}, 0.5, 0, OWN_NONE}, \
    {"three_layers",     3, 1, 0, LOSS_CROSS_ENTROPY, 4, 4, 5, 5, 3, ALL, 0.3, 0, OWN_NONE}, \
    {"three_last",       3, 1, 1, LOSS_MSE, 4, 4, 6, 6, 3, {5, -1}, 0.3, 0, OWN_NONE}, \
    {"three_two_heads",  3, 2, 0, LOSS_CROSS_ENTROPY, 3, 3, 4, 4, 2, {1, 3, -1}, 0.3, 0, OWN_NONE}, \
    {"three_heads_blind", 3, 2, 1, LOSS_CROSS_ENTROPY, 3, 3, 4, 4, 2, {3, -1}, 0.3, 0, OWN_NONE}, \
    {"four_layers",      4, 1, 1, LOSS_CROSS_ENTROPY, 3, 3, 4, 4, 2, {3, -1}, 0.2, 0, OWN_NONE}, \
    {"four_two_heads",   4, 2, 0, LOSS_CROSS_ENTROPY, 2, 2, 3, 3, 2, {0, 2, -1}, 0.1, 0, OWN_NONE}, \
    {"five_layers",      5, 1, 0, LOSS_CROSS_ENTROPY, 3, 3, 4, 4, 2, {2, 3, -1}, 0.1, 0, OWN_NONE}, \
    {"long",             2, 1, 0, LOSS_CROSS_ENTROPY, 3, 3, 19, 20, 2, {3, 18, -1}, 0.5, 0, OWN_NONE}, \
    {"long_three",       3, 1, 0, LOSS_CROSS_ENTROPY, 2, 2, 18, 18, 1, {17, -1}, 0.2, 0, OWN_NONE}, \
    {"long_blind",       2, 1, 1, LOSS_CROSS_ENTROPY, 3, 3, 33, 33, 1, {16, 32, -1}, 0.5, 0, OWN_NONE}, \
    {"one_token",        2, 2, 0, LOSS_CROSS_ENTROPY, 5, 5, 1, 1, 4, ALL, 1.0, 0, OWN_NONE}, \
    {"one_token_blind",  3, 1, 1, LOSS_CROSS_ENTROPY, 3, 3, 1, 2, 4, ALL, 1.0, 0, OWN_NONE}, \
    {"centred",          1, 2, 0, LOSS_CROSS_ENTROPY, 5, 5, 6, 7, 3, ALL, 1.0, 1, OWN_NONE}, \
    {"two_centred",      2, 2, 1, LOSS_CROSS_ENTROPY, 5, 5, 6, 6, 3, {5, -1}, 0.5, 1, OWN_NONE}, \
    {"three_centred",    3, 1, 0, LOSS_MSE, 4, 4, 5, 6, 3, ALL, 0.3, 1, OWN_NONE}, \
    {"squared",          2, 1, 0, LOSS_SQUARED, 5, 5, 7, 7, 3, ALL, 0.5, 0, OWN_NONE}, \
    {"placed_one",       1, 2, 1, LOSS_CROSS_ENTROPY, 6, 6, 5, 5, 3, {4, -1}, 1.0, 1, {8, 8, 0, 0}}, \
    {"placed",           2, 1, 1, LOSS_SQUARED, 6, 6, 5, 9, 6, {4, -1}, 0.5, 1, {9, 3, 4, 1}}, \
    {"placed_all",       2, 2, 0, LOSS_MSE, 5, 5, 5, 5, 4, ALL, 0.5, 0, {7, 7, 2, 1}}, \
    {"placed_three",     3, 1, 1, LOSS_CROSS_ENTROPY, 4, 4, 5, 5, 6, {4, -1}, 0.3, 1, {6, 3, 2, 1}}, \
    {"placed_three_all", 3, 1, 0, LOSS_SQUARED, 4, 4, 5, 5, 3, ALL, 0.3, 1, {6, 3, 4, 1}}, \
    {"placed_long",      2, 1, 1, LOSS_SQUARED, 4, 4, 19, 4, 2, {3, 18, -1}, 0.5, 1, {25, 5, 2, 1}}, \
    {"weighted",         2, 1, 0, LOSS_CROSS_ENTROPY, 5, 5, 6, 6, 6, {2, 5, -1}, 0.5, 0, {0, 0, 0, 1}}, \
    {"large_weights",    2, 1, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 7, 3, {3, 6, -1}, 5.0, 0, OWN_NONE}, \
    {"large_three",      3, 1, 0, LOSS_CROSS_ENTROPY, 4, 4, 6, 6, 3, {5, -1}, 3.0, 0, OWN_NONE}

static const struct ao_case ao_cases[] __attribute__((unused)) = {AO_CASES};
#define AO_COUNT ((int)(sizeof ao_cases / sizeof ao_cases[0]))

static inline struct spec ao_spec(const struct ao_case *c, int precision, int plan)
{
    struct spec s;
    key_defaults(&s);
    s.model.kind = MODEL_ATTENTION_ONLY;
    s.model.layers = c->layers;
    s.model.heads = c->heads;
    s.model.self_attention = !c->blind;
    s.model.embedding = c->centred ? EMBEDDING_CENTRED : EMBEDDING_ONE_HOT;
    s.model.max_length = c->max_length;
    s.model.precision = precision;
    s.train.loss = c->loss;
    s.train.plan = plan;
    if (c->own.weighted)
        s.train.cache_kib = 16;          /* several tiles a batch */
    return s;
}

static inline struct model_case ao_as_model_case(const struct ao_case *c)
{
    struct model_case m = {.vocabulary = c->vocabulary, .classes = c->classes, .length = c->length,
                           .sequences = c->sequences};
    memcpy(m.positions, c->positions, sizeof m.positions);
    return m;
}

static inline struct batch ao_batch(const struct ao_case *c, int ragged)
{
    static const double weights[] = {0.5, 1.0, 1.0, 0.0, 3.25};
    struct model_case m = ao_as_model_case(c);
    struct batch b = case_batch(&m, ragged);
    struct stream s = stream_open(21, PURPOSE_PROBE, 0);
    if (c->own.positions) {
        b.position = memory_new((size_t)(b.sequences * b.length), sizeof *b.position);
        for (int i = 0; i < b.sequences * b.length; i++)
            b.position[i] = (int32_t)stream_below(&s, (uint32_t)c->own.positions);
    }
    if (c->own.weighted) {
        b.weight = memory_new((size_t)b.sequences, sizeof *b.weight);
        for (int i = 0; i < b.sequences; i++)
            b.weight[i] = weights[i % 5];
    }
    return b;
}

static inline struct model *ao_model(const struct ao_case *c, const struct spec *s)
{
    struct model *m = NULL;
    int looked = 0;
    while (looked < 3 && c->positions[looked] >= 0)
        looked++;
    struct task_shape shape = {.vocabulary = c->vocabulary, .classes = c->classes, .length = c->length, .looked = looked,
                               .batch = c->sequences, .positions = c->own.positions, .period = c->own.period,
                               .common = c->own.common};
    if (model_open(s, shape, &m) != STATUS_OK) {
        fprintf(stderr, "%s: model_open: %s\n", c->name, status_text());
        exit(1);
    }
    return m;
}

/* Normal weights of the case's scale, as the model's precision holds them.   out: flat */
static inline void ao_weights(const struct ao_case *c, struct model *m, double *flat)
{
    const struct tensor *table;
    int n = model_tensors(m, &table);
    memset(flat, 0, model_flat_length(m) * sizeof *flat);
    for (int i = 0; i < n; i++) {
        struct stream s = stream_open(17, PURPOSE_PROBE, (uint32_t)i);
        for (int k = 0; k < table[i].rows * table[i].cols; k++)
            flat[table[i].offset + (size_t)k] = c->scale * stream_normal(&s);
    }
    model_weights_set(m, flat);
    model_weights_get(m, flat);
}

static inline int ao_positions(const struct ao_case *c) { return c->own.positions ? c->own.positions : c->max_length; }

static inline int ao_width(const struct ao_case *c, int layer)
{
    int width = c->vocabulary + ao_positions(c);
    for (int l = 0; l < layer; l++)
        width *= 1 + c->heads;
    return width;
}

/* One head: y[t] = sum_u softmax_u(x_t' W x_u) x_u over u <= t, or u < t for the blind; nothing seen: zero.
 * x [length] streams of which the first d numbers are read, ld apart; y likewise. */
static inline void ao_head(struct twin *w, const struct ao_case *c, const struct tensor *matrix, int d, int ld, const int *x,
                           int *y)
{
    struct tape *t = &w->tape;
    int *q = memory_new((size_t)d, sizeof *q), *s = memory_new((size_t)c->length, sizeof *s);
    for (int i = 0; i < c->length; i++) {
        const int seen = c->blind ? i : i + 1;
        for (int k = 0; k < d; k++) {
            q[k] = tape_constant(t, 0.0);
            for (int r = 0; r < d; r++)
                q[k] = tape_add(t, q[k], tape_multiply(t, x[i * ld + r], twin_weight(w, matrix, r, k)));
        }
        for (int j = 0; j < seen; j++) {
            s[j] = tape_constant(t, 0.0);
            for (int k = 0; k < d; k++)
                s[j] = tape_add(t, s[j], tape_multiply(t, q[k], x[j * ld + k]));
        }
        if (seen)
            twin_softmax(t, s, seen, s);
        for (int k = 0; k < d; k++) {
            y[i * ld + k] = tape_constant(t, 0.0);
            for (int j = 0; j < seen; j++)
                y[i * ld + k] = tape_add(t, y[i * ld + k], tape_multiply(t, s[j], x[j * ld + k]));
        }
    }
    memory_free(q);
    memory_free(s);
}

/* Which mean a coordinate of d_0 belongs to. */
static inline int ao_group(const struct ao_case *c, int k)
{
    const int period = c->own.period ? c->own.period : ao_positions(c);
    return k < c->own.common ? -2 : k < c->vocabulary ? -1 : (k - c->vocabulary) / period;
}

/* Coordinate k of token and position: the one-hot vectors less the means of their groups. */
static inline double ao_embedded(const struct ao_case *c, int token, int position, int k)
{
    double x = 0.0;
    const int one[2] = {token, c->vocabulary + position};
    for (int i = 0; i < 2; i++) {
        int size = 0;
        for (int j = 0; j < ao_width(c, 0); j++)
            size += ao_group(c, j) == ao_group(c, one[i]);
        x += k == one[i];
        x -= c->centred && ao_group(c, k) == ao_group(c, one[i]) ? 1.0 / size : 0.0;
    }
    return x;
}

static inline void ao_sequence(struct twin *w, const struct ao_case *c, const struct batch *b, int q,
                               const struct intervention *v)
{
    struct tape *t = &w->tape;
    const int n = c->length, ld = ao_width(c, c->layers);
    int *x = memory_new((size_t)(n * ld), sizeof *x);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < ao_width(c, 0); k++)
            x[i * ld + k] = tape_constant(t, ao_embedded(c, b->token[q * n + i], b->position ? b->position[q * n + i] : i, k));
    for (int l = 1; l <= c->layers; l++) {
        const int d = ao_width(c, l - 1), grown = ao_width(c, l);
        for (int h = 1; h <= c->heads; h++) {
            char name[64];
            snprintf(name, sizeof name, "block%d.head%d.query_key.weight", l, h);
            ao_head(w, c, twin_need(w, name), d, ld, x, x + h * d);
        }
        w->d = grown;
        for (int i = 0; i < n; i++) {
            for (int k = 0; k < grown; k++)                  /* new entries: what block l itself read is another stream */
                x[i * ld + k] = tape_scale(t, x[i * ld + k], 1.0);
            if (v && v->layer == l && b->target[q * n + i] >= 0)
                twin_intervene(w, x + i * ld, v);
            memcpy(w->h[l] + (q * n + i) * grown, x + i * ld, (size_t)grown * sizeof *x);
        }
    }
    for (int i = 0; i < n; i++)
        twin_linear(w, x + i * ld, "unembedding", w->logit + (q * n + i) * c->classes);
    memory_free(x);
}

/* The whole computation of a batch, every operation shaken (0: not; see twin.h). Freed with twin_free. */
static inline struct twin ao_twin(const struct ao_case *c, const struct model *m, const double *flat, const struct batch *b,
                                  const struct intervention *v, double shake)
{
    struct twin w = {.layers = c->layers, .heads = c->heads, .classes = c->classes, .sequences = b->sequences,
                     .length = b->length};
    w.tape.shake = shake;
    w.tape.stream = stream_open(20, PURPOSE_PROBE, 0);
    w.tensors = model_tensors(m, &w.table);
    for (size_t i = 0; i < model_flat_length(m); i++)
        tape_constant(&w.tape, flat[i]);
    size_t rows = (size_t)(b->sequences * b->length);
    for (int l = 1; l <= c->layers; l++)
        w.h[l] = memory_new(rows * (size_t)ao_width(c, l), sizeof(int));
    w.logit = memory_new(rows * (size_t)c->classes, sizeof(int));
    for (int q = 0; q < b->sequences; q++)
        ao_sequence(&w, c, b, q, v);
    twin_loss(&w, b, c->loss);
    return w;
}

#endif
