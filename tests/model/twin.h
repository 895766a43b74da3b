/* twin.h: the decoder once more, in double, straight from its formulas, one scalar operation at a time.
 *
 * Every operation is put on a tape with its partial derivatives, so the exact gradient of anything with respect to
 * anything is one walk back along the tape (reverse accumulation). Nothing here is shared with the model's own code
 * but the names and shapes of its tensors. No dropout.
 */
#ifndef INVAR_TESTS_MODEL_TWIN_H
#define INVAR_TESTS_MODEL_TWIN_H

#include "base/memory.h"
#include "base/stream.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tape ---- */

struct tape_entry {
    double value, adjoint, partial[2];
    int parent[2];               /* -1: none */
};

struct tape {
    struct tape_entry *at;
    int count, room;
    double shake;                /* > 0: every operation, forward and back, errs by this share, with a random sign */
    struct stream stream;
};

static inline double tape_shaken(struct tape *t, double x)
{
    return t->shake == 0.0 ? x : x * (1.0 + (stream_below(&t->stream, 2) ? t->shake : -t->shake));
}

static inline int tape_push(struct tape *t, double value, int a, double da, int b, double db)
{
    if (t->count == t->room) {
        int room = t->room ? 2 * t->room : 1 << 16;
        t->at = memory_grow(t->at, (size_t)t->count, (size_t)room, sizeof *t->at);
        t->room = room;
    }
    t->at[t->count] = (struct tape_entry){.value = tape_shaken(t, value), .partial = {da, db}, .parent = {a, b}};
    return t->count++;
}

static inline double tape_value(const struct tape *t, int a) { return t->at[a].value; }
static inline int tape_constant(struct tape *t, double x) { return tape_push(t, x, -1, 0, -1, 0); }

static inline int tape_add(struct tape *t, int a, int b)
{
    return tape_push(t, tape_value(t, a) + tape_value(t, b), a, 1.0, b, 1.0);
}

static inline int tape_subtract(struct tape *t, int a, int b)
{
    return tape_push(t, tape_value(t, a) - tape_value(t, b), a, 1.0, b, -1.0);
}

static inline int tape_multiply(struct tape *t, int a, int b)
{
    double x = tape_value(t, a), y = tape_value(t, b);
    return tape_push(t, x * y, a, y, b, x);
}

static inline int tape_scale(struct tape *t, int a, double c)
{
    return tape_push(t, c * tape_value(t, a), a, c, -1, 0);
}

static inline int tape_divide(struct tape *t, int a, int b)
{
    double x = tape_value(t, a), y = tape_value(t, b);
    return tape_push(t, x / y, a, 1.0 / y, b, -x / (y * y));
}

static inline int tape_exp(struct tape *t, int a)
{
    double e = exp(tape_value(t, a));
    return tape_push(t, e, a, e, -1, 0);
}

static inline int tape_log(struct tape *t, int a)
{
    double x = tape_value(t, a);
    return tape_push(t, log(x), a, 1.0 / x, -1, 0);
}

static inline int tape_sqrt(struct tape *t, int a)
{
    double s = sqrt(tape_value(t, a));
    return tape_push(t, s, a, 0.5 / s, -1, 0);
}

static inline int tape_relu(struct tape *t, int a)
{
    double x = tape_value(t, a);
    return tape_push(t, x > 0 ? x : 0.0, a, x > 0 ? 1.0 : 0.0, -1, 0);
}

/* x Phi(x); its derivative is Phi(x) + x phi(x). */
static inline int tape_gelu(struct tape *t, int a)
{
    double x = tape_value(t, a), below = 0.5 * erfc(-x / sqrt(2.0)), density = exp(-0.5 * x * x) / sqrt(2.0 * M_PI);
    return tape_push(t, x * below, a, below + x * density, -1, 0);
}

/* Derivatives of entry `y` with respect to all entries. */
static inline void tape_backward(struct tape *t, int y)
{
    for (int i = 0; i < t->count; i++)
        t->at[i].adjoint = 0.0;
    t->at[y].adjoint = 1.0;
    for (int i = y; i >= 0; i--)
        for (int k = 0; k < 2; k++)
            if (t->at[i].parent[k] >= 0)
                t->at[t->at[i].parent[k]].adjoint += tape_shaken(t, t->at[i].partial[k] * t->at[i].adjoint);
}

/* After tape_backward: sum of the absolute contributions to the adjoints of entries [first, first + n). Rounding
 * errors of a sum go with this, not with the sum itself, which may cancel.   out: mass[n] */
static inline void tape_mass(const struct tape *t, int first, size_t n, double *mass)
{
    memset(mass, 0, n * sizeof *mass);
    for (int i = 0; i < t->count; i++)
        for (int k = 0; k < 2; k++) {
            int a = t->at[i].parent[k] - first;
            if (t->at[i].parent[k] >= first && (size_t)a < n)
                mass[a] += fabs(t->at[i].partial[k] * t->at[i].adjoint);
        }
}

/* ---- decoder ---- */

struct twin {
    struct tape tape;
    int layers, d, heads, d_head, classes, sequences, length;
    int norm, activation, tied;
    int weights;                 /* entry of flat weight i is weights + i */
    const struct tensor *table;
    int tensors;
    int *h[65];                  /* h[l][sequence * length + position][d]: output of block l, after any intervention */
    int *logit;                  /* [sequence * length + position][classes] */
    int loss;
    size_t rows, correct;
    double weight, correct_weight;       /* of the rows and of the hits among them */
};

static inline const struct tensor *twin_tensor(const struct twin *w, const char *name)
{
    for (int i = 0; i < w->tensors; i++)
        if (!strcmp(w->table[i].name, name))
            return &w->table[i];
    return NULL;
}

/* Tape entry of element [row][col] of a tensor that must be there. */
static inline int twin_weight(const struct twin *w, const struct tensor *t, int row, int col)
{
    return w->weights + (int)t->offset + row * t->cols + col;
}

static inline const struct tensor *twin_need(const struct twin *w, const char *name)
{
    const struct tensor *t = twin_tensor(w, name);
    if (!t) {
        fprintf(stderr, "the model has no tensor %s\n", name);
        exit(1);
    }
    return t;
}

/* out[n] = x[k] W + b, the bias only where the model has one. */
static inline void twin_linear(struct twin *w, const int *x, const char *name, int *out)
{
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    const struct tensor *m = twin_need(w, full);
    snprintf(full, sizeof full, "%s.bias", name);
    const struct tensor *b = twin_tensor(w, full);
    for (int j = 0; j < m->cols; j++) {
        int sum = b ? twin_weight(w, b, 0, j) : tape_constant(&w->tape, 0.0);
        for (int i = 0; i < m->rows; i++)
            sum = tape_add(&w->tape, sum, tape_multiply(&w->tape, x[i], twin_weight(w, m, i, j)));
        out[j] = sum;
    }
}

/* (x - mean) / sqrt(variance + 1e-5) * gain + shift, the variance over d. */
static inline void twin_norm(struct twin *w, int *x, const char *name)
{
    char full[96];
    struct tape *t = &w->tape;
    int d = w->d, mean = tape_constant(t, 0.0), variance = tape_constant(t, 0.0);
    snprintf(full, sizeof full, "%s.gain", name);
    const struct tensor *gain = twin_need(w, full);
    snprintf(full, sizeof full, "%s.shift", name);
    const struct tensor *shift = twin_need(w, full);
    for (int i = 0; i < d; i++)
        mean = tape_add(t, mean, x[i]);
    mean = tape_scale(t, mean, 1.0 / d);
    for (int i = 0; i < d; i++) {
        int c = tape_subtract(t, x[i], mean);
        variance = tape_add(t, variance, tape_multiply(t, c, c));
    }
    int root = tape_sqrt(t, tape_add(t, tape_scale(t, variance, 1.0 / d), tape_constant(t, 1e-5)));
    for (int i = 0; i < d; i++) {
        int unit = tape_divide(t, tape_subtract(t, x[i], mean), root);
        x[i] = tape_add(t, tape_multiply(t, unit, twin_weight(w, gain, 0, i)), twin_weight(w, shift, 0, i));
    }
}

/* p[k] = softmax of s[0..n). */
static inline void twin_softmax(struct tape *t, const int *s, int n, int *p)
{
    int most = 0, sum = tape_constant(t, 0.0);
    for (int k = 1; k < n; k++)
        if (tape_value(t, s[k]) > tape_value(t, s[most]))
            most = k;
    double shift = tape_value(t, s[most]);       /* a constant: softmax does not depend on it */
    for (int k = 0; k < n; k++) {
        p[k] = tape_exp(t, tape_add(t, s[k], tape_constant(t, -shift)));
        sum = tape_add(t, sum, p[k]);
    }
    for (int k = 0; k < n; k++)
        p[k] = tape_divide(t, p[k], sum);
}

/* Causal attention of one sequence: x [length][d] -> y [length][d]. */
static inline void twin_attention(struct twin *w, int layer, const int *x, int *y)
{
    struct tape *t = &w->tape;
    int n = w->length, d = w->d, e = w->heads * w->d_head;
    char name[4][64];
    static const char *const part[4] = {"query", "key", "value", "output"};
    for (int k = 0; k < 4; k++)
        snprintf(name[k], sizeof name[k], "block%d.attention.%s", layer, part[k]);
    int *qkv[3], *mixed = memory_new((size_t)e, sizeof(int)), *s = memory_new((size_t)n, sizeof(int));
    for (int k = 0; k < 3; k++) {
        qkv[k] = memory_new((size_t)(n * e), sizeof(int));
        for (int i = 0; i < n; i++)
            twin_linear(w, x + i * d, name[k], qkv[k] + i * e);
    }
    for (int i = 0; i < n; i++) {
        for (int head = 0; head < w->heads; head++) {
            int first = head * w->d_head;
            for (int j = 0; j <= i; j++) {
                s[j] = tape_constant(t, 0.0);
                for (int c = first; c < first + w->d_head; c++)
                    s[j] = tape_add(t, s[j], tape_multiply(t, qkv[0][i * e + c], qkv[1][j * e + c]));
                s[j] = tape_scale(t, s[j], 1.0 / sqrt((double)w->d_head));
            }
            twin_softmax(t, s, i + 1, s);
            for (int c = first; c < first + w->d_head; c++) {
                mixed[c] = tape_constant(t, 0.0);
                for (int j = 0; j <= i; j++)
                    mixed[c] = tape_add(t, mixed[c], tape_multiply(t, s[j], qkv[2][j * e + c]));
            }
        }
        twin_linear(w, mixed, name[3], y + i * d);
    }
    for (int k = 0; k < 3; k++)
        memory_free(qkv[k]);
    memory_free(mixed);
    memory_free(s);
}

/* One position's MLP. */
static inline void twin_mlp(struct twin *w, int layer, const int *x, int *y)
{
    char in[64], out[64], weight[96];
    snprintf(in, sizeof in, "block%d.mlp.up", layer);
    snprintf(out, sizeof out, "block%d.mlp.down", layer);
    snprintf(weight, sizeof weight, "%s.weight", in);
    int width = twin_need(w, weight)->cols, *hidden = memory_new((size_t)width, sizeof(int));
    twin_linear(w, x, in, hidden);
    for (int j = 0; j < width; j++)
        hidden[j] = w->activation == ACTIVATION_RELU ? tape_relu(&w->tape, hidden[j]) : tape_gelu(&w->tape, hidden[j]);
    twin_linear(w, hidden, out, y);
    memory_free(hidden);
}

/* One block on one sequence x [length][d], in place: attention, then the MLP where the block has one, each as
 * LN(x + f(x)), x + f(LN(x)) or x + f(x). */
static inline void twin_block(struct twin *w, int layer, int *x)
{
    int n = w->length, d = w->d;
    size_t all = (size_t)(n * d);
    int *in = memory_new(all, sizeof(int)), *y = memory_new(all, sizeof(int));
    for (int half = 0; half < 2; half++) {
        char norm[64], mlp[64];
        snprintf(norm, sizeof norm, half == 0 ? "block%d.norm1" : "block%d.norm2", layer);
        snprintf(mlp, sizeof mlp, "block%d.mlp.up.weight", layer);
        if (half == 1 && !twin_tensor(w, mlp))
            break;
        memcpy(in, x, all * sizeof(int));
        for (int i = 0; i < n && w->norm == NORM_PRE; i++)
            twin_norm(w, in + i * d, norm);
        if (half == 0)
            twin_attention(w, layer, in, y);
        for (int i = 0; i < n && half == 1; i++)
            twin_mlp(w, layer, in + i * d, y + i * d);
        for (size_t i = 0; i < all; i++)
            x[i] = tape_add(&w->tape, x[i], y[i]);
        for (int i = 0; i < n && w->norm == NORM_POST; i++)
            twin_norm(w, x + i * d, norm);
    }
    memory_free(in);
    memory_free(y);
}

/* h <- mean + (h - mean) P of one position, P = basis basis' or I - basis basis'. */
static inline void twin_intervene(struct twin *w, int *h, const struct intervention *v)
{
    int d = w->d, *c = memory_new((size_t)d, sizeof(int)), *kept = memory_new((size_t)d, sizeof(int));
    struct tape *t = &w->tape;
    for (int i = 0; i < d; i++) {
        c[i] = tape_add(t, h[i], tape_constant(t, v->mean ? -v->mean[i] : 0.0));
        kept[i] = tape_constant(t, 0.0);
    }
    for (int k = 0; k < v->rank; k++) {
        int z = tape_constant(t, 0.0);
        for (int i = 0; i < d; i++)
            z = tape_add(t, z, tape_scale(t, c[i], v->basis[i * v->rank + k]));
        for (int i = 0; i < d; i++)
            kept[i] = tape_add(t, kept[i], tape_scale(t, z, v->basis[i * v->rank + k]));
    }
    for (int i = 0; i < d; i++)
        h[i] = tape_add(t, v->remove ? tape_subtract(t, c[i], kept[i]) : kept[i],
                        tape_constant(t, v->mean ? v->mean[i] : 0.0));
    memory_free(c);
    memory_free(kept);
}

static inline void twin_unembed(struct twin *w, int *x, int *logit)
{
    if (w->norm == NORM_PRE)
        twin_norm(w, x, "norm");
    if (!w->tied) {
        twin_linear(w, x, "unembedding", logit);
        return;
    }
    const struct tensor *token = twin_need(w, "token.weight"), *bias = twin_tensor(w, "unembedding.bias");
    for (int k = 0; k < w->classes; k++) {
        logit[k] = bias ? twin_weight(w, bias, 0, k) : tape_constant(&w->tape, 0.0);
        for (int i = 0; i < w->d; i++)
            logit[k] = tape_add(&w->tape, logit[k], tape_multiply(&w->tape, x[i], twin_weight(w, token, k, i)));
    }
}

static inline int twin_row_loss(struct twin *w, const int *logit, int target, int loss)
{
    struct tape *t = &w->tape;
    int sum = tape_constant(t, 0.0);
    if (loss == LOSS_MSE || loss == LOSS_SQUARED) {
        for (int k = 0; k < w->classes; k++) {
            int c = tape_add(t, logit[k], tape_constant(t, k == target ? -1.0 : 0.0));
            sum = tape_add(t, sum, tape_multiply(t, c, c));
        }
        return tape_scale(t, sum, loss == LOSS_MSE ? 1.0 / w->classes : 0.5);
    }
    double most = tape_value(t, logit[0]);
    for (int k = 1; k < w->classes; k++)
        most = fmax(most, tape_value(t, logit[k]));
    for (int k = 0; k < w->classes; k++)
        sum = tape_add(t, sum, tape_exp(t, tape_add(t, logit[k], tape_constant(t, -most))));
    return tape_subtract(t, tape_add(t, tape_log(t, sum), tape_constant(t, most)), logit[target]);
}

/* Embeds, runs and unembeds sequence `s` of the batch. */
static inline void twin_sequence(struct twin *w, const struct batch *b, int s, const struct intervention *v)
{
    int n = w->length, d = w->d, *x = memory_new((size_t)(n * d), sizeof(int));
    const struct tensor *token = twin_need(w, "token.weight"), *position = twin_need(w, "position.weight");
    for (int i = 0; i < n; i++)
        for (int k = 0; k < d; k++)
            x[i * d + k] = tape_add(&w->tape, twin_weight(w, token, b->token[s * n + i], k),
                                    twin_weight(w, position, i, k));
    for (int layer = 1; layer <= w->layers; layer++) {
        twin_block(w, layer, x);
        for (int i = 0; i < n && v && v->layer == layer; i++)
            if (b->target[s * n + i] >= 0)
                twin_intervene(w, x + i * d, v);
        memcpy(w->h[layer] + s * n * d, x, (size_t)(n * d) * sizeof(int));
    }
    for (int i = 0; i < n; i++)
        twin_unembed(w, x + i * d, w->logit + (s * n + i) * w->classes);
    memory_free(x);
}

/* Mean loss over the rows, each with its sequence's weight, and how many are right (ties: lowest class). */
static inline void twin_loss(struct twin *w, const struct batch *b, int loss)
{
    struct tape *t = &w->tape;
    w->loss = tape_constant(t, 0.0);
    for (int r = 0; r < w->sequences * w->length; r++) {
        if (b->target[r] < 0)
            continue;
        const int *logit = w->logit + r * w->classes;
        const double weight = b->weight ? b->weight[r / w->length] : 1.0;
        w->loss = tape_add(t, w->loss, tape_scale(t, twin_row_loss(w, logit, b->target[r], loss), weight));
        int best = 0;
        for (int k = 1; k < w->classes; k++)
            if (tape_value(t, logit[k]) > tape_value(t, logit[best]))
                best = k;
        w->rows++;
        w->correct += best == b->target[r];
        w->weight += weight;
        w->correct_weight += best == b->target[r] ? weight : 0.0;
    }
    w->loss = tape_scale(t, w->loss, 1.0 / w->weight);
}

/* The whole computation of a batch with these flat weights, every operation shaken (0: not). */
static inline struct twin twin_shaken(const struct spec *s, const struct model *m, int classes, const double *flat,
                                      const struct batch *b, const struct intervention *v, double shake)
{
    struct twin w = {.layers = (int)s->model.layers, .d = (int)s->model.d_model, .heads = (int)s->model.heads,
                     .classes = classes, .sequences = b->sequences, .length = b->length, .norm = s->model.norm,
                     .activation = s->model.activation, .tied = s->model.tied};
    w.tape.shake = shake;
    w.tape.stream = stream_open(20, PURPOSE_PROBE, 0);
    w.d_head = s->model.d_head ? (int)s->model.d_head : w.d / w.heads;
    w.tensors = model_tensors(m, &w.table);
    size_t rows = (size_t)(b->sequences * b->length), flat_length = model_flat_length(m);
    for (size_t i = 0; i < flat_length; i++)
        tape_constant(&w.tape, flat[i]);
    w.weights = 0;
    for (int layer = 1; layer <= w.layers; layer++)
        w.h[layer] = memory_new(rows * (size_t)w.d, sizeof(int));
    w.logit = memory_new(rows * (size_t)classes, sizeof(int));
    for (int q = 0; q < b->sequences; q++)
        twin_sequence(&w, b, q, v);
    twin_loss(&w, b, s->train.loss);
    return w;
}

/* The whole computation of a batch with these flat weights; `v` may be NULL. */
static inline struct twin twin_run(const struct spec *s, const struct model *m, int classes, const double *flat,
                                   const struct batch *b, const struct intervention *v)
{
    return twin_shaken(s, m, classes, flat, b, v, 0.0);
}

static inline void twin_free(struct twin *w)
{
    for (int layer = 1; layer <= w->layers; layer++)
        memory_free(w->h[layer]);
    memory_free(w->logit);
    memory_free(w->tape.at);
}

#endif
