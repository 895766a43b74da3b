#include "model/pseudo_inverse.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

/* One Jacobi rotation of the symmetric a [n][n] and of the vectors v, in the plane of p and q. */
static void rotate(int n, double *a, double *v, int p, int q)
{
    const double theta = (a[q * n + q] - a[p * n + p]) / (2.0 * a[p * n + q]);
    const double t = (theta < 0.0 ? -1.0 : 1.0) / (fabs(theta) + sqrt(theta * theta + 1.0));
    const double c = 1.0 / sqrt(t * t + 1.0), s = t * c;
    for (int k = 0; k < n; k++) {
        const double x = a[k * n + p], y = a[k * n + q];
        a[k * n + p] = c * x - s * y;
        a[k * n + q] = s * x + c * y;
    }
    for (int k = 0; k < n; k++) {
        const double x = a[p * n + k], y = a[q * n + k], z = v[k * n + p], w = v[k * n + q];
        a[p * n + k] = c * x - s * y;
        a[q * n + k] = s * x + c * y;
        v[k * n + p] = c * z - s * w;
        v[k * n + q] = s * z + c * w;
    }
}

/* Eigenvalues on the diagonal of a, eigenvectors in the columns of v. */
static void diagonalise(int n, double *a, double *v)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            v[i * n + j] = i == j;
    for (int sweep = 0, moved = 1; sweep < 50 && moved; sweep++) {
        moved = 0;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++)
                if (fabs(a[p * n + q]) > 1e-17 * (fabs(a[p * n + p]) + fabs(a[q * n + q]))) {
                    rotate(n, a, v, p, q);
                    moved = 1;
                }
    }
}

int pseudo_inverse(int n, double *a, double share)
{
    double *v = memory_new((size_t)(n * n), sizeof *v), *value = memory_new((size_t)n, sizeof *value), most = 0.0;
    int rank = 0;
    diagonalise(n, a, v);
    for (int k = 0; k < n; k++) {
        value[k] = a[k * n + k];
        most = fmax(most, value[k]);
    }
    memset(a, 0, (size_t)(n * n) * sizeof *a);
    for (int k = 0; k < n; k++) {
        if (value[k] <= share * most)
            continue;
        rank++;
        for (int i = 0; i < n * n; i++)
            a[i] += v[i / n * n + k] * v[i % n * n + k] / value[k];
    }
    memory_free(v);
    memory_free(value);
    return rank;
}
