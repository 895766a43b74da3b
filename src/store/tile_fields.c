#include "store/tile_fields.h"

_Static_assert(sizeof(int) == 4 && sizeof(enum outcome) == 4, "these members are stored as 32 bits");

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

#define RUN(name, type, member, units, long_name) \
    {name, "", units, long_name, type, offsetof(struct record, member), TILE_ONE, TILE_ONE}
const struct tile_field tile_run_fields[] = {
    RUN("seed", NCFILE_INT64, seed, "1", "seed of the run (64 bits without sign, stored with one)"),
    RUN("outcome", NCFILE_INT, outcome, "1", "what became of the run"),
    RUN("steps", NCFILE_INT64, steps, "1", "optimiser steps done"),
    RUN("last_finite_step", NCFILE_INT64, last_finite_step, "1", "last step with a finite loss and finite weights"),
    RUN("wall_time", NCFILE_DOUBLE, wall_time, "s", "time of training, over all launches"),
    RUN("restarts", NCFILE_INT, restarts, "1", "times the run went on from a checkpoint"),
    RUN("loss_train", NCFILE_DOUBLE, loss_train, "1", "final loss on the training set"),
    RUN("loss_test", NCFILE_DOUBLE, loss_test, "1", "final loss on the test set"),
    RUN("accuracy_train", NCFILE_DOUBLE, accuracy_train, "1", "final accuracy on the training set"),
    RUN("accuracy_test", NCFILE_DOUBLE, accuracy_test, "1", "final accuracy on the test set"),
    RUN("emergence_step", NCFILE_DOUBLE, emergence_step, "1", "first step with a training loss below emerged_below; NaN: none"),
    RUN("points", NCFILE_INT, curves.points, "1", "number of points of the learning curves"),
    RUN("probes", NCFILE_INT, probes, "1", "number of probes"),
    RUN("tensors", NCFILE_INT, tensors, "1", "number of weight tensors"),
    RUN("element_size", NCFILE_INT, element_size, "1", "bytes of a weight: 4 in weights, 8 in weights_float64"),
};
const int tile_run_fields_count = COUNT(tile_run_fields);

#define CURVE(name, type, member, long_name) \
    {name, "point", "1", long_name, type, offsetof(struct record_curves, member), TILE_POINT, TILE_ONE}
const struct tile_field tile_curve_fields[] = {
    CURVE("curve_step", NCFILE_INT64, step, "optimiser steps done at this point of the learning curves"),
    CURVE("curve_loss_train", NCFILE_DOUBLE, loss_train, "loss on the training set"),
    CURVE("curve_loss_test", NCFILE_DOUBLE, loss_test, "loss on the test set"),
    CURVE("curve_accuracy_train", NCFILE_DOUBLE, accuracy_train, "accuracy on the training set"),
    CURVE("curve_accuracy_test", NCFILE_DOUBLE, accuracy_test, "accuracy on the test set"),
};
const int tile_curve_fields_count = COUNT(tile_curve_fields);

#define PROBE(name, type, member, long_name) \
    {name, "", "1", long_name, type, offsetof(struct record_probe, member), TILE_ONE, TILE_ONE}
const struct tile_field tile_probe_fields[] = {
    PROBE("probe_step", NCFILE_INT64, step, "step after which the probe looked"),
    PROBE("probe_width", NCFILE_INT, d, "width of the probed layer"),
    PROBE("probe_rank", NCFILE_INT, rank, "dimension of the extracted core"),
    PROBE("probe_operator_rank", NCFILE_INT, operator_rank, "dimension of the fitted operator"),
    PROBE("probe_samples", NCFILE_INT64, samples, "probe inputs"),
    PROBE("sufficient_dim", NCFILE_INT, sufficient, "least rank that keeps the accuracy; -1: none does"),
    PROBE("necessary_dim", NCFILE_INT, necessary, "least rank whose removal leaves chance; -1: none does"),
    PROBE("core_dim", NCFILE_INT, core_dim, "core dimension"),
    PROBE("probe_accuracy", NCFILE_DOUBLE, accuracy, "accuracy of the whole model on the probe inputs"),
    PROBE("accuracy_core_only", NCFILE_DOUBLE, accuracy_core_only, "accuracy with only the core kept"),
    PROBE("accuracy_core_removed", NCFILE_DOUBLE, accuracy_core_removed, "accuracy with the core removed"),
    PROBE("operator_r2", NCFILE_DOUBLE, r2, "R2 of the linear operator on core coordinates"),
    PROBE("operator_r2_oracle_ratio", NCFILE_DOUBLE, r2_oracle_ratio, "R2 as a share of the best linear predictor's"),
};
const int tile_probe_fields_count = COUNT(tile_probe_fields);

#define ARRAY(name, dims, member, a, b, long_name) \
    {name, dims, "1", long_name, NCFILE_DOUBLE, offsetof(struct record_probe, member), a, b}
const struct tile_field tile_array_fields[] = {
    ARRAY("core_weight", "feature", weight, TILE_FEATURE, TILE_ONE, "squared singular values of the core, descending"),
    ARRAY("core_basis", "feature core", basis, TILE_FEATURE, TILE_CORE, "orthonormal basis of the core"),
    ARRAY("activation_mean", "feature", mean, TILE_FEATURE, TILE_ONE, "mean activation of the probed layer"),
    ARRAY("operator_matrix", "operator operator_column", operator_matrix, TILE_OPERATOR, TILE_OPERATOR,
          "linear operator on core coordinates"),
    ARRAY("operator_eigenvalue", "operator part", eigenvalue, TILE_OPERATOR, TILE_PART,
          "eigenvalues of the operator; part 0 is real, part 1 imaginary"),
    ARRAY("operator_eigenvalue_error", "operator", eigenvalue_error, TILE_OPERATOR, TILE_ONE,
          "relative error of the eigenvalue"),
    ARRAY("core_coordinates", "sample core", coordinates, TILE_SAMPLE, TILE_CORE,
          "core coordinates of the probe inputs"),
    ARRAY("activations", "sample feature", activations, TILE_SAMPLE, TILE_FEATURE, "activations of the probe inputs"),
};
const int tile_array_fields_count = COUNT(tile_array_fields);

_Static_assert(COUNT(tile_run_fields) <= TILE_FIELDS_MAX && COUNT(tile_probe_fields) <= TILE_FIELDS_MAX &&
               COUNT(tile_array_fields) < TILE_FIELDS_MAX, "tile_read.c has no room for more columns");

size_t tile_type_size(enum nc_type_name type)
{
    return type == NCFILE_CHAR || type == NCFILE_BYTE ? 1 : type == NCFILE_INT || type == NCFILE_FLOAT ? 4 : 8;
}

size_t tile_probe_extent(const struct record_probe *p, enum tile_extent e)
{
    switch (e) {
    case TILE_FEATURE: return (size_t)p->d;
    case TILE_CORE: return (size_t)p->rank;
    case TILE_OPERATOR: return (size_t)p->operator_rank;
    case TILE_SAMPLE: return (size_t)p->samples;
    case TILE_PART: return 2;
    default: return 1;
    }
}
