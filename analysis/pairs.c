#include "analysis/pairs.h"

#include "analysis/exact_product.h"
#include "analysis/exchange.h"
#include "base/memory.h"
#include "base/stream.h"
#include "mpi/agree.h"

#include <math.h>
#include <string.h>

const struct pairs_field pairs_field[PAIRS_COUNT] = {
#define PAIRS(name, per_component, unit, long_name, comment) {#name, per_component, unit, long_name, comment},
    PAIRS_TABLE(PAIRS)
#undef PAIRS
};

static size_t values(const struct pairs *p, int v)
{
    return (size_t)p->runs * (size_t)p->runs * (size_t)(pairs_field[v].per_component ? p->components : 1);
}

void pairs_new(const struct ensemble *e, struct pairs *p)
{
    *p = (struct pairs){.runs = e->runs};
    for (int k = 0; k < e->runs; k++)
        if (e->member[k].columns > p->components)
            p->components = e->member[k].columns;
    for (int v = 0; v < PAIRS_COUNT; v++) {
        p->value[v] = memory_new(values(p, v), sizeof(double));
        for (size_t i = 0; i < values(p, v); i++)
            p->value[v][i] = NAN;
    }
}

void pairs_clear(struct pairs *p)
{
    for (int v = 0; v < PAIRS_COUNT; v++)
        memory_free(p->value[v]);
    *p = (struct pairs){0};
}

double *pairs_at(const struct pairs *p, enum pairs_variable v, int a, int b)
{
    size_t each = (size_t)(pairs_field[v].per_component ? p->components : 1);
    return p->value[v] + ((size_t)a * (size_t)p->runs + (size_t)b) * each;
}

/* ---- who makes which pair ---- */

/* Pairs a <= b in order, number t belongs to rank t mod size. */
static int is_mine(const struct ensemble *e, int a, int b)
{
    long long t = (long long)a * e->runs - (long long)a * (a - 1) / 2 + (b - a);
    return t % e->size == e->rank;
}

/* Before a variable is filled: zero bits, so that the parts of the ranks can be put together. */
static void begin(struct pairs *p, enum pairs_variable v) { memset(p->value[v], 0, values(p, v) * sizeof(double)); }

/* Puts k values and NAN behind them at (a, b) and (b, a). */
static void put(struct pairs *p, enum pairs_variable v, int a, int b, int k, const double *x)
{
    int room = pairs_field[v].per_component ? p->components : 1;
    double *there = pairs_at(p, v, a, b), *back = pairs_at(p, v, b, a);
    for (int c = 0; c < room; c++)
        there[c] = back[c] = c < k ? x[c] : NAN;
}

static void end(const struct ensemble *e, struct pairs *p, enum pairs_variable v)
{
    exchange_share(e->comm, p->value[v], values(p, v) * sizeof(double));
}

static int components(const struct cca_pair *q) { return q->a->rank < q->b->rank ? q->a->rank : q->b->rank; }

static enum status of_pair(enum status s, const struct ensemble *e, int a, int b)
{
    return s == STATUS_OK ? s : status_context(s, "runs %zu and %zu", e->member[a].run, e->member[b].run);
}

/* ---- correlations and what else the block says ---- */

static const enum pairs_variable of_block[] = {PAIRS_canonical_correlation, PAIRS_svcca_mean, PAIRS_pwcca,
                                               PAIRS_linear_cka, PAIRS_procrustes_distance, PAIRS_saturated};
enum { OF_BLOCK = sizeof of_block / sizeof *of_block };

static enum status correlate(const struct panel *panel, int a, int b, struct pairs *p)
{
    struct cca_pair q = panel_pair(panel, panel->gram, a, b);
    struct cca_measures m = {0};
    double *correlation = memory_new((size_t)p->components, sizeof *correlation);
    double saturated = panel->rows - 1 < q.a->rank + q.b->rank;
    enum status s = cca_correlations(&q, correlation, NULL, NULL);
    if (s == STATUS_OK)
        s = cca_measures(&q, &m);
    put(p, PAIRS_canonical_correlation, a, b, components(&q), correlation);
    put(p, PAIRS_svcca_mean, a, b, 1, &m.svcca_mean);
    put(p, PAIRS_linear_cka, a, b, 1, &m.linear_cka);
    put(p, PAIRS_procrustes_distance, a, b, 1, &m.procrustes_distance);
    put(p, PAIRS_saturated, a, b, 1, &saturated);
    *pairs_at(p, PAIRS_pwcca, b, a) = m.pwcca_other;
    *pairs_at(p, PAIRS_pwcca, a, b) = m.pwcca;
    memory_free(correlation);
    return s;
}

enum status pairs_correlate(const struct ensemble *e, const struct panel *panel, struct pairs *p)
{
    enum status s = STATUS_OK;
    for (int i = 0; i < OF_BLOCK; i++)
        begin(p, of_block[i]);
    for (int a = 0; a < e->runs; a++)
        for (int b = a; b < e->runs && s == STATUS_OK; b++)
            if (is_mine(e, a, b))
                s = of_pair(correlate(panel, a, b, p), e, a, b);
    for (int i = 0; i < OF_BLOCK; i++)
        end(e, p, of_block[i]);
    return agree(e->comm, s);
}

/* ---- core subspaces and weights ---- */

static enum status compare_spaces(const struct ensemble *e, int a, int b, struct pairs *p)
{
    const struct member *x = &e->member[a], *y = &e->member[b];
    int comparable = x->width == y->width, k = x->columns < y->columns ? x->columns : y->columns;
    double *angle = memory_new((size_t)p->components, sizeof *angle), overlap = NAN;
    enum status s = STATUS_OK;
    if (comparable)
        s = cca_angles(x->width, x->columns, e->basis[a], y->columns, e->basis[b], angle, &overlap);
    put(p, PAIRS_principal_angle, a, b, comparable ? k : 0, angle);
    put(p, PAIRS_projector_overlap, a, b, comparable, &overlap);
    memory_free(angle);
    return s;
}

enum status pairs_compare_spaces(const struct ensemble *e, struct pairs *p)
{
    enum status s = STATUS_OK;
    begin(p, PAIRS_principal_angle);
    begin(p, PAIRS_projector_overlap);
    for (int a = 0; a < e->runs; a++)
        for (int b = a; b < e->runs && s == STATUS_OK; b++)
            if (is_mine(e, a, b))
                s = of_pair(compare_spaces(e, a, b, p), e, a, b);
    end(e, p, PAIRS_principal_angle);
    end(e, p, PAIRS_projector_overlap);
    return agree(e->comm, s);
}

/* The weight vectors as the columns of one matrix, shorter ones with zeros behind.   collective */
static void weight_columns(const struct ensemble *e, struct dmatrix *m)
{
    size_t runs = (size_t)e->runs;
    int *owner = memory_new(runs, sizeof *owner);
    double **column = memory_new(runs, sizeof *column);
    for (size_t k = 0; k < runs; k++) {
        owner[k] = e->member[k].owner;
        if (!e->weights[k])
            continue;
        column[k] = memory_new((size_t)m->rows, sizeof(double));
        memcpy(column[k], e->weights[k], (size_t)e->member[k].parameters * sizeof(double));
    }
    dmatrix_from_columns(m, owner, (const double *const *)column);
    for (size_t k = 0; k < runs; k++)
        memory_free(column[k]);
    memory_free(column);
    memory_free(owner);
}

static void cosines(const struct ensemble *e, const double *gram, struct pairs *p)
{
    size_t n = (size_t)e->runs;
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++) {
            double size = sqrt(gram[a * n + a]) * sqrt(gram[b * n + b]);
            int comparable = hash_equal(e->member[a].layout, e->member[b].layout) && size > 0.0;
            *pairs_at(p, PAIRS_weight_cosine, (int)a, (int)b) =
                comparable ? fmax(-1.0, fmin(1.0, gram[a * n + b] / size)) : NAN;
        }
}

enum status pairs_compare_weights(const struct ensemble *e, const struct grid *g, struct pairs *p)
{
    int64_t most = 0;
    for (int k = 0; k < e->runs; k++)
        if (e->member[k].parameters > most)
            most = e->member[k].parameters;
    if (most == 0)
        return STATUS_OK;
    struct dmatrix m;
    enum status s = dmatrix_new(g, most, e->runs, 0, 0, &m);
    if (s != STATUS_OK)
        return s;
    double *gram = memory_new((size_t)e->runs * (size_t)e->runs, sizeof *gram);
    weight_columns(e, &m);
    s = exact_product_gram(&m, gram);
    if (s == STATUS_OK)
        cosines(e, gram, p);
    memory_free(gram);
    dmatrix_free(&m);
    return s;
}

/* ---- held out ---- */

static enum status hold_out(const struct panel *fit, const double *gram, int a, int b, struct pairs *p)
{
    struct cca_pair q = panel_pair(fit, fit->gram, a, b);
    struct cca_pair aa = panel_pair(fit, gram, a, a), bb = panel_pair(fit, gram, b, b);
    struct cca_pair ab = panel_pair(fit, gram, a, b);
    size_t k = (size_t)components(&q);
    double *correlation = memory_new(2 * k, sizeof *correlation), *heldout = correlation + k;
    double *left = memory_new(k * (size_t)q.a->rank, sizeof *left);
    double *right = memory_new(k * (size_t)q.b->rank, sizeof *right);
    enum status s = cca_correlations(&q, correlation, left, right);
    if (s == STATUS_OK)
        cca_heldout(&q, left, right, aa.block, bb.block, ab.block, ab.stride, heldout);
    put(p, PAIRS_canonical_correlation_heldout, a, b, (int)k, heldout);
    memory_free(right);
    memory_free(left);
    memory_free(correlation);
    return s;
}

enum status pairs_hold_out(const struct ensemble *e, const struct grid *g, double tolerance, int64_t fits,
                           const uint32_t *fit_row, int64_t tests, const uint32_t *test_row, struct pairs *p)
{
    struct panel fit;
    enum status s = panel_new(e, g, fits, fit_row, tolerance, &fit);
    if (s != STATUS_OK)
        return s;
    double *gram = memory_new((size_t)fit.columns * (size_t)fit.columns, sizeof *gram);
    s = panel_project(e, &fit, tests, test_row, gram);
    if (s == STATUS_OK) {
        begin(p, PAIRS_canonical_correlation_heldout);
        for (int a = 0; a < e->runs; a++)
            for (int b = a; b < e->runs && s == STATUS_OK; b++)
                if (is_mine(e, a, b))
                    s = of_pair(hold_out(&fit, gram, a, b, p), e, a, b);
        end(e, p, PAIRS_canonical_correlation_heldout);
        s = agree(e->comm, s);
    }
    memory_free(gram);
    panel_clear(&fit);
    return s;
}

/* ---- null ---- */

struct null {
    const struct ensemble *e;
    const struct panel *panel;
    int permutations;
    struct dmatrix slice, permuted, work;
    int *exponent;               /* [P] */
    double *product;             /* [P][P] */
    double *sample;              /* [my pairs][components][permutations] */
};

/* Whole numbers back to inner products. */
static void unscale(struct null *n)
{
    int columns = n->panel->columns, bits = exact_product_bits(n->panel->rows);
    for (int i = 0; i < columns; i++)
        for (int j = 0; j < columns; j++) {
            double *x = &n->product[(size_t)i * (size_t)columns + (size_t)j];
            *x = ldexp(*x, n->exponent[i] + n->exponent[j] - 2 * bits);
        }
}

/* One permutation for all pairs of this rank. A slice has columns of length 1 to 2^-bits only, so values may exceed 1
 * by that much when they are saturated; they are cut. */
static enum status take_sample(struct null *n, int t, const struct pairs *p)
{
    double *correlation = memory_new((size_t)p->components, sizeof *correlation), *sample = n->sample;
    enum status s = STATUS_OK;
    for (int a = 0; a < p->runs && s == STATUS_OK; a++)
        for (int b = a; b < p->runs && s == STATUS_OK; b++) {
            if (!is_mine(n->e, a, b))
                continue;
            struct cca_pair q = panel_pair(n->panel, n->product, a, b);
            s = of_pair(cca_singular_values(&q, correlation), n->e, a, b);
            for (int c = 0; c < components(&q); c++)
                sample[(size_t)c * (size_t)n->permutations + (size_t)t] = fmin(1.0, correlation[c]);
            sample += (size_t)p->components * (size_t)n->permutations;
        }
    memory_free(correlation);
    return s;
}

/* Mean and quantile of the samples of this rank's pairs, then all ranks' together. */
static void summarise(struct null *n, struct pairs *p)
{
    size_t count = (size_t)n->permutations, room = (size_t)p->components;
    double *mean = memory_new(room, sizeof *mean), *p95 = memory_new(room, sizeof *p95);
    double *sample = n->sample;
    begin(p, PAIRS_canonical_correlation_null);
    begin(p, PAIRS_canonical_correlation_null_p95);
    for (int a = 0; a < p->runs; a++)
        for (int b = a; b < p->runs; b++) {
            if (!is_mine(n->e, a, b))
                continue;
            struct cca_pair q = panel_pair(n->panel, n->product, a, b);
            for (int c = 0; c < p->components; c++, sample += count) {
                mean[c] = 0.0;
                for (size_t t = 0; t < count; t++)
                    mean[c] += sample[t] / (double)count;
                p95[c] = cca_quantile(sample, count, 0.95);
            }
            put(p, PAIRS_canonical_correlation_null, a, b, components(&q), mean);
            put(p, PAIRS_canonical_correlation_null_p95, a, b, components(&q), p95);
        }
    end(n->e, p, PAIRS_canonical_correlation_null);
    end(n->e, p, PAIRS_canonical_correlation_null_p95);
    memory_free(p95);
    memory_free(mean);
}

static enum status make_matrices(struct null *n)
{
    const struct dmatrix *u = &n->panel->u;
    enum status s = dmatrix_new(u->grid, u->rows, u->cols, u->row_block, u->col_block, &n->slice);
    if (s == STATUS_OK)
        s = dmatrix_new(u->grid, u->rows, u->cols, u->row_block, u->col_block, &n->permuted);
    return s == STATUS_OK ? dmatrix_new(u->grid, u->cols, u->cols, u->col_block, u->col_block, &n->work) : s;
}

static enum status permute(struct null *n, uint64_t seed, struct pairs *p)
{
    const struct dmatrix *u = &n->panel->u;
    uint32_t *permutation = memory_new((size_t)u->rows, sizeof *permutation);
    enum status s = STATUS_OK;                   /* of this rank; all ranks go through the same products all the same */
    exact_product_exponents(u, n->exponent);
    exact_product_slice(u, n->exponent, 0, &n->slice);
    for (int t = 0; t < n->permutations; t++) {
        struct stream r = stream_open(seed, PURPOSE_PERMUTATION, (uint32_t)t);
        stream_permutation(&r, permutation, (uint32_t)u->rows);
        dmatrix_permute_rows(&n->slice, permutation, &n->permuted);
        exact_product_of_slices(&n->slice, &n->permuted, &n->work, n->product);
        unscale(n);
        if (s == STATUS_OK)
            s = take_sample(n, t, p);
    }
    memory_free(permutation);
    s = agree(n->e->comm, s);
    if (s == STATUS_OK)
        summarise(n, p);
    return s;
}

enum status pairs_permute(const struct ensemble *e, const struct panel *panel, uint64_t seed, int permutations,
                          struct pairs *p)
{
    struct null n = {.e = e, .panel = panel, .permutations = permutations};
    size_t columns = (size_t)panel->columns, mine = 0;
    for (int a = 0; a < e->runs; a++)
        for (int b = a; b < e->runs; b++)
            mine += (size_t)is_mine(e, a, b);
    enum status s = make_matrices(&n);
    if (s == STATUS_OK) {
        n.exponent = memory_new(columns, sizeof *n.exponent);
        n.product = memory_new(columns * columns, sizeof *n.product);
        n.sample = memory_new(mine * (size_t)p->components * (size_t)permutations, sizeof *n.sample);
        s = permute(&n, seed, p);
    }
    memory_free(n.sample);
    memory_free(n.product);
    memory_free(n.exponent);
    dmatrix_free(&n.work);
    dmatrix_free(&n.permuted);
    dmatrix_free(&n.slice);
    return s;
}
