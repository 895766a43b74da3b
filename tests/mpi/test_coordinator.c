// ranks: 1 2 3 7
/* Coordinator and workers with work that only counts: every tile once, at any number of ranks; failures, stops, limits. */
#include "ranks.h"

#include "base/log.h"
#include "base/memory.h"
#include "mpi/coordinator.h"
#include "mpi/signals.h"
#include "mpi/uplink.h"

#include <time.h>

enum { TILES_MAX = 64 };

/* What the work does with a tile. */
struct fake {
    const struct world *world;
    double seconds;              /* a tile takes this long */
    double estimate;             /* and was expected to take this long */
    int failing;                 /* this tile cannot be stored */
    int max_failures;
    int signal_tile;             /* whoever gets this tile is sent SIGUSR1 */
    int started[TILES_MAX], finished[TILES_MAX], returned[TILES_MAX];
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum work_end work_on(void *context, size_t tile, struct worker *w)
{
    struct fake *f = context;
    double began = now();
    f->started[tile]++;
    if ((int)tile == f->signal_tile)
        raise(SIGUSR1);
    while (now() - began < f->seconds) {
        if (worker_should_stop(w)) {
            f->returned[tile]++;
            return WORK_RETURNED;
        }
        worker_progress(w, 0, 1, (now() - began) / f->seconds);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    worker_run_ended(w, tile % 2 ? OUTCOME_DIVERGED : OUTCOME_DONE, false, NULL);
    if ((int)tile == f->failing) {
        worker_failed_text(w, "no room");
        return WORK_FAILED;
    }
    f->finished[tile]++;
    return WORK_FINISHED;
}

static void sum(const struct world *w, int *counts)
{
    MPI_Allreduce(MPI_IN_PLACE, counts, TILES_MAX, MPI_INT, MPI_SUM, w->comm);
}

/* One launch; the counts of f are those of all ranks afterwards. */
static struct coordinator_result launch(struct fake *f, size_t tiles, double seconds_left)
{
    struct work work = {.context = f, .tile = work_on};
    struct coordinator_result r = {0};
    MPI_Comm comm = f->world->comm;
    if (f->world->rank == 0) {
        struct coordinator_tile *tile = memory_new(tiles + 1, sizeof *tile);
        for (size_t i = 0; i < tiles; i++)
            tile[i] = (struct coordinator_tile){.id = "0123", .seconds = f->estimate, .runs = 1};
        struct progress_setup show = {.quiet = true, .runs = tiles, .seconds = (double)tiles * f->estimate};
        struct progress *progress = progress_new(&show);
        struct coordinator_setup setup = {.comm = comm, .tiles = tiles, .tile = tile, .seconds_left = seconds_left,
                                          .progress = progress, .peers = f->world->peers, .heartbeat = 30,
                                          .max_failures = f->max_failures};
        struct line own;
        struct coordinator *c = coordinator_start(&setup, &own);
        worker_run(&own, &work);
        r = coordinator_end(c);
        progress_free(progress);
        memory_free(tile);
    } else {
        struct line line;
        struct uplink *u = uplink_open(comm, f->world->peers, 30, &line);
        CHECK_INT(worker_run(&line, &work), WORKER_TOGETHER);
        uplink_close(u);
        messages_settle(false);
    }
    MPI_Bcast(&r, sizeof r, MPI_BYTE, 0, comm);
    sum(f->world, f->started);
    sum(f->world, f->finished);
    sum(f->world, f->returned);
    return r;
}

static struct fake fake_new(const struct world *w, double seconds)
{
    return (struct fake){.world = w, .seconds = seconds, .estimate = seconds, .failing = -1, .signal_tile = -1};
}

static void every_tile_once(const struct world *w, size_t tiles, double seconds)
{
    struct fake f = fake_new(w, seconds);
    struct coordinator_result r = launch(&f, tiles, INFINITY);
    for (size_t i = 0; i < tiles; i++) {
        CHECK_INT(f.started[i], 1);
        CHECK_INT(f.finished[i], 1);
    }
    CHECK_INT(r.finished, tiles);
    CHECK_INT(r.open, 0);
    CHECK_INT(r.failed, 0);
    CHECK_INT(r.outcome[OUTCOME_DONE], (tiles + 1) / 2);
    CHECK_INT(r.outcome[OUTCOME_DIVERGED], tiles / 2);
}

static void a_failing_tile(const struct world *w)
{
    struct fake f = fake_new(w, 0.002);
    f.failing = 3;
    struct coordinator_result r = launch(&f, 10, INFINITY);
    for (int i = 0; i < 10; i++) {
        CHECK_INT(f.started[i], 1);
        CHECK_INT(f.finished[i], i != 3);
    }
    CHECK_INT(r.finished, 9);
    CHECK_INT(r.failed, 1);
    CHECK_INT(r.open, 0);
    CHECK_INT(r.outcome[OUTCOME_DIVERGED], 4);
    CHECK_TEXT(r.failed_text, "no room");
}

static void the_first_failure_stops_all(const struct world *w)
{
    struct fake f = fake_new(w, 0.02);
    f.failing = 0;
    f.max_failures = 1;
    struct coordinator_result r = launch(&f, 60, INFINITY);
    CHECK(r.too_many_failures);
    CHECK_INT(r.failed, 1);
    CHECK(r.open > 0);
    CHECK_INT(r.finished + r.failed + r.open, 60);
}

/* Work that takes a minute, against its estimate, is left at the limit. */
static void the_time_limit(const struct world *w)
{
    struct fake f = fake_new(w, 60);
    f.estimate = 0.01;
    double began = now();
    struct coordinator_result r = launch(&f, 20, 0.3);
    CHECK(now() - began < 10);
    CHECK_INT(r.finished, 0);
    CHECK_INT(r.open, 20);
    int started = 0, returned = 0;
    for (int i = 0; i < 20; i++) {
        started += f.started[i];
        returned += f.returned[i];
    }
    CHECK_INT(returned, started);
    CHECK(started >= w->size);
}

static void after_the_time_limit_nothing_starts(const struct world *w)
{
    struct fake f = fake_new(w, 60);
    struct coordinator_result r = launch(&f, 5, -1);
    for (int i = 0; i < 5; i++)
        CHECK_INT(f.finished[i], 0);
    CHECK_INT(r.open, 5);
}

/* One rank is sent a signal: all give back what they hold; nothing is lost and nothing is done twice. */
static void a_signal_on_one_rank(const struct world *w)
{
    struct fake f = fake_new(w, 0.05);
    f.signal_tile = 10;
    double began = now();
    struct coordinator_result r = launch(&f, 60, INFINITY);
    int finished = 0;
    for (int i = 0; i < 60; i++) {
        CHECK(f.started[i] <= 1);
        CHECK_INT(f.finished[i] + f.returned[i], f.started[i]);
        finished += f.finished[i];
    }
    CHECK_INT(f.returned[10], 1);
    CHECK_INT(r.finished, finished);
    CHECK_INT(r.open, 60 - finished);
    CHECK(r.open > 0);
    CHECK(now() - began < 10);
}

int main(int argc, char **argv)
{
    struct world w;
    CHECK_OK(world_open(&argc, &argv, &w));
    alarm(100);
    signals_catch();
    log_threshold(LOG_ERROR + 1);
    every_tile_once(&w, 1, 0.001);
    every_tile_once(&w, 40, 0);
    every_tile_once(&w, 40, 0.003);
    int bad = ranks_report(&w, "coordinator_every_tile_once");
    every_tile_once(&w, 5, 0.02);
    bad |= ranks_report(&w, "coordinator_more_ranks_than_tiles");
    a_failing_tile(&w);
    bad |= ranks_report(&w, "coordinator_failing_tile");
    the_first_failure_stops_all(&w);
    bad |= ranks_report(&w, "coordinator_max_failures");
    the_time_limit(&w);
    after_the_time_limit_nothing_starts(&w);
    bad |= ranks_report(&w, "coordinator_time_limit");
    a_signal_on_one_rank(&w);
    bad |= ranks_report(&w, "coordinator_signal_on_one_rank");
    if (w.rank == 0)
        CHECK_INT(memory_balance(), 0);
    bad |= ranks_report(&w, "coordinator_frees_all");
    world_close(&w);
    return bad;
}
