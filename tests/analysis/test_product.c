// ranks: 1 2 3 7
/* The exact product: against sums in twice the precision, and bit for bit on every grid. */
#include "mpi_check.h"

#include "analysis/dmatrix.h"
#include "analysis/exact_product.h"
#include "base/memory.h"

#include <float.h>

enum { ROWS = 700, COLS = 9 };

/* The conditions of the header: partial sums stay below 2^53, and enough bits are kept. */
static void slices(void)
{
    for (int64_t n = 1; n <= (int64_t)1 << 31; n = n * 3 + 1) {
        int b = exact_product_bits(n), s = exact_product_slices(n);
        CHECK((double)n * ldexp(1.0, 2 * b) <= 0x1p53);
        CHECK(s * b >= 53 + log2((double)n));
        CHECK((s - 1) * b < 53 + ceil(log2((double)n)));
    }
    CHECK_INT(exact_product_bits(93000), 18);
    CHECK_INT(exact_product_slices(93000), 4);
}

enum kind { NORMAL, WIDE_RANGE, CANCELLING, TINY, HUGE_VALUES, KINDS };

static void make(enum kind kind, double *x)             /* column-major */
{
    fill_normal(77, x, (size_t)ROWS * COLS);
    for (int j = 0; j < COLS; j++)
        for (int i = 0; i < ROWS; i++) {
            double *v = &x[j * ROWS + i];
            if (kind == WIDE_RANGE)
                *v *= pow(10.0, (i * 7 + j) % 30 - 15);
            if (kind == CANCELLING)                      /* inner products of columns with the last one nearly vanish */
                *v = j == COLS - 1 ? (i % 2 ? -1.0 : 1.0) : x[j * ROWS + (i & ~1)] * (1.0 + (i % 2) * 1e-13);
            if (kind == TINY)
                *v *= 1e-160;
            if (kind == HUGE_VALUES)
                *v *= 1e150;
            if (j == 3 && kind != CANCELLING)
                *v = 0.0;
        }
}

/* What the header promises: one rounding of the sum, and (s + 2) 2^-53 2^(e_i + e_j) left out. */
static double bound(const double *a, const double *b, double sum)
{
    int ea = 0, eb = 0;
    double largest_a = 0.0, largest_b = 0.0;
    for (int i = 0; i < ROWS; i++) {
        largest_a = fmax(largest_a, fabs(a[i]));
        largest_b = fmax(largest_b, fabs(b[i]));
    }
    frexp(largest_a, &ea);
    frexp(largest_b, &eb);
    return fabs(sum) * 0x1p-53 + ldexp(exact_product_slices(ROWS) + 2.0, -53 + ea + eb) + DBL_TRUE_MIN;
}

static void against_quad(const double *x, const double *gram, enum kind kind)
{
    int last_bits = 0;
    for (int i = 0; i < COLS; i++)
        for (int j = 0; j < COLS; j++) {
            __float128 sum = 0;
            for (int k = 0; k < ROWS; k++)
                sum += (__float128)x[i * ROWS + k] * x[j * ROWS + k];
            double error = (double)((__float128)gram[i * COLS + j] - sum);
            CHECK_NEAR(error, 0.0, bound(x + i * ROWS, x + j * ROWS, (double)sum));
            last_bits += gram[i * COLS + j] == (double)sum;
            CHECK(gram[i * COLS + j] == gram[j * COLS + i]);
        }
    if (kind == NORMAL)
        CHECK_INT(last_bits, COLS * COLS);               /* here even the rounding is that of the true sum */
}

static void gram_on(MPI_Comm comm, int rows, int cols, int64_t block, const double *x, double *gram)
{
    struct grid g;
    CHECK_OK(grid_open(comm, rows, cols, &g));
    struct dmatrix m;
    CHECK_OK(dmatrix_new(&g, ROWS, COLS, block, block ? 2 : 0, &m));
    int owner[COLS] = {0};
    const double *column[COLS];
    for (int j = 0; j < COLS; j++)
        column[j] = x + j * ROWS;
    dmatrix_from_columns(&m, owner, column);
    CHECK_OK(exact_product_gram(&m, gram));
    dmatrix_free(&m);
    grid_close(&g);
}

static void every_grid(enum kind kind)
{
    static double x[ROWS * COLS], first[COLS * COLS], gram[COLS * COLS];
    make(kind, x);
    gram_on(MPI_COMM_SELF, 1, 1, 0, x, first);
    against_quad(x, first, kind);
    for (int n = 1; n <= mpi_size(MPI_COMM_WORLD); n++) {
        MPI_Comm comm = mpi_first(n);
        if (comm == MPI_COMM_NULL)
            continue;
        for (int rows = 1; rows <= n; rows++) {
            int cols = n / rows;                         /* ranks may be left outside */
            gram_on(comm, rows, cols, 0, x, gram);
            CHECK_BYTES(gram, first, sizeof gram);
            gram_on(comm, rows, cols, 16, x, gram);
            CHECK_BYTES(gram, first, sizeof gram);
        }
        MPI_Comm_free(&comm);
    }
}

/* One value on one rank is not finite: all ranks say so. */
static void not_finite(MPI_Comm comm)
{
    struct grid g;
    struct dmatrix m;
    double gram[COLS * COLS];
    CHECK_OK(grid_open(comm, mpi_size(comm), 1, &g));
    CHECK_OK(dmatrix_new(&g, ROWS, COLS, 0, 0, &m));
    if (g.rank == g.size - 1)
        m.a[0] = INFINITY;
    CHECK_INT(exact_product_gram(&m, gram), STATUS_NUMERIC);
    dmatrix_free(&m);
    grid_close(&g);
}

int main(int argc, char **argv)
{
    mpi_start(&argc, &argv);
    slices();
    for (int kind = 0; kind < KINDS; kind++)
        every_grid((enum kind)kind);
    not_finite(MPI_COMM_WORLD);
    CHECK_INT(memory_balance(), 0);
    return mpi_report("exact_product");
}
