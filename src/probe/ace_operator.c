#include "probe/ace.h"

#include "base/memory.h"
#include "probe/factor.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pairs that enter one step of the sequential QR. */
#define PAIRS_PER_STEP 1024

/* The series of core coordinates, seen as pairs (z[t], z[t+1]) inside each sequence. */
struct series {
    size_t sequences;
    int length, r;
    const double *z;
    double *mean;             /* [2 r] of z[t], then of z[t+1] */
};

/* Pair number i as one row (z[t], z[t+1]) of 2 r numbers: z[t] and z[t+1] are neighbours in memory. */
static const double *pair(const struct series *x, size_t i)
{
    size_t per = (size_t)x->length - 1;
    return x->z + (i / per * (size_t)x->length + i % per) * (size_t)x->r;
}

static size_t pairs_of(const struct series *x) { return x->sequences * ((size_t)x->length - 1); }

/* Means of the deviations from the first pair: a coordinate that never changes gets exactly its value. */
static void series_means(struct series *x)
{
    const double *first = pair(x, 0);
    size_t pairs = pairs_of(x);
    for (size_t i = 1; i < pairs; i++) {
        const double *row = pair(x, i);
        for (int j = 0; j < 2 * x->r; j++)
            x->mean[j] += row[j] - first[j];
    }
    for (int j = 0; j < 2 * x->r; j++)
        x->mean[j] = first[j] + x->mean[j] / (double)pairs;
}

/* R of the QR factorisation of the centred pairs [X Y], a block of rows at a time below the R so far: the condition is
 * not squared as it is by normal equations, and no copy of the series is needed.   out: triangle [2 r][2 r] */
static enum status series_triangle(const struct series *x, double *triangle)
{
    int n = 2 * x->r;
    size_t top = (size_t)n * (size_t)n, pairs = pairs_of(x);
    double *rows = memory_new(top + PAIRS_PER_STEP * (size_t)n, sizeof *rows);
    double *q = memory_new(top + PAIRS_PER_STEP * (size_t)n, sizeof *q);
    enum status s = STATUS_OK;
    for (size_t first = 0; first < pairs && s == STATUS_OK; first += PAIRS_PER_STEP) {
        size_t count = pairs - first < PAIRS_PER_STEP ? pairs - first : PAIRS_PER_STEP;
        memcpy(rows, triangle, top * sizeof *rows);
        for (size_t i = 0; i < count; i++)
            for (int j = 0; j < n; j++)
                rows[top + i * (size_t)n + (size_t)j] = pair(x, first + i)[j] - x->mean[j];
        s = factor_qr(n + (int)count, n, rows, q, triangle);
    }
    memory_free(rows);
    memory_free(q);
    return s;
}

/* Least squares Y = X B of least norm from the triangle [Rxx Rxy; 0 Ryy]: singular values of Rxx below
 * max(pairs, r) eps s_1 count as zero.   out: b [r][r] */
static enum status solve(int r, size_t pairs, const double *triangle, double *b)
{
    size_t n = (size_t)r * (size_t)r;
    double *rxx = memory_new(4 * n + (size_t)r, sizeof *rxx), *u = rxx + n, *vt = u + n, *ub = vt + n, *sv = ub + n;
    for (int i = 0; i < r; i++)
        memcpy(rxx + (size_t)i * (size_t)r, triangle + (size_t)i * 2 * (size_t)r, (size_t)r * sizeof *rxx);
    enum status s = factor_svd(r, r, rxx, u, sv, vt);
    if (s == STATUS_OK) {
        double cut = fmax((double)pairs, r) * DBL_EPSILON * sv[0];
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, r, r, r, 1.0, u, r, triangle + r, 2 * r, 0.0, ub, r);
        for (int i = 0; i < r; i++)
            cblas_dscal(r, sv[i] > cut ? 1 / sv[i] : 0.0, ub + (size_t)i * (size_t)r, 1);
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, r, r, r, 1.0, vt, r, ub, r, 0.0, b, r);
    }
    memory_free(rxx);
    return s;
}

/* Mean over the coordinates that vary of 1 - residual / variance; NAN when none varies. */
static double mean_r2(int r, const double *triangle, const double *b)
{
    size_t n = 2 * (size_t)r;
    double *left = memory_new(n * n, sizeof *left), sum = 0;
    int varying = 0;
    memcpy(left, triangle, n * n * sizeof *left);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, r, r, r, -1.0, triangle, 2 * r, b, r, 1.0, left + r, 2 * r);
    for (int j = r; j < 2 * r; j++) {
        double total = cblas_dnrm2(2 * r, triangle + j, 2 * r), residual = cblas_dnrm2(2 * r, left + j, 2 * r);
        if (!(total > 0))
            continue;
        varying++;
        sum += 1 - (residual / total) * (residual / total);
    }
    memory_free(left);
    return varying ? sum / varying : (double)NAN;
}

/* By descending modulus, then imaginary part, then real part. */
static int compare_eigenvalues(const void *a, const void *b)
{
    const double *x = a, *y = b;
    double modulus_x = hypot(x[0], x[1]), modulus_y = hypot(y[0], y[1]);
    if (modulus_x != modulus_y)
        return modulus_x < modulus_y ? 1 : -1;
    if (x[1] != y[1])
        return x[1] < y[1] ? 1 : -1;
    return (x[0] < y[0]) - (x[0] > y[0]);
}

enum status ace_operator(size_t sequences, int length, int r, const double *z, double *matrix,
                         double (*eigenvalue)[2], double *r2)
{
    if (sequences < 1 || length < 2 || r < 1)
        return status_fail(STATUS_NUMERIC, "an operator needs pairs: %zu sequences of %d positions with %d coordinates "
                           "have none", sequences, length, r);
    if (!factor_is_finite(z, sequences * (size_t)length * (size_t)r))
        return status_fail(STATUS_NUMERIC, "core coordinates are not finite");
    size_t n = (size_t)r * (size_t)r;
    double *triangle = memory_new(5 * n + 2 * (size_t)r, sizeof *triangle), *b = triangle + 4 * n;
    struct series x = {sequences, length, r, z, b + n};
    series_means(&x);
    enum status s = series_triangle(&x, triangle);
    if (s == STATUS_OK)
        s = solve(r, pairs_of(&x), triangle, b);
    if (s == STATUS_OK) {
        for (int i = 0; i < r; i++)
            for (int j = 0; j < r; j++)
                matrix[i * r + j] = b[j * r + i];          /* rows of pairs: Y = X B, so A = B' */
        *r2 = mean_r2(r, triangle, b);
        s = factor_eigenvalues(r, matrix, eigenvalue);
    }
    if (s == STATUS_OK)
        qsort(eigenvalue, (size_t)r, sizeof *eigenvalue, compare_eigenvalues);
    memory_free(triangle);
    return s == STATUS_OK ? s : status_context(s, "operator");
}
