#include "analysis/cca.h"

#include "base/memory.h"

#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int least(int a, int b) { return a < b ? a : b; }

static double inner(const double *x, const double *y, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* |rows rows' - I|_F of k rows of n numbers. */
static double departure(int k, int64_t n, const double *row)
{
    double sum = 0.0;
    for (int i = 0; i < k; i++)
        for (int j = 0; j < k; j++) {
            double x = inner(row + i * n, row + j * n, n) - (i == j);
            sum += x * x;
        }
    return sqrt(sum);
}

/* ---- singular values of small matrices ---- */

/* |A - sum_c s_c left_c right_c'|_F, A [rows][cols] contiguous. */
static double residual(int rows, int cols, int k, const double *a, const double *s, const double *left,
                       const double *right)
{
    double sum = 0.0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            double x = a[i * cols + j];
            for (int c = 0; c < k; c++)
                x -= s[c] * left[c * rows + i] * right[c * cols + j];
            sum += x * x;
        }
    return sqrt(sum);
}

/* Without vectors only the sum of squares can be checked. */
static int passes(int rows, int cols, const double *a, const double *s, const double *left, const double *right)
{
    int k = least(rows, cols);
    double size = sqrt(inner(a, a, (int64_t)rows * cols)), limit = 100.0 * (rows + cols) * DBL_EPSILON;
    if (!left)
        return fabs(sqrt(inner(s, s, k)) - size) <= limit * size;
    return residual(rows, cols, k, a, s, left, right) <= limit * size && departure(k, rows, left) <= limit &&
           departure(k, cols, right) <= limit;
}

/* A = sum_c s_c left_c right_c'.   in: a [rows][cols] with stride   out: s[k], left [k][rows], right [k][cols] (both or
 * neither) */
static enum status small_svd(int rows, int cols, const double *a, size_t stride, double *s, double *left, double *right)
{
    size_t k = (size_t)least(rows, cols), count = (size_t)rows * (size_t)cols;
    if (k == 0)
        return STATUS_OK;
    double *whole = memory_new(2 * count + (size_t)rows * k + k, sizeof *whole), *copy = whole + count;
    double *vt = copy + count, *spare = vt + (size_t)rows * k;
    for (int i = 0; i < rows; i++)
        memcpy(whole + (size_t)i * (size_t)cols, a + (size_t)i * stride, (size_t)cols * sizeof *a);
    memcpy(copy, whole, count * sizeof *copy);
    char job = left ? 'S' : 'N';
    int finite = isfinite(inner(whole, whole, (int64_t)count));
    /* By columns this is A' = sum s right left', so LAPACK's u is `right` and its vt holds `left`, component first. */
    int info = -1;
    if (finite)
        info = LAPACKE_dgesvd(LAPACK_COL_MAJOR, job, job, cols, rows, copy, cols, s, right ? right : vt, cols, vt, (int)k,
                              spare);
    for (size_t c = 0; left && c < k; c++)
        for (size_t i = 0; i < (size_t)rows; i++)
            left[c * (size_t)rows + i] = vt[i * k + c];
    int fine = info == 0 && passes(rows, cols, whole, s, left, right);
    memory_free(whole);
    if (fine)
        return STATUS_OK;
    return status_fail(STATUS_NUMERIC, "singular values of a %d x %d block: %s", rows, cols,
                       !finite ? "it is not finite" : info ? "no convergence" :
                                 "the factors do not give the block back: invar doctor");
}

/* ---- bases ---- */

static void subtract_mean(int64_t n, double *x, double *mean)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    double m = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        x[i] -= m;
    *mean += m;
}

void cca_centre(int64_t n, int columns, double *z, double *mean)
{
    for (int j = 0; j < columns; j++) {
        double m = 0.0;
        subtract_mean(n, z + j * n, &m);
        subtract_mean(n, z + j * n, &m);         /* what the first sum rounded off */
        if (mean)
            mean[j] = m;
    }
}

void cca_basis_clear(struct cca_basis *b)
{
    memory_free(b->u);
    memory_free(b->singular);
    memory_free(b->right);
    *b = (struct cca_basis){0};
}

/* |Z - U S T'|_F. The directions left out are part of the difference. */
static double basis_residual(int64_t n, const double *z, const struct cca_basis *b)
{
    double sum = 0.0;
    for (int j = 0; j < b->columns; j++)
        for (int64_t i = 0; i < n; i++) {
            double x = z[j * n + i];
            for (int c = 0; c < b->rank; c++)
                x -= b->u[c * n + i] * b->singular[c] * b->right[c * b->columns + j];
            sum += x * x;
        }
    return sqrt(sum);
}

/* z becomes Q [k][n]; r [k][columns] is R P', row by row. Returns LAPACK's INFO. */
static int pivoted_qr(int64_t n, int columns, double *z, double *r)
{
    int k = (int)(n < columns ? n : columns), rows = (int)n;
    int *pivot = memory_new((size_t)columns, sizeof *pivot);
    double *tau = memory_new((size_t)k, sizeof *tau);
    int info = LAPACKE_dgeqp3(LAPACK_COL_MAJOR, rows, columns, z, rows, pivot, tau);
    for (int j = 0; j < columns && info == 0; j++)
        for (int i = 0; i <= j && i < k; i++)
            r[i * columns + pivot[j] - 1] = z[j * n + i];
    if (info == 0)
        info = LAPACKE_dorgqr(LAPACK_COL_MAJOR, rows, k, k, z, rows, tau);
    memory_free(tau);
    memory_free(pivot);
    return info;
}

/* Keeps the leading directions of X (left [k][k], s, right [k][columns]) and turns Q into U = Q X. */
static void make_basis(int64_t n, int k, const double *q, const double *s, const double *left, const double *right,
                       double tolerance, double noise, struct cca_basis *b)
{
    double floor_value = fmax(tolerance, b->columns * DBL_EPSILON) * s[0];
    while (b->rank < k && s[b->rank] > noise && (b->rank == 0 || s[b->rank] > floor_value))
        b->rank++;
    size_t rank = (size_t)b->rank, columns = (size_t)b->columns;
    b->u = memory_new(rank * (size_t)n, sizeof(double));
    b->singular = memory_new(rank, sizeof(double));
    b->right = memory_new(rank * columns, sizeof(double));
    memcpy(b->singular, s, rank * sizeof(double));
    memcpy(b->right, right, rank * columns * sizeof(double));
    for (int c = 0; c < b->rank; c++)
        for (int l = 0; l < k; l++)
            for (int64_t i = 0; i < n; i++)
                b->u[c * n + i] += q[l * n + i] * left[c * k + l];
}

enum status cca_basis(int64_t n, int columns, double *z, double tolerance, double noise, struct cca_basis *b)
{
    int k = (int)(n < columns ? n : columns);
    size_t count = (size_t)n * (size_t)columns, small = (size_t)k * (size_t)columns;
    double *copy = memory_new(count, sizeof *copy), *r = memory_new(small, sizeof *r);
    double *s = memory_new((size_t)k, sizeof *s), *left = memory_new((size_t)k * (size_t)k, sizeof *left);
    double *right = memory_new(small, sizeof *right);
    struct cca_basis new = {.columns = columns};
    memcpy(copy, z, count * sizeof *copy);
    double size = sqrt(inner(z, z, (int64_t)count));
    enum status e = STATUS_OK;
    if (!isfinite(size))
        e = status_fail(STATUS_NUMERIC, "a %lld x %d probe matrix is not finite", (long long)n, columns);
    else if (pivoted_qr(n, columns, z, r) != 0)
        e = status_fail(STATUS_NUMERIC, "QR of a %lld x %d probe matrix failed", (long long)n, columns);
    else
        e = small_svd(k, columns, r, (size_t)columns, s, left, right);
    if (e == STATUS_OK) {
        double rounding = 10.0 * (double)(n + columns) * DBL_EPSILON;
        make_basis(n, k, z, s, left, right, tolerance, noise, &new);
        double omitted = 0.0;
        for (int c = new.rank; c < k; c++)
            omitted = hypot(omitted, s[c]);
        double rest = basis_residual(n, copy, &new), skew = departure(new.rank, n, new.u);
        if (!(rest <= omitted + rounding * size && skew <= rounding))
            e = status_fail(STATUS_NUMERIC, "basis of a %lld x %d probe matrix: |Z - U S T'| = %.3g |Z|, |U'U - I| = %.3g: "
                            "invar doctor", (long long)n, columns, rest / size, skew);
    }
    memory_free(right);
    memory_free(left);
    memory_free(s);
    memory_free(r);
    memory_free(copy);
    if (e != STATUS_OK)
        cca_basis_clear(&new);
    *b = new;
    return e;
}

/* ---- pairs ---- */

static int components(const struct cca_pair *p) { return least(p->a->rank, p->b->rank); }

/* Rounding may put a correlation of 1 a little above; more than that is an error of ours. */
static enum status bound_by_one(double *x, int k)
{
    for (int c = 0; c < k; c++) {
        if (!(x[c] <= 1.0 + 1e-10))
            return status_fail(STATUS_NUMERIC, "a canonical correlation is %.17g: the bases are not orthonormal", x[c]);
        x[c] = fmin(x[c], 1.0);
    }
    return STATUS_OK;
}

enum status cca_correlations(const struct cca_pair *p, double *correlation, double *left, double *right)
{
    enum status s = small_svd(p->a->rank, p->b->rank, p->block, p->stride, correlation, left, right);
    return s == STATUS_OK ? bound_by_one(correlation, components(p)) : s;
}

enum status cca_singular_values(const struct cca_pair *p, double *value)
{
    return small_svd(p->a->rank, p->b->rank, p->block, p->stride, value, NULL, NULL);
}

/* How many leading directions hold 99 % of the variance. */
static int leading(const struct cca_basis *b)
{
    double total = inner(b->singular, b->singular, b->rank), sum = 0.0;
    for (int c = 0; c < b->rank; c++) {
        sum += b->singular[c] * b->singular[c];
        if (sum >= 0.99 * total)
            return c + 1;
    }
    return b->rank;
}

static enum status svcca(const struct cca_pair *p, double *mean)
{
    struct cca_basis a = *p->a, b = *p->b;
    a.rank = leading(p->a);
    b.rank = leading(p->b);
    struct cca_pair part = {&a, &b, p->block, p->stride};
    int k = components(&part);
    double *correlation = memory_new((size_t)k, sizeof *correlation);
    enum status s = cca_correlations(&part, correlation, NULL, NULL);
    *mean = 0.0;
    for (int c = 0; c < k; c++)
        *mean += correlation[c] / k;
    memory_free(correlation);
    return s;
}

/* Weight of direction c: sum over the columns z_j of Z of |<h_c, z_j>|, h_c = U direction_c. */
static double weighted_mean(const struct cca_basis *b, int k, const double *correlation, const double *direction)
{
    double sum = 0.0, weights = 0.0;
    for (int c = 0; c < k; c++) {
        double weight = 0.0;
        for (int j = 0; j < b->columns; j++) {
            double x = 0.0;
            for (int l = 0; l < b->rank; l++)
                x += direction[c * b->rank + l] * b->singular[l] * b->right[l * b->columns + j];
            weight += fabs(x);
        }
        sum += weight * correlation[c];
        weights += weight;
    }
    return sum / weights;
}

static enum status pwcca(const struct cca_pair *p, struct cca_measures *m)
{
    size_t k = (size_t)components(p);
    double *correlation = memory_new(k, sizeof *correlation);
    double *left = memory_new(k * (size_t)p->a->rank, sizeof *left);
    double *right = memory_new(k * (size_t)p->b->rank, sizeof *right);
    enum status s = cca_correlations(p, correlation, left, right);
    if (s == STATUS_OK) {
        m->pwcca = weighted_mean(p->a, (int)k, correlation, left);
        m->pwcca_other = weighted_mean(p->b, (int)k, correlation, right);
    }
    memory_free(right);
    memory_free(left);
    memory_free(correlation);
    return s;
}

static double sum_of_fourth_powers(const double *s, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++)
        sum += s[i] * s[i] * s[i] * s[i];
    return sum;
}

/* Of Za'Zb, which is Sa Ua'Ub Sb up to rotations on both sides. S is taken relative to its largest, against
 * overflow. */
static enum status weighted_measures(const struct cca_pair *p, struct cca_measures *m)
{
    int ra = p->a->rank, rb = p->b->rank, k = components(p);
    double *w = memory_new((size_t)(ra * rb + ra + rb + k), sizeof *w), *sa = w + ra * rb, *sb = sa + ra, *s = sb + rb;
    for (int i = 0; i < ra; i++)
        sa[i] = p->a->singular[i] / p->a->singular[0];
    for (int j = 0; j < rb; j++)
        sb[j] = p->b->singular[j] / p->b->singular[0];
    for (int i = 0; i < ra; i++)
        for (int j = 0; j < rb; j++)
            w[i * rb + j] = sa[i] * p->block[(size_t)i * p->stride + (size_t)j] * sb[j];
    double square = inner(w, w, ra * rb), nuclear = 0.0;
    enum status e = small_svd(ra, rb, w, (size_t)rb, s, NULL, NULL);
    for (int c = 0; c < k; c++)
        nuclear += s[c];
    m->linear_cka = square / sqrt(sum_of_fourth_powers(sa, ra) * sum_of_fourth_powers(sb, rb));
    m->procrustes_distance = fmax(0.0, 2.0 - 2.0 * nuclear / sqrt(inner(sa, sa, ra) * inner(sb, sb, rb)));
    memory_free(w);
    return e;
}

enum status cca_measures(const struct cca_pair *p, struct cca_measures *m)
{
    enum status s = svcca(p, &m->svcca_mean);
    if (s == STATUS_OK)
        s = pwcca(p, m);
    return s == STATUS_OK ? weighted_measures(p, m) : s;
}

/* x' A y, A row by row with stride. */
static double form(int m, int n, const double *x, const double *a, size_t stride, const double *y)
{
    double sum = 0.0;
    for (int i = 0; i < m; i++)
        sum += x[i] * inner(a + (size_t)i * stride, y, n);
    return sum;
}

void cca_heldout(const struct cca_pair *p, const double *left, const double *right, const double *vaa,
                 const double *vbb, const double *vab, size_t stride, double *correlation)
{
    int ra = p->a->rank, rb = p->b->rank;
    for (int c = 0; c < components(p); c++) {
        const double *x = left + c * ra, *y = right + c * rb;
        double scale = sqrt(form(ra, ra, x, vaa, stride, x) * form(rb, rb, y, vbb, stride, y));
        double r = form(ra, rb, x, vab, stride, y) / scale;
        correlation[c] = scale > 0.0 ? fmax(-1.0, fmin(1.0, r)) : NAN;
    }
}

/* ---- angles ---- */

enum status cca_angles(int d, int ra, const double *qa, int rb, const double *qb, double *angle, double *overlap)
{
    if (ra < rb) {                               /* so that a holds the larger space */
        const double *q = qa;
        int r = ra;
        qa = qb, qb = q, ra = rb, rb = r;
    }
    double *m = memory_new((size_t)(ra * rb + d * rb + 2 * rb), sizeof *m), *rest = m + ra * rb;
    double *cosine = rest + d * rb, *sine = cosine + rb;
    for (int l = 0; l < d; l++)
        for (int i = 0; i < ra; i++)
            for (int j = 0; j < rb; j++)
                m[i * rb + j] += qa[l * ra + i] * qb[l * rb + j];
    for (int l = 0; l < d; l++)                  /* Qb - Qa Qa'Qb, whose singular values are the sines */
        for (int j = 0; j < rb; j++) {
            double x = qb[l * rb + j];
            for (int i = 0; i < ra; i++)
                x -= qa[l * ra + i] * m[i * rb + j];
            rest[l * rb + j] = x;
        }
    *overlap = inner(m, m, ra * rb) / sqrt((double)ra * rb);
    enum status s = small_svd(ra, rb, m, (size_t)rb, cosine, NULL, NULL);
    if (s == STATUS_OK)
        s = small_svd(d, rb, rest, (size_t)rb, sine, NULL, NULL);
    for (int c = 0; c < rb && s == STATUS_OK; c++) {
        double sin_c = sine[rb - 1 - c];
        angle[c] = cosine[c] * cosine[c] > 0.5 ? asin(fmin(1.0, sin_c)) : acos(fmin(1.0, cosine[c]));
    }
    memory_free(m);
    return s;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double cca_quantile(double *x, size_t n, double q)
{
    qsort(x, n, sizeof *x, ascending);
    double at = q * (double)(n - 1);
    size_t low = (size_t)at, high = low + 1 < n ? low + 1 : low;
    return x[low] + (at - (double)low) * (x[high] - x[low]);
}
