/* pseudo_inverse.h: of small symmetric matrices that may be singular. Pure; the same bits everywhere. */
#ifndef INVAR_MODEL_PSEUDO_INVERSE_H
#define INVAR_MODEL_PSEUDO_INVERSE_H

/* a [n][n], symmetric and without negative eigenvalues, becomes its pseudo-inverse: eigenvalues up to `share` of the largest
 * count as 0. Returns the rank. By Jacobi's rotations. */
int pseudo_inverse(int n, double *a, double share);

#endif
