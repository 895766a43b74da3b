/* synthetic_runs.h: a store with nine runs whose cores are related in known ways, made from a few shared signals.
 *
 *   run  outcome   coordinates (600 inputs)
 *   0    DONE      3: signals 0 1 2 mixed, some noise, a large mean
 *   1    DONE      3: the same signals in another mixture, other noise
 *   2    DONE      4, of rank 3: signals 0 1 3 without noise; the fourth column is a sum of two others
 *   3    DONE      3, one of them NaN
 *   4    DONE      2: signals 0 1; another width of layer and other weight tensors
 *   5    DIVERGED  none
 *   6    DONE      3: signals 0 4 5 and noise
 *   7    not in the store
 *   8    DONE      2, constant
 */
#ifndef INVAR_TESTS_ANALYSIS_SYNTHETIC_RUNS_H
#define INVAR_TESTS_ANALYSIS_SYNTHETIC_RUNS_H

#include "mpi_check.h"

#include "base/memory.h"
#include "job/job.h"
#include "store/store.h"

enum { SYNTHETIC_SAMPLES = 600, SYNTHETIC_SIGNALS = 6, SYNTHETIC_RUNS = 9, SYNTHETIC_PARAMETERS = 500 };

static const struct synthetic {
    int columns, signals[3], width;
    double noise;
} synthetic_runs[SYNTHETIC_RUNS] = {
    {3, {0, 1, 2}, 8, 0.2}, {3, {0, 1, 2}, 8, 0.3}, {4, {0, 1, 3}, 8, 0.0},
    {3, {0, 1, 2}, 8, 0.2}, {2, {0, 1, 1}, 6, 0.5}, {0, {0, 0, 0}, 8, 0.0},
    {3, {0, 4, 5}, 8, 0.2}, {0, {0, 0, 0}, 8, 0.0}, {2, {0, 1, 1}, 8, 0.0},
};

static inline struct job *synthetic_job(int null, const char *more)
{
    char text[1000];
    snprintf(text, sizeof text, "name: synthetic\n"
                                "task: {kind: markov, test_sequences: 60, length: 11}\n"
                                "seeds: %d\n"
                                "store: {tile_runs: 1}\n"
                                "gather: {block: 4, seed: 3, cca: {permutations: %d}%s%s}\n",
             SYNTHETIC_RUNS, null, *more ? ", " : "", more);
    struct job *job = NULL;
    CHECK_OK(job_parse(text, "synthetic.yaml", NULL, 0, &job));
    return job;
}

/* A correlated signal: 10 positions of a sequence share a part. */
static inline void synthetic_signal(int number, double *x)
{
    double own[SYNTHETIC_SAMPLES], shared[SYNTHETIC_SAMPLES / 10];
    fill_normal(100 + (uint32_t)number, own, SYNTHETIC_SAMPLES);
    fill_normal(200 + (uint32_t)number, shared, SYNTHETIC_SAMPLES / 10);
    for (int i = 0; i < SYNTHETIC_SAMPLES; i++)
        x[i] = own[i] + 0.5 * shared[i / 10];
}

static inline double *synthetic_coordinates(int run)
{
    static double signal[SYNTHETIC_SIGNALS][SYNTHETIC_SAMPLES], noise[SYNTHETIC_SAMPLES * 4];
    const struct synthetic *h = &synthetic_runs[run];
    double mixture[16], *z = memory_new((size_t)(SYNTHETIC_SAMPLES * h->columns), sizeof *z);
    for (int k = 0; k < SYNTHETIC_SIGNALS; k++)
        synthetic_signal(k, signal[k]);
    fill_normal(300 + (uint32_t)run, mixture, 16);
    fill_normal(400 + (uint32_t)run, noise, SYNTHETIC_SAMPLES * 4);
    for (int i = 0; i < SYNTHETIC_SAMPLES; i++)
        for (int j = 0; j < h->columns; j++) {
            double x = run == 0 ? 30.0 : 1.0;
            for (int k = 0; k < 3 && run != 8; k++)
                x += mixture[j * 4 + k] * signal[h->signals[k]][i];
            z[i * h->columns + j] = x + h->noise * noise[i * 4 + j];
        }
    for (int i = 0; i < SYNTHETIC_SAMPLES && run == 2; i++)
        z[i * 4 + 3] = z[i * 4] + z[i * 4 + 1];
    if (run == 3)
        z[SYNTHETIC_SAMPLES] = NAN;
    return z;
}

/* Orthonormal columns, row by row [d][r]. */
static inline double *synthetic_basis(int run, int d, int r)
{
    double *q = memory_new((size_t)(d * r), sizeof *q);
    fill_normal(500 + (uint32_t)run, q, (size_t)(d * r));
    for (int pass = 0; pass < 2; pass++)
        for (int j = 0; j < r; j++) {
            for (int k = 0; k <= j; k++) {
                double sum = 0.0;
                for (int i = 0; i < d; i++)
                    sum += q[i * r + j] * q[i * r + k];
                for (int i = 0; i < d; i++)
                    q[i * r + j] = k < j ? q[i * r + j] - sum * q[i * r + k] : q[i * r + j] / sqrt(sum);
            }
        }
    return q;
}

static inline struct record synthetic_record(const struct job *job, int run)
{
    const struct synthetic *h = &synthetic_runs[run];
    struct spec spec;
    struct record r = {.steps = 10, .last_finite_step = 10, .emergence_step = NAN,
                       .outcome = run == 5 ? OUTCOME_DIVERGED : OUTCOME_DONE,
                       .element_size = 4, .tensors = 2};
    job_run(job, (size_t)run, &spec, &r.seed);
    job_id_of(job, (size_t)run, r.id);
    r.tensor = memory_new(2, sizeof *r.tensor);
    r.tensor[0] = (struct record_tensor){.name = "first", .rows = run == 4 ? 25 : 20, .cols = 20};
    r.tensor[1] = (struct record_tensor){.name = "second", .rows = 1, .cols = run == 4 ? 0 : 100, .offset = 400};
    if (run == 4)
        r.tensors = 1;
    float *w = memory_new(SYNTHETIC_PARAMETERS, sizeof *w);
    double values[SYNTHETIC_PARAMETERS];
    fill_normal(600 + (uint32_t)run, values, SYNTHETIC_PARAMETERS);
    for (int i = 0; i < SYNTHETIC_PARAMETERS; i++)
        w[i] = (float)values[i];
    r.weights = w;
    if (h->columns == 0)
        return r;
    r.probes = 1;
    r.probe = memory_new(1, sizeof *r.probe);
    struct record_probe *p = r.probe;
    p->step = 10;
    p->d = h->width;
    p->rank = p->core_dim = h->columns;
    p->samples = SYNTHETIC_SAMPLES;
    p->weight = memory_new((size_t)p->d, sizeof(double));
    p->mean = memory_new((size_t)p->d, sizeof(double));
    p->basis = synthetic_basis(run, p->d, p->rank);
    p->coordinates = synthetic_coordinates(run);
    return r;
}

/* Fills the folder; one rank. */
static inline void synthetic_store(const char *dir, const struct job *job)
{
    struct store *store = NULL;
    CHECK_OK(store_open(dir, job, &store));
    struct plan *plan = plan_new(job);
    CHECK_INT(plan->tiles, SYNTHETIC_RUNS);
    for (size_t t = 0; t < plan->tiles; t++) {
        if (plan->tile[t].first == 7)
            continue;
        struct record r = synthetic_record(job, (int)plan->tile[t].first);
        CHECK_OK(store_put_tile(store, job, &plan->tile[t], &r, 1));
        record_clear(&r);
    }
    plan_free(plan);
    store_close(store);
}

#endif
