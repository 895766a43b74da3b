#include "analysis/exact_product.h"

#include "analysis/block.h"
#include "base/memory.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <string.h>

static int log2_above(int64_t n)                 /* the smallest l with 2^l >= n */
{
    int l = 0;
    while (((int64_t)1 << l) < n)
        l++;
    return l;
}

int exact_product_bits(int64_t n) { return (53 - log2_above(n)) / 2; }

int exact_product_slices(int64_t n)
{
    int b = exact_product_bits(n);
    return (53 + log2_above(n) + b - 1) / b;
}

#define NO_EXPONENT INT_MIN

void exact_product_exponents(const struct dmatrix *x, int *exponent)
{
    for (int64_t j = 0; j < x->cols; j++)
        exponent[j] = NO_EXPONENT;
    for (int64_t j = 0; j < x->local_cols; j++) {
        double largest = 0.0;
        for (int64_t i = 0; i < x->local_rows; i++)
            largest = fmax(largest, fabs(x->a[j * x->local_rows + i]));
        if (largest > 0.0)
            frexp(largest, &exponent[block_global(j, x->col_block, x->grid->col, x->grid->cols)]);
    }
    MPI_Allreduce(MPI_IN_PLACE, exponent, (int)x->cols, MPI_INT, MPI_MAX, x->grid->comm);
    for (int64_t j = 0; j < x->cols; j++)
        if (exponent[j] == NO_EXPONENT)
            exponent[j] = 0;
}

/* The nearest whole number, ties to even, for |y| < 2^51: adding 1.5 2^52 leaves no bits for a fraction. */
static double nearest(double y) { return (y + 0x1.8p52) - 0x1.8p52; }

void exact_product_slice(const struct dmatrix *x, const int *exponent, int t, struct dmatrix *slice)
{
    int bits = exact_product_bits(x->rows);
    double up = ldexp(1.0, bits);
    for (int64_t j = 0; j < x->local_cols; j++) {
        const double *from = x->a + j * x->local_rows;
        double *to = slice->a + j * x->local_rows;
        int e = bits - exponent[block_global(j, x->col_block, x->grid->col, x->grid->cols)];
        double half = ldexp(1.0, e / 2), rest = ldexp(1.0, e - e / 2);     /* 2^e itself may overflow */
        for (int64_t i = 0; i < x->local_rows; i++) {
            double y = from[i] * half * rest;
            for (int step = 0; step < t; step++)
                y = (y - nearest(y)) * up;
            to[i] = nearest(y);
        }
    }
}

void exact_product_of_slices(const struct dmatrix *x, const struct dmatrix *y, struct dmatrix *work, double *whole)
{
    dmatrix_product(1, x, y, work);
    dmatrix_to_whole(work, whole);
}

/* (high, low) += x, high + low exact to twice the precision (Knuth's two-sum). */
static void add(double *high, double *low, double x)
{
    double sum = *high + x, part = sum - *high;
    *low += (*high - (sum - part)) + (x - part);
    *high = sum;
}

/* Adds P_tu and, where t != u, P_ut = P_tu' to the upper triangle; the power of two is common to all. */
static void accumulate(int64_t n, const double *p, int shift, int twice, double *high, double *low)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i; j < n; j++) {
            add(&high[i * n + j], &low[i * n + j], ldexp(p[i * n + j], -shift));
            if (twice)
                add(&high[i * n + j], &low[i * n + j], ldexp(p[j * n + i], -shift));
        }
}

static int all_finite(const struct dmatrix *x)
{
    int fine = 1;
    for (int64_t i = 0; i < x->local_rows * x->local_cols; i++)
        fine &= isfinite(x->a[i]) != 0;
    MPI_Allreduce(MPI_IN_PLACE, &fine, 1, MPI_INT, MPI_MIN, x->grid->comm);
    return fine;
}

/* gram[i][j] = (high + low) 2^(e_i + e_j - 2 bits), mirrored; returns 0 when one overflows. */
static int finish(int64_t n, int bits, const int *exponent, const double *high, const double *low, double *gram)
{
    int fine = 1;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i; j < n; j++) {
            double sum = ldexp(high[i * n + j] + low[i * n + j], exponent[i] + exponent[j] - 2 * bits);
            gram[i * n + j] = gram[j * n + i] = sum;
            fine &= isfinite(sum) != 0;
        }
    return fine;
}

enum status exact_product_gram(const struct dmatrix *x, double *gram)
{
    int64_t n = x->cols;
    if (!all_finite(x))
        return status_fail(STATUS_NUMERIC, "a %lld x %lld matrix whose inner products are wanted is not finite",
                           (long long)x->rows, (long long)n);
    struct dmatrix left = {0}, right = {0}, work = {0};
    enum status s = dmatrix_new(x->grid, x->rows, n, x->row_block, x->col_block, &left);
    if (s == STATUS_OK)
        s = dmatrix_new(x->grid, x->rows, n, x->row_block, x->col_block, &right);
    if (s == STATUS_OK)
        s = dmatrix_new(x->grid, n, n, x->col_block, x->col_block, &work);
    if (s != STATUS_OK)
        goto out;
    int bits = exact_product_bits(x->rows), slices = exact_product_slices(x->rows);
    int *exponent = memory_new((size_t)n, sizeof *exponent);
    double *p = memory_new((size_t)(n * n), sizeof *p), *high = memory_new((size_t)(n * n), sizeof *high);
    double *low = memory_new((size_t)(n * n), sizeof *low);
    exact_product_exponents(x, exponent);
    for (int t = 0; 2 * t < slices; t++) {
        exact_product_slice(x, exponent, t, &left);
        for (int u = t; t + u < slices; u++) {
            if (u > t)
                exact_product_slice(x, exponent, u, &right);
            exact_product_of_slices(&left, u > t ? &right : &left, &work, p);
            accumulate(n, p, bits * (t + u), u > t, high, low);
        }
    }
    if (!finish(n, bits, exponent, high, low, gram))
        s = status_fail(STATUS_NUMERIC, "inner products of a %lld x %lld matrix overflow", (long long)x->rows,
                        (long long)n);
    memory_free(low);
    memory_free(high);
    memory_free(p);
    memory_free(exponent);
out:
    dmatrix_free(&work);
    dmatrix_free(&right);
    dmatrix_free(&left);
    return s;
}
