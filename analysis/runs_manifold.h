/* runs_manifold.h: what the manifold and the circuit probe left, as variables of runs.nc.
 *
 *     coordinate_name(direction)                         names (job/manifold.h)
 *     coordinate, gradient, gradient_ratio (run, direction), rise(run, circuit), leakage(run, layer),
 * manifold_loss(run), winner, gradient_ratio_theory, rise_in_context, rise_in_weights (run)           of the last probe
 *     coordinate_probe(run, manifold_probe, direction), leakage_probe, manifold_step(run, manifold_probe),
 * manifold_loss_probe emergence_step(run), coordinate_step(run, direction) circuit_units(run), circuit_unit(run,
 * unit), ...   see store/record_sets.c
 */
#ifndef INVAR_ANALYSIS_RUNS_MANIFOLD_H
#define INVAR_ANALYSIS_RUNS_MANIFOLD_H

#include "base/memory.h"
#include "job/job.h"
#include "store/ncfile.h"
#include "store/record.h"

struct manifold_rows;
struct manifold_rows *manifold_rows_new(size_t rows);
void manifold_rows_free(struct manifold_rows *m);
/* Keeps the parts of a record for row i. */
void manifold_rows_keep(struct manifold_rows *m, size_t i, const struct record *r);
/* Writes the variables; none where no run has such a probe. `number` [rows] are the rows' runs in the job, `names` their
 * coordinates attribute. */
void manifold_rows_put(struct ncfile *f, const struct manifold_rows *m, const struct job *job, const size_t *number,
                       const char *names);

/* Names of the circuits of `layers` layers and "none", as flags; freed with runs_circuits_free. */
char **manifold_circuit_words(int layers, int *n);
void manifold_circuit_words_free(char **words, int n);

#endif
