/* ace.h: algorithmic core extraction (Schiffman, arXiv 2602.22600), on one layer of one trained model.
 *
 * Covariance of the activations times observability of the outputs; the core is the subspace on which both are large
 * (the idea of balanced truncation). All in double, by LAPACK.
 */
#ifndef INVAR_PROBE_ACE_H
#define INVAR_PROBE_ACE_H

#include "base/status.h"
#include "model/model.h"
#include "task/task.h"

struct ace {
    int d;                       /* width of the layer */
    size_t samples;              /* N: rows of the test set */
    int rank;                    /* r: by energy, or fixed by probe.ace.rank */
    int sufficient, necessary;   /* dimensions; -1 where no rank reaches the bound */
    int core_dim;                /* max(rank, necessary); rank where necessary is -1 */
    double *weight;              /* [d] squared singular values S^2, descending */
    double *basis;               /* [d][d] orthonormal columns: the first r span the core of rank r, for every r */
    double *mean;                /* [d] of the activations */
    double accuracy, accuracy_core_only, accuracy_core_removed;   /* at `rank`, no mean added back */
    double *coordinates;         /* [samples][rank] z = Q'h, when kept; else NULL */
    double *activations;         /* [samples][d], when kept; else NULL */
    /* operator, when fitted (operator_rank = rank, else 0) */
    int operator_rank;
    double *operator_matrix;     /* [rank][rank] A of z[t+1] = A z[t], centred */
    double (*eigenvalue)[2];     /* [rank] by descending modulus, then descending imaginary part */
    double *eigenvalue_error;    /* [rank] |lambda - truth| / |truth|, matched so that the sum is least; NAN without truth */
    double r2, r2_oracle_ratio;
};

/* Extracts, validates and identifies the core of `m` on the test set of `t`, by the probe.ace keys of `s`.
 * Accuracy is counted and the sums run over the test set in batches of a fixed size, in order.
 * out: *a, cleared with ace_clear; empty on failure. Where there is no core (activations without variance, outputs that
 * do not depend on them, a single sample) rank is 0: weights are zero, the basis is the identity, accuracy is the
 * model's, dimensions are -1 (core_dim 0), other numbers NAN, coordinates and the operator's arrays NULL.
 * fails: STATUS_NUMERIC when activations or a decomposition are not finite or fail their residual check; STATUS_JOB
 * when probe.ace.layer or probe.ace.rank do not fit the model */
enum status ace_extract(struct model *m, const struct task *t, const struct spec *s, struct ace *a);
void ace_clear(struct ace *a);

/* ---- the parts, for tests and for the gather stage ---- */

/* Core of covariance and observability matrices (ace.md 3.1-3.3).   in: cov, obs [d][d] symmetric
 * out: weight [d], basis [d][d] (Gram-Schmidt order; in each column the entry of largest modulus is positive). When
 * either matrix is zero: weights zero, basis the identity.   fails: STATUS_NUMERIC */
enum status ace_core(int d, const double *cov, const double *obs, double *weight, double *basis);
/* Smallest r >= 1 whose cumulative share of `weight` reaches `energy`; 0 when all are zero. */
int ace_rank(int d, const double *weight, double energy);
/* Least squares z[t+1] = A z[t] pooled inside sequences, both sides centred; of least norm when z[t] does not span all
 * coordinates.   in: z [sequences][length][r]
 * out: matrix [r][r], eigenvalue [r] (by descending modulus, then descending imaginary, then real part), *r2 (mean over
 * the coordinates of z[t+1] that vary; NAN when none does)
 * fails: STATUS_NUMERIC: z is not finite, there is no pair, or a factorisation failed its check */
enum status ace_operator(size_t sequences, int length, int r, const double *z, double *matrix,
                         double (*eigenvalue)[2], double *r2);
/* Errors |lambda - truth| / |truth| (absolute where truth is 0) of the assignment with the least sum. Where there are
 * more eigenvalues than truths, those without a partner get NAN; else truths are left over.   out: error [n] */
void ace_match(int n, const double (*eigenvalue)[2], int truths, const double (*truth)[2], double *error);
/* Consensus control (ace.md 3, "compare seeds"): directions of this model's probed layer that carry the given directions
 * of sample space, by least squares of the centred activations on `consensus` (H ~ G W, so W = G'Hc for orthonormal G);
 * keep and remove ablations through their span.   in: consensus [samples][dim], orthonormal columns
 * out: *keep, *removed accuracies of the test set; NAN when the layer has no part in any of the directions
 * fails: STATUS_NUMERIC (also when the columns are not orthonormal); STATUS_JOB when samples is not the test set's */
enum status ace_consensus(struct model *m, const struct task *t, const struct spec *s, const double *consensus,
                          size_t samples, int dim, double *keep, double *removed);

#endif
