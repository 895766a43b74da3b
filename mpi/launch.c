#include "mpi/launch.h"

#include "base/log.h"
#include "base/memory.h"
#include "job/plan.h"
#include "mpi/agree.h"
#include "mpi/coordinator.h"
#include "mpi/limits.h"
#include "mpi/trainer.h"

#include <limits.h>

/* The open tiles of a job, in the order in which they are handed out. */
struct open_tiles {
    size_t count;
    size_t *tile;                    /* number in the plan */
    struct coordinator_tile *cost;
    double seconds;
};

static struct open_tiles open_tiles(const struct plan *p, const bool *missing)
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
        o.cost[o.count] = (struct coordinator_tile){.id = t->id, .seconds = seconds, .runs = runs};
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

static void count(struct launch_result *r, const int *outcome, const bool *missing)
{
    for (size_t i = 0; i < r->runs; i++) {
        if (missing[i])
            r->missing++;
        else
            r->outcome[outcome[i]]++;
    }
}

/* Rank 0's part: the coordinator runs beside its own worker. */
static struct coordinator_result coordinate(const struct world *w, struct store *store, const struct open_tiles *open,
                                            const struct launch_options *options, const struct work *work,
                                            const struct launch_result *before)
{
    struct progress_setup show = {.dir = store_dir(store), .quiet = options->quiet, .runs = before->runs,
                                  .seconds = open->seconds};
    for (int o = 0; o < OUTCOME_COUNT; o++)
        show.outcome[o] = before->outcome[o];
    struct progress *progress = progress_new(&show);
    struct coordinator_setup setup = {.comm = w->comm, .tiles = open->count, .tile = open->cost,
                                      .seconds_left = options->seconds_left, .progress = progress};
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
    if (c->failed)
        return status_fail(STATUS_IO, "%zu tile%s could not be finished (%zu runs are missing): %s. Everything else is kept; "
                           "when that is mended, run the same command again", c->failed, c->failed == 1 ? "" : "s",
                           r->missing, c->failed_text);
    if (c->open)
        return status_fail(STATUS_STOPPED, "stopped early; run the same command again to go on");
    if (c->quarantined)
        log_line(LOG_WARNING, "%zu tiles lost their ranks again and again and were left out (%zu runs are missing)",
                 c->quarantined, r->missing);
    return STATUS_OK;
}

static enum status train_open(const struct world *w, const struct trainer *trainer, const struct open_tiles *open,
                              const struct launch_options *options, struct launch_result *result)
{
    struct work work = {.context = (void *)trainer, .tile = trainer_tile};
    enum status status = STATUS_OK;
    if (w->rank == 0) {
        struct coordinator_result r = coordinate(w, trainer->store, open, options, &work, result);
        status = judge(&r, result);
    } else {
        MPI_Comm comm = w->comm;
        struct line line = worker_line(&comm);
        worker_run(&line, &work);
    }
    return agree_root(w->comm, 0, status);
}

enum status launch_train(const struct world *w, struct store *store, const struct job *job,
                         const struct launch_options *options, struct launch_result *result)
{
    size_t runs = job_runs(job);
    *result = (struct launch_result){.runs = runs};
    int *outcome = memory_new(runs + 1, sizeof *outcome);
    bool *missing = memory_new(runs + 1, sizeof *missing);
    struct plan *plan = plan_new(job);
    bool retry = options->retry_failed;
    enum status status = limits_check(w, plan, w->rank == 0 ? store_dir(store) : ".");
    if (status == STATUS_OK)
        status = look(w, store, job, outcome);
    if (status != STATUS_OK)
        goto out;
    MPI_Bcast(&retry, sizeof retry, MPI_BYTE, 0, w->comm);
    for (size_t i = 0; i < runs; i++)
        missing[i] = outcome[i] < 0 || (retry && outcome[i] == OUTCOME_FAILED);
    count(result, outcome, missing);
    struct open_tiles open = open_tiles(plan, missing);
    struct trainer trainer = {.job = job, .plan = plan, .store = store, .missing = missing, .open = open.tile};
    if (open.count)
        status = train_open(w, &trainer, &open, options, result);
    open_tiles_free(&open);
out:
    plan_free(plan);
    memory_free(missing);
    memory_free(outcome);
    return status;
}
