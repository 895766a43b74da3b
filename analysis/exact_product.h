/* exact_product.h: X'X and X'Y of tall distributed matrices, the same bits on every process grid.
 *
 * A sum of doubles depends on its order, and the order depends on how many ranks share the rows. Here nothing is
 * rounded before the order has ceased to matter (the error-free transformation of Ozaki, Ogita, Oishi and Rump,
 * Numerical Algorithms 59, 95-118, 2012):
 *
 *   A column x of n elements gets the exponent e with |x_k| < 2^e. With slices of b bits,
 *       x_k 2^-e = q_0 2^-b + q_1 2^-2b + ... + q_(s-1) 2^-sb + rest,
 *   where q_0 is the integer nearest to x_k 2^(b-e), q_1 the one nearest to what remains, scaled up by 2^b, and so on.
 *   A remainder of the rounding is exact in double, because it lies on the grid of the last place of what was rounded
 *   and is not larger. So the q are whole numbers with |q_0| <= 2^b and |q_t| <= 2^(b-1) for t > 0, and |rest| <=
 *   2^(-sb-1).
 *
 *   A product of slices, P_tu[i][j] = sum_k q_t[k][i] q_u[k][j], is a sum of n whole numbers of at most 2^2b. With
 *       n 2^2b <= 2^53
 *   every term and every partial sum, in whatever order, is a whole number that a double holds. pdgemm therefore makes
 *   no rounding error, with or without fused multiply-add, and gives the same bits on every grid and with every BLAS.
 *
 *   The P_tu with t + u < s are added, with their powers of two, in a fixed order in twice the working precision, and
 *   the sum is rounded once. What is left out, t + u >= s and the rests, is below (s + 2) n 2^(-sb) 2^(e_i + e_j). With
 *       s b >= 53 + log2 n
 *   that is below (s + 2) 2^-53 2^(e_i + e_j): the rounding of a few single terms, where the usual product in double
 *   rounds n of them.
 *
 * b = 18, s = 4 for n = 93,000; a symmetric product then takes 6 products of pdgemm.
 */
#ifndef INVAR_ANALYSIS_EXACT_PRODUCT_H
#define INVAR_ANALYSIS_EXACT_PRODUCT_H

#include "analysis/dmatrix.h"

/* Bits of a slice and number of slices for columns of n elements, n from 1 to 2^31. */
int exact_product_bits(int64_t n);
int exact_product_slices(int64_t n);

/* The exponents e of the columns, 2^(e-1) <= max |x_k| < 2^e; 0 for a zero column.   collective over the grid's comm
 * in: finite values   out: exponent[cols], equal on all ranks */
void exact_product_exponents(const struct dmatrix *x, int *exponent);
/* Slice number t, whole numbers, into `slice`, of x's shape and blocks.   local */
void exact_product_slice(const struct dmatrix *x, const int *exponent, int t, struct dmatrix *slice);
/* Products of two slices: whole [x cols][y cols], exact, on all ranks.   collective
 * in: work, an [x cols][y cols] matrix on the grid */
void exact_product_of_slices(const struct dmatrix *x, const struct dmatrix *y, struct dmatrix *work, double *whole);

/* X'X, symmetric to the bit.   collective over the grid's comm
 * in: x finite   out: gram [cols][cols], on all ranks
 * repeats: the same bits for any grid, any number of ranks and any blocks
 * fails: STATUS_NUMERIC when x is not finite or overflows, STATUS_USAGE (dmatrix_new); on all ranks alike */
enum status exact_product_gram(const struct dmatrix *x, double *gram);

#endif
