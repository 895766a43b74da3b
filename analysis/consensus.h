/* consensus.h: the directions that all runs share (generalised CCA, MAXVAR; Kettenring 1971, Biometrika 58, 433-451).
 *
 * U_k [n][r_k] is the orthonormal basis of run k in the space of the probe inputs. The leading left singular vectors of
 * [U_1 ... U_K] are the directions nearest to all runs at once; a singular value squared, over K, is the mean share of
 * the direction that lies in the runs: 1 when it lies in every run, 1/K when it is in one run only.
 *
 * The matrix itself, n rows of it, needs no decomposition: its singular values squared and its right vectors are those
 * of the Gram matrix G = [U_1 ... U_K]' [U_1 ... U_K], which is small, and which exact_product makes without rounding.
 * pdgesvd is applied to G; a left vector is [U_1 ... U_K] v / sigma. Squaring costs accuracy only where sigma^2 is
 * small beside the largest: values of sigma^2 below about 1e-8 are not claimed to more than their absolute error of n
 * eps. The directions that are used are at most as many as the smallest run has, and for those sigma^2 >= 1 (each U_k
 * alone has r_k singular values of 1), so they have full accuracy.
 */
#ifndef INVAR_ANALYSIS_CONSENSUS_H
#define INVAR_ANALYSIS_CONSENSUS_H

#include "analysis/dmatrix.h"

/* Eigenvalues and leading eigenvectors of a Gram matrix by pdgesvd on a rows x cols grid with square blocks. A matrix
 * with fewer blocks than the grid has rows or columns takes a smaller grid.   collective over comm
 * in: gram [n][n], equal on all ranks   out: value[n] descending; vector [dim][n], largest entry positive; on all ranks
 * repeats: the same bits for the same grid and block, however many ranks there are beside
 * fails: STATUS_USAGE when comm is too small for the grid, STATUS_NUMERIC */
enum status consensus_spectrum(MPI_Comm comm, const int grid[2], int block, int n, const double *gram, int dim,
                               double *value, double *vector);

/* Leading left singular vectors.   collective
 * in: bases [rows][n] on a grid with one column, so that a rank has whole rows; value, vector from consensus_spectrum
 * out: direction [rows][dim], orthonormal columns, on all ranks   repeats: the same bits for any number of ranks
 * fails: STATUS_NUMERIC when the columns are not orthonormal to 1e-10 */
enum status consensus_directions(const struct dmatrix *bases, int dim, const double *value, const double *vector,
                                 double *direction);

#endif
