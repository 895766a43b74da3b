#include "job/job.h"

#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void job_free(struct job *job)
{
    if (!job)
        return;
    for (int i = 0; i < job->axes; i++)
        memory_free(job->axis[i].value);
    for (int i = 0; i < job->claims; i++)
        claim_clear(&job->claim[i]);
    memory_free(job->claim);
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

void job_locate(const struct job *job, size_t run, int *position, int *seed_index)
{
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

/* One line "path=value" per key of a run, reals as the 16 hexadecimal digits of their bits: exact and the same
 * everywhere. Choices stand as words, so that a new choice in a list changes no id. */
static void add_value(const struct spec *s, const struct key *k, struct text *t)
{
    const char *p = (const char *)s + k->offset;
    char buffer[32];
    int n = 0;
    uint64_t bits;
    switch (k->type) {
    case KEY_INT:
        n = snprintf(buffer, sizeof buffer, "%" PRId64, *(const int64_t *)p);
        break;
    case KEY_REAL:
        memcpy(&bits, p, sizeof bits);
        n = snprintf(buffer, sizeof buffer, "%016" PRIx64, bits);
        break;
    case KEY_BOOL:
        n = snprintf(buffer, sizeof buffer, "%d", *(const bool *)p);
        break;
    case KEY_CHOICE: {
        const char *word = k->words[*(const int *)p];
        text_add_bytes(t, word, strlen(word));
        return;
    }
    case KEY_LIST: {
        const struct key_list *list = (const struct key_list *)p;
        for (int i = 0; i < list->count; i++)
            text_add(t, "%s%" PRId64, i ? "," : "", list->value[i]);
        return;
    }
    case KEY_STRING:
        text_add_json(t, p);
        return;
    }
    text_add_bytes(t, buffer, (size_t)n);
}

void job_run_id(const struct spec *spec, uint64_t seed, char id[HASH_TEXT])
{
    struct text t = {0};
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++) {
        if (!k->of_run)
            continue;
        text_add_bytes(&t, k->path, strlen(k->path));
        text_add_bytes(&t, "=", 1);
        add_value(spec, k, &t);
        text_add_bytes(&t, "\n", 1);
    }
    text_add(&t, "seed=%" PRIu64 "\n", seed);
    hash_print(hash_bytes(t.s, t.length), id);
    text_free(&t);
}

void job_id_of(const struct job *job, size_t run, char id[HASH_TEXT])
{
    struct spec *spec = memory_new(1, sizeof *spec);
    uint64_t seed;
    job_run(job, run, spec, &seed);
    job_run_id(spec, seed, id);
    memory_free(spec);
}
