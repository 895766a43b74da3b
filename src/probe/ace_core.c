#include "probe/ace.h"

#include "base/memory.h"
#include "probe/factor.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <string.h>

/* Share of the mean eigenvalue that is added to every eigenvalue, so that both factors are invertible (ace.md 3.2). */
#define RIDGE 1e-8

static double trace(int d, const double *a)
{
    double sum = 0;
    for (int i = 0; i < d; i++)
        sum += a[(size_t)i * (size_t)(d + 1)];
    return sum;
}

/* L with L L' = a + ridge.   out: factor [d][d] */
static enum status factor_of(const char *name, int d, const double *a, double *factor)
{
    double *value = memory_new((size_t)d, sizeof *value);
    enum status s = factor_symmetric(d, a, value, factor);
    double ridge = RIDGE * trace(d, a) / d;
    for (int j = 0; j < d && s == STATUS_OK; j++)
        cblas_dscal(d, sqrt(fmax(value[j], 0) + ridge), factor + j, d);
    memory_free(value);
    return s == STATUS_OK ? s : status_context(s, "%s", name);
}

/* Orthonormal columns whose first r span the first r columns of `a`, for every r. A column that depends on those
 * before it leaves that span undefined: that is a failure, not a basis. */
static enum status ordered_basis(int d, const double *a, double *basis)
{
    double *r = memory_new((size_t)d * (size_t)d, sizeof *r);
    enum status s = factor_qr(d, d, a, basis, r);
    for (int j = 0; j < d && s == STATUS_OK; j++) {
        double length = cblas_dnrm2(d, a + j, d), left = fabs(r[(size_t)j * (size_t)(d + 1)]);
        if (!(left > d * DBL_EPSILON * length))
            s = status_fail(STATUS_NUMERIC, "core direction %d of %d depends on those before it: %g of its length %g "
                            "is left", j + 1, d, left, length);
    }
    memory_free(r);
    if (s == STATUS_OK)
        factor_fix_signs(d, d, basis);
    return s;
}

static void no_core(int d, double *weight, double *basis)
{
    memset(weight, 0, (size_t)d * sizeof *weight);
    memset(basis, 0, (size_t)d * (size_t)d * sizeof *basis);
    for (int i = 0; i < d; i++)
        basis[(size_t)i * (size_t)(d + 1)] = 1;
}

enum status ace_core(int d, const double *cov, const double *obs, double *weight, double *basis)
{
    size_t n = (size_t)d * (size_t)d;
    if (!factor_is_finite(cov, n) || !factor_is_finite(obs, n))
        return status_fail(STATUS_NUMERIC, "covariance or observability has entries that are not finite");
    if (!(trace(d, cov) > 0) || !(trace(d, obs) > 0)) {
        no_core(d, weight, basis);
        return STATUS_OK;
    }
    double *lc = memory_new(4 * n, sizeof *lc), *lo = lc + n, *product = lo + n, *u = product + n;
    double *vt = lo, *lcu = product;              /* each is made when the other is no longer needed */
    enum status s = factor_of("covariance", d, cov, lc);
    if (s == STATUS_OK)
        s = factor_of("observability", d, obs, lo);
    if (s == STATUS_OK) {
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, d, d, d, 1.0, lc, d, lo, d, 0.0, product, d);
        s = factor_svd(d, d, product, u, weight, vt);
    }
    if (s == STATUS_OK) {
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, d, d, d, 1.0, lc, d, u, d, 0.0, lcu, d);
        s = ordered_basis(d, lcu, basis);
    }
    for (int i = 0; i < d && s == STATUS_OK; i++)
        weight[i] *= weight[i];
    if (s == STATUS_OK && !factor_is_finite(weight, (size_t)d))
        s = status_fail(STATUS_NUMERIC, "core weights overflow: activations or gradients are too large");
    memory_free(lc);
    return s;
}

int ace_rank(int d, const double *weight, double energy)
{
    double total = 0, sum = 0;
    for (int i = 0; i < d; i++)
        total += weight[i];
    if (!(total > 0))
        return 0;
    for (int r = 1; r < d; r++) {
        sum += weight[r - 1];
        if (sum >= energy * total)
            return r;
    }
    return d;
}
