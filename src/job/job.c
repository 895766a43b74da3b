#include "job/job.h"

#include "base/memory.h"
#include "base/text.h"
#include "job/refine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void job_free(struct job *job)
{
    if (!job)
        return;
    for (int i = 0; i < job->axes; i++) {
        key_free(job->axis[i].key);
        memory_free(job->axis[i].value);
    }
    for (int i = 0; i < job->claims; i++)
        claim_clear(&job->claim[i]);
    memory_free(job->claim);
    refine_order_free(job->order);
    memory_free(job->seed);
    memory_free(job->name);
    memory_free(job->path);
    memory_free(job);
}

static size_t grid_points(const struct job *job)
{
    size_t n = 1;
    for (int i = 0; i < job->axes; i++)
        n *= (size_t)job->axis[i].count;
    return n;
}

size_t job_runs(const struct job *job) { return grid_points(job) * (size_t)job->seeds; }

static void locate_refined(const struct job *job, size_t run, int *position, int *seed_index)
{
    const struct refine_order *o = job->order;
    size_t seeds = (size_t)job->seeds, level = 0;
    while (run >= o->first[level + 1] * seeds)
        level++;
    size_t points = o->first[level + 1] - o->first[level], left = run - o->first[level] * seeds;
    *seed_index = (int)(left / points);
    refine_position(job, o->point[o->first[level] + left % points], position);
}

void job_locate(const struct job *job, size_t run, int *position, int *seed_index)
{
    if (job->order) {
        locate_refined(job, run, position, seed_index);
        return;
    }
    size_t points = grid_points(job), left = run % points;
    *seed_index = (int)(run / points);
    for (int i = job->axes - 1; i >= 0; i--) {
        position[i] = (int)(left % (size_t)job->axis[i].count);
        left /= (size_t)job->axis[i].count;
    }
}

void job_run(const struct job *job, size_t run, struct spec *spec, uint64_t *seed)
{
    int position[JOB_AXES_MAX], seed_index;
    job_locate(job, run, position, &seed_index);
    *spec = job->spec;
    for (int i = 0; i < job->axes; i++)
        key_set(spec, job->axis[i].key, job->axis[i].value[position[i]]);
    *seed = job->seed[seed_index];
}

/* ---- ids ---- */

static void add_string(struct text *t, const char *s) { text_add_bytes(t, s, strlen(s)); }

/* The 16 hexadecimal digits of a real's bits: exact and the same everywhere. */
static void add_bits(struct text *t, double x)
{
    uint64_t bits;
    char digits[16];
    memcpy(&bits, &x, sizeof bits);
    for (int i = 15; i >= 0; i--, bits >>= 4)
        digits[i] = "0123456789abcdef"[bits & 15];
    text_add_bytes(t, digits, sizeof digits);
}

static void add_named(struct text *t, const struct key_named *named)
{
    for (int i = 0; i < named->count; i++) {
        add_string(t, i ? "," : "");
        add_string(t, named->item[i].name);
        add_string(t, ":");
        add_bits(t, named->item[i].value);
    }
}

/* Choices stand as words, so that a new choice in a list changes no id. */
static void add_value(const struct spec *s, const struct key *k, struct text *t)
{
    const void *p = (const char *)s + k->offset;
    const struct key_list *list = p;
    switch (k->type) {
    case KEY_INT: text_add(t, "%" PRId64, *(const int64_t *)p); break;
    case KEY_REAL: add_bits(t, *(const double *)p); break;
    case KEY_BOOL: add_string(t, *(const bool *)p ? "1" : "0"); break;
    case KEY_CHOICE: add_string(t, k->words[*(const int *)p]); break;
    case KEY_LIST:
        for (int i = 0; i < list->count; i++)
            text_add(t, "%s%" PRId64, i ? "," : "", list->value[i]);
        break;
    case KEY_STRING: text_add_json(t, p); break;
    case KEY_NAMED: add_named(t, p); break;
    }
}

/* One line "path=value" for a key of a run that is not at its default. */
static void add_line(const struct spec *s, const struct key *k, struct text *t)
{
    if (!k->of_run || key_is_default(s, k))
        return;
    add_string(t, k->path);
    add_string(t, "=");
    add_value(s, k, t);
    add_string(t, "\n");
}

static void finish_id(struct text *t, uint64_t seed, char id[HASH_TEXT])
{
    text_add(t, "seed=%" PRIu64 "\n", seed);
    hash_print(hash_bytes(t->s, t->length), id);
}

void job_run_id(const struct spec *spec, uint64_t seed, char id[HASH_TEXT])
{
    struct text t = {0};
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++)
        add_line(spec, k, &t);
    finish_id(&t, seed, id);
    text_free(&t);
}

void job_id_of(const struct job *job, size_t run, char id[HASH_TEXT])
{
    struct job_ids *ids = job_ids_new(job);
    job_ids_of(ids, run, id);
    job_ids_free(ids);
}

/* ---- the ids of many runs ---- */

/* The runs of a job share most of their canonical text: the lines between those that axes change are made once. */
struct job_ids {
    const struct job *job;
    struct spec spec;
    int parts;
    struct {
        struct text before;              /* lines that all runs have */
        const struct key *key;           /* whose line follows; NULL: the last part */
    } part[JOB_AXES_MAX + 1];
    struct text text;
};

static bool varies(const struct job *job, const struct key *k)
{
    for (int a = 0; a < job->axes; a++)
        if (job->axis[a].key == k || job->axis[a].key->of == k)
            return true;
    return false;
}

struct job_ids *job_ids_new(const struct job *job)
{
    struct job_ids *ids = memory_new(1, sizeof *ids);
    const struct key *k;
    ids->job = job;
    ids->spec = job->spec;
    for (int i = 0; (k = key_at(i)); i++)
        if (varies(job, k))
            ids->part[ids->parts++].key = k;
        else
            add_line(&job->spec, k, &ids->part[ids->parts].before);
    ids->parts++;
    return ids;
}

void job_ids_of(struct job_ids *ids, size_t run, char id[HASH_TEXT])
{
    const struct job *job = ids->job;
    int position[JOB_AXES_MAX], seed_index;
    job_locate(job, run, position, &seed_index);
    for (int a = 0; a < job->axes; a++)
        key_set(&ids->spec, job->axis[a].key, job->axis[a].value[position[a]]);
    ids->text.length = 0;
    for (int i = 0; i < ids->parts; i++) {
        text_add_bytes(&ids->text, text_string(&ids->part[i].before), ids->part[i].before.length);
        if (ids->part[i].key)
            add_line(&ids->spec, ids->part[i].key, &ids->text);
    }
    finish_id(&ids->text, job->seed[seed_index], id);
}

void job_ids_free(struct job_ids *ids)
{
    for (int i = 0; i < ids->parts; i++)
        text_free(&ids->part[i].before);
    text_free(&ids->text);
    memory_free(ids);
}
