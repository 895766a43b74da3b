// ranks: 1 2 3 7
/* The consensus of runs with planted common directions, on every grid that fits, against LAPACK on the whole matrix;
 * and the permutation null of independent runs.
 */
#include "mpi_check.h"

#include "analysis/consensus.h"
#include "analysis/exact_product.h"
#include "analysis/pairs.h"
#include "base/memory.h"

#include <lapacke.h>

enum { ROWS = 300, RUNS = 5, RANK = 3, COLS = RUNS * RANK, DIM = 3 };

static void orthonormalise(int64_t n, int k, double *q)             /* [k][n] */
{
    for (int pass = 0; pass < 2; pass++)
        for (int j = 0; j < k; j++)
            for (int l = 0; l <= j; l++) {
                double sum = 0.0;
                for (int64_t i = 0; i < n; i++)
                    sum += q[j * n + i] * q[l * n + i];
                for (int64_t i = 0; i < n; i++)
                    q[j * n + i] = l < j ? q[j * n + i] - sum * q[l * n + i] : q[j * n + i] / sqrt(sum);
            }
}

/* Run k's basis: direction 0 in all runs, direction 1 in the first 3, and else directions of its own; each turned
 * inside its run. All directions are orthogonal, so the strengths are exactly 1, 3/5 and 1/5. */
static void make_bases(double *u)
{
    enum { FREE = 2 + RUNS * RANK };
    static double q[FREE * ROWS];
    fill_normal(1, q, FREE * ROWS);
    orthonormalise(ROWS, FREE, q);
    for (int k = 0; k < RUNS; k++) {
        double turn[RANK * RANK];
        fill_normal(10 + (uint32_t)k, turn, RANK * RANK);
        orthonormalise(RANK, RANK, turn);
        for (int j = 0; j < RANK; j++)
            for (int i = 0; i < ROWS; i++) {
                double x = 0.0;
                for (int l = 0; l < RANK; l++) {
                    int from = l == 0 ? 0 : l == 1 && k < 3 ? 1 : 2 + k * RANK + l;
                    x += q[from * ROWS + i] * turn[j * RANK + l];
                }
                u[(k * RANK + j) * ROWS + i] = x;
            }
    }
}

/* Strengths, vectors and directions on a grid of `comm`; 0 when the grid does not fit. */
static void find(MPI_Comm comm, const int grid[2], int block, const double *u, double *value, double *direction)
{
    struct grid tall;
    struct dmatrix m;
    int owner[COLS];
    const double *column[COLS];
    static double gram[COLS * COLS], vector[DIM * COLS];
    for (int j = 0; j < COLS; j++) {
        owner[j] = j % mpi_size(comm);
        column[j] = u + j * ROWS;
    }
    CHECK_OK(grid_open(comm, mpi_size(comm), 1, &tall));
    CHECK_OK(dmatrix_new(&tall, ROWS, COLS, 0, 0, &m));
    dmatrix_from_columns(&m, owner, column);
    CHECK_OK(exact_product_gram(&m, gram));
    CHECK_OK(consensus_spectrum(comm, grid, block, COLS, gram, DIM, value, vector));
    CHECK_OK(consensus_directions(&m, DIM, value, vector, direction));
    dmatrix_free(&m);
    grid_close(&tall);
}

/* Squared singular values of the tall matrix itself, and the projector on its two leading left vectors. */
static void against_lapack(const double *u, const double *value, const double *direction)
{
    static double copy[COLS * ROWS], left[COLS * ROWS];
    double s[COLS], spare[COLS];
    memcpy(copy, u, sizeof copy);
    CHECK_INT(LAPACKE_dgesvd(LAPACK_COL_MAJOR, 'S', 'N', ROWS, COLS, copy, ROWS, s, left, ROWS, NULL, 1, spare), 0);
    for (int c = 0; c < COLS; c++)
        CHECK_NEAR(value[c], s[c] * s[c], 1e-12);
    for (int i = 0; i < ROWS; i += 7)
        for (int j = 0; j < ROWS; j += 5) {
            double mine = 0.0, theirs = 0.0;
            for (int c = 0; c < 2; c++) {
                mine += direction[i * DIM + c] * direction[j * DIM + c];
                theirs += left[c * ROWS + i] * left[c * ROWS + j];
            }
            CHECK_NEAR(mine, theirs, 1e-12);
        }
}

static void planted(void)
{
    static const int grids[][2] = {{1, 1}, {2, 1}, {1, 2}, {1, 3}, {3, 1}, {2, 2}, {2, 3}};
    static double u[COLS * ROWS], first[ROWS * DIM], direction[ROWS * DIM];
    double one[COLS], value[COLS];
    make_bases(u);
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++) {
        int known = 0;
        for (int n = grids[g][0] * grids[g][1]; n <= mpi_size(MPI_COMM_WORLD); n++) {
            MPI_Comm comm = mpi_first(n);
            if (comm == MPI_COMM_NULL)
                continue;
            find(comm, grids[g], 4, u, value, direction);
            CHECK_NEAR(value[0] / RUNS, 1.0, 1e-13);
            CHECK_NEAR(value[1] / RUNS, 0.6, 1e-13);
            for (int c = 2; c < COLS; c++)               /* the shared ones used up 4 + 2 of 15 columns */
                CHECK_NEAR(value[c] / RUNS, c < 2 + COLS - 8 ? 0.2 : 0.0, 1e-13);
            against_lapack(u, value, direction);
            if (known && mpi_rank(comm) == 0) {
                CHECK_BYTES(value, one, sizeof one);     /* ranks beside the grid change nothing */
                CHECK_BYTES(direction, first, sizeof first);
            }
            memcpy(one, value, sizeof one);
            memcpy(first, direction, sizeof first);
            known = 1;
            MPI_Comm_free(&comm);
        }
    }
}

/* A matrix of one block takes one rank of a larger grid. */
static void small_matrix(void)
{
    int size = mpi_size(MPI_COMM_WORLD), grid[2] = {size, 1};
    double gram[4] = {2.0, 1.0, 1.0, 2.0}, value[2], vector[4];
    CHECK_OK(consensus_spectrum(MPI_COMM_WORLD, grid, 32, 2, gram, 2, value, vector));
    CHECK_NEAR(value[0], 3.0, 1e-14);
    CHECK_NEAR(value[1], 1.0, 1e-14);
    CHECK_NEAR(vector[0], sqrt(0.5), 1e-14);
    CHECK_NEAR(vector[1], sqrt(0.5), 1e-14);
    CHECK_NEAR(vector[2] * vector[3], -0.5, 1e-14);
    gram[1] = NAN;
    CHECK_INT(consensus_spectrum(MPI_COMM_WORLD, grid, 32, 2, gram, 2, value, vector), STATUS_NUMERIC);
}

/* ---- null ---- */

enum { NULL_RUNS = 14, NULL_SAMPLES = 150, NULL_COLUMNS = 2, PERMUTATIONS = 100 };

/* Independent runs, but for the last one, which has a signal of run 0. */
static void make_ensemble(struct ensemble *e)
{
    *e = (struct ensemble){.comm = MPI_COMM_WORLD, .runs = NULL_RUNS, .samples = NULL_SAMPLES};
    MPI_Comm_rank(e->comm, &e->rank);
    MPI_Comm_size(e->comm, &e->size);
    e->member = memory_new(NULL_RUNS, sizeof *e->member);
    e->coordinates = memory_new(NULL_RUNS, sizeof *e->coordinates);
    e->weights = memory_new(NULL_RUNS, sizeof *e->weights);
    e->basis = memory_new(NULL_RUNS, sizeof *e->basis);
    for (int k = 0; k < NULL_RUNS; k++) {
        e->member[k] = (struct member){.run = (size_t)k, .owner = k % e->size, .columns = NULL_COLUMNS,
                                       .samples = NULL_SAMPLES};
        double z[NULL_SAMPLES * NULL_COLUMNS], other[NULL_SAMPLES];
        fill_normal(1000 + (uint32_t)k, z, NULL_SAMPLES * NULL_COLUMNS);
        fill_normal(1000, other, NULL_SAMPLES);
        for (int i = 0; i < NULL_SAMPLES && k == NULL_RUNS - 1; i++)
            z[i] = 0.5 * z[i] + 0.5 * other[i];
        if (e->member[k].owner == e->rank) {
            e->coordinates[k] = memory_new(NULL_SAMPLES * NULL_COLUMNS, sizeof(double));
            memcpy(e->coordinates[k], z, sizeof z);
        }
    }
}

/* The largest correlation of 78 pairs of independent runs: it exceeds the 95 % quantile of its null in 4 of them on
 * average, with a standard deviation of 2 (binomial), and is on average the null's mean, here to 4 standard errors. The
 * planted pair is far above. */
static void null_is_a_null(void)
{
    struct ensemble e;
    struct grid g;
    struct panel panel;
    struct pairs p;
    make_ensemble(&e);
    CHECK_OK(grid_open(MPI_COMM_WORLD, e.size, 1, &g));
    CHECK_OK(panel_new(&e, &g, NULL_SAMPLES, NULL, 1e-8, &panel));
    pairs_new(&e, &p);
    CHECK_OK(pairs_correlate(&e, &panel, &p));
    CHECK_OK(pairs_permute(&e, &panel, 9, PERMUTATIONS, &p));
    int pairs = 0, below = 0;
    double sum = 0.0, squares = 0.0;
    for (int a = 0; a < NULL_RUNS - 1; a++)
        for (int b = a + 1; b < NULL_RUNS - 1; b++, pairs++) {
            double found = pairs_at(&p, PAIRS_canonical_correlation, a, b)[0];
            double mean = pairs_at(&p, PAIRS_canonical_correlation_null, a, b)[0];
            below += found <= pairs_at(&p, PAIRS_canonical_correlation_null_p95, a, b)[0];
            CHECK(mean < pairs_at(&p, PAIRS_canonical_correlation_null_p95, a, b)[0]);
            sum += found - mean;
            squares += (found - mean) * (found - mean);
        }
    CHECK_INT(pairs, 78);
    if (below < 70)
        CHECK_FAIL("%d of 78 independent pairs lie below the 95 %% quantile of their null, expected about 74", below);
    CHECK_NEAR(sum / pairs, 0.0, 4.0 * sqrt(squares / pairs / pairs));
    CHECK(pairs_at(&p, PAIRS_canonical_correlation, 0, NULL_RUNS - 1)[0] >
          1.5 * pairs_at(&p, PAIRS_canonical_correlation_null_p95, 0, NULL_RUNS - 1)[0]);
    pairs_clear(&p);
    panel_clear(&panel);
    grid_close(&g);
    ensemble_clear(&e);
}

int main(int argc, char **argv)
{
    mpi_start(&argc, &argv);
    planted();
    small_matrix();
    null_is_a_null();
    CHECK_INT(memory_balance(), 0);
    return mpi_report("consensus");
}
