#include "job/axis.h"
#include "job/found.h"
#include "job/job.h"
#include "job/refine.h"
#include "job/rules.h"
#include "job/value.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define JOB_RUNS_MAX 100000000.0
#define JOB_SEEDS_MAX 1000000
#define JOB_NAME_MAX 100

/* ---- reading the values ---- */

static bool name_is_good(const char *s)
{
    size_t n = strlen(s);
    if (n == 0 || n > JOB_NAME_MAX || *s == '.' || *s == '-')
        return false;
    for (; *s; s++)
        if (!isascii(*s) || (!isalnum((unsigned char)*s) && !strchr("._-", *s)))
            return false;
    return true;
}

static void read_name(struct found_keys *f, struct job *job)
{
    const struct tree *t = f->name.item;
    if (!t)
        complaint_add(f->complaints, (struct place){0, 1, 1},
                      "name is missing: expected a name for the job, such as name: my-job");
    else if (t->kind != TREE_SCALAR || !name_is_good(t->text))
        complaint_add(f->complaints, t->place,
                      "name: expected letters, digits and . _ - (at most %d, not beginning with . or -), got %s",
                      JOB_NAME_MAX, tree_describe(f->arena, t));
    else
        job->name = memory_text(t->text);
}

/* A seed may use all 64 bits. */
static bool read_seed(struct found_keys *f, const struct tree *t, uint64_t *seed)
{
    int64_t small;
    if (value_is_whole(t, &small) && small >= 0) {
        *seed = (uint64_t)small;
        return true;
    }
    if (t->kind == TREE_SCALAR && t->plain && *t->text >= '1' && t->text[strspn(t->text, "0123456789")] == '\0') {
        errno = 0;
        *seed = strtoull(t->text, NULL, 10);
        if (!errno)
            return true;
    }
    complaint_add(f->complaints, t->place, "seeds: expected a whole number of at least 0, got %s",
                  tree_describe(f->arena, t));
    return false;
}

struct numbered_seed {
    uint64_t seed;
    int number;
};

static int by_seed(const void *a, const void *b)
{
    const struct numbered_seed *x = a, *y = b;
    return x->seed != y->seed ? (x->seed > y->seed) - (x->seed < y->seed) : x->number - y->number;
}

static void refuse_equal_seeds(struct found_keys *f, const struct tree *t, const uint64_t *seed)
{
    struct numbered_seed *list = memory_new((size_t)t->count, sizeof *list);
    for (int i = 0; i < t->count; i++)
        list[i] = (struct numbered_seed){seed[i], i};
    qsort(list, (size_t)t->count, sizeof *list, by_seed);
    for (int i = 1; i < t->count; i++)
        if (list[i].seed == list[i - 1].seed)
            complaint_add(f->complaints, t->item[list[i].number]->place, "seeds: %llu stands twice",
                          (unsigned long long)list[i].seed);
    memory_free(list);
}

static void read_seed_list(struct found_keys *f, const struct tree *t, struct job *job)
{
    if (t->count < 1 || t->count > JOB_SEEDS_MAX) {
        complaint_add(f->complaints, t->place, "seeds: expected 1 to %d of them, got %d", JOB_SEEDS_MAX, t->count);
        return;
    }
    uint64_t *seed = memory_new((size_t)t->count, sizeof *seed);
    bool ok = true;
    for (int i = 0; i < t->count; i++)
        ok &= read_seed(f, t->item[i], &seed[i]);
    if (ok)
        refuse_equal_seeds(f, t, seed);
    job->seeds = t->count;
    job->seed = seed;
}

static void read_seeds(struct found_keys *f, struct job *job)
{
    const struct tree *t = f->seeds.item;
    int64_t count = 1;
    if (t && t->kind == TREE_LIST) {
        read_seed_list(f, t, job);
        return;
    }
    if (t && (!value_is_whole(t, &count) || count < 1 || count > JOB_SEEDS_MAX)) {
        complaint_add(f->complaints, t->place, "seeds: expected how many (1 to %d), or a list of seeds, got %s",
                      JOB_SEEDS_MAX, tree_describe(f->arena, t));
        return;
    }
    job->seeds = (int)count;
    job->seed = memory_new((size_t)count, sizeof *job->seed);
    for (int64_t i = 0; i < count; i++)
        job->seed[i] = (uint64_t)i;
}

static void read_claim_text(struct found_keys *f, const struct tree *t, struct claim *claim)
{
    int column;
    if (t->kind != TREE_SCALAR)
        complaint_add(f->complaints, t->place, "claims: expected a text such as core_dim == 3, got %s",
                      tree_describe(f->arena, t));
    else if (claim_parse(t->text, claim, &column) != STATUS_OK) {
        struct place where = t->place;
        if (t->one_line)
            where.column += column - 1 + !t->plain;
        complaint_add(f->complaints, where, "claim \"%s\": %s", t->text, status_text());
    }
    claim->line = t->place.line;
    claim->column = t->place.column;
}

static char *read_remark(struct found_keys *f, const struct tree *t, const char *name)
{
    if (t->kind == TREE_SCALAR)
        return memory_text(t->text);
    complaint_add(f->complaints, t->place, "claims: %s: expected a text, got %s", name, tree_describe(f->arena, t));
    return NULL;
}

static void read_claim_map(struct found_keys *f, const struct tree *t, struct claim *claim)
{
    const struct tree *that = NULL, *says = NULL, *source = NULL;
    for (int i = 0; i < t->count; i++) {
        const char *name = t->key[i]->text;
        const struct tree **slot = !strcmp(name, "that")     ? &that
                                   : !strcmp(name, "says")   ? &says
                                   : !strcmp(name, "source") ? &source
                                                             : NULL;
        if (!slot)
            complaint_add(f->complaints, t->key[i]->place, "claims: unknown key %s: expected that, says, source", name);
        else if (*slot)
            complaint_add(f->complaints, t->key[i]->place, "claims: duplicate key %s (first in line %d)", name,
                          (*slot)->place.line);
        else
            *slot = t->item[i];
    }
    if (that)
        read_claim_text(f, that, claim);
    else
        complaint_add(f->complaints, t->place,
                      "claims: that is missing: {that: core_dim == 3, says: ..., source: ...}");
    if (says)
        claim->says = read_remark(f, says, "says");
    if (source)
        claim->source = read_remark(f, source, "source");
}

static void read_claims(struct found_keys *f, struct job *job)
{
    const struct tree *t = f->claims.item;
    if (!t)
        return;
    if (t->kind != TREE_LIST) {
        complaint_add(f->complaints, t->place, "claims: expected a list, got %s", tree_describe(f->arena, t));
        return;
    }
    job->claim = memory_new((size_t)t->count, sizeof *job->claim);
    job->claims = t->count;
    for (int i = 0; i < t->count; i++)
        if (t->item[i]->kind == TREE_MAP)
            read_claim_map(f, t->item[i], &job->claim[i]);
        else
            read_claim_text(f, t->item[i], &job->claim[i]);
}

/* ---- numbers by name ---- */

static struct key_named *named_of(struct job *job, const struct key *k)
{
    return (struct key_named *)((char *)&job->spec + k->offset);
}

static void register_name(struct found_keys *f, struct job *job, const struct key *k, const char *name, struct place where)
{
    struct key_named *n = named_of(job, k);
    if (key_named_find(n, name) < 0 && !key_named_add(n, name))
        complaint_add(f->complaints, where, "%s: at most %d names, %s is one more", k->path, KEY_NAMED_MAX, name);
}

/* All names get their places first, those of the axes too, so that no later one moves a number that an axis points at. */
static void register_names(struct found_keys *f, struct job *job)
{
    for (int i = 0; i < f->names; i++)
        register_name(f, job, f->name_of[i].key, f->name_of[i].name, f->name_of[i].at.key->place);
    for (int i = 0; i < f->axes; i++)
        if (f->axis[i].name)
            register_name(f, job, f->axis[i].key, f->axis[i].name, f->axis[i].at.key->place);
}

/* NULL when there was no place for the name. */
static struct key *number_key(struct job *job, const struct key *k, const char *name)
{
    int slot = key_named_find(named_of(job, k), name);
    return slot < 0 ? NULL : key_of_name(k, name, slot);
}

static void read_names(struct found_keys *f, struct job *job, struct place *place, bool *bad)
{
    for (int i = 0; i < f->names; i++) {
        const struct found_name *n = &f->name_of[i];
        const ptrdiff_t number = n->key - key_at(0);
        struct key *k = number_key(job, n->key, n->name);
        double value;
        if (place[number].line == 0)
            place[number] = n->at.key->place;
        if (k && value_number(k, n->at.item, &value, f->complaints))
            key_set(&job->spec, k, value);
        else
            bad[number] = true;
        key_free(k);
    }
}

/* ---- axes ---- */

/* An axis and a plain value of the same key contradict each other. */
static void refuse_both(struct found_keys *f, const struct found_axis *a, const char *path)
{
    const struct found *plain = a->name ? found_name_at(f, a->key, a->name) : &f->key[a->key - key_at(0)];
    if (!plain || !plain->key)
        return;
    if (plain->key->place.source > 0 && a->at.key->place.source == 0)
        complaint_add(f->complaints, plain->key->place, "%s is an axis (line %d of the job file): use axes.%s=[...]", path,
                      a->at.key->place.line, path);
    else if (plain->key->place.source > 0)
        complaint_add(f->complaints, plain->key->place, "%s is also an axis, by another --set: keep one of them", path);
    else
        complaint_add(f->complaints, a->at.key->place, "axis %s: the key also has a value, in line %d: keep one of them", path,
                      plain->key->place.line);
}

static bool read_axis(struct found_keys *f, const struct found_axis *a, struct job *job)
{
    const struct key *k = a->name ? number_key(job, a->key, a->name) : a->key;
    if (!k)
        return false;
    refuse_both(f, a, k->path);
    struct axis *axis = &job->axis[job->axes];
    if (!axis_read(k, a->at.item, axis, f->complaints)) {
        key_free(k);
        return false;
    }
    key_set(&job->spec, k, axis->value[0]);
    job->axes++;
    return true;
}

static void read_axes(struct found_keys *f, struct job *job, struct place *place, bool *bad)
{
    for (int i = 0; i < f->axes; i++) {
        const struct found_axis *a = &f->axis[i];
        int number = (int)(a->key - key_at(0));
        if (i == JOB_AXES_MAX)
            complaint_add(f->complaints, a->at.key->place, "more than %d axes", JOB_AXES_MAX);
        if (i >= JOB_AXES_MAX)
            return;
        if (!a->name || place[number].line == 0)
            place[number] = a->at.key->place;
        if (!read_axis(f, a, job))
            bad[number] = true;
    }
}

/* Refuses more runs than any plan could hold; returns whether their number is bearable. */
static bool count_runs(struct found_keys *f, const struct job *job)
{
    double runs = job->seeds;
    for (int i = 0; i < job->axes; i++)
        runs *= job->axis[i].count;
    if (runs <= JOB_RUNS_MAX)
        return true;
    struct place where = f->axes ? f->axis[0].at.key->place : (struct place){0, 1, 1};
    complaint_add(f->complaints, where, "axes and seeds make %.0f runs: a job has at most %.0f", runs, JOB_RUNS_MAX);
    return false;
}

/* Where the text of a value begins. */
static struct place text_place(const struct tree *t)
{
    struct place p = t->place;
    if (t->kind != TREE_SCALAR || !t->one_line)
        return (struct place){0};
    p.column += !t->plain;
    return p;
}

/* All numbers of NAMED keys that are given, as axes too. */
static struct rule_name *named_places(const struct found_keys *f)
{
    struct rule_name *list = arena_take(f->arena, (size_t)(f->names + f->axes) + 1, sizeof *list), *next = list;
    for (int i = 0; i < f->names; i++)
        *next++ = (struct rule_name){f->name_of[i].key, f->name_of[i].name, f->name_of[i].at.key->place};
    for (int i = 0; i < f->axes; i++)
        if (f->axis[i].name)
            *next++ = (struct rule_name){f->axis[i].key, f->axis[i].name, f->axis[i].at.key->place};
    return list;
}

static int count_names(const struct found_keys *f)
{
    int n = f->names;
    for (int i = 0; i < f->axes; i++)
        n += f->axis[i].name != NULL;
    return n;
}

static void read_values(struct found_keys *f, struct job *job)
{
    struct place *text = arena_take(f->arena, (size_t)f->keys, sizeof *text);
    struct place *place = arena_take(f->arena, (size_t)f->keys, sizeof *place);
    bool *bad = arena_take(f->arena, (size_t)f->keys, sizeof *bad);
    key_defaults(&job->spec);
    read_name(f, job);
    for (int i = 0; i < f->keys; i++)
        if (f->key[i].key) {
            place[i] = f->key[i].item->place;
            text[i] = text_place(f->key[i].item);
            bad[i] = !value_read(key_at(i), f->key[i].item, &job->spec, f->complaints);
        }
    register_names(f, job);
    read_names(f, job, place, bad);
    read_seeds(f, job);
    read_axes(f, job, place, bad);
    read_claims(f, job);
    struct rule_scope scope = {&job->spec, job->axes, job->axis, place, text, bad, count_names(f), named_places(f)};
    if (count_runs(f, job))
        rules_check(&scope, f->complaints);
}

/* ---- the whole ---- */

static enum status parse(const char *text, size_t length, const char *path, const char *const *overrides, int n,
                         struct job **out)
{
    struct arena *arena = arena_new();
    struct complaints complaints = {.arena = arena, .path = path, .overrides = overrides};
    struct found_keys found = found_new(arena, &complaints);
    struct tree *root = tree_parse(arena, text, length, 0, &complaints);
    if (root && root->kind != TREE_MAP) {
        complaint_add(&complaints, root->place, "expected keys such as name: my-job, got %s",
                      tree_describe(arena, root));
        root = NULL;
    }
    if (root)
        found_in_file(&found, root);
    for (int i = 0; i < n; i++)
        found_in_override(&found, overrides[i], i + 1);
    struct job *job = memory_new(1, sizeof *job);
    job->path = memory_text(path);
    if (root)
        read_values(&found, job);
    enum status status = STATUS_OK;
    if (complaints.count) {
        struct text t = {0};
        complaint_print(&complaints, STATUS_TEXT_MAX - 1, &t);
        status = status_fail(STATUS_JOB, "%s", text_string(&t));
        text_free(&t);
        job_free(job);
    }
    else {
        job->order = refine_order_new(job);
        *out = job;
    }
    found_clear(&found);
    complaint_clear(&complaints);
    arena_free(arena);
    return status;
}

enum status job_parse(const char *text, const char *path, const char *const *overrides, int n, struct job **job)
{
    return parse(text, strlen(text), path, overrides, n, job);
}

enum status job_read(const char *path, const char *const *overrides, int n, struct job **job)
{
    size_t length;
    char *text = text_read_file(path, &length);
    if (!text)
        return status_fail(STATUS_IO, "%s: cannot read the job file: %s", path, strerror(errno));
    enum status status = parse(text, length, path, overrides, n, job);
    memory_free(text);
    return status;
}
