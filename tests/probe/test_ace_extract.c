#include "check.h"

#include "base/memory.h"
#include "base/stream.h"
#include "probe/ace.h"
#include "probe/factor.h"

#include <stdlib.h>

/* A decoder whose core is known: no attention, no MLP, no norm, so h = token + position. In the orthonormal directions
 * g0 .. g5 of the layer
 *   - tokens are the corners of a tetrahedron in g0..g2, and the unembedding reads them there,
 *   - positions move h far along g3 and g4, which no output reads,
 *   - outputs read g5 more strongly, where h never moves.
 * The core is what activations show of g0..g2: the span of Cov [g0 g1 g2], up to the ridge. */
enum { D = 6, STATES = 4, LENGTH = 20, SEQUENCES = 700, INPUTS = LENGTH - 1, SAMPLES = SEQUENCES * INPUTS };

static const double corner[STATES][3] = {{1, 1, 1}, {1, -1, -1}, {-1, 1, -1}, {-1, -1, 1}};

struct planted {
    struct spec spec;
    struct task *task;
    struct model *model;
    double g[D * D];                                  /* directions in columns */
    double token[STATES * D], position[LENGTH * D], unembedding[D * STATES];
    double *h;                                        /* [SAMPLES][D] by hand */
    double mean[D], cov[D * D];
    int32_t *target;
};

static struct spec small_spec(void)
{
    struct spec s;
    key_defaults(&s);
    s.task.states = STATES;
    s.task.length = LENGTH;
    s.task.sequences = 100;
    s.task.test_sequences = SEQUENCES;
    s.model.layers = 1;
    s.model.d_model = D;
    s.model.heads = 1;
    s.model.d_mlp = (struct key_list){1, {0}};
    s.model.norm = NORM_NONE;
    s.model.bias = false;
    s.model.max_length = LENGTH;
    s.model.precision = PRECISION_FLOAT64;
    s.probe_ace.layer = 1;
    return s;
}

static void open_or_die(const struct spec *s, struct task **t, struct model **m)
{
    if (task_open(s, 1, t) != STATUS_OK || model_open(s, task_shape(*t), m) != STATUS_OK) {
        CHECK_FAIL("%s", status_text());
        exit(1);
    }
}

/* Sets the tensors of a group to the rows of `values`; every other weight stays as it is. */
static void set_group(struct model *m, enum tensor_group group, const double *values, int rows, int cols)
{
    const struct tensor *table;
    int n = model_tensors(m, &table);
    double *flat = memory_new(model_flat_length(m), sizeof *flat);
    model_weights_get(m, flat);
    for (int i = 0; i < n; i++)
        if (table[i].group == group) {
            CHECK_INT(table[i].rows, rows);
            CHECK_INT(table[i].cols, cols);
            for (int k = 0; k < rows * cols; k++)
                flat[table[i].offset + (size_t)k] = values[k];
        }
    model_weights_set(m, flat);
    memory_free(flat);
}

static void plant_weights(struct planted *p)
{
    double x[D * D], triangle[D * D];
    struct stream s = stream_open(3, PURPOSE_PROBE, 1);
    for (int i = 0; i < D * D; i++)
        x[i] = stream_normal(&s);
    CHECK_OK(factor_qr(D, D, x, p->g, triangle));
    for (int i = 0; i < D; i++) {
        const double *g = p->g + i * D;
        for (int k = 0; k < STATES; k++) {
            p->token[k * D + i] = 0;
            p->unembedding[i * STATES + k] = 3.0 * k * g[5];
            for (int c = 0; c < 3; c++) {
                p->token[k * D + i] += corner[k][c] * g[c];
                p->unembedding[i * STATES + k] += (3 * corner[k][c] + corner[(k + 3) % STATES][c]) / 4 * g[c];
            }
        }
        for (int t = 0; t < LENGTH; t++)
            p->position[t * D + i] = 3 * cos(0.7 * t) * g[3] + (t % 2 ? 2 : -1) * g[4];
    }
}

static void activations_by_hand(struct planted *p)
{
    struct batch b = batch_new(SEQUENCES, INPUTS);
    task_set_batch(p->task, TASK_TEST, 0, SEQUENCES, &b);
    p->h = memory_new((size_t)SAMPLES * D, sizeof *p->h);
    p->target = memory_new(SAMPLES, sizeof *p->target);
    for (int i = 0; i < SAMPLES; i++) {
        p->target[i] = b.target[i];
        for (int j = 0; j < D; j++) {
            p->h[i * D + j] = p->token[b.token[i] * D + j] + p->position[i % INPUTS * D + j];
            p->mean[j] += p->h[i * D + j] / SAMPLES;
        }
    }
    for (int i = 0; i < SAMPLES; i++)
        for (int j = 0; j < D; j++)
            for (int k = 0; k < D; k++)
                p->cov[j * D + k] += (p->h[i * D + j] - p->mean[j]) * (p->h[i * D + k] - p->mean[k]) / (SAMPLES - 1);
    batch_free(&b);
}

static struct planted *plant_chain(double stay)
{
    struct planted *p = memory_new(1, sizeof *p);
    p->spec = small_spec();
    p->spec.task.stay = stay;
    open_or_die(&p->spec, &p->task, &p->model);
    plant_weights(p);
    set_group(p->model, GROUP_TOKEN, p->token, STATES, D);
    set_group(p->model, GROUP_POSITION, p->position, LENGTH, D);
    set_group(p->model, GROUP_UNEMBEDDING, p->unembedding, D, STATES);
    activations_by_hand(p);
    return p;
}

static struct planted *plant(void) { return plant_chain(0.75); }

static void uproot(struct planted *p)
{
    memory_free(p->h);
    memory_free(p->target);
    model_free(p->model);
    task_free(p->task);
    memory_free(p);
    CHECK_INT(memory_balance(), 0);
}

/* Accuracy by hand of h, or of what a projection on the first r of `cols` columns of `basis` keeps or removes. */
static double accuracy(const struct planted *p, const double *basis, int cols, int r, int remove)
{
    int correct = 0;
    for (int i = 0; i < SAMPLES; i++) {
        double x[D], logit[STATES] = {0};
        int best = 0;
        for (int j = 0; j < D; j++)
            x[j] = basis && !remove ? 0 : p->h[i * D + j];
        for (int l = 0; basis && l < r; l++) {
            double z = 0;
            for (int j = 0; j < D; j++)
                z += basis[j * cols + l] * p->h[i * D + j];
            for (int j = 0; j < D; j++)
                x[j] += (remove ? -1 : 1) * z * basis[j * cols + l];
        }
        for (int c = 0; c < STATES; c++)
            for (int j = 0; j < D; j++)
                logit[c] += x[j] * p->unembedding[j * STATES + c];
        for (int c = 1; c < STATES; c++)
            best = logit[c] > logit[best] ? c : best;
        correct += best == p->target[i];
    }
    return (double)correct / SAMPLES;
}

/* The least rank for which what is kept (from 1) or what is left after removal (from `first`) passes. */
static int sufficient_by_hand(const struct planted *p, const double *basis, double tolerance)
{
    double base = accuracy(p, NULL, 0, 0, 0);
    int r = 1;
    while (r <= D && accuracy(p, basis, D, r, 0) < base - tolerance - 1e-12)
        r++;
    return r <= D ? r : -1;
}

static int necessary_by_hand(const struct planted *p, const double *basis, int first)
{
    int r = first;
    while (r <= D && accuracy(p, basis, D, r, 1) > 2.0 / STATES)
        r++;
    return r <= D ? r : -1;
}

/* Sine of the largest angle between the span of the columns of a [D][k] and the first k columns of q [D][cols]. */
static double sine(int k, const double *a, const double *q, int cols)
{
    double basis[D * D], triangle[D * D], left[D * D], s[D], u[D * D], vt[D * D];
    CHECK_OK(factor_qr(D, k, a, basis, triangle));
    for (int j = 0; j < k; j++)
        for (int i = 0; i < D; i++) {
            left[i * k + j] = q[i * cols + j];
            for (int l = 0; l < k; l++)
                for (int n = 0; n < D; n++)
                    left[i * k + j] -= basis[i * k + l] * basis[n * k + l] * q[n * cols + j];
        }
    CHECK_OK(factor_svd(D, k, left, u, s, vt));
    return s[0];
}

TEST(the_planted_core_is_extracted)
{
    struct planted *p = plant();
    double image[D * 3] = {0};
    struct ace a;
    p->spec.probe_ace.store = STORE_ACTIVATIONS;
    CHECK_OK(ace_extract(p->model, p->task, &p->spec, &a));
    CHECK_INT(a.d, D);
    CHECK_INT(a.samples, SAMPLES);
    CHECK_INT(a.rank, 3);
    for (int i = 0; i < D; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < D; k++)
                image[i * 3 + j] += p->cov[i * D + k] * p->g[k * D + j];
    CHECK_NEAR(sine(3, image, a.basis, D), 0, 1e-6);          /* the ridges tilt it by about 1e-7 */
    double obs[D * D], weight[D], basis[D * D];
    for (int i = 0; i < D; i++) {
        CHECK_NEAR(a.mean[i], p->mean[i], 1e-12);
        for (int j = 0; j < D; j++) {
            obs[i * D + j] = 0;
            for (int c = 0; c < STATES; c++)
                obs[i * D + j] += p->unembedding[i * STATES + c] * p->unembedding[j * STATES + c];
        }
    }
    CHECK_OK(ace_core(D, p->cov, obs, weight, basis));
    for (int i = 0; i < D; i++)
        CHECK_NEAR(a.weight[i], weight[i], 1e-12 * weight[0]);
    for (int i = 0; i < SAMPLES * D; i++)
        CHECK_NEAR(a.activations[i], p->h[i], 1e-14);
    for (int i = 0; i < SAMPLES; i++)
        for (int j = 0; j < 3; j++) {
            double z = 0;
            for (int k = 0; k < D; k++)
                z += a.basis[k * D + j] * p->h[i * D + k];
            CHECK_NEAR(a.coordinates[i * 3 + j], z, 1e-12);
        }
    ace_clear(&a);
    uproot(p);
}

TEST(ablations_and_dimensions_are_those_counted_by_hand)
{
    struct planted *p = plant();
    struct ace a;
    CHECK_OK(ace_extract(p->model, p->task, &p->spec, &a));
    double base = accuracy(p, NULL, 0, 0, 0);
    CHECK_NEAR(a.accuracy, base, 1e-15);
    CHECK_NEAR(a.accuracy_core_only, accuracy(p, a.basis, D, 3, 0), 1e-15);
    CHECK_NEAR(a.accuracy_core_removed, accuracy(p, a.basis, D, 3, 1), 1e-15);
    CHECK_INT(a.sufficient, sufficient_by_hand(p, a.basis, 1e-3));
    CHECK_INT(a.necessary, necessary_by_hand(p, a.basis, 3));
    CHECK_INT(a.core_dim, a.necessary);
    CHECK_NEAR(a.accuracy, 0.75, 0.015);                      /* predicts "stay": right with probability 3/4 */
    CHECK(a.accuracy_core_removed < 0.5);
    ace_clear(&a);
    uproot(p);
}

TEST(dimensions_follow_their_bounds)
{
    const double tolerance[] = {0, 1e-3, 0.05, 0.3, 1};
    struct planted *p = plant();
    int seen[D + 1] = {0}, kinds = 0;
    for (int rank = 1; rank <= 3; rank++)
        for (size_t i = 0; i < sizeof tolerance / sizeof *tolerance; i++) {
            struct ace a;
            p->spec.probe_ace.rank = rank;
            p->spec.probe_ace.tolerance = tolerance[i];
            CHECK_OK(ace_extract(p->model, p->task, &p->spec, &a));
            CHECK_INT(a.sufficient, sufficient_by_hand(p, a.basis, tolerance[i]));
            CHECK_INT(a.necessary, necessary_by_hand(p, a.basis, rank));
            CHECK_INT(a.core_dim, a.necessary > rank ? a.necessary : rank);
            kinds += !seen[a.sufficient];
            seen[a.sufficient] = 1;
            ace_clear(&a);
        }
    CHECK(kinds > 1);                                         /* the bound made a difference */
    uproot(p);
    struct ace a;                                             /* every row right, and none may be lost */
    p = plant_chain(1);
    p->spec.probe_ace.rank = 1;
    p->spec.probe_ace.tolerance = 0;
    CHECK_OK(ace_extract(p->model, p->task, &p->spec, &a));
    CHECK_NEAR(a.accuracy, 1, 0);
    CHECK_INT(a.sufficient, sufficient_by_hand(p, a.basis, 0));
    CHECK(a.sufficient > 1);
    ace_clear(&a);
    uproot(p);
}

TEST(the_operator_is_that_of_the_chain)
{
    struct planted *p = plant();
    struct ace a;
    CHECK_OK(ace_extract(p->model, p->task, &p->spec, &a));
    CHECK_INT(a.operator_rank, 3);
    for (int i = 0; i < 3; i++) {
        const double *now = a.eigenvalue[i], *before = a.eigenvalue[i ? i - 1 : 0];
        CHECK_NEAR(a.eigenvalue_error[i], 0, 0.03);           /* sampling: about 1 / sqrt(SAMPLES) = 0.009 */
        CHECK(hypot(now[0], now[1]) <= hypot(before[0], before[1]));
    }
    CHECK(a.eigenvalue[0][1] > 0 && a.eigenvalue[1][1] < 0);
    CHECK_NEAR(a.r2, 0.5, 0.03);
    CHECK_NEAR(a.r2_oracle_ratio, a.r2 / 0.5, 1e-12);
    ace_clear(&a);
    uproot(p);
}

TEST(keys_choose_rank_storage_and_operator)
{
    struct planted *p = plant();
    struct ace a;
    p->spec.probe_ace.rank = 2;
    p->spec.probe_ace.operator = false;
    CHECK_OK(ace_extract(p->model, p->task, &p->spec, &a));
    CHECK_INT(a.rank, 2);
    CHECK_INT(a.operator_rank, 0);
    CHECK(isnan(a.r2) && isnan(a.r2_oracle_ratio) && !a.operator_matrix && !a.eigenvalue && !a.eigenvalue_error);
    CHECK(a.coordinates && !a.activations);
    CHECK_NEAR(a.accuracy_core_only, accuracy(p, a.basis, D, 2, 0), 1e-15);
    ace_clear(&a);
    p->spec.probe_ace.store = STORE_NONE;
    p->spec.probe_ace.rank = D;
    CHECK_OK(ace_extract(p->model, p->task, &p->spec, &a));
    CHECK_INT(a.rank, D);
    CHECK_NEAR(a.accuracy_core_only, a.accuracy, 1e-3);       /* everything is kept */
    CHECK(!a.coordinates && !a.activations);
    ace_clear(&a);
    uproot(p);
}

TEST(the_same_model_gives_the_same_bits)
{
    struct planted *p = plant();
    struct ace a, b;
    CHECK_OK(ace_extract(p->model, p->task, &p->spec, &a));
    CHECK_OK(ace_extract(p->model, p->task, &p->spec, &b));
    CHECK_BYTES(a.basis, b.basis, D * D * sizeof(double));
    CHECK_BYTES(a.weight, b.weight, D * sizeof(double));
    CHECK_BYTES(a.coordinates, b.coordinates, SAMPLES * 3 * sizeof(double));
    CHECK_BYTES(a.operator_matrix, b.operator_matrix, 9 * sizeof(double));
    ace_clear(&a);
    ace_clear(&b);
    uproot(p);
}

TEST(keys_that_do_not_fit_are_refused)
{
    struct planted *p = plant();
    struct ace a;
    p->spec.probe_ace.layer = 2;
    CHECK_INT(ace_extract(p->model, p->task, &p->spec, &a), STATUS_JOB);
    CHECK_HAS(status_text(), "probe.ace.layer is 2");
    p->spec.probe_ace.layer = 1;
    p->spec.probe_ace.rank = D + 1;
    CHECK_INT(ace_extract(p->model, p->task, &p->spec, &a), STATUS_JOB);
    CHECK_HAS(status_text(), "probe.ace.rank is 7");
    uproot(p);
}

static void check_no_core(struct planted *p, double base)
{
    struct ace a;
    CHECK_OK(ace_extract(p->model, p->task, &p->spec, &a));
    CHECK_INT(a.rank, 0);
    CHECK_INT(a.core_dim, 0);
    CHECK_INT(a.sufficient, -1);
    CHECK_INT(a.necessary, -1);
    CHECK_INT(a.operator_rank, 0);
    CHECK(!a.coordinates);
    CHECK(isnan(a.accuracy_core_only) && isnan(a.accuracy_core_removed) && isnan(a.r2));
    CHECK_NEAR(a.accuracy, base, 1e-15);
    for (int i = 0; i < D; i++)
        CHECK_NEAR(a.weight[i], 0, 0);
    ace_clear(&a);
}

TEST(constant_activations_and_constant_outputs_have_no_core)
{
    struct planted *p = plant();
    double zero[LENGTH * D] = {0}, third[LENGTH * D], share = 0;
    for (int i = 0; i < LENGTH * D; i++)
        third[i] = 1.0 / 3;
    for (int i = 0; i < SAMPLES; i++)
        share += (double)(p->target[i] == 0) / SAMPLES;
    set_group(p->model, GROUP_UNEMBEDDING, zero, D, STATES);
    check_no_core(p, round(share * SAMPLES) / SAMPLES);       /* ties: the lowest class */
    set_group(p->model, GROUP_UNEMBEDDING, p->unembedding, D, STATES);
    set_group(p->model, GROUP_TOKEN, zero, STATES, D);
    set_group(p->model, GROUP_POSITION, third, LENGTH, D);
    struct ace a;
    CHECK_OK(ace_extract(p->model, p->task, &p->spec, &a));
    CHECK_INT(a.rank, 0);
    CHECK_NEAR(a.mean[0], 1.0 / 3, 0);
    ace_clear(&a);
    p->spec.probe_ace.rank = 2;                               /* a fixed rank does not make a core either */
    CHECK_OK(ace_extract(p->model, p->task, &p->spec, &a));
    CHECK_INT(a.rank, 0);
    ace_clear(&a);
    uproot(p);
}

TEST(activations_that_are_not_finite_are_refused)
{
    struct planted *p = plant();
    struct ace a;
    double keep = 0, removed = 0, g[SAMPLES];
    p->token[2] = NAN;
    set_group(p->model, GROUP_TOKEN, p->token, STATES, D);
    CHECK_INT(ace_extract(p->model, p->task, &p->spec, &a), STATUS_NUMERIC);
    CHECK_HAS(status_text(), "activations of block 1 are not finite");
    for (int i = 0; i < SAMPLES; i++)
        g[i] = 1 / sqrt(SAMPLES);
    CHECK_INT(ace_consensus(p->model, p->task, &p->spec, g, SAMPLES, 1, &keep, &removed), STATUS_NUMERIC);
    p->token[2] = 0;
    p->unembedding[0] = INFINITY;
    set_group(p->model, GROUP_TOKEN, p->token, STATES, D);
    set_group(p->model, GROUP_UNEMBEDDING, p->unembedding, D, STATES);
    CHECK_INT(ace_extract(p->model, p->task, &p->spec, &a), STATUS_NUMERIC);
    CHECK_HAS(status_text(), "gradients");
    uproot(p);
}

TEST(a_single_sample_has_no_core)
{
    struct spec s = small_spec();
    struct task *t;
    struct model *m;
    struct ace a;
    s.task.length = 2;
    s.task.test_sequences = 1;
    open_or_die(&s, &t, &m);
    model_initialise(m, &s, 1);
    CHECK_OK(ace_extract(m, t, &s, &a));
    CHECK_INT(a.samples, 1);
    CHECK_INT(a.rank, 0);
    CHECK(a.accuracy == 0 || a.accuracy == 1);
    ace_clear(&a);
    model_free(m);
    task_free(t);
    CHECK_INT(memory_balance(), 0);
}

TEST(few_samples_and_single_positions_give_a_core_without_an_operator)
{
    struct spec s = small_spec();
    struct task *t;
    struct model *m;
    struct ace a;
    s.task.test_sequences = 3;                                /* fewer samples than coordinates */
    s.train.positions = (struct key_list){1, {-1}};
    open_or_die(&s, &t, &m);
    model_initialise(m, &s, 1);
    CHECK_OK(ace_extract(m, t, &s, &a));
    CHECK_INT(a.samples, 3);
    CHECK(a.rank <= 2);
    CHECK_INT(a.operator_rank, 0);
    CHECK(isnan(a.r2));
    ace_clear(&a);
    model_free(m);
    task_free(t);
    s.train.positions = (struct key_list){2, {-1, -3}};       /* two positions, but no neighbours in time */
    open_or_die(&s, &t, &m);
    model_initialise(m, &s, 1);
    CHECK_OK(ace_extract(m, t, &s, &a));
    CHECK_INT(a.samples, 6);
    CHECK_INT(a.operator_rank, 0);
    ace_clear(&a);
    model_free(m);
    task_free(t);
    CHECK_INT(memory_balance(), 0);
}

/* Orthonormal columns in sample space from the centred projections on the columns of basis [D][cols]. */
static void sample_directions(const struct planted *p, const double *basis, int cols, int r, double *g)
{
    double *x = memory_new((size_t)(SAMPLES * r), sizeof *x), triangle[D * D];
    for (int i = 0; i < SAMPLES; i++)
        for (int j = 0; j < r; j++)
            for (int k = 0; k < D; k++)
                x[i * r + j] += (p->h[i * D + k] - p->mean[k]) * basis[k * cols + j];
    CHECK_OK(factor_qr(SAMPLES, r, x, g, triangle));
    memory_free(x);
}

TEST(the_consensus_is_mapped_back_and_ablated)
{
    struct planted *p = plant();
    double *g = memory_new(SAMPLES * 3, sizeof *g), back[D * 3] = {0}, basis[D * 3], triangle[9], keep, removed;
    sample_directions(p, p->g, D, 3, g);
    for (int i = 0; i < SAMPLES; i++)
        for (int j = 0; j < D; j++)
            for (int k = 0; k < 3; k++)
                back[j * 3 + k] += (p->h[i * D + j] - p->mean[j]) * g[i * 3 + k];
    CHECK_OK(factor_qr(D, 3, back, basis, triangle));
    CHECK_OK(ace_consensus(p->model, p->task, &p->spec, g, SAMPLES, 3, &keep, &removed));
    CHECK_NEAR(keep, accuracy(p, basis, 3, 3, 0), 1e-15);
    CHECK_NEAR(removed, accuracy(p, basis, 3, 3, 1), 1e-15);
    CHECK(keep > 0.7 && removed < 0.5);
    memory_free(g);
    uproot(p);
}

TEST(a_consensus_of_more_directions_than_the_layer_keeps_all)
{
    struct planted *p = plant();
    enum { DIM = 8 };
    double *x = memory_new(SAMPLES * DIM, sizeof *x), *g = memory_new(SAMPLES * DIM, sizeof *g), triangle[DIM * DIM];
    double keep, removed;
    struct stream s = stream_open(9, PURPOSE_PROBE, 1);
    for (int i = 0; i < SAMPLES; i++)
        for (int j = 0; j < DIM; j++)
            x[i * DIM + j] = j < 5 ? p->h[i * D + j] : stream_normal(&s);
    CHECK_OK(factor_qr(SAMPLES, DIM, x, g, triangle));
    CHECK_OK(ace_consensus(p->model, p->task, &p->spec, g, SAMPLES, DIM, &keep, &removed));
    CHECK_NEAR(keep, accuracy(p, NULL, 0, 0, 0), 1e-15);
    CHECK(removed < 0.3);
    memory_free(x);
    memory_free(g);
    uproot(p);
}

TEST(a_consensus_that_does_not_fit_is_refused)
{
    struct planted *p = plant();
    double *g = memory_new(SAMPLES, sizeof *g), keep = 5, removed = 5, zero[LENGTH * D] = {0};
    g[0] = 1;
    CHECK_INT(ace_consensus(p->model, p->task, &p->spec, g, SAMPLES - 1, 1, &keep, &removed), STATUS_JOB);
    CHECK_HAS(status_text(), "samples");
    CHECK_INT(ace_consensus(p->model, p->task, &p->spec, g, SAMPLES, 0, &keep, &removed), STATUS_JOB);
    g[1] = 1e-3;
    CHECK_INT(ace_consensus(p->model, p->task, &p->spec, g, SAMPLES, 1, &keep, &removed), STATUS_NUMERIC);
    CHECK_HAS(status_text(), "orthonormal");
    CHECK_NEAR(keep, 5, 0);
    g[1] = 0;
    set_group(p->model, GROUP_TOKEN, zero, STATES, D);
    set_group(p->model, GROUP_POSITION, zero, LENGTH, D);
    CHECK_OK(ace_consensus(p->model, p->task, &p->spec, g, SAMPLES, 1, &keep, &removed));
    CHECK(isnan(keep) && isnan(removed));
    memory_free(g);
    uproot(p);
}

/* All logits read g3 alike, and activations move far along it: a direction of the logits that softmax does not see. */
TEST(a_common_shift_of_the_logits_is_a_direction_of_the_logits_alone)
{
    struct planted *p = plant();
    double centered[D * STATES], obs[D * D] = {0}, weight[D], basis[D * D];
    for (int i = 0; i < D; i++) {
        double mean = 0;
        for (int c = 0; c < STATES; c++) {
            p->unembedding[i * STATES + c] += p->g[i * D + 3];
            mean += p->unembedding[i * STATES + c] / STATES;
        }
        for (int c = 0; c < STATES; c++)
            centered[i * STATES + c] = p->unembedding[i * STATES + c] - mean;
    }
    set_group(p->model, GROUP_UNEMBEDDING, p->unembedding, D, STATES);
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++)
            for (int c = 0; c < STATES; c++)
                obs[i * D + j] += centered[i * STATES + c] * centered[j * STATES + c];
    struct ace a;
    CHECK_OK(ace_extract(p->model, p->task, &p->spec, &a));
    CHECK_INT(a.rank, 4);
    ace_clear(&a);
    p->spec.probe_ace.outputs = ACE_CENTERED_LOGITS;
    CHECK_OK(ace_extract(p->model, p->task, &p->spec, &a));
    CHECK_INT(a.rank, 3);
    CHECK_OK(ace_core(D, p->cov, obs, weight, basis));
    for (int i = 0; i < D; i++)
        CHECK_NEAR(a.weight[i], weight[i], 1e-12 * weight[0]);
    ace_clear(&a);
    uproot(p);
}
