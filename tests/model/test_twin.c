/* The model against its naive double twin: loss, hits, logits, activations, gradients, interventions, Jacobian rows. */
#include "check.h"
#include "model/cases.h"
#include "model/twin.h"

/* Largest difference relative to the largest expected value, or to `size` when that is larger. */
static void check_close(const char *name, const char *what, const double *got, const double *expected, size_t n,
                        double size, double tolerance)
{
    double worst = 0.0;
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        size = fmax(size, fabs(expected[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - expected[i]) <= worst)) {        /* NaN counts as worst */
            worst = fabs(got[i] - expected[i]);
            at = i;
        }
    if (!(worst <= tolerance * size))
        CHECK_FAIL("%s: %s[%zu] is %.17g, the twin says %.17g, off by %.2e of %.2e (bound %.1e)", name, what, at,
                   got[at], expected[at], worst / size, size, tolerance);
}

/* Gradient of the twin's loss and, per tensor, the largest sum of absolute contributions to one of its elements.
 * out: gradient [flat length], size [tensors] */
static void twin_gradient(struct twin *w, const struct model *m, double *gradient, double *size)
{
    size_t n = model_flat_length(m);
    double *mass = memory_new(n, sizeof *mass);
    tape_backward(&w->tape, w->loss);
    tape_mass(&w->tape, w->weights, n, mass);
    for (size_t i = 0; i < n; i++)
        gradient[i] = w->tape.at[(size_t)w->weights + i].adjoint;
    for (int i = 0; i < w->tensors; i++) {
        const struct tensor *t = &w->table[i];
        size[i] = 0.0;
        for (size_t k = 0; k < (size_t)t->rows * (size_t)t->cols; k++)
            size[i] = fmax(size[i], mass[t->offset + k]);
    }
    memory_free(mass);
}

/* How much this computation magnifies roundings: by how much the twin's gradient moves when each of its operations
 * errs by 1e-9, over that (Monte Carlo arithmetic). Saturated attention weights are the reason why this can be
 * large: p (dp - sum p dp) cancels almost wholly. */
static double magnification(const struct spec *s, const struct model *m, int classes, const double *flat,
                            const struct batch *b)
{
    const double shake = 1e-9;
    size_t n = model_flat_length(m);
    double *g[2], *size[2], worst = 0.0;
    const struct tensor *table;
    int tensors = model_tensors(m, &table);
    for (int k = 0; k < 2; k++) {
        struct twin w = twin_shaken(s, m, classes, flat, b, NULL, k * shake);
        g[k] = memory_new(n, sizeof *g[k]);
        size[k] = memory_new((size_t)tensors, sizeof *size[k]);
        twin_gradient(&w, m, g[k], size[k]);
        twin_free(&w);
    }
    for (int i = 0; i < tensors; i++)
        for (size_t k = 0; k < (size_t)table[i].rows * (size_t)table[i].cols && size[0][i] > 0.0; k++)
            worst = fmax(worst, fabs(g[0][table[i].offset + k] - g[1][table[i].offset + k]) / size[0][i] / shake);
    for (int k = 0; k < 2; k++) {
        memory_free(g[k]);
        memory_free(size[k]);
    }
    return worst;
}

/* Double: 1e-12, some thousand roundings of 1e-16 on values of the same size. Float: 1e-5, likewise with 6e-8. Where
 * large weights magnify roundings, one of them in every operation of the twin. */
static double tolerance_of(const struct model_case *c, const struct spec *s, const struct model *m, const double *flat,
                           const struct batch *b)
{
    int wide = s->model.precision == PRECISION_FLOAT64;
    double base = wide ? 1e-12 : 1e-5;
    if (c->scale <= 1.0)
        return base;
    double bound = fmax(base, (wide ? 0x1p-53 : 0x1p-24) * magnification(s, m, c->classes, flat, b));
    CHECK(bound < (wide ? 1e-9 : 1e-2));         /* otherwise the comparison would mean nothing */
    return bound;
}

/* Values of the tape entries index[0..n), or their adjoints. */
static double *values_of(const struct twin *w, const int *index, size_t n, int adjoint)
{
    double *v = memory_new(n, sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = adjoint ? w->tape.at[index[i]].adjoint : w->tape.at[index[i]].value;
    return v;
}

/* The rows of an array [sequences * length][width] at which the loss looks, one after another. */
static double *rows_of(const struct twin *w, const struct batch *b, const int *index, size_t width, int adjoint)
{
    double *out = memory_new(w->rows * width, sizeof *out);
    size_t row = 0;
    for (int r = 0; r < b->sequences * b->length; r++)
        if (b->target[r] >= 0) {
            double *v = values_of(w, index + (size_t)r * width, width, adjoint);
            memcpy(out + row++ * width, v, width * sizeof *v);
            memory_free(v);
        }
    return out;
}

static void check_result(const char *name, struct model_result got, const struct twin *w, double tolerance)
{
    double expected = w->tape.at[w->loss].value;
    check_close(name, "loss", &got.loss, &expected, 1, 0.0, tolerance);
    CHECK_INT(got.rows, w->rows);
    CHECK_INT(got.correct, w->correct);
}

static void check_gradient(const char *name, const struct model *m, struct twin *w, double tolerance)
{
    size_t n = model_flat_length(m);
    double *got = memory_new(n, sizeof *got), *expected = memory_new(n, sizeof *expected);
    double *size = memory_new((size_t)w->tensors, sizeof *size);
    model_gradient_get(m, got);
    twin_gradient(w, m, expected, size);
    for (int i = 0; i < w->tensors; i++) {
        const struct tensor *t = &w->table[i];
        check_close(name, t->name, got + t->offset, expected + t->offset, (size_t)t->rows * (size_t)t->cols, size[i],
                    tolerance);
    }
    memory_free(got);
    memory_free(expected);
    memory_free(size);
}

static void check_case(const struct model_case *c, int precision, int ragged)
{
    struct spec s = case_spec(c, precision);
    struct model *m = case_model(c, &s);
    struct batch b = case_batch(c, ragged);
    double *flat = memory_new(model_flat_length(m), sizeof *flat);
    case_weights(c, m, flat);
    double tolerance = tolerance_of(c, &s, m, flat, &b);
    struct twin w = twin_run(&s, m, c->classes, flat, &b, NULL);
    check_result(c->name, model_train_pass(m, &b, 1, 1), &w, tolerance);
    check_gradient(c->name, m, &w, tolerance);
    check_result(c->name, model_evaluate(m, &b, NULL), &w, tolerance);
    size_t d = (size_t)c->d_model, classes = (size_t)c->classes;
    double *got = memory_new(w.rows * (d > classes ? d : classes), sizeof *got);
    double *expected = rows_of(&w, &b, w.logit, classes, 0);
    model_logits(m, &b, got);
    check_close(c->name, "logits", got, expected, w.rows * classes, 0.0, tolerance);
    memory_free(expected);
    for (int layer = 1; layer <= c->layers; layer++) {
        expected = rows_of(&w, &b, w.h[layer], d, 0);
        CHECK_INT(model_activations(m, &b, layer, got), w.rows);
        check_close(c->name, "activations", got, expected, w.rows * d, 0.0, tolerance);
        memory_free(expected);
    }
    memory_free(got);
    memory_free(flat);
    twin_free(&w);
    batch_free(&b);
    model_free(m);
}

static void check_all_cases(int precision, int ragged)
{
    for (int i = 0; i < MODEL_CASES; i++)
        if (!ragged || model_cases[i].sequences > 1)
            check_case(&model_cases[i], precision, ragged);
    CHECK_INT(memory_balance(), 0);
}

TEST(double_model_equals_its_twin) { check_all_cases(PRECISION_FLOAT64, 0); }
TEST(float_model_equals_its_twin) { check_all_cases(PRECISION_FLOAT32, 0); }
TEST(double_model_equals_its_twin_at_ragged_positions) { check_all_cases(PRECISION_FLOAT64, 1); }
TEST(float_model_equals_its_twin_at_ragged_positions) { check_all_cases(PRECISION_FLOAT32, 1); }

/* d logit[c] at a row / d h at the same row, everything downstream included. */
static void check_jacobian(const struct model_case *c, int precision, int ragged)
{
    struct spec s = case_spec(c, precision);
    struct model *m = case_model(c, &s);
    struct batch b = case_batch(c, ragged);
    double *flat = memory_new(model_flat_length(m), sizeof *flat);
    case_weights(c, m, flat);
    double tolerance = tolerance_of(c, &s, m, flat, &b);
    struct twin w = twin_run(&s, m, c->classes, flat, &b, NULL);
    size_t d = (size_t)c->d_model;
    double *got = memory_new(w.rows * d, sizeof *got), *expected = memory_new(w.rows * d, sizeof *expected);
    for (int layer = 1; layer <= c->layers; layer++)
        for (int k = 0; k < c->classes; k += 2) {
            size_t row = 0;
            for (int r = 0; r < b.sequences * b.length; r++)
                if (b.target[r] >= 0) {
                    tape_backward(&w.tape, w.logit[r * c->classes + k]);
                    double *v = values_of(&w, w.h[layer] + (size_t)r * d, d, 1);
                    memcpy(expected + row++ * d, v, d * sizeof *v);
                    memory_free(v);
                }
            CHECK_INT(model_logit_gradient(m, &b, layer, k, got), w.rows);
            check_close(c->name, "logit gradient", got, expected, w.rows * d, 0.0, tolerance);
        }
    memory_free(got);
    memory_free(expected);
    memory_free(flat);
    twin_free(&w);
    batch_free(&b);
    model_free(m);
}

static const char *const jacobian_cases[] = {"one_block", "two_blocks", "pre_norm", "no_norm", "odd_sizes", "tied",
                                             "mlp_by_layer", "last_of_two_blocks", "some_positions", "large_weights"};

static void check_jacobians(int precision, int ragged)
{
    for (int i = 0; i < MODEL_CASES; i++)
        for (size_t k = 0; k < sizeof jacobian_cases / sizeof jacobian_cases[0]; k++)
            if (!strcmp(model_cases[i].name, jacobian_cases[k]))
                check_jacobian(&model_cases[i], precision, ragged);
    CHECK_INT(memory_balance(), 0);
}

TEST(double_logit_gradients_equal_the_twins) { check_jacobians(PRECISION_FLOAT64, 0); }
TEST(float_logit_gradients_equal_the_twins) { check_jacobians(PRECISION_FLOAT32, 0); }
TEST(logit_gradients_at_ragged_positions) { check_jacobians(PRECISION_FLOAT64, 1); }

/* Gram-Schmidt of random columns.   out: basis [d][rank] */
static void random_basis(int d, int rank, double *basis)
{
    struct stream s = stream_open(19, PURPOSE_PROBE, (uint32_t)rank);
    for (int k = 0; k < rank; k++) {
        double norm = 0.0;
        for (int i = 0; i < d; i++)
            basis[i * rank + k] = stream_normal(&s);
        for (int twice = 0; twice < 2; twice++)
            for (int j = 0; j < k; j++) {
                double dot = 0.0;
                for (int i = 0; i < d; i++)
                    dot += basis[i * rank + j] * basis[i * rank + k];
                for (int i = 0; i < d; i++)
                    basis[i * rank + k] -= dot * basis[i * rank + j];
            }
        for (int i = 0; i < d; i++)
            norm += basis[i * rank + k] * basis[i * rank + k];
        for (int i = 0; i < d; i++)
            basis[i * rank + k] /= sqrt(norm);
    }
}

static void check_interventions(const struct model_case *c, int precision, int ragged)
{
    struct spec s = case_spec(c, precision);
    struct model *m = case_model(c, &s);
    struct batch b = case_batch(c, ragged);
    int d = c->d_model;
    double *flat = memory_new(model_flat_length(m), sizeof *flat), *basis = memory_new((size_t)(d * d), sizeof *basis);
    double *mean = memory_new((size_t)d, sizeof *mean);
    for (int i = 0; i < d; i++)
        mean[i] = 0.1 * (i % 3) - 0.2;
    case_weights(c, m, flat);
    double tolerance = tolerance_of(c, &s, m, flat, &b);
    for (int layer = 1; layer <= c->layers; layer++)
        for (int rank = 0; rank <= d; rank = rank == 0 ? 1 : rank == 1 ? 3 : rank == 3 ? d : d + 1)
            for (int kind = 0; kind < 4; kind++) {
                struct intervention v = {.layer = layer, .rank = rank, .remove = kind & 1, .basis = basis,
                                         .mean = kind & 2 ? mean : NULL};
                random_basis(d, rank, basis);
                struct twin w = twin_run(&s, m, c->classes, flat, &b, &v);
                struct model_result r = model_evaluate(m, &b, &v);
                double expected = w.tape.at[w.loss].value;
                check_close(c->name, "loss under intervention", &r.loss, &expected, 1, 0.0, tolerance);
                CHECK_INT(r.rows, w.rows);
                /* When all of a row is removed its logits may be equal up to rounding, and hits are left to chance. */
                if (rank != 0 && rank != d)
                    CHECK_INT(r.correct, w.correct);
                twin_free(&w);
            }
    memory_free(flat);
    memory_free(basis);
    memory_free(mean);
    batch_free(&b);
    model_free(m);
}

static void check_all_interventions(int precision, int ragged)
{
    static const char *const names[] = {"two_blocks", "pre_norm", "no_norm", "odd_sizes", "tied", "last_of_two_blocks",
                                        "some_positions"};
    for (int i = 0; i < MODEL_CASES; i++)
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
            if (!strcmp(model_cases[i].name, names[k]))
                check_interventions(&model_cases[i], precision, ragged);
    CHECK_INT(memory_balance(), 0);
}

TEST(double_interventions_equal_the_twins) { check_all_interventions(PRECISION_FLOAT64, 0); }
TEST(float_interventions_equal_the_twins) { check_all_interventions(PRECISION_FLOAT32, 0); }
TEST(interventions_at_ragged_positions) { check_all_interventions(PRECISION_FLOAT64, 1); }

/* Keeping the whole space, or removing nothing, changes nothing but roundings; a second evaluation without one shows
 * that the intervention leaves no trace. */
TEST(interventions_leave_no_trace)
{
    const struct model_case *c = &model_cases[1];
    struct spec s = case_spec(c, PRECISION_FLOAT32);
    struct model *m = case_model(c, &s);
    struct batch b = case_batch(c, 0);
    double *flat = memory_new(model_flat_length(m), sizeof *flat), basis[64];
    case_weights(c, m, flat);
    random_basis(8, 8, basis);
    double before = model_evaluate(m, &b, NULL).loss;
    struct intervention all = {.layer = 1, .rank = 8, .basis = basis};
    struct intervention none = {.layer = 2, .rank = 8, .remove = 1, .basis = basis};
    CHECK_NEAR(model_evaluate(m, &b, &all).loss, before, 1e-5);
    CHECK(fabs(model_evaluate(m, &b, &none).loss - before) > 1e-3);
    CHECK(model_evaluate(m, &b, NULL).loss == before);
    memory_free(flat);
    batch_free(&b);
    model_free(m);
}

/* The twin itself: its gradient against central differences of its own loss. */
TEST(the_twin_differentiates_itself)
{
    static const int chosen[] = {1, 2, 7, 11, 14};
    for (size_t q = 0; q < sizeof chosen / sizeof chosen[0]; q++) {
        const struct model_case *c = &model_cases[chosen[q]];
        struct spec s = case_spec(c, PRECISION_FLOAT64);
        struct model *m = case_model(c, &s);
        struct batch b = case_batch(c, 0);
        size_t n = model_flat_length(m);
        double *flat = memory_new(n, sizeof *flat), step = 1e-6;
        case_weights(c, m, flat);
        struct twin w = twin_run(&s, m, c->classes, flat, &b, NULL);
        tape_backward(&w.tape, w.loss);
        for (size_t i = 0; i < n; i += 7) {
            double loss[2], kept = flat[i];
            for (int side = 0; side < 2; side++) {
                flat[i] = kept + (side ? step : -step);
                struct twin moved = twin_run(&s, m, c->classes, flat, &b, NULL);
                loss[side] = moved.tape.at[moved.loss].value;
                twin_free(&moved);
            }
            flat[i] = kept;
            CHECK_NEAR(w.tape.at[i].adjoint, (loss[1] - loss[0]) / (2.0 * step), 1e-8);
        }
        twin_free(&w);
        memory_free(flat);
        batch_free(&b);
        model_free(m);
    }
}
