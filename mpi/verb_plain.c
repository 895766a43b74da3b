/* plan, format, version and help, and what all verbs share: reading the job file or the folder of the command line. */
#include "mpi/verbs.h"

#include "analysis/names.h"
#include "base/memory.h"
#include "base/version.h"
#include "job/plan.h"
#include "mpi/limits.h"
#include "model/model.h"
#include "model/planner.h"
#include "run/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

enum status verbs_read_job(struct session *s)
{
    const struct options *o = s->options;
    struct stat st;
    if (stat(o->target, &st))
        return status_fail(STATUS_USAGE, "%s: there is no such job file", o->target);
    if (S_ISDIR(st.st_mode))
        return status_fail(STATUS_USAGE, "%s is a folder; `invar %s` takes a job file, for example %s/job.yaml", o->target,
                           options_verb_name(o->verb), o->target);
    enum status status = job_read(o->target, o->sets, o->sets_count, &s->job);
    if (status == STATUS_OK)
        status = names_check(s->job);
    if (status == STATUS_OK)
        s->dir = o->dir ? memory_text(o->dir) : memory_format("out/%s", s->job->name);
    return status;
}

enum status verbs_read_folder(struct session *s)
{
    const char *target = s->options->target, *verb = options_verb_name(s->options->verb);
    struct stat st;
    if (stat(target, &st))
        return status_fail(STATUS_USAGE, "%s: there is no such folder; `invar %s` takes the output folder of a job", target,
                           verb);
    if (!is_folder(target))
        return status_fail(STATUS_USAGE, "%s is a file; `invar %s` takes the output folder of a job, for example out/NAME",
                           target, verb);
    size_t n = strlen(target);
    while (n > 1 && target[n - 1] == '/')
        n--;
    s->dir = memory_format("%.*s", (int)n, target);
    return store_open_read(s->dir, &s->store, &s->job);
}

void verbs_close(struct session *s)
{
    if (s->store)
        store_close(s->store);
    if (s->job)
        job_free(s->job);
    memory_free(s->dir);
    s->store = NULL;
    s->job = NULL;
    s->dir = NULL;
}

/* Machines of the allocation this runs in, taken to be like this one. */
static int nodes_at_hand(void)
{
    const char *nodes = getenv("SLURM_JOB_NUM_NODES");
    return nodes && atoi(nodes) > 1 ? atoi(nodes) : 1;
}

/* For each size of model that the grid has: how a step is computed, and what the other orders would take. */
static enum status explain(const struct job *job)
{
    struct text last = {0};
    enum status status = STATUS_OK;
    for (size_t run = 0; run < job_runs(job) && status == STATUS_OK; run++) {
        struct spec spec;
        uint64_t seed;
        struct model *m;
        struct text text = {0};
        job_run(job, run, &spec, &seed);
        if (group_fits(&spec)) {
            text_add(&text, "  one straight-line program for all points (`invar bench JOB` counts it)\n");
        } else {
            status = model_open(&spec, task_shape_of(&spec), &m);
            if (status != STATUS_OK)
                break;
            planner_print(model_plan(m), &text);
            model_free(m);
        }
        if (!strcmp(text_string(&text), text_string(&last))) {
            text_free(&text);
            continue;
        }
        printf("\nA training step, from run %zu on; FLOPs of each exact order:\n%s", run, text_string(&text));
        text_free(&last);
        last = text;
    }
    text_free(&last);
    return status;
}

/* "store           3 of 8 runs are in out/x, 5 to train": nothing without a folder. A folder of another job is said here,
 * not first when the launch starts. */
static enum status print_store(struct session *s)
{
    enum status status = store_look(s->dir, s->job, &s->store);
    if (status != STATUS_OK || !s->store)
        return status;
    size_t runs = job_runs(s->job), there = 0;
    int damaged = 0, *outcome = memory_new(runs + 1, sizeof *outcome);
    status = store_scan(s->store, s->job, outcome, &damaged);
    for (size_t i = 0; i < runs && status == STATUS_OK; i++)
        there += outcome[i] >= 0;
    memory_free(outcome);
    if (status == STATUS_OK)
        printf(s->job->order ? "store           %zu of at most %zu runs are in %s\n" : "store           %zu of %zu runs are in %s, %zu to train\n",
               there, runs, s->dir, runs - there);
    return status;
}

enum status verbs_plan(struct session *s)
{
    enum status status = verbs_read_job(s);
    if (status != STATUS_OK)
        return status;
    struct plan *p = plan_new(s->job);
    int fits = 1;
    char *text = plan_print(s->job, p, limits_memory() * nodes_at_hand(), limits_disk(s->dir), world_launched_size(), &fits);
    fputs(text, stdout);
    memory_free(text);
    plan_free(p);
    status = print_store(s);
    if (status == STATUS_OK && s->options->verbose)
        status = explain(s->job);
    fflush(stdout);
    if (status != STATUS_OK)
        return status;
    if (!fits)
        return status_fail(STATUS_ENVIRONMENT, "the job cannot fit on this machine; see the plan");
    return STATUS_OK;
}

enum status verbs_format(struct session *s)
{
    (void)s;
    char *text = job_format_reference();
    char *names = names_reference();
    printf("%s\n## What claims may name\n\n%s", text, names);
    memory_free(names);
    memory_free(text);
    return STATUS_OK;
}

enum status verbs_version(struct session *s)
{
    (void)s;
    printf("invar %s (revision %s)\ninstruction set: %s\n%s\n", version_program(), version_revision(), model_isa(),
           version_libraries());
    return STATUS_OK;
}

enum status verbs_help(struct session *s)
{
    enum verb verb;
    if (s->options->target && options_find_verb(s->options->target, &verb) != STATUS_OK)
        return STATUS_USAGE;
    char *text = s->options->target ? options_help_verb(verb) : options_help();
    fputs(text, stdout);
    memory_free(text);
    return STATUS_OK;
}
