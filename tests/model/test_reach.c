/* The reach order, in which the block before the last one is never formed, against the twin, the dense order and itself:
 * gradients of every tensor, trainings side by side, the same bits on every instruction set and after a resume. */
#include "check.h"
#include "base/text.h"
#include "kern/kern.h"
#include "model/cases.h"
#include "model/decoder.h"
#include "model/model_private.h"
#include "model/planner.h"
#include "model/twin.h"

#define X_ENT LOSS_CROSS_ENTROPY
#define RELU ACTIVATION_RELU
#define GELU ACTIVATION_GELU
/* Columns as in struct model_case. One head without biases is fused when many positions ask for it. */
static const struct model_case cases[] = {
    {"one_head",         2, 24, 1, 0, {0, 12, 0}, NORM_NONE, 0, RELU, 0, X_ENT, 5, 5, 7, 3, {6, -1}, 1.0},
    {"one_head_bias",    2, 16, 1, 0, {0, 12, 0}, NORM_NONE, 1, GELU, 0, X_ENT, 5, 5, 7, 3, {6, -1}, 1.0},
    {"heads",            2, 24, 4, 0, {0, 12, 0}, NORM_NONE, 1, RELU, 0, X_ENT, 5, 5, 7, 3, {6, -1}, 1.0},
    {"heads_tied",       2, 24, 2, 0, {0, 12, 0}, NORM_NONE, 1, GELU, 1, X_ENT, 5, 5, 7, 3, {2, 6, -1}, 1.0},
    {"attention_alone",  2, 24, 2, 0, {0, 0, 0}, NORM_NONE, 0, RELU, 0, X_ENT, 5, 5, 7, 3, {6, -1}, 1.0},
    {"wide_head",        2, 18, 1, 21, {0, 5, 0}, NORM_NONE, 0, RELU, 0, LOSS_MSE, 4, 3, 6, 3, {5, -1}, 1.0},
    {"narrow_heads",     2, 24, 3, 5, {0, 7, 0}, NORM_NONE, 1, GELU, 0, X_ENT, 6, 4, 5, 3, ALL, 1.0},
    {"long",             2, 17, 1, 0, {0, 6, 0}, NORM_NONE, 1, RELU, 0, X_ENT, 3, 3, 21, 2, {3, 20, -1}, 1.0},
    {"longer_than_two_vectors", 2, 16, 2, 0, {0, 3, 0}, NORM_NONE, 0, RELU, 0, X_ENT, 3, 3, 35, 2, {0, 33, -1}, 1.0},
    {"one_token",        2, 24, 2, 0, {0, 6, 0}, NORM_NONE, 1, RELU, 0, X_ENT, 5, 5, 1, 4, ALL, 1.0},
    {"large_weights",    2, 24, 1, 0, {0, 12, 0}, NORM_NONE, 0, RELU, 0, X_ENT, 5, 5, 7, 3, {6, -1}, 2.0},
    {"large_weights_heads", 2, 24, 2, 0, {0, 12, 0}, NORM_NONE, 1, RELU, 0, X_ENT, 5, 5, 7, 3, {6, -1}, 2.0},
    {"three_blocks",     3, 24, 1, 0, {12, 0, 10}, NORM_NONE, 0, RELU, 0, X_ENT, 5, 5, 20, 3, {19, -1}, 1.0},
    {"three_heads",      3, 24, 3, 0, {12, 0, 10}, NORM_NONE, 1, GELU, 0, X_ENT, 5, 5, 20, 3, {4, 19, -1}, 1.0},
    {"three_odd",        3, 23, 2, 7, {0, 0, 0}, NORM_NONE, 1, GELU, 1, X_ENT, 5, 5, 18, 2, {17, -1}, 1.0},
};
#define COUNT ((int)(sizeof cases / sizeof cases[0]))

/* The model now takes the order `reach`, also where its planner knows a cheaper one. */
static void take_reach(struct model *m)
{
    struct decoder *d = m->sizes;
    for (int i = 0; i < m->plan.candidates; i++) {
        const struct planner_candidate *c = &m->plan.candidate[i];
        if (strcmp(c->name, "reach") || c->invalid[0])
            continue;
        m->planned.passes->free(m->planned.work);
        m->plan.chosen = i;
        d->flags = c->flags;
        d->rows = DECODER_LOOKED | DECODER_TABLE;
        m->planned.passes = c->passes;
        m->planned.work = m->planned.passes->open(d);
    }
}

/* The case's model, planned for a step so large that the tables pay; `dense`: the order that forms everything. */
static struct model *open_model(const struct model_case *c, int precision, int dense, int batch)
{
    struct spec s = case_spec(c, precision);
    struct task_shape shape = {.vocabulary = c->vocabulary, .classes = c->classes, .length = c->length, .looked = 1,
                               .batch = batch};
    struct model *m = NULL;
    s.train.plan = dense ? PLAN_DENSE : PLAN_STRUCTURED;
    CHECK_OK(model_open(&s, shape, &m));
    if (!dense)
        take_reach(m);
    const struct planner *p = model_plan(m);
    CHECK_TEXT(p->candidate[p->chosen].name, dense ? "dense" : "reach");
    return m;
}

static double *weights_of(const struct model_case *c, struct model *m)
{
    double *flat = memory_new(model_flat_length(m), sizeof *flat);
    case_weights(c, m, flat);
    return flat;
}

/* Largest difference of each tensor's gradient within `bound` of its largest element, or of `floor` when that is larger. */
static void check_gradient(const struct model *m, const double *got, const double *expected, double bound, double floor,
                           const char *name)
{
    const struct tensor *table;
    const int n = model_tensors(m, &table);
    for (int i = 0; i < n; i++) {
        double worst = 0, size = floor;
        for (size_t k = table[i].offset; k < table[i].offset + (size_t)table[i].rows * (size_t)table[i].cols; k++) {
            double off = fabs(got[k] - expected[k]);
            worst = off <= worst ? worst : off;              /* NaN is worst */
            size = fmax(size, fabs(expected[k]));
        }
        if (strstr(table[i].name, "key.bias"))               /* a softmax does not see them: rounding, here exactly 0 */
            CHECK(worst <= 1e-6);
        else if (!(worst <= bound * size))
            CHECK_FAIL("%s: gradient of %s is off by %.2e of %.2e, bound %.1e", name, table[i].name, worst / size, size,
                       bound);
    }
}

static double largest_of(const struct model *m, const double *g)
{
    double largest = 0;
    for (size_t i = 0; i < model_flat_length(m); i++)
        largest = fmax(largest, fabs(g[i]));
    return largest;
}

static double *gradient_of(struct model *m, const struct batch *b, double *loss)
{
    double *g = memory_new(model_flat_length(m), sizeof *g);
    *loss = model_train_pass(m, b, 1, 1).loss;
    model_gradient_get(m, g);
    return g;
}

/* ---- against the twin, which shares nothing with the engines ---- */

static void check_twin(const struct model_case *c, int ragged, int batch)
{
    struct model *m = open_model(c, PRECISION_FLOAT64, 0, batch);
    struct spec s = case_spec(c, PRECISION_FLOAT64);
    struct batch b = case_batch(c, ragged);
    double *flat = weights_of(c, m), loss;
    struct twin w = twin_run(&s, m, c->classes, flat, &b, NULL);
    double *expected = memory_new(model_flat_length(m), sizeof *expected), *got = gradient_of(m, &b, &loss);
    tape_backward(&w.tape, w.loss);
    for (size_t i = 0; i < model_flat_length(m); i++)
        expected[i] = w.tape.at[(size_t)w.weights + i].adjoint;
    CHECK_NEAR(loss, w.tape.at[w.loss].value, 1e-12 * fabs(loss));
    /* Saturated weights leave differences of almost equal numbers; those are judged by the size of what cancels. */
    check_gradient(m, got, expected, 1e-12, c->scale > 1 ? 0.1 * largest_of(m, expected) : 0, c->name);
    struct model_result r = model_evaluate(m, &b, NULL);
    CHECK_NEAR(r.loss, loss, 1e-13 * fabs(loss));
    CHECK_INT(r.correct, w.correct);
    CHECK_INT(r.rows, w.rows);
    double *logits = memory_new(w.rows * (size_t)c->classes, sizeof *logits);
    model_logits(m, &b, logits);
    for (int row = 0, at = 0; row < c->sequences * c->length; row++)
        for (int k = 0; k < c->classes && b.target[row] >= 0; k++)
            CHECK_NEAR(logits[at++], w.tape.at[w.logit[row * c->classes + k]].value, 1e-11);
    memory_free(logits), memory_free(expected), memory_free(got), memory_free(flat);
    twin_free(&w);
    batch_free(&b);
    model_free(m);
}

TEST(reach_equals_the_twin)
{
    for (int i = 0; i < COUNT; i++)
        for (int ragged = 0; ragged < 2; ragged++)
            check_twin(&cases[i], ragged, 1000000);
    CHECK_INT(memory_balance(), 0);
}

/* ---- against the dense order, at sizes of several tiles ---- */

static const struct model_case wide_cases[] = {
    {"M1",       2, 128, 1, 0, {0, 512, 0}, NORM_NONE, 0, RELU, 0, X_ENT, 100, 100, 20, 130, {19, -1}, 1.0},
    {"M1_heads", 2, 64, 4, 0, {0, 96, 0}, NORM_NONE, 1, GELU, 0, X_ENT, 30, 30, 20, 130, {11, 19, -1}, 1.0},
    {"M1_large", 2, 64, 1, 0, {0, 96, 0}, NORM_NONE, 0, RELU, 0, X_ENT, 30, 30, 20, 130, {19, -1}, 2.0},
    {"three",    3, 48, 2, 0, {64, 0, 96}, NORM_NONE, 1, RELU, 0, X_ENT, 30, 30, 20, 130, {19, -1}, 1.0},
    {"three_large", 3, 48, 1, 0, {0, 0, 96}, NORM_NONE, 0, RELU, 0, X_ENT, 30, 30, 20, 130, {19, -1}, 2.0},
    {"M1_larger", 2, 64, 2, 0, {0, 96, 0}, NORM_NONE, 1, RELU, 0, X_ENT, 30, 30, 20, 130, {19, -1}, 4.0},
};
#define WIDE_COUNT ((int)(sizeof wide_cases / sizeof wide_cases[0]))

/* Gradient of the case in one order. Weights are those that a float model holds; with draw > 0 each is changed by the share
 * SHAKE up or down, at random.   out: *loss */
#define SHAKE 0x1p-23
static double *case_gradient(const struct model_case *c, int precision, int dense, int ragged, uint32_t draw, double *loss)
{
    struct model *narrow = open_model(c, PRECISION_FLOAT32, 0, 100000), *m = open_model(c, precision, dense, 100000);
    struct batch b = case_batch(c, ragged);
    struct stream s = stream_open(22, PURPOSE_PROBE, draw);
    double *flat = weights_of(c, narrow);
    for (size_t i = 0; i < model_flat_length(m); i++)
        flat[i] *= draw == 0 ? 1 : stream_below(&s, 2) ? 1 + SHAKE : 1 - SHAKE;
    model_weights_set(m, flat);
    double *g = gradient_of(m, &b, loss);
    memory_free(flat);
    batch_free(&b);
    model_free(narrow);
    model_free(m);
    return g;
}

#define DRAWS 4

/* Reach within `base` of dense in double, or, where large weights magnify roundings, as near to it as others come: within
 * four times what the last bit of every weight does to the gradient, or what dense is off by in the same precision. */
static void check_wide(const struct model_case *c, int precision, int ragged, double base)
{
    const double bit = precision == PRECISION_FLOAT32 ? 1 : 0x1p-52 / SHAKE;      /* the last one, in units of SHAKE */
    struct model *m = open_model(c, precision, 0, 100000);
    const struct tensor *table;
    const int n = model_tensors(m, &table);
    double loss[3], shaken_loss, *shaken[DRAWS], *exact = case_gradient(c, PRECISION_FLOAT64, 1, ragged, 0, &loss[0]);
    double *dense = case_gradient(c, precision, 1, ragged, 0, &loss[1]), loss_moved = fabs(loss[1] - loss[0]);
    double *reach = case_gradient(c, precision, 0, ragged, 0, &loss[2]);
    for (uint32_t i = 0; i < DRAWS; i++) {
        shaken[i] = case_gradient(c, PRECISION_FLOAT64, 1, ragged, 1 + i, &shaken_loss);
        loss_moved = fmax(loss_moved, fabs(shaken_loss - loss[0]) * bit);
    }
    CHECK_NEAR(loss[2], loss[0], base * fabs(loss[0]) + 4 * loss_moved);
    for (int i = 0; i < n; i++) {
        double moved = 0, worst = 0, size = 0;
        for (size_t k = table[i].offset; k < table[i].offset + (size_t)table[i].rows * (size_t)table[i].cols; k++) {
            double off = fabs(reach[k] - exact[k]);
            worst = off <= worst ? worst : off;
            moved = fmax(moved, fabs(dense[k] - exact[k]));
            for (int draw = 0; draw < DRAWS; draw++)
                moved = fmax(moved, fabs(shaken[draw][k] - exact[k]) * bit);
            size = fmax(size, fabs(exact[k]));
        }
        if (strstr(table[i].name, "key.bias"))               /* a softmax does not see them: rounding, here exactly 0 */
            CHECK(worst <= 1e-6);
        else if (!(worst <= base * size + 4 * moved))
            CHECK_FAIL("%s: gradient of %s is off by %.2e of %.2e; others by %.2e", c->name, table[i].name,
                       worst / size, size, moved / size);
    }
    for (int i = 0; i < DRAWS; i++)
        memory_free(shaken[i]);
    memory_free(exact), memory_free(dense), memory_free(reach);
    model_free(m);
}

TEST(reach_equals_dense_in_double)
{
    for (int i = 0; i < WIDE_COUNT; i++)
        for (int ragged = 0; ragged < 2; ragged++)
            check_wide(&wide_cases[i], PRECISION_FLOAT64, ragged, 1e-12);
}

TEST(reach_equals_dense_in_float)
{
    for (int i = 0; i < WIDE_COUNT; i++)
        for (int ragged = 0; ragged < 2; ragged++)
            check_wide(&wide_cases[i], PRECISION_FLOAT32, ragged, 1e-6);
}

/* ---- trainings ---- */

static struct optimizer *open_optimizer(const struct model_case *c, struct model *m)
{
    struct spec s = case_spec(c, PRECISION_FLOAT64);
    s.train.lr = 3e-3;
    s.train.weight_decay = 0.05;
    return optimizer_new(m, &s);
}

/* Number `step` of the batches of a training. */
static struct batch step_batch(const struct model_case *c, uint32_t step)
{
    struct batch b = case_batch(c, step % 5 == 4);
    struct stream s = stream_open(21, PURPOSE_PROBE, step);
    for (int i = 0; i < b.sequences * b.length; i++)
        b.token[i] = (int32_t)stream_below(&s, (uint32_t)c->vocabulary);
    return b;
}

static double train_step(const struct model_case *c, struct model *m, struct optimizer *o, uint32_t step)
{
    struct batch b = step_batch(c, step);
    double loss = model_train_pass(m, &b, 5, step).loss;
    optimizer_step(o, m, step + 1);
    batch_free(&b);
    return loss;
}

static void train_side_by_side(const struct model_case *c, int steps)
{
    struct model *m[2];
    struct optimizer *o[2];
    double first = 0, last = 0;
    for (int i = 0; i < 2; i++) {
        m[i] = open_model(c, PRECISION_FLOAT64, i, 1000000);
        memory_free(weights_of(c, m[i]));
        o[i] = open_optimizer(c, m[i]);
    }
    for (int step = 0; step < steps && check_failures < 3; step++) {
        double reach = train_step(c, m[0], o[0], (uint32_t)step), dense = train_step(c, m[1], o[1], (uint32_t)step);
        CHECK_NEAR(reach, dense, 1e-9 * (1 + fabs(dense)));
        first = step ? first : dense;
        last = dense;
    }
    CHECK(last < first);
    for (int i = 0; i < 2; i++) {
        optimizer_free(o[i]);
        model_free(m[i]);
    }
}

TEST(two_hundred_steps_side_by_side_with_dense)
{
    train_side_by_side(&cases[0], 200);
    train_side_by_side(&cases[1], 200);
    train_side_by_side(&cases[3], 200);
    train_side_by_side(&cases[COUNT - 2], 60);
}

/* Weights after a few steps on one instruction set; with `resumed` the second half is trained by a model that was opened
 * anew, and that has seen other batches before it got the weights and moments of the first. */
static void train_bits(const struct model_case *c, int precision, int resumed, struct text *bits)
{
    struct model *m = open_model(c, precision, 0, 1000000);
    struct optimizer *o = open_optimizer(c, m);
    memory_free(weights_of(c, m));
    for (uint32_t step = 0; step < 6; step++) {
        if (step == 3 && resumed) {
            struct model *fresh = open_model(c, precision, 0, 1000000);
            struct optimizer *p = open_optimizer(c, fresh);
            size_t bytes;
            void *state = optimizer_state(o, &bytes), *copy = optimizer_state(p, &bytes);
            train_step(c, fresh, p, 77);
            struct batch b = step_batch(c, 79);
            model_evaluate(fresh, &b, NULL);
            batch_free(&b);
            memcpy(copy, state, bytes);
            memcpy(model_weights(fresh), model_weights(m), model_flat_length(m) * model_element_size(m));
            optimizer_free(o);
            model_free(m);
            m = fresh;
            o = p;
        }
        double loss = train_step(c, m, o, step);
        text_add_bytes(bits, &loss, sizeof loss);
    }
    text_add_bytes(bits, model_weights(m), model_flat_length(m) * model_element_size(m));
    optimizer_free(o);
    model_free(m);
}

TEST(same_bits_on_all_instruction_sets_and_resumed)
{
    for (int i = 0; i < COUNT; i++)
        for (int precision = 0; precision < 2; precision++) {
            struct text first = {0};
            for (int isa = 0; kern_isa_at(isa); isa++) {
                if (kern_pin(kern_isa_at(isa)) != STATUS_OK)
                    continue;
                struct text bits = {0};
                train_bits(&cases[i], precision, isa > 0, &bits);
                if (!first.length) {
                    first = bits;
                    continue;
                }
                CHECK_INT(bits.length, first.length);
                if (memcmp(bits.s, first.s, first.length))
                    CHECK_FAIL("%s: %s differs", cases[i].name, kern_isa_at(isa));
                text_free(&bits);
            }
            CHECK_OK(kern_pin(NULL));
            struct text again = {0};
            train_bits(&cases[i], precision, 1, &again);
            CHECK_BYTES(again.s, first.s, first.length);
            text_free(&again);
            text_free(&first);
        }
    CHECK_INT(memory_balance(), 0);
}

/* ---- the plan ---- */

static const struct planner_candidate *candidate_of(const struct model *m)
{
    const struct planner *p = model_plan(m);
    for (int i = 0; i < p->candidates; i++)
        if (!strcmp(p->candidate[i].name, "reach"))
            return &p->candidate[i];
    return NULL;
}

TEST(plan_says_why_not)
{
    static const struct model_case not[] = {
        {"MLP",    2, 24, 2, 0, {3, 12, 0}, NORM_NONE, 0, RELU, 0, X_ENT, 5, 5, 7, 3, {6, -1}, 1.0},
        {"norm",   2, 24, 2, 0, {0, 12, 0}, NORM_PRE, 0, RELU, 0, X_ENT, 5, 5, 7, 3, {6, -1}, 1.0},
        {"layers", 1, 24, 2, 0, {0, 12, 0}, NORM_NONE, 0, RELU, 0, X_ENT, 5, 5, 7, 3, {6, -1}, 1.0},
    };
    for (size_t i = 0; i < sizeof not / sizeof not[0]; i++) {
        struct spec s = case_spec(&not[i], PRECISION_FLOAT32);
        struct task_shape shape = case_shape(&not[i]);
        struct model *m = NULL;
        shape.looked = 1;
        shape.batch = 100000;
        CHECK_OK(model_open(&s, shape, &m));
        const struct planner_candidate *c = candidate_of(m);
        CHECK(c && c->invalid[0]);
        CHECK_HAS(c ? c->invalid : "", not[i].name);
        model_free(m);
    }
}
