/* train, gather and run: the verbs of all ranks. */
#include "mpi/verbs.h"

#include "base/clock.h"
#include "analysis/claims.h"
#include "analysis/gather.h"
#include "analysis/report.h"
#include "base/float_mode.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "mpi/advice.h"
#include "mpi/agree.h"
#include "mpi/signals.h"
#include "probe/ace.h"
#include "run/train.h"
#include "store/wanted.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- opening ---- */

/* Gives rank 0's text (NULL elsewhere) to all ranks; memory_free. */
static char *spread_text(const struct world *w, const char *text)
{
    int n = text ? (int)strlen(text) + 1 : 0;
    MPI_Bcast(&n, 1, MPI_INT, 0, w->comm);
    char *copy = memory_new((size_t)n, 1);
    if (text)
        memcpy(copy, text, (size_t)n);
    MPI_Bcast(copy, n, MPI_CHAR, 0, w->comm);
    return copy;
}

enum status verbs_join(struct session *s)
{
    bool first = s->world->rank == 0;
    char *text = first ? job_print(s->job) : NULL;
    char *effective = spread_text(s->world, text), *dir = spread_text(s->world, s->dir);
    struct store_ticket ticket = first ? store_ticket(s->store) : (struct store_ticket){0};
    MPI_Bcast(&ticket, sizeof ticket, MPI_BYTE, 0, s->world->comm);
    enum status status = STATUS_OK;
    if (!first) {
        s->dir = memory_text(dir);
        status = job_parse(effective, "job.yaml", NULL, 0, &s->job);
        if (status == STATUS_OK)
            status = store_join(s->dir, s->job, &s->store);
        if (status == STATUS_OK)
            store_adopt(s->store, &ticket);
    }
    memory_free(text);
    memory_free(effective);
    memory_free(dir);
    return agree(s->world->comm, status);
}

/* The job's process grid needs its ranks; better said before hours of training than after. */
static enum status check_grid(const struct session *s)
{
    const struct key_list *grid = &s->job->spec.gather.grid;
    int64_t rows = grid->value[0], columns = grid->value[1];
    if (rows * columns <= s->world->size)
        return STATUS_OK;
    return status_fail(STATUS_USAGE, "the job's gather.grid [%lld, %lld] needs %lld ranks, there %s %d: start with mpirun -n "
                       "%lld, or choose --set 'gather.grid=[1, 1]'", (long long)rows, (long long)columns,
                       (long long)(rows * columns), s->world->size == 1 ? "is" : "are", s->world->size,
                       (long long)(rows * columns));
}

static enum status open_store(struct session *s)
{
    const struct options *o = s->options;
    struct lease_terms terms = {.part = o->part_number, .parts = o->part_count, .seconds = o->heartbeat_seconds,
                                .wait = o->wait_seconds};
    return store_open_terms(s->dir, s->job, &terms, &s->store);
}

static enum status open_job(struct session *s)
{
    enum status status = STATUS_OK;
    if (s->world->rank == 0) {
        status = verbs_read_job(s);
        if (status == STATUS_OK && s->options->verb == VERB_run)
            status = check_grid(s);
        if (status == STATUS_OK)
            status = open_store(s);
    }
    status = agree_root(s->world->comm, 0, status);
    return status == STATUS_OK ? verbs_join(s) : status;
}

/* Opens a folder that is there already, with the lock; --set may change what does not belong to a run. */
static enum status lock_folder(struct session *s)
{
    enum status status = verbs_read_folder(s);
    if (status != STATUS_OK)
        return status;
    store_close(s->store);
    s->store = NULL;
    if (s->options->sets_count) {
        char *text = job_print(s->job);
        job_free(s->job);
        s->job = NULL;
        status = job_parse(text, "job.yaml", s->options->sets, s->options->sets_count, &s->job);
        memory_free(text);
    }
    if (status == STATUS_OK)
        status = open_store(s);
    return status;
}

/* ---- train ---- */

static double seconds_left(const struct session *s)
{
    double left = s->options->seconds - (clock_now() - s->started);
    const char *end = getenv("SLURM_JOB_END_TIME");
    if (end && atoll(end) > 0)
        left = fmin(left, difftime((time_t)atoll(end), time(NULL)));
    /* Room for the checkpoints: a twentieth of the time, at most half a minute. */
    return isfinite(left) ? left - fmin(fmax(0.05 * left, 0), 30) : left;
}

static void say_trained(const struct session *s)
{
    const struct launch_result *r = &s->trained;
    struct text t = {0};
    for (int o = 0; o < OUTCOME_COUNT; o++)
        if (r->outcome[o] || o == OUTCOME_DONE)
            text_add(&t, "%zu %s, ", r->outcome[o], outcome_name((enum outcome)o));
    const struct options *o = s->options;
    if (o->part_count)
        log_line(LOG_INFO, "%s: part %d of %d: %zu runs: %s%zu missing here, %zu in other parts", s->dir, o->part_number,
                 o->part_count, r->runs, text_string(&t), r->missing, r->missing_elsewhere);
    else
        log_line(LOG_INFO, "%s: %zu runs: %s%zu missing", s->dir, r->runs, text_string(&t), r->missing);
    text_free(&t);
}

static void say_restart(const struct session *s)
{
    struct text t = {0};
    char *path = memory_format("%s/progress.json", s->dir), *before = text_read_file(path, NULL);
    if (s->world->rank == 0)
        advice_add_restart(&t, before);
    if (t.length)
        log_line(LOG_INFO, "%s", text_string(&t));
    text_free(&t);
    memory_free(before);
    memory_free(path);
}

static enum status train(struct session *s)
{
    struct launch_options options = {.quiet = s->options->quiet, .retry_failed = s->options->retry_failed,
                                     .retry_quarantined = s->options->retry_quarantined,
                                     .max_failures = s->options->failures, .heartbeat = s->options->heartbeat_seconds,
                                     .part = s->options->part_number, .parts = s->options->part_count,
                                     .seconds_left = seconds_left(s)};
    advice_give(s->world);
    say_restart(s);
    enum status status = launch_train(s->world, s->store, s->job, &options, &s->trained);
    signals_release();
    if (s->world->rank == 0)
        say_trained(s);
    return status;
}

/* Exit code 1 for what is finished and yet not all right. */
static enum status judge_trained(const struct session *s)
{
    size_t failed = s->trained.outcome[OUTCOME_FAILED];
    if (failed)
        return status_fail(STATUS_RUNS_FAILED, "%zu run%s FAILED: `invar status %s --failed` says why", failed,
                           failed == 1 ? "" : "s", s->dir);
    if (s->trained.tiles_quarantined)
        return status_fail(STATUS_RUNS_FAILED, "quarantined tiles remain (%zu), %zu run%s missing: `invar status %s "
                           "--quarantined` says more, --retry-quarantined tries again", s->trained.tiles_quarantined,
                           s->trained.missing, s->trained.missing == 1 ? " is" : "s are", s->dir);
    if (s->trained.missing)
        return status_fail(STATUS_RUNS_FAILED, "%zu runs are missing: `invar status %s --missing` lists them",
                           s->trained.missing, s->dir);
    return STATUS_OK;
}

enum status verbs_train(struct session *s)
{
    enum status status = open_job(s);
    if (status == STATUS_OK)
        status = train(s);
    if (status == STATUS_OK && s->world->rank == 0)
        status = judge_trained(s);
    return agree_root(s->world->comm, 0, status);
}

/* ---- gather ---- */

/* The model of a run is built again and its layer ablated through the consensus. */
static enum status ablate(void *context, const struct job *job, size_t run, const struct record *r,
                          const double *consensus, size_t samples, int dim, double *keep, double *removed)
{
    (void)context;
    struct spec *spec = memory_new(1, sizeof *spec);
    struct model *model = NULL;
    struct task *task = NULL;
    uint64_t seed;
    job_run(job, run, spec, &seed);
    uint64_t mode = float_mode_flush();       /* as in training, so that accuracies compare */
    enum status status = train_restore(spec, r, &model, &task);
    if (status == STATUS_OK) {
        status = ace_consensus(model, task, spec, consensus, samples, dim, keep, removed);
        model_free(model);
        task_free(task);
    }
    float_mode_restore(mode);
    memory_free(spec);
    return status;
}

static enum status gather_all(struct session *s)
{
    struct gather_hooks hooks = {.ablate = ablate};
    if (s->world->rank == 0)
        log_line(LOG_INFO, "gathering");
    return gather(s->world->comm, s->store, s->job, &hooks);
}

static enum status say_missing(struct session *s)
{
    size_t all = job_runs(s->job), runs = 0, missing = 0;
    int damaged = 0, level, *outcome = memory_new(all + 1, sizeof *outcome);
    bool *wanted = memory_new(all + 1, sizeof *wanted);
    enum status status = store_scan(s->store, s->job, outcome, &damaged);
    if (status == STATUS_OK)
        status = wanted_runs(s->store, s->job, outcome, wanted, &level);
    for (size_t i = 0; i < all && status == STATUS_OK; i++) {
        runs += wanted[i];
        missing += wanted[i] && outcome[i] < 0;
    }
    if (missing)
        log_line(LOG_WARNING, "%zu of %zu runs are missing; gather goes on with the others (train %s to get them)", missing,
                 runs, s->job->path);
    memory_free(wanted);
    memory_free(outcome);
    return status;
}

enum status verbs_gather(struct session *s)
{
    enum status status = STATUS_OK;
    if (s->world->rank == 0) {
        status = lock_folder(s);
        if (status == STATUS_OK)
            status = check_grid(s);
        if (status == STATUS_OK)
            status = say_missing(s);
    }
    status = agree_root(s->world->comm, 0, status);
    if (status == STATUS_OK)
        status = verbs_join(s);
    return status == STATUS_OK ? gather_all(s) : status;
}

/* ---- run ---- */

enum status verbs_run(struct session *s)
{
    enum status status = open_job(s);
    if (status == STATUS_OK)
        status = train(s);
    if (status == STATUS_OK && s->world->broken)
        status = check_grid(s);
    return status == STATUS_OK ? gather_all(s) : status;
}

static enum status print_claims(const struct session *s)
{
    if (!s->job->claims)
        return STATUS_OK;
    struct judged *judged = memory_new((size_t)s->job->claims, sizeof *judged);
    enum status status = claims_judge(s->dir, s->job, judged);
    if (status == STATUS_OK) {
        char *table = claims_print(judged, s->job->claims);
        fputs(table, stdout);
        memory_free(table);
        claims_clear(judged, s->job->claims);
    }
    memory_free(judged);
    return status;
}

/* Report, claims table and where it lies.   fails: STATUS_RUNS_FAILED when a claim does not hold */
static enum status report(struct session *s)
{
    int failed = 0;
    enum status status = report_write(s->store, s->job, &failed);
    if (status == STATUS_OK)
        status = print_claims(s);
    if (status != STATUS_OK)
        return status;
    printf("report: %s/report.html\n", s->dir);
    fflush(stdout);
    if (failed)
        return status_fail(STATUS_RUNS_FAILED, "%d claim%s not hold", failed, failed == 1 ? " does" : "s do");
    return STATUS_OK;
}

enum status verbs_run_after(struct session *s)
{
    enum status status = report(s);
    return status == STATUS_OK ? judge_trained(s) : status;
}

enum status verbs_report(struct session *s)
{
    enum status status = lock_folder(s);
    return status == STATUS_OK ? report(s) : status;
}
