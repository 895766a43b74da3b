/* record.h: what a finished run leaves behind. One record is one row of a tile file and of runs.nc. */
#ifndef INVAR_STORE_RECORD_H
#define INVAR_STORE_RECORD_H

#include "base/hash.h"
#include "job/keys.h"
#include "job/outcome.h"
#include "probe/measures.h"

#include <stddef.h>
#include <stdint.h>

/* Learning curves: `points` evaluations, the first at step 0, the last after the last step. Evaluation is without
 * dropout. */
struct record_curves {
    int points;
    int64_t *step;
    double *loss_train, *loss_test, *accuracy_train, *accuracy_test;
};

/* What the ACE probe saw after one step (see probe/ace.h for each). */
struct record_probe {
    int64_t step;
    int d, rank, sufficient, necessary, core_dim, operator_rank;
    int64_t samples;
    double accuracy, accuracy_core_only, accuracy_core_removed;
    double r2, r2_oracle_ratio;
    double *weight;               /* [d] */
    double *basis;                /* [d][rank] the core */
    double *mean;                 /* [d] */
    double *operator_matrix;      /* [operator_rank][operator_rank] */
    double *eigenvalue;           /* [operator_rank][2] */
    double *eigenvalue_error;     /* [operator_rank] */
    double *coordinates;          /* [samples][rank] or NULL */
    double *activations;          /* [samples][d] or NULL */
};

struct record_tensor {
    char name[64];
    int rows, cols;
    size_t offset;                /* into the packed weights below */
};

struct record {
    char id[HASH_TEXT];
    uint64_t seed;
    enum outcome outcome;
    int64_t steps;                /* steps done */
    int64_t last_finite_step;     /* the last step with a finite loss and finite weights; -1: none */
    double wall_time;             /* seconds of training, over all launches */
    int restarts;                 /* times it went on from a checkpoint */
    double loss_train, loss_test, accuracy_train, accuracy_test;   /* the last point of the curves; NAN when not finite */
    struct record_curves curves;
    int probes;
    struct record_probe *probe;   /* by ascending step; the last one is after the last step when probe.at has `end` */
    int manifolds;
    struct record_manifold *manifold;     /* by ascending step */
    int circuits;
    struct record_circuit *circuit;       /* by ascending step */
    double emergence_step;        /* first step whose training loss is below probe.manifold.emerged_below; NAN: none */
    int coordinates;
    double *coordinate_step;      /* [coordinates] time, linear between steps, at which each first reached
                                   * probe.manifold.level; NAN: never. NULL: not measured */
    int tensors;
    struct record_tensor *tensor;
    int element_size;             /* 4 or 8: as the model's precision */
    void *weights;                /* packed, without padding: sum of rows * cols elements */
    char *error;                  /* FAILED: why; else NULL */
};

void record_clear(struct record *r);      /* frees the inside */

#endif
