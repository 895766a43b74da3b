/* The directions of the invariant manifold against dense matrices written down from their definition, and the initial
 * weights at a point of it. */
#include "check.h"
#include "base/memory.h"
#include "base/stream.h"
#include "job/shape.h"
#include "model/manifold_basis.h"
#include "model/model_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct basis_case {
    const char *name;
    int layers, heads, layout, period, common, rare_tokens, rare_identity, embedding, shifts;
    const char *coordinates;
    int rank;                /* -1: as many as there are */
};

/* Slots of the least period, 3, have as many positions as there are shifts: each block of each key-query matrix has one
 * direction too many when all are centred. */
static const struct basis_case cases[] = {
    {"slots",       2, 1, LAYOUT_SLOTS, 4, 0, 5, 0, EMBEDDING_CENTRED, SHIFTS_BOTH, "all", -1},
    {"least_slots", 2, 1, LAYOUT_SLOTS, 0, 0, 5, 0, EMBEDDING_CENTRED, SHIFTS_BOTH, "all", 4 + 4 * 4 - 5 + 4},
    {"least_forward", 2, 1, LAYOUT_SLOTS, 0, 0, 5, 0, EMBEDDING_CENTRED, SHIFTS_FORWARD, "all", -1},
    {"one_hot",     2, 1, LAYOUT_SLOTS, 0, 4, 5, 0, EMBEDDING_ONE_HOT, SHIFTS_BOTH, "all", -1},
    {"classes",     2, 1, LAYOUT_CONTIGUOUS, 0, 4, 5, 1, EMBEDDING_CENTRED, SHIFTS_BOTH, "all", -1},
    {"one_identity", 2, 2, LAYOUT_CONTIGUOUS, 0, 6, 3, 0, EMBEDDING_CENTRED, SHIFTS_BOTH, "all", -1},
    {"common",      1, 2, LAYOUT_OFFSETS, 7, 6, 0, 0, EMBEDDING_CENTRED, SHIFTS_BOTH, "all", -1},
    {"named",       3, 1, LAYOUT_CONTIGUOUS, 0, 4, 4, 0, EMBEDDING_CENTRED, SHIFTS_BOTH,
     "alpha_1 beta_12 alpha_2 w3_1_M-1_12 beta_13 w3_1_I_12 gamma_2 delta u_C_12 gamma_3", -1},
};
#define CASES ((int)(sizeof cases / sizeof cases[0]))

static struct spec spec_of(const struct basis_case *c)
{
    struct spec s;
    key_defaults(&s);
    s.task.kind = TASK_BLOCKLIST;
    s.task.blocks = 2;
    s.task.layout = c->layout;
    s.task.period = c->period;
    s.task.common = c->common;
    s.task.rare_tokens = c->rare_tokens;
    s.model.kind = MODEL_ATTENTION_ONLY;
    s.model.layers = c->layers;
    s.model.heads = c->heads;
    s.model.embedding = c->embedding;
    s.model.rare_identity = c->rare_identity;
    s.model.shifts = c->shifts;
    s.model.precision = PRECISION_FLOAT64;
    snprintf(s.model.coordinates, sizeof s.model.coordinates, "%s", c->coordinates);
    return s;
}

/* A case with its dense directions. */
struct bench {
    struct spec spec;
    struct task_shape shape;
    struct manifold *m;
    struct model *model;
    struct manifold_basis *basis;
    const struct tensor *table;
    int tensors, n, base;
    size_t length;
    double *dense;           /* [n][length] */
    double *centre;          /* [base][base]: C, or 1 */
};

static int group_of(const struct bench *b, int c)
{
    return c < b->shape.common ? -2 : c < b->shape.vocabulary ? -1 : (c - b->shape.vocabulary) / b->shape.period;
}

static double *centre_new(const struct bench *b)
{
    double *c = memory_new((size_t)(b->base * b->base), sizeof *c);
    for (int i = 0; i < b->base; i++)
        for (int j = 0; j < b->base; j++) {
            int size = 0;
            for (int k = 0; k < b->base; k++)
                size += group_of(b, k) == group_of(b, i);
            c[i * b->base + j] = (i == j) - (b->spec.model.embedding == EMBEDDING_CENTRED && group_of(b, i) == group_of(b, j)
                                                 ? 1.0 / size
                                                 : 0.0);
        }
    return c;
}

/* One-hot coordinates i of the query and j of the key. */
static double selected(const struct bench *b, const struct manifold_selection *s, int i, int j)
{
    const int v = b->shape.vocabulary, period = b->shape.period, tokens = i < v && j < v, at = i - v;
    switch (s->kind) {
    case SELECTION_SAME: return tokens && i == j;
    case SELECTION_RARE: return tokens && i == j && i >= b->shape.common;
    case SELECTION_ASSOCIATED: return tokens && i < b->shape.common && i / 2 == j / 2 && i != j;
    case SELECTION_SHIFT: break;
    }
    for (int turn = -1; turn <= 1 && i >= v && j >= v; turn++)
        if (at / period == (j - v) / period && j - v == at - s->shift + turn * period)
            return 1.0;
    return 0.0;
}

/* out = C x, or x C, of [rows][cols] with segments of `base` along the sum. */
static void times_centre(const struct bench *b, int rows, int cols, int left, const double *x, double *out)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            double sum = 0.0;
            const int at = left ? i / b->base * b->base : j / b->base * b->base;
            for (int k = 0; k < b->base; k++)
                sum += left ? b->centre[(i - at) * b->base + k] * x[(at + k) * cols + j]
                            : x[i * cols + at + k] * b->centre[k * b->base + j - at];
            out[i * cols + j] = sum;
        }
}

/* What acts of a tensor, in place: C W C, or C U. */
static void act(const struct bench *b, const struct tensor *t, double *x)
{
    double *once = memory_new((size_t)(t->rows * t->cols), sizeof *once);
    times_centre(b, t->rows, t->cols, 1, x, once);
    if (t->group == GROUP_UNEMBEDDING)
        memcpy(x, once, (size_t)(t->rows * t->cols) * sizeof *x);
    else
        times_centre(b, t->rows, t->cols, 0, once, x);
    memory_free(once);
}

static void write_direction(const struct bench *b, const struct manifold_coordinate *c, double *flat)
{
    const struct tensor *t = &b->table[c->layer > b->m->layers ? b->tensors - 1 : (c->layer - 1) * b->m->heads + c->head - 1];
    const int row = (c->layer > b->m->layers ? c->key : c->query) * b->base, output = t->group == GROUP_UNEMBEDDING;
    const int col = output ? 0 : c->key * b->base;
    for (int i = 0; i < b->base; i++)
        for (int j = 0; j < (output ? b->shape.vocabulary : b->base); j++)
            flat[t->offset + (size_t)((row + i) * t->cols + col + j)] = selected(b, &b->m->selection[c->selection], i, j);
    act(b, t, flat + t->offset);
}

static struct bench bench_new(const struct basis_case *c)
{
    struct bench b = {.spec = spec_of(c)};
    b.shape = shape_of(&b.spec);
    CHECK_OK(manifold_new(&b.spec, &b.m));
    CHECK_OK(model_open(&b.spec, b.shape, &b.model));
    b.tensors = model_tensors(b.model, &b.table);
    CHECK_OK(manifold_basis_open(&b.spec, b.shape, b.m, b.table, b.tensors, &b.basis));
    if (!b.basis)
        exit(1);
    b.n = b.m->coordinates;
    b.base = b.shape.vocabulary + b.shape.positions;
    b.length = model_flat_length(b.model);
    b.centre = centre_new(&b);
    b.dense = memory_new((size_t)b.n * b.length, sizeof *b.dense);
    for (int i = 0; i < b.n; i++)
        write_direction(&b, &b.m->coordinate[i], b.dense + (size_t)i * b.length);
    return b;
}

static void bench_free(struct bench *b)
{
    manifold_basis_free(b->basis);
    manifold_free(b->m);
    model_free(b->model);
    memory_free(b->dense), memory_free(b->centre);
    CHECK_INT(memory_balance(), 0);
}

static double *random_new(size_t n, uint32_t index)
{
    struct stream s = stream_open(5, PURPOSE_PROBE, index);
    double *x = memory_new(n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = stream_normal(&s);
    return x;
}

/* Random weights, zero in the padding. */
static double *weights_new(const struct bench *b, uint32_t index)
{
    double *x = random_new(b->length, index);
    model_weights_set(b->model, x);
    model_weights_get(b->model, x);
    return x;
}

static double dot(const double *x, const double *y, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static const double *direction(const struct bench *b, int i) { return b->dense + (size_t)i * b->length; }

/* Rounding of the sums: within 3e-14 of numbers up to 40. */
TEST(products_and_gram_are_those_of_the_dense_matrices)
{
    for (int k = 0; k < CASES; k++) {
        struct bench b = bench_new(&cases[k]);
        double *w = weights_new(&b, 1), *product = memory_new((size_t)b.n, sizeof *product);
        manifold_basis_products(b.basis, w, product);
        for (int i = 0; i < b.n; i++) {
            CHECK_NEAR(product[i], dot(w, direction(&b, i), b.length), 1e-13);
            for (int j = 0; j < b.n; j++)
                CHECK_NEAR(manifold_basis_gram(b.basis, i, j), dot(direction(&b, i), direction(&b, j), b.length), 1e-13);
        }
        CHECK_INT(manifold_basis_rank(b.basis), cases[k].rank < 0 ? b.n : cases[k].rank);
        memory_free(w), memory_free(product);
        bench_free(&b);
    }
}

TEST(adding_is_the_sum_of_the_dense_matrices)
{
    for (int k = 0; k < CASES; k++) {
        struct bench b = bench_new(&cases[k]);
        double *w = weights_new(&b, 2), *expected = weights_new(&b, 2), *c = random_new((size_t)b.n, 3);
        manifold_basis_add(b.basis, c, w);
        for (int i = 0; i < b.n; i++)
            for (size_t j = 0; j < b.length; j++)
                expected[j] += c[i] * direction(&b, i)[j];
        for (size_t j = 0; j < b.length; j++)
            CHECK_NEAR(w[j], expected[j], 1e-14);
        memory_free(w), memory_free(expected), memory_free(c);
        bench_free(&b);
    }
}

/* Norm of a layer's part of an array, squared. */
static double layer_norm(const struct bench *b, int layer, const double *flat)
{
    double sum = 0.0;
    for (int i = 0; i < b->tensors; i++) {
        const struct tensor *t = &b->table[i];
        if ((i == b->tensors - 1 ? b->m->layers : i / b->m->heads) == layer)
            sum += dot(flat + t->offset, flat + t->offset, (size_t)(t->rows * t->cols));
    }
    return sum;
}

/* The residual of a least-squares fit is orthogonal to all directions. Of those that fit, the projection has the least
 * coordinates: adding to them what makes no difference, one and the same number at all shifts of a block, makes them longer. */
static void check_projection(struct bench *b, const double *w)
{
    double *rest = memory_new(b->length, sizeof *rest), *c = memory_new((size_t)b->n, sizeof *c), leakage[8], norm[8];
    memcpy(rest, w, b->length * sizeof *rest);
    for (int i = 0; i < b->tensors; i++)
        act(b, &b->table[i], rest + b->table[i].offset);
    for (int l = 0; l <= b->m->layers; l++)
        norm[l] = layer_norm(b, l, rest);
    manifold_basis_project(b->basis, w, c, leakage);
    for (int i = 0; i < b->n; i++)
        for (size_t j = 0; j < b->length; j++)
            rest[j] -= c[i] * direction(b, i)[j];
    for (int i = 0; i < b->n; i++)
        CHECK_NEAR(dot(rest, direction(b, i), b->length), 0.0, 1e-12);
    for (int l = 0; l <= b->m->layers; l++)
        CHECK_NEAR(leakage[l], layer_norm(b, l, rest) / norm[l], 1e-14);
    const bool dependent = manifold_basis_rank(b->basis) < b->n;
    for (int i = 0; i < b->n && dependent; i++) {
        double sum = 0.0;
        const struct manifold_coordinate *x = &b->m->coordinate[i];
        if (b->m->selection[x->selection].kind != SELECTION_SHIFT)
            continue;
        for (int j = 0; j < b->n; j++) {
            const struct manifold_coordinate *y = &b->m->coordinate[j];
            if (b->m->selection[y->selection].kind == SELECTION_SHIFT && x->layer == y->layer && x->head == y->head &&
                x->query == y->query && x->key == y->key)
                sum += c[j];
        }
        CHECK_NEAR(sum, 0.0, 1e-14);
    }
    memory_free(rest), memory_free(c);
}

TEST(projections_are_least_squares)
{
    for (int k = 0; k < CASES; k++) {
        struct bench b = bench_new(&cases[k]);
        double *w = weights_new(&b, 4);
        check_projection(&b, w);
        memory_free(w);
        bench_free(&b);
    }
}

TEST(without_weights_nothing_leaks)
{
    struct bench b = bench_new(&cases[0]);
    double *w = memory_new(b.length, sizeof *w), leakage[3];
    manifold_basis_project(b.basis, w, NULL, leakage);
    for (int l = 0; l < 3; l++)
        CHECK_NEAR(leakage[l], 0.0, 0.0);
    memory_free(w);
    bench_free(&b);
}

TEST(other_models_are_refused)
{
    struct bench b = bench_new(&cases[0]);
    struct manifold_basis *none = NULL;
    struct task_shape wrong = b.shape;
    wrong.vocabulary++;
    CHECK(manifold_basis_open(&b.spec, wrong, b.m, b.table, b.tensors, &none) == STATUS_JOB);
    CHECK_HAS(status_text(), "block1.head1.query_key.weight");
    CHECK(manifold_basis_open(&b.spec, b.shape, b.m, b.table, b.tensors - 1, &none) == STATUS_JOB);
    CHECK_HAS(status_text(), "unembedding.weight");
    bench_free(&b);
}

/* ---- initial weights ---- */

static void name_coordinate(struct spec *s, const char *name, double value)
{
    CHECK(key_named_add(&s->init.coordinates, name));
    s->init.coordinates.item[key_named_find(&s->init.coordinates, name)].value = value;
}

static void set_point(struct spec *s)
{
    s->init.scheme = INIT_COORDINATES;
    s->init.others = 0.05;
    name_coordinate(s, "alpha_1", 0.3);
    name_coordinate(s, "beta_12", -1.75);
    name_coordinate(s, "gamma_2", 0.6);
}

static double point_at(const char *name)
{
    return !strcmp(name, "alpha_1") ? 0.3 : !strcmp(name, "beta_12") ? -1.75 : !strcmp(name, "gamma_2") ? 0.6 : 0.05;
}

/* Coordinates within 2e-15. */
TEST(a_point_projects_back_to_its_coordinates)
{
    static const int wanted[] = {0, 2, 3, 4, 7};
    for (int k = 0; k < 5; k++) {
        struct bench b = bench_new(&cases[wanted[k]]);
        set_point(&b.spec);
        double *w = memory_new(b.length, sizeof *w), *c = memory_new((size_t)b.n, sizeof *c), leakage[4];
        model_initialise(b.model, &b.spec, 1);
        model_weights_get(b.model, w);
        manifold_basis_project(b.basis, w, c, leakage);
        for (int i = 0; i < b.n; i++)
            CHECK_NEAR(c[i], point_at(b.m->coordinate[i].name), 1e-14);
        for (int l = 0; l <= b.m->layers; l++)
            CHECK_NEAR(leakage[l], 0.0, 1e-28);
        memory_free(w), memory_free(c);
        bench_free(&b);
    }
}

/* What noise adds to a point is what the normal scheme gives with the same seed; factors apply to both. */
TEST(noise_is_added_to_every_weight)
{
    struct bench b = bench_new(&cases[0]);
    double *w[3];
    set_point(&b.spec);
    for (int k = 0; k < 3; k++) {
        b.spec.init.noise = k ? 0.01 : 0.0;
        b.spec.init.std = 0.01;
        b.spec.init.scheme = k == 2 ? INIT_NORMAL : INIT_COORDINATES;
        b.spec.init_scale.unembedding = k ? 2.0 : 1.0;
        model_initialise(b.model, &b.spec, 9);
        model_weights_get(b.model, w[k] = memory_new(b.length, sizeof *w[k]));
    }
    const size_t unembedding = b.table[b.tensors - 1].offset;
    for (size_t i = 0; i < b.length; i++)
        CHECK_NEAR(w[1][i], w[0][i] * (i < unembedding ? 1.0 : 2.0) + w[2][i], 1e-15);
    for (int k = 0; k < 3; k++)
        memory_free(w[k]);
    bench_free(&b);
}

/* A manifold model's one tensor holds the coordinates themselves. */
TEST(coordinates_of_a_manifold_model_are_the_values_themselves)
{
    struct spec s = spec_of(&cases[0]);
    struct manifold *manifold = NULL;
    set_point(&s);
    s.model.kind = MODEL_MANIFOLD;
    CHECK_OK(manifold_new(&s, &manifold));
    const int n = manifold->coordinates;
    double *w = memory_new((size_t)n, sizeof *w), sum = 0.0, squares = 0.0;
    struct tensor tensor = {.name = "coordinates", .group = GROUP_QUERY_KEY, .rows = 1, .cols = n};
    struct model m = {.layers = 2, .width = 1, .element_size = sizeof *w, .length = (size_t)n, .tensors = 1,
                      .tensor = &tensor, .weights = w};
    model_initialise(&m, &s, 3);
    for (int i = 0; i < n; i++)
        CHECK_NEAR(w[i], point_at(manifold->coordinate[i].name), 0.0);
    s.init.noise = 0.1;
    model_initialise(&m, &s, 3);
    for (int i = 0; i < n; i++) {
        const double noise = (w[i] - point_at(manifold->coordinate[i].name)) / 0.1;
        sum += noise;
        squares += noise * noise;
    }
    CHECK_NEAR(sum / n, 0.0, 5.0 / sqrt(n));
    CHECK_NEAR(squares / n, 1.0, 5.0 * sqrt(2.0 / n));
    memory_free(w);
    manifold_free(manifold);
}
