/* The circuit probe against attention_only models: their weights are put together from directions, and every coordinate's
 * loss is that of a whole model, evaluated anew. */
#include "check.h"

#include "base/memory.h"
#include "base/stream.h"
#include "model/manifold_basis.h"
#include "model/model.h"
#include "probe/circuit.h"
#include "probe/circuit_pass.h"

struct setting {
    struct spec spec;
    struct task *task;
    struct model *model;
    struct manifold *m;
    struct manifold_basis *basis;
    struct batch batch;
    double *flat, *value;
};

static struct spec spec_of(int layers, int heads, int common, enum layout layout)
{
    struct spec s;
    key_defaults(&s);
    s.task.kind = TASK_BLOCKLIST;
    s.task.layout = layout;
    s.task.blocks = 3;
    s.task.period = layout == LAYOUT_OFFSETS ? 9 : 0;
    s.task.common = common;
    s.task.rare_tokens = 8;
    s.task.rare = common ? 0.5 : 1.0;
    s.task.test_sequences = 12;
    s.task.sequences = 12;
    s.model.kind = MODEL_ATTENTION_ONLY;
    s.model.layers = layers;
    s.model.heads = heads;
    s.model.precision = PRECISION_FLOAT64;
    s.probe_circuit.budget = 1.05;
    s.probe_circuit.sequences = 12;
    return s;
}

static void open_setting(struct setting *c)
{
    const struct tensor *table;
    int tensors = 0;
    struct task_shape shape = shape_of(&c->spec);
    c->spec.model.max_length = shape.positions;
    if (task_open(&c->spec, 1, &c->task) != STATUS_OK || model_open(&c->spec, shape, &c->model) != STATUS_OK ||
        manifold_new(&c->spec, &c->m) != STATUS_OK) {
        CHECK_FAIL("%s", status_text());
        exit(1);
    }
    tensors = model_tensors(c->model, &table);
    CHECK_INT(manifold_basis_open(&c->spec, shape, c->m, table, tensors, &c->basis), STATUS_OK);
    c->batch = batch_new_of((int)c->spec.probe_circuit.sequences, shape);
    task_set_batch(c->task, TASK_TEST, 0, (size_t)c->spec.probe_circuit.sequences, &c->batch);
    c->flat = memory_new(model_flat_length(c->model), sizeof *c->flat);
    c->value = memory_new((size_t)c->m->coordinates, sizeof *c->value);
}

static void close_setting(struct setting *c)
{
    manifold_basis_free(c->basis);
    manifold_free(c->m);
    model_free(c->model);
    task_free(c->task);
    batch_free(&c->batch);
    memory_free(c->flat);
    memory_free(c->value);
    CHECK_INT(memory_balance(), 0);
}

static void draw(struct setting *c, double scale)
{
    struct stream stream = stream_open(7, PURPOSE_INIT, 3);
    for (int i = 0; i < c->m->coordinates; i++)
        c->value[i] = scale * stream_normal(&stream);
}

static struct model_result whole(struct setting *c, const double *value)
{
    memset(c->flat, 0, model_flat_length(c->model) * sizeof *c->flat);
    manifold_basis_add(c->basis, value, c->flat);
    model_weights_set(c->model, c->flat);
    return model_evaluate(c->model, &c->batch, NULL);
}

/* ---- single losses ---- */

static void compare_losses(struct setting *c, double bound)
{
    struct circuit_model model;
    const int n = c->batch.sequences;
    CHECK_INT(circuit_model_open(&model, c->m, c->spec.train.loss, c->spec.model.self_attention, c->batch.length), STATUS_OK);
    struct circuit_pass *p = circuit_pass_new(&model);
    struct circuit_sequence *q = memory_new((size_t)n, sizeof *q);
    double *loss = memory_new((size_t)c->m->coordinates, sizeof *loss), all = 0.0, right = 0.0;
    circuit_model_set(&model, c->value);
    for (int i = 0; i < n; i++) {
        bool correct;
        circuit_sequence_open(&q[i], &c->spec, c->m, &c->batch, i);
        all += circuit_pass_all(p, &q[i], &correct) / n;
        right += correct;
        for (int k = 0; k < c->m->coordinates; k++)
            loss[k] += circuit_pass_without(p, &q[i], k) / n;
        circuit_sequence_close(&q[i], c->m->selections);
    }
    struct model_result r = whole(c, c->value);
    CHECK_NEAR(all, r.loss, bound);
    CHECK_INT(right, r.correct);
    for (int k = 0; k < c->m->coordinates; k += 1 + c->m->coordinates / 60) {
        const double kept = c->value[k];
        c->value[k] = 0.0;
        CHECK_NEAR(loss[k], whole(c, c->value).loss, bound);
        c->value[k] = kept;
    }
    memory_free(q);
    memory_free(loss);
    circuit_pass_free(p);
    circuit_model_close(&model);
}

/* Of the bounds 1e-13 in this file at most 1e-15 were measured. */
TEST(losses_are_those_of_whole_models)
{
    const struct {
        int layers, heads, common;
        enum layout layout;
        enum embedding embedding;
        int self;
        enum loss loss;
    } cases[] = {
        {1, 1, 0, LAYOUT_CONTIGUOUS, EMBEDDING_ONE_HOT, 1, LOSS_CROSS_ENTROPY},
        {2, 1, 6, LAYOUT_CONTIGUOUS, EMBEDDING_CENTRED, 0, LOSS_CROSS_ENTROPY},
        {2, 2, 6, LAYOUT_SLOTS, EMBEDDING_CENTRED, 1, LOSS_MSE},
        {3, 1, 6, LAYOUT_OFFSETS, EMBEDDING_CENTRED, 0, LOSS_SQUARED},
        {3, 2, 0, LAYOUT_SLOTS, EMBEDDING_ONE_HOT, 0, LOSS_CROSS_ENTROPY},
        {4, 1, 0, LAYOUT_OFFSETS, EMBEDDING_CENTRED, 0, LOSS_CROSS_ENTROPY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct setting c = {.spec = spec_of(cases[i].layers, cases[i].heads, cases[i].common, cases[i].layout)};
        c.spec.model.embedding = (int)cases[i].embedding;
        c.spec.model.self_attention = cases[i].self;
        c.spec.train.loss = (int)cases[i].loss;
        open_setting(&c);
        draw(&c, 0.7);
        compare_losses(&c, 1e-13);
        for (int k = 0; k < c.m->coordinates; k++)       /* most at zero: paths that nobody needs */
            if (k % 5)
                c.value[k] = 0.0;
        compare_losses(&c, 1e-13);
        close_setting(&c);
    }
}

/* ---- the search ---- */

static int naive_cheapest(struct setting *c, const bool *left, double *loss)
{
    int best = -1;
    for (int i = 0; i < c->m->coordinates; i++) {
        const double kept = c->value[i];
        if (!left[i])
            continue;
        c->value[i] = 0.0;
        double now = whole(c, c->value).loss;
        c->value[i] = kept;
        if (best < 0 || now < *loss) {
            best = i;
            *loss = now;
        }
    }
    return best;
}

/* Roles and costs of the units, the circuit's coordinates being all that is not 0. */
static void compare_units(struct setting *c, const struct record_circuit *r)
{
    double *value = memory_new((size_t)r->coordinates, sizeof *value);
    double *alone = memory_new((size_t)r->coordinates, sizeof *alone);
    for (int k = 0; k < r->units; k++)
        value[r->unit[k]] = r->unit_value[k];
    const struct model_result all = whole(c, value);
    const double rows = (double)all.rows, accuracy = (double)all.correct / rows;
    CHECK_NEAR(r->loss_circuit, all.loss, 1e-13);
    CHECK_NEAR(r->accuracy_circuit, accuracy, 1e-15);
    for (int k = 0; k < r->units; k++) {
        value[r->unit[k]] = 0.0;
        struct model_result without = whole(c, value);
        value[r->unit[k]] = r->unit_value[k];
        const double least = c->spec.probe_circuit.tolerance * (accuracy - 1.0 / shape_of(&c->spec).vocabulary);
        CHECK_NEAR(r->unit_cost[k], without.loss - all.loss, 1e-13);
        CHECK_INT(r->canonical[k], least > 0.0 && accuracy - (double)without.correct / rows >= least);
        if (r->canonical[k])
            alone[r->unit[k]] = r->unit_value[k];
    }
    CHECK_NEAR(r->loss_canonical, whole(c, alone).loss, 1e-13);
    memory_free(value);
    memory_free(alone);
}

static void compare_search(struct setting *c)
{
    struct record_circuit r;
    bool *left = memory_new((size_t)c->m->coordinates, sizeof *left);
    const double all = whole(c, c->value).loss;
    double loss = 0.0;
    CHECK_INT(circuit_find(&c->spec, c->task, c->value, &r), STATUS_OK);
    CHECK_NEAR(r.loss, all, 1e-13);
    for (int i = 0; i < c->m->coordinates; i++)
        left[i] = true;
    for (int k = 0; k < r.coordinates - r.units; k++) {
        const int best = naive_cheapest(c, left, &loss);
        CHECK_INT(r.dropped[k], best);
        CHECK_NEAR(r.dropped_loss[k], loss, 1e-13);
        CHECK(loss <= c->spec.probe_circuit.budget * all);
        left[best] = false;
        c->value[best] = 0.0;
    }
    if (r.units && naive_cheapest(c, left, &loss) >= 0)
        CHECK(loss > c->spec.probe_circuit.budget * all);
    compare_units(c, &r);
    for (int k = 0; k < r.units; k++) {
        CHECK(left[r.unit[k]]);
        CHECK(k == 0 || r.unit_cost[k] <= r.unit_cost[k - 1]);
    }
    circuit_clear(&r);
    memory_free(left);
}

TEST(drops_are_those_of_the_plain_search)
{
    struct setting c = {.spec = spec_of(2, 1, 6, LAYOUT_CONTIGUOUS)};
    c.spec.model.self_attention = false;
    open_setting(&c);
    draw(&c, 1.0);
    compare_search(&c);
    close_setting(&c);
    c = (struct setting){.spec = spec_of(3, 1, 0, LAYOUT_OFFSETS)};
    c.spec.model.self_attention = false;
    c.spec.model.embedding = EMBEDDING_CENTRED;
    c.spec.probe_circuit.budget = 1.02;
    open_setting(&c);
    draw(&c, 0.5);
    compare_search(&c);
    close_setting(&c);
}

/* The induction circuit of two layers, large, among noise. */
TEST(a_planted_circuit_is_found)
{
    const char *const planted[] = {"alpha_1", "beta_12", "gamma_2"};
    struct setting c = {.spec = spec_of(2, 1, 0, LAYOUT_SLOTS)};
    c.spec.model.self_attention = false;
    c.spec.model.embedding = EMBEDDING_CENTRED;
    c.spec.probe_circuit.sequences = c.spec.task.test_sequences = 64;
    c.spec.probe_circuit.budget = 1.3;
    open_setting(&c);
    draw(&c, 1e-3);
    for (int i = 0; i < 3; i++)
        c.value[manifold_find(c.m, planted[i])] = 8.0;
    struct record_circuit r;
    CHECK_INT(circuit_find(&c.spec, c.task, c.value, &r), STATUS_OK);
    CHECK_INT(r.units, 3);
    CHECK_NEAR(r.accuracy_circuit, 1.0, 0.0);
    CHECK_NEAR(r.accuracy_canonical, 1.0, 0.0);
    compare_units(&c, &r);
    for (int k = 0; k < r.units; k++)
        CHECK_NEAR(r.unit_value[k], 8.0, 0.0);
    circuit_clear(&r);
    close_setting(&c);
}

TEST(zeros_are_dropped_first)
{
    struct setting c = {.spec = spec_of(2, 1, 0, LAYOUT_SLOTS)};
    open_setting(&c);
    draw(&c, 1.0);
    for (int i = 1; i < c.m->coordinates; i += 2)
        c.value[i] = 0.0;
    struct record_circuit r;
    CHECK_INT(circuit_find(&c.spec, c.task, c.value, &r), STATUS_OK);
    for (int i = 1; i < c.m->coordinates; i += 2) {
        CHECK_INT(r.dropped[i / 2], i);
        CHECK_NEAR(r.dropped_loss[i / 2], r.loss, 0.0);
    }
    circuit_clear(&r);
    close_setting(&c);
}

TEST(what_is_not_finite_is_refused)
{
    struct setting c = {.spec = spec_of(2, 1, 0, LAYOUT_SLOTS)};
    open_setting(&c);
    draw(&c, 1.0);
    c.value[3] = NAN;
    struct record_circuit r;
    CHECK_INT(circuit_find(&c.spec, c.task, c.value, &r), STATUS_NUMERIC);
    circuit_clear(&r);
    close_setting(&c);
}
