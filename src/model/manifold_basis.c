#include "model/manifold_basis.h"

#include "base/memory.h"
#include "model/pseudo_inverse.h"

#include <stdio.h>
#include <string.h>

#define SINGULAR 1e-10               /* eigenvalues of the Gram matrix below this share of the largest are rounding */

/* Pseudo-inverse of the Gram matrix of some selections, which many blocks share. */
struct inverse {
    int count, rank;
    const int *selection;            /* [count], a block's own */
    double *element;                 /* [count][count] */
};

/* A block of a tensor that has directions. */
struct block {
    int layer, head, query;
    bool of_output;                  /* no positions, d_0 x classes */
    size_t offset, ld;               /* of its first element in the flat array; between rows */
    int first, count;                /* its directions in b->order and b->selection */
    int inverse;
};

/* Tokens of a class, or positions of a period: coordinates of a segment in which embeddings are centred. */
struct group {
    size_t first, count;
};

struct manifold_basis {
    const struct manifold *m;
    const struct tensor *table;
    int *tensor;                     /* [(layers) (heads)] key-query matrices, then the unembedding: number in the table */
    bool centred;
    size_t base, tokens, common, positions, period;
    int groups, blocks, inverses;
    struct group *group;
    struct block *block;
    int *order, *selection;          /* [coordinates]: block by block, the coordinate's number and its selection */
    struct inverse *inverse;
};

/* The matrix of a block: at tokens of one class same (equal), pair (associated) and minus mean; at positions a and b of one
 * period shift[(a - b) mod period]. [0]: common, [1]: rare. The same numbers hold a block's sums. */
struct combination {
    double same[2], pair, mean[2];
    double *shift;                   /* [period] */
};

/* ---- Gram matrix ---- */

static size_t of_shift(const struct manifold_basis *b, int shift)
{
    const int period = (int)b->period;
    return (size_t)((shift % period + period) % period);
}

static double gram_of_tokens(const struct manifold_basis *b, enum selection i, enum selection j)
{
    const double common = (double)b->common, rare = (double)(b->tokens - b->common);
    const double mean = b->centred ? 1.0 : 0.0, of_common = b->common ? mean : 0.0, of_rare = rare > 0.0 ? mean : 0.0;
    if (i == SELECTION_SAME && j == SELECTION_SAME)
        return common - of_common + rare - of_rare;
    if (i == SELECTION_ASSOCIATED || j == SELECTION_ASSOCIATED)
        return i == j ? common - of_common : i == SELECTION_RARE || j == SELECTION_RARE ? 0.0 : -of_common;
    return rare - of_rare;
}

static double gram_of(const struct manifold_basis *b, int i, int j)
{
    const struct manifold_selection *s = &b->m->selection[i], *t = &b->m->selection[j];
    if ((s->kind == SELECTION_SHIFT) != (t->kind == SELECTION_SHIFT))
        return 0.0;
    if (s->kind != SELECTION_SHIFT)
        return gram_of_tokens(b, s->kind, t->kind);
    const double n = (double)b->positions;
    return (of_shift(b, s->shift) == of_shift(b, t->shift) ? n : 0.0) - (b->centred ? n / (double)b->period : 0.0);
}

double manifold_basis_gram(const struct manifold_basis *b, int i, int j)
{
    const struct manifold_coordinate *x = &b->m->coordinate[i], *y = &b->m->coordinate[j];
    if (x->layer != y->layer || x->head != y->head || x->query != y->query || x->key != y->key)
        return 0.0;
    return gram_of(b, x->selection, y->selection);
}

static struct inverse inverse_new(const struct manifold_basis *b, int n, const int *selection)
{
    struct inverse inverse = {.count = n, .selection = selection, .element = memory_new((size_t)(n * n), sizeof(double))};
    for (int i = 0; i < n * n; i++)
        inverse.element[i] = gram_of(b, selection[i / n], selection[i % n]);
    inverse.rank = pseudo_inverse(n, inverse.element, SINGULAR);
    return inverse;
}

/* The inverse for these selections, made when there is none yet. */
static int inverse_of(struct manifold_basis *b, int n, const int *selection)
{
    for (int i = 0; i < b->inverses; i++)
        if (b->inverse[i].count == n && !memcmp(b->inverse[i].selection, selection, (size_t)n * sizeof *selection))
            return i;
    b->inverse = memory_grow(b->inverse, (size_t)b->inverses, (size_t)b->inverses + 1, sizeof *b->inverse);
    b->inverse[b->inverses] = inverse_new(b, n, selection);
    return b->inverses++;
}

int manifold_basis_rank(const struct manifold_basis *b)
{
    int rank = 0;
    for (int i = 0; i < b->blocks; i++)
        rank += b->inverse[b->block[i].inverse].rank;
    return rank;
}

/* ---- opening ---- */

static void find_groups(struct manifold_basis *b)
{
    b->group = memory_new(2 + b->positions / b->period, sizeof *b->group);
    const struct group token[2] = {{0, b->common}, {b->common, b->tokens - b->common}};
    for (int i = 0; i < 2; i++)
        if (token[i].count)
            b->group[b->groups++] = token[i];
    for (size_t at = 0; at < b->positions; at += b->period)
        b->group[b->groups++] = (struct group){b->tokens + at, b->period};
}

/* Number in the table of the tensor of this layer and head. */
static int tensor_of(const struct manifold_basis *b, int layer, int head)
{
    return b->tensor[layer > b->m->layers ? b->m->layers * b->m->heads : (layer - 1) * b->m->heads + head - 1];
}

static enum status find_tensor(struct manifold_basis *b, int tensors, int layer, int head, int slot)
{
    char name[64] = "unembedding.weight";
    size_t rows = b->base;
    if (layer <= b->m->layers)
        snprintf(name, sizeof name, "block%d.head%d.query_key.weight", layer, head);
    for (int l = 1; l < layer; l++)
        rows *= 1 + (size_t)b->m->heads;
    const size_t cols = layer > b->m->layers ? b->tokens : rows;
    for (int i = 0; i < tensors; i++)
        if (!strcmp(b->table[i].name, name) && (size_t)b->table[i].rows == rows && (size_t)b->table[i].cols == cols) {
            b->tensor[slot] = i;
            return STATUS_OK;
        }
    return status_fail(STATUS_JOB, "the directions of the invariant manifold need a tensor %s of %zu x %zu: they are those of "
                       "attention_only models with as many classes as tokens", name, rows, cols);
}

static enum status find_tensors(struct manifold_basis *b, int tensors)
{
    const int layers = b->m->layers, heads = b->m->heads;
    b->tensor = memory_new((size_t)(layers * heads + 1), sizeof *b->tensor);
    enum status status = STATUS_OK;
    for (int i = 0; i < layers * heads && status == STATUS_OK; i++)
        status = find_tensor(b, tensors, i / heads + 1, i % heads + 1, i);
    return status == STATUS_OK ? find_tensor(b, tensors, layers + 1, 0, layers * heads) : status;
}

/* The block of a coordinate; count 0. */
static struct block block_of(const struct manifold_basis *b, const struct manifold_coordinate *c)
{
    const struct tensor *t = &b->table[tensor_of(b, c->layer, c->head)];
    const bool of_output = c->layer > b->m->layers;
    const size_t row = (size_t)(of_output ? c->key : c->query) * b->base, col = of_output ? 0 : (size_t)c->key * b->base;
    return (struct block){.layer = c->layer, .head = c->head, .query = c->query, .of_output = of_output,
                          .ld = (size_t)t->cols, .offset = t->offset + row * (size_t)t->cols + col};
}

/* The number of coordinate i's block, a new one where there is none yet. Coordinates of one head and query path follow one
 * another, by selection and key path; *from is where their blocks begin. */
static int block_at(struct manifold_basis *b, int i, int *from)
{
    const struct block own = block_of(b, &b->m->coordinate[i]);
    while (*from < b->blocks && (b->block[*from].layer != own.layer || b->block[*from].head != own.head ||
                                 b->block[*from].query != own.query))
        ++*from;
    int k = *from;
    while (k < b->blocks && b->block[k].offset != own.offset)
        k++;
    if (k == b->blocks)
        b->block[b->blocks++] = own;
    b->block[k].count++;
    return k;
}

/* Lists the coordinates block by block; block[i]: that of coordinate i. */
static void list_blocks(struct manifold_basis *b, const int *block)
{
    const int n = b->m->coordinates;
    b->order = memory_new((size_t)n, sizeof *b->order);
    b->selection = memory_new((size_t)n, sizeof *b->selection);
    for (int k = 1; k < b->blocks; k++)
        b->block[k].first = b->block[k - 1].first + b->block[k - 1].count;
    for (int k = 0; k < b->blocks; k++)
        b->block[k].count = 0;
    for (int i = 0; i < n; i++) {
        const int at = b->block[block[i]].first + b->block[block[i]].count++;
        b->order[at] = i;
        b->selection[at] = b->m->coordinate[i].selection;
    }
}

static void find_blocks(struct manifold_basis *b)
{
    const int n = b->m->coordinates;
    int *block = memory_new((size_t)n, sizeof *block), from = 0;
    b->block = memory_new((size_t)n, sizeof *b->block);
    for (int i = 0; i < n; i++)
        block[i] = block_at(b, i, &from);
    list_blocks(b, block);
    memory_free(block);
    for (int k = 0; k < b->blocks; k++)
        b->block[k].inverse = inverse_of(b, b->block[k].count, b->selection + b->block[k].first);
}

enum status manifold_basis_open(const struct spec *s, struct task_shape shape, const struct manifold *m,
                                const struct tensor *table, int tensors, struct manifold_basis **out)
{
    struct manifold_basis *b = memory_new(1, sizeof *b);
    b->m = m;
    b->table = table;
    b->centred = s->model.embedding == EMBEDDING_CENTRED;
    b->tokens = (size_t)shape.vocabulary;
    b->common = (size_t)shape.common;
    b->positions = shape.positions ? (size_t)shape.positions : (size_t)s->model.max_length;
    b->period = shape.period ? (size_t)shape.period : b->positions;
    b->base = b->tokens + b->positions;
    find_groups(b);
    enum status status = find_tensors(b, tensors);
    if (status != STATUS_OK) {
        manifold_basis_free(b);
        return status;
    }
    find_blocks(b);
    *out = b;
    return STATUS_OK;
}

void manifold_basis_free(struct manifold_basis *b)
{
    if (!b)
        return;
    for (int i = 0; i < b->inverses; i++)
        memory_free(b->inverse[i].element);
    memory_free(b->inverse), memory_free(b->tensor), memory_free(b->group), memory_free(b->block), memory_free(b->order);
    memory_free(b->selection), memory_free(b);
}

/* ---- adding ---- */

static void add_selection(const struct manifold_basis *b, const struct manifold_selection *s, double c, struct combination *to)
{
    const double common = b->centred && b->common ? c / (double)b->common : 0.0;
    const double rare = b->centred && b->tokens > b->common ? c / (double)(b->tokens - b->common) : 0.0;
    switch (s->kind) {
    case SELECTION_SAME:
        to->same[0] += c;
        to->mean[0] += common;
        to->same[1] += c;
        to->mean[1] += rare;
        return;
    case SELECTION_RARE:
        to->same[1] += c;
        to->mean[1] += rare;
        return;
    case SELECTION_ASSOCIATED:
        to->pair += c;
        to->mean[0] += common;
        return;
    case SELECTION_SHIFT:
        to->shift[of_shift(b, s->shift)] += c;
        for (size_t i = 0; i < b->period && b->centred; i++)
            to->shift[i] -= c / (double)b->period;
    }
}

static void combination_clear(const struct manifold_basis *b, struct combination *c)
{
    memset(c->shift, 0, b->period * sizeof *c->shift);
    *c = (struct combination){.shift = c->shift};
}

/* x += factor times the combination; x: first element of the block. */
static void add_combination(const struct manifold_basis *b, const struct block *k, const struct combination *c, double factor,
                            double *x)
{
    for (size_t i = 0; i < b->tokens; i++) {
        const int rare = i >= b->common;
        double *row = x + i * k->ld;
        const size_t end = rare ? b->tokens : b->common;
        for (size_t j = rare ? b->common : 0; j < end; j++)
            row[j] -= factor * c->mean[rare];
        row[i] += factor * c->same[rare];
        if (!rare)
            row[i ^ 1] += factor * c->pair;
    }
    for (size_t a = 0; a < b->positions && !k->of_output; a++) {
        const size_t group = a / b->period * b->period;
        double *row = x + (b->tokens + a) * k->ld + b->tokens + group;
        for (size_t j = 0; j < b->period; j++)
            row[j] += factor * c->shift[(a - group + b->period - j) % b->period];
    }
}

/* Adds factor times the combination of each block of a layer, or of all (0), to the flat array. */
static void add_blocks(const struct manifold_basis *b, int layer, const double *coordinate, double factor, double *flat)
{
    struct combination c = {.shift = memory_new(b->period, sizeof *c.shift)};
    for (int i = 0; i < b->blocks; i++) {
        const struct block *k = &b->block[i];
        if (layer && k->layer != layer)
            continue;
        combination_clear(b, &c);
        for (int j = k->first; j < k->first + k->count; j++)
            add_selection(b, &b->m->selection[b->selection[j]], coordinate[b->order[j]], &c);
        add_combination(b, k, &c, factor, flat + k->offset);
    }
    memory_free(c.shift);
}

void manifold_basis_add(const struct manifold_basis *b, const double *coordinate, double *flat)
{
    add_blocks(b, 0, coordinate, 1.0, flat);
}

/* ---- products and projection ---- */

/* Sums of a block's elements: same, pair, shift as in a combination, mean over all pairs of a class. Returns that of periods. */
static double block_sums(const struct manifold_basis *b, const struct block *k, const double *x, struct combination *c)
{
    double square = 0.0;
    for (size_t i = 0; i < b->tokens; i++) {
        const int rare = i >= b->common;
        const double *row = x + i * k->ld;
        const size_t end = rare ? b->tokens : b->common;
        for (size_t j = rare ? b->common : 0; j < end; j++)
            c->mean[rare] += row[j];
        c->same[rare] += row[i];
        if (!rare)
            c->pair += row[i ^ 1];
    }
    for (size_t a = 0; a < b->positions && !k->of_output; a++) {
        const size_t group = a / b->period * b->period;
        const double *row = x + (b->tokens + a) * k->ld + b->tokens + group;
        for (size_t j = 0; j < b->period; j++) {
            c->shift[(a - group + b->period - j) % b->period] += row[j];
            square += row[j];
        }
    }
    return square;
}

static double product_of(const struct manifold_basis *b, const struct manifold_selection *s, const struct combination *c,
                         double square)
{
    const double common = b->centred && b->common ? c->mean[0] / (double)b->common : 0.0;
    const double rare = b->centred && b->tokens > b->common ? c->mean[1] / (double)(b->tokens - b->common) : 0.0;
    switch (s->kind) {
    case SELECTION_SAME: return c->same[0] - common + c->same[1] - rare;
    case SELECTION_RARE: return c->same[1] - rare;
    case SELECTION_ASSOCIATED: return c->pair - common;
    case SELECTION_SHIFT: break;
    }
    return c->shift[of_shift(b, s->shift)] - (b->centred ? square / (double)b->period : 0.0);
}

void manifold_basis_products(const struct manifold_basis *b, const double *flat, double *product)
{
    struct combination c = {.shift = memory_new(b->period, sizeof *c.shift)};
    for (int i = 0; i < b->blocks; i++) {
        const struct block *k = &b->block[i];
        combination_clear(b, &c);
        const double square = block_sums(b, k, flat + k->offset, &c);
        for (int j = k->first; j < k->first + k->count; j++)
            product[b->order[j]] = product_of(b, &b->m->selection[b->selection[j]], &c, square);
    }
    memory_free(c.shift);
}

void manifold_basis_solve(const struct manifold_basis *b, const double *product, double *coordinate)
{
    double wanted[MANIFOLD_SELECTIONS_MAX];
    for (int i = 0; i < b->blocks; i++) {
        const struct block *k = &b->block[i];
        const double *inverse = b->inverse[k->inverse].element;
        for (int j = 0; j < k->count; j++)
            wanted[j] = product[b->order[k->first + j]];
        for (int j = 0; j < k->count; j++) {
            double sum = 0.0;
            for (int l = 0; l < k->count; l++)
                sum += inverse[j * k->count + l] * wanted[l];
            coordinate[b->order[k->first + j]] = sum;
        }
    }
}

/* ---- what acts ---- */

/* Rows of x minus their means within each group of rows. */
static void centre_rows(const struct manifold_basis *b, size_t rows, size_t cols, double *x)
{
    double *mean = memory_new(cols, sizeof *mean);
    for (size_t at = 0; at < rows; at += b->base)
        for (int g = 0; g < b->groups; g++) {
            double *first = x + (at + b->group[g].first) * cols;
            const size_t n = b->group[g].count;
            memset(mean, 0, cols * sizeof *mean);
            for (size_t i = 0; i < n * cols; i += cols)
                for (size_t j = 0; j < cols; j++)
                    mean[j] += first[i + j];
            for (size_t i = 0; i < n * cols; i += cols)
                for (size_t j = 0; j < cols; j++)
                    first[i + j] -= mean[j] / (double)n;
        }
    memory_free(mean);
}

/* The same of the columns of one row. */
static void centre_cols(const struct manifold_basis *b, size_t cols, double *row)
{
    for (size_t at = 0; at < cols; at += b->base)
        for (int g = 0; g < b->groups; g++) {
            double *x = row + at + b->group[g].first, sum = 0.0;
            const size_t n = b->group[g].count;
            for (size_t j = 0; j < n; j++)
                sum += x[j];
            for (size_t j = 0; j < n; j++)
                x[j] -= sum / (double)n;
        }
}

static void act(const struct manifold_basis *b, const struct tensor *t, bool of_output, double *x)
{
    const size_t rows = (size_t)t->rows, cols = (size_t)t->cols;
    if (!b->centred)
        return;
    for (size_t i = 0; i < rows && !of_output; i++)
        centre_cols(b, cols, x + i * cols);
    centre_rows(b, rows, cols, x);
}

static double squared_norm(const struct tensor *t, const double *flat)
{
    double sum = 0.0;
    for (size_t i = 0; i < (size_t)t->rows * (size_t)t->cols; i++)
        sum += flat[t->offset + i] * flat[t->offset + i];
    return sum;
}

/* Elements up to the end of the last tensor of the manifold. */
static size_t flat_end(const struct manifold_basis *b)
{
    size_t most = 0;
    for (int i = 0; i <= b->m->layers * b->m->heads; i++) {
        const struct tensor *t = &b->table[b->tensor[i]];
        const size_t end = t->offset + (size_t)t->rows * (size_t)t->cols;
        most = end > most ? end : most;
    }
    return most;
}

void manifold_basis_split(const struct manifold_basis *b, const double *flat, double *coordinate, double *norm, double *off)
{
    const int layers = b->m->layers, heads = b->m->heads;
    const size_t end = flat_end(b);
    double *acts = memory_new(end, sizeof *acts);
    memcpy(acts, flat, end * sizeof *acts);
    for (int l = 0; l <= layers; l++)
        norm[l] = off[l] = 0.0;
    for (int i = 0; i <= layers * heads; i++) {
        const struct tensor *t = &b->table[b->tensor[i]];
        act(b, t, i == layers * heads, acts + t->offset);
        norm[i / heads < layers ? i / heads : layers] += squared_norm(t, acts);
    }
    manifold_basis_products(b, acts, coordinate);
    manifold_basis_solve(b, coordinate, coordinate);
    add_blocks(b, 0, coordinate, -1.0, acts);
    for (int i = 0; i <= layers * heads; i++)
        off[i / heads < layers ? i / heads : layers] += squared_norm(&b->table[b->tensor[i]], acts);
    memory_free(acts);
}

void manifold_basis_project(const struct manifold_basis *b, const double *flat, double *coordinate, double *leakage)
{
    double norm[MANIFOLD_LAYERS_MAX + 1], off[MANIFOLD_LAYERS_MAX + 1];
    double *own = coordinate ? coordinate : memory_new((size_t)b->m->coordinates, sizeof *own);
    manifold_basis_split(b, flat, own, norm, off);
    for (int l = 0; l <= b->m->layers && leakage; l++)
        leakage[l] = norm[l] > 0.0 ? off[l] / norm[l] : 0.0;
    if (!coordinate)
        memory_free(own);
}
