/* status: what the folder holds, and what a launch that holds its lock is doing. */
#include "mpi/verbs.h"

#include "base/memory.h"
#include "base/text.h"
#include "job/plan.h"
#include "mpi/progress.h"
#include "store/lock.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct counts {
    size_t total, done, diverged, failed, running, missing, quarantined;
    double runs_per_second, seconds_left;     /* NAN: unknown */
};

/* Every run is exactly one of done, failed, running, quarantined, missing; diverged ones are among the done. */
static void count_outcomes(struct counts *c, const int *outcome)
{
    for (size_t i = 0; i < c->total; i++) {
        c->failed += outcome[i] == OUTCOME_FAILED;
        c->diverged += outcome[i] == OUTCOME_DIVERGED;
        c->done += outcome[i] >= 0 && outcome[i] != OUTCOME_FAILED;
    }
    c->missing = c->total - c->done - c->failed;
}

/* Runs of the tiles named in `ids` that the store lacks. */
static size_t running(const struct job *job, const int *outcome, const char *ids)
{
    size_t n = 0;
    struct plan *p = plan_new(job);
    for (size_t t = 0; t < p->tiles; t++)
        if (strstr(ids, p->tile[t].id))
            for (size_t i = 0; i < p->tile[t].count; i++)
                n += outcome[p->tile[t].first + i] < 0;
    plan_free(p);
    return n;
}

static void count_launch(struct counts *c, const struct session *s, const int *outcome)
{
    struct progress_file f;
    char *lock = memory_format("%s/lock", s->dir);
    bool held = lock_is_held(lock);
    memory_free(lock);
    c->runs_per_second = c->seconds_left = NAN;
    if (progress_read(s->dir, &f)) {
        c->runs_per_second = f.runs_per_second;
        c->running = held ? running(s->job, outcome, f.ids) : 0;
        c->missing -= c->running;
        c->quarantined = held ? f.quarantined : 0;
        if (c->quarantined > c->missing)
            c->quarantined = c->missing;
        c->missing -= c->quarantined;
        c->seconds_left = held ? f.seconds_left : (double)c->missing / c->runs_per_second;
        memory_free(f.ids);
    }
    if (c->missing + c->running == 0)
        c->seconds_left = 0;
}

static void add_number(struct text *t, const char *key, double value)
{
    text_add(t, ", \"%s\": ", key);
    if (isfinite(value))
        text_add(t, "%.6g", value);
    else
        text_add(t, "null");
}

/* ---- lists of runs ---- */

static bool listed(const struct options *o, int outcome)
{
    return (o->missing && outcome < 0) || (o->failed && outcome == OUTCOME_FAILED);
}

/* "train.lr 0.1", a choice or truth value by its word. */
static void add_axis(struct text *t, const struct axis *a, int position, bool json)
{
    double v = a->value[position];
    text_add(t, json ? ", \"%s\": " : "  %s ", a->key->path);
    if (a->key->type == KEY_CHOICE)
        text_add(t, json ? "\"%s\"" : "%s", a->key->words[(int)v]);
    else if (a->key->type == KEY_BOOL)
        text_add(t, "%s", v != 0 ? "true" : "false");
    else
        text_add_double(t, v);
}

static void add_error(struct text *t, const struct session *s, size_t run, bool json)
{
    struct record r;
    if (store_read_run(s->store, s->job, run, &r) != STATUS_OK)
        return;
    text_add(t, json ? ", \"error\": " : "  ");
    if (json)
        text_add_json(t, r.error ? r.error : "");
    else
        text_add(t, "%s", r.error ? r.error : "");
    record_clear(&r);
}

static void add_run(struct text *t, const struct session *s, size_t run, int outcome, bool json)
{
    char id[HASH_TEXT];
    int position[JOB_AXES_MAX], seed;
    const struct job *job = s->job;
    job_id_of(job, run, id);
    job_locate(job, run, position, &seed);
    text_add(t, json ? "{\"id\": \"%s\", \"outcome\": \"%s\", \"seed\": %llu" : "%s  %-7s  seed %llu", id,
             outcome < 0 ? "missing" : outcome_name((enum outcome)outcome), (unsigned long long)job->seed[seed]);
    for (int a = 0; a < job->axes; a++)
        add_axis(t, &job->axis[a], position[a], json);
    if (outcome == OUTCOME_FAILED)
        add_error(t, s, run, json);
    text_add(t, json ? "}" : "\n");
}

static void add_list(struct text *t, const struct session *s, const int *outcome)
{
    bool json = s->options->json;
    const char *separator = "";
    for (size_t run = 0; run < job_runs(s->job); run++)
        if (listed(s->options, outcome[run])) {
            text_add(t, "%s", separator);
            add_run(t, s, run, outcome[run], json);
            separator = json ? ", " : "";
        }
}

/* ---- the two forms ---- */

static void add_json(struct text *t, const struct session *s, const struct counts *c, const int *outcome)
{
    text_add(t, "{\"total\": %zu, \"done\": %zu, \"diverged\": %zu, \"failed\": %zu, \"running\": %zu, \"missing\": %zu, "
             "\"quarantined\": %zu", c->total, c->done, c->diverged, c->failed, c->running, c->missing, c->quarantined);
    add_number(t, "runs_per_second", c->runs_per_second);
    add_number(t, "seconds_left", c->seconds_left);
    if (s->options->missing || s->options->failed) {
        text_add(t, ", \"runs\": [");
        add_list(t, s, outcome);
        text_add(t, "]");
    }
    text_add(t, "}\n");
}

static void add_text(struct text *t, const struct session *s, const struct counts *c, const int *outcome)
{
    text_add(t, "%s: %zu of %zu runs done (%zu diverged), %zu failed, %zu running, %zu missing", s->dir, c->done, c->total,
             c->diverged, c->failed, c->running, c->missing);
    if (c->quarantined)
        text_add(t, ", %zu quarantined", c->quarantined);
    if (c->running + c->missing && isfinite(c->runs_per_second)) {
        text_add(t, "; %.3g runs/s, ", c->runs_per_second);
        progress_add_time(t, c->seconds_left);
        text_add(t, " left");
    }
    text_add(t, "\n");
    add_list(t, s, outcome);
}

enum status verbs_status(struct session *s)
{
    enum status status = verbs_read_folder(s);
    if (status != STATUS_OK)
        return status;
    struct counts c = {.total = job_runs(s->job)};
    int damaged = 0, *outcome = memory_new(c.total + 1, sizeof *outcome);
    status = store_scan(s->store, s->job, outcome, &damaged);
    if (status == STATUS_OK) {
        count_outcomes(&c, outcome);
        count_launch(&c, s, outcome);
        struct text t = {0};
        (s->options->json ? add_json : add_text)(&t, s, &c, outcome);
        fputs(text_string(&t), stdout);
        fflush(stdout);
        text_free(&t);
    }
    memory_free(outcome);
    return status;
}
