#include "run/group_lanes.h"

#include "base/memory.h"
#include "base/stream.h"
#include "job/job.h"
#include "probe/manifold.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOOK_EVERY 100               /* steps between looks at train.target_loss where the curves have no points between */

/* ---- opening ---- */

enum status lanes_open(struct lanes *l, const struct spec *s)
{
    *l = (struct lanes){.spec = *s};
    enum status status = kern_get(NULL, &l->kern);
    if (status == STATUS_OK)
        status = manifold_new(s, &l->manifold);
    if (status == STATUS_OK)
        status = manifold_tape_new(s, &l->tape);
    if (status == STATUS_OK && s->train.metric == METRIC_WEIGHTS)
        l->metric = manifold_metric_new(s, l->manifold);
    if (status != STATUS_OK) {
        lanes_close(l);
        return status;
    }
    const size_t n = (size_t)l->manifold->coordinates * LANES;
    l->coordinates = l->manifold->coordinates;
    l->slot = memory_new(l->tape->train->program.slots * LANES, sizeof *l->slot);
    l->judge_slot = memory_new(l->tape->judge->program.slots * LANES, sizeof *l->judge_slot);
    double **array[] = {&l->gradient, &l->first, &l->second, &l->reached};
    for (size_t i = 0; i < sizeof array / sizeof array[0]; i++)
        *array[i] = memory_new(n, sizeof **array[i]);
    return STATUS_OK;
}

void lanes_close(struct lanes *l)
{
    manifold_free(l->manifold);
    manifold_tape_free(l->tape);
    manifold_metric_free(l->metric);
    memory_free(l->slot);
    memory_free(l->judge_slot);
    memory_free(l->gradient);
    memory_free(l->first);
    memory_free(l->second);
    memory_free(l->reached);
    *l = (struct lanes){0};
}

/* ---- the start of a run ---- */

static double named_value(const struct spec *s, const char *name)
{
    for (int i = 0; i < s->init.coordinates.count; i++)
        if (!strcmp(s->init.coordinates.item[i].name, name))
            return s->init.coordinates.item[i].value;
    return s->init.others;
}

static void start_coordinates(struct lanes *l, int i, const struct spec *s, uint64_t seed)
{
    struct stream stream = stream_open(seed, PURPOSE_INIT, 0);
    const bool point = s->init.scheme == INIT_COORDINATES;
    const double noise = point ? s->init.noise : s->init.std;
    for (int c = 0; c < l->coordinates; c++) {
        double start = point ? named_value(s, l->manifold->coordinate[c].name) : 0.0;
        if (noise > 0.0)
            start += noise * stream_normal(&stream);
        l->slot[c * LANES + i] = start * s->init_scale.all;
        l->first[c * LANES + i] = l->second[c * LANES + i] = 0.0;
        l->reached[c * LANES + i] = start * s->init_scale.all >= s->probe_manifold.level ? 0.0 : NAN;
    }
    l->decay1[i] = l->decay2[i] = 1.0;
}

static void set_shares(struct lanes *l, double *slot, int i, const struct spec *s)
{
    for (int c = 0; c < CLASSES; c++)
        slot[(l->coordinates + c) * LANES + i] = shape_class_share(s, (enum token_class)c);
}

void lanes_begin(struct lanes *l, int i, struct group_run *run, size_t number)
{
    const struct spec *s = run->spec;
    struct lane *lane = &l->lane[i];
    const bool targeted = s->train.target_loss > 0.0;
    *lane = (struct lane){.run = run, .number = number, .every = (uint64_t)s->train.eval_every};
    lane->steps = (uint64_t)(s->train.steps ? s->train.steps : s->train.epochs);      /* an epoch is one step */
    lane->look = lane->every ? lane->every : targeted ? LOOK_EVERY : lane->steps;
    start_coordinates(l, i, s, run->seed);
    set_shares(l, l->slot, i, s);
    *run->record = (struct record){.seed = run->seed, .last_finite_step = -1, .emergence_step = NAN};
    job_run_id(s, run->seed, run->record->id);
}

/* ---- steps ---- */

/* The gradient in the metric that gradient descent uses. */
static void take_gradient(struct lanes *l)
{
    const int *out = l->tape->train->output + 1;
    const struct manifold_metric *g = l->metric;
    for (int c = 0; c < l->coordinates; c++) {
        double *to = l->gradient + c * LANES;
        if (!g) {
            memcpy(to, l->slot + (size_t)out[c] * LANES, LANES * sizeof *to);
            continue;
        }
        for (int i = 0; i < LANES; i++)
            to[i] = 0.0;
        for (int k = g->first[c]; k < g->first[c + 1]; k++)
            for (int i = 0; i < LANES; i++)
                to[i] += g->value[k] * l->slot[(size_t)out[g->column[k]] * LANES + (size_t)i];
    }
}

void lanes_compute(struct lanes *l)
{
    l->kern->tape_run(&l->tape->train->program, l->slot);
    take_gradient(l);
}

double lanes_loss(const struct lanes *l, int i) { return l->slot[(size_t)l->tape->train->output[0] * LANES + (size_t)i]; }

/* What the optimiser makes of coordinate c of lane i. */
static double moved(struct lanes *l, const struct spec *s, int c, int i, double x)
{
    const size_t at = (size_t)c * LANES + (size_t)i;
    const double lr = s->train.lr, g = l->gradient[at];
    if (s->train.optimizer == OPTIMIZER_SGD) {
        l->first[at] = s->train.momentum * l->first[at] + (g + s->train.weight_decay * x);
        return x - lr * l->first[at];
    }
    l->first[at] = s->train.beta1 * l->first[at] + (1.0 - s->train.beta1) * g;
    l->second[at] = s->train.beta2 * l->second[at] + (1.0 - s->train.beta2) * (g * g);
    double m = l->first[at] / (1.0 - l->decay1[i]), v = l->second[at] / (1.0 - l->decay2[i]);
    return x * (1.0 - lr * s->train.weight_decay) - lr * m / (sqrt(v) + s->train.eps);
}

/* The time at which the coordinate first reaches the level, linear within the step. */
static void note_reached(struct lanes *l, const struct spec *s, size_t at, uint64_t step, double before, double after)
{
    const double level = s->probe_manifold.level;
    if (after >= level && isnan(l->reached[at]) && after > before)
        l->reached[at] = (double)step + (level - before) / (after - before);
}

static void step_lane(struct lanes *l, int i)
{
    const struct spec *s = l->lane[i].run->spec;
    l->decay1[i] *= s->train.beta1;
    l->decay2[i] *= s->train.beta2;
    for (int c = 0; c < l->coordinates; c++) {
        double *x = &l->slot[c * LANES + i], next = moved(l, s, c, i, *x);
        note_reached(l, s, (size_t)c * LANES + (size_t)i, l->lane[i].step, *x, next);
        *x = next;
    }
    l->lane[i].step++;
}

void lanes_step(struct lanes *l)
{
    for (int i = 0; i < LANES; i++)
        if (l->lane[i].run)
            step_lane(l, i);
}

/* ---- measures ---- */

/* Copies the coordinates of lane i to lane `to` of the judging program. */
static void put_variant(struct lanes *l, int i, int to)
{
    for (int c = 0; c < l->coordinates; c++)
        l->judge_slot[c * LANES + to] = l->slot[c * LANES + i];
    set_shares(l, l->judge_slot, to, l->lane[i].run->spec);
}

static double judged(const struct lanes *l, int output, int lane)
{
    return l->judge_slot[(size_t)l->tape->judge->output[output] * LANES + (size_t)lane];
}

static void judge(struct lanes *l) { l->kern->tape_run(&l->tape->judge->program, l->judge_slot); }

/* Weighted share of the sequences whose answer has the largest logit; of equals the lowest class counts. */
static double accuracy(const struct lanes *l, const struct spec *s, int lane)
{
    double sum = 0.0;
    for (int i = 0; i < l->tape->sequences; i++) {
        double own = judged(l, 1 + 3 * i, lane);
        bool right = own > judged(l, 2 + 3 * i, lane) && own >= judged(l, 3 + 3 * i, lane);
        sum += right ? l->tape->weight[i] * shape_class_share(s, l->tape->class[i]) : 0.0;
    }
    return sum;
}

static void reserve_point(struct record_curves *c, struct lane *lane)
{
    if (c->points < lane->room)
        return;
    size_t old = (size_t)c->points, room = 2 * old + 2;
    c->step = memory_grow(c->step, old, room, sizeof *c->step);
    double **array[] = {&c->loss_train, &c->loss_test, &c->accuracy_train, &c->accuracy_test};
    for (int i = 0; i < 4; i++)
        *array[i] = memory_grow(*array[i], old, room, sizeof **array[i]);
    lane->room = (int)room;
}

void lanes_point(struct lanes *l, int i)
{
    struct record_curves *c = &l->lane[i].run->record->curves;
    const int p = c->points;
    put_variant(l, i, 0);
    judge(l);
    reserve_point(c, &l->lane[i]);
    c->step[p] = (int64_t)l->lane[i].step;
    c->loss_train[p] = c->loss_test[p] = judged(l, 0, 0);
    c->accuracy_train[p] = c->accuracy_test[p] = accuracy(l, l->lane[i].run->spec, 0);
    c->points++;
}

/* ---- the manifold probe ---- */

/* The loss without some coordinates: variants 1..circuits without a circuit's betas, then without gammas, without delta. */
static void judge_variants(struct lanes *l, int i, int first_circuit, int circuits)
{
    for (int v = 0; v < circuits + 3; v++) {
        int before = 0, second = 0;
        put_variant(l, i, v);
        if (v >= 1 && v <= circuits)
            manifold_circuit(l->manifold->layers, first_circuit + v - 1, &before, &second);
        for (int c = 0; c < l->coordinates; c++)
            if ((before && manifold_is_beta(l->manifold, c, before, second)) ||
                (v == circuits + 1 && manifold_is_gamma(l->manifold, c)) ||
                (v == circuits + 2 && manifold_is_delta(l->manifold, c)))
                l->judge_slot[c * LANES + v] = 0.0;
    }
    judge(l);
}

static void measure_winner(struct lanes *l, int i, struct record_manifold *r)
{
    const int all = manifold_circuits(l->manifold->layers), most = LANES - 3;
    r->circuits = r->winner = all;
    r->rise = memory_new((size_t)all, sizeof *r->rise);
    for (int first = 0; first < all || first == 0; first += most) {
        int n = all - first < most ? all - first : most;
        judge_variants(l, i, first, n);
        for (int v = 0; v < n; v++)
            r->rise[first + v] = judged(l, 0, v + 1) - judged(l, 0, 0);
        r->rise_in_context = judged(l, 0, n + 1) - judged(l, 0, 0);
        r->rise_in_weights = judged(l, 0, n + 2) - judged(l, 0, 0);
    }
    r->winner = manifold_winner(l->lane[i].run->spec, r->loss, r->rise, all);
}

/* The gradient at this point with sequences of rare tokens alone, by the training program in numbers of its own. */
static void measure_gradient(struct lanes *l, int i, struct record_manifold *r)
{
    const struct tape *t = l->tape->train;
    const size_t n = (size_t)l->coordinates;
    double *slot = memory_new(t->program.slots * LANES, sizeof *slot), delta = 0.0;
    r->gradient = memory_new(n, sizeof *r->gradient);
    r->gradient_ratio = memory_new(n, sizeof *r->gradient_ratio);
    for (int c = 0; c < l->coordinates; c++) {
        slot[c * LANES] = slot[c * LANES + 1] = l->slot[c * LANES + i];
        delta += manifold_is_delta(l->manifold, c) ? l->slot[c * LANES + i] : 0.0;
    }
    set_shares(l, slot, 0, l->lane[i].run->spec);
    slot[(l->coordinates + CLASS_RARE) * LANES + 1] = 1.0;
    l->kern->tape_run(&t->program, slot);
    for (int c = 0; c < l->coordinates; c++) {
        const double *g = slot + (size_t)t->output[1 + c] * LANES;
        r->gradient[c] = g[0];
        r->gradient_ratio[c] = g[1] != 0.0 ? g[0] / g[1] : NAN;
    }
    r->gradient_ratio_theory = manifold_ratio_theory(l->lane[i].run->spec, delta);
    memory_free(slot);
}

void lanes_probe(struct lanes *l, int i)
{
    const struct spec *s = l->lane[i].run->spec;
    struct record *record = l->lane[i].run->record;
    struct record_manifold r = {.step = (int64_t)l->lane[i].step, .coordinates = l->coordinates, .layers = l->manifold->layers,
                                .winner = -1, .gradient_ratio_theory = NAN, .rise_in_context = NAN, .rise_in_weights = NAN};
    r.loss = lanes_loss(l, i);
    r.coordinate = memory_new((size_t)l->coordinates, sizeof *r.coordinate);
    for (int c = 0; c < l->coordinates; c++)
        r.coordinate[c] = l->slot[c * LANES + i];
    r.leakage = memory_new((size_t)r.layers + 1, sizeof *r.leakage);
    if (s->probe_manifold.winner)
        measure_winner(l, i, &r);
    if (s->probe_manifold.gradient)
        measure_gradient(l, i, &r);
    record->manifold = memory_grow(record->manifold, (size_t)record->manifolds, (size_t)record->manifolds + 1, sizeof r);
    record->manifold[record->manifolds++] = r;
}
