#include "run/group.h"

#include "base/clock.h"
#include "base/float_mode.h"
#include "base/hash.h"
#include "base/memory.h"
#include "job/job.h"
#include "run/group_lanes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ASK_EVERY 0.02               /* seconds between questions whether to stop */
#define LONG_PROGRAM 2000            /* operations: 64 rounds of a longer one take more than some milliseconds */

bool group_fits(const struct spec *s) { return s->model.kind == MODEL_MANIFOLD && s->task.expectation == EXPECTATION_PATTERNS; }

struct group {
    char structure[HASH_TEXT];       /* of the lanes that are open; "": none */
    struct lanes lanes;
};

struct group *group_new(void) { return memory_new(1, sizeof(struct group)); }

void group_free(struct group *g)
{
    if (!g)
        return;
    lanes_close(&g->lanes);
    memory_free(g);
}

/* ---- structures ---- */

/* What the program does not depend on gets one value. */
static void structure_of(const struct spec *spec, char id[HASH_TEXT])
{
    struct spec *s = memory_new(1, sizeof *s), *all = memory_new(1, sizeof *all);
    *s = *spec;
    key_defaults(all);
    s->init = all->init;
    s->init_scale = all->init_scale;
    s->train = all->train;
    s->probe = all->probe;
    s->probe_manifold = all->probe_manifold;
    s->task.rare = all->task.rare;
    s->task.variability = all->task.variability;
    s->train.loss = spec->train.loss;
    s->train.metric = spec->train.metric;
    job_run_id(s, 0, id);
    memory_free(s);
    memory_free(all);
}

/* Opens the lanes of a run's structure, unless they are. */
static enum status open_structure(struct group *g, const struct spec *s, const char *structure)
{
    if (!strcmp(g->structure, structure))
        return STATUS_OK;
    lanes_close(&g->lanes);
    g->structure[0] = '\0';
    enum status status = lanes_open(&g->lanes, s);
    if (status == STATUS_OK)
        memcpy(g->structure, structure, sizeof g->structure);
    return status;
}

/* ---- one lane ---- */

static bool probe_due(const struct lane *lane, bool over)
{
    const struct spec *s = lane->run->spec;
    if (!s->probe_manifold.coordinates && !s->probe_manifold.gradient && !s->probe_manifold.winner)
        return false;
    for (int i = 0; i < s->probe.at.count; i++)
        if (s->probe.at.value[i] == (int64_t)lane->step || (s->probe.at.value[i] < 0 && over))
            return true;
    return false;
}

static void pack(struct lanes *l, int i, struct record *r)
{
    const size_t n = (size_t)l->coordinates;
    double *weights = memory_new(n, sizeof *weights);
    r->coordinates = l->coordinates;
    r->coordinate_step = memory_new(n, sizeof *r->coordinate_step);
    for (size_t c = 0; c < n; c++) {
        weights[c] = l->slot[c * LANES + (size_t)i];
        r->coordinate_step[c] = l->reached[c * LANES + (size_t)i];
    }
    r->weights = weights;
    r->element_size = sizeof *weights;
    r->tensors = 1;
    r->tensor = memory_new(1, sizeof *r->tensor);
    *r->tensor = (struct record_tensor){.name = "coordinates", .rows = 1, .cols = l->coordinates};
}

static void finish(struct lanes *l, int i, enum outcome outcome)
{
    struct lane *lane = &l->lane[i];
    struct record *r = lane->run->record;
    const struct record_curves *c = &r->curves;
    const bool diverged = outcome == OUTCOME_DIVERGED;
    r->outcome = outcome;
    r->steps = (int64_t)lane->step;
    r->loss_train = r->loss_test = diverged ? NAN : c->loss_train[c->points - 1];
    r->accuracy_train = r->accuracy_test = diverged ? NAN : c->accuracy_train[c->points - 1];
    pack(l, i, r);
    lane->run->state = GROUP_DONE;
    lane->run = NULL;
}

static bool all_finite(const struct lanes *l, int i)
{
    for (int c = 0; c < l->coordinates; c++)
        if (!isfinite(l->slot[c * LANES + i]))
            return false;
    return true;
}

/* What is due at the lane's step, its loss being known.   Returns whether the run is over */
static bool arrive(struct lanes *l, int i)
{
    struct lane *lane = &l->lane[i];
    const struct spec *s = lane->run->spec;
    const double loss = lanes_loss(l, i), target = s->train.target_loss;
    if (!(loss <= s->train.diverged_above) || !all_finite(l, i)) {
        finish(l, i, OUTCOME_DIVERGED);
        return true;
    }
    lane->run->record->last_finite_step = (int64_t)lane->step;
    if (isnan(lane->run->record->emergence_step) && loss < s->probe_manifold.emerged_below)
        lane->run->record->emergence_step = (double)lane->step;
    const bool last = lane->step == lane->steps, looks = last || lane->step % lane->look == 0;
    const bool reached = looks && loss < target, over = last || reached;
    if (over || lane->step == 0 || (lane->every && lane->step % lane->every == 0))
        lanes_point(l, i);
    if (probe_due(lane, over))
        lanes_probe(l, i);
    if (over)
        finish(l, i, target > 0.0 && !reached ? OUTCOME_UNFINISHED : OUTCOME_DONE);
    return over;
}

/* ---- all lanes ---- */

struct march {
    struct group *group;
    struct group_run *run;
    size_t n, next;                  /* runs before `next` have been looked at */
    const char (*structure)[HASH_TEXT];
    const struct train_control *control;
    void (*finished)(void *context, size_t i);
    int busy;                        /* lanes that have a run */
    double share, shared;            /* seconds that each lane at work has had of this march, up to the clock `shared` */
};

/* The lanes at work share the time that has passed: so the times of all runs add up to the time that all took. */
static double share_time(struct march *m)
{
    const double now = clock_now();
    if (m->busy > 0)
        m->share += (now - m->shared) / m->busy;
    m->shared = now;
    return m->share;
}

/* Puts the next open run of the structure into lane i, if there is one. */
static void refill(struct march *m, int i)
{
    for (; m->next < m->n; m->next++)
        if (m->run[m->next].state == GROUP_OPEN && !strcmp(m->structure[m->next], m->group->structure)) {
            lanes_begin(&m->group->lanes, i, &m->run[m->next], m->next);
            m->group->lanes.lane[i].started = share_time(m);
            m->next++;
            m->busy++;
            return;
        }
}

static bool should_stop(const struct march *m, double *asked)
{
    if (!m->control || !m->control->should_stop || clock_now() - *asked < ASK_EVERY)
        return false;
    *asked = clock_now();
    return m->control->should_stop(m->control->context);
}

/* Drops the runs that are under way. */
static void leave(struct lanes *l)
{
    for (int i = 0; i < LANES; i++)
        if (l->lane[i].run) {
            record_clear(l->lane[i].run->record);
            l->lane[i].run = NULL;
        }
}

/* The run of lane i is over. */
static void take_out(struct march *m, int i)
{
    const struct lane *lane = &m->group->lanes.lane[i];
    m->run[lane->number].record->wall_time = share_time(m) - lane->started;
    m->busy--;
    if (m->finished)
        m->finished(m->control->context, lane->number);
}

/* Trains all open runs of the open structure, from run number m->next on.   Returns false when stopped */
static bool march(struct march *m)
{
    struct lanes *l = &m->group->lanes;
    const unsigned look = l->tape->train->program.ops > LONG_PROGRAM ? 1 : 64;       /* rounds between looks at the clock */
    double asked = clock_now();
    m->busy = 0;
    for (int i = 0; i < LANES; i++)
        refill(m, i);
    for (unsigned round = 1; m->busy > 0; round++) {
        if (round % look == 0 && should_stop(m, &asked)) {
            leave(l);
            return false;
        }
        lanes_compute(l);
        for (int i = 0; i < LANES; i++)
            if (l->lane[i].run && arrive(l, i))
                take_out(m, i);
        lanes_step(l);
        for (int i = 0; i < LANES && m->next < m->n; i++)
            if (!l->lane[i].run)
                refill(m, i);
    }
    return true;
}

/* A structure that has no program has none for any of its runs. */
static void fail_structure(struct march *m, size_t first)
{
    for (size_t i = first; i < m->n; i++)
        if (m->run[i].state == GROUP_OPEN && !strcmp(m->structure[i], m->structure[first]))
            m->run[i].state = GROUP_FAILED;
}

enum status group_train(struct group *g, struct group_run *run, size_t n, const struct train_control *control,
                        void (*finished)(void *context, size_t i), enum train_end *end)
{
    char (*structure)[HASH_TEXT] = memory_new(n + 1, sizeof *structure);
    const uint64_t mode = float_mode_flush();
    struct march m = {.group = g, .run = run, .n = n, .structure = (const char (*)[HASH_TEXT])structure, .control = control,
                      .finished = finished};
    enum status status = STATUS_OK;
    *end = TRAIN_FINISHED;
    for (size_t i = 0; i < n; i++)
        structure_of(run[i].spec, structure[i]);
    for (size_t i = 0; i < n && *end == TRAIN_FINISHED && status != STATUS_ENVIRONMENT; i++) {
        if (run[i].state != GROUP_OPEN)
            continue;
        status = open_structure(g, run[i].spec, structure[i]);
        if (status != STATUS_OK) {
            fail_structure(&m, i);
            continue;
        }
        m.next = i;
        if (!march(&m))
            *end = TRAIN_STOPPED;
    }
    memory_free(structure);
    float_mode_restore(mode);
    return status == STATUS_ENVIRONMENT ? status : STATUS_OK;
}
