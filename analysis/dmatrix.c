#include "analysis/dmatrix.h"

#include "analysis/block.h"
#include "analysis/exchange.h"
#include "analysis/scalapack.h"
#include "base/memory.h"
#include "mpi/agree.h"

#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

static const int one = 1, zero = 0;

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

enum status dmatrix_new(const struct grid *g, int64_t rows, int64_t cols, int64_t row_block, int64_t col_block,
                        struct dmatrix *m)
{
    assert(rows > 0 && cols > 0 && rows <= INT_MAX && cols <= INT_MAX);
    struct dmatrix new = {.grid = g, .rows = rows, .cols = cols};
    new.row_block = row_block ? row_block : (rows + g->rows - 1) / g->rows;
    new.col_block = col_block ? col_block : (cols + g->cols - 1) / g->cols;
    int64_t largest_rows = block_count(rows, new.row_block, 0, g->rows);      /* process 0 has the most */
    int64_t largest_cols = block_count(cols, new.col_block, 0, g->cols);
    if (largest_rows > INT_MAX / largest_cols)
        return status_fail(STATUS_USAGE, "a %lld x %lld matrix on a %d x %d grid has pieces of %lld x %lld, more than "
                           "ScaLAPACK can count (2^31): use more ranks", (long long)rows, (long long)cols, g->rows, g->cols,
                           (long long)largest_rows, (long long)largest_cols);
    new.desc[1] = -1;
    if (grid_member(g)) {
        new.local_rows = block_count(rows, new.row_block, g->row, g->rows);
        new.local_cols = block_count(cols, new.col_block, g->col, g->cols);
        new.a = memory_new((size_t)(new.local_rows * new.local_cols), sizeof(double));
        int r = (int)rows, c = (int)cols, rb = (int)new.row_block, cb = (int)new.col_block, info;
        int leading = (int)most(1, new.local_rows);
        descinit_(new.desc, &r, &c, &rb, &cb, &zero, &zero, &g->context, &leading, &info);
        assert(info == 0);
    }
    *m = new;
    return STATUS_OK;
}

void dmatrix_free(struct dmatrix *m)
{
    memory_free(m->a);
    *m = (struct dmatrix){0};
}

int dmatrix_owner(const struct dmatrix *m, int64_t row, int64_t col)
{
    const struct grid *g = m->grid;
    return block_owner(row, m->row_block, g->rows) * g->cols + block_owner(col, m->col_block, g->cols);
}

size_t dmatrix_place(const struct dmatrix *m, int64_t row, int64_t col)
{
    return (size_t)(block_local(col, m->col_block, m->grid->cols) * m->local_rows +
                    block_local(row, m->row_block, m->grid->rows));
}

static int64_t global_row(const struct dmatrix *m, int64_t i)
{
    return block_global(i, m->row_block, m->grid->row, m->grid->rows);
}

static int64_t global_col(const struct dmatrix *m, int64_t j)
{
    return block_global(j, m->col_block, m->grid->col, m->grid->cols);
}

/* Copies, for rank q, its rows of the columns that this rank has and q's part of the grid needs; returns how many.
 * With to == NULL only counts. */
static size_t pack_columns(const struct dmatrix *m, const int *owner, const double *const *column, int q, double *to)
{
    const struct grid *g = m->grid;
    if (q >= g->rows * g->cols)
        return 0;
    int64_t rows = block_count(m->rows, m->row_block, q / g->cols, g->rows);
    size_t n = 0;
    for (int64_t j = 0; j < m->cols; j++) {
        if (owner[j] != g->rank || block_owner(j, m->col_block, g->cols) != q % g->cols)
            continue;
        for (int64_t i = 0; to && i < rows; i++)
            to[n + (size_t)i] = column[j][block_global(i, m->row_block, q / g->cols, g->rows)];
        n += (size_t)rows;
    }
    return n;
}

void dmatrix_from_columns(struct dmatrix *m, const int *owner, const double *const *column)
{
    int size = m->grid->size;
    size_t *sends = memory_new((size_t)size, sizeof *sends), *receives = memory_new((size_t)size, sizeof *receives);
    size_t total = 0;
    for (int q = 0; q < size; q++)
        total += sends[q] = pack_columns(m, owner, column, q, NULL);
    double *out = memory_new(total, sizeof *out);
    double *in = memory_new((size_t)(m->local_rows * m->local_cols), sizeof *in);
    size_t at = 0;
    for (int q = 0; q < size; q++)
        at += pack_columns(m, owner, column, q, out + at);
    for (int64_t j = 0; j < m->local_cols; j++)
        receives[owner[global_col(m, j)]] += (size_t)m->local_rows;
    exchange_all(m->grid->comm, out, sends, in, receives);
    at = 0;
    for (int q = 0; q < size; q++)
        for (int64_t j = 0; j < m->local_cols; j++)
            if (owner[global_col(m, j)] == q) {
                memcpy(m->a + j * m->local_rows, in + at, (size_t)m->local_rows * sizeof(double));
                at += (size_t)m->local_rows;
            }
    memory_free(in);
    memory_free(out);
    memory_free(receives);
    memory_free(sends);
}

void dmatrix_from_whole(struct dmatrix *m, const double *whole)
{
    for (int64_t j = 0; j < m->local_cols; j++)
        for (int64_t i = 0; i < m->local_rows; i++)
            m->a[j * m->local_rows + i] = whole[global_row(m, i) * m->cols + global_col(m, j)];
}

void dmatrix_to_whole(const struct dmatrix *m, double *whole)
{
    memset(whole, 0, (size_t)(m->rows * m->cols) * sizeof(double));
    for (int64_t j = 0; j < m->local_cols; j++)
        for (int64_t i = 0; i < m->local_rows; i++)
            whole[global_row(m, i) * m->cols + global_col(m, j)] = m->a[j * m->local_rows + i];
    exchange_share(m->grid->comm, whole, (size_t)(m->rows * m->cols) * sizeof(double));
}

/* Rows on the move inside a grid column. Both sides can tell from the permutation what goes where: parts by partner,
 * each in the order of the new places. */
struct moves {
    size_t *sends, *receives;        /* [size] rows to and from each rank of comm */
    int64_t *out, *in;               /* [local_rows] places of these rows in the old and in the new piece */
};

static struct moves plan_moves(const struct dmatrix *m, const uint32_t *permutation)
{
    const struct grid *g = m->grid;
    size_t size = (size_t)g->size, rows = (size_t)m->local_rows, sent = 0, received = 0;
    struct moves v = {memory_new(size, sizeof(size_t)), memory_new(size, sizeof(size_t)),
                      memory_new(rows, sizeof(int64_t)), memory_new(rows, sizeof(int64_t))};
    for (int r = 0; grid_member(g) && r < g->rows; r++) {
        int q = r * g->cols + g->col;
        size_t sent_before = sent, received_before = received;
        int64_t theirs = block_count(m->rows, m->row_block, r, g->rows);
        for (int64_t i = 0; i < theirs; i++) {
            int64_t source = permutation[block_global(i, m->row_block, r, g->rows)];
            if (block_owner(source, m->row_block, g->rows) == g->row)
                v.out[sent++] = block_local(source, m->row_block, g->rows);
        }
        for (int64_t i = 0; i < m->local_rows; i++)
            if (block_owner(permutation[global_row(m, i)], m->row_block, g->rows) == r)
                v.in[received++] = i;
        v.sends[q] = sent - sent_before;
        v.receives[q] = received - received_before;
    }
    return v;
}

static void free_moves(struct moves *v)
{
    memory_free(v->in);
    memory_free(v->out);
    memory_free(v->receives);
    memory_free(v->sends);
}

void dmatrix_permute_rows(const struct dmatrix *from, const uint32_t *permutation, struct dmatrix *to)
{
    const struct grid *g = from->grid;
    struct moves v = plan_moves(from, permutation);
    size_t cols = (size_t)from->local_cols, rows = (size_t)from->local_rows, size = (size_t)g->size, at = 0;
    size_t *sends = memory_new(size, sizeof *sends), *receives = memory_new(size, sizeof *receives);
    size_t moving = (rows - v.sends[g->rank]) * cols;               /* as many come as go */
    double *out = memory_new(moving, sizeof *out), *in = memory_new(moving, sizeof *in);
    for (size_t q = 0, first = 0, first_in = 0; q < size; first += v.sends[q], first_in += v.receives[q], q++) {
        int stays = q == (size_t)g->rank;
        for (size_t j = 0; j < cols; j++)
            for (size_t i = 0; i < v.sends[q]; i++) {
                double x = from->a[j * rows + (size_t)v.out[first + i]];
                if (stays)
                    to->a[j * rows + (size_t)v.in[first_in + i]] = x;
                else
                    out[at++] = x;
            }
        sends[q] = stays ? 0 : v.sends[q] * cols;
        receives[q] = stays ? 0 : v.receives[q] * cols;
    }
    exchange_all(g->comm, out, sends, in, receives);
    at = 0;
    for (size_t q = 0, first = 0; q < size; first += v.receives[q], q++)
        for (size_t j = 0; j < cols && receives[q]; j++)
            for (size_t i = 0; i < v.receives[q]; i++)
                to->a[j * rows + (size_t)v.in[first + i]] = in[at++];
    memory_free(in);
    memory_free(out);
    memory_free(receives);
    memory_free(sends);
    free_moves(&v);
}

/* C <- alpha op(A) op(B) + beta C */
static void multiply(int transpose_a, double alpha, const struct dmatrix *a, const struct dmatrix *b, double beta,
                     struct dmatrix *c)
{
    if (!grid_member(a->grid))
        return;
    int m = (int)c->rows, n = (int)c->cols, k = (int)b->rows;
    pdgemm_(transpose_a ? "T" : "N", "N", &m, &n, &k, &alpha, a->a, &one, &one, a->desc, b->a, &one, &one, b->desc,
            &beta, c->a, &one, &one, c->desc);
}

void dmatrix_product(int transpose_a, const struct dmatrix *a, const struct dmatrix *b, struct dmatrix *c)
{
    multiply(transpose_a, 1.0, a, b, 0.0, c);
}

/* ---- singular values ---- */

static size_t local_size(const struct dmatrix *m) { return (size_t)(m->local_rows * m->local_cols); }

/* Frobenius norm on all ranks; NAN when an element is not finite. */
static double norm(const struct dmatrix *m)
{
    double sum = 0.0;
    for (size_t i = 0; i < local_size(m); i++)
        sum += isfinite(m->a[i]) ? m->a[i] * m->a[i] : NAN;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, m->grid->comm);
    return sqrt(sum);
}

static void add_to_diagonal(struct dmatrix *m, double x)
{
    if (!grid_member(m->grid))
        return;
    for (int64_t i = 0; i < least(m->rows, m->cols); i++)
        if (dmatrix_owner(m, i, i) == m->grid->rank)
            m->a[dmatrix_place(m, i, i)] += x;
}

/* |A - U s V'|_F, |U'U - I|_F and |V'V - I|_F. Uses `u` up: its columns are multiplied by s. */
static enum status residuals(const struct dmatrix *a, const double *s, struct dmatrix *u, const struct dmatrix *vt,
                             double *r)
{
    const struct grid *g = a->grid;
    int64_t k = vt->rows, block = a->row_block;
    struct dmatrix gram, v, rest;
    enum status e = dmatrix_new(g, k, k, block, block, &gram);
    if (e != STATUS_OK)
        return e;
    multiply(1, 1.0, u, u, 0.0, &gram);
    add_to_diagonal(&gram, -1.0);
    r[1] = norm(&gram);
    dmatrix_free(&gram);
    if ((e = dmatrix_new(g, k, k, block, block, &v)) != STATUS_OK)
        return e;
    if (grid_member(g)) {
        int n = (int)k, inner = (int)vt->cols;
        double alpha = 1.0, beta = 0.0;
        pdgemm_("N", "T", &n, &n, &inner, &alpha, vt->a, &one, &one, vt->desc, vt->a, &one, &one, vt->desc, &beta, v.a,
                &one, &one, v.desc);
    }
    add_to_diagonal(&v, -1.0);
    r[2] = norm(&v);
    dmatrix_free(&v);
    if ((e = dmatrix_new(g, a->rows, a->cols, block, block, &rest)) != STATUS_OK)
        return e;
    if (grid_member(g))
        memcpy(rest.a, a->a, local_size(a) * sizeof(double));
    for (int64_t j = 0; j < u->local_cols; j++)
        for (int64_t i = 0; i < u->local_rows; i++)
            u->a[j * u->local_rows + i] *= s[global_col(u, j)];
    multiply(0, -1.0, u, vt, 1.0, &rest);
    r[0] = norm(&rest);
    dmatrix_free(&rest);
    return STATUS_OK;
}

/* Runs pdgesvd on a copy. Called by the grid's ranks only. */
static enum status decompose(const struct dmatrix *a, double *s, struct dmatrix *u, struct dmatrix *vt)
{
    int m = (int)a->rows, n = (int)a->cols, query = -1, info = 0;
    double *copy = memory_new(local_size(a), sizeof *copy), asked[2] = {0};
    memcpy(copy, a->a, local_size(a) * sizeof *copy);
    pdgesvd_("V", "V", &m, &n, copy, &one, &one, a->desc, s, u->a, &one, &one, u->desc, vt->a, &one, &one, vt->desc,
             asked, &query, &info, 1, 1);
    double padded = asked[0] * 1.01 + 1024.0;            /* the answer may have been rounded down */
    enum status e = STATUS_OK;
    if (info != 0)
        e = status_fail(STATUS_NUMERIC, "pdgesvd refuses its argument %d for a %d x %d matrix", -info, m, n);
    else if (!(padded < INT_MAX))
        e = status_fail(STATUS_USAGE, "pdgesvd of a %d x %d matrix asks for %.3g numbers of work space, more than it can "
                        "count: use a larger gather.grid", m, n, asked[0]);
    if (e == STATUS_OK) {
        int lwork = (int)padded;
        double *work = memory_new((size_t)lwork, sizeof *work);
        pdgesvd_("V", "V", &m, &n, copy, &one, &one, a->desc, s, u->a, &one, &one, u->desc, vt->a, &one, &one, vt->desc,
                 work, &lwork, &info, 1, 1);
        memory_free(work);
        if (info != 0)
            e = status_fail(STATUS_NUMERIC, "pdgesvd of a %d x %d matrix: INFO = %d", m, n, info);
    }
    memory_free(copy);
    return e;
}

static enum status check(const struct dmatrix *a, double size, const double *s, struct dmatrix *u,
                         const struct dmatrix *vt)
{
    struct dmatrix scaled = *u;
    scaled.a = grid_member(u->grid) ? memory_new(local_size(u), sizeof(double)) : NULL;
    if (scaled.a)
        memcpy(scaled.a, u->a, local_size(u) * sizeof(double));
    double r[3] = {0}, limit = 30.0 * (double)most(a->rows, a->cols) * DBL_EPSILON;
    enum status e = residuals(a, s, &scaled, vt, r);
    memory_free(scaled.a);
    if (e != STATUS_OK)
        return e;
    double unit = sqrt((double)vt->rows);
    if (!(r[0] <= limit * size && r[1] <= limit * unit && r[2] <= limit * unit))
        return status_fail(STATUS_NUMERIC, "pdgesvd of a %lld x %lld matrix on a %d x %d grid: |A - U s V'| = %.3g |A|, "
                           "|U'U - I| = %.3g, |V'V - I| = %.3g, allowed are %.3g, %.3g, %.3g: invar doctor",
                           (long long)a->rows, (long long)a->cols, a->grid->rows, a->grid->cols,
                           size > 0.0 ? r[0] / size : r[0], r[1], r[2], limit, limit * unit, limit * unit);
    return STATUS_OK;
}

enum status dmatrix_svd(const struct dmatrix *a, double *s, struct dmatrix *u, struct dmatrix *vt)
{
    assert(a->row_block == a->col_block);
    const struct grid *g = a->grid;
    int64_t k = least(a->rows, a->cols);
    struct dmatrix left = {0}, right = {0};
    double size = norm(a);
    if (!isfinite(size))                                  /* infinities would make pdgesvd run for ever */
        return status_fail(STATUS_NUMERIC, "singular values of a %lld x %lld matrix: its values are not all finite",
                           (long long)a->rows, (long long)a->cols);
    enum status e = dmatrix_new(g, a->rows, k, a->row_block, a->col_block, &left);
    if (e == STATUS_OK)
        e = dmatrix_new(g, k, a->cols, a->row_block, a->col_block, &right);
    if (e != STATUS_OK)
        goto out;
    e = agree(g->comm, grid_member(g) ? decompose(a, s, &left, &right) : STATUS_OK);
    if (e != STATUS_OK)
        goto out;
    MPI_Bcast(s, (int)k, MPI_DOUBLE, 0, g->comm);
    e = agree(g->comm, check(a, size, s, &left, &right));
out:
    if (e != STATUS_OK) {
        dmatrix_free(&left);
        dmatrix_free(&right);
        return e;
    }
    *u = left;
    *vt = right;
    return STATUS_OK;
}
