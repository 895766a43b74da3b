/* The attention_only model in all its orders against a naive double twin: loss, hits, logits, streams, gradients,
 * interventions, Jacobian rows. */
#include "check.h"
#include "model/attention_only_twin.h"
#include "model/planner.h"

/* Largest difference relative to the largest expected value, or to `size` when that is larger. */
static void check_close(const char *name, const char *what, const double *got, const double *expected, size_t n, double size,
                        double tolerance)
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
        CHECK_FAIL("%s: %s[%zu] is %.17g, the twin says %.17g, off by %.2e of %.2e (bound %.1e)", name, what, at, got[at],
                   expected[at], worst / size, size, tolerance);
}

/* Gradient of the twin's loss, and per tensor the largest sum of absolute contributions to one of its elements.
 * out: gradient [flat length], size [tensors] */
static void twin_gradient(struct twin *w, const struct model *m, double *gradient, double *size)
{
    size_t n = model_flat_length(m);
    double *mass = memory_new(n, sizeof *mass);
    tape_backward(&w->tape, w->loss);
    tape_mass(&w->tape, w->weights, n, mass);
    for (size_t i = 0; i < n; i++)
        gradient[i] = w->tape.at[(size_t)w->weights + i].adjoint;
    for (int i = 0; i < w->tensors; i++)
        for (size_t k = 0; k < (size_t)w->table[i].rows * (size_t)w->table[i].cols; k++)
            size[i] = fmax(size[i], mass[w->table[i].offset + k]);
    memory_free(mass);
}

/* By how much the twin's gradient moves when each of its operations errs by 1e-9, over that: large weights saturate the
 * attention, whose gradient then cancels almost wholly. */
static double magnification(const struct ao_case *c, const struct model *m, const double *flat, const struct batch *b)
{
    const double shake = 1e-9;
    size_t n = model_flat_length(m);
    const struct tensor *table;
    int tensors = model_tensors(m, &table);
    double *g[2], *size[2], worst = 0.0;
    for (int k = 0; k < 2; k++) {
        struct twin w = ao_twin(c, m, flat, b, NULL, k * shake);
        g[k] = memory_new(n, sizeof *g[k]);
        size[k] = memory_new((size_t)tensors, sizeof *size[k]);
        twin_gradient(&w, m, g[k], size[k]);
        twin_free(&w);
    }
    for (int i = 0; i < tensors; i++)
        for (size_t k = 0; k < (size_t)table[i].rows * (size_t)table[i].cols && size[0][i] > 0.0; k++)
            worst = fmax(worst, fabs(g[0][table[i].offset + k] - g[1][table[i].offset + k]) / size[0][i] / shake);
    for (int k = 0; k < 2; k++)
        memory_free(g[k]), memory_free(size[k]);
    return worst;
}

static double tolerance_of(const struct ao_case *c, int wide, const struct model *m, const double *flat,
                           const struct batch *b)
{
    double base = wide ? 1e-12 : 2e-6;
    if (c->scale <= 1.0)
        return base;
    double bound = fmax(base, (wide ? 0x1p-52 : 0x1p-23) * magnification(c, m, flat, b));
    CHECK(bound < (wide ? 1e-10 : 1e-3));         /* otherwise the comparison would mean nothing */
    return bound;
}

/* The rows of an array of tape entries [sequences * length][width] at which the loss looks; values or adjoints. */
static double *rows_of(const struct twin *w, const struct batch *b, const int *index, size_t width, int adjoint)
{
    double *out = memory_new(w->rows * width, sizeof *out);
    size_t row = 0;
    for (size_t r = 0; r < (size_t)(b->sequences * b->length); r++) {
        if (b->target[r] < 0)
            continue;
        for (size_t k = 0; k < width; k++) {
            const struct tape_entry *e = &w->tape.at[index[r * width + k]];
            out[row * width + k] = adjoint ? e->adjoint : e->value;
        }
        row++;
    }
    return out;
}

static void check_result(const char *name, struct model_result got, const struct twin *w, double tolerance)
{
    double expected = w->tape.at[w->loss].value;
    check_close(name, "loss", &got.loss, &expected, 1, 0.0, tolerance);
    CHECK_INT(got.rows, w->rows);
    CHECK_INT(got.correct, w->correct);
    CHECK_NEAR(got.weight, w->weight, 1e-12);
    CHECK_NEAR(got.correct_weight, w->correct_weight, 1e-12);
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
    for (size_t i = 0; i + 1 < (size_t)w->tensors; i++) {
        const struct tensor *t = &w->table[i];
        for (size_t k = t->offset + (size_t)t->rows * (size_t)t->cols; k < t[1].offset; k++)
            CHECK(got[k] == 0.0);                   /* the padding */
    }
    memory_free(got), memory_free(expected), memory_free(size);
}

static void check_logits(const struct ao_case *c, struct model *m, const struct twin *w, const struct batch *b,
                         double tolerance)
{
    size_t n = w->rows * (size_t)c->classes;
    double *got = memory_new(n, sizeof *got), *expected = rows_of(w, b, w->logit, (size_t)c->classes, 0);
    model_logits(m, b, got);
    check_close(c->name, "logits", got, expected, n, 0.0, tolerance);
    memory_free(got), memory_free(expected);
}

static void check_layers(const struct ao_case *c, struct model *m, struct twin *w, const struct batch *b, double tolerance)
{
    for (int l = 1; l <= c->layers; l++) {
        size_t d = (size_t)ao_width(c, l), n = w->rows * d, row = 0;
        CHECK_INT(model_layer_width(m, l), d);
        double *got = memory_new(n, sizeof *got), *expected = rows_of(w, b, w->h[l], d, 0);
        CHECK_INT(model_activations(m, b, l, got), w->rows);
        check_close(c->name, "stream", got, expected, n, 0.0, tolerance);
        memory_free(expected);
        CHECK_INT(model_logit_gradient(m, b, l, c->classes - 1, got), w->rows);
        for (int r = 0; r < b->sequences * b->length; r++) {
            if (b->target[r] < 0)
                continue;
            tape_backward(&w->tape, w->logit[r * c->classes + c->classes - 1]);
            double own[4096];
            for (size_t k = 0; k < d; k++)
                own[k] = w->tape.at[w->h[l][(size_t)r * d + k]].adjoint;
            check_close(c->name, "Jacobian row", got + row++ * d, own, d, 1e-3, tolerance);
        }
        memory_free(got);
    }
}

static void check_case(const struct ao_case *c, int precision, int plan, int ragged)
{
    struct spec s = ao_spec(c, precision, plan);
    struct model *m = ao_model(c, &s);
    struct batch b = ao_batch(c, ragged);
    CHECK((model_plan(m)->chosen == 0) == (plan == PLAN_DENSE));
    double *flat = memory_new(model_flat_length(m), sizeof *flat);
    ao_weights(c, m, flat);
    double tolerance = tolerance_of(c, precision == PRECISION_FLOAT64, m, flat, &b);
    struct twin w = ao_twin(c, m, flat, &b, NULL, 0.0);
    check_result(c->name, model_train_pass(m, &b, 1, 1), &w, tolerance);
    check_gradient(c->name, m, &w, tolerance);
    check_result(c->name, model_evaluate(m, &b, NULL), &w, tolerance);
    check_logits(c, m, &w, &b, tolerance);
    if (plan == PLAN_DENSE)
        check_layers(c, m, &w, &b, 10 * tolerance);
    twin_free(&w);
    batch_free(&b);
    memory_free(flat);
    model_free(m);
}

static void check_all(int precision, int plan, int ragged)
{
    for (int i = 0; i < AO_COUNT; i++)
        check_case(&ao_cases[i], precision, plan, ragged);
    CHECK_INT(memory_balance(), 0);
}

TEST(dense_double) { check_all(PRECISION_FLOAT64, PLAN_DENSE, 0); }
TEST(dense_float) { check_all(PRECISION_FLOAT32, PLAN_DENSE, 0); }
TEST(dense_at_ragged_positions) { check_all(PRECISION_FLOAT64, PLAN_DENSE, 1); }
TEST(planned_double) { check_all(PRECISION_FLOAT64, PLAN_STRUCTURED, 0); }
TEST(planned_float) { check_all(PRECISION_FLOAT32, PLAN_STRUCTURED, 0); }
TEST(planned_at_ragged_positions) { check_all(PRECISION_FLOAT64, PLAN_STRUCTURED, 1); }

/* Keeping or removing a plane of block `layer`, around a mean. */
TEST(interventions)
{
    for (int i = 0; i < AO_COUNT; i++)
        for (int layer = 1; layer <= ao_cases[i].layers && layer <= 3; layer++) {
            const struct ao_case *c = &ao_cases[i];
            struct spec s = ao_spec(c, PRECISION_FLOAT64, PLAN_STRUCTURED);
            struct model *m = ao_model(c, &s);
            struct batch b = ao_batch(c, i % 2);
            double *flat = memory_new(model_flat_length(m), sizeof *flat), basis[2 * 1024], mean[1024];
            int d = ao_width(c, layer);
            for (int k = 0; k < d; k++) {
                basis[2 * k] = k == 0 ? 0.6 : k == 1 ? 0.8 : 0.0;
                basis[2 * k + 1] = k == 0 ? -0.8 : k == 1 ? 0.6 : 0.0;
                mean[k] = 0.01 * k;
            }
            ao_weights(c, m, flat);
            double tolerance = tolerance_of(c, 1, m, flat, &b);
            for (int remove = 0; remove < 2; remove++) {
                struct intervention v = {layer, 2, remove, basis, remove ? mean : NULL};
                struct twin w = ao_twin(c, m, flat, &b, &v, 0.0);
                check_result(c->name, model_evaluate(m, &b, &v), &w, tolerance);
                twin_free(&w);
            }
            batch_free(&b);
            memory_free(flat);
            model_free(m);
        }
}

/* Central differences of the model's own loss: with steps of 1e-5 they are near 1e-10 of the function's size, and third
 * derivatives may be large. */
static void check_differences(const struct ao_case *c, int plan)
{
    const double step = 1e-5;
    struct spec s = ao_spec(c, PRECISION_FLOAT64, plan);
    struct model *m = ao_model(c, &s);
    struct batch b = ao_batch(c, 1);
    size_t n = model_flat_length(m), last = 0;
    double *flat = memory_new(n, sizeof *flat), *gradient = memory_new(n, sizeof *gradient), most = 0.0;
    ao_weights(c, m, flat);
    model_train_pass(m, &b, 1, 1);
    model_gradient_get(m, gradient);
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(gradient[i]));
    for (size_t i = 0; i < n; i += CHECK_SANITIZED ? 97 : 5) {
        double loss[2];
        if (flat[i] == 0.0)
            continue;                    /* padding */
        for (int k = 0; k < 2; k++) {
            double kept = flat[i];
            flat[i] = kept + (k ? step : -step);
            model_weights_set(m, flat);
            loss[k] = model_evaluate(m, &b, NULL).loss;
            flat[i] = kept;
        }
        CHECK_NEAR(gradient[i], (loss[1] - loss[0]) / (2 * step), 1e-7 * most);
        last = i;
    }
    CHECK(last > 0 && most > 0.0);
    memory_free(flat), memory_free(gradient);
    batch_free(&b);
    model_free(m);
}

TEST(gradients_by_differences)
{
    for (int i = 0; i < AO_COUNT; i++)
        if (ao_cases[i].scale <= 1.0 && ao_cases[i].layers <= 3)
            check_differences(&ao_cases[i], i % 3 ? PLAN_STRUCTURED : PLAN_DENSE);
    CHECK_INT(memory_balance(), 0);
}
