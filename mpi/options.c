#include "mpi/options.h"

#include "base/memory.h"
#include "base/text.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *argument;
    bool mpi;
} verbs[VERB_COUNT] = {
#define VERB(name, argument, mpi, ...) {#name, argument, mpi},
    VERB_TABLE(VERB)
#undef VERB
};

static const struct option {
    const char *name, *letter, *value;
    unsigned verbs;
    size_t offset;
} table[] = {
#define OPTION(field, name, letter, value, verbs, meaning) {name, letter, value, verbs, offsetof(struct options, field)},
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

enum status options_find_verb(const char *word, enum verb *v)
{
    struct nearest n = nearest_start(word);
    for (int i = 0; i < VERB_COUNT; i++) {
        if (!strcmp(word, verbs[i].name)) {
            *v = (enum verb)i;
            return STATUS_OK;
        }
        nearest_try(&n, verbs[i].name);
    }
    return unknown("verb", n);
}

static enum status parse_verb(const char *word, struct options *o)
{
    if (!strcmp(word, "--help") || !strcmp(word, "-h"))
        word = "help";
    if (!strcmp(word, "--version"))
        word = "version";
    return options_find_verb(word, &o->verb);
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

static void append(const char ***list, int *count, const char *word)
{
    *list = memory_grow(*list, (size_t)*count, (size_t)*count + 1, sizeof **list);
    (*list)[(*count)++] = word;
}

static enum status add_set(struct options *o, const char *value)
{
    if (!strchr(value, '='))
        return status_fail(STATUS_USAGE, "--set takes KEY=VALUE, got \"%s\"; for example --set train.lr=0.01", value);
    append(&o->sets, &o->sets_count, value);
    return STATUS_OK;
}

/* "90", "1:30", "0:01:30" or "1-00:00:00". */
static enum status parse_time(const char *option, const char *s, double *seconds)
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
        return status_fail(STATUS_USAGE, "%s takes seconds, mm:ss, hh:mm:ss or d-hh:mm:ss, got \"%s\"", option, s);
    *seconds = 86400.0 * days + total;
    return STATUS_OK;
}

/* "3/8" */
static enum status parse_part(const char *s, int *part, int *parts)
{
    int k, n, end = 0;
    if (sscanf(s, "%d/%d%n", &k, &n, &end) != 2 || s[end] || n < 1 || n > 100000 || k < 1 || k > n)
        return status_fail(STATUS_USAGE, "--part takes K/N with 1 <= K <= N, for example 3/8, got \"%s\"", s);
    *part = k;
    *parts = n;
    return STATUS_OK;
}

static enum status parse_heartbeat(const char *s, double *seconds)
{
    int end = 0;
    if (sscanf(s, "%lf%n", seconds, &end) != 1 || s[end] || !(*seconds >= 1 && *seconds <= 86400))
        return status_fail(STATUS_USAGE, "--heartbeat takes 1 to 86400 seconds, got \"%s\"", s);
    return STATUS_OK;
}

static enum status parse_failures(const char *s, int *n)
{
    int end = 0;
    if (sscanf(s, "%d%n", n, &end) != 1 || s[end] || *n < 1)
        return status_fail(STATUS_USAGE, "--max-failures takes a whole number from 1, got \"%s\"", s);
    return STATUS_OK;
}

/* The options whose value is more than a text. */
static enum status parse_value(size_t field, const char *value, struct options *o)
{
    switch (field) {
    case offsetof(struct options, set): return add_set(o, value);
    case offsetof(struct options, time): return parse_time("--time", value, &o->seconds);
    case offsetof(struct options, patience): return parse_time("--patience", value, &o->patience_seconds);
    case offsetof(struct options, wait): return parse_time("--wait", value, &o->wait_seconds);
    case offsetof(struct options, heartbeat): return parse_heartbeat(value, &o->heartbeat_seconds);
    case offsetof(struct options, part): return parse_part(value, &o->part_number, &o->part_count);
    case offsetof(struct options, max_failures): return parse_failures(value, &o->failures);
    default: return STATUS_OK;
    }
}

static enum status take_option(const struct option *p, const char *value, struct options *o)
{
    char *field = (char *)o + p->offset;
    if (!(p->verbs & (1u << o->verb)))
        return status_fail(STATUS_USAGE, "`invar %s` does not take %s; see `invar help %s`", verbs[o->verb].name, p->name,
                           verbs[o->verb].name);
    if (!p->value) {
        if (value)
            return status_fail(STATUS_USAGE, "%s takes no value, got \"%s\"", p->name, value);
        *(bool *)field = true;
        if (o->fail_fast)
            o->failures = 1;
        return STATUS_OK;
    }
    if (!value || !*value)
        return status_fail(STATUS_USAGE, "%s needs a value: %s %s", p->name, p->name, p->value);
    *(const char **)field = value;
    return parse_value(p->offset, value, o);
}

/* "JOB" of "JOB", "DIR" of "[DIR]" and of "DIR [RUN...]". */
static bool needs_target(enum verb v) { return *verbs[v].argument && *verbs[v].argument != '['; }
static bool takes_words(enum verb v) { return strstr(verbs[v].argument, "...") != NULL; }

static enum status take_target(const char *word, struct options *o)
{
    const char *wanted = verbs[o->verb].argument;
    if (!*wanted)
        return status_fail(STATUS_USAGE, "`invar %s` takes no argument, got \"%s\"", verbs[o->verb].name, word);
    if (o->target && takes_words(o->verb)) {
        append(&o->words, &o->words_count, word);
        return STATUS_OK;
    }
    if (o->target)
        return status_fail(STATUS_USAGE, "`invar %s` takes one %.*s, got \"%s\" and \"%s\"", verbs[o->verb].name,
                           (int)strcspn(wanted + (*wanted == '['), "]"), wanted + (*wanted == '['), o->target, word);
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
            o->target = verbs[o->verb].name;
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
    if (needs_target(o->verb) && !o->target)
        return status_fail(STATUS_USAGE, "`invar %s` needs a %s: invar %s %s", verbs[o->verb].name,
                           !strcmp(verbs[o->verb].argument, "JOB") ? "job file" : "folder", verbs[o->verb].name,
                           !strcmp(verbs[o->verb].argument, "JOB") ? "jobs/markov-cores.yaml" : "out/markov-cores");
    return STATUS_OK;
}

enum status options_parse(int argc, char **argv, struct options *o)
{
    *o = (struct options){.seconds = INFINITY, .heartbeat_seconds = 30, .patience_seconds = 30};
    if (argc < 2)
        return status_fail(STATUS_USAGE, "a verb is needed: invar plan|train|gather|report|run|status|verify|doctor; see `invar help`");
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
    memory_free(o->words);
    o->sets = o->words = NULL;
    o->sets_count = o->words_count = 0;
}
