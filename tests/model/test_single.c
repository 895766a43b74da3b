/* One-layer decoders through tables (model/single.h): every choice of tables against the naive twin and the row engine. */
#include "check.h"
#include "base/text.h"
#include "kern/kern.h"
#include "model/cases.h"
#include "model/model_private.h"
#include "model/planner.h"
#include "model/single.h"
#include "model/twin.h"

static const struct model_case cases[] = {
    {"last",        1, 8, 2, 0, {12, -1}, NORM_NONE, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 4, 9, {3, -1}, 1.0},
    {"everywhere",  1, 8, 4, 0, {12, -1}, NORM_NONE, 1, ACTIVATION_GELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 7, 4, ALL, 1.0},
    {"no_bias",     1, 8, 2, 0, {12, -1}, NORM_NONE, 0, ACTIVATION_RELU, 0, LOSS_MSE, 6, 4, 3, 9, {1, 2, -1}, 1.0},
    {"tied",        1, 8, 2, 0, {20, -1}, NORM_NONE, 1, ACTIVATION_RELU, 1, LOSS_CROSS_ENTROPY, 5, 5, 4, 5, {3, -1}, 1.0},
    {"tied_no_mlp", 1, 8, 2, 0, {0, -1}, NORM_NONE, 0, ACTIVATION_RELU, 1, LOSS_CROSS_ENTROPY, 5, 5, 4, 5, {2, -1}, 1.0},
    {"no_mlp",      1, 8, 1, 0, {0, -1}, NORM_NONE, 1, ACTIVATION_RELU, 0, LOSS_MSE, 5, 3, 4, 5, ALL, 1.0},
    {"odd_sizes",   1, 9, 3, 5, {7, -1}, NORM_NONE, 1, ACTIVATION_GELU, 0, LOSS_CROSS_ENTROPY, 6, 7, 5, 4, {0, 4, -1}, 1.0},
    {"wide",        1, 18, 1, 17, {35, -1}, NORM_NONE, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 4, 33, 3, 4, {2, -1}, 1.0},
    {"one_token",   1, 6, 2, 0, {5, -1}, NORM_NONE, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 1, 6, ALL, 1.0},
    {"long",        1, 6, 2, 0, {9, -1}, NORM_NONE, 0, ACTIVATION_GELU, 0, LOSS_CROSS_ENTROPY, 3, 3, 19, 2, {18, -1}, 1.0},
    {"large",       1, 8, 2, 0, {12, -1}, NORM_NONE, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 4, 9, {3, -1}, 4.0},
};
#define SINGLE_CASES ((int)(sizeof cases / sizeof cases[0]))

static unsigned all_flags(const struct model_case *c)
{
    return SINGLE_LOGITS | (c->d_mlp[0] ? SINGLE_HIDDEN | SINGLE_MERGED : 0);
}

/* The model now computes through tables, with these choices, whatever its planner took. */
static void force(struct model *m, const struct spec *s, unsigned flags)
{
    struct decoder *d = m->sizes;
    m->planned.passes->free(m->planned.work);
    d->flags = flags;
    m->planned.passes = s->model.precision == PRECISION_FLOAT64 ? &single_f64 : &single_f32;
    m->planned.work = m->planned.passes->open(d);
}

static struct spec single_spec(const struct model_case *c, int precision)
{
    struct spec s = case_spec(c, precision);
    s.train.cache_kib = 16;          /* tiles of 16 or few more rows */
    return s;
}

/* ---- against the twin ---- */

/* Largest difference relative to the largest expected value, or to `size` when that is larger. */
static void check_close(const char *name, unsigned flags, const char *what, const double *got, const double *expected,
                        size_t n, double size, double tolerance)
{
    double worst = 0.0;
    for (size_t i = 0; i < n; i++)
        size = fmax(size, fabs(expected[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - expected[i]) <= worst))
            worst = fabs(got[i] - expected[i]);
    if (!(worst <= tolerance * size))
        CHECK_FAIL("%s, flags %u: %s is off by %.2e of %.2e (bound %.1e)", name, flags, what, worst, size, tolerance);
}

static void check_gradient(const char *name, unsigned flags, const struct model *m, struct twin *w, double tolerance)
{
    size_t n = model_flat_length(m);
    double *got = memory_new(n, sizeof *got), *expected = memory_new(n, sizeof *expected);
    double *mass = memory_new(n, sizeof *mass);
    model_gradient_get(m, got);
    tape_backward(&w->tape, w->loss);
    tape_mass(&w->tape, w->weights, n, mass);
    for (size_t i = 0; i < n; i++)
        expected[i] = w->tape.at[(size_t)w->weights + i].adjoint;
    for (int i = 0; i < w->tensors; i++) {
        const struct tensor *t = &w->table[i];
        size_t elements = (size_t)t->rows * (size_t)t->cols;
        double size = 0.0;
        for (size_t k = 0; k < elements; k++)
            size = fmax(size, mass[t->offset + k]);
        check_close(name, flags, t->name, got + t->offset, expected + t->offset, elements, size, tolerance);
        size_t end = i + 1 < w->tensors ? w->table[i + 1].offset : n;
        for (size_t k = t->offset + elements; k < end; k++)
            CHECK(got[k] == 0.0);                    /* padding */
    }
    memory_free(got);
    memory_free(expected);
    memory_free(mass);
}

static void check_logits(const char *name, unsigned flags, struct model *m, const struct batch *b, const struct twin *w,
                         double tolerance)
{
    size_t classes = (size_t)w->classes, row = 0;
    double *got = memory_new(w->rows * classes, sizeof *got), *expected = memory_new(w->rows * classes, sizeof *expected);
    model_logits(m, b, got);
    for (int r = 0; r < b->sequences * b->length; r++)
        for (size_t k = 0; b->target[r] >= 0 && k < classes; k++)
            expected[row++] = w->tape.at[w->logit[(size_t)r * classes + k]].value;
    check_close(name, flags, "logits", got, expected, row, 0.0, tolerance);
    memory_free(got);
    memory_free(expected);
}

static void check_case(const struct model_case *c, int precision, int ragged)
{
    struct spec s = single_spec(c, precision);
    struct model *m = case_model(c, &s);
    struct batch b = case_batch(c, ragged);
    double *flat = memory_new(model_flat_length(m), sizeof *flat);
    /* Large weights saturate the softmax, where roundings are magnified: test_twin.c measures by how much. */
    double tolerance = (precision == PRECISION_FLOAT64 ? 1e-12 : 1e-5) * (c->scale > 1.0 ? 20 : 1);
    case_weights(c, m, flat);
    struct twin w = twin_run(&s, m, c->classes, flat, &b, NULL);
    double loss = w.tape.at[w.loss].value;
    for (unsigned flags = 0; flags <= all_flags(c); flags++) {
        if (flags & ~all_flags(c))
            continue;
        force(m, &s, flags);
        struct model_result e = model_evaluate(m, &b, NULL), r = model_train_pass(m, &b, 1, 2);
        CHECK(e.loss == r.loss && e.rows == r.rows && e.correct == r.correct);
        CHECK_INT(r.rows, w.rows);
        CHECK_INT(r.correct, w.correct);
        check_close(c->name, flags, "loss", &r.loss, &loss, 1, 0.0, tolerance);
        check_gradient(c->name, flags, m, &w, tolerance);
        check_logits(c->name, flags, m, &b, &w, tolerance);
    }
    twin_free(&w);
    memory_free(flat);
    batch_free(&b);
    model_free(m);
}

static void check_cases(int precision)
{
    for (int i = 0; i < SINGLE_CASES; i++)
        for (int ragged = 0; ragged < 2; ragged++)
            check_case(&cases[i], precision, ragged);
    CHECK_INT(memory_balance(), 0);
}

TEST(tables_in_double_equal_the_twin) { check_cases(PRECISION_FLOAT64); }
TEST(tables_in_float_equal_the_twin) { check_cases(PRECISION_FLOAT32); }

/* ---- against the row engine ---- */

/* Modular addition, a small one: 17 numbers and "=". */
static const struct model_case addition = {
    "addition", 1, 32, 4, 0, {80, -1}, NORM_NONE, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 18, 17, 3, 150, {2, -1}, 1.0};

static struct batch addition_batch(uint32_t number, int sequences)
{
    struct batch b = batch_new(sequences, 3);
    struct stream s = stream_open(21, PURPOSE_PROBE, number);
    for (int q = 0; q < sequences; q++) {
        int32_t x = (int32_t)stream_below(&s, 17), y = (int32_t)stream_below(&s, 17);
        int32_t *token = b.token + 3 * q, *target = b.target + 3 * q;
        token[0] = x, token[1] = y, token[2] = 17;
        target[0] = target[1] = -1, target[2] = (x + y) % 17;
    }
    return b;
}

static struct model *addition_model(struct spec *s, int precision, int plan)
{
    struct task_shape shape = {.vocabulary = 18, .classes = 17, .length = 3, .looked = 1, .batch = 150};
    struct model *m = NULL;
    *s = case_spec(&addition, precision);
    s->train.plan = plan;
    s->train.cache_kib = 64;
    s->train.lr = 3e-3;
    s->train.weight_decay = 0.5;
    CHECK_OK(model_open(s, shape, &m));
    if (!m)
        exit(1);
    model_initialise(m, s, 3);
    return m;
}

/* Gradient of a pass over the same batch and weights. `flags` < 0: the row engine, everything at every position. */
static double *gradient_of(const double *flat, int precision, int flags, double *loss)
{
    struct spec s;
    struct model *m = addition_model(&s, precision, PLAN_DENSE);
    struct batch b = addition_batch(0, 150);
    double *g = memory_new(model_flat_length(m), sizeof *g);
    if (flags >= 0)
        force(m, &s, (unsigned)flags);
    model_weights_set(m, flat);
    *loss = model_train_pass(m, &b, 1, 1).loss;
    model_gradient_get(m, g);
    batch_free(&b);
    model_free(m);
    return g;
}

static double worst_of(const double *x, const double *y, size_t n)
{
    double worst = 0.0;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs(x[i] - (y ? y[i] : 0.0)));
    return worst;
}

/* In double 1e-12 of every tensor's largest element. In float 1e-6, or where roundings are magnified three times
 * what the row engine in float is off itself. The key bias has gradient zero in exact arithmetic: terms of the size of
 * the key weight's cancel. */
static void compare_gradients(double scale)
{
    struct spec s;
    struct model *m = addition_model(&s, PRECISION_FLOAT32, PLAN_DENSE);
    const struct tensor *t;
    int tensors = model_tensors(m, &t);
    double *flat = memory_new(model_flat_length(m), sizeof *flat), loss[4];
    model_weights_get(m, flat);
    for (size_t i = 0; i < model_flat_length(m); i++)
        flat[i] *= scale;
    double *exact = gradient_of(flat, PRECISION_FLOAT64, -1, &loss[0]);
    double *rows = gradient_of(flat, PRECISION_FLOAT32, -1, &loss[1]);
    for (unsigned flags = 0; flags <= all_flags(&addition); flags++) {
        double *wide = gradient_of(flat, PRECISION_FLOAT64, (int)flags, &loss[2]);
        double *narrow = gradient_of(flat, PRECISION_FLOAT32, (int)flags, &loss[3]);
        CHECK_NEAR(loss[2], loss[0], 1e-13 * loss[0]);
        CHECK_NEAR(loss[3], loss[0], 1e-6 * loss[0]);
        for (int i = 0; i < tensors; i++) {
            size_t at = t[i].offset, n = (size_t)t[i].rows * (size_t)t[i].cols;
            double size = worst_of(exact + at, NULL, n), row = worst_of(rows + at, exact + at, n);
            if (!strcmp(t[i].name, "block1.attention.key.bias"))
                size = worst_of(exact + t[i - 1].offset, NULL, (size_t)t[i - 1].rows * (size_t)t[i - 1].cols);
            double off[2] = {worst_of(wide + at, exact + at, n), worst_of(narrow + at, exact + at, n)};
            if (!(off[0] <= 1e-12 * size) || !(off[1] <= fmax(1e-6 * size, 3.0 * row)))
                CHECK_FAIL("scale %g, flags %u: %s of %.2e is off by %.2e in double, %.2e in float (row engine %.2e)",
                           scale, flags, t[i].name, size, off[0], off[1], row);
        }
        memory_free(wide);
        memory_free(narrow);
    }
    memory_free(flat);
    memory_free(exact);
    memory_free(rows);
    model_free(m);
}

TEST(gradients_equal_the_row_engines)
{
    compare_gradients(1.0);
    compare_gradients(3.0);
    compare_gradients(6.0);
    CHECK_INT(memory_balance(), 0);
}

static void train_steps(struct model *m, const struct spec *s, size_t steps, double *loss)
{
    struct optimizer *o = optimizer_new(m, s);
    for (size_t t = 0; t < steps; t++) {
        struct batch b = addition_batch((uint32_t)t % 7, 120 + 10 * (int)(t % 4));
        loss[t] = model_train_pass(m, &b, 1, t).loss;
        optimizer_step(o, m, t + 1);
        batch_free(&b);
    }
    optimizer_free(o);
}

TEST(two_hundred_steps_beside_the_row_engine)
{
    static double dense[200], planned[200];
    struct spec s;
    struct model *m = addition_model(&s, PRECISION_FLOAT64, PLAN_DENSE);
    train_steps(m, &s, 200, dense);
    model_free(m);
    m = addition_model(&s, PRECISION_FLOAT64, PLAN_STRUCTURED);
    CHECK_TEXT(model_plan(m)->candidate[model_plan(m)->chosen].name, "single");
    train_steps(m, &s, 200, planned);
    model_free(m);
    for (int t = 0; t < 200; t++)
        CHECK_NEAR(planned[t], dense[t], 1e-9);
    CHECK(dense[199] < 0.5 * dense[0]);
}

/* ---- bits ---- */

/* Losses and weights of ten steps with these choices. */
static struct text training_bits(int precision, unsigned flags)
{
    struct spec s;
    double loss[10];
    struct model *m = addition_model(&s, precision, PLAN_STRUCTURED);
    struct text bits = {0};
    s.model.activation = ACTIVATION_GELU;
    force(m, &s, flags);
    train_steps(m, &s, 10, loss);
    text_add_bytes(&bits, loss, sizeof loss);
    text_add_bytes(&bits, model_weights(m), model_flat_length(m) * model_element_size(m));
    model_free(m);
    return bits;
}

TEST(training_has_the_same_bits_on_all_instruction_sets)
{
    for (int precision = 0; precision < 2; precision++)
        for (unsigned flags = 0; flags <= all_flags(&addition); flags++) {
            struct text first = {0};
            for (int i = 0; kern_isa_at(i); i++) {
                if (kern_pin(kern_isa_at(i)) != STATUS_OK)
                    continue;
                struct text bits = training_bits(precision, flags);
                if (!first.length) {
                    first = bits;
                    continue;
                }
                CHECK_INT(bits.length, first.length);
                if (memcmp(bits.s, first.s, bits.length))
                    CHECK_FAIL("flags %u: %s differs from %s", flags, kern_isa_at(i), kern_isa_at(0));
                text_free(&bits);
            }
            text_free(&first);
        }
    CHECK_INT(memory_balance(), 0);
}

/* Gradient bits of a batch do not depend on batches that were seen before: more tokens, other lengths, other rows. */
TEST(passes_do_not_remember_each_other)
{
    const struct model_case *c = &cases[1];
    for (int precision = 0; precision < 2; precision++) {
        struct spec s = single_spec(c, precision);
        struct model *m = case_model(c, &s);
        force(m, &s, all_flags(c));
        size_t n = model_flat_length(m);
        double *flat = memory_new(n, sizeof *flat), *x = memory_new(n, sizeof *x), *y = memory_new(n, sizeof *y);
        case_weights(c, m, flat);
        struct batch small = case_batch(c, 1), other = case_batch(c, 0);
        small.sequences = 2;
        double loss = model_train_pass(m, &small, 1, 1).loss;
        model_gradient_get(m, x);
        model_train_pass(m, &other, 1, 1);
        struct batch shorter = other;
        shorter.length = 3;
        model_train_pass(m, &shorter, 1, 1);
        CHECK(model_train_pass(m, &small, 1, 1).loss == loss);
        model_gradient_get(m, y);
        CHECK_BYTES(x, y, n * sizeof *x);
        memory_free(flat);
        memory_free(x);
        memory_free(y);
        batch_free(&small);
        batch_free(&other);
        model_free(m);
    }
    CHECK_INT(memory_balance(), 0);
}

TEST(a_batch_without_looked_rows_has_no_gradient)
{
    struct spec s;
    struct model *m = addition_model(&s, PRECISION_FLOAT32, PLAN_STRUCTURED);
    struct batch b = addition_batch(0, 5);
    force(m, &s, all_flags(&addition));
    for (int i = 0; i < 15; i++)
        b.target[i] = -1;
    size_t n = model_flat_length(m);
    double *g = memory_new(n, sizeof *g);
    struct model_result r = model_train_pass(m, &b, 1, 1);
    CHECK(r.loss == 0.0 && r.rows == 0 && r.correct == 0);
    model_gradient_get(m, g);
    for (size_t i = 0; i < n; i++)
        CHECK(g[i] == 0.0);
    CHECK_INT(model_evaluate(m, &b, NULL).rows, 0);
    memory_free(g);
    batch_free(&b);
    model_free(m);
}

/* ---- the planner's choice ---- */

/* The candidate for a model like modular addition with p = 113, with one thing changed. */
static struct planner_candidate candidate(int layers, int norm, double dropout, int length, int looked, int *chosen)
{
    struct model_case c = {"plan", layers, 128, 4, 0, {512, -1}, norm, 0, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 114, 113,
                           length, 1, ALL, 1.0};
    struct spec s = case_spec(&c, PRECISION_FLOAT32);
    struct task_shape shape = {.vocabulary = 114, .classes = 113, .length = length, .looked = looked, .batch = 3830};
    struct planner_candidate found = {0};
    struct model *m = NULL;
    s.model.dropout = dropout;
    CHECK_OK(model_open(&s, shape, &m));
    const struct planner *p = model_plan(m);
    for (int i = 0; i < p->candidates; i++)
        if (!strcmp(p->candidate[i].name, "single")) {
            found = p->candidate[i];
            *chosen = p->chosen == i;
        }
    CHECK_TEXT(found.name, "single");
    model_free(m);
    return found;
}

TEST(the_planner_takes_tables_where_they_are_cheaper)
{
    int chosen = 0;
    struct planner_candidate c = candidate(1, NORM_NONE, 0.0, 3, 1, &chosen);
    CHECK(chosen);
    CHECK_INT(c.flags, SINGLE_HIDDEN | SINGLE_LOGITS | SINGLE_MERGED);
    CHECK(c.count.flops < 2.2e9);                    /* dense: 13.9 GF */
    c = candidate(1, NORM_NONE, 0.0, 40, 1, &chosen);        /* forty keys and four heads are more than d_model */
    CHECK(!(c.flags & SINGLE_HIDDEN));
    c = candidate(2, NORM_NONE, 0.0, 3, 1, &chosen);
    CHECK(!chosen);
    CHECK_HAS(c.invalid, "2 layers");
    c = candidate(1, NORM_PRE, 0.0, 3, 1, &chosen);
    CHECK(!chosen);
    CHECK_HAS(c.invalid, "norm");
    c = candidate(1, NORM_NONE, 0.1, 3, 1, &chosen);
    CHECK(!chosen);
    CHECK_HAS(c.invalid, "dropout");
}
