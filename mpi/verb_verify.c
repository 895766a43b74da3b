/* verify: trains finished runs anew, from nothing, and compares with their records bit by bit. The folder is only read. */
#include "mpi/verbs.h"

#include "base/float_mode.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stream.h"
#include "base/text.h"
#include "base/version.h"
#include "model/model.h"
#include "mpi/agree.h"
#include "mpi/run_name.h"
#include "run/train.h"
#include "store/record_compare.h"
#include "store/wanted.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- which runs ---- */

/* What rank 0 has chosen; the others get the runs. */
struct choice {
    size_t count;
    uint64_t *run;               /* [count] by descending cost */
    size_t missing;              /* chosen, but not finished */
    int damaged;                 /* tile files */
};

static bool is_condition(const char *word) { return strchr(word, '=') != NULL; }

/* "12" is the run's number in the job; anything else, and a number that is too large, the first digits of its id. */
static enum status choose_by_name(const struct job *job, const char *word, bool *chosen)
{
    long long number;
    char id[HASH_TEXT];
    size_t runs = job_runs(job), n = strlen(word), found = 0, last = 0;
    if (text_to_int(word, &number) && number >= 0 && (size_t)number < runs) {
        chosen[number] = true;
        return STATUS_OK;
    }
    for (size_t i = 0; i < runs; i++) {
        job_id_of(job, i, id);
        if (!strncmp(id, word, n)) {
            last = i;
            found++;
        }
    }
    if (found == 1) {
        chosen[last] = true;
        return STATUS_OK;
    }
    if (found)
        return status_fail(STATUS_USAGE, "%zu runs have an id that begins with \"%s\"; give more digits", found, word);
    return status_fail(STATUS_USAGE, "the job has no run \"%s\": give an id or its first digits, a number from 0 to %zu, seed=VALUE "
                       "or AXIS=VALUE", word, runs - 1);
}

/* Whether the words of one key hold for the run: one of its values must.   word i names the key */
static enum status any_holds(const struct session *s, size_t run, int i, bool *any)
{
    const struct options *o = s->options;
    size_t n = strcspn(o->words[i], "=") + 1;
    *any = false;
    for (int k = 0; k < o->words_count; k++) {
        bool holds = false;
        if (strncmp(o->words[k], o->words[i], n))
            continue;
        enum status status = run_name_match(s->job, run, o->words[k], &holds);
        if (status != STATUS_OK)
            return status;
        *any = *any || holds;
    }
    return STATUS_OK;
}

static enum status choose_by_conditions(const struct session *s, bool *chosen)
{
    const struct options *o = s->options;
    size_t found = 0;
    int conditions = 0;
    for (size_t run = 0; run < job_runs(s->job); run++) {
        bool all = true;
        conditions = 0;
        for (int i = 0; i < o->words_count; i++) {
            bool any;
            if (!is_condition(o->words[i]))
                continue;
            enum status status = any_holds(s, run, i, &any);
            if (status != STATUS_OK)
                return status;
            all = all && any;
            conditions++;
        }
        chosen[run] = chosen[run] || (all && conditions);
        found += all;
    }
    if (conditions && !found)
        return status_fail(STATUS_USAGE, "no run of the job has these values");
    return STATUS_OK;
}

static enum status choose_named(const struct session *s, bool *chosen)
{
    const struct options *o = s->options;
    enum status status = STATUS_OK;
    if (o->words_count == 0)
        memset(chosen, true, job_runs(s->job));
    for (int i = 0; i < o->words_count && status == STATUS_OK; i++)
        if (!is_condition(o->words[i]))
            status = choose_by_name(s->job, o->words[i], chosen);
    return status == STATUS_OK ? choose_by_conditions(s, chosen) : status;
}

/* Keeps `wanted` of the runs, drawn at random. */
static enum status draw_sample(const struct options *o, struct choice *c)
{
    long long wanted, seed = 0;
    if (!text_to_int(o->sample, &wanted) || wanted < 1)
        return status_fail(STATUS_USAGE, "--sample takes a number of runs, got \"%s\"", o->sample);
    if (o->seed && !text_to_int(o->seed, &seed))
        return status_fail(STATUS_USAGE, "--seed takes a whole number, got \"%s\"", o->seed);
    if (!o->seed) {
        uint32_t random = 0;
        if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
            return status_fail(STATUS_ENVIRONMENT, "no random numbers; choose with --seed");
        seed = random;
    }
    if ((size_t)wanted >= c->count)
        return STATUS_OK;
    struct stream stream = stream_open((uint64_t)seed, PURPOSE_SPLIT, 0);
    uint32_t *order = memory_new(c->count, sizeof *order);
    uint64_t *run = memory_new((size_t)wanted, sizeof *run);
    stream_permutation(&stream, order, (uint32_t)c->count);
    for (size_t i = 0; i < (size_t)wanted; i++)
        run[i] = c->run[order[i]];
    log_line(LOG_INFO, "%lld of %zu runs, drawn with --seed %lld", wanted, c->count, seed);
    memory_free(order);
    memory_free(c->run);
    c->run = run;
    c->count = (size_t)wanted;
    return STATUS_OK;
}

struct costly {
    double seconds;
    uint64_t run;
};

static int by_cost(const void *a, const void *b)
{
    const struct costly *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds > y->seconds ? -1 : 1;
    return (x->run > y->run) - (x->run < y->run);
}

/* Longest first: the ranks then have runs of like length at a time. */
static void sort_by_cost(const struct job *job, struct choice *c)
{
    struct costly *list = memory_new(c->count, sizeof *list);
    struct spec *spec = memory_new(1, sizeof *spec);
    uint64_t seed;
    for (size_t i = 0; i < c->count; i++) {
        job_run(job, c->run[i], spec, &seed);
        list[i] = (struct costly){.seconds = plan_cost(spec).seconds, .run = c->run[i]};
    }
    if (c->count)
        qsort(list, c->count, sizeof *list, by_cost);
    for (size_t i = 0; i < c->count; i++)
        c->run[i] = list[i].run;
    memory_free(spec);
    memory_free(list);
}

static void say_missing(const struct session *s, size_t run)
{
    char id[HASH_TEXT];
    struct text t = {0};
    job_id_of(s->job, run, id);
    text_add(&t, "missing  %s", id);
    run_name_add(&t, s->job, run, false);
    puts(text_string(&t));
    text_free(&t);
}

/* Where no runs are named, what a refined map does not ask for is not missing. */
static enum status leave_unwanted(const struct session *s, const int *outcome, bool *chosen)
{
    const size_t runs = job_runs(s->job);
    int level;
    if (!s->job->order || s->options->words_count)
        return STATUS_OK;
    bool *wanted = memory_new(runs + 1, sizeof *wanted);
    enum status status = wanted_runs(s->store, s->job, outcome, wanted, &level);
    for (size_t i = 0; i < runs && status == STATUS_OK; i++)
        chosen[i] = wanted[i] || outcome[i] >= 0;
    memory_free(wanted);
    return status;
}

/* out: *c, its list freed by the caller, also on failure */
static enum status choose(const struct session *s, struct choice *c)
{
    size_t runs = job_runs(s->job);
    bool *chosen = memory_new(runs + 1, sizeof *chosen);
    int *outcome = memory_new(runs + 1, sizeof *outcome);
    c->run = memory_new(runs + 1, sizeof *c->run);
    enum status status = choose_named(s, chosen);
    if (status == STATUS_OK)
        status = store_scan(s->store, s->job, outcome, &c->damaged);
    if (status == STATUS_OK)
        status = leave_unwanted(s, outcome, chosen);
    for (size_t i = 0; i < runs && status == STATUS_OK; i++) {
        if (chosen[i] && outcome[i] >= 0)
            c->run[c->count++] = i;
        else if (chosen[i] && c->missing++ < 20)
            say_missing(s, i);
    }
    if (status == STATUS_OK && c->count == 0)
        status = status_fail(STATUS_USAGE, "%s: none of the chosen runs is finished (`invar status %s` counts them)", s->dir, s->dir);
    if (status == STATUS_OK && s->options->sample)
        status = draw_sample(s->options, c);
    if (status == STATUS_OK)
        sort_by_cost(s->job, c);
    memory_free(outcome);
    memory_free(chosen);
    return status;
}

/* ---- one run ---- */

enum verdict { EQUAL, DIFFERS };

struct verified {
    enum verdict verdict;
    struct text origin, lines;       /* what was made otherwise than it would be now; what is to be printed */
};

static void add_other(struct text *t, const char *what, const char *stored, const char *now)
{
    if (strcmp(stored, now))
        text_add(t, "note     the record was made %s %s; now %s\n", what, *stored ? stored : "(unknown)", now);
}

/* Items of "a; b; c" that `other` lacks. */
static void add_items(struct text *t, const char *list, const char *other)
{
    const char *separator = "";
    for (const char *item = list; *item;) {
        size_t n = strcspn(item, ";");
        char *one = memory_format("%.*s", (int)n, item);
        if (!strstr(other, one)) {
            text_add(t, "%s%s", separator, one);
            separator = "; ";
        }
        memory_free(one);
        item += n;
        item += strspn(item, "; ");
    }
}

static void add_other_libraries(struct text *t, const char *stored, const char *now)
{
    struct text then = {0}, here = {0};
    add_items(&then, stored, now);
    add_items(&here, now, stored);
    if (then.length || here.length)
        add_other(t, "with libraries", text_string(&then), text_string(&here));
    text_free(&then);
    text_free(&here);
}

static void compare_origin(const struct session *s, size_t run, struct text *t)
{
    struct store_origin o;
    if (store_read_origin(s->store, s->job, run, &o) != STATUS_OK)
        return;
    add_other(t, "by revision", o.revision, version_revision());
    add_other(t, "with instruction set", o.instruction_set, model_isa());
    add_other_libraries(t, o.libraries, version_libraries());
    add_other(t, "with subnormals", o.subnormals, float_mode_can_flush() ? "flushed to zero" : "kept");
    store_origin_clear(&o);
}

/* Trains the run as a launch does; a run that cannot be trained is a FAILED one with the reason.
 * fails: STATUS_ENVIRONMENT (this machine cannot train it, which says nothing about the run) */
static enum status train_again(const struct session *s, size_t run, const struct record *stored, struct record *now)
{
    struct spec *spec = memory_new(1, sizeof *spec);
    uint64_t seed;
    enum train_end end;
    job_run(s->job, run, spec, &seed);
    enum status status = train_run(spec, seed, NULL, NULL, 0, now, &end);
    memory_free(spec);
    if (status == STATUS_OK || status == STATUS_ENVIRONMENT)
        return status;
    /* A FAILED record says no more than why. */
    *now = (struct record){.seed = seed, .outcome = OUTCOME_FAILED, .last_finite_step = stored->last_finite_step,
                           .emergence_step = stored->emergence_step,
                           .loss_train = stored->loss_train, .loss_test = stored->loss_test,
                           .accuracy_train = stored->accuracy_train, .accuracy_test = stored->accuracy_test,
                           .element_size = stored->element_size, .error = memory_text(status_text())};
    return STATUS_OK;
}

static void compare(const struct record *stored, const struct record *now, struct verified *v, struct text *found)
{
    struct record_differences d = record_compare(stored, now, found);
    v->verdict = d.training + d.probes ? DIFFERS : EQUAL;
    if (d.probes && !d.training)
        text_add(found, "    Outcome, curves and weights are equal. Probes use LAPACK, whose last bits depend on the BLAS.\n");
}

static enum status verify_run(const struct session *s, size_t run, struct verified *v)
{
    struct record stored = {0}, now = {0};
    struct text found = {0};
    char id[HASH_TEXT];
    enum status status = STATUS_OK;
    if (store_read_run(s->store, s->job, run, &stored) == STATUS_OK) {
        compare_origin(s, run, &v->origin);
        status = train_again(s, run, &stored, &now);
        if (status == STATUS_OK)
            compare(&stored, &now, v, &found);
    } else {
        v->verdict = DIFFERS;
        text_add(&found, "    %s\n", status_text());
    }
    job_id_of(s->job, run, id);
    text_add(&v->lines, "%s  %s", v->verdict == EQUAL ? "equal  " : "DIFFERS", id);
    run_name_add(&v->lines, s->job, run, false);
    text_add(&v->lines, "  %s\n%s", stored.id[0] ? outcome_name(stored.outcome) : "", text_string(&found));
    record_clear(&stored);
    record_clear(&now);
    text_free(&found);
    return status;
}

/* ---- all runs ---- */

/* What rank 0 prints of a round, in the order of the ranks.   collective */
static char *collect(const struct world *w, const struct text *mine)
{
    int n = (int)mine->length + 1, *count = memory_new((size_t)w->size, sizeof *count),
        *place = memory_new((size_t)w->size, sizeof *place), total = 0;
    MPI_Gather(&n, 1, MPI_INT, count, 1, MPI_INT, 0, w->comm);
    for (int r = 0; r < w->size; r++) {
        place[r] = total;
        total += count[r];
    }
    char *all = memory_new((size_t)total + 1, 1);        /* texts with their terminators, one after the other */
    MPI_Gatherv(text_string(mine), n, MPI_CHAR, all, count, place, MPI_CHAR, 0, w->comm);
    memory_free(count);
    memory_free(place);
    return all;
}

/* Prints what is new to rank 0: origins that were told already are not told again. */
static void print_round(const struct session *s, const char *origins, const char *lines, struct text *told)
{
    for (int r = 0; r < s->world->size; r++) {
        if (*origins && !strstr(text_string(told), origins)) {
            text_add(told, "%s\n", origins);
            fputs(origins, stdout);
        }
        if (!s->options->quiet || !strncmp(lines, "DIFFERS", 7))
            fputs(lines, stdout);
        origins += strlen(origins) + 1;
        lines += strlen(lines) + 1;
    }
    fflush(stdout);
}

/* In rounds: each rank a run. out: *differ, the same on all ranks */
static enum status verify_all(const struct session *s, const struct choice *c, size_t *differ)
{
    const struct world *w = s->world;
    struct text told = {0};
    enum status status = STATUS_OK;
    for (size_t first = 0; first < c->count && status == STATUS_OK; first += (size_t)w->size) {
        struct verified v = {.verdict = EQUAL};
        size_t mine = first + (size_t)w->rank;
        if (mine < c->count)
            status = verify_run(s, c->run[mine], &v);
        status = agree(w->comm, status);
        int one = v.verdict == DIFFERS, all = 0;
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, w->comm);
        *differ += (size_t)all;
        char *origins = collect(w, &v.origin), *lines = collect(w, &v.lines);
        if (w->rank == 0 && status == STATUS_OK)
            print_round(s, origins, lines, &told);
        memory_free(origins);
        memory_free(lines);
        text_free(&v.origin);
        text_free(&v.lines);
    }
    text_free(&told);
    return status;
}

/* Rank 0's choice for all.   collective */
static void spread(const struct world *w, struct choice *c)
{
    uint64_t n = c->count;
    MPI_Bcast(&n, 1, MPI_UINT64_T, 0, w->comm);
    if (w->rank > 0)
        c->run = memory_new(n, sizeof *c->run);
    c->count = n;
    for (uint64_t first = 0; first < n; first += 1 << 20)
        MPI_Bcast(c->run + first, (int)(n - first < 1 << 20 ? n - first : 1 << 20), MPI_UINT64_T, 0, w->comm);
}

/* The last word, on rank 0. */
static enum status judge(const struct session *s, const struct choice *c, size_t differ)
{
    printf("%s: %zu of %zu runs have the bits of their records", s->dir, c->count - differ, c->count);
    if (c->missing)
        printf("; %zu not trained yet", c->missing);
    puts("");
    fflush(stdout);
    if (differ)
        return status_fail(STATUS_RUNS_FAILED, "%zu run%s from the record%s", differ, differ == 1 ? " differs" : "s differ",
                           differ == 1 ? "" : "s");
    if (c->damaged)
        return status_fail(STATUS_RUNS_FAILED, "%d tile file%s damaged; `invar train %s/job.yaml -o %s` trains its runs again",
                           c->damaged, c->damaged == 1 ? " is" : "s are", s->dir, s->dir);
    return STATUS_OK;
}

enum status verbs_verify(struct session *s)
{
    struct choice c = {0};
    size_t differ = 0;
    enum status status = STATUS_OK;
    if (s->world->rank == 0) {
        status = verbs_read_folder(s);
        if (status == STATUS_OK)
            status = choose(s, &c);
    }
    status = agree_root(s->world->comm, 0, status);
    if (status == STATUS_OK)
        status = verbs_join(s);
    if (status == STATUS_OK) {
        spread(s->world, &c);
        status = verify_all(s, &c, &differ);
    }
    if (status == STATUS_OK && s->world->rank == 0)
        status = judge(s, &c, differ);
    memory_free(c.run);
    return agree_root(s->world->comm, 0, status);
}
