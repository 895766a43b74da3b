/* Theorem 1 of Musat et al. (arXiv 2607.11875) without assuming it: all sequences of small block lists, all names, slots and
 * offsets, and the gradient of an attention_only model at random points of the invariant manifold. The share of the
 * gradient's square that is off the span of the directions is rounding, or is told. */
#include "check.h"
#include "base/memory.h"
#include "base/stream.h"
#include "model/manifold_basis.h"
#include "model/manifold_tape.h"
#include "task/task.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct confinement {
    const char *name;
    int pattern, blocks, order, common, rare_tokens;
    double rare, variability;
    int layers, heads, blind, loss, shifts, rare_identity;
    int layout, period;
};

static struct spec spec_of(const struct confinement *c)
{
    struct spec s;
    key_defaults(&s);
    s.task.kind = TASK_BLOCKLIST;
    s.task.pattern = c->pattern;
    s.task.blocks = c->blocks;
    s.task.order = c->order;
    s.task.common = c->common;
    s.task.rare_tokens = c->rare_tokens;
    s.task.rare = c->rare;
    s.task.variability = c->variability;
    s.task.layout = c->layout;
    s.task.period = c->period;
    s.task.expectation = EXPECTATION_COMPLETE;
    s.model.kind = MODEL_ATTENTION_ONLY;
    s.model.layers = c->layers;
    s.model.heads = c->heads;
    s.model.self_attention = !c->blind;
    s.model.embedding = EMBEDDING_CENTRED;
    s.model.shifts = c->shifts;
    s.model.rare_identity = c->rare_identity;
    s.model.precision = PRECISION_FLOAT64;
    s.train.loss = c->loss;
    return s;
}

/* Gradient of the mean loss over the whole enumeration at a random point.   out: memory_free it */
static double *gradient_at_point(const struct spec *s, const struct manifold_basis *basis, const struct manifold *m,
                                 struct model *model, size_t *sequences)
{
    struct task *task = NULL;
    CHECK_OK(task_open(s, 1, &task));
    *sequences = task_sequences(task, TASK_TRAIN);
    struct batch b = batch_new_of((int)*sequences, task_shape(task));
    task_set_batch(task, TASK_TRAIN, 0, *sequences, &b);
    double *flat = memory_new(model_flat_length(model), sizeof *flat);
    double *coordinate = memory_new((size_t)m->coordinates, sizeof *coordinate);
    struct stream stream = stream_open(8, PURPOSE_PROBE, 0);
    for (int i = 0; i < m->coordinates; i++)
        coordinate[i] = 0.5 * stream_normal(&stream);
    manifold_basis_add(basis, coordinate, flat);
    model_weights_set(model, flat);
    model_train_pass(model, &b, 0, 0);
    model_gradient_get(model, flat);
    batch_free(&b);
    task_free(task);
    memory_free(coordinate);
    return flat;
}

/* Shares of the squared gradient off the span: of each layer of the model's whole gradient, and all.
 * out: share [layers + 1]; returns their sum */
static double off_manifold(const struct confinement *c, double *share)
{
    struct spec s = spec_of(c);
    struct manifold *m = NULL;
    struct model *model = NULL;
    struct manifold_basis *basis = NULL;
    const struct tensor *table;
    CHECK_OK(manifold_new_all(&s, &m));
    CHECK_OK(model_open(&s, shape_of(&s), &model));
    const int tensors = model_tensors(model, &table);
    CHECK_OK(manifold_basis_open(&s, shape_of(&s), m, table, tensors, &basis));
    size_t sequences;
    double *gradient = gradient_at_point(&s, basis, m, model, &sequences), norm[10], all = 0.0, sum = 0.0;
    double *projection = memory_new((size_t)m->coordinates, sizeof *projection);
    manifold_basis_split(basis, gradient, projection, norm, share);
    for (int l = 0; l <= c->layers; l++)
        all += norm[l];
    printf("# %s: %zu sequences, %d directions; off the manifold", c->name, sequences, m->coordinates);
    for (int l = 0; l <= c->layers; l++) {
        sum += share[l] /= all;
        printf(" %.1e", share[l]);
    }
    printf("; |gradient| %.2g\n", sqrt(all));
    memory_free(gradient), memory_free(projection);
    manifold_basis_free(basis);
    manifold_free(m);
    model_free(model);
    CHECK_INT(memory_balance(), 0);
    return sum;
}

#define CE LOSS_CROSS_ENTROPY
#define CHECK_CONFINED 1e-24

/* Recall of two blocks of rare tokens in slots of 4 positions. */
static struct confinement recall(int layers, int blind, int loss, int shifts)
{
    return (struct confinement){.name = "recall", .pattern = PATTERN_RECALL, .blocks = 2, .order = 1, .rare_tokens = 4,
                                .rare = 1.0, .layers = layers, .heads = 1, .blind = blind, .loss = loss, .shifts = shifts,
                                .layout = LAYOUT_SLOTS, .period = 4};
}

static void check_confined(const struct confinement *c)
{
    double share[10], all = off_manifold(c, share);
    if (!(all <= CHECK_CONFINED))
        CHECK_FAIL("%s: %.2e of the squared gradient is off the manifold", c->name, all);
}

/* 1.1e-26 at most. */
TEST(gradients_are_confined)
{
    static const int losses[] = {LOSS_CROSS_ENTROPY, LOSS_MSE, LOSS_SQUARED};
    for (int i = 0; i < 12; i++) {
        const struct confinement c = recall(2 + i % 2, i / 2 % 2, losses[i / 4], SHIFTS_BOTH);
        check_confined(&c);
    }
}

/* Forward shifts do not do from layer 2 on: a composed path compares an earlier position of a block with a later one. */
TEST(with_forward_shifts_layers_above_the_first_leak)
{
    for (int i = 0; i < 4; i++) {
        const struct confinement c = recall(2 + i % 2, i / 2, CE, SHIFTS_FORWARD);
        double share[10];
        off_manifold(&c, share);
        CHECK(share[0] <= CHECK_CONFINED && share[c.layers] <= CHECK_CONFINED);
        for (int l = 1; l < c.layers; l++)
            CHECK(share[l] >= 1e-6);
    }
}

/* But in slots of the least period, 2 k - 1, the centred shifts of both signs add up to zero, so that for k = 2 those forward
 * span them all. */
TEST(two_tokens_in_slots_of_three_need_forward_shifts_only)
{
    struct confinement c = recall(3, 1, CE, SHIFTS_FORWARD);
    c.period = 0;
    check_confined(&c);
}

/* All patterns, and two heads. */
static const struct confinement patterns[] = {
    {"two heads", PATTERN_RECALL, 2, 1, 0, 4, 1, 0, 2, 2, 0, CE, SHIFTS_BOTH, 0, LAYOUT_SLOTS, 0},
    {"hop", PATTERN_HOP, 2, 1, 0, 4, 1, 0, 3, 1, 1, CE, SHIFTS_BOTH, 0, LAYOUT_SLOTS, 0},
    {"ngram 1", PATTERN_NGRAM, 2, 1, 0, 4, 1, 0, 2, 1, 1, CE, SHIFTS_BOTH, 0, LAYOUT_SLOTS, 0},
    {"ngram 2", PATTERN_NGRAM, 1, 2, 0, 4, 1, 0, 3, 1, 1, CE, SHIFTS_BOTH, 0, LAYOUT_SLOTS, 6},
    {"ngram 2 of two", PATTERN_NGRAM, 2, 2, 0, 5, 1, 0, 2, 1, 1, CE, SHIFTS_BOTH, 0, LAYOUT_SLOTS, 0},
    {"ioi", PATTERN_IOI, 2, 1, 0, 4, 1, 0, 2, 1, 1, LOSS_SQUARED, SHIFTS_BOTH, 0, LAYOUT_SLOTS, 0},
    {"conditional", PATTERN_CONDITIONAL, 2, 1, 0, 5, 1, 0, 2, 1, 1, CE, SHIFTS_BOTH, 0, LAYOUT_SLOTS, 0},
    {"inversion", PATTERN_INVERSION, 2, 1, 0, 4, 1, 0, 3, 1, 0, CE, SHIFTS_BOTH, 0, LAYOUT_SLOTS, 0},
    {"common", PATTERN_RECALL, 1, 1, 4, 0, 0, 0, 3, 1, 1, CE, SHIFTS_BOTH, 0, LAYOUT_SLOTS, 0},
    {"varied", PATTERN_RECALL, 1, 1, 6, 0, 0, 0.5, 2, 1, 1, LOSS_SQUARED, SHIFTS_BOTH, 0, LAYOUT_SLOTS, 0},
};

/* 3e-25 at most: rounding of the sum over 180000 sequences. */
TEST(of_all_patterns)
{
    for (int i = 0; i < (int)(sizeof patterns / sizeof patterns[0]); i++)
        check_confined(&patterns[i]);
}

/* Rare and common tokens together have one identity each: with a single I for both the gradient leaves the span, in every
 * layer. */
TEST(rare_and_common_tokens_need_identities_of_their_own)
{
    struct confinement c = {"rare and common", PATTERN_RECALL, 1, 1, 6, 4, 0.5, 0.25, 2, 1, 1, CE, SHIFTS_BOTH, 1,
                            LAYOUT_SLOTS, 0};
    double share[10];
    check_confined(&c);
    c.layers = 3;
    c.loss = LOSS_MSE;
    check_confined(&c);
    c.rare_identity = 0;
    off_manifold(&c, share);
    for (int l = 0; l <= c.layers; l++)
        CHECK(share[l] >= 1e-6);
}

/* The symmetry of the theorem is that of slots: blocks that may coincide by chance on a ring break it, and blocks end to end
 * at fixed positions do so more, in the key-query matrices alone. */
TEST(other_layouts_leak)
{
    struct confinement c = recall(2, 1, CE, SHIFTS_BOTH);
    double share[10];
    for (int i = 0; i < 2; i++) {
        c.name = i ? "contiguous" : "ring";
        c.layout = i ? LAYOUT_CONTIGUOUS : LAYOUT_OFFSETS;
        c.period = 0;
        off_manifold(&c, share);
        CHECK(share[0] >= 1e-7 && share[1] >= 1e-6 && share[2] <= CHECK_CONFINED);
    }
}

/* ---- one step further: training, and derivatives by the coordinates ---- */

/* A model at a point of the manifold, and its data. */
struct bench {
    struct spec spec;
    struct manifold *m;
    struct model *model;
    struct manifold_basis *basis;
    struct batch batch;
    double *coordinate, *flat;
};

static struct bench bench_new(const struct confinement *c, int expectation)
{
    struct bench b = {.spec = spec_of(c)};
    const struct tensor *table;
    struct task *task = NULL;
    b.spec.task.expectation = expectation;
    CHECK_OK(manifold_new_all(&b.spec, &b.m));
    CHECK_OK(model_open(&b.spec, shape_of(&b.spec), &b.model));
    const int tensors = model_tensors(b.model, &table);
    CHECK_OK(manifold_basis_open(&b.spec, shape_of(&b.spec), b.m, table, tensors, &b.basis));
    CHECK_OK(task_open(&b.spec, 1, &task));
    const size_t n = task_sequences(task, TASK_TRAIN);
    b.batch = batch_new_of((int)n, task_shape(task));
    task_set_batch(task, TASK_TRAIN, 0, n, &b.batch);
    task_free(task);
    b.coordinate = memory_new((size_t)b.m->coordinates, sizeof *b.coordinate);
    b.flat = memory_new(model_flat_length(b.model), sizeof *b.flat);
    struct stream stream = stream_open(8, PURPOSE_PROBE, 1);
    for (int i = 0; i < b.m->coordinates; i++)
        b.coordinate[i] = 0.5 * stream_normal(&stream);
    return b;
}

static void bench_free(struct bench *b)
{
    memory_free(b->coordinate), memory_free(b->flat);
    batch_free(&b->batch);
    manifold_basis_free(b->basis);
    model_free(b->model);
    manifold_free(b->m);
}

/* Puts the model at its point. */
static void go(struct bench *b)
{
    memset(b->flat, 0, model_flat_length(b->model) * sizeof *b->flat);
    manifold_basis_add(b->basis, b->coordinate, b->flat);
    model_weights_set(b->model, b->flat);
}

/* Derivatives by the coordinates at the point. */
static struct model_result derivatives(struct bench *b, double *product)
{
    go(b);
    struct model_result r = model_train_pass(b->model, &b->batch, 0, 0);
    model_gradient_get(b->model, b->flat);
    manifold_basis_products(b->basis, b->flat, product);
    return r;
}

/* Weights that began on the manifold stay there: after 300 steps of descent 1e-31 of them is off it. */
TEST(training_stays_on_the_manifold)
{
    struct confinement c = recall(2, 1, CE, SHIFTS_BOTH);
    c.blocks = 1;
    struct bench b = bench_new(&c, EXPECTATION_COMPLETE);
    b.spec.train.optimizer = OPTIMIZER_SGD;
    b.spec.train.lr = 1.0;
    struct optimizer *o = optimizer_new(b.model, &b.spec);
    double leakage[3], first = 0.0, last = 0.0;
    go(&b);
    for (int t = 0; t < 300; t++) {
        last = model_train_pass(b.model, &b.batch, 0, 0).loss;
        first = t ? first : last;
        optimizer_step(o, b.model, (uint64_t)t + 1);
    }
    CHECK(last < 0.5 * first);
    model_weights_get(b.model, b.flat);
    manifold_basis_project(b.basis, b.flat, NULL, leakage);
    printf("# training: loss %.3g to %.3g; leakage %.1e %.1e %.1e\n", first, last, leakage[0], leakage[1], leakage[2]);
    for (int l = 0; l < 3; l++)
        CHECK_NEAR(leakage[l], 0.0, 1e-24);
    optimizer_free(o);
    bench_free(&b);
}

/* Products with the gradient are the derivatives of the loss along the directions. Steps of 1e-5: off by 3e-11. */
TEST(products_with_the_gradient_are_derivatives_by_the_coordinates)
{
    const struct confinement c = {"differences", PATTERN_RECALL, 1, 1, 6, 4, 0.5, 0.25, 3, 1, 1, CE, SHIFTS_BOTH, 1,
                                  LAYOUT_CONTIGUOUS, 0};
    struct bench b = bench_new(&c, EXPECTATION_PATTERNS);
    double *product = memory_new((size_t)b.m->coordinates, sizeof *product);
    derivatives(&b, product);
    for (int i = 0; i < b.m->coordinates; i++) {
        const double kept = b.coordinate[i], step = 1e-5;
        double loss[2];
        for (int k = 0; k < 2; k++) {
            b.coordinate[i] = kept + (k ? step : -step);
            go(&b);
            loss[k] = model_evaluate(b.model, &b.batch, NULL).loss;
        }
        b.coordinate[i] = kept;
        CHECK_NEAR(product[i], (loss[1] - loss[0]) / (2 * step), 1e-9);
    }
    memory_free(product);
    bench_free(&b);
}

/* One sequence of each pattern does for all its names and places: loss, hits and derivatives are those of the whole
 * enumeration, whose sums are within 8e-15. */
TEST(patterns_stand_for_the_enumeration)
{
    const struct confinement c = {"patterns", PATTERN_RECALL, 1, 1, 6, 4, 0.5, 0.25, 3, 1, 1, CE, SHIFTS_BOTH, 1,
                                  LAYOUT_SLOTS, 0};
    struct model_result r[2];
    double *product[2];
    int n = 0;
    for (int k = 0; k < 2; k++) {
        struct bench b = bench_new(&c, k ? EXPECTATION_PATTERNS : EXPECTATION_COMPLETE);
        n = b.m->coordinates;
        product[k] = memory_new((size_t)n, sizeof *product[k]);
        r[k] = derivatives(&b, product[k]);
        bench_free(&b);
    }
    CHECK(r[0].rows > 10 * r[1].rows);
    CHECK_NEAR(r[0].loss, r[1].loss, 1e-13);
    CHECK_NEAR(r[0].correct_weight / r[0].weight, r[1].correct_weight / r[1].weight, 1e-13);
    for (int i = 0; i < n; i++)
        CHECK_NEAR(product[0][i], product[1][i], 1e-13);
    for (int k = 0; k < 2; k++)
        memory_free(product[k]);
}

/* The program of the coordinates alone (manifold_tape.h) at this point.   out: product; returns the loss */
static double by_program(const struct bench *b, double *product)
{
    struct manifold_tape *tape = NULL;
    const struct kern_f64 *kern = NULL;
    CHECK_OK(manifold_tape_new(&b->spec, &tape));
    CHECK_OK(kern_get(NULL, &kern));
    const struct tape *t = tape->train;
    double *slot = memory_new(t->program.slots * KERN_TAPE_LANES, sizeof *slot);
    for (int i = 0; i < b->m->coordinates; i++)
        slot[i * KERN_TAPE_LANES] = b->coordinate[i];
    for (int c = 0; c < CLASSES; c++)
        slot[(b->m->coordinates + c) * KERN_TAPE_LANES] = shape_class_share(&b->spec, (enum token_class)c);
    kern->tape_run(&t->program, slot);
    for (int i = 0; i < b->m->coordinates; i++)
        product[i] = slot[t->output[i + 1] * KERN_TAPE_LANES];
    const double loss = slot[t->output[0] * KERN_TAPE_LANES];
    memory_free(slot);
    manifold_tape_free(tape);
    return loss;
}

/* What is computed in coordinates alone is what the full model does on the manifold: loss and derivatives within 1e-15, in any
 * layout. */
TEST(programs_of_the_coordinates_agree_with_the_full_model)
{
    static const int layouts[] = {LAYOUT_SLOTS, LAYOUT_CONTIGUOUS};
    for (int i = 0; i < 2 * (int)(sizeof patterns / sizeof patterns[0]); i++) {
        struct confinement c = patterns[i / 2];
        c.layout = layouts[i % 2];
        c.period = 0;
        struct bench b = bench_new(&c, EXPECTATION_PATTERNS);
        double *product[2];
        for (int k = 0; k < 2; k++)
            product[k] = memory_new((size_t)b.m->coordinates, sizeof *product[k]);
        CHECK_NEAR(derivatives(&b, product[0]).loss, by_program(&b, product[1]), 1e-13);
        for (int k = 0; k < b.m->coordinates; k++)
            CHECK_NEAR(product[0][k], product[1][k], 1e-13);
        memory_free(product[0]), memory_free(product[1]);
        bench_free(&b);
    }
}
