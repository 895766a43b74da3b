#include "mpi/options.h"

#include "base/memory.h"
#include "base/text.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *argument;
    bool mpi;
    const char *meaning;
} verbs[VERB_COUNT] = {
#define VERB(name, argument, mpi, meaning) {#name, argument, mpi, meaning},
    VERB_TABLE(VERB)
#undef VERB
};

static const struct option {
    const char *name, *letter, *value;
    unsigned verbs;
    size_t offset;
    const char *meaning;
} table[] = {
#define OPTION(field, name, letter, value, verbs, meaning) {name, letter, value, verbs, offsetof(struct options, field), meaning},
    OPTION_TABLE(OPTION)
#undef OPTION
};
enum { OPTIONS = sizeof table / sizeof *table };

const char *options_verb_name(enum verb v) { return verbs[v].name; }
bool options_verb_uses_mpi(enum verb v) { return verbs[v].mpi; }

/* ---- did you mean ---- */

struct nearest {
    const char *wrong, *best;
    int distance;
};

static void nearest_try(struct nearest *n, const char *word)
{
    int d = text_distance(n->wrong, word);
    if (d < n->distance) {
        n->distance = d;
        n->best = word;
    }
}

static struct nearest nearest_start(const char *wrong)
{
    return (struct nearest){.wrong = wrong, .distance = 2 + (int)strlen(wrong) / 4};
}

static enum status unknown(const char *what, struct nearest n)
{
    if (n.best)
        return status_fail(STATUS_USAGE, "unknown %s \"%s\" (did you mean \"%s\"?); see `invar help`", what, n.wrong, n.best);
    return status_fail(STATUS_USAGE, "unknown %s \"%s\"; see `invar help`", what, n.wrong);
}

static enum status parse_verb(const char *word, struct options *o)
{
    struct nearest n = nearest_start(word);
    if (!strcmp(word, "--help") || !strcmp(word, "-h"))
        word = "help";
    if (!strcmp(word, "--version"))
        word = "version";
    for (int v = 0; v < VERB_COUNT; v++) {
        if (!strcmp(word, verbs[v].name)) {
            o->verb = (enum verb)v;
            return STATUS_OK;
        }
        nearest_try(&n, verbs[v].name);
    }
    return unknown("verb", n);
}

/* ---- options ---- */

static enum status unknown_option(const char *word)
{
    struct nearest n = nearest_start(word);
    for (int i = 0; i < OPTIONS; i++)
        nearest_try(&n, table[i].name);
    return unknown("option", n);
}

/* The option that the word names; *value is set when it stands in the same word ("--time=60", "-oout"). */
static const struct option *find(const char *word, const char **value)
{
    size_t n = strcspn(word, "=");
    *value = NULL;
    for (const struct option *p = table; p < table + OPTIONS; p++) {
        if (strlen(p->name) == n && !strncmp(word, p->name, n)) {
            *value = word[n] ? word + n + 1 : NULL;
            return p;
        }
        if (p->letter && !strncmp(word, p->letter, 2) && (!word[2] || p->value)) {
            *value = word[2] ? word + 2 : NULL;
            return p;
        }
    }
    return NULL;
}

static enum status add_set(struct options *o, const char *value)
{
    if (!strchr(value, '='))
        return status_fail(STATUS_USAGE, "--set takes KEY=VALUE, got \"%s\"; for example --set train.lr=0.01", value);
    o->sets = memory_grow(o->sets, (size_t)o->sets_count, (size_t)o->sets_count + 1, sizeof *o->sets);
    o->sets[o->sets_count++] = value;
    return STATUS_OK;
}

/* "90", "1:30", "0:01:30" or "1-00:00:00". */
static enum status parse_time(const char *s, double *seconds)
{
    double part[3];
    int days = 0, parts, used = 0;
    if (sscanf(s, "%d-%n", &days, &used) != 1 || used == 0)
        days = used = 0;
    const char *rest = s + used;
    int end = 0;
    parts = sscanf(rest, "%lf%n:%lf%n:%lf%n", &part[0], &end, &part[1], &end, &part[2], &end);
    bool good = parts >= 1 && !rest[end] && days >= 0 && (used == 0 || parts == 3);
    double total = 0;
    for (int i = 0; good && i < parts; i++) {
        good = isfinite(part[i]) && part[i] >= 0 && (i == 0 || part[i] < 60);
        total = 60 * total + part[i];
    }
    if (!good || 86400.0 * days + total <= 0)
        return status_fail(STATUS_USAGE, "--time takes seconds, mm:ss, hh:mm:ss or d-hh:mm:ss, got \"%s\"", s);
    *seconds = 86400.0 * days + total;
    return STATUS_OK;
}

static enum status take_option(const struct option *p, const char *value, struct options *o)
{
    char *field = (char *)o + p->offset;
    if (!(p->verbs & (1u << o->verb)))
        return status_fail(STATUS_USAGE, "`invar %s` does not take %s; see `invar help`", verbs[o->verb].name, p->name);
    if (!p->value) {
        if (value)
            return status_fail(STATUS_USAGE, "%s takes no value, got \"%s\"", p->name, value);
        *(bool *)field = true;
        return STATUS_OK;
    }
    if (!value || !*value)
        return status_fail(STATUS_USAGE, "%s needs a value: %s %s", p->name, p->name, p->value);
    *(const char **)field = value;
    if (p->offset == offsetof(struct options, set))
        return add_set(o, value);
    if (p->offset == offsetof(struct options, time))
        return parse_time(value, &o->seconds);
    return STATUS_OK;
}

static enum status take_target(const char *word, struct options *o)
{
    const char *wanted = verbs[o->verb].argument;
    if (o->verb == VERB_help)            /* `invar help run` is meant well */
        return STATUS_OK;
    if (!*wanted)
        return status_fail(STATUS_USAGE, "`invar %s` takes no argument, got \"%s\"", verbs[o->verb].name, word);
    if (o->target)
        return status_fail(STATUS_USAGE, "`invar %s` takes one %s, got \"%s\" and \"%s\"", verbs[o->verb].name, wanted,
                           o->target, word);
    o->target = word;
    return STATUS_OK;
}

static enum status parse_rest(int argc, char **argv, struct options *o)
{
    bool words_only = false;
    for (int i = 2; i < argc; i++) {
        const char *value;
        enum status status;
        if (!words_only && !strcmp(argv[i], "--")) {
            words_only = true;
            continue;
        }
        if (words_only || argv[i][0] != '-') {
            status = take_target(argv[i], o);
        } else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            o->verb = VERB_help;
            return STATUS_OK;
        } else {
            const struct option *p = find(argv[i], &value);
            if (!p)
                return unknown_option(argv[i]);
            if (p->value && !value && i + 1 < argc)
                value = argv[++i];
            status = take_option(p, value, o);
        }
        if (status != STATUS_OK)
            return status;
    }
    if (*verbs[o->verb].argument && !o->target)
        return status_fail(STATUS_USAGE, "`invar %s` needs a %s: invar %s %s", verbs[o->verb].name,
                           !strcmp(verbs[o->verb].argument, "JOB") ? "job file" : "folder", verbs[o->verb].name,
                           !strcmp(verbs[o->verb].argument, "JOB") ? "jobs/markov-cores.yaml" : "out/markov-cores");
    return STATUS_OK;
}

enum status options_parse(int argc, char **argv, struct options *o)
{
    *o = (struct options){.seconds = INFINITY};
    if (argc < 2)
        return status_fail(STATUS_USAGE, "a verb is needed: invar plan|train|gather|report|run|status; see `invar help`");
    enum status status = parse_verb(argv[1], o);
    if (status == STATUS_OK)
        status = parse_rest(argc, argv, o);
    if (status != STATUS_OK)
        options_clear(o);
    return status;
}

void options_clear(struct options *o)
{
    memory_free(o->sets);
    o->sets = NULL;
    o->sets_count = 0;
}

char *options_help(void)
{
    struct text t = {0};
    text_add(&t, "invar trains many small transformers, one run per rank, and shows what is invariant across them.\n\n"
                 "  invar VERB [JOB|DIR] [options]                 alone\n"
                 "  mpirun -n 8 invar VERB [JOB|DIR] [options]     on 8 cores; or srun --mpi=pmix\n\nVerbs\n");
    for (int v = 0; v < VERB_COUNT; v++)
        text_add(&t, "  %-8s%-5s%s\n", verbs[v].name, verbs[v].argument, verbs[v].meaning);
    text_add(&t, "\nOptions\n");
    for (int i = 0; i < OPTIONS; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s%s %s", table[i].letter ? table[i].letter : "", table[i].letter ? ", " : "",
                 table[i].name, table[i].value ? table[i].value : "");
        text_add(&t, "  %-18s %s", name, table[i].meaning);
        const char *separator = " (";
        for (int v = 0; v < VERB_COUNT && table[i].verbs != ~0u; v++)
            if (table[i].verbs & (1u << v)) {
                text_add(&t, "%s%s", separator, verbs[v].name);
                separator = ", ";
            }
        text_add(&t, "%s\n", table[i].verbs != ~0u ? ")" : "");
    }
    text_add(&t, "\nExit codes\n"
                 "  0   all done (diverged runs are results)\n"
                 "  1   finished, but runs FAILED or a claim does not hold\n"
                 "  2   bad usage or job file\n"
                 "  3   environment, input or output\n"
                 "  75  stopped early on purpose (time limit, signal): run the same command again\n");
    return t.s;
}
