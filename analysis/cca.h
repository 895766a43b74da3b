/* cca.h: canonical correlations, and what else is said of two runs that saw the same inputs. Local: no MPI.
 *
 * A run's data are Z [n][r], one row an input, centred. Nothing here inverts a covariance. Z = Q R P' (QR with column
 * pivoting), R P' = X S T', so U = Q X is an orthonormal basis in the space of the inputs, ordered by variance, and Z =
 * U S T' (Chan 1982, ACM TOMS 8, 72-83). The canonical correlations of two runs are the singular values of Ua'Ub
 * (Bjorck and Golub 1973, Math. Comp. 27, 579-594), and every other measure below is one of the same small block Ua'Ub.
 */
#ifndef INVAR_ANALYSIS_CCA_H
#define INVAR_ANALYSIS_CCA_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Z = U S T', without the directions that carry nothing. */
struct cca_basis {
    int columns;             /* r of Z */
    int rank;                /* effective rank, <= min(n, columns) */
    double *u;               /* [rank][n], each direction contiguous; orthonormal */
    double *singular;        /* [rank] S, descending */
    double *right;           /* [rank][columns] T', orthonormal rows */
};

/* Subtracts the mean of each of the columns z [columns][n].   out: mean[columns], may be NULL */
void cca_centre(int64_t n, int columns, double *z, double *mean);
/* The basis of centred z [columns][n]; cca_basis_clear. Directions whose singular value is at most `tolerance` times
 * the largest are left out, and all when the largest is at most `noise` (the rounding left by the centring).
 * z is overwritten.   repeats: same bits for the same z
 * fails: STATUS_NUMERIC: z is not finite, or |Z - U S T'| or |U'U - I| is too large */
enum status cca_basis(int64_t n, int columns, double *z, double tolerance, double noise, struct cca_basis *b);
void cca_basis_clear(struct cca_basis *b);

/* Two runs: S and T' of each, and the block Ua'Ub [a rank][b rank], row by row with `stride`. */
struct cca_pair {
    const struct cca_basis *a, *b;       /* u is not read */
    const double *block;
    size_t stride;
};

/* Canonical correlations: k = min(rank) values in [0, 1], descending.
 * out: left [k][a rank], right [k][b rank]: the canonical directions in the bases; both or neither may be NULL
 * fails: STATUS_NUMERIC when a value is above 1 by more than rounding, or a check does not hold */
enum status cca_correlations(const struct cca_pair *p, double *correlation, double *left, double *right);

/* The singular values alone, not cut at 1: for blocks of bases that are orthonormal only nearly. */
enum status cca_singular_values(const struct cca_pair *p, double *value);

struct cca_measures {
    double svcca_mean;       /* mean correlation of the directions that hold 99 % of the variance (arXiv 1706.05806) */
    double pwcca, pwcca_other;   /* correlations weighted by how much they carry of a's (b's) columns (1806.05759) */
    double linear_cka;       /* |Za'Zb|_F^2 / (|Za'Za|_F |Zb'Zb|_F) (arXiv 1905.00414) */
    double procrustes_distance;  /* 2 - 2 |Za'Zb|_* for |Za|_F = |Zb|_F = 1 (arXiv 2108.01661) */
};
enum status cca_measures(const struct cca_pair *p, struct cca_measures *m);

/* Correlation of data that the directions were not fitted on. v are the held-out data in the bases' coordinates:
 * vaa = Va'Va [a rank][a rank], vbb, vab = Va'Vb, with strides.   out: correlation[k] in [-1, 1], NAN without
 * variance */
void cca_heldout(const struct cca_pair *p, const double *left, const double *right, const double *vaa,
                 const double *vbb, const double *vab, size_t stride, double *correlation);

/* Principal angles of the spans of qa [d][ra] and qb [d][rb], orthonormal columns, in radians, ascending; small ones by
 * their sine.   out: angle[min(ra, rb)], *overlap = |Qa'Qb|_F^2 / sqrt(ra rb)   fails: STATUS_NUMERIC */
enum status cca_angles(int d, int ra, const double *qa, int rb, const double *qb, double *angle, double *overlap);

/* Quantile q in [0, 1] of n >= 1 numbers, interpolated between order statistics (numpy's default). Sorts x. */
double cca_quantile(double *x, size_t n, double q);

#endif
