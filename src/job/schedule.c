#include "job/schedule.h"

#include "base/memory.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdint.h>

enum { HELD_MAX = 2, NOBODY = -1 };

enum state { OPEN, RUNNING, FINISHED, FAILED, QUARANTINED };

struct tile {
    double seconds;
    enum state state;
    int holder;              /* RUNNING: the worker; else NOBODY */
    int strikes;
};

/* What the worker was given and has not reported, in the order of training. A tile that another worker has finished
 * in the meantime stays here until this one reports it too, so that the first entry is what the worker trains. */
struct worker {
    size_t held[HELD_MAX];
    int count;
};

/* `least` is a segment tree over the tiles: the smallest estimate of an open tile below each node, INFINITY where none
 * is open. The first open tile that is short enough is found by one descent. */
struct schedule {
    size_t tiles, leaves;
    int workers;
    bool stopped;
    struct tile *tile;
    struct worker *worker;
    double *least;           /* [2 * leaves]; node i has the children 2i and 2i + 1, the root is 1 */
    struct schedule_counts counts;
};

static void set_leaf(struct schedule *s, size_t tile, double value)
{
    size_t i = s->leaves + tile;
    s->least[i] = value;
    for (i /= 2; i > 0; i /= 2)
        s->least[i] = fmin(s->least[2 * i], s->least[2 * i + 1]);
}

/* The first open tile with an estimate of at most `limit` seconds (finite); false when there is none. */
static bool first_within(const struct schedule *s, double limit, size_t *tile)
{
    size_t i = 1;
    if (!(s->least[1] <= limit))
        return false;
    while (i < s->leaves)
        i = s->least[2 * i] <= limit ? 2 * i : 2 * i + 1;
    *tile = i - s->leaves;
    return true;
}

struct schedule *schedule_new(size_t tiles, const double *seconds, int workers)
{
    assert(workers >= 1);
    struct schedule *s = memory_new(1, sizeof *s);
    s->tiles = tiles;
    s->workers = workers;
    s->worker = memory_new((size_t)workers, sizeof *s->worker);
    s->tile = memory_new(tiles, sizeof *s->tile);
    for (s->leaves = 1; s->leaves < tiles;)
        s->leaves *= 2;
    s->least = memory_new(2 * s->leaves, sizeof *s->least);
    for (size_t i = 0; i < 2 * s->leaves; i++)
        s->least[i] = INFINITY;
    for (size_t t = 0; t < tiles; t++) {
        double estimate = seconds[t] < DBL_MAX ? seconds[t] : DBL_MAX;       /* not finite: the longest */
        s->tile[t] = (struct tile){estimate, OPEN, NOBODY, 0};
        s->least[s->leaves + t] = estimate;
    }
    for (size_t i = s->leaves - 1; i > 0; i--)
        s->least[i] = fmin(s->least[2 * i], s->least[2 * i + 1]);
    s->counts.open = tiles;
    return s;
}

void schedule_free(struct schedule *s)
{
    if (!s)
        return;
    memory_free(s->least);
    memory_free(s->tile);
    memory_free(s->worker);
    memory_free(s);
}

static struct worker *worker_at(const struct schedule *s, int worker)
{
    assert(worker >= 0 && worker < s->workers);
    return &s->worker[worker];
}

static struct tile *tile_at(const struct schedule *s, size_t tile)
{
    assert(tile < s->tiles);
    return &s->tile[tile];
}

static size_t *counter(struct schedule *s, enum state state)
{
    switch (state) {
    case OPEN: return &s->counts.open;
    case RUNNING: return &s->counts.running;
    case FINISHED: return &s->counts.finished;
    case FAILED: return &s->counts.failed;
    default: return &s->counts.quarantined;
    }
}

static void change(struct schedule *s, size_t tile, enum state to, int holder)
{
    struct tile *t = &s->tile[tile];
    --*counter(s, t->state);
    ++*counter(s, to);
    if (t->state == OPEN || to == OPEN)
        set_leaf(s, tile, to == OPEN ? t->seconds : INFINITY);
    t->state = to;
    t->holder = holder;
}

static bool runs_at(const struct schedule *s, size_t tile, int worker)
{
    return tile_at(s, tile)->state == RUNNING && s->tile[tile].holder == worker;
}

/* Takes the tile off the worker's list, if it is there. */
static void drop(struct schedule *s, int worker, size_t tile)
{
    struct worker *w = worker_at(s, worker);
    for (int i = 0; i < w->count; i++)
        if (w->held[i] == tile) {
            for (w->count--; i < w->count; i++)
                w->held[i] = w->held[i + 1];
            return;
        }
}

static bool choose(const struct schedule *s, double seconds_left, size_t *tile)
{
    if (first_within(s, fmin(seconds_left, DBL_MAX), tile))
        return true;
    return seconds_left >= SCHEDULE_USEFUL_SECONDS && first_within(s, DBL_MAX, tile);
}

enum schedule_answer schedule_next(struct schedule *s, int worker, double seconds_left, size_t *tile)
{
    struct worker *w = worker_at(s, worker);
    size_t chosen;
    if (s->stopped || s->counts.open + s->counts.running == 0)
        return SCHEDULE_FINISHED;
    if (w->count == HELD_MAX || (w->count > 0 && s->counts.open < (size_t)s->workers))
        return SCHEDULE_WAIT;
    if (!choose(s, seconds_left, &chosen))
        return s->counts.running > 0 ? SCHEDULE_WAIT : SCHEDULE_FINISHED;
    if (w->count > 0 && s->tile[chosen].seconds > SCHEDULE_AHEAD_SECONDS)
        return SCHEDULE_WAIT;
    change(s, chosen, RUNNING, worker);
    w->held[w->count++] = chosen;
    *tile = chosen;
    return SCHEDULE_TRAIN;
}

void schedule_holds(struct schedule *s, int worker, const size_t *tile, int n)
{
    struct worker *w = worker_at(s, worker), now = {.count = 0};
    assert(n >= 0 && n <= HELD_MAX);
    for (int i = 0; i < n; i++) {
        now.held[now.count++] = tile[i];
        if (tile_at(s, tile[i])->state == OPEN)
            change(s, tile[i], RUNNING, worker);
    }
    for (int i = 0; i < w->count; i++) {
        bool still = false;
        for (int k = 0; k < n; k++)
            still |= tile[k] == w->held[i];
        if (!still && runs_at(s, w->held[i], worker))
            change(s, w->held[i], OPEN, NOBODY);
    }
    *w = now;
}

void schedule_finished(struct schedule *s, int worker, size_t tile)
{
    drop(s, worker, tile);
    if (tile_at(s, tile)->state != FINISHED)
        change(s, tile, FINISHED, NOBODY);
}

void schedule_failed(struct schedule *s, int worker, size_t tile)
{
    drop(s, worker, tile);
    if (tile_at(s, tile)->state == OPEN || runs_at(s, tile, worker))
        change(s, tile, FAILED, NOBODY);
}

void schedule_returned(struct schedule *s, int worker, size_t tile)
{
    drop(s, worker, tile);
    if (runs_at(s, tile, worker))
        change(s, tile, OPEN, NOBODY);
}

void schedule_lost(struct schedule *s, int worker)
{
    struct worker w = *worker_at(s, worker);
    s->worker[worker].count = 0;
    for (int i = 0; i < w.count; i++) {
        size_t tile = w.held[i];
        if (!runs_at(s, tile, worker))
            continue;
        s->tile[tile].strikes += i == 0;
        change(s, tile, s->tile[tile].strikes >= SCHEDULE_STRIKES ? QUARANTINED : OPEN, NOBODY);
    }
}

void schedule_stop(struct schedule *s) { s->stopped = true; }

struct schedule_counts schedule_count(const struct schedule *s) { return s->counts; }

int schedule_strikes(const struct schedule *s, size_t tile) { return tile_at(s, tile)->strikes; }

bool schedule_quarantined(const struct schedule *s, size_t tile) { return tile_at(s, tile)->state == QUARANTINED; }

int schedule_holder(const struct schedule *s, size_t tile)
{
    return tile_at(s, tile)->state == RUNNING ? s->tile[tile].holder : NOBODY;
}

bool schedule_is_finished(const struct schedule *s, size_t tile) { return tile_at(s, tile)->state == FINISHED; }

void schedule_strikes_set(struct schedule *s, size_t tile, int strikes)
{
    tile_at(s, tile)->strikes = strikes;
    if (strikes >= SCHEDULE_STRIKES && s->tile[tile].state == OPEN)
        change(s, tile, QUARANTINED, NOBODY);
}
