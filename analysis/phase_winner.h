/* phase_winner.h: which circuit won at each point of a phase map, and the coordinates at which training ended there. */
#ifndef INVAR_ANALYSIS_PHASE_WINNER_H
#define INVAR_ANALYSIS_PHASE_WINNER_H

#include "analysis/phase_grid.h"

/* The most frequent winner over the seeds of each point, of equals the first; NAN: none is known.   out: label[points] */
void phase_winner_labels(const struct grid *g, struct ncfile *runs, double *label);

/* winner, winner_share, winner_entropy (bits), and, where the starting coordinates are the job's, predicted: the
 * circuit whose own alpha_l beta_lm gamma_m is largest at the start, and predicted_fails. Nothing where runs.nc has no
 * winner. */
void phase_winner_put(struct ncfile *f, const struct grid *g, struct ncfile *runs);

/* Means over the seeds of the variables (run, direction) and (run, layer) of runs.nc: coordinate_mean(axes,
 * direction), ... */
void phase_vectors_put(struct ncfile *f, const struct grid *g, struct ncfile *runs);

#endif
