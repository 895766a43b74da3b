/* The last block without its keys and values (model/decoder_keys.inc), against the same block with them, and the twin. */
#include "check.h"
#include "base/text.h"
#include "kern/kern.h"
#include "model/cases.h"
#include "model/decoder.h"
#include "model/model_private.h"
#include "model/planner.h"
#include "model/twin.h"

#define FORMED (DECODER_LOOKED | DECODER_TABLE)
#define UNFORMED (FORMED | DECODER_KEYS)

/* Many heads and looked rows: queries of a sequence fill more than one chunk of 16, and one ends inside a row. */
static const struct model_case many_queries = {
    "many_queries", 2, 15, 5, 0, {12, -1}, NORM_PRE, 1, ACTIVATION_RELU, 0, LOSS_CROSS_ENTROPY, 5, 5, 37, 2, {3, 20, 36},
    1.0};

static void force(struct model *m, const struct spec *s, unsigned rows)
{
    struct decoder *d = m->sizes;
    m->planned.passes->free(m->planned.work);
    d->rows = rows;
    m->planned.passes = s->model.precision == PRECISION_FLOAT64 ? &decoder_f64 : &decoder_f32;
    m->planned.work = m->planned.passes->open(d);
}

/* What a model says of a batch. */
struct seen {
    struct model_result train, evaluated;
    size_t length, logits;
    double *gradient, *logit, *activation, *jacobian;
};

static struct seen see(const struct model_case *c, const struct spec *s, const struct batch *b, unsigned rows)
{
    struct model *m = case_model(c, s);
    double *flat = memory_new(model_flat_length(m), sizeof *flat);
    force(m, s, rows);
    case_weights(c, m, flat);
    struct seen x = {.train = model_train_pass(m, b, 5, 9), .evaluated = model_evaluate(m, b, NULL),
                     .length = model_flat_length(m)};
    x.gradient = memory_new(x.length, sizeof *x.gradient);
    model_gradient_get(m, x.gradient);
    x.logits = x.train.rows * (size_t)c->classes;
    x.logit = memory_new(x.logits, sizeof *x.logit);
    model_logits(m, b, x.logit);
    x.activation = memory_new(x.train.rows * (size_t)c->d_model, sizeof *x.activation);
    model_activations(m, b, c->layers > 1 ? c->layers - 1 : 1, x.activation);
    x.jacobian = memory_new(x.train.rows * (size_t)c->d_model, sizeof *x.jacobian);
    model_logit_gradient(m, b, 1, 1, x.jacobian);
    memory_free(flat);
    model_free(m);
    return x;
}

static void seen_free(struct seen *x)
{
    memory_free(x->gradient);
    memory_free(x->logit);
    memory_free(x->activation);
    memory_free(x->jacobian);
}

static void check_close(const char *name, const char *what, const double *got, const double *expected, size_t n,
                        double tolerance)
{
    double worst = 0.0, size = 1e-30;
    for (size_t i = 0; i < n; i++) {
        size = fmax(size, fabs(expected[i]));
        if (!(fabs(got[i] - expected[i]) <= worst))
            worst = fabs(got[i] - expected[i]);
    }
    if (!(worst <= tolerance * size))
        CHECK_FAIL("%s: %s is off by %.2e of %.2e (bound %.1e)", name, what, worst, size, tolerance);
}

static void compare(const struct model_case *c, double dropout, int ragged, int precision)
{
    const double tolerance = precision == PRECISION_FLOAT64 ? 1e-12 : 1e-5;
    struct spec s = case_spec(c, precision);
    struct batch b = case_batch(c, ragged);
    s.model.dropout = dropout;
    struct seen formed = see(c, &s, &b, FORMED), got = see(c, &s, &b, UNFORMED);
    CHECK_NEAR(got.train.loss, formed.train.loss, tolerance * formed.train.loss);
    CHECK_NEAR(got.evaluated.loss, formed.evaluated.loss, tolerance * formed.evaluated.loss);
    CHECK_INT(got.train.correct, formed.train.correct);
    CHECK_INT(got.evaluated.rows, formed.evaluated.rows);
    check_close(c->name, "gradient", got.gradient, formed.gradient, got.length, tolerance * (c->scale > 1 ? 20 : 1));
    check_close(c->name, "logits", got.logit, formed.logit, got.logits, tolerance);
    check_close(c->name, "activations", got.activation, formed.activation, got.train.rows * (size_t)c->d_model, tolerance);
    check_close(c->name, "logit gradient", got.jacobian, formed.jacobian, got.train.rows * (size_t)c->d_model, tolerance);
    seen_free(&formed);
    seen_free(&got);
    batch_free(&b);
}

static void compare_all(double dropout, int precision)
{
    for (int i = 0; i <= MODEL_CASES; i++) {
        const struct model_case *c = i < MODEL_CASES ? &model_cases[i] : &many_queries;
        compare(c, dropout, 1, precision);
        if (c->positions[0] >= 0)
            compare(c, dropout, 0, precision);
    }
    CHECK_INT(memory_balance(), 0);
}

TEST(unformed_keys_in_double) { compare_all(0.0, PRECISION_FLOAT64); }
TEST(unformed_keys_in_float) { compare_all(0.0, PRECISION_FLOAT32); }
TEST(unformed_keys_with_dropout_in_double) { compare_all(0.3, PRECISION_FLOAT64); }
TEST(unformed_keys_with_dropout_in_float) { compare_all(0.3, PRECISION_FLOAT32); }

/* Both ways share all but the last block's attention; the twin shares nothing. */
TEST(unformed_keys_equal_the_twin)
{
    static const char *const names[] = {"pre_norm", "no_norm", "odd_sizes", "last_of_two_blocks", "some_positions", "tied"};
    for (int i = 0; i < MODEL_CASES; i++)
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            const struct model_case *c = &model_cases[i];
            if (strcmp(c->name, names[k]))
                continue;
            struct spec s = case_spec(c, PRECISION_FLOAT64);
            struct model *m = case_model(c, &s);
            struct batch b = case_batch(c, 1);
            double *flat = memory_new(model_flat_length(m), sizeof *flat);
            case_weights(c, m, flat);
            struct twin w = twin_run(&s, m, c->classes, flat, &b, NULL);
            struct seen got = see(c, &s, &b, UNFORMED);
            tape_backward(&w.tape, w.loss);
            for (size_t e = 0; e < got.length; e++)
                flat[e] = w.tape.at[(size_t)w.weights + e].adjoint;
            CHECK_NEAR(got.train.loss, w.tape.at[w.loss].value, 1e-12);
            check_close(c->name, "gradient", got.gradient, flat, got.length, 1e-12);
            seen_free(&got);
            twin_free(&w);
            memory_free(flat);
            batch_free(&b);
            model_free(m);
        }
}

static struct text training_bits(const struct model_case *c, int precision, double dropout)
{
    struct spec s = case_spec(c, precision);
    s.model.dropout = dropout;
    s.train.lr = 1e-2;
    struct model *m = case_model(c, &s);
    struct optimizer *o = optimizer_new(m, &s);
    struct batch b = case_batch(c, 1);
    struct text bits = {0};
    force(m, &s, UNFORMED);
    model_initialise(m, &s, 3);
    for (uint64_t t = 0; t < 5; t++) {
        double loss = model_train_pass(m, &b, 1, t).loss;
        text_add_bytes(&bits, &loss, sizeof loss);
        optimizer_step(o, m, t + 1);
    }
    text_add_bytes(&bits, model_weights(m), model_flat_length(m) * model_element_size(m));
    batch_free(&b);
    optimizer_free(o);
    model_free(m);
    return bits;
}

TEST(training_has_the_same_bits_on_all_instruction_sets)
{
    for (int config = 0; config < 8; config++) {
        struct text first = {0};
        const struct model_case *c = config & 4 ? &many_queries : &model_cases[2];
        for (int i = 0; kern_isa_at(i); i++) {
            if (kern_pin(kern_isa_at(i)) != STATUS_OK)
                continue;
            struct text bits = training_bits(c, config & 1, config & 2 ? 0.2 : 0.0);
            if (!first.length) {
                first = bits;
                continue;
            }
            CHECK_INT(bits.length, first.length);
            if (memcmp(bits.s, first.s, bits.length))
                CHECK_FAIL("configuration %d: %s differs from %s", config, kern_isa_at(i), kern_isa_at(0));
            text_free(&bits);
        }
        text_free(&first);
    }
    CHECK_INT(memory_balance(), 0);
}

/* Two blocks with pre-norm: unformed where the loss looks at the last position, formed where it looks everywhere. */
TEST(the_planner_leaves_keys_unformed_where_few_rows_ask)
{
    struct model_case c = {"plan", 2, 64, 4, 0, {256, -1}, NORM_PRE, 1, ACTIVATION_GELU, 0, LOSS_CROSS_ENTROPY, 4, 4, 64, 1,
                           ALL, 1.0};
    struct spec s = case_spec(&c, PRECISION_FLOAT32);
    for (int looked = 0; looked < 2; looked++) {
        struct task_shape shape = {.vocabulary = 4, .classes = 4, .length = 64, .looked = looked, .batch = 64};
        struct model *m = NULL;
        CHECK_OK(model_open(&s, shape, &m));
        const struct planner *p = model_plan(m);
        CHECK_INT(!strcmp(p->candidate[p->chosen].name, "keys"), looked);
        model_free(m);
    }
}
