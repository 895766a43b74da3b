#include "base/memory.h"
#include "probe/circuit_pass.h"

#include <string.h>

static int power(int base, int exponent)
{
    int x = 1;
    for (; exponent > 0; exponent--)
        x *= base;
    return x;
}

static int keys_of(const struct circuit_model *c, int layer) { return power(c->base, layer - 1); }

static void open_head(struct circuit_model *c, int layer, struct circuit_head *h)
{
    const size_t keys = (size_t)keys_of(c, layer), rows = keys * (size_t)c->selections;
    h->query = memory_new(rows, sizeof *h->query);
    h->selection = memory_new(rows, sizeof *h->selection);
    h->key = memory_new(keys, sizeof *h->key);
    h->row_of = memory_new(rows, sizeof *h->row_of);
    h->column_of = memory_new(keys, sizeof *h->column_of);
    h->weight = memory_new(rows * keys, sizeof *h->weight);
}

static void close_head(struct circuit_head *h)
{
    memory_free(h->query);
    memory_free(h->selection);
    memory_free(h->key);
    memory_free(h->row_of);
    memory_free(h->column_of);
    memory_free(h->weight);
}

enum status circuit_model_open(struct circuit_model *c, const struct manifold *m, int loss, int self, int n)
{
    *c = (struct circuit_model){.m = m, .loss = loss, .self = self, .n = n, .layers = m->layers, .heads = m->heads,
                                .base = 1 + m->heads, .selections = m->selections};
    enum status s = kern_get(NULL, &c->kern);
    if (s != STATUS_OK)
        return s;
    c->paths = power(c->base, c->layers - 1);
    c->head = memory_new((size_t)c->layers * (size_t)c->heads, sizeof *c->head);
    for (int l = 1; l <= c->layers; l++)
        for (int h = 0; h < c->heads; h++)
            open_head(c, l, &c->head[(l - 1) * c->heads + h]);
    c->readout = memory_new((size_t)m->of_tokens * (size_t)(c->paths * c->base), sizeof *c->readout);
    c->needed = memory_new((size_t)(c->paths * c->base), sizeof *c->needed);
    return STATUS_OK;
}

void circuit_model_close(struct circuit_model *c)
{
    for (int i = 0; c->head && i < c->layers * c->heads; i++)
        close_head(&c->head[i]);
    memory_free(c->head);
    memory_free(c->readout);
    memory_free(c->needed);
    *c = (struct circuit_model){0};
}

/* ---- the coordinates as matrices ---- */

/* Rows and columns that have a coordinate other than 0. */
static void find_terms(struct circuit_model *c, int layer, int head)
{
    struct circuit_head *h = &c->head[(layer - 1) * c->heads + head - 1];
    const int keys = keys_of(c, layer);
    memset(h->row_of, 0, (size_t)(keys * c->selections) * sizeof *h->row_of);
    memset(h->column_of, 0, (size_t)keys * sizeof *h->column_of);
    for (int i = 0; i < c->m->coordinates; i++) {
        const struct manifold_coordinate *x = &c->m->coordinate[i];
        if (x->layer == layer && x->head == head && c->value[i] != 0.0)
            h->row_of[x->query * c->selections + x->selection] = h->column_of[x->key] = 1;
    }
    h->rows = h->columns = 0;
    for (int r = 0; r < keys * c->selections; r++) {
        h->query[h->rows] = r / c->selections;
        h->selection[h->rows] = r % c->selections;
        h->row_of[r] = h->row_of[r] ? h->rows++ : -1;
    }
    for (int k = 0; k < keys; k++) {
        h->key[h->columns] = k;
        h->column_of[k] = h->column_of[k] ? h->columns++ : -1;
    }
}

static void put_weights(struct circuit_model *c)
{
    for (int i = 0; i < c->layers * c->heads; i++)
        memset(c->head[i].weight, 0, (size_t)c->head[i].rows * (size_t)c->head[i].columns * sizeof(double));
    memset(c->readout, 0, (size_t)c->m->of_tokens * (size_t)(c->paths * c->base) * sizeof *c->readout);
    for (int i = 0; i < c->m->coordinates; i++) {
        const struct manifold_coordinate *x = &c->m->coordinate[i];
        if (c->value[i] == 0.0)
            continue;
        if (x->layer > c->layers) {
            c->readout[x->selection * c->paths * c->base + x->key] = c->value[i];
            continue;
        }
        struct circuit_head *h = &c->head[(x->layer - 1) * c->heads + x->head - 1];
        h->weight[h->row_of[x->query * c->selections + x->selection] * h->columns + h->column_of[x->key]] = c->value[i];
    }
}

/* ---- paths that are read ---- */

static void need(struct circuit_model *c, int path)
{
    while (path > 0 && !c->needed[path]) {
        int place = 1;
        while (path / place >= c->base)
            place *= c->base;
        c->needed[path] = true;
        c->needed[path / place * place] = true;      /* its last hop */
        path %= place;
    }
}

/* From the last block down: what reads a block is above it. */
static void find_needed(struct circuit_model *c)
{
    const int all = c->paths * c->base;
    memset(c->needed, 0, (size_t)all * sizeof *c->needed);
    for (int s = 0; s < c->m->of_tokens; s++)
        for (int path = 0; path < all; path++)
            if (c->readout[s * all + path] != 0.0)
                need(c, path);
    for (int l = c->layers; l >= 1; l--)
        for (int h = 1; h <= c->heads; h++) {
            const struct circuit_head *head = &c->head[(l - 1) * c->heads + h - 1];
            for (int r = 0; r < head->rows && c->needed[h * keys_of(c, l)]; r++)
                need(c, head->query[r]);
            for (int k = 0; k < head->columns && c->needed[h * keys_of(c, l)]; k++)
                need(c, head->key[k]);
        }
}

void circuit_model_set(struct circuit_model *c, const double *value)
{
    c->value = value;
    for (int l = 1; l <= c->layers; l++)
        for (int h = 1; h <= c->heads; h++)
            find_terms(c, l, h);
    put_weights(c);
    find_needed(c);
}
