#include "analysis/panel.h"

#include "analysis/exact_product.h"
#include "analysis/exchange.h"
#include "base/memory.h"
#include "mpi/agree.h"

#include <string.h>

/* Chosen rows of run k's coordinates, centred. */
static double *chosen(const struct ensemble *e, int k, int64_t n, const uint32_t *row)
{
    int columns = e->member[k].columns;
    double *z = memory_new((size_t)n * (size_t)columns, sizeof *z);
    for (int j = 0; j < columns; j++)
        for (int64_t i = 0; i < n; i++)
            z[j * n + i] = e->coordinates[k][j * e->samples + (row ? row[i] : i)];
    cca_centre(n, columns, z, NULL);
    return z;
}

/* The bases of this rank's runs.   local */
static enum status own_bases(const struct ensemble *e, int64_t n, const uint32_t *row, double tolerance,
                             struct panel *p)
{
    for (int k = 0; k < e->runs; k++) {
        const struct member *m = &e->member[k];
        if (m->owner != e->rank)
            continue;
        double *z = chosen(e, k, n, row);
        enum status s = cca_basis(n, m->columns, z, tolerance, m->noise, &p->basis[k]);
        memory_free(z);
        if (s != STATUS_OK)
            return status_context(s, "run %zu", m->run);
    }
    return STATUS_OK;
}

/* S and T' of all runs to all ranks, and with them the columns of each.   collective */
static void share_bases(const struct ensemble *e, struct panel *p)
{
    int *rank = memory_new((size_t)p->runs, sizeof *rank);
    for (int k = 0; k < p->runs; k++)
        rank[k] = p->basis[k].rank;
    exchange_share(e->comm, rank, (size_t)p->runs * sizeof *rank);
    for (int k = 0; k < p->runs; k++) {
        struct cca_basis *b = &p->basis[k];
        size_t r = (size_t)rank[k], columns = (size_t)e->member[k].columns;
        p->offset[k + 1] = p->offset[k] + rank[k];
        if (e->member[k].owner != e->rank) {
            b->columns = (int)columns;
            b->rank = rank[k];
            b->singular = memory_new(r, sizeof(double));
            b->right = memory_new(r * columns, sizeof(double));
        }
        exchange_share(e->comm, b->singular, r * sizeof(double));
        exchange_share(e->comm, b->right, r * columns * sizeof(double));
    }
    p->columns = p->offset[p->runs];
    memory_free(rank);
}

/* One distributed matrix of the runs' columns; data[k] is [rank][n] on the owner of run k.   collective */
static enum status side_by_side(const struct ensemble *e, const struct panel *p, const struct grid *g, int64_t n,
                                double *const *data, struct dmatrix *m)
{
    enum status s = dmatrix_new(g, n, p->columns, 0, 0, m);
    if (s != STATUS_OK)
        return s;
    int *owner = memory_new((size_t)p->columns, sizeof *owner);
    const double **column = memory_new((size_t)p->columns, sizeof *column);
    for (int k = 0; k < p->runs; k++)
        for (int j = p->offset[k]; j < p->offset[k + 1]; j++) {
            owner[j] = e->member[k].owner;
            column[j] = data[k] ? data[k] + (j - p->offset[k]) * n : NULL;
        }
    dmatrix_from_columns(m, owner, column);
    memory_free(column);
    memory_free(owner);
    return STATUS_OK;
}

enum status panel_new(const struct ensemble *e, const struct grid *g, int64_t n, const uint32_t *row, double tolerance,
                      struct panel *p)
{
    struct panel new = {.rows = n, .runs = e->runs};
    new.offset = memory_new((size_t)e->runs + 1, sizeof *new.offset);
    new.basis = memory_new((size_t)e->runs, sizeof *new.basis);
    enum status s = agree(e->comm, own_bases(e, n, row, tolerance, &new));
    if (s == STATUS_OK)
        share_bases(e, &new);
    if (s == STATUS_OK && new.columns) {
        double **u = memory_new((size_t)e->runs, sizeof *u);
        for (int k = 0; k < e->runs; k++)
            u[k] = new.basis[k].u;
        s = side_by_side(e, &new, g, n, u, &new.u);
        memory_free(u);
    }
    for (int k = 0; k < e->runs; k++) {
        memory_free(new.basis[k].u);
        new.basis[k].u = NULL;
    }
    if (s == STATUS_OK) {
        new.gram = memory_new((size_t)new.columns * (size_t)new.columns, sizeof *new.gram);
        if (new.columns)
            s = exact_product_gram(&new.u, new.gram);
    }
    if (s != STATUS_OK)
        panel_clear(&new);
    *p = new;
    return s;
}

/* Z T S^-1 of run k, [rank][n]. */
static double *projected(const struct ensemble *e, const struct panel *p, int k, int64_t n, const uint32_t *row)
{
    const struct cca_basis *b = &p->basis[k];
    double *z = chosen(e, k, n, row), *v = memory_new((size_t)b->rank * (size_t)n, sizeof *v);
    for (int c = 0; c < b->rank; c++)
        for (int j = 0; j < b->columns; j++) {
            double weight = b->right[c * b->columns + j] / b->singular[c];
            for (int64_t i = 0; i < n; i++)
                v[c * n + i] += z[j * n + i] * weight;
        }
    memory_free(z);
    return v;
}

enum status panel_project(const struct ensemble *e, const struct panel *p, int64_t n, const uint32_t *row, double *gram)
{
    if (!p->columns)
        return STATUS_OK;
    double **v = memory_new((size_t)e->runs, sizeof *v);
    for (int k = 0; k < e->runs; k++)
        if (e->member[k].owner == e->rank)
            v[k] = projected(e, p, k, n, row);
    struct dmatrix m = {0};
    enum status s = side_by_side(e, p, p->u.grid, n, v, &m);
    for (int k = 0; k < e->runs; k++)
        memory_free(v[k]);
    memory_free(v);
    if (s == STATUS_OK)
        s = exact_product_gram(&m, gram);
    dmatrix_free(&m);
    return s;
}

void panel_clear(struct panel *p)
{
    for (int k = 0; k < p->runs && p->basis; k++)
        cca_basis_clear(&p->basis[k]);
    memory_free(p->basis);
    memory_free(p->offset);
    memory_free(p->gram);
    dmatrix_free(&p->u);
    *p = (struct panel){0};
}

struct cca_pair panel_pair(const struct panel *p, const double *gram, int a, int b)
{
    size_t stride = (size_t)p->columns, at = (size_t)p->offset[a] * stride + (size_t)p->offset[b];
    return (struct cca_pair){&p->basis[a], &p->basis[b], gram + at, stride};
}
