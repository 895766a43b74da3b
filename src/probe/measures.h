/* measures.h: what the probes of the invariant manifold leave, one struct for one look. The store keeps them in records. */
#ifndef INVAR_PROBE_MEASURES_H
#define INVAR_PROBE_MEASURES_H

#include <stdint.h>

/* What the manifold probe saw after one step (probe/manifold.h). Arrays that the job did not ask for are NULL. */
struct record_manifold {
    int64_t step;
    int coordinates, layers, circuits;
    double loss;                  /* on the training set */
    double *coordinate;           /* [coordinates], as job/manifold.h orders them */
    double *leakage;              /* [layers + 1] share of the squared weights off the manifold; the last: unembedding */
    double *gradient;             /* [coordinates] of the training loss */
    double *gradient_ratio;       /* [coordinates] over that with rare tokens alone; NAN where that is 0 */
    double gradient_ratio_theory; /* Theorem 2 */
    double *rise;                 /* [circuits] by how much the loss rises without the circuit's beta */
    double rise_in_context, rise_in_weights;      /* without all gammas; without delta */
    int winner;                   /* number of the circuit; `circuits`: none; -1: not asked */
};

/* What Algorithm 1 found (probe/circuit.h), after one step. */
struct record_circuit {
    int64_t step;
    int coordinates;              /* all */
    int units;                    /* that survived */
    int *unit;                    /* [units] numbers of coordinates, by falling cost */
    double *unit_value;           /* [units] */
    double *unit_cost;            /* [units] loss without the unit, less the circuit's loss */
    int *canonical;               /* [units] 1: canonical, 0: aiding */
    int *dropped;                 /* [coordinates - units] in the order in which they were dropped */
    double *dropped_loss;         /* [coordinates - units] loss after each */
    double loss, loss_circuit, loss_canonical;    /* of all coordinates, of the circuit, of its canonical units alone */
    double accuracy, accuracy_circuit, accuracy_canonical;
};

#endif
