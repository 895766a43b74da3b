/* factor.h: dense factorisations in double whose result is checked.
 *
 * LAPACK's INFO says that an iteration ended, not that its result is right. After every factorisation here the product
 * of the factors is compared with the input, and the orthogonal factors with orthonormality:
 *     ||A - product||_F <= FACTOR_TOLERANCE n eps ||A||_F,     ||Q'Q - I||_F <= FACTOR_TOLERANCE n eps,
 * n the larger dimension. LAPACK's own tests accept 30 n eps; the rest is room for the Frobenius norm.
 *
 * Matrices are row-major and contiguous. Inputs are untouched.
 * fails (all): STATUS_NUMERIC: the input is not finite, LAPACK gave up, or the result did not pass.
 */
#ifndef INVAR_PROBE_FACTOR_H
#define INVAR_PROBE_FACTOR_H

#include "base/status.h"

#include <stddef.h>

#define FACTOR_TOLERANCE 100.0

/* A = V diag(value) V'.   in: a [n][n] symmetric   out: value [n] ascending, vector [n][n] in columns */
enum status factor_symmetric(int n, const double *a, double *value, double *vector);
/* A = U diag(s) V', k = min(rows, cols).   out: u [rows][k], s [k] descending, vt [k][cols] */
enum status factor_svd(int rows, int cols, const double *a, double *u, double *s, double *vt);
/* A = Q R, rows >= cols.   out: q [rows][cols], r [cols][cols] upper triangular */
enum status factor_qr(int rows, int cols, const double *a, double *q, double *r);
/* Eigenvalues of a general matrix through its real Schur form.   in: a [n][n]   out: value [n][2] (real, imaginary) */
enum status factor_eigenvalues(int n, const double *a, double (*value)[2]);

/* Whether all n numbers are finite. */
int factor_is_finite(const double *x, size_t n);
/* Turns the signs of the columns so that in each the entry of largest modulus (the first of equals) is positive. */
void factor_fix_signs(int rows, int cols, double *a);

#endif
