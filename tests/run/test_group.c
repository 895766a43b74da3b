/* Runs of manifold models side by side: the same bits alone and in any company, and the numbers of closed forms. */
#include "base/clock.h"
#include "job/manifold.h"
#include "job/outcome.h"
#include "job/shape.h"
#include "run/group.h"
#include "run/trainings.h"

#define MANY 70                      /* more than twice the lanes */

static void name_coordinates(struct spec *s, const char *names)
{
    snprintf(s->model.coordinates, sizeof s->model.coordinates, "%s", names);
}

/* A pair of coordinates' values by name. */
static void set_value(struct spec *s, const char *name, double value)
{
    int n = s->init.coordinates.count;
    for (int i = 0; i < n; i++)
        if (!strcmp(s->init.coordinates.item[i].name, name))
            n = i;
    snprintf(s->init.coordinates.item[n].name, sizeof s->init.coordinates.item[n].name, "%s", name);
    s->init.coordinates.item[n].value = value;
    if (n == s->init.coordinates.count)
        s->init.coordinates.count++;
}

static void recall(struct spec *s, int blocks, int layers)
{
    key_defaults(s);
    s->task.kind = TASK_BLOCKLIST;
    s->task.pattern = PATTERN_RECALL;
    s->task.blocks = blocks;
    s->task.rare_tokens = 2 * blocks;
    s->task.expectation = EXPECTATION_PATTERNS;
    s->model.kind = MODEL_MANIFOLD;
    s->model.layers = layers;
    s->model.heads = 1;
    s->model.embedding = EMBEDDING_ONE_HOT;
    s->model.self_attention = false;
    s->model.precision = PRECISION_FLOAT64;
    s->init.scheme = INIT_COORDINATES;
    s->train.optimizer = OPTIMIZER_SGD;
    s->train.lr = 1.0;
    s->train.momentum = s->train.weight_decay = 0.0;
    s->train.loss = LOSS_SQUARED;
    s->train.batch = 0;
    s->train.epochs = 0;
    s->probe.at = (struct key_list){.count = 1, .value = {-1}};
}

/* Three layers, seven coordinates. */
static void three_layers(struct spec *s)
{
    recall(s, 4, 3);
    name_coordinates(s, "alpha_1 alpha_2 beta_12 beta_13 beta_23 gamma_2 gamma_3");
    s->init.others = 0.05;
    s->train.steps = 400;
    s->train.eval_every = 90;
    s->probe_manifold.coordinates = s->probe_manifold.winner = s->probe_manifold.gradient = true;
    s->probe_manifold.emerged_below = 0.2;
    s->probe_manifold.level = 0.5;
}

/* Two layers, alpha, beta, gamma, queried last: the case of the closed form. */
static void emergence(struct spec *s, int pairs)
{
    recall(s, pairs, 2);
    s->task.queried = QUERIED_LAST;
    name_coordinates(s, "alpha_1 beta_12 gamma_2");
    s->init.others = 0.0;
    s->probe_manifold.coordinates = true;
    s->probe_manifold.level = 0.5;
}

/* ---- many runs ---- */

struct many {
    struct spec spec[MANY];
    struct record record[MANY];
    struct group_run run[MANY];
    size_t n;
};

/* Run i of a plane: other starts, lengths, rates and seeds; every third of another structure. */
static void fill(struct many *m, bool mixed)
{
    memset(m, 0, sizeof *m);
    m->n = MANY;
    for (size_t i = 0; i < m->n; i++) {
        struct spec *s = &m->spec[i];
        three_layers(s);
        if (mixed && i % 3 == 1)
            s->task.blocks = 3;
        if (mixed && i % 3 == 2)
            s->train.loss = LOSS_CROSS_ENTROPY;
        set_value(s, "gamma_2", 0.02 * (double)i);
        set_value(s, "gamma_3", 1.0 - 0.01 * (double)i);
        s->init.noise = i % 4 ? 0.0 : 0.01;
        s->train.steps = 200 + 7 * (int64_t)(i % 11);
        s->train.lr = 0.5 + 0.01 * (double)(i % 7);
        s->train.optimizer = i % 5 ? OPTIMIZER_SGD : OPTIMIZER_ADAMW;
        if (i % 5 == 0)
            s->train.lr = 0.02;
        m->run[i] = (struct group_run){.spec = s, .seed = i + 1, .record = &m->record[i]};
    }
}

static void clear(struct many *m)
{
    for (size_t i = 0; i < m->n; i++)
        record_clear(&m->record[i]);
}

/* The times of the runs are shares of the time of all. */
static void train_all(struct many *m)
{
    struct group *g = group_new();
    enum train_end end = TRAIN_STOPPED;
    double start = clock_now(), sum = 0;
    CHECK_OK(group_train(g, m->run, m->n, NULL, NULL, &end));
    const double all = clock_now() - start;
    CHECK_INT(end, TRAIN_FINISHED);
    for (size_t i = 0; i < m->n; i++) {
        CHECK_INT(m->run[i].state, GROUP_DONE);
        CHECK(m->record[i].wall_time > 0);
        sum += m->record[i].wall_time;
    }
    CHECK(sum <= all);
    group_free(g);
}

static void check_same_manifold(const struct record *a, const struct record *b)
{
    const size_t n = (size_t)a->coordinates;
    check_same(a, b);
    CHECK_INT(a->coordinates, b->coordinates);
    CHECK_INT(a->manifolds, b->manifolds);
    check_same_doubles("emergence_step", &a->emergence_step, &b->emergence_step, 1);
    check_same_doubles("coordinate_step", a->coordinate_step, b->coordinate_step, n);
    for (int i = 0; i < a->manifolds && !check_failures; i++) {
        const struct record_manifold *x = &a->manifold[i], *y = &b->manifold[i];
        CHECK_INT(x->step, y->step);
        CHECK_INT(x->winner, y->winner);
        check_same_doubles("loss", &x->loss, &y->loss, 1);
        check_same_doubles("coordinate", x->coordinate, y->coordinate, n);
        check_same_doubles("gradient", x->gradient, y->gradient, n);
        check_same_doubles("rise", x->rise, y->rise, (size_t)x->circuits);
        check_same_doubles("rise_in_context", &x->rise_in_context, &y->rise_in_context, 1);
    }
}

static struct many together, other;

TEST(alone_and_in_company_a_run_has_the_same_bits)
{
    fill(&together, true);
    train_all(&together);
    for (size_t i = 0; i < MANY && !check_failures; i += 3 + i % 2) {
        struct record alone = run_whole(&together.spec[i], together.run[i].seed);
        check_same_manifold(&alone, &together.record[i]);
        record_clear(&alone);
    }
    clear(&together);
    CHECK_INT(memory_balance(), 0);
}

TEST(the_order_of_the_runs_does_not_matter)
{
    fill(&together, true);
    fill(&other, true);
    for (size_t i = 0; i < MANY; i++) {
        other.run[i].spec = &other.spec[MANY - 1 - i];
        other.run[i].seed = MANY - i;
        other.run[i].record = &other.record[MANY - 1 - i];
    }
    train_all(&together);
    train_all(&other);
    for (size_t i = 0; i < MANY && !check_failures; i++)
        check_same_manifold(&together.record[i], &other.record[i]);
    clear(&together);
    clear(&other);
    CHECK_INT(memory_balance(), 0);
}

TEST(seeds_and_only_seeds_change_a_run_with_noise)
{
    struct spec s;
    three_layers(&s);
    s.init.noise = 0.01;
    struct record a = run_whole(&s, 1), again = run_whole(&s, 1), b = run_whole(&s, 2);
    check_same_manifold(&a, &again);
    CHECK(memcmp(a.weights, b.weights, 7 * sizeof(double)) != 0);
    record_clear(&a);
    record_clear(&again);
    record_clear(&b);
}

/* ---- outcomes ---- */

TEST(a_run_that_diverges_leaves_its_neighbours_alone)
{
    fill(&together, false);
    fill(&other, false);
    for (size_t i = 0; i < MANY; i += 9) {
        other.spec[i].train.optimizer = OPTIMIZER_SGD;
        other.spec[i].train.lr = 1e6;
    }
    train_all(&together);
    train_all(&other);
    for (size_t i = 0; i < MANY && !check_failures; i++) {
        const struct record *r = &other.record[i];
        if (i % 9) {
            check_same_manifold(&together.record[i], r);
            continue;
        }
        CHECK_INT(r->outcome, OUTCOME_DIVERGED);
        CHECK(isnan(r->loss_train) && isnan(r->accuracy_train));
        CHECK(r->steps >= 1 && r->last_finite_step < r->steps + 1 && r->steps < 200);
        CHECK_INT(r->manifolds, 0);
    }
    clear(&together);
    clear(&other);
}

TEST(a_target_ends_a_run_at_a_look_and_is_missed_otherwise)
{
    struct spec s;
    three_layers(&s);
    set_value(&s, "gamma_3", 1.0);
    s.train.eval_every = 0;
    s.train.steps = 6000;
    s.train.target_loss = 0.1;
    struct record r = run_whole(&s, 1);
    CHECK_INT(r.outcome, OUTCOME_DONE);
    CHECK(r.steps < 6000);
    CHECK_INT(r.steps % 100, 0);
    CHECK(r.loss_train < 0.1);
    CHECK_INT(r.curves.points, 2);
    CHECK_INT(r.curves.step[1], r.steps);
    const int64_t reached = r.steps;
    record_clear(&r);

    s.train.steps = reached - 100;
    r = run_whole(&s, 1);
    CHECK_INT(r.outcome, OUTCOME_UNFINISHED);
    CHECK(r.loss_train >= 0.1);
    record_clear(&r);

    s.train.steps = 6000;
    s.train.eval_every = 7;          /* looked at with the points of the curves */
    r = run_whole(&s, 1);
    CHECK_INT(r.outcome, OUTCOME_DONE);
    CHECK_INT(r.steps % 7, 0);
    CHECK(r.steps <= reached && r.steps > reached - 100);
    CHECK(r.curves.loss_train[r.curves.points - 2] >= 0.1);
    record_clear(&r);
}

/* emergence_step is looked for at every step: the losses of the curves around it say so. */
TEST(the_emergence_step_is_the_first_below)
{
    struct spec s;
    three_layers(&s);
    set_value(&s, "gamma_3", 1.0);
    s.train.steps = 600;
    s.train.eval_every = 1;
    struct record r = run_whole(&s, 1);
    int first = 0;
    while (first < r.curves.points && !(r.curves.loss_train[first] < 0.2))
        first++;
    CHECK(first > 0 && first < r.curves.points);
    CHECK_NEAR(r.emergence_step, r.curves.step[first], 0.0);
    record_clear(&r);
}

static bool stop_at_once(void *context)
{
    ++*(int *)context;
    return true;
}

TEST(a_stopped_group_begins_anew_and_comes_to_the_same)
{
    fill(&together, false);
    fill(&other, false);
    int asked = 0;
    struct train_control control = {.context = &asked, .should_stop = stop_at_once};
    struct group *g = group_new();
    enum train_end end = TRAIN_FINISHED;
    for (size_t i = 0; i < MANY; i++)
        together.spec[i].train.steps = other.spec[i].train.steps = 1500;
    CHECK_OK(group_train(g, together.run, MANY, &control, NULL, &end));
    CHECK_INT(end, TRAIN_STOPPED);
    CHECK_INT(asked, 1);
    CHECK_INT(together.run[MANY - 1].state, GROUP_OPEN);
    CHECK_OK(group_train(g, together.run, MANY, NULL, NULL, &end));
    CHECK_INT(end, TRAIN_FINISHED);
    train_all(&other);
    for (size_t i = 0; i < MANY && !check_failures; i++)
        check_same_manifold(&together.record[i], &other.record[i]);
    group_free(g);
    clear(&together);
    clear(&other);
    CHECK_INT(memory_balance(), 0);
}

/* ---- closed forms (arXiv 2511.01033) ---- */

enum { ALPHA, BETA, GAMMA };

/* What gradient descent on half the squared error does to alpha, beta and gamma: minus the gradient. */
static double descent(int pairs, const double *x, double *d)
{
    const double others = 2.0 * pairs - 1.0, a = 1 / (1 + (2.0 * pairs - 2) * exp(-x[ALPHA]));
    const double seen = 1 / (1 + others * exp(-x[BETA] * a)), rest = (1 - seen) / others;
    const double g = x[GAMMA] - x[GAMMA] * x[GAMMA] * (seen - rest);
    d[ALPHA] = g * x[BETA] * seen * (1 - seen) * a * (1 - a);
    d[BETA] = g * a * seen * (1 - seen);
    d[GAMMA] = seen - x[GAMMA] * (seen * seen + (1 - seen) * (1 - seen) / others);
    return 0.5 * ((1 - x[GAMMA] * seen) * (1 - x[GAMMA] * seen) + x[GAMMA] * x[GAMMA] * (1 - seen) * (1 - seen) / others);
}

/* Steps of the closed form; when each coordinate first reaches 0.5. */
static void descend(int pairs, double lr, int64_t steps, double *x, double *reached)
{
    for (int i = 0; i < 3; i++)
        reached[i] = NAN;
    for (int64_t t = 0; t < steps; t++) {
        double d[3];
        descent(pairs, x, d);
        for (int i = 0; i < 3; i++) {
            if (isnan(reached[i]) && x[i] + lr * d[i] >= 0.5)
                reached[i] = (double)t + (0.5 - x[i]) / (lr * d[i]);
            x[i] += lr * d[i];
        }
    }
}

/* NaN stays. */
static void keep(double *worst, double e)
{
    if (!isnan(*worst) && !(e <= *worst))
        *worst = e;
}

TEST(emergence_is_that_of_the_closed_form)
{
    const int pairs[] = {8, 16, 32, 64};
    double worst = 0, worst_time = 0;
    for (int i = 0; i < 4; i++) {
        struct spec s;
        double x[3] = {0}, reached[3], d[3];
        emergence(&s, pairs[i]);
        s.train.steps = 5 * pairs[i] * pairs[i];
        descend(pairs[i], 1.0, s.train.steps, x, reached);
        struct record r = run_whole(&s, 1);
        for (int c = 0; c < 3; c++) {
            keep(&worst, fabs(((double *)r.weights)[c] - x[c]));
            keep(&worst_time, fabs(r.coordinate_step[c] - reached[c]) / reached[c]);
            CHECK(r.coordinate_step[c] > 0.0);
        }
        CHECK(r.coordinate_step[GAMMA] < r.coordinate_step[BETA] && r.coordinate_step[BETA] < r.coordinate_step[ALPHA]);
        CHECK_NEAR(r.loss_train, descent(pairs[i], x, d), 1e-14);
        record_clear(&r);
    }
    fprintf(stderr, "# emergence: coordinates differ by %.1e, times by %.1e\n", worst, worst_time);
    CHECK(worst <= 1e-13);           /* 5.3e-15 */
    CHECK(worst_time <= 1e-14);      /* 1.3e-16 */
}

/* Small steps: the times of the gradient flow of the closed form, solved to 1e-10 by an adaptive method (LSODA). While beta is
 * small, gamma = 1 - exp(-t / 2N), so that its time is nearly 2 N log 2. */
TEST(emergence_in_small_steps_has_the_times_of_the_flow)
{
    const struct { int pairs; double time[3]; } flow[] = {{8, {233.22980, 136.30375, 11.08539}},
                                                          {32, {3551.67034, 2017.23743, 44.36018}}};
    double worst = 0;
    for (int i = 0; i < 2; i++) {
        struct spec s;
        emergence(&s, flow[i].pairs);
        s.train.lr = 0.1;
        s.train.steps = (int64_t)(12 * flow[i].time[ALPHA]);
        struct record r = run_whole(&s, 1);
        for (int c = 0; c < 3; c++)
            keep(&worst, fabs(0.1 * r.coordinate_step[c] / flow[i].time[c] - 1));
        CHECK_NEAR(0.1 * r.coordinate_step[GAMMA] / (2 * flow[i].pairs * log(2)), 1.0, 0.005);
        record_clear(&r);
    }
    fprintf(stderr, "# emergence in steps of 0.1: times differ from the flow's by %.1e\n", worst);
    CHECK(worst <= 0.005);           /* 3.1e-3, of gamma at N = 8; of first order in the step */
}

/* ---- optimisers, on the closed form ---- */

static double textbook(const struct spec *s, double x, double g, double *first, double *second, int t)
{
    if (s->train.optimizer == OPTIMIZER_SGD) {
        *first = s->train.momentum * *first + g + s->train.weight_decay * x;
        return x - s->train.lr * *first;
    }
    *first = s->train.beta1 * *first + (1 - s->train.beta1) * g;
    *second = s->train.beta2 * *second + (1 - s->train.beta2) * g * g;
    return x - s->train.lr * s->train.weight_decay * x -
           s->train.lr * (*first / (1 - pow(s->train.beta1, t))) / (sqrt(*second / (1 - pow(s->train.beta2, t))) + s->train.eps);
}

TEST(optimisers_are_those_of_the_textbook)
{
    for (int adam = 0; adam < 2; adam++) {
        struct spec s;
        double x[3] = {0.3, 0.4, 0.2}, first[3] = {0}, second[3] = {0};
        emergence(&s, 6);
        set_value(&s, "alpha_1", x[ALPHA]);
        set_value(&s, "beta_12", x[BETA]);
        set_value(&s, "gamma_2", x[GAMMA]);
        s.train.optimizer = adam ? OPTIMIZER_ADAMW : OPTIMIZER_SGD;
        s.train.lr = adam ? 0.02 : 0.3;
        s.train.momentum = 0.8;
        s.train.weight_decay = 1e-3;
        s.train.steps = 500;
        for (int t = 1; t <= 500; t++) {
            double d[3];
            descent(6, x, d);
            for (int c = 0; c < 3; c++)
                x[c] = textbook(&s, x[c], -d[c], &first[c], &second[c], t);
        }
        struct record r = run_whole(&s, 1);
        for (int c = 0; c < 3; c++)
            CHECK_NEAR(((double *)r.weights)[c], x[c], 1e-11);
        record_clear(&r);
    }
}

/* In the metric of the weights a coordinate moves by its gradient over the squared norm of its direction: as many ones as M1 has
 * among the positions, and I among the tokens. */
TEST(the_metric_of_weights_divides_by_the_norms_of_the_directions)
{
    struct spec s;
    double x[3] = {0.3, 0.4, 0.2}, d[3];
    emergence(&s, 6);
    s.train.metric = METRIC_WEIGHTS;
    set_value(&s, "alpha_1", x[ALPHA]);
    set_value(&s, "beta_12", x[BETA]);
    set_value(&s, "gamma_2", x[GAMMA]);
    s.train.lr = 2.0;
    s.train.steps = 50;
    const struct task_shape shape = shape_of(&s);
    for (int t = 0; t < 50; t++) {
        descent(6, x, d);
        for (int c = 0; c < 3; c++)
            x[c] += 2.0 * d[c] / (c == ALPHA ? shape.positions : shape.vocabulary);
    }
    struct record r = run_whole(&s, 1);
    for (int c = 0; c < 3; c++)
        CHECK_NEAR(((double *)r.weights)[c], x[c], 1e-13);
    record_clear(&r);
}

/* ---- the probe ---- */

/* The rise without a circuit's beta is what a run of no steps says that starts without it. */
TEST(rises_are_those_of_runs_that_start_without_the_beta)
{
    const char *beta[] = {"beta_12", "beta_13", "beta_23"};
    struct spec s;
    three_layers(&s);
    set_value(&s, "gamma_3", 0.9);
    struct record r = run_whole(&s, 1);
    CHECK_INT(r.manifolds, 1);
    const struct record_manifold *m = &r.manifold[0];
    CHECK_INT(m->circuits, 3);
    CHECK_NEAR(m->loss, r.loss_train, 1e-15);
    double largest = 0;
    struct manifold *names;
    CHECK_OK(manifold_new(&s, &names));
    for (int k = 0; k < 3; k++) {
        struct spec without = s;
        for (int c = 0; c < 7; c++)
            set_value(&without, names->coordinate[c].name, ((double *)r.weights)[c]);
        set_value(&without, beta[k], 0.0);
        without.train.steps = 1;
        without.train.eval_every = 1;
        struct record q = run_whole(&without, 1);
        CHECK_NEAR(m->rise[k], q.curves.loss_train[0] - m->loss, 1e-15);
        largest = fmax(largest, m->rise[k]);
        record_clear(&q);
    }
    for (int k = 0; k < 3; k++)
        if (m->winner == k)
            CHECK_NEAR(m->rise[k], largest, 0.0);
    manifold_free(names);
    record_clear(&r);
}
