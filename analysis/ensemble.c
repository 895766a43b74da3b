#include "analysis/ensemble.h"

#include "analysis/cca.h"
#include "analysis/exchange.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "mpi/agree.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const char *const words[] = {
#define EXCLUSION(name, word, text) word,
    EXCLUSION_TABLE(EXCLUSION)
#undef EXCLUSION
};

static const char *const texts[] = {
#define EXCLUSION(name, word, text) text,
    EXCLUSION_TABLE(EXCLUSION)
#undef EXCLUSION
};

const char *ensemble_word(enum exclusion why) { return words[why]; }

static enum exclusion by_outcome(int outcome)
{
    switch (outcome) {
    case OUTCOME_DONE: return EXCLUDED_NONE;
    case OUTCOME_DIVERGED: return EXCLUDED_DIVERGED;
    case OUTCOME_UNFINISHED: return EXCLUDED_UNFINISHED;
    case OUTCOME_FAILED: return EXCLUDED_FAILED;
    default: return EXCLUDED_MISSING;
    }
}

/* What the tiles hold, found by rank 0.   collective */
static enum status scan(struct ensemble *e, struct store *store, const struct job *job)
{
    int *outcome = memory_new(e->job_runs, sizeof *outcome), damaged = 0;
    enum status s = e->rank == 0 ? store_scan(store, job, outcome, &damaged) : STATUS_OK;
    s = agree_root(e->comm, 0, s);
    if (e->rank == 0)
        for (size_t r = 0; r < e->job_runs && s == STATUS_OK; r++)
            e->exclusion[r] = (int32_t)by_outcome(outcome[r]);
    exchange_share(e->comm, e->exclusion, e->job_runs * sizeof *e->exclusion);
    memory_free(outcome);
    return s;
}

/* ---- one run ---- */

struct share {               /* what this rank read of a run */
    double *coordinates, *weights, *basis;
};

static double *transposed(int64_t rows, int cols, const double *a)
{
    double *t = memory_new((size_t)rows * (size_t)cols, sizeof *t);
    for (int64_t i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            t[j * rows + i] = a[i * cols + j];
    return t;
}

static double *weights_of(const struct record *r, int64_t *count)
{
    size_t n = 0;
    for (int t = 0; t < r->tensors; t++)
        n += (size_t)r->tensor[t].rows * (size_t)r->tensor[t].cols;
    double *w = memory_new(n, sizeof *w);
    for (size_t i = 0; i < n; i++)
        w[i] = r->element_size == 4 ? (double)((const float *)r->weights)[i] : ((const double *)r->weights)[i];
    *count = (int64_t)n;
    return w;
}

static struct hash layout_of(const struct record *r)
{
    struct text t = {0};
    for (int i = 0; i < r->tensors; i++)
        text_add(&t, "%s %d %d\n", r->tensor[i].name, r->tensor[i].rows, r->tensor[i].cols);
    struct hash h = hash_bytes(text_string(&t), t.length);
    text_free(&t);
    return h;
}

static double norm(const double *x, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* Centres the coordinates and says whether something is left. */
static enum exclusion centre(struct member *m, double *z)
{
    size_t count = (size_t)m->samples * (size_t)m->columns;
    m->noise = (double)m->samples * DBL_EPSILON * norm(z, count);
    cca_centre(m->samples, m->columns, z, NULL);
    return norm(z, count) > sqrt(m->columns) * m->noise ? EXCLUDED_NONE : EXCLUDED_NO_VARIANCE;
}

static enum exclusion take(const struct record *r, struct member *m, struct share *mine)
{
    const struct record_probe *p = r->probes ? &r->probe[r->probes - 1] : NULL;
    if (!p || (p->rank > 0 && !p->coordinates))
        return EXCLUDED_NO_COORDINATES;
    if (p->rank == 0 || p->samples == 0)
        return EXCLUDED_NO_VARIANCE;
    m->columns = p->rank;
    m->width = p->d;
    m->samples = p->samples;
    m->layout = layout_of(r);
    mine->coordinates = transposed(p->samples, p->rank, p->coordinates);
    mine->basis = memory_new((size_t)(p->d * p->rank), sizeof(double));
    memcpy(mine->basis, p->basis, (size_t)(p->d * p->rank) * sizeof(double));
    mine->weights = weights_of(r, &m->parameters);
    size_t count = (size_t)p->samples * (size_t)p->rank;
    if (!isfinite(norm(mine->coordinates, count)) || !isfinite(norm(mine->basis, (size_t)(p->d * p->rank))) ||
        !isfinite(norm(mine->weights, (size_t)m->parameters)))
        return EXCLUDED_NOT_FINITE;
    return centre(m, mine->coordinates);
}

static void drop(struct share *s)
{
    memory_free(s->coordinates);
    memory_free(s->weights);
    memory_free(s->basis);
    *s = (struct share){0};
}

/* Reads this rank's share of the DONE runs, member[0..done).   local */
static enum status read_share(struct ensemble *e, struct store *store, const struct job *job, size_t done,
                              struct member *member, struct share *mine)
{
    for (size_t i = 0; i < done; i++) {
        struct member *m = &member[i];
        size_t run = m->run;
        if (m->owner != e->rank) {
            *m = (struct member){0};             /* its owner fills it in */
            continue;
        }
        struct spec spec;
        job_run(job, run, &spec, &m->seed);
        struct record r = {0};
        enum status s = store_read_run(store, job, run, &r);
        if (s != STATUS_OK)
            return s;
        enum exclusion why = take(&r, m, &mine[i]);
        record_clear(&r);
        e->exclusion[run] = (int32_t)why;
        if (why != EXCLUDED_NONE)
            drop(&mine[i]);
    }
    return STATUS_OK;
}

/* ---- all runs ---- */

/* Probe inputs are the task's test set, so they are the same when the task keys are; task.sequences only concerns
 * training. */
static int same_inputs(const struct job *job, const struct member *a, const struct member *b)
{
    struct spec x, y;
    uint64_t seed;
    if (a->samples != b->samples)
        return 0;
    job_run(job, a->run, &x, &seed);
    job_run(job, b->run, &y, &seed);
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++)
        if (!strcmp(k->section, "task") && strcmp(k->name, "sequences") && key_get(&x, k) != key_get(&y, k))
            return 0;
    return 1;
}

/* Moves the runs that can be compared to the front. */
static void keep_comparable(struct ensemble *e, const struct job *job, size_t done, struct member *member,
                            struct share *mine)
{
    size_t kept = 0;
    for (size_t i = 0; i < done; i++) {
        int32_t *why = &e->exclusion[member[i].run];
        if (*why == EXCLUDED_NONE && kept && !same_inputs(job, &member[0], &member[i]))
            *why = EXCLUDED_OTHER_INPUTS;
        if (*why != EXCLUDED_NONE) {
            drop(&mine[i]);
            continue;
        }
        struct share s = mine[i];
        mine[i] = (struct share){0};
        mine[kept] = s;
        member[kept++] = member[i];
    }
    e->runs = (int)kept;
    e->samples = kept ? member[0].samples : 0;
}

/* The core bases are small; every rank gets all.   collective */
static void spread(struct ensemble *e, struct share *mine)
{
    size_t runs = (size_t)e->runs;
    e->coordinates = memory_new(runs, sizeof *e->coordinates);
    e->weights = memory_new(runs, sizeof *e->weights);
    e->basis = memory_new(runs, sizeof *e->basis);
    for (size_t k = 0; k < runs; k++) {
        size_t count = (size_t)e->member[k].width * (size_t)e->member[k].columns;
        e->coordinates[k] = mine[k].coordinates;
        e->weights[k] = mine[k].weights;
        e->basis[k] = mine[k].basis ? mine[k].basis : memory_new(count, sizeof(double));
        exchange_share(e->comm, e->basis[k], count * sizeof(double));
    }
}

enum status ensemble_read(MPI_Comm comm, struct store *store, const struct job *job, struct ensemble *e)
{
    *e = (struct ensemble){.comm = comm, .job_runs = job_runs(job)};
    MPI_Comm_rank(comm, &e->rank);
    MPI_Comm_size(comm, &e->size);
    e->exclusion = memory_new(e->job_runs, sizeof *e->exclusion);
    enum status s = scan(e, store, job);
    if (s != STATUS_OK) {
        ensemble_clear(e);
        return s;
    }
    e->member = memory_new(e->job_runs, sizeof *e->member);
    struct share *mine = memory_new(e->job_runs, sizeof *mine);
    size_t done = 0;
    for (size_t r = 0; r < e->job_runs; r++)
        if (e->exclusion[r] == EXCLUDED_NONE) {
            e->member[done].run = r;
            e->member[done].owner = (int)(done % (size_t)e->size);
            done++;
        }
    s = agree(comm, read_share(e, store, job, done, e->member, mine));
    if (s == STATUS_OK) {
        exchange_share(comm, e->member, done * sizeof *e->member);
        exchange_share(comm, e->exclusion, e->job_runs * sizeof *e->exclusion);
        keep_comparable(e, job, done, e->member, mine);
        spread(e, mine);
    } else {
        for (size_t i = 0; i < done; i++)
            drop(&mine[i]);
        ensemble_clear(e);
    }
    memory_free(mine);
    return s;
}

void ensemble_clear(struct ensemble *e)
{
    for (int k = 0; k < e->runs; k++) {
        memory_free(e->coordinates[k]);
        memory_free(e->weights[k]);
        memory_free(e->basis[k]);
    }
    memory_free(e->coordinates);
    memory_free(e->weights);
    memory_free(e->basis);
    memory_free(e->member);
    memory_free(e->exclusion);
    *e = (struct ensemble){0};
}

void ensemble_log(const struct ensemble *e)
{
    for (int why = EXCLUDED_NONE + 1; why < EXCLUSION_COUNT; why++) {
        struct text runs = {0};
        int count = 0;
        for (size_t r = 0; r < e->job_runs; r++)
            if (e->exclusion[r] == why && count++ < 10)
                text_add(&runs, "%s%zu", runs.length ? ", " : "", r);
        if (count)
            log_line(LOG_WARNING, "left out of the cross-run measures: %d run%s (%s%s), %s", count,
                     count == 1 ? "" : "s", text_string(&runs), count > 10 ? ", ..." : "", texts[why]);
        text_free(&runs);
    }
}
