/* status: what the folder holds, and what a launch that holds its lock is doing. */
#include "mpi/verbs.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "job/plan.h"
#include "job/schedule.h"
#include "mpi/progress.h"
#include "mpi/run_name.h"
#include "store/strikes.h"
#include "store/wanted.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WATCH_SECONDS 1.0            /* between looks of --watch */

struct counts {
    size_t total, done, diverged, failed, running, missing, quarantined;
    double runs_per_second, seconds_left;     /* NAN: unknown */
    int launches;                             /* at work in the folder */
};

/* Every run is exactly one of done, failed, running, quarantined, missing, and, in a refined map, unwanted; diverged
 * ones are among the done. */
enum state { DONE, FAILED, RUNNING, QUARANTINED, MISSING, UNWANTED };

/* What one look at the folder shows. */
struct view {
    struct counts counts;
    size_t runs;                 /* of the job; counts.total are those that are wanted */
    bool *wanted;                /* [runs] */
    int *outcome;                /* [runs] -1: the store lacks it */
    enum state *state;           /* [runs] */
};

static void judge_outcomes(struct view *v)
{
    for (size_t i = 0; i < v->runs; i++) {
        int o = v->outcome[i];
        v->counts.total += v->wanted[i];
        v->state[i] = !v->wanted[i] ? UNWANTED : o < 0 ? MISSING : o == OUTCOME_FAILED ? FAILED : DONE;
        v->counts.diverged += v->wanted[i] && o == OUTCOME_DIVERGED;
    }
}

/* The runs of the tile that the store lacks. */
static void mark(struct view *v, const struct plan_tile *t, enum state state)
{
    for (size_t i = t->first; i < t->first + t->count; i++)
        if (v->state[i] == MISSING)
            v->state[i] = state;
}

static bool has_strikes(const char *dir)
{
    char *path = memory_format("%s/strikes", dir);
    bool has = access(path, F_OK) == 0;
    memory_free(path);
    return has;
}

/* in: ids of the tiles that launches train now */
static void judge_tiles(struct view *v, const struct session *s, const char *ids)
{
    struct plan *p = plan_new(s->job);
    bool strikes = has_strikes(s->dir);
    for (size_t t = 0; t < p->tiles; t++) {
        if (strstr(ids, p->tile[t].id))
            mark(v, &p->tile[t], RUNNING);
        else if (strikes && strikes_count(s->dir, p->tile[t].id) >= SCHEDULE_STRIKES)
            mark(v, &p->tile[t], QUARANTINED);
    }
    plan_free(p);
}

static void count_states(struct view *v)
{
    struct counts *c = &v->counts;
    size_t *of[] = {[DONE] = &c->done, [FAILED] = &c->failed, [RUNNING] = &c->running, [QUARANTINED] = &c->quarantined,
                    [MISSING] = &c->missing};
    for (size_t i = 0; i < v->runs; i++)
        if (v->state[i] != UNWANTED)
            (*of[v->state[i]])++;
}

/* Without a launch at work only its rate is believed. */
static void judge(struct view *v, const struct session *s)
{
    struct progress_file f = {.runs_per_second = NAN, .seconds_left = NAN};
    struct counts *c = &v->counts;
    bool any = progress_read(s->dir, &f), held = any && f.launches > 0;
    judge_outcomes(v);
    judge_tiles(v, s, held ? f.ids : "");
    count_states(v);
    c->launches = held ? f.launches : 0;
    c->runs_per_second = f.runs_per_second;
    c->seconds_left = held ? f.seconds_left : (double)c->missing / c->runs_per_second;
    if (c->missing + c->running == 0)
        c->seconds_left = 0;
    if (any)
        memory_free(f.ids);
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

static bool listed(const struct options *o, enum state state)
{
    return (o->missing && state >= RUNNING && state != UNWANTED) || (o->failed && state == FAILED) ||
           (o->quarantined && state == QUARANTINED);
}

/* Why a run FAILED, or what was left of the last rank that died over its tile; "" when there is nothing. memory_free */
static char *reason(const struct session *s, size_t run, enum state state)
{
    struct record r;
    char *text = NULL;
    if (state == FAILED && store_read_run(s->store, s->job, run, &r) == STATUS_OK) {
        text = memory_text(r.error ? r.error : "");
        record_clear(&r);
    }
    if (state == QUARANTINED) {
        struct plan *p = plan_new(s->job);
        for (size_t t = 0; t < p->tiles && !text; t++)
            if (run >= p->tile[t].first && run < p->tile[t].first + p->tile[t].count)
                text = strikes_text(s->dir, p->tile[t].id, strikes_count(s->dir, p->tile[t].id));
        plan_free(p);
    }
    return text ? text : memory_text("");
}

/* On the run's line, or, when it is long, in lines of its own. */
static void add_reason(struct text *t, const char *why)
{
    if (!strchr(why, '\n')) {
        text_add(t, "%s%s\n", *why ? "  " : "", why);
        return;
    }
    text_add(t, "\n");
    for (const char *line = why; *line; line += strcspn(line, "\n"), line += *line == '\n')
        text_add(t, "    %.*s\n", (int)strcspn(line, "\n"), line);
}

static const char *state_name(const struct view *v, size_t run)
{
    static const char *const names[] = {[RUNNING] = "running", [QUARANTINED] = "quarantined", [MISSING] = "missing"};
    return v->outcome[run] >= 0 ? outcome_name((enum outcome)v->outcome[run]) : names[v->state[run]];
}

static void add_run(struct text *t, const struct session *s, const struct view *v, size_t run)
{
    bool json = s->options->json, told = v->state[run] == FAILED || v->state[run] == QUARANTINED;
    char id[HASH_TEXT], *why = told ? reason(s, run, v->state[run]) : memory_text("");
    job_id_of(s->job, run, id);
    text_add(t, json ? "{\"id\": \"%s\", \"outcome\": \"%s\"" : "%s  %-7s", id, state_name(v, run));
    run_name_add(t, s->job, run, json);
    if (json && told) {
        text_add(t, ", \"error\": ");
        text_add_json(t, why);
    }
    if (json)
        text_add(t, "}");
    else
        add_reason(t, why);
    memory_free(why);
}

static void add_list(struct text *t, const struct session *s, const struct view *v)
{
    const char *separator = "";
    for (size_t run = 0; run < v->runs; run++)
        if (listed(s->options, v->state[run])) {
            text_add(t, "%s", separator);
            add_run(t, s, v, run);
            separator = s->options->json ? ", " : "";
        }
}

/* ---- the two forms ---- */

static void add_json(struct text *t, const struct session *s, const struct view *v)
{
    const struct counts *c = &v->counts;
    text_add(t, "{\"total\": %zu, \"done\": %zu, \"diverged\": %zu, \"failed\": %zu, \"running\": %zu, \"missing\": %zu, "
             "\"quarantined\": %zu", c->total, c->done, c->diverged, c->failed, c->running, c->missing, c->quarantined);
    add_number(t, "runs_per_second", c->runs_per_second);
    add_number(t, "seconds_left", c->seconds_left);
    if (s->options->missing || s->options->failed || s->options->quarantined) {
        text_add(t, ", \"runs\": [");
        add_list(t, s, v);
        text_add(t, "]");
    }
    text_add(t, "}\n");
}

static void add_text(struct text *t, const struct session *s, const struct view *v)
{
    const struct counts *c = &v->counts;
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
    add_list(t, s, v);
}

/* ---- one look, or many ---- */

/* out: *c, and what is to be printed, appended to `t` */
static enum status look(const struct session *s, struct counts *c, struct text *t)
{
    size_t runs = job_runs(s->job);
    int damaged = 0, level;
    struct view v = {.runs = runs,
                     .wanted = memory_new(runs + 1, sizeof *v.wanted),
                     .outcome = memory_new(runs + 1, sizeof *v.outcome),
                     .state = memory_new(runs + 1, sizeof *v.state)};
    enum status status = store_scan(s->store, s->job, v.outcome, &damaged);
    if (status == STATUS_OK)
        status = wanted_runs(s->store, s->job, v.outcome, v.wanted, &level);
    if (status == STATUS_OK) {
        judge(&v, s);
        (s->options->json ? add_json : add_text)(t, s, &v);
        *c = v.counts;
    }
    memory_free(v.outcome);
    memory_free(v.state);
    memory_free(v.wanted);
    return status;
}

/* Rate and time left change all the time; what is worth a line is a run that began or ended. */
static bool same_counts(const struct counts *a, const struct counts *b)
{
    return a->done == b->done && a->failed == b->failed && a->running == b->running && a->missing == b->missing &&
           a->quarantined == b->quarantined && (a->launches > 0) == (b->launches > 0);
}

static int lines_of(const char *s)
{
    int n = 0;
    for (; *s; s++)
        n += *s == '\n';
    return n;
}

/* Looks take their time in a large folder: nine tenths of it are left to the launch. */
static void wait_for_next(double look_seconds)
{
    clock_rest(fmax(WATCH_SECONDS, 9 * look_seconds));
}

/* Until no launch is at work. A terminal is drawn over; elsewhere only changes are printed. */
static enum status watch(const struct session *s)
{
    bool terminal = isatty(STDOUT_FILENO) && !s->options->json;
    struct counts c = {.launches = 1}, shown = {0};
    int lines = 0;
    for (bool first = true; c.launches > 0; first = false) {
        struct text t = {0};
        double start = clock_now();
        enum status status = look(s, &c, &t);
        if (status != STATUS_OK)
            return status;
        if (terminal && lines)
            printf("\033[%dA\033[J", lines);
        if (terminal || first || !same_counts(&c, &shown))
            fputs(text_string(&t), stdout);
        fflush(stdout);
        lines = lines_of(text_string(&t));
        shown = c;
        text_free(&t);
        if (c.launches > 0)
            wait_for_next(clock_now() - start);
    }
    return STATUS_OK;
}

enum status verbs_status(struct session *s)
{
    enum status status = verbs_read_folder(s);
    if (status != STATUS_OK)
        return status;
    if (s->options->watch)
        return watch(s);
    struct counts c;
    struct text t = {0};
    status = look(s, &c, &t);
    if (status == STATUS_OK)
        fputs(text_string(&t), stdout);
    fflush(stdout);
    text_free(&t);
    return status;
}
