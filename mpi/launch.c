#include "mpi/launch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "job/plan.h"
#include "mpi/agree.h"
#include "mpi/coordinator.h"
#include "mpi/limits.h"
#include "mpi/peers.h"
#include "mpi/messages.h"
#include "mpi/signals.h"
#include "mpi/trainer.h"
#include "mpi/uplink.h"
#include "run/group.h"
#include "store/strikes.h"
#include "store/wanted.h"

#include <limits.h>
#include <string.h>

/* The open tiles of a job, in the order in which they are handed out. */
struct open_tiles {
    size_t count;
    size_t *tile;                    /* number in the plan */
    struct coordinator_tile *cost;
    double seconds;
};

/* Whether tile t of the plan is this launch's. */
static bool is_mine(const struct launch_options *o, size_t t)
{
    return o->parts == 0 || t % (size_t)o->parts == (size_t)o->part - 1;
}

static struct open_tiles open_tiles(const struct plan *p, const bool *missing, const char *dir)
{
    struct open_tiles o = {.tile = memory_new(p->tiles + 1, sizeof *o.tile),
                           .cost = memory_new(p->tiles + 1, sizeof *o.cost)};
    size_t *order = memory_new(p->tiles + 1, sizeof *order);
    plan_order(p, order);
    for (size_t k = 0; k < p->tiles; k++) {
        const struct plan_tile *t = &p->tile[order[k]];
        size_t runs = 0;
        for (size_t i = 0; i < t->count; i++)
            runs += missing[t->first + i];
        if (runs == 0)
            continue;
        double seconds = t->seconds * (double)runs / (double)t->count;
        o.cost[o.count] = (struct coordinator_tile){.id = t->id, .seconds = seconds, .runs = runs,
                                                    .strikes = strikes_count(dir, t->id)};
        o.tile[o.count++] = order[k];
        o.seconds += seconds;
    }
    memory_free(order);
    return o;
}

static void open_tiles_free(struct open_tiles *o)
{
    memory_free(o->tile);
    memory_free(o->cost);
}

/* Rank 0 looks into the store; all get to know. out: outcome[runs], -1 where a run is missing */
static enum status look(const struct world *w, struct store *store, const struct job *job, int *outcome)
{
    int damaged = 0;
    size_t runs = job_runs(job);
    enum status status = w->rank == 0 ? store_scan(store, job, outcome, &damaged) : STATUS_OK;
    status = agree_root(w->comm, 0, status);
    if (status != STATUS_OK)
        return status;
    if (w->rank == 0 && damaged)
        log_line(LOG_WARNING, "%d damaged tile file%s moved to %s/damaged; the runs are trained again", damaged,
                 damaged == 1 ? " was" : "s were", store_dir(store));
    for (size_t first = 0; first < runs; first += INT_MAX / 2) {
        size_t n = runs - first < INT_MAX / 2 ? runs - first : INT_MAX / 2;
        MPI_Bcast(outcome + first, (int)n, MPI_INT, 0, w->comm);
    }
    return STATUS_OK;
}

/* The missing runs of other parts are not missing here. */
static void count(struct launch_result *r, const struct plan *p, const struct launch_options *o, const int *outcome,
                  const bool *wanted, bool *missing)
{
    for (size_t t = 0; t < p->tiles; t++)
        for (size_t i = p->tile[t].first; i < p->tile[t].first + p->tile[t].count; i++) {
            if (!wanted[i])
                continue;
            if (!missing[i])
                r->outcome[outcome[i]]++;
            else if (is_mine(o, t))
                r->missing++;
            else
                missing[i] = false;
        }
}

/* Tiles of other parts whose file is not there (their runs that FAILED are in it). */
static void count_elsewhere(struct launch_result *r, const struct store *store, const struct plan *p,
                            const struct launch_options *o)
{
    for (size_t t = 0; t < p->tiles; t++)
        if (!is_mine(o, t) && !store_has_tile(store, p->tile[t].id))
            r->missing_elsewhere += p->tile[t].count;
}

/* ---- rank 0: what the coordinator touches ---- */

struct desk {
    struct store *store;
    const struct open_tiles *open;
};

static bool evicted(void *context) { return store_is_lost(((struct desk *)context)->store); }

static int lost(void *context, size_t tile, int worker, const char *why)
{
    struct desk *d = context;
    const char *id = d->open->cost[tile].id;
    strikes_lost(d->store, id, worker, why);
    return strikes_count(store_dir(d->store), id);
}

/* Rank 0's part: the coordinator runs beside its own worker. */
static struct coordinator_result coordinate(const struct world *w, struct store *store, const struct open_tiles *open,
                                            const struct launch_options *options, const struct work *work,
                                            const struct launch_result *before)
{
    struct progress_setup show = {.dir = store_dir(store), .store = store, .quiet = options->quiet, .seconds = open->seconds,
                                  .part = options->part, .parts = options->parts, .runs = before->missing};
    for (int o = 0; o < OUTCOME_COUNT; o++)
        show.runs += show.outcome[o] = before->outcome[o];
    struct progress *progress = progress_new(&show);
    struct desk desk = {.store = store, .open = open};
    struct coordinator_setup setup = {.comm = w->comm, .tiles = open->count, .tile = open->cost,
                                      .seconds_left = options->seconds_left, .progress = progress, .peers = w->peers,
                                      .heartbeat = options->heartbeat, .max_failures = options->max_failures,
                                      .hooks = {.context = &desk, .evicted = evicted, .lost = lost}};
    struct line own;
    struct coordinator *c = coordinator_start(&setup, &own);
    worker_run(&own, work);
    struct coordinator_result r = coordinator_end(c);
    progress_free(progress);
    return r;
}

static enum status judge(const struct coordinator_result *c, struct launch_result *r)
{
    for (int o = 0; o < OUTCOME_COUNT; o++) {
        r->outcome[o] += c->outcome[o];
        r->missing -= c->outcome[o];
    }
    r->tiles_failed = c->failed;
    r->tiles_quarantined = c->quarantined;
    r->ranks_lost = c->lost;
    if (c->evicted)
        return status_fail(STATUS_LOCKED, "another launch has taken the folder over while this one gave no sign of life, or "
                           "the folder was removed: this launch has stopped writing. What it had finished is kept");
    if (c->too_many_failures)
        return status_fail(STATUS_RUNS_FAILED, "stopped after %d failures (--max-failures): %zu runs FAILED, %zu tiles could "
                           "not be finished, %zu runs are missing%s%s", (int)(r->outcome[OUTCOME_FAILED] + c->failed),
                           r->outcome[OUTCOME_FAILED], c->failed, r->missing, c->failed ? ": " : "", c->failed_text);
    if (c->failed)
        return status_fail(STATUS_IO, "%zu tile%s could not be finished (%zu runs are missing): %s. Everything else is kept; "
                           "when that is mended, run the same command again", c->failed, c->failed == 1 ? "" : "s",
                           r->missing, c->failed_text);
    if (c->open)
        return status_fail(STATUS_STOPPED, "stopped early; run the same command again to go on");
    if (c->quarantined)
        log_line(LOG_WARNING, "%zu tile%s lost %s rank again and again and %s left out", c->quarantined,
                 c->quarantined == 1 ? "" : "s", c->quarantined == 1 ? "its" : "their", c->quarantined == 1 ? "is" : "are");
    return STATUS_OK;
}

/* The other ranks' part. */
static enum worker_end work_for(const struct world *w, const struct launch_options *options, const struct work *work)
{
    struct line line;
    struct uplink *u = uplink_open(w->comm, w->peers, options->heartbeat, &line);
    enum worker_end end = worker_run(&line, work);
    uplink_close(u);
    messages_settle(end != WORKER_TOGETHER);
    return end;
}

/* Notes the signal of a crash for the strike of the tile. */
static void crashed(int number) { strikes_signal(number); }

static enum status train_open(struct world *w, const struct trainer *trainer, const struct open_tiles *open,
                              const struct launch_options *options, struct launch_result *result)
{
    struct work work = {.context = (void *)trainer, .tile = trainer_tile};
    enum status status = STATUS_OK;
    enum worker_end end = WORKER_TOGETHER;
    signals_catch_crashes(crashed);
    peers_guard_stop();              /* from here on ranks may die */
    if (w->rank == 0) {
        struct coordinator_result r = coordinate(w, trainer->store, open, options, &work, result);
        status = judge(&r, result);
        end = r.lost ? WORKER_ALONE : WORKER_TOGETHER;
    } else {
        end = work_for(w, options, &work);
    }
    if (end == WORKER_TOGETHER) {
        peers_guard_start(w->peers);
        return agree_root(w->comm, 0, status);
    }
    world_break(w);
    if (end == WORKER_ORPHANED)
        return status_fail(STATUS_IO, "rank 0 is gone: run the same command again");
    return w->rank == 0 ? status : STATUS_STOPPED;
}

/* ---- checkpoints and strikes of finished tiles: of ranks taken for dead, or killed before they removed theirs ---- */

struct broom {
    struct store *store;
    const struct plan *plan;
    const struct launch_options *options;
    const bool *missing;
};

/* Whether nothing of the tile is open; also of one that an earlier launch cut differently, when no run is missing at all. */
static bool is_done(const struct broom *b, const char *tile_id)
{
    if (!b->missing && !b->options->parts)
        return true;
    for (size_t t = 0; t < b->plan->tiles; t++) {
        const struct plan_tile *tile = &b->plan->tile[t];
        bool open = false;
        if (strcmp(tile->id, tile_id) || !is_mine(b->options, t))
            continue;
        for (size_t i = 0; i < tile->count && b->missing; i++)
            open |= b->missing[tile->first + i];
        return !open;
    }
    return false;
}

static void sweep_checkpoint(void *context, const char *tile_id)
{
    const struct broom *b = context;
    if (is_done(b, tile_id))
        store_drop_checkpoint(b->store, tile_id);
}

static void sweep_strikes(void *context, const char *tile_id)
{
    const struct broom *b = context;
    if (is_done(b, tile_id))
        strikes_clear(b->store, tile_id);
}

/* `missing` NULL: no run is, and a whole launch leaves nothing at all. */
static void tidy(struct store *store, const struct plan *plan, const struct launch_options *options, const bool *missing)
{
    struct broom b = {.store = store, .plan = plan, .options = options, .missing = missing};
    store_each_checkpoint(store, sweep_checkpoint, &b);
    strikes_each(store, sweep_strikes, &b);
    strikes_tidy(store);
}

/* Files that were there, or were published in this launch, and are gone.   fails: STATUS_IO */
static enum status check_vanished(const struct store *store, const struct open_tiles *open, const struct launch_result *r)
{
    size_t n = store_vanished(store);
    for (size_t i = 0; i < open->count && r->missing == 0; i++)
        n += !store_has_tile(store, open->cost[i].id);
    if (n == 0)
        return STATUS_OK;
    return status_fail(
        STATUS_IO,
        "%s: %zu finished tile file%s vanished while the launch worked here: somebody removes files. Run "
        "the same command again",
        store_dir(store), n, n == 1 ? " has" : "s have");
}

/* ---- rounds: all at once, or the levels of a refined map one after another ---- */

/* Which runs are wanted now, by what rank 0 sees. */
static enum status want(const struct world *w, struct store *store, const struct job *job, const int *outcome,
                        bool *wanted, int *level)
{
    size_t runs = job_runs(job);
    enum status status = w->rank == 0 || !job->order ? wanted_runs(store, job, outcome, wanted, level) : STATUS_OK;
    status = agree_root(w->comm, 0, status);
    if (status != STATUS_OK || !job->order)
        return status;
    MPI_Bcast(level, 1, MPI_INT, 0, w->comm);
    for (size_t first = 0; first < runs; first += INT_MAX / 2) {
        size_t n = runs - first < INT_MAX / 2 ? runs - first : INT_MAX / 2;
        MPI_Bcast(wanted + first, (int)n, MPI_C_BOOL, 0, w->comm);
    }
    return STATUS_OK;
}

/* What a round works with. */
struct round {
    struct plan *plan;
    int *outcome;
    bool *missing, *wanted;
    int level;
    bool trained;                    /* there was something to train */
};

static void say_level(const struct world *w, const struct job *job, const struct round *r, size_t missing)
{
    if (w->rank == 0 && job->order && missing)
        log_line(LOG_INFO, "level %d of the refined map: %zu runs to train", r->level, missing);
}

/* Trains what is wanted and missing.   fails: as launch_train */
static enum status go_round(struct world *w, struct store *store, const struct job *job, const struct launch_options *all,
                            struct launch_result *result, struct round *r)
{
    size_t runs = job_runs(job);
    enum status status = look(w, store, job, r->outcome);
    if (status == STATUS_OK)
        status = want(w, store, job, r->outcome, r->wanted, &r->level);
    if (status != STATUS_OK)
        return status;
    *result = (struct launch_result){0};
    for (size_t i = 0; i < runs; i++) {
        r->missing[i] = r->wanted[i] &&
                        (r->outcome[i] < 0 || (all->retry_failed && !r->trained && r->outcome[i] == OUTCOME_FAILED));
        result->runs += r->wanted[i];
    }
    count(result, r->plan, all, r->outcome, r->wanted, r->missing);
    say_level(w, job, r, result->missing);
    if (w->rank == 0)
        tidy(store, r->plan, all, r->missing);
    struct open_tiles open = open_tiles(r->plan, r->missing, store_dir(store));
    struct trainer trainer = {.job = job, .plan = r->plan, .store = store, .rank = w->rank, .missing = r->missing,
                              .open = open.tile, .group = group_new()};
    r->trained = open.count > 0;
    if (open.count)
        status = train_open(w, &trainer, &open, all, result);
    group_free(trainer.group);
    if (w->rank == 0) {
        count_elsewhere(result, store, r->plan, all);
        if (status == STATUS_OK)
            status = check_vanished(store, &open, result);
        if (result->missing == 0 && status == STATUS_OK)
            tidy(store, r->plan, all, NULL);
        strikes_tidy(store);
    }
    status = agree_root(w->comm, 0, status);
    open_tiles_free(&open);
    return status;
}

/* Whether another level may follow: the one at hand is complete, and nobody is lost. */
static bool goes_on(struct world *w, const struct job *job, const struct launch_result *result, const struct round *r)
{
    int more = job->order && r->trained && result->missing == 0 && !result->ranks_lost && !result->tiles_quarantined;
    if (w->broken)
        return false;
    MPI_Bcast(&more, 1, MPI_INT, 0, w->comm);
    return more != 0;
}

/* With a rank lost, rank 0 trains the level to its end alone and no further one begins.   fails: STATUS_STOPPED where one is
 * wanted */
static enum status check_complete(struct store *store, const struct job *job, struct round *r)
{
    int damaged = 0;
    size_t missing = 0;
    enum status status = store_scan(store, job, r->outcome, &damaged);
    if (status == STATUS_OK)
        status = wanted_runs(store, job, r->outcome, r->wanted, &r->level);
    for (size_t i = 0; i < job_runs(job) && status == STATUS_OK; i++)
        missing += r->wanted[i] && r->outcome[i] < 0;
    return missing ? status_fail(STATUS_STOPPED, "ranks were lost before the refined map was complete: %zu runs of its level %d are "
                                 "missing; run the same command again to go on", missing, r->level)
                   : status;
}

enum status launch_train(struct world *w, struct store *store, const struct job *job,
                         const struct launch_options *options, struct launch_result *result)
{
    size_t runs = job_runs(job);
    struct round r = {.plan = plan_new(job), .outcome = memory_new(runs + 1, sizeof *r.outcome),
                      .missing = memory_new(runs + 1, sizeof *r.missing), .wanted = memory_new(runs + 1, sizeof *r.wanted)};
    struct launch_options all = *options;
    *result = (struct launch_result){.runs = runs};
    enum status status = limits_check(w, r.plan, w->rank == 0 ? store_dir(store) : ".");
    if (status != STATUS_OK)
        goto out;
    MPI_Bcast(&all, sizeof all, MPI_BYTE, 0, w->comm);
    if (job->order && all.parts) {
        status = status_fail(
            STATUS_USAGE, "a refined map cannot be trained in parts: what comes next depends on all that came before; "
                          "start one launch");
        goto out;
    }
    if (w->rank == 0 && all.retry_quarantined)
        for (size_t t = 0; t < r.plan->tiles; t++)
            strikes_clear(store, r.plan->tile[t].id);
    const double deadline = clock_now() + all.seconds_left;
    do {
        all.seconds_left = deadline - clock_now();
        status = go_round(w, store, job, &all, result, &r);
    } while (status == STATUS_OK && goes_on(w, job, result, &r));
    if (status == STATUS_OK && job->order && w->rank == 0 && result->ranks_lost)
        status = check_complete(store, job, &r);
out:
    plan_free(r.plan);
    memory_free(r.outcome);
    memory_free(r.missing);
    memory_free(r.wanted);
    return status;
}
