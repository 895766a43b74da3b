/* The scheduler under simulated clusters: an event queue stands for clock and messages. The simulated workers keep up to
 * two tiles, ask again when nothing comes, die, stall, and lose messages; the coordinator knows only what reaches it. */
#include "base/memory.h"
#include "base/stream.h"
#include "job/schedule.h"

#include "check.h"

#include <time.h>

/* ---- a cluster ---- */

struct world {
    int workers;
    size_t tiles;
    double latency;
    double speed_spread;         /* speeds are uniform in 1 +- this */
    double death_rate;           /* chance per tile begun that the worker dies in it */
    double stall_rate;           /* chance per tile begun that the worker stands still for 50 timeouts */
    double loss_rate;            /* chance that a message is lost */
    size_t poison, broken;       /* so many tiles kill their worker, so many fail */
    double timeout;              /* without a sign of life for so long a worker is declared lost */
    uint64_t seed;
};

enum happening { ASK, ANSWER, DONE, REPORT, RETRY, NOTICE };

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
    bool alive, left, asking;
    int incarnation, held;       /* incarnation: counts up so that events of dead workers are ignored */
    int request;
    double speed, busy_until, last_end;
    size_t list[2];
};

struct sim {
    struct world w;
    struct schedule *s;
    struct stream random;
    struct event *heap;
    size_t events, capacity;
    uint64_t numbers, handled;
    double now;
    struct worker *worker;
    double *seconds;
    int *trainings, *accepted, *deaths;      /* per tile */
};

static bool earlier(const struct event *a, const struct event *b)
{
    return a->time != b->time ? a->time < b->time : a->number < b->number;
}

static void push(struct sim *m, double delay, struct event e)
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

static struct event pop(struct sim *m)
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

static bool chance(struct sim *m, double p) { return p > 0.0 && stream_uniform(&m->random) < p; }

/* ---- workers ---- */

static void ask(struct sim *m, int w)
{
    struct worker *k = &m->worker[w];
    struct event e = {.what = ASK, .worker = w, .incarnation = k->incarnation, .held = k->held};
    memcpy(e.list, k->list, sizeof e.list);
    e.answer = ++k->request;
    k->asking = true;
    if (!chance(m, m->w.loss_rate))
        push(m, m->w.latency, e);
    if (m->w.loss_rate > 0.0)
        push(m, 20.0 * m->w.latency + 1.0, (struct event){.what = RETRY, .worker = w, .incarnation = k->incarnation,
                                                           .answer = k->request});
}

static void die(struct sim *m, int w)
{
    struct worker *k = &m->worker[w];
    k->alive = false;
    k->incarnation++;
    push(m, m->w.timeout, (struct event){.what = NOTICE, .worker = w});
}

/* Begins the first tile of the worker's list, if there is one. */
static void begin(struct sim *m, int w)
{
    struct worker *k = &m->worker[w];
    if (k->held == 0)
        return;
    size_t tile = k->list[0];
    double takes = m->seconds[tile] / k->speed;
    m->trainings[tile]++;
    if (tile < m->w.poison || chance(m, m->w.death_rate)) {
        m->deaths[tile]++;
        die(m, w);
        return;
    }
    if (chance(m, m->w.stall_rate)) {
        takes += 50.0 * m->w.timeout;
        push(m, m->w.timeout, (struct event){.what = NOTICE, .worker = w});
    }
    k->busy_until = m->now + takes;
    push(m, takes, (struct event){.what = DONE, .worker = w, .incarnation = k->incarnation, .tile = tile});
}

static void take_answer(struct sim *m, const struct event *e)
{
    struct worker *k = &m->worker[e->worker];
    if (e->incarnation != k->incarnation || (!k->asking && m->w.loss_rate == 0.0))
        return;
    bool current = k->asking && e->list[0] == (size_t)k->request;
    if (!current)
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

static void end_tile(struct sim *m, const struct event *e)
{
    struct worker *k = &m->worker[e->worker];
    if (e->incarnation != k->incarnation)
        return;
    k->list[0] = k->list[1];
    k->held--;
    k->last_end = m->now;
    if (!chance(m, m->w.loss_rate))
        push(m, m->w.latency, (struct event){.what = REPORT, .worker = e->worker, .tile = e->tile});
    begin(m, e->worker);
    if (k->alive && !k->asking)
        ask(m, e->worker);
}

static void retry(struct sim *m, const struct event *e)
{
    struct worker *k = &m->worker[e->worker];
    if (e->incarnation == k->incarnation && !k->left && (e->answer == -1 || (k->asking && e->answer == k->request)))
        ask(m, e->worker);
}

/* ---- the coordinator's side ---- */

static void take_ask(struct sim *m, const struct event *e)
{
    struct event reply = {.what = ANSWER, .worker = e->worker, .incarnation = e->incarnation};
    if (m->w.loss_rate > 0.0)
        schedule_holds(m->s, e->worker, e->list, e->held);
    reply.answer = schedule_next(m->s, e->worker, INFINITY, &reply.tile);
    reply.list[0] = (size_t)e->answer;
    if (!chance(m, m->w.loss_rate))
        push(m, m->w.latency, reply);
}

static void take_report(struct sim *m, const struct event *e)
{
    size_t before = schedule_count(m->s).finished;
    if (e->tile >= m->w.poison && e->tile < m->w.poison + m->w.broken)
        schedule_failed(m->s, e->worker, e->tile);
    else
        schedule_finished(m->s, e->worker, e->tile);
    m->accepted[e->tile] += (int)(schedule_count(m->s).finished - before);
}

static void notice(struct sim *m, const struct event *e)
{
    const struct worker *k = &m->worker[e->worker];
    if (!k->alive || k->busy_until > m->now + m->w.timeout)      /* dead, or silent for a long time yet */
        schedule_lost(m->s, e->worker);
}

static struct sim *run(struct world w)
{
    struct sim *m = memory_new(1, sizeof *m);
    m->w = w;
    m->random = stream_open(w.seed, PURPOSE_PROBE, 0);
    m->worker = memory_new((size_t)w.workers, sizeof *m->worker);
    m->seconds = memory_new(w.tiles, sizeof *m->seconds);
    m->trainings = memory_new(w.tiles, sizeof *m->trainings);
    m->accepted = memory_new(w.tiles, sizeof *m->accepted);
    m->deaths = memory_new(w.tiles, sizeof *m->deaths);
    double longest = 60.0;
    for (size_t t = 0; t < w.tiles; t++)      /* longest first, from 60 s to 2 s */
        m->seconds[t] = 2.0 + (longest - 2.0) * (double)(w.tiles - t) / (double)w.tiles;
    m->s = schedule_new(w.tiles, m->seconds, w.workers);
    for (int i = 0; i < w.workers; i++) {
        m->worker[i].alive = true;
        m->worker[i].speed = 1.0 + w.speed_spread * (2.0 * stream_uniform(&m->random) - 1.0);
        ask(m, i);
    }
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
        case NOTICE: notice(m, &e); break;
        }
    }
    if (m->events > 0)
        CHECK_FAIL("seed %llu: still %zu events after %llu: no end in sight", (unsigned long long)w.seed, m->events,
                   (unsigned long long)m->handled);
    return m;
}

static void free_sim(struct sim *m)
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

/* What must hold in every world in which some worker survives. */
static void check_end(const struct sim *m)
{
    struct schedule_counts c = schedule_count(m->s);
    unsigned long long seed = m->w.seed;
    if (c.open || c.running || c.finished + c.failed + c.quarantined != m->w.tiles)
        CHECK_FAIL("seed %llu: %zu open, %zu running, %zu finished, %zu failed, %zu quarantined of %zu", seed, c.open,
                   c.running, c.finished, c.failed, c.quarantined, m->w.tiles);
    for (size_t t = 0; t < m->w.tiles; t++) {
        bool poison = t < m->w.poison, broken = !poison && t < m->w.poison + m->w.broken;
        int strikes = schedule_strikes(m->s, t);
        if (m->accepted[t] > 1)
            CHECK_FAIL("seed %llu: tile %zu was finished %d times", seed, t, m->accepted[t]);
        if (schedule_quarantined(m->s, t) && strikes != SCHEDULE_STRIKES)
            CHECK_FAIL("seed %llu: tile %zu is quarantined after %d strikes", seed, t, strikes);
        if (poison && !schedule_quarantined(m->s, t))
            CHECK_FAIL("seed %llu: tile %zu kills every worker and is not quarantined", seed, t);
        if (!poison && !broken && m->accepted[t] == 0 && !schedule_quarantined(m->s, t))
            CHECK_FAIL("seed %llu: tile %zu was neither finished nor quarantined", seed, t);
    }
    for (int w = 0; w < m->w.workers; w++)
        if (m->worker[w].alive && !m->worker[w].left)
            CHECK_FAIL("seed %llu: worker %d lives and never learned that all is done", seed, w);
}

static double idle_share(const struct sim *m)
{
    double end = 0.0, busy = 0.0, all = 0.0;
    for (int w = 0; w < m->w.workers; w++)
        end = fmax(end, m->worker[w].last_end);
    for (int w = 0; w < m->w.workers; w++) {
        busy += m->worker[w].last_end;
        all += end;
    }
    return 1.0 - busy / all;
}

/* ---- tests ---- */

TEST(without_trouble_every_tile_is_trained_once)
{
    const int workers[] = {1, 2, 7, 100, 10000};
    for (int i = 0; i < 5; i++) {
        struct world w = {.workers = workers[i], .tiles = 20000, .latency = 1e-3, .timeout = 10.0, .seed = 100 + (uint64_t)i};
        struct sim *m = run(w);
        check_end(m);
        for (size_t t = 0; t < w.tiles; t++)
            if (m->trainings[t] != 1)
                CHECK_FAIL("seed %llu: tile %zu was trained %d times", (unsigned long long)w.seed, t, m->trainings[t]);
        /* Graham's bound for list scheduling, and what fetching ahead may add to it */
        double total = 0.0, end = 0.0;
        for (size_t t = 0; t < w.tiles; t++)
            total += m->seconds[t];
        for (int k = 0; k < w.workers; k++)
            end = fmax(end, m->worker[k].last_end);
        double messages = 4.0 * w.latency * (2.0 + 2.0 * (double)w.tiles / w.workers);
        CHECK(end <= total / w.workers + m->seconds[0] + SCHEDULE_AHEAD_SECONDS + messages);
        CHECK(end >= total / w.workers);
        free_sim(m);
    }
    CHECK_INT(memory_balance(), 0);
}

TEST(the_tail_is_short_for_unequal_workers)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct world w = {.workers = 500, .tiles = 20000, .latency = 1e-3, .speed_spread = 0.5, .timeout = 1e9, .seed = seed};
        struct sim *m = run(w);
        check_end(m);
        double idle = idle_share(m);
        printf("# seed %llu: idle share of the tail %.4f\n", (unsigned long long)seed, idle);
        CHECK(idle < 0.01);
        free_sim(m);
    }
}

TEST(deaths_poison_and_broken_tiles)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct world w = {.workers = 400 + 800 * (int)(seed % 4), .tiles = 6000, .latency = 1e-3, .speed_spread = 0.4,
                          .death_rate = 0.01, .poison = 20, .broken = 30, .timeout = 15.0, .seed = seed};
        struct sim *m = run(w);
        check_end(m);
        struct schedule_counts c = schedule_count(m->s);
        CHECK_INT(c.failed, w.broken);
        for (size_t t = 0; t < w.poison; t++)
            CHECK_INT(m->deaths[t], SCHEDULE_STRIKES);
        for (size_t t = w.poison; t < w.tiles; t++)
            if (schedule_quarantined(m->s, t) && m->deaths[t] != SCHEDULE_STRIKES)
                CHECK_FAIL("seed %llu: tile %zu is quarantined, but %d workers died in it", (unsigned long long)seed, t,
                           m->deaths[t]);
        free_sim(m);
    }
    CHECK_INT(memory_balance(), 0);
}

TEST(lost_messages_stalls_and_deaths_together)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct world w = {.workers = 50 + 150 * (int)(seed % 3), .tiles = 3000, .latency = 5e-3, .speed_spread = 0.5,
                          .death_rate = 0.002, .stall_rate = 0.01, .loss_rate = 0.02 * (double)(seed % 4), .poison = 3,
                          .broken = 5, .timeout = 15.0, .seed = 1000 + seed};
        struct sim *m = run(w);
        check_end(m);
        free_sim(m);
    }
}

TEST(ten_thousand_workers_and_a_storm)
{
    struct world w = {.workers = 10000, .tiles = 40000, .latency = 2e-3, .speed_spread = 0.5, .death_rate = 0.02,
                      .stall_rate = 0.005, .poison = 50, .broken = 50, .timeout = 20.0, .seed = 4711};
    struct sim *m = run(w);
    check_end(m);
    free_sim(m);
}

TEST(a_hundred_thousand_tiles_take_well_under_a_second)
{
    const size_t tiles = 100000;
    double *seconds = memory_new(tiles, sizeof *seconds);
    for (size_t t = 0; t < tiles; t++)
        seconds[t] = (double)(tiles - t);
    clock_t start = clock();
    struct schedule *s = schedule_new(tiles, seconds, 1000);
    size_t tile, done = 0;
    while (schedule_next(s, (int)(done % 1000), 1e4 + (double)(done % 7) * 1e4, &tile) == SCHEDULE_TRAIN) {
        schedule_finished(s, (int)(done % 1000), tile);
        done++;
    }
    double took = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("# 100,000 decisions in %.3f s\n", took);
    CHECK_INT(done, tiles);
    CHECK(took < 0.5);
    schedule_free(s);
    memory_free(seconds);
}
