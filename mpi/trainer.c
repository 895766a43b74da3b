#include "mpi/trainer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "mpi/tile_checkpoint.h"
#include "run/group.h"
#include "run/train.h"
#include "store/strikes.h"

#include <math.h>
#include <string.h>

/* A tile that cannot be written is tried again after a pause that doubles, until this much time has passed. */
#define RETRY_SECONDS 30.0
#define RETRY_FIRST_SECONDS 0.25
#define RETRY_MOST_SECONDS 5.0

/* A tile while it is worked on. */
struct tile_work {
    const struct trainer *trainer;
    const struct plan_tile *tile;
    struct worker *worker;
    size_t wanted, done;         /* missing runs; of these, finished */
    struct record *record;       /* [tile->count] */
    bool *have;                  /* [tile->count] the record is there */
    char current[HASH_TEXT];     /* id of the run being trained */
    void *bytes;                 /* the checkpoint the tile goes on from, or NULL */
    struct tile_checkpoint resumed;
    double saved;                /* clock at the last checkpoint */
    bool complained;             /* one could not be written: said once a tile, though each text names another file */
};

static bool is_missing(const struct tile_work *t, size_t i) { return t->trainer->missing[t->tile->first + i]; }

/* The finished runs in order; their insides stay t's. Returns how many. out: finished[tile->count] */
static int finished_records(const struct tile_work *t, struct record *finished)
{
    int n = 0;
    for (size_t i = 0; i < t->tile->count; i++)
        if (t->have[i])
            finished[n++] = t->record[i];
    return n;
}

/* Writes the finished runs and the state of the current one (NULL: between two runs). */
static enum status checkpoint(struct tile_work *t, const void *state, size_t n)
{
    if (worker_should_drop(t->worker))           /* another rank's checkpoints are ahead of ours */
        return STATUS_OK;
    struct tile_checkpoint c = {.record = memory_new(t->tile->count, sizeof *c.record), .state = state, .length = n};
    c.finished = (size_t)finished_records(t, c.record);
    if (state)
        memcpy(c.current, t->current, sizeof c.current);
    struct text bytes = {0};
    tile_checkpoint_write(&bytes, t->tile->id, &c);
    enum status status = store_put_checkpoint(t->trainer->store, t->tile->id, bytes.s, bytes.length);
    if (status == STATUS_OK)
        strikes_clear(t->trainer->store, t->tile->id);
    else if (!t->complained)
        log_line(LOG_WARNING, "a checkpoint could not be written; the training goes on without: %s", status_text());
    t->complained |= status != STATUS_OK;
    text_free(&bytes);
    memory_free(c.record);
    t->saved = clock_now();
    return status;
}

/* ---- hooks of train_run ---- */

static bool should_stop(void *context) { return worker_should_stop(((struct tile_work *)context)->worker); }

static enum status save(void *context, const void *bytes, size_t n)
{
    checkpoint(context, bytes, n);
    return STATUS_OK;
}

static void progress(void *context, uint64_t step, uint64_t steps)
{
    struct tile_work *t = context;
    worker_progress(t->worker, t->done, t->wanted, steps ? (double)step / (double)steps : 1.0);
}

/* ---- runs ---- */

static void ended(struct tile_work *t, size_t i, bool restored)
{
    const struct record *r = &t->record[i];
    char *text = r->outcome == OUTCOME_FAILED ? memory_format("run %s (seed %llu) FAILED: %s", r->id,
                                                              (unsigned long long)r->seed, r->error ? r->error : "") : NULL;
    t->have[i] = true;
    t->done++;
    worker_run_ended(t->worker, r->outcome, restored, text);
    memory_free(text);
}

static void make_failed(struct record *r, const char *id, uint64_t seed, const char *why)
{
    *r = (struct record){.seed = seed, .outcome = OUTCOME_FAILED, .last_finite_step = -1, .loss_train = NAN,
                         .loss_test = NAN, .accuracy_train = NAN, .accuracy_test = NAN, .element_size = 4,
                         .emergence_step = NAN, .error = memory_text(why)};
    memcpy(r->id, id, sizeof r->id);
}

/* Trains run i of the tile.
 * WORK_FINISHED: its record is there; WORK_RETURNED: it was stopped and lies in the checkpoint; WORK_FAILED: this machine
 * cannot train it, which says nothing about the run */
static enum work_end train(struct tile_work *t, size_t i)
{
    struct spec *spec = memory_new(1, sizeof *spec);
    uint64_t seed;
    job_run(t->trainer->job, t->tile->first + i, spec, &seed);
    job_run_id(spec, seed, t->current);
    strikes_run(t->current);
    bool resumes = !strcmp(t->resumed.current, t->current);
    struct train_control control = {.context = t, .should_stop = should_stop, .save = save, .progress = progress};
    enum train_end end = TRAIN_FINISHED;
    enum status status = train_run(spec, seed, &control, resumes ? t->resumed.state : NULL,
                                   resumes ? t->resumed.length : 0, &t->record[i], &end);
    memory_free(spec);
    if (status == STATUS_OK && end == TRAIN_STOPPED)
        return WORK_RETURNED;
    if (status == STATUS_ENVIRONMENT) {
        worker_failed_text(t->worker, status_text());
        return WORK_FAILED;
    }
    if (status != STATUS_OK)
        make_failed(&t->record[i], t->current, seed, status_text());
    ended(t, i, false);
    return WORK_FINISHED;
}

/* Puts the finished runs of an earlier launch in place. What no longer belongs here (the run is in the store by now, or is
 * to be trained anew) stays in the checkpoint's own list and dies with it. */
static void resume(struct tile_work *t)
{
    size_t n;
    char id[HASH_TEXT];
    if (store_get_checkpoint(t->trainer->store, t->tile->id, &t->bytes, &n) != STATUS_OK || !t->bytes)
        return;
    if (tile_checkpoint_read(t->bytes, n, t->tile->id, &t->resumed) != STATUS_OK) {
        log_line(LOG_WARNING, "tile %s starts anew: %s", t->tile->id, status_text());
        return;
    }
    for (size_t i = 0; i < t->tile->count; i++) {
        if (!is_missing(t, i))
            continue;
        job_id_of(t->trainer->job, t->tile->first + i, id);
        for (size_t k = 0; k < t->resumed.finished && !t->have[i]; k++)
            if (!strcmp(t->resumed.record[k].id, id)) {
                t->record[i] = t->resumed.record[k];
                t->resumed.record[k] = (struct record){0};
                ended(t, i, true);
            }
    }
}

/* A rank that died just after it had published the tile has left nothing to do.   Returns whether that is so */
static bool is_published(struct tile_work *t)
{
    const struct trainer *r = t->trainer;
    char id[HASH_TEXT];
    if (!store_has_tile(r->store, t->tile->id))
        return false;
    int *outcome = memory_new(t->tile->count, sizeof *outcome);
    bool all = true;
    for (size_t i = 0; i < t->tile->count && all; i++) {
        if (!is_missing(t, i))
            continue;
        job_id_of(r->job, t->tile->first + i, id);
        outcome[i] = store_tile_outcome(r->store, t->tile->id, id);
        all = outcome[i] >= 0 && outcome[i] != OUTCOME_FAILED;
    }
    for (size_t i = 0; i < t->tile->count && all; i++)
        if (is_missing(t, i))
            worker_run_ended(t->worker, (enum outcome)outcome[i], true, NULL);
    memory_free(outcome);
    if (all) {
        store_drop_checkpoint(r->store, t->tile->id);
        strikes_clear(r->store, t->tile->id);
    }
    return all;
}

/* ---- the tile ---- */

/* Tries again for a while when the cause may pass by itself. */
static enum status put_tile(struct tile_work *t, const struct record *finished, int n)
{
    const struct trainer *r = t->trainer;
    double until = clock_now() + RETRY_SECONDS, pause = RETRY_FIRST_SECONDS;
    for (;;) {
        enum status status = store_put_tile(r->store, r->job, t->tile, finished, n);
        if (status != STATUS_IO || !store_may_pass() || clock_now() + pause > until)
            return status;
        log_line(LOG_WARNING, "%s; trying again for %.0f s", status_text(), RETRY_SECONDS);
        for (double wake = clock_now() + pause; clock_now() < wake;) {
            if (worker_should_stop(t->worker))
                return status;
            clock_rest(0.01);
        }
        pause = fmin(2 * pause, RETRY_MOST_SECONDS);
    }
}

static enum work_end finish(struct tile_work *t)
{
    const struct trainer *r = t->trainer;
    struct record *finished = memory_new(t->tile->count, sizeof *finished);
    int n = finished_records(t, finished);
    enum status status = put_tile(t, finished, n);
    memory_free(finished);
    if (status == STATUS_OK) {
        store_drop_checkpoint(r->store, t->tile->id);
        strikes_clear(r->store, t->tile->id);
        return WORK_FINISHED;
    }
    worker_failed_text(t->worker, status_text());
    checkpoint(t, NULL, 0);
    return WORK_FAILED;
}

static bool checkpoint_due(const struct tile_work *t)
{
    return clock_now() - t->saved >= t->trainer->job->spec.store.checkpoint_every;
}

/* ---- runs that are trained side by side (run/group.h) ---- */

/* At most so many at once: each needs its keys in memory. */
#define GROUP_RUNS_MAX 2048

struct company {
    struct tile_work *work;
    size_t n, *number;               /* in the tile */
    struct spec *spec;
    struct group_run *run;
};

static bool company_should_stop(void *context) { return worker_should_stop(((struct company *)context)->work->worker); }

static void company_finished(void *context, size_t i)
{
    struct company *c = context;
    ended(c->work, c->number[i], false);
    worker_progress(c->work->worker, c->work->done, c->work->wanted, 0.0);
}

static bool has_company(const struct tile_work *t, size_t i)
{
    struct spec *spec = memory_new(1, sizeof *spec);
    uint64_t seed;
    job_run(t->trainer->job, t->tile->first + i, spec, &seed);
    bool fits = group_fits(spec);
    memory_free(spec);
    return fits;
}

/* Gathers run `first`, which fits, and the missing ones behind it that do. */
static void gather_company(struct tile_work *t, size_t first, struct company *c)
{
    const struct trainer *r = t->trainer;
    const size_t left = t->tile->count - first, room = left < GROUP_RUNS_MAX ? left : GROUP_RUNS_MAX;
    *c = (struct company){.work = t, .number = memory_new(room, sizeof *c->number), .spec = memory_new(room, sizeof *c->spec),
                          .run = memory_new(room, sizeof *c->run)};
    for (size_t i = first; i < t->tile->count && c->n < room; i++) {
        if (t->have[i] || !is_missing(t, i))
            continue;
        struct group_run *run = &c->run[c->n];
        job_run(r->job, t->tile->first + i, &c->spec[c->n], &run->seed);
        if (!group_fits(&c->spec[c->n]))
            return;
        run->spec = &c->spec[c->n];
        run->record = &t->record[i];
        c->number[c->n++] = i;
    }
}

static void drop_company(struct company *c)
{
    memory_free(c->number);
    memory_free(c->spec);
    memory_free(c->run);
}

static void record_failed(struct company *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->run[i].state == GROUP_FAILED) {
            char id[HASH_TEXT];
            job_run_id(c->run[i].spec, c->run[i].seed, id);
            make_failed(c->run[i].record, id, c->run[i].seed, status_text());
            ended(c->work, c->number[i], false);
        }
}

/* Trains run `first` of the tile with its company. */
static enum work_end train_together(struct tile_work *t, size_t first)
{
    struct company c;
    gather_company(t, first, &c);
    struct train_control control = {.context = &c, .should_stop = company_should_stop};
    enum train_end how;
    enum status status = group_train(t->trainer->group, c.run, c.n, &control, company_finished, &how);
    if (status == STATUS_OK)
        record_failed(&c);
    else
        worker_failed_text(t->worker, status_text());
    enum work_end end = status != STATUS_OK ? WORK_FAILED : how == TRAIN_STOPPED ? WORK_RETURNED : WORK_FINISHED;
    drop_company(&c);
    if (end == WORK_RETURNED)
        checkpoint(t, NULL, 0);
    return end;
}

static enum work_end train_all(struct tile_work *t)
{
    bool fresh = false;      /* runs have finished since the last checkpoint */
    for (size_t i = 0; i < t->tile->count; i++) {
        if (t->have[i] || !is_missing(t, i))
            continue;
        if (worker_should_stop(t->worker)) {
            if (fresh)
                checkpoint(t, NULL, 0);
            return WORK_RETURNED;
        }
        if (fresh && checkpoint_due(t)) {
            checkpoint(t, NULL, 0);
            fresh = false;
        }
        enum work_end end = has_company(t, i) ? train_together(t, i) : train(t, i);
        if (end != WORK_FINISHED)
            return end;
        fresh = true;
    }
    return finish(t);
}

enum work_end trainer_tile(void *context, size_t tile, struct worker *w)
{
    struct trainer *r = context;
    struct tile_work t = {.trainer = r, .tile = &r->plan->tile[r->open[tile]], .worker = w, .saved = clock_now()};
    t.record = memory_new(t.tile->count, sizeof *t.record);
    t.have = memory_new(t.tile->count, sizeof *t.have);
    for (size_t i = 0; i < t.tile->count; i++)
        t.wanted += is_missing(&t, i);
    enum work_end end = WORK_FINISHED;
    if (!is_published(&t)) {
        strikes_begin(r->store, t.tile->id, r->rank);
        resume(&t);
        end = train_all(&t);
        strikes_end(r->store, t.tile->id, r->rank);
    }
    for (size_t i = 0; i < t.tile->count; i++)
        record_clear(&t.record[i]);
    tile_checkpoint_clear(&t.resumed);
    memory_free(t.bytes);
    memory_free(t.record);
    memory_free(t.have);
    return end;
}
