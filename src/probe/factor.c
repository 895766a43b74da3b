#include "probe/factor.h"

#include "base/memory.h"

#include <cblas.h>
#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

int factor_is_finite(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return 0;
    return 1;
}

void factor_fix_signs(int rows, int cols, double *a)
{
    for (int j = 0; j < cols; j++) {
        double largest = 0;
        for (int i = 0; i < rows; i++)
            if (fabs(a[(size_t)i * (size_t)cols + (size_t)j]) > fabs(largest))
                largest = a[(size_t)i * (size_t)cols + (size_t)j];
        if (largest < 0)
            cblas_dscal(rows, -1.0, a + j, cols);
    }
}

static double *copy(const double *a, int rows, int cols)
{
    size_t n = (size_t)rows * (size_t)cols;
    double *b = memory_new(n, sizeof *b);
    memcpy(b, a, n * sizeof *b);
    return b;
}

static enum status check_input(const char *what, int rows, int cols, const double *a)
{
    if (factor_is_finite(a, (size_t)rows * (size_t)cols))
        return STATUS_OK;
    return status_fail(STATUS_NUMERIC, "%s of a %d x %d matrix: an entry is not finite", what, rows, cols);
}

/* ||A - L R||_F within the tolerance; L [rows][k], R [k][cols]. */
static enum status check_product(const char *what, int rows, int cols, int k, const double *a, const double *l,
                                 const double *r)
{
    double *left = copy(a, rows, cols);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, cols, k, -1.0, l, k, r, cols, 1.0, left, cols);
    double residual = cblas_dnrm2(rows * cols, left, 1);
    double bound = FACTOR_TOLERANCE * fmax(rows, cols) * DBL_EPSILON * cblas_dnrm2(rows * cols, a, 1);
    memory_free(left);
    if (residual <= bound)
        return STATUS_OK;
    return status_fail(STATUS_NUMERIC, "%s of a %d x %d matrix: residual %g, expected at most %g", what, rows, cols,
                       residual, bound);
}

/* Columns of q [rows][cols] orthonormal within the tolerance. */
static enum status check_orthonormal(const char *what, int rows, int cols, const double *q)
{
    double *gram = memory_new((size_t)cols * (size_t)cols, sizeof *gram);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, cols, cols, rows, 1.0, q, cols, q, cols, 0.0, gram, cols);
    for (int i = 0; i < cols; i++)
        gram[(size_t)i * (size_t)cols + (size_t)i] -= 1;
    double distance = cblas_dnrm2(cols * cols, gram, 1);
    double bound = FACTOR_TOLERANCE * fmax(rows, cols) * DBL_EPSILON;
    memory_free(gram);
    if (distance <= bound)
        return STATUS_OK;
    return status_fail(STATUS_NUMERIC, "%s: vectors of a %d x %d factor are orthonormal to %g, expected %g", what, rows,
                       cols, distance, bound);
}

static enum status gave_up(const char *what, int info)
{
    return status_fail(STATUS_NUMERIC, "%s: LAPACK returned INFO = %d", what, info);
}

/* Row i times scale[i]. */
static void scale_rows(int rows, int cols, const double *scale, double *a)
{
    for (int i = 0; i < rows; i++)
        cblas_dscal(cols, scale[i], a + (size_t)i * (size_t)cols, 1);
}

static double *transposed(int rows, int cols, const double *a)
{
    double *t = memory_new((size_t)rows * (size_t)cols, sizeof *t);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            t[(size_t)j * (size_t)rows + (size_t)i] = a[(size_t)i * (size_t)cols + (size_t)j];
    return t;
}

enum status factor_symmetric(int n, const double *a, double *value, double *vector)
{
    const char *what = "symmetric eigen-decomposition";
    enum status s = check_input(what, n, n, a);
    if (s != STATUS_OK)
        return s;
    memcpy(vector, a, (size_t)n * (size_t)n * sizeof *vector);
    int info = LAPACKE_dsyevd(LAPACK_ROW_MAJOR, 'V', 'U', n, vector, n, value);
    if (info)
        return gave_up(what, info);
    double *scaled = transposed(n, n, vector);
    scale_rows(n, n, value, scaled);
    s = check_product(what, n, n, n, a, vector, scaled);
    if (s == STATUS_OK)
        s = check_orthonormal(what, n, n, vector);
    memory_free(scaled);
    return s;
}

enum status factor_svd(int rows, int cols, const double *a, double *u, double *s, double *vt)
{
    const char *what = "singular value decomposition";
    int k = rows < cols ? rows : cols;
    enum status status = check_input(what, rows, cols, a);
    if (status != STATUS_OK)
        return status;
    double *work = copy(a, rows, cols);
    int info = LAPACKE_dgesdd(LAPACK_ROW_MAJOR, 'S', rows, cols, work, cols, s, u, k, vt, cols);
    memory_free(work);
    if (info)
        return gave_up(what, info);
    double *scaled = copy(vt, k, cols), *v = transposed(k, cols, vt);
    scale_rows(k, cols, s, scaled);
    status = check_product(what, rows, cols, k, a, u, scaled);
    if (status == STATUS_OK)
        status = check_orthonormal(what, rows, k, u);
    if (status == STATUS_OK)
        status = check_orthonormal(what, cols, k, v);
    memory_free(scaled);
    memory_free(v);
    return status;
}

enum status factor_qr(int rows, int cols, const double *a, double *q, double *r)
{
    const char *what = "QR factorisation";
    enum status s = check_input(what, rows, cols, a);
    if (s != STATUS_OK)
        return s;
    double *tau = memory_new((size_t)cols, sizeof *tau);
    memcpy(q, a, (size_t)rows * (size_t)cols * sizeof *q);
    int info = LAPACKE_dgeqrf(LAPACK_ROW_MAJOR, rows, cols, q, cols, tau);
    memset(r, 0, (size_t)cols * (size_t)cols * sizeof *r);
    for (int i = 0; i < cols; i++)
        memcpy(r + (size_t)i * (size_t)(cols + 1), q + (size_t)i * (size_t)(cols + 1), (size_t)(cols - i) * sizeof *r);
    if (!info)
        info = LAPACKE_dorgqr(LAPACK_ROW_MAJOR, rows, cols, cols, q, cols, tau);
    memory_free(tau);
    if (info)
        return gave_up(what, info);
    s = check_product(what, rows, cols, cols, a, q, r);
    return s == STATUS_OK ? check_orthonormal(what, rows, cols, q) : s;
}

enum status factor_eigenvalues(int n, const double *a, double (*value)[2])
{
    const char *what = "Schur decomposition";
    enum status s = check_input(what, n, n, a);
    if (s != STATUS_OK)
        return s;
    size_t count = (size_t)n;
    double *schur = copy(a, n, n), *vector = memory_new(count * count, sizeof *vector);
    double *part = memory_new(2 * count, sizeof *part);
    lapack_int sorted;
    int info = LAPACKE_dgees(LAPACK_ROW_MAJOR, 'V', 'N', NULL, n, schur, n, &sorted, part, part + n, vector, n);
    for (int i = 0; i < n && !info; i++) {
        value[i][0] = part[i];
        value[i][1] = part[n + i];
    }
    if (info) {
        s = gave_up(what, info);
    } else {
        double *vt = transposed(n, n, vector), *right = memory_new(count * count, sizeof *right);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0, schur, n, vt, n, 0.0, right, n);
        s = check_product(what, n, n, n, a, vector, right);
        if (s == STATUS_OK)
            s = check_orthonormal(what, n, n, vector);
        memory_free(vt);
        memory_free(right);
    }
    memory_free(schur);
    memory_free(vector);
    memory_free(part);
    return s;
}
