/* Whole trainings of attention_only models: the orders of computation side by side, with large weights too, the same bits on
 * all instruction sets, and nothing that depends on what was computed before. */
#include "check.h"

#include "base/memory.h"
#include "base/stream.h"
#include "base/text.h"
#include "kern/kern.h"
#include "model/model.h"
#include "model/planner.h"

struct training {
    const char *plan;            /* what the planner takes */
    int layers, heads, blind, vocabulary, length, looked, loss, optimizer;      /* looked: last positions; 0: all */
    double lr, std;
    int centred;
};

static const struct training trainings[] = {
    {"paths", 2, 1, 0, 12, 20, 1, LOSS_CROSS_ENTROPY, OPTIMIZER_SGD, 1.0, 0.01, 0},
    {"paths", 2, 2, 1, 7, 17, 2, LOSS_MSE, OPTIMIZER_ADAMW, 1e-2, 0.1, 0},
    {"paths", 1, 2, 0, 6, 12, 0, LOSS_CROSS_ENTROPY, OPTIMIZER_ADAMW, 1e-2, 0.01, 0},
    {"paths", 3, 1, 1, 5, 9, 1, LOSS_CROSS_ENTROPY, OPTIMIZER_ADAMW, 3e-3, 0.05, 0},
    {"paths", 2, 1, 1, 9, 11, 1, LOSS_CROSS_ENTROPY, OPTIMIZER_ADAMW, 1e-2, 0.05, 1},
    {"whole", 2, 1, 0, 10, 10, 0, LOSS_CROSS_ENTROPY, OPTIMIZER_ADAMW, 1e-2, 0.05, 0},
    {"whole", 3, 1, 1, 8, 8, 0, LOSS_MSE, OPTIMIZER_SGD, 0.5, 0.1, 0},
};
#define TRAININGS ((int)(sizeof trainings / sizeof trainings[0]))
enum { SEQUENCES = 24 };

static struct spec spec_of(const struct training *c, int plan, int precision)
{
    struct spec s;
    key_defaults(&s);
    s.model.kind = MODEL_ATTENTION_ONLY;
    s.model.layers = c->layers;
    s.model.heads = c->heads;
    s.model.self_attention = !c->blind;
    s.model.max_length = c->length;
    s.model.embedding = c->centred ? EMBEDDING_CENTRED : EMBEDDING_ONE_HOT;
    s.model.precision = precision;
    s.init.scheme = INIT_NORMAL;
    s.init.std = c->std;
    s.train.loss = c->loss;
    s.train.optimizer = c->optimizer;
    s.train.lr = c->lr;
    s.train.weight_decay = 0.01;
    s.train.cache_kib = 64;          /* several tiles a batch */
    s.train.plan = plan;
    return s;
}

static struct model *model_of(const struct training *c, const struct spec *s)
{
    struct model *m = NULL;
    struct task_shape shape = {.vocabulary = c->vocabulary, .classes = c->vocabulary, .length = c->length,
                               .looked = c->looked, .batch = SEQUENCES};
    CHECK_OK(model_open(s, shape, &m));
    if (!m)
        exit(1);
    CHECK_TEXT(model_plan(m)->candidate[model_plan(m)->chosen].name, s->train.plan == PLAN_DENSE ? "dense" : c->plan);
    model_initialise(m, s, 17);
    return m;
}

/* Random tokens; the target is the token three before, so that there is something to learn. */
static struct batch batch_of(const struct training *c, uint32_t number)
{
    struct batch b = batch_new(SEQUENCES, c->length);
    struct stream s = stream_open(3, PURPOSE_PROBE, number);
    for (int i = 0; i < SEQUENCES * c->length; i++) {
        const int t = i % c->length;
        b.token[i] = (int32_t)stream_below(&s, (uint32_t)c->vocabulary);
        b.target[i] = c->looked && t < c->length - c->looked ? -1 : b.token[t >= 3 ? i - 3 : i];
    }
    return b;
}

static void step(struct model *m, struct optimizer *o, const struct training *c, uint64_t t, struct model_result *r)
{
    struct batch b = batch_of(c, (uint32_t)t);
    *r = model_train_pass(m, &b, 5, t);
    optimizer_step(o, m, t + 1);
    batch_free(&b);
}

/* ---- the orders side by side ---- */

static void side_by_side(const struct training *c, int precision, double tolerance)
{
    struct spec s[2];
    struct model *m[2];
    struct optimizer *o[2];
    struct model_result r[2], first = {0};
    double worst = 0.0;
    for (int k = 0; k < 2; k++) {
        s[k] = spec_of(c, k ? PLAN_DENSE : PLAN_STRUCTURED, precision);
        m[k] = model_of(c, &s[k]);
        o[k] = optimizer_new(m[k], &s[k]);
    }
    for (uint64_t t = 0; t < (CHECK_SANITIZED ? 40 : 200); t++) {
        for (int k = 0; k < 2; k++)
            step(m[k], o[k], c, t, &r[k]);
        worst = fmax(worst, fabs(r[0].loss - r[1].loss) / r[1].loss);
        first = t ? first : r[0];
    }
    if (!(worst <= tolerance))
        CHECK_FAIL("%s, %d layers: losses differ by %.2e, at most %.1e", c->plan, c->layers, worst, tolerance);
    CHECK(r[0].loss < first.loss);
    for (int k = 0; k < 2; k++) {
        optimizer_free(o[k]);
        model_free(m[k]);
    }
}

TEST(two_hundred_steps_side_by_side_in_double)
{
    for (int i = 0; i < TRAININGS; i++)
        side_by_side(&trainings[i], PRECISION_FLOAT64, 1e-9);
    CHECK_INT(memory_balance(), 0);
}

TEST(two_hundred_steps_side_by_side_in_float)
{
    for (int i = 0; i < TRAININGS; i++)
        side_by_side(&trainings[i], PRECISION_FLOAT32, 1e-4);
}

/* ---- gradients with weights of any size ---- */

/* Gradient of one batch at the weights of `start`, which float holds exactly.   out: [flat length] */
static double *gradient_of(const struct training *c, int plan, int precision, const double *start)
{
    struct spec s = spec_of(c, plan, precision);
    struct model *m = model_of(c, &s);
    struct batch b = batch_of(c, 9);
    double *g = memory_new(model_flat_length(m), sizeof *g);
    model_weights_set(m, start);
    model_train_pass(m, &b, 1, 1);
    model_gradient_get(m, g);
    batch_free(&b);
    model_free(m);
    return g;
}

/* Largest difference of a tensor's elements, relative to its largest. */
static double difference(const struct tensor *t, const double *got, const double *expected)
{
    double off = 0.0, most = 0.0;
    for (size_t j = t->offset; j < t->offset + (size_t)t->rows * (size_t)t->cols; j++) {
        off = fmax(off, fabs(got[j] - expected[j]));
        most = fmax(most, fabs(expected[j]));
    }
    return most > 0.0 ? off / most : off;
}

/* The planned gradients in double and float against the dense one in double, tensor by tensor. The exponential turns the
 * rounding of a score into a relative error as many times larger as the score: with very large weights float cannot do
 * better than the dense order in float does, and is held to that. */
static void compare_gradients(const struct training *c, double scale)
{
    struct spec s = spec_of(c, PLAN_STRUCTURED, PRECISION_FLOAT32);
    s.init.std = 0.1;
    s.init_scale.all = scale;
    struct model *m = model_of(c, &s);
    double *start = memory_new(model_flat_length(m), sizeof *start);
    model_weights_get(m, start);
    double *exact = gradient_of(c, PLAN_DENSE, PRECISION_FLOAT64, start);
    double *wide = gradient_of(c, PLAN_STRUCTURED, PRECISION_FLOAT64, start);
    double *narrow = gradient_of(c, PLAN_STRUCTURED, PRECISION_FLOAT32, start);
    double *dense = gradient_of(c, PLAN_DENSE, PRECISION_FLOAT32, start);
    const struct tensor *t;
    int tensors = model_tensors(m, &t);
    for (int i = 0; i < tensors; i++, t++) {
        double bound = fmax(1e-6, scale > 3 ? 2 * difference(t, dense, exact) : 0);
        if (!(difference(t, wide, exact) <= 1e-12))
            CHECK_FAIL("%s, %d layers, scale %g: %s is off by %.2e", c->plan, c->layers, scale, t->name,
                       difference(t, wide, exact));
        if (!(difference(t, narrow, exact) <= bound && bound < 1e-5))
            CHECK_FAIL("%s, %d layers, scale %g: %s is off by %.2e in float, at most %.2e", c->plan, c->layers, scale,
                       t->name, difference(t, narrow, exact), bound);
    }
    memory_free(start), memory_free(exact), memory_free(wide), memory_free(narrow), memory_free(dense);
    model_free(m);
}

TEST(gradients_agree_whatever_the_size_of_the_weights)
{
    static const double scale[] = {0.1, 1, 3, 10};
    for (int i = 0; i < TRAININGS; i++)
        for (size_t k = 0; k < sizeof scale / sizeof scale[0]; k++)
            compare_gradients(&trainings[i], scale[k]);
    CHECK_INT(memory_balance(), 0);
}

/* ---- bits ---- */

/* Weights, moments, losses and logits of a few steps, appended to `bits`. */
static void train_a_little(const struct training *c, int plan, int precision, struct text *bits)
{
    struct spec s = spec_of(c, plan, precision);
    struct model *m = model_of(c, &s);
    struct optimizer *o = optimizer_new(m, &s);
    for (uint64_t t = 0; t < (CHECK_SANITIZED ? 1 : 12); t++) {
        struct model_result r;
        step(m, o, c, t, &r);
        text_add_bytes(bits, &r.loss, sizeof r.loss);
        text_add_bytes(bits, &r.correct, sizeof r.correct);
    }
    size_t bytes;
    void *state = optimizer_state(o, &bytes);
    text_add_bytes(bits, model_weights(m), model_flat_length(m) * model_element_size(m));
    text_add_bytes(bits, state, bytes);
    struct batch b = batch_of(c, 99);
    double *logits = memory_new((size_t)(SEQUENCES * c->length * c->vocabulary), sizeof *logits);
    model_logits(m, &b, logits);
    struct model_result r = model_evaluate(m, &b, NULL);
    text_add_bytes(bits, logits, r.rows * (size_t)c->vocabulary * sizeof *logits);
    memory_free(logits);
    batch_free(&b);
    optimizer_free(o);
    model_free(m);
}

TEST(the_same_bits_on_all_instruction_sets)
{
    enum { CONFIGS = 4 * TRAININGS };
    struct text first[CONFIGS] = {{0}};
    for (int i = 0; kern_isa_at(i); i++) {
        if (kern_pin(kern_isa_at(i)) != STATUS_OK) {
            fprintf(stderr, "# %s is not on this machine: not tested\n", kern_isa_at(i));
            continue;
        }
        for (int k = 0; k < CONFIGS; k += CHECK_SANITIZED ? 3 : 1) {
            struct text bits = {0};
            train_a_little(&trainings[k / 4], k % 2 ? PLAN_DENSE : PLAN_STRUCTURED, k / 2 % 2, &bits);
            if (!first[k].length) {
                first[k] = bits;
                continue;
            }
            CHECK_INT(bits.length, first[k].length);
            if (memcmp(bits.s, first[k].s, bits.length))
                CHECK_FAIL("configuration %d: %s differs from %s", k, kern_isa_at(i), kern_isa_at(0));
            text_free(&bits);
        }
    }
    for (int k = 0; k < CONFIGS; k++)
        text_free(&first[k]);
    CHECK_INT(memory_balance(), 0);
}

/* A pass after many others, with other weights and other numbers of looked rows, gives the bits of a fresh model's. */
TEST(a_pass_does_not_know_what_came_before)
{
    for (int k = 0; k < 4 * TRAININGS; k++) {
        const struct training *c = &trainings[k / 4];
        struct spec s = spec_of(c, k % 2 ? PLAN_DENSE : PLAN_STRUCTURED, k / 2 % 2);
        struct model *used = model_of(c, &s), *fresh = model_of(c, &s);
        struct optimizer *o = optimizer_new(used, &s);
        size_t bytes = model_flat_length(used) * model_element_size(used);
        for (uint64_t t = 0; t < 3; t++) {
            struct model_result r;
            step(used, o, c, t, &r);
            struct batch ragged = batch_of(c, (uint32_t)t);
            for (int i = 0; i < SEQUENCES * c->length; i++)
                ragged.target[i] = i % (int)(t + 2) ? ragged.target[i] : 0;
            ragged.sequences -= (int)t;
            model_train_pass(used, &ragged, 1, t);
            batch_free(&ragged);
        }
        memcpy(model_weights(fresh), model_weights(used), bytes);
        struct batch b = batch_of(c, 7);
        struct model_result a = model_train_pass(used, &b, 1, 9), z = model_train_pass(fresh, &b, 1, 9);
        CHECK(a.loss == z.loss && a.correct == z.correct && a.rows == z.rows);
        CHECK_BYTES(model_gradient(used), model_gradient(fresh), bytes);
        batch_free(&b);
        optimizer_free(o);
        model_free(used);
        model_free(fresh);
    }
    CHECK_INT(memory_balance(), 0);
}
