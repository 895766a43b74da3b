/* The manifold probe on attention_only models put together from directions: what it says against the model itself. */
#include "check.h"

#include "base/memory.h"
#include "base/stream.h"
#include "model/manifold_basis.h"
#include "model/model.h"
#include "probe/manifold.h"

struct setting {
    struct spec spec;
    struct task *task;
    struct model *model;
    struct manifold *m;
    struct manifold_basis *basis;
    double *flat, *value;
    struct record_manifold seen;
};

static struct spec spec_of(int layers, int heads, enum expectation expectation)
{
    struct spec s;
    key_defaults(&s);
    s.task.kind = TASK_BLOCKLIST;
    s.task.blocks = 3;
    s.task.common = 12;
    s.task.rare_tokens = 6;
    s.task.rare = 0.4;
    s.task.variability = 0.3;
    s.task.test_sequences = 40;
    s.task.sequences = 300;
    s.task.expectation = (int)expectation;
    s.model.kind = MODEL_ATTENTION_ONLY;
    s.model.layers = layers;
    s.model.heads = heads;
    s.model.embedding = EMBEDDING_CENTRED;
    s.model.self_attention = false;
    s.model.precision = PRECISION_FLOAT64;
    s.model.max_length = shape_of(&s).positions;
    s.train.batch = 0;
    s.train.loss = LOSS_SQUARED;
    s.probe_manifold.coordinates = s.probe_manifold.gradient = s.probe_manifold.winner = true;
    s.probe_manifold.winner_below = 1e9;
    return s;
}

static void open_setting(struct setting *c)
{
    const struct tensor *table;
    const struct task_shape shape = shape_of(&c->spec);
    CHECK_OK(task_open(&c->spec, 1, &c->task));
    CHECK_OK(model_open(&c->spec, shape, &c->model));
    CHECK_OK(manifold_new_all(&c->spec, &c->m));
    const int tensors = model_tensors(c->model, &table);
    CHECK_OK(manifold_basis_open(&c->spec, shape, c->m, table, tensors, &c->basis));
    c->flat = memory_new(model_flat_length(c->model), sizeof *c->flat);
    c->value = memory_new((size_t)c->m->coordinates, sizeof *c->value);
    struct stream stream = stream_open(5, PURPOSE_INIT, 1);
    for (int i = 0; i < c->m->coordinates; i++)
        c->value[i] = 0.6 * stream_normal(&stream);
}

static void close_setting(struct setting *c)
{
    manifold_clear(&c->seen);
    manifold_basis_free(c->basis);
    manifold_free(c->m);
    model_free(c->model);
    task_free(c->task);
    memory_free(c->flat);
    memory_free(c->value);
    CHECK_INT(memory_balance(), 0);
}

static void put(struct setting *c, const double *value)
{
    memset(c->flat, 0, model_flat_length(c->model) * sizeof *c->flat);
    manifold_basis_add(c->basis, value, c->flat);
    model_weights_set(c->model, c->flat);
}

/* Weighted mean over the sequences that the probe looks at, one at a time. */
static double loss_of(struct setting *c, const struct task *t)
{
    const bool sampled = c->spec.task.expectation == EXPECTATION_SAMPLED;
    const size_t n = sampled ? (size_t)c->spec.task.test_sequences : task_sequences(t, TASK_TRAIN);
    struct batch b = batch_new_of(1, task_shape(t));
    double sum = 0.0, weight = 0.0;
    for (size_t i = 0; i < n; i++) {
        task_set_batch(t, TASK_TRAIN, i, 1, &b);
        const double w = b.weight ? b.weight[0] : 1.0;
        if (w == 0.0)
            continue;
        sum += w * model_evaluate(c->model, &b, NULL).loss;
        weight += w;
    }
    batch_free(&b);
    return sum / weight;
}

static double slope(struct setting *c, const struct task *t, int i)
{
    const double step = 1e-5, kept = c->value[i];
    double side[2];
    for (int k = 0; k < 2; k++) {
        c->value[i] = kept + (k ? step : -step);
        put(c, c->value);
        side[k] = loss_of(c, t);
    }
    c->value[i] = kept;
    return (side[1] - side[0]) / (2.0 * step);
}

static void compare_gradient(struct setting *c)
{
    struct spec rare = c->spec;
    struct task *other;
    rare.task.rare = 1.0;
    CHECK_OK(task_open(&rare, 1, &other));
    for (int i = 0; i < c->m->coordinates; i += 1 + c->m->coordinates / 12) {
        const double own = slope(c, c->task, i), of_rare = slope(c, other, i);
        CHECK_NEAR(c->seen.gradient[i], own, 1e-10);           /* measured: 6e-12 */
        if (fabs(of_rare) > 1e-4)
            CHECK_NEAR(c->seen.gradient_ratio[i], own / of_rare, 1e-6 * (1.0 + fabs(own / of_rare)));     /* measured: 1e-10 */
    }
    task_free(other);
}

static double without(struct setting *c, const char *const *names)
{
    double *value = memory_new((size_t)c->m->coordinates, sizeof *value);
    memcpy(value, c->value, (size_t)c->m->coordinates * sizeof *value);
    for (; *names; names++) {
        CHECK(manifold_find(c->m, *names) >= 0);
        value[manifold_find(c->m, *names)] = 0.0;
    }
    put(c, value);
    memory_free(value);
    return loss_of(c, c->task);
}

static void compare_rises(struct setting *c, int circuits, const char *const betas[][5], const char *const *gammas)
{
    int winner = circuits;
    CHECK_INT(c->seen.circuits, circuits);
    for (int k = 0; k < circuits; k++) {
        CHECK_NEAR(c->seen.rise[k], without(c, betas[k]) - c->seen.loss, 1e-14);
        if (c->seen.rise[k] > (winner < circuits ? c->seen.rise[winner] : 0.0))
            winner = k;
    }
    CHECK_NEAR(c->seen.rise_in_context, without(c, gammas) - c->seen.loss, 1e-14);
    CHECK_NEAR(c->seen.rise_in_weights, without(c, (const char *const[]){"delta", NULL}) - c->seen.loss, 1e-14);
    CHECK_INT(c->seen.winner, winner);
}

static void look(struct setting *c)
{
    put(c, c->value);
    CHECK_OK(manifold_look(&c->spec, 1, c->task, c->model, &c->seen));
    CHECK_NEAR(c->seen.loss, loss_of(c, c->task), 1e-14);      /* measured: 2e-16, as all bounds of 1e-14 here */
    for (int i = 0; i < c->m->coordinates; i++)
        CHECK_NEAR(c->seen.coordinate[i], c->value[i], 1e-14);
    for (int l = 0; l <= c->m->layers; l++)
        CHECK_NEAR(c->seen.leakage[l], 0.0, 1e-30);      /* measured: 8e-32 */
    const double delta = c->value[manifold_find(c->m, "delta")];
    CHECK_NEAR(c->seen.gradient_ratio_theory, 0.4 + 0.6 * (0.3 + 0.7 * (1.0 - delta)), 1e-14);
}

TEST(three_layers_of_all_patterns)
{
    struct setting c = {.spec = spec_of(3, 1, EXPECTATION_PATTERNS)};
    open_setting(&c);
    look(&c);
    compare_gradient(&c);
    compare_rises(&c, 3, (const char *const[][5]){{"beta_12", NULL}, {"beta_13", NULL}, {"beta_23", NULL}},
                  (const char *const[]){"gamma_1", "gamma_2", "gamma_3", NULL});
    close_setting(&c);
}

TEST(two_heads_of_a_sample)
{
    struct setting c = {.spec = spec_of(2, 2, EXPECTATION_SAMPLED)};
    open_setting(&c);
    look(&c);
    compare_gradient(&c);
    compare_rises(&c, 1, (const char *const[][5]){{"beta_1a2a", "beta_1a2b", "beta_1b2a", "beta_1b2b", NULL}},
                  (const char *const[]){"gamma_1a", "gamma_1b", "gamma_2a", "gamma_2b", NULL});
    close_setting(&c);
}

/* Noise off the manifold moves no coordinate that it is orthogonal to, and is the leakage. */
TEST(leakage_is_what_is_left)
{
    struct setting c = {.spec = spec_of(2, 1, EXPECTATION_SAMPLED)};
    c.spec.probe_manifold.gradient = c.spec.probe_manifold.winner = false;
    strcpy(c.spec.model.coordinates, "alpha_1, beta_12, gamma_2");
    open_setting(&c);
    const size_t length = model_flat_length(c.model);
    double *noise = memory_new(length, sizeof *noise), *of_noise = memory_new((size_t)c.m->coordinates, sizeof *of_noise);
    double norm[3], off[3], whole_norm[3], whole_off[3];
    struct stream stream = stream_open(9, PURPOSE_INIT, 2);
    const struct tensor *table;
    const int tensors = model_tensors(c.model, &table);
    for (int k = 0; k < tensors; k++)
        for (size_t i = 0; i < (size_t)table[k].rows * (size_t)table[k].cols; i++)
            noise[table[k].offset + i] = 0.1 * stream_normal(&stream);
    manifold_basis_split(c.basis, noise, of_noise, norm, off);
    put(&c, c.value);
    for (size_t i = 0; i < length; i++)
        c.flat[i] += noise[i];
    model_weights_set(c.model, c.flat);
    CHECK_OK(manifold_look(&c.spec, 1, c.task, c.model, &c.seen));
    CHECK_INT(c.seen.coordinates, 3);
    CHECK_INT(c.seen.winner, -1);
    CHECK(!c.seen.gradient && !c.seen.rise);
    const char *const names[] = {"alpha_1", "beta_12", "gamma_2"};
    for (int i = 0; i < 3; i++) {
        const int at = manifold_find(c.m, names[i]);
        CHECK_NEAR(c.seen.coordinate[i], c.value[at] + of_noise[at], 1e-14);
    }
    manifold_basis_split(c.basis, c.flat, of_noise, whole_norm, whole_off);
    for (int l = 0; l < 3; l++)
        CHECK_NEAR(c.seen.leakage[l], off[l] / whole_norm[l], 1e-14);
    double value[3];
    CHECK_OK(manifold_values(&c.spec, c.model, value));
    CHECK_BYTES(value, c.seen.coordinate, sizeof value);
    memory_free(noise);
    memory_free(of_noise);
    close_setting(&c);
}

/* Of equals the first; none above winner_below, and none where nothing rises. */
TEST(winners)
{
    struct spec s;
    key_defaults(&s);
    s.probe_manifold.winner_below = 0.15;
    CHECK_INT(manifold_winner(&s, 0.1, (const double[]){0.2, 0.3, 0.3}, 3), 1);
    CHECK_INT(manifold_winner(&s, 0.15, (const double[]){0.2, 0.3, 0.3}, 3), 3);
    CHECK_INT(manifold_winner(&s, 0.1, (const double[]){0.0, -0.1, NAN}, 3), 3);
    CHECK_INT(manifold_winner(&s, NAN, (const double[]){0.2, 0.3, 0.3}, 3), 3);
}
