/* variables.h: every variable of runs.nc that comes from a run's record, once.
 *
 * The tables make runs.nc (runs.c), the order parameters of phase_map.nc (every scalar) and the choice of maps in the
 * report. A new result of a run is one line here. `r` is the run's record, `p` one of its probes; an expression that
 * is not finite, and any value of a run without probe, is stored as missing.
 *
 *   SCALAR(name, units, type, map, long_name, value)        name(run); map: 1 = the report draws its phase map
 *   CURVE(name, units, long_name, pointer)                  name(run, step), one value per point of r->curves
 *   PROBE(name, units, type, map, long_name, value)         name(run) of the last probe, and name_probe(run, probe)
 *   COMPONENTS(name, units, long_name, parts, count, pointer)
 *                                                           name(run, component), with 2 parts (run, component, part)
 */
#ifndef INVAR_ANALYSIS_VARIABLES_H
#define INVAR_ANALYSIS_VARIABLES_H

#include "job/job.h"
#include "store/ncfile.h"
#include "store/record.h"

#define RUN_SCALARS(SCALAR)                                                                                            \
    SCALAR(steps, "1", NCFILE_INT64, 0, "optimiser steps done", (double)r->steps)                                        \
    SCALAR(last_finite_step, "1", NCFILE_INT64, 0, "last step with a finite loss and finite weights",                    \
           (double)r->last_finite_step)                                                                                \
    SCALAR(accuracy_train, "1", NCFILE_DOUBLE, 1, "accuracy on the training set after the last step",                  \
           r->accuracy_train)                                                                                          \
    SCALAR(accuracy_test, "1", NCFILE_DOUBLE, 1, "accuracy on the test set after the last step", r->accuracy_test)     \
    SCALAR(loss_train_final, "1", NCFILE_DOUBLE, 0, "loss on the training set after the last step", r->loss_train)     \
    SCALAR(loss_test_final, "1", NCFILE_DOUBLE, 1, "loss on the test set after the last step", r->loss_test)           \
    SCALAR(wall_time, "s", NCFILE_DOUBLE, 0, "time of training, over all launches", r->wall_time)                      \
    SCALAR(restarts, "1", NCFILE_INT, 0, "times the run went on from a checkpoint", (double)r->restarts)

#define RUN_CURVES(CURVE)                                                                                              \
    CURVE(loss_train, "1", "loss on the training set", c->loss_train)                                                  \
    CURVE(loss_test, "1", "loss on the test set", c->loss_test)                                                        \
    CURVE(accuracy_train_curve, "1", "accuracy on the training set", c->accuracy_train)                                \
    CURVE(accuracy_test_curve, "1", "accuracy on the test set", c->accuracy_test)

/* A dimension of -1 says that no rank reached the bound: it has no value. */
#define RUN_PROBES(PROBE)                                                                                              \
    PROBE(core_dim, "1", NCFILE_INT, 1, "core dimension: the larger of rank by energy and necessary dimension",        \
          dimension(p->core_dim))                                                                                      \
    PROBE(core_rank, "1", NCFILE_INT, 0, "rank of the core by energy, or as the job fixed it", dimension(p->rank))     \
    PROBE(core_sufficient_dim, "1", NCFILE_INT, 1, "smallest rank of core that keeps the accuracy",                    \
          dimension(p->sufficient))                                                                                    \
    PROBE(core_necessary_dim, "1", NCFILE_INT, 0, "smallest rank of core whose removal leaves chance",                 \
          dimension(p->necessary))                                                                                     \
    PROBE(accuracy_full, "1", NCFILE_DOUBLE, 0, "test accuracy of the whole model at the probe", p->accuracy)          \
    PROBE(accuracy_core_only, "1", NCFILE_DOUBLE, 1, "test accuracy when the layer keeps only its core",               \
          p->accuracy_core_only)                                                                                       \
    PROBE(accuracy_core_removed, "1", NCFILE_DOUBLE, 1, "test accuracy when the core is removed from the layer",       \
          p->accuracy_core_removed)                                                                                    \
    PROBE(operator_r2, "1", NCFILE_DOUBLE, 0, "R2 of the linear operator fitted to the core coordinates",              \
          p->operator_rank > 0 ? p->r2 : NAN)                                                                          \
    PROBE(operator_r2_oracle_ratio, "1", NCFILE_DOUBLE, 1, "R2 of the operator over the R2 of the true chain",         \
          p->operator_rank > 0 ? p->r2_oracle_ratio : NAN)

#define RUN_COMPONENTS(COMPONENTS)                                                                                     \
    COMPONENTS(core_weight, "1", "squared singular value of covariance times observability, by direction", 1, p->d,    \
               p->weight)                                                                                              \
    COMPONENTS(operator_eigenvalue, "1", "eigenvalue of the linear operator of the core coordinates", 2,               \
               p->operator_rank, p->eigenvalue)                                                                        \
    COMPONENTS(operator_eigenvalue_error, "1", "distance of the eigenvalue from the true one, over its modulus", 1,    \
               p->operator_rank, p->eigenvalue_error)

/* What is true of the run's task; `t` is a struct task_truth.   TRUTH(name, long_name, value) */
#define RUN_TRUTHS(TRUTH)                                                                                              \
    TRUTH(accuracy_best, "best possible accuracy on the task", t.accuracy_best)                                       \
    TRUTH(accuracy_chance, "accuracy of a guess", t.accuracy_chance)                                                  \
    TRUTH(operator_r2_oracle, "R2 of the best linear predictor of the state", t.operator_r2)

/* And its eigenvalues: (run, component, part). */
#define RUN_TRUE_EIGENVALUE "operator_eigenvalue_true"
#define RUN_TRUE_EIGENVALUE_SAYS "eigenvalue of the task's transition operator"

/* The scalars of the tables SCALAR and PROBE, in their order. */
struct run_variable {
    const char *name, *units, *long_name;
    enum nc_type_name type;
    int map;                 /* the report draws its phase map */
    int of_probe;
};

/* Scalar number i, or NULL past the end. */
const struct run_variable *variables_scalar(int i);
/* Their values in a record; p (a probe of it) may be NULL.   out: value[variables_scalars()], NAN: none */
void variables_values(const struct record *r, const struct record_probe *p, double *value);
int variables_scalars(void);

/* All variables of runs.nc as a Markdown table: what claims may name. memory_free. */
char *variables_reference(void);

/* ---- axes as coordinates ---- */

/* The NetCDF name of an axis: its key path with underscores for dots ("init_scale_mlp"); memory_free. */
char *variables_axis_name(const struct axis *axis);
/* The variable of an axis on dimension `dim`: units, long_name, attribute `key`; flags where the key has words. */
void variables_axis_define(struct ncfile *f, const struct axis *axis, const char *name, const char *dim);
/* The word of value v of an axis whose key is a choice or a bool; NULL for numbers. */
const char *variables_axis_word(const struct axis *axis, double v);
/* The axis' positions by ascending value.   out: order[axis->count] */
void variables_axis_order(const struct axis *axis, int *order);

#endif
