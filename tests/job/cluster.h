/* cluster.h: a simulated cluster around the scheduler, for its tests. An event queue stands for clock and messages.
 *
 * Workers hold up to two tiles, ask again when nothing comes, die alone or with their node, stand still and wake up again.
 * Messages get lost, arrive twice, or late and so in another order. The coordinator knows only what reaches it: it takes a
 * worker for lost when its heartbeats do not come for `timeout` seconds, wrongly so now and then.
 */
#ifndef TESTS_JOB_CLUSTER_H
#define TESTS_JOB_CLUSTER_H

#include "base/memory.h"
#include "base/stream.h"
#include "job/schedule.h"

#include "check.h"

struct world {
    int workers;
    size_t tiles;
    double shortest, longest;    /* seconds of the tiles, falling evenly; 0, 0: 2 to 60 */
    double latency;
    double speed_spread;         /* speeds are uniform in 1 +- this */
    int node_workers;            /* workers of a node; 0: no nodes */
    double slow_nodes, slow;     /* chance that a node is slow, and its speed */
    double node_rate;            /* failures of a node, 1/s */
    double death_rate;           /* chance per tile begun that the worker dies in it */
    double stall_rate;           /* chance per tile begun that the worker stands still for 50 timeouts */
    double loss_rate;            /* chance that a message is lost */
    double double_rate;          /* chance that it arrives twice */
    double late_rate, late;      /* chance that it is late, by up to so many seconds */
    size_t poison, broken;       /* so many tiles kill their worker, so many fail */
    double timeout;              /* without a sign of life for so long a worker is declared lost */
    uint64_t seed;
};

enum happening { ASK, ANSWER, DONE, REPORT, RETRY, WATCH, NODE_DOWN };

struct event {
    double time;
    uint64_t number;             /* ties: first in, first out */
    enum happening what;
    int worker, incarnation;
    size_t tile;
    int answer, held;
    size_t list[2];
};

struct worker {
    bool alive, left, asking, watched;
    int incarnation, held;       /* incarnation: counts up so that events of dead workers are ignored */
    int request;
    double speed, busy_until, last_end, stalled;      /* stalled: stands still until then */
    size_t list[2];
};

struct cluster {
    struct world w;
    struct schedule *s;
    struct stream random;
    struct event *heap;
    size_t events, capacity;
    uint64_t numbers, handled;
    double now, ended;           /* ended: the last tile was accepted */
    struct worker *worker;
    double *seconds;
    int *trainings, *accepted, *deaths;      /* per tile */
    int lost_wrongly;
};

/* ---- the event queue ---- */

static bool earlier(const struct event *a, const struct event *b)
{
    return a->time != b->time ? a->time < b->time : a->number < b->number;
}

static void push(struct cluster *m, double delay, struct event e)
{
    if (m->events == m->capacity) {
        size_t more = 2 * m->capacity + 1024;
        m->heap = memory_grow(m->heap, m->capacity, more, sizeof *m->heap);
        m->capacity = more;
    }
    e.time = m->now + delay;
    e.number = m->numbers++;
    size_t i = m->events++;
    for (; i > 0 && earlier(&e, &m->heap[(i - 1) / 2]); i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = e;
}

static struct event pop(struct cluster *m)
{
    struct event first = m->heap[0], last = m->heap[--m->events];
    size_t i = 0;
    for (size_t c; (c = 2 * i + 1) < m->events; i = c) {
        c += c + 1 < m->events && earlier(&m->heap[c + 1], &m->heap[c]);
        if (!earlier(&m->heap[c], &last))
            break;
        m->heap[i] = m->heap[c];
    }
    m->heap[i] = last;
    return first;
}

static bool chance(struct cluster *m, double p) { return p > 0.0 && stream_uniform(&m->random) < p; }

static bool is_unreliable(const struct world *w) { return w->loss_rate + w->double_rate + w->late_rate > 0.0; }

/* Sends a message: it may be lost, late, or there twice. */
static void deliver(struct cluster *m, struct event e)
{
    const struct world *w = &m->w;
    for (int copies = 1 + chance(m, w->double_rate); copies > 0; copies--)
        if (!chance(m, w->loss_rate))
            push(m, w->latency + (chance(m, w->late_rate) ? w->late * stream_uniform(&m->random) : 0.0), e);
}

/* ---- workers ---- */

static void ask(struct cluster *m, int w)
{
    struct worker *k = &m->worker[w];
    struct event e = {.what = ASK, .worker = w, .incarnation = k->incarnation, .held = k->held};
    memcpy(e.list, k->list, sizeof e.list);
    e.answer = ++k->request;
    k->asking = true;
    deliver(m, e);
    if (is_unreliable(&m->w))
        push(m, 20.0 * m->w.latency + 1.0, (struct event){.what = RETRY, .worker = w, .incarnation = k->incarnation,
                                                           .answer = k->request});
}

static void die(struct cluster *m, int w)
{
    struct worker *k = &m->worker[w];
    if (!k->alive)
        return;
    if (k->held > 0)
        m->deaths[k->list[0]]++;
    k->alive = false;
    k->incarnation++;
}

/* Begins the first tile of the worker's list, if there is one. */
static void begin(struct cluster *m, int w)
{
    struct worker *k = &m->worker[w];
    if (k->held == 0)
        return;
    size_t tile = k->list[0];
    double takes = m->seconds[tile] / k->speed;
    m->trainings[tile]++;
    if (tile < m->w.poison || chance(m, m->w.death_rate)) {
        die(m, w);
        return;
    }
    if (chance(m, m->w.stall_rate)) {
        k->stalled = m->now + 50.0 * m->w.timeout;
        takes += 50.0 * m->w.timeout;
    }
    k->busy_until = m->now + takes;
    push(m, takes, (struct event){.what = DONE, .worker = w, .incarnation = k->incarnation, .tile = tile});
}

static void take_answer(struct cluster *m, const struct event *e)
{
    struct worker *k = &m->worker[e->worker];
    if (e->incarnation != k->incarnation || !k->asking || e->list[0] != (size_t)k->request)
        return;
    k->asking = false;
    if (e->answer == SCHEDULE_FINISHED) {
        k->left = k->held == 0;
        return;
    }
    if (e->answer == SCHEDULE_WAIT) {
        if (k->held == 0)
            push(m, 1.0, (struct event){.what = RETRY, .worker = e->worker, .incarnation = k->incarnation, .answer = -1});
        return;
    }
    CHECK(k->held < 2);
    k->list[k->held++] = e->tile;
    if (k->held == 1)
        begin(m, e->worker);
    if (k->alive && k->held < 2)
        ask(m, e->worker);
}

static void end_tile(struct cluster *m, const struct event *e)
{
    struct worker *k = &m->worker[e->worker];
    if (e->incarnation != k->incarnation)
        return;
    k->list[0] = k->list[1];
    k->held--;
    k->last_end = m->now;
    deliver(m, (struct event){.what = REPORT, .worker = e->worker, .tile = e->tile});
    begin(m, e->worker);
    if (k->alive && !k->asking)
        ask(m, e->worker);
}

static void retry(struct cluster *m, const struct event *e)
{
    struct worker *k = &m->worker[e->worker];
    if (e->incarnation == k->incarnation && !k->left && (e->answer == -1 || (k->asking && e->answer == k->request)))
        ask(m, e->worker);
}

static void node_down(struct cluster *m, int node)
{
    struct schedule_counts c = schedule_count(m->s);
    int first = node * m->w.node_workers;
    if (c.open + c.running == 0)
        return;
    for (int w = first; w < first + m->w.node_workers && w < m->w.workers; w++)
        die(m, w);
}

/* ---- the coordinator's side ---- */

static void watch(struct cluster *m, int w)
{
    if (!m->worker[w].watched)
        push(m, m->w.timeout, (struct event){.what = WATCH, .worker = w});
    m->worker[w].watched = true;
}

static void take_ask(struct cluster *m, const struct event *e)
{
    struct event reply = {.what = ANSWER, .worker = e->worker, .incarnation = e->incarnation};
    if (is_unreliable(&m->w))
        schedule_holds(m->s, e->worker, e->list, e->held);
    reply.answer = schedule_next(m->s, e->worker, INFINITY, &reply.tile);
    reply.list[0] = (size_t)e->answer;
    watch(m, e->worker);
    deliver(m, reply);
}

static void take_report(struct cluster *m, const struct event *e)
{
    size_t before = schedule_count(m->s).finished;
    if (e->tile >= m->w.poison && e->tile < m->w.poison + m->w.broken)
        schedule_failed(m->s, e->worker, e->tile);
    else
        schedule_finished(m->s, e->worker, e->tile);
    int more = (int)(schedule_count(m->s).finished - before);
    m->accepted[e->tile] += more;
    if (more)
        m->ended = m->now;
}

/* Whether all heartbeats of the last `timeout` seconds are missing; three in a row may be lost. */
static bool is_silent(struct cluster *m, const struct worker *k)
{
    if (!k->alive || k->stalled > m->now)
        return true;
    bool wrongly = chance(m, m->w.loss_rate * m->w.loss_rate * m->w.loss_rate);
    m->lost_wrongly += wrongly;
    return wrongly;
}

static void look_at(struct cluster *m, int w)
{
    struct schedule_counts c = schedule_count(m->s);
    m->worker[w].watched = false;
    if (is_silent(m, &m->worker[w]))
        schedule_lost(m->s, w);
    else if (c.open + c.running > 0 && !m->worker[w].left)
        watch(m, w);
}

/* ---- life of a cluster ---- */

static void set_up(struct cluster *m)
{
    const struct world *w = &m->w;
    double longest = w->longest > 0.0 ? w->longest : 60.0, shortest = w->longest > 0.0 ? w->shortest : 2.0, speed = 1.0;
    for (size_t t = 0; t < w->tiles; t++)
        m->seconds[t] = shortest + (longest - shortest) * (double)(w->tiles - t) / (double)w->tiles;
    m->s = schedule_new(w->tiles, m->seconds, w->workers);
    for (int i = 0; i < w->workers; i++) {
        if (w->node_workers && i % w->node_workers == 0) {
            speed = chance(m, w->slow_nodes) ? w->slow : 1.0;
            if (w->node_rate > 0.0)
                push(m, -log(1.0 - stream_uniform(&m->random)) / w->node_rate,
                     (struct event){.what = NODE_DOWN, .worker = i / w->node_workers});
        }
        m->worker[i].alive = true;
        m->worker[i].speed = speed * (1.0 + w->speed_spread * (2.0 * stream_uniform(&m->random) - 1.0));
        ask(m, i);
    }
}

static struct cluster *cluster_run(struct world w)
{
    struct cluster *m = memory_new(1, sizeof *m);
    m->w = w;
    m->random = stream_open(w.seed, PURPOSE_PROBE, 0);
    m->worker = memory_new((size_t)w.workers, sizeof *m->worker);
    m->seconds = memory_new(w.tiles, sizeof *m->seconds);
    m->trainings = memory_new(w.tiles, sizeof *m->trainings);
    m->accepted = memory_new(w.tiles, sizeof *m->accepted);
    m->deaths = memory_new(w.tiles, sizeof *m->deaths);
    set_up(m);
    uint64_t most = 400 * w.tiles + 400 * (uint64_t)w.workers + 100000;
    while (m->events > 0 && m->handled < most) {
        struct event e = pop(m);
        m->now = e.time;
        m->handled++;
        switch (e.what) {
        case ASK: take_ask(m, &e); break;
        case ANSWER: take_answer(m, &e); break;
        case DONE: end_tile(m, &e); break;
        case REPORT: take_report(m, &e); break;
        case RETRY: retry(m, &e); break;
        case WATCH: look_at(m, e.worker); break;
        case NODE_DOWN: node_down(m, e.worker); break;
        }
    }
    if (m->events > 0)
        CHECK_FAIL("seed %llu: still %zu events after %llu: no end in sight", (unsigned long long)w.seed, m->events,
                   (unsigned long long)m->handled);
    return m;
}

static void cluster_free(struct cluster *m)
{
    schedule_free(m->s);
    memory_free(m->heap);
    memory_free(m->worker);
    memory_free(m->seconds);
    memory_free(m->trainings);
    memory_free(m->accepted);
    memory_free(m->deaths);
    memory_free(m);
}

/* ---- what came of it ---- */

static void check_tile(const struct cluster *m, size_t t)
{
    bool poison = t < m->w.poison, broken = !poison && t < m->w.poison + m->w.broken;
    int strikes = schedule_strikes(m->s, t);
    unsigned long long seed = m->w.seed;
    if (m->accepted[t] > 1)
        CHECK_FAIL("seed %llu: tile %zu was finished %d times", seed, t, m->accepted[t]);
    if (schedule_quarantined(m->s, t) && strikes != SCHEDULE_STRIKES)
        CHECK_FAIL("seed %llu: tile %zu is quarantined after %d strikes", seed, t, strikes);
    if (poison && !schedule_quarantined(m->s, t))
        CHECK_FAIL("seed %llu: tile %zu kills every worker and is not quarantined", seed, t);
    if (!poison && !broken && m->accepted[t] == 0 && !schedule_quarantined(m->s, t))
        CHECK_FAIL("seed %llu: tile %zu was neither finished nor quarantined", seed, t);
}

/* What must hold in every world in which some worker survives. */
static void check_end(const struct cluster *m)
{
    struct schedule_counts c = schedule_count(m->s);
    unsigned long long seed = m->w.seed;
    if (c.open || c.running || c.finished + c.failed + c.quarantined != m->w.tiles)
        CHECK_FAIL("seed %llu: %zu open, %zu running, %zu finished, %zu failed, %zu quarantined of %zu", seed, c.open,
                   c.running, c.finished, c.failed, c.quarantined, m->w.tiles);
    for (size_t t = 0; t < m->w.tiles; t++)
        check_tile(m, t);
    for (int w = 0; w < m->w.workers; w++)
        if (m->worker[w].alive && !m->worker[w].left)
            CHECK_FAIL("seed %llu: worker %d lives and never learned that all is done", seed, w);
}

/* Share of the surviving workers' time, until the last tile was done, in which they had nothing more to do. */
static double idle_share(const struct cluster *m)
{
    double idle = 0.0, all = 0.0;
    for (int w = 0; w < m->w.workers; w++) {
        const struct worker *k = &m->worker[w];
        if (!k->alive)
            continue;
        idle += fmax(m->ended - fmax(k->last_end, k->busy_until), 0.0);
        all += m->ended;
    }
    return idle / all;
}

/* Trainings beyond the first of each tile, over the number of tiles. */
static double repeated_share(const struct cluster *m)
{
    double repeated = 0.0;
    for (size_t t = 0; t < m->w.tiles; t++)
        repeated += m->trainings[t] > 1 ? m->trainings[t] - 1 : 0;
    return repeated / (double)m->w.tiles;
}

#endif
