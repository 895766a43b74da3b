/* circuit.h: which few coordinates of the invariant manifold do what the model does (Algorithm 1 of Musat et al., arXiv
 * 2607.11875).
 *
 * From all coordinates, again and again the one is dropped without which the loss is least, the first of equals, until
 * that loss would be above probe.circuit.budget times that of all. What is left is the circuit. Coordinates that are
 * zero are dropped first. The choice is exact: each coordinate's loss is computed, though not to its end once it is
 * above that of another.
 *
 * A unit is canonical when without it the circuit loses at least probe.circuit.tolerance of its accuracy above chance;
 * the others aid.
 */
#ifndef INVAR_PROBE_CIRCUIT_H
#define INVAR_PROBE_CIRCUIT_H

#include "base/status.h"
#include "job/keys.h"
#include "probe/measures.h"
#include "task/task.h"

/* The circuit of a model on the manifold, judged by the first probe.circuit.sequences test sequences; they are of one length
 * and ask at the last position.
 * in: value [coordinates of manifold_new]   out: *r without its step, cleared with circuit_clear   fails: STATUS_JOB (no
 * manifold), STATUS_NUMERIC (a value or the loss is not finite), STATUS_ENVIRONMENT (no kernels for this processor) */
enum status circuit_find(const struct spec *s, const struct task *t, const double *value, struct record_circuit *r);
void circuit_clear(struct record_circuit *r);

#endif
