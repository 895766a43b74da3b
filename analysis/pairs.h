/* pairs.h: what cross_run.nc says of each pair of runs. Pairs are dealt over the ranks; every number has one rank that
 * makes it, from matrices that are equal on all ranks, so the number of ranks changes no bit.
 */
#ifndef INVAR_ANALYSIS_PAIRS_H
#define INVAR_ANALYSIS_PAIRS_H

#include "analysis/panel.h"

/* PAIRS(name, has a value per component, unit, long_name, comment) */
#define PAIRS_TABLE(PAIRS) \
    PAIRS(canonical_correlation, 1, "1", "canonical correlations of two runs' core coordinates", \
          "singular values of Ua'Ub, U orthonormal bases of the centred coordinates; descending; as many as the smaller " \
          "effective rank") \
    PAIRS(canonical_correlation_heldout, 1, "1", \
          "correlation on held-out inputs of the canonical variates fitted on the others", \
          "held_out says which inputs; component c is fitted as component c of the fitted half") \
    PAIRS(canonical_correlation_null, 1, "1", "mean of canonical_correlation with the rows of one run permuted", \
          "over null_permutations permutations of all `samples` rows, the same ones for all pairs; rows are permuted " \
          "singly, so dependence between the positions of a sequence is not kept: a null for the size of the sample, " \
          "not for shared inputs") \
    PAIRS(canonical_correlation_null_p95, 1, "1", \
          "95 % quantile of canonical_correlation with the rows of one run permuted", \
          "same permutations as canonical_correlation_null; interpolated between order statistics") \
    PAIRS(principal_angle, 1, "radian", "principal angles between the core subspaces in the layer's space", \
          "acos of the singular values of Qa'Qb, asin where that is more accurate; ascending; runs of equal width only") \
    PAIRS(projector_overlap, 0, "1", "overlap of the core projectors, |Qa'Qb|_F^2 / sqrt(ra rb)", \
          "runs of equal width only") \
    PAIRS(weight_cosine, 0, "1", "cosine of the whole weight vectors", "runs with the same tensors only") \
    PAIRS(svcca_mean, 0, "1", "mean canonical correlation of the directions that hold 99 % of each run's variance", \
          "arXiv 1706.05806") \
    PAIRS(pwcca, 0, "1", "canonical correlations weighted by projection on the coordinates of `run`", \
          "arXiv 1806.05759; not symmetric in run and run_other") \
    PAIRS(linear_cka, 0, "1", "linear centred kernel alignment", "arXiv 1905.00414") \
    PAIRS(procrustes_distance, 0, "1", "orthogonal Procrustes distance of the coordinates scaled to unit Frobenius norm", \
          "2 - 2 |Za'Zb|_*, from 0 to 2; arXiv 2108.01661") \
    PAIRS(saturated, 0, "1", "whether samples - 1 < effective_rank of both runs together", \
          "then at least one canonical correlation is 1 whatever the data")

enum pairs_variable {
#define PAIRS(name, per_component, unit, long_name, comment) PAIRS_##name,
    PAIRS_TABLE(PAIRS)
#undef PAIRS
    PAIRS_COUNT
};

struct pairs_field {
    const char *name;
    int per_component;
    const char *unit, *long_name, *comment;
};
extern const struct pairs_field pairs_field[PAIRS_COUNT];

struct pairs {
    int runs, components;            /* K; the largest number of coordinates of a run */
    double *value[PAIRS_COUNT];      /* [K][K] or [K][K][components]; NAN where there is none */
};

/* Room for K runs; pairs_clear. */
void pairs_new(const struct ensemble *e, struct pairs *p);
void pairs_clear(struct pairs *p);
/* The value(s) of (a, b). */
double *pairs_at(const struct pairs *p, enum pairs_variable v, int a, int b);

/* Each of these fills some variables, on all ranks.   collective over e->comm
 * repeats: same bits for any number of ranks
 * fails: STATUS_NUMERIC, STATUS_USAGE; on all ranks alike */
enum status pairs_correlate(const struct ensemble *e, const struct panel *panel, struct pairs *p);
enum status pairs_compare_spaces(const struct ensemble *e, struct pairs *p);
enum status pairs_compare_weights(const struct ensemble *e, const struct grid *g, struct pairs *p);
/* Fits on fit_row[fits], judges on test_row[tests]. */
enum status pairs_hold_out(const struct ensemble *e, const struct grid *g, double tolerance, int64_t fits,
                           const uint32_t *fit_row, int64_t tests, const uint32_t *test_row, struct pairs *p);
/* Permutation t is stream_permutation of (seed, PURPOSE_PERMUTATION, t), t from 0 to `permutations` - 1. For each, one
 * distributed product of U with the permuted U serves all pairs. U enters with the leading slice of exact_product.h,
 * whole numbers of exact_product_bits(n) bits: of a null that is itself a random number of size 1/sqrt(n), a relative
 * 2^-18 is enough, and the product is free of rounding. */
enum status pairs_permute(const struct ensemble *e, const struct panel *panel, uint64_t seed, int permutations,
                          struct pairs *p);

#endif
