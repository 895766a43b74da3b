#include "analysis/consensus.h"

#include "analysis/block.h"
#include "analysis/exchange.h"
#include "base/memory.h"
#include "mpi/agree.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Column c of u, [n][n] row by row, its entry of largest modulus (the first of equals) positive. */
static void take_vector(int n, const double *u, int c, double *vector)
{
    double largest = 0.0, sign = 1.0;
    for (int i = 0; i < n; i++) {
        double x = u[(size_t)i * (size_t)n + (size_t)c];
        if (fabs(x) > largest) {
            largest = fabs(x);
            sign = x < 0.0 ? -1.0 : 1.0;
        }
    }
    for (int i = 0; i < n; i++)
        vector[i] = sign * u[(size_t)i * (size_t)n + (size_t)c];
}

static int at_most(int rows, int blocks) { return rows < blocks ? rows : blocks; }

enum status consensus_spectrum(MPI_Comm comm, const int grid[2], int block, int n, const double *gram, int dim,
                               double *value, double *vector)
{
    struct grid g;
    struct dmatrix m = {0}, u = {0}, vt = {0};
    int blocks = (n + block - 1) / block;
    enum status s = grid_open(comm, at_most(grid[0], blocks), at_most(grid[1], blocks), &g);
    if (s != STATUS_OK)
        return s;
    s = dmatrix_new(&g, n, n, block, block, &m);
    if (s == STATUS_OK) {
        dmatrix_from_whole(&m, gram);
        s = dmatrix_svd(&m, value, &u, &vt);
    }
    if (s == STATUS_OK) {
        double *whole = memory_new((size_t)n * (size_t)n, sizeof *whole);
        dmatrix_to_whole(&u, whole);
        for (int c = 0; c < dim; c++)
            take_vector(n, whole, c, vector + (size_t)c * (size_t)n);
        memory_free(whole);
    }
    dmatrix_free(&vt);
    dmatrix_free(&u);
    dmatrix_free(&m);
    grid_close(&g);
    return s;
}

static double skew(int64_t rows, int dim, const double *direction)
{
    double worst = 0.0;
    for (int a = 0; a < dim; a++)
        for (int b = 0; b <= a; b++) {
            double sum = 0.0;
            for (int64_t i = 0; i < rows; i++)
                sum += direction[i * dim + a] * direction[i * dim + b];
            worst = fmax(worst, fabs(sum - (a == b)));
        }
    return worst;
}

enum status consensus_directions(const struct dmatrix *bases, int dim, const double *value, const double *vector,
                                 double *direction)
{
    assert(bases->grid->cols == 1);
    memset(direction, 0, (size_t)bases->rows * (size_t)dim * sizeof *direction);
    for (int64_t i = 0; i < bases->local_rows; i++) {
        int64_t row = block_global(i, bases->row_block, bases->grid->row, bases->grid->rows);
        for (int c = 0; c < dim; c++) {
            double sum = 0.0;                    /* whole rows are here, so the order of the sum is always this one */
            for (int64_t j = 0; j < bases->cols; j++)
                sum += bases->a[j * bases->local_rows + i] * vector[c * bases->cols + j];
            direction[row * dim + c] = sum / sqrt(value[c]);
        }
    }
    exchange_share(bases->grid->comm, direction, (size_t)bases->rows * (size_t)dim * sizeof *direction);
    double worst = skew(bases->rows, dim, direction);
    enum status s = STATUS_OK;
    if (!(worst <= 1e-10))
        s = status_fail(STATUS_NUMERIC, "consensus directions are orthonormal to %.3g only: invar doctor", worst);
    return agree(bases->grid->comm, s);
}
