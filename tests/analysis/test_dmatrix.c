// ranks: 1 2 3 7
/* Distributed matrices on every grid that fits, and pdgesvd against LAPACK's dgesvd. */
#include "mpi_check.h"

#include "analysis/dmatrix.h"
#include "analysis/exchange.h"
#include "base/memory.h"

#include <lapacke.h>

static double value(int64_t i, int64_t j) { return 1000.0 * (double)i + (double)j; }

static void check_pieces(const struct dmatrix *m, const uint32_t *permutation)
{
    double *whole = memory_new((size_t)(m->rows * m->cols), sizeof *whole);
    dmatrix_to_whole(m, whole);
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t j = 0; j < m->cols; j++)
            CHECK_NEAR(whole[i * m->cols + j], value(permutation ? permutation[i] : i, j), 0.0);
    memory_free(whole);
}

/* Columns dealt over the ranks (some ranks have none) become pieces; rows are permuted; everything comes back. */
static void pieces(const struct grid *g, int64_t rows, int64_t cols, int64_t row_block, int64_t col_block)
{
    struct dmatrix m, p;
    CHECK_OK(dmatrix_new(g, rows, cols, row_block, col_block, &m));
    CHECK_OK(dmatrix_new(g, rows, cols, row_block, col_block, &p));
    int *owner = memory_new((size_t)cols, sizeof *owner);
    double *data = memory_new((size_t)(rows * cols), sizeof *data);
    const double **column = memory_new((size_t)cols, sizeof *column);
    for (int64_t j = 0; j < cols; j++) {
        owner[j] = (int)(j * j) % g->size;
        column[j] = owner[j] == g->rank ? data + j * rows : NULL;
        for (int64_t i = 0; i < rows; i++)
            data[j * rows + i] = value(i, j);
    }
    dmatrix_from_columns(&m, owner, column);
    check_pieces(&m, NULL);
    uint32_t *permutation = memory_new((size_t)rows, sizeof *permutation);
    struct stream s = stream_open(5, PURPOSE_PERMUTATION, 0);
    stream_permutation(&s, permutation, (uint32_t)rows);
    dmatrix_permute_rows(&m, permutation, &p);
    check_pieces(&p, permutation);
    double *whole = memory_new((size_t)(rows * cols), sizeof *whole);
    dmatrix_to_whole(&p, whole);
    dmatrix_from_whole(&m, whole);
    check_pieces(&m, permutation);
    memory_free(whole);
    memory_free(permutation);
    memory_free(column);
    memory_free(data);
    memory_free(owner);
    dmatrix_free(&p);
    dmatrix_free(&m);
}

enum kind { DENSE, DEFICIENT, GRADED, ZERO, KINDS };

static void make(enum kind kind, int rows, int cols, double *a)
{
    fill_normal((uint32_t)(100 * rows + cols), a, (size_t)rows * (size_t)cols);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            double *x = &a[i * cols + j];
            if (kind == DEFICIENT)
                *x = (i + 1.0) * cos(j) + sin(i) * j;                /* rank 2 */
            if (kind == GRADED)
                *x *= pow(10.0, -12.0 * j / cols);
            if (kind == ZERO)
                *x = 0.0;
        }
}

/* Singular values within 20 max(m,n) eps s_1 of LAPACK's; residuals are checked by dmatrix_svd itself, and once more
 * here from the gathered factors, by plain sums. */
static void svd(const struct grid *g, enum kind kind, int rows, int cols, int block)
{
    int k = rows < cols ? rows : cols, n = rows > cols ? rows : cols;
    size_t count = (size_t)rows * (size_t)cols;
    double *a = memory_new(count, sizeof *a), *copy = memory_new(count, sizeof *copy);
    double *s = memory_new((size_t)k, sizeof *s), *expected = memory_new((size_t)k, sizeof *expected);
    double *left = memory_new((size_t)(rows * k), sizeof *left), *right = memory_new((size_t)(k * cols), sizeof *right);
    double *spare = memory_new((size_t)k, sizeof *spare);
    make(kind, rows, cols, a);
    memcpy(copy, a, count * sizeof *a);
    CHECK_INT(LAPACKE_dgesvd(LAPACK_ROW_MAJOR, 'N', 'N', rows, cols, copy, cols, expected, NULL, k, NULL, cols, spare),
              0);
    struct dmatrix m, u, vt;
    CHECK_OK(dmatrix_new(g, rows, cols, block, block, &m));
    dmatrix_from_whole(&m, a);
    CHECK_OK(dmatrix_svd(&m, s, &u, &vt));
    dmatrix_to_whole(&u, left);
    dmatrix_to_whole(&vt, right);
    double tolerance = 20.0 * n * 0x1p-52 * expected[0];
    for (int i = 0; i < k; i++)
        CHECK_NEAR(s[i], expected[i], tolerance);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            double sum = 0.0;
            for (int l = 0; l < k; l++)
                sum += left[i * k + l] * s[l] * right[l * cols + j];
            CHECK_NEAR(sum, a[i * cols + j], tolerance);
        }
    dmatrix_free(&vt);
    dmatrix_free(&u);
    dmatrix_free(&m);
    memory_free(spare);
    memory_free(right);
    memory_free(left);
    memory_free(expected);
    memory_free(s);
    memory_free(copy);
    memory_free(a);
}

/* The same matrix on the same grid again and again: the order in which messages arrive must not show. */
static void repeats(const struct grid *g)
{
    enum { N = 24, TIMES = 6 };
    double a[N * N], s[TIMES][N], left[TIMES][N * N];
    make(DENSE, N, N, a);
    for (int t = 0; t < TIMES; t++) {
        struct dmatrix m, u, vt;
        CHECK_OK(dmatrix_new(g, N, N, 4, 4, &m));
        dmatrix_from_whole(&m, a);
        CHECK_OK(dmatrix_svd(&m, s[t], &u, &vt));
        dmatrix_to_whole(&u, left[t]);
        CHECK_BYTES(s[t], s[0], sizeof s[0]);
        CHECK_BYTES(left[t], left[0], sizeof left[0]);
        dmatrix_free(&vt);
        dmatrix_free(&u);
        dmatrix_free(&m);
    }
}

/* One NaN or infinity on one rank: an answer, and the same one on all ranks, instead of a hang. */
static void not_finite(const struct grid *g, double bad)
{
    enum { N = 12 };
    double a[N * N], s[N];
    make(DENSE, N, N, a);
    a[N * N - 1] = bad;
    struct dmatrix m, u = {0}, vt = {0};
    CHECK_OK(dmatrix_new(g, N, N, 4, 4, &m));
    dmatrix_from_whole(&m, a);
    CHECK_INT(dmatrix_svd(&m, s, &u, &vt), STATUS_NUMERIC);
    CHECK_HAS(status_text(), "not all finite");
    CHECK(u.a == NULL && vt.a == NULL);
    dmatrix_free(&m);
}

static void too_large(const struct grid *g)
{
    struct dmatrix m;
    CHECK_INT(dmatrix_new(g, 2000000000, 100, 32, 32, &m), STATUS_USAGE);
    CHECK_HAS(status_text(), "use more ranks");
}

static void on_grid(const struct grid *g)
{
    exchange_cap(256);
    pieces(g, 50, 11, 0, 0);
    pieces(g, 50, 11, 3, 2);
    pieces(g, 5, 1, 32, 32);
    exchange_cap((size_t)1 << 30);
    for (int kind = 0; kind < KINDS; kind++)
        svd(g, (enum kind)kind, 24, 20, 4);
    svd(g, DENSE, 24, 24, 32);                   /* one block: most ranks are empty */
    svd(g, GRADED, 30, 9, 4);
    svd(g, DEFICIENT, 9, 30, 4);
    svd(g, DENSE, 30, 1, 4);
    svd(g, DENSE, 1, 1, 8);
    repeats(g);
    not_finite(g, NAN);
    not_finite(g, INFINITY);
    too_large(g);
}

int main(int argc, char **argv)
{
    mpi_start(&argc, &argv);
    int size = mpi_size(MPI_COMM_WORLD);
    for (int rows = 1; rows <= size; rows++)
        for (int cols = 1; rows * cols <= size; cols++) {
            if (rows * cols < size && rows * cols > 2)
                continue;                        /* full grids, and small ones with ranks outside */
            struct grid g;
            CHECK_OK(grid_open(MPI_COMM_WORLD, rows, cols, &g));
            on_grid(&g);
            grid_close(&g);
        }
    CHECK_INT(memory_balance(), 0);
    return mpi_report("dmatrix");
}
