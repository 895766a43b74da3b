/* A folder belongs to a job. The job may grow: runs are added by seeds and axis values. Everything that lies there must
 * remain a run of it, so that what gather reads is what the job asks for. */
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "job/value.h"
#include "store/store_inside.h"
#include "store/tile.h"

#include <stdlib.h>
#include <string.h>

static int by_id(const void *a, const void *b) { return strcmp(a, b); }

/* The first run in the folder that `job` lacks, and how many there are. */
static const struct ledger_run *find_foreign(const struct ledger *l, const struct job *job, size_t *count)
{
    size_t n = job_runs(job);
    char(*id)[HASH_TEXT] = memory_new(n, sizeof *id);
    struct job_ids *ids = job_ids_new(job);
    for (size_t i = 0; i < n; i++)
        job_ids_of(ids, i, id[i]);
    job_ids_free(ids);
    if (n)
        qsort(id, n, sizeof *id, by_id);
    const struct ledger_run *first = NULL;
    *count = 0;
    for (size_t i = 0; i < l->runs; i++)
        if (!n || !bsearch(l->run[i].id, id, n, sizeof *id, by_id)) {
            first = first ? first : &l->run[i];
            ++*count;
        }
    memory_free(id);
    return first;
}

/* ---- what differs ---- */

static void print_axis(const struct axis *a, struct text *out)
{
    text_add(out, "[");
    for (int v = 0; v < a->count; v++) {
        text_add(out, "%s", v ? ", " : "");
        value_print_number(a->key, a->value[v], out);
    }
    text_add(out, "]");
}

/* The values of a key in a job: one, or those of its axis; numbers by name, and then those of them that are axes. */
static void print_values(const struct job *job, const struct key *k, struct text *out)
{
    for (int i = 0; i < job->axes; i++)
        if (job->axis[i].key == k) {
            print_axis(&job->axis[i], out);
            return;
        }
    value_print(k, &job->spec, out);
    for (int i = 0; i < job->axes; i++)
        if (job->axis[i].key->of == k) {
            text_add(out, ", %s: ", job->axis[i].key->name);
            print_axis(&job->axis[i], out);
        }
}

static void print_seeds(const struct job *job, struct text *out)
{
    enum { SHOWN = 12 };
    text_add(out, "[");
    for (int i = 0; i < job->seeds && i < SHOWN; i++)
        text_add(out, "%s%llu", i ? ", " : "", (unsigned long long)job->seed[i]);
    text_add(out, "%s]", job->seeds > SHOWN ? ", ..." : "");
}

/* "\n  train.lr: 0.001 -> 0.01" when they differ. */
static void add_difference(const char *name, struct text *before, struct text *now, struct text *out)
{
    if (strcmp(text_string(before), text_string(now)))
        text_add(out, "\n  %s: %s -> %s", name, text_string(before), text_string(now));
    text_free(before);
    text_free(now);
}

static void add_differences(const struct job *before, const struct job *now, struct text *out)
{
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++) {
        struct text a = {0}, b = {0};
        if (!k->of_run)
            continue;
        print_values(before, k, &a);
        print_values(now, k, &b);
        add_difference(k->path, &a, &b, out);
    }
    struct text a = {0}, b = {0};
    print_seeds(before, &a);
    print_seeds(now, &b);
    if (before->seeds != now->seeds && !strcmp(text_string(&a), text_string(&b))) {
        text_add(&a, " (%d)", before->seeds);
        text_add(&b, " (%d)", now->seeds);
    }
    add_difference("seeds", &a, &b, out);
}

/* The effective job beside the output, or else the one in the tile that holds the run; NULL when neither can be read.
 * */
static struct job *earlier_job(const struct store *s, const struct ledger_run *foreign)
{
    struct job *job = NULL;
    struct tile *t;
    char *path = memory_format("%s/job.yaml", s->dir);
    if (job_read(path, NULL, 0, &job) != STATUS_OK && tile_open(s->ledger.file[foreign->file], &t) == STATUS_OK) {
        char *text = tile_job(t);
        if (!text || job_parse(text, s->ledger.file[foreign->file], NULL, 0, &job) != STATUS_OK)
            job = NULL;
        memory_free(text);
        tile_close(t);
    }
    memory_free(path);
    return job;
}

enum status change_check(const struct store *s, const struct job *job)
{
    size_t count;
    const struct ledger_run *foreign = find_foreign(&s->ledger, job, &count);
    if (!foreign)
        return STATUS_OK;
    struct text what = {0};
    struct job *before = earlier_job(s, foreign);
    if (before)
        add_differences(before, job, &what);
    if (!what.length)
        text_add(&what, "\n  no key that can be named (the folder may come from another version of the program)");
    enum status status = status_fail(
        STATUS_JOB, "%s: holds %zu finished run%s (the first is %s) that this job lacks. It differs from the job that "
        "made them in%s\nChoose another output folder (-o), or restore the values; runs may be added, by seeds and axis "
        "values, but not taken away", s->dir, count, count == 1 ? "" : "s", foreign->id, text_string(&what));
    text_free(&what);
    if (before)
        job_free(before);
    return status;
}
