/* test_report_fixture.h: small stores with known records, for the tests of runs, maps, claims and the report. */
#ifndef INVAR_TESTS_REPORT_FIXTURE_H
#define INVAR_TESTS_REPORT_FIXTURE_H

#include "check.h"

#include "base/memory.h"
#include "base/stream.h"
#include "job/job.h"
#include "job/plan.h"
#include "store/ncfile.h"
#include "store/store.h"

#include <stdbool.h>
#include <sys/stat.h>

#define FIXTURE_D 12
#define FIXTURE_RANK 3

/* The keys that all jobs of these tests share. */
#define FIXTURE_JOB \
    "name: fixture\n" \
    "task: {kind: markov}\n" \
    "model: {layers: 1}\n" \
    "probe: {ace: {layer: 1}}\n" \
    "store: {tile_runs: 1}\n"

/* What becomes of run `run`: -1 leaves it out of the store. Changes the record as the test wants it. */
typedef int fixture_rule(const struct job *job, size_t run, struct record *r);

static inline struct job *fixture_job(const char *yaml)
{
    struct job *job = NULL;
    CHECK_OK(job_parse(yaml, "fixture.yaml", NULL, 0, &job));
    if (!job)
        exit(1);
    return job;
}

static inline double *fixture_array(size_t n)
{
    return memory_new(n ? n : 1, sizeof(double));
}

/* Curves that fall from chance towards the best of a four-state chain. */
static inline void fixture_curves(struct record *r, struct stream *s, int points, int64_t every)
{
    struct record_curves *c = &r->curves;
    c->points = points;
    c->step = memory_new((size_t)points, sizeof *c->step);
    c->loss_train = fixture_array((size_t)points);
    c->loss_test = fixture_array((size_t)points);
    c->accuracy_train = fixture_array((size_t)points);
    c->accuracy_test = fixture_array((size_t)points);
    double rate = 6 + 2 * stream_uniform(s);
    for (int i = 0; i < points; i++) {
        double left = exp(-rate * i / points);
        c->step[i] = i * every;
        c->loss_train[i] = 0.56 + left * (1 + 0.1 * stream_uniform(s));
        c->loss_test[i] = 0.562 + left * (1 + 0.1 * stream_uniform(s));
        c->accuracy_train[i] = 0.751 - 0.5 * left - 0.002 * stream_uniform(s);
        c->accuracy_test[i] = 0.75 - 0.5 * left - 0.002 * stream_uniform(s);
    }
    r->emergence_step = NAN;
    r->steps = r->last_finite_step = (points - 1) * every;
    r->loss_train = c->loss_train[points - 1];
    r->loss_test = c->loss_test[points - 1];
    r->accuracy_train = c->accuracy_train[points - 1];
    r->accuracy_test = c->accuracy_test[points - 1];
}

static inline void fixture_eigenvalues(struct record_probe *p, struct stream *s)
{
    static const double true_ones[3][2] = {{0.75, 0.25}, {0.75, -0.25}, {0.5, 0}};
    p->operator_rank = FIXTURE_RANK;
    p->operator_matrix = fixture_array(FIXTURE_RANK * FIXTURE_RANK);
    p->eigenvalue = fixture_array(2 * FIXTURE_RANK);
    p->eigenvalue_error = fixture_array(FIXTURE_RANK);
    double re = 0.004 * stream_normal(s), im = 0.004 * stream_normal(s), third = -0.02 * stream_uniform(s);
    for (int k = 0; k < 3; k++) {
        double dx = k < 2 ? re : third, dy = k == 0 ? im : k == 1 ? -im : 0;
        p->eigenvalue[2 * k] = true_ones[k][0] + dx;
        p->eigenvalue[2 * k + 1] = true_ones[k][1] + dy;
        p->eigenvalue_error[k] = hypot(dx, dy) / hypot(true_ones[k][0], true_ones[k][1]);
    }
    p->r2 = 0.49 + 0.01 * stream_uniform(s);
    p->r2_oracle_ratio = p->r2 / 0.5;
}

static inline void fixture_probe(struct record_probe *p, struct stream *s, int64_t step)
{
    *p = (struct record_probe){.step = step, .d = FIXTURE_D, .rank = FIXTURE_RANK, .sufficient = 3, .necessary = 3,
                               .core_dim = FIXTURE_RANK, .samples = 100};
    p->accuracy = 0.748 + 0.002 * stream_uniform(s);
    p->accuracy_core_only = p->accuracy - 0.001 * stream_uniform(s);
    p->accuracy_core_removed = 0.235 + 0.03 * stream_uniform(s);
    p->weight = fixture_array(FIXTURE_D);
    for (int k = 0; k < FIXTURE_D; k++)
        p->weight[k] = 800 * (k < 2 ? 0.5 : pow(0.1, k + 0.3 * stream_uniform(s)));
    p->basis = fixture_array(FIXTURE_D * FIXTURE_RANK);
    p->mean = fixture_array(FIXTURE_D);
    for (int k = 0; k < FIXTURE_RANK; k++)
        p->basis[k * FIXTURE_RANK + k] = 1;
    fixture_eigenvalues(p, s);
}

/* A DONE run with curves and one probe; no weights. */
static inline void fixture_record(const struct job *job, size_t run, struct record *r)
{
    struct stream s = stream_open(run, PURPOSE_PROBE, 0);
    struct spec spec;
    *r = (struct record){.outcome = OUTCOME_DONE, .element_size = 4, .restarts = (int)(run % 2)};
    job_run(job, run, &spec, &r->seed);
    job_id_of(job, run, r->id);
    r->wall_time = 6 + stream_uniform(&s);
    fixture_curves(r, &s, 41, 47);
    r->probes = 1;
    r->probe = memory_new(1, sizeof *r->probe);
    fixture_probe(&r->probe[0], &s, r->steps);
}

static inline void fixture_drop_probes(struct record *r)
{
    for (int i = 0; i < r->probes; i++) {
        struct record_probe *p = &r->probe[i];
        double *all[] = {p->weight, p->basis, p->mean, p->operator_matrix, p->eigenvalue, p->eigenvalue_error};
        for (int k = 0; k < 6; k++)
            memory_free(all[k]);
    }
    memory_free(r->probe);
    r->probe = NULL;
    r->probes = 0;
}

/* A run that became non-finite after a third of its curves. */
static inline void fixture_diverge(struct record *r)
{
    fixture_drop_probes(r);
    r->outcome = OUTCOME_DIVERGED;
    r->curves.points /= 3;
    r->last_finite_step = r->curves.step[r->curves.points - 1];
    r->steps = r->last_finite_step + 1;
    r->curves.loss_test[r->curves.points - 1] = INFINITY;
    r->loss_train = r->loss_test = r->accuracy_train = r->accuracy_test = NAN;
}

static inline void fixture_fail(struct record *r, const char *why)
{
    fixture_drop_probes(r);
    r->outcome = OUTCOME_FAILED;
    r->curves.points = 0;
    r->loss_train = r->loss_test = r->accuracy_train = r->accuracy_test = NAN;
    r->error = memory_text(why);
}

/* A path in the test's temporary directory; memory_free. */
static inline char *fixture_path(const char *name)
{
    const char *dir = getenv("TMPDIR");
    return memory_format("%s/%s", dir && *dir ? dir : "/tmp", name);
}

/* Opens a store in a new folder and fills it, one run a tile (store.tile_runs: 1 in the job). */
static inline struct store *fixture_store(const char *name, const struct job *job, fixture_rule *rule)
{
    char *dir = fixture_path(name);
    struct store *store = NULL;
    CHECK_OK(store_open(dir, job, &store));
    if (!store)
        exit(1);
    memory_free(dir);
    struct plan *plan = plan_new(job);
    for (size_t t = 0; t < plan->tiles; t++) {
        struct record r;
        CHECK_INT(plan->tile[t].count, 1);
        size_t run = plan->tile[t].first;
        fixture_record(job, run, &r);
        int outcome = rule ? rule(job, run, &r) : OUTCOME_DONE;
        if (outcome == OUTCOME_DIVERGED)
            fixture_diverge(&r);
        if (outcome == OUTCOME_FAILED)
            fixture_fail(&r, "activations are not finite <layer 1> & so on");
        if (outcome == OUTCOME_UNFINISHED)
            r.outcome = OUTCOME_UNFINISHED;
        if (outcome >= 0)
            CHECK_OK(store_put_tile(store, job, &plan->tile[t], &r, 1));
        record_clear(&r);
    }
    plan_free(plan);
    return store;
}

/* Every number that runs.nc should hold, as text, for the comparison in Python. */
static inline void fixture_dump(FILE *f, size_t run, const struct record *r)
{
    fprintf(f, "run %zu\noutcome %d\nsteps %lld\nlast_finite_step %lld\nwall_time %.17g\nrestarts %d\n", run, (int)r->outcome,
            (long long)r->steps, (long long)r->last_finite_step, r->wall_time, r->restarts);
    fprintf(f, "accuracy_train %.17g\naccuracy_test %.17g\nloss_train_final %.17g\nloss_test_final %.17g\n", r->accuracy_train,
            r->accuracy_test, r->loss_train, r->loss_test);
    for (int i = 0; i < r->curves.points; i++)
        fprintf(f, "point %lld %.17g %.17g %.17g %.17g\n", (long long)r->curves.step[i], r->curves.loss_train[i],
                r->curves.loss_test[i], r->curves.accuracy_train[i], r->curves.accuracy_test[i]);
    for (int k = 0; k < r->probes; k++) {
        const struct record_probe *p = &r->probe[k];
        fprintf(f, "probe %lld\ncore_dim %d\ncore_rank %d\ncore_sufficient_dim %d\ncore_necessary_dim %d\n", (long long)p->step,
                p->core_dim, p->rank, p->sufficient, p->necessary);
        fprintf(f, "accuracy_full %.17g\naccuracy_core_only %.17g\naccuracy_core_removed %.17g\n", p->accuracy,
                p->accuracy_core_only, p->accuracy_core_removed);
        fprintf(f, "operator_r2 %.17g\noperator_r2_oracle_ratio %.17g\n", p->r2, p->r2_oracle_ratio);
        for (int i = 0; i < p->d; i++)
            fprintf(f, "core_weight %.17g\n", p->weight[i]);
        for (int i = 0; i < p->operator_rank; i++)
            fprintf(f, "eigenvalue %.17g %.17g %.17g\n", p->eigenvalue[2 * i], p->eigenvalue[2 * i + 1],
                    p->eigenvalue_error[i]);
    }
}

static inline enum status fixture_dump_each(void *context, size_t run, const struct record *r)
{
    fixture_dump(context, run, r);
    return STATUS_OK;
}

/* ---- a cross_run.nc with known numbers ---- */

static inline void fixture_pairs(struct ncfile *f, const char *name, const char *dims, size_t n, size_t inner, double low,
                                 double high, double diagonal)
{
    struct stream s = stream_open(n, PURPOSE_PROBE, (uint32_t)inner + 7);
    double *x = fixture_array(n * n * inner);
    for (size_t a = 0; a < n; a++)
        for (size_t b = a; b < n; b++)
            for (size_t k = 0; k < inner; k++) {
                double v = high - (high - low) * (double)k / (double)inner - (high - low) / 8 * stream_uniform(&s);
                x[(a * n + b) * inner + k] = x[(b * n + a) * inner + k] = a == b ? diagonal : v;
            }
    ncfile_variable(f, name, NCFILE_DOUBLE, dims, "1", name);
    ncfile_put(f, name, x);
    memory_free(x);
}

static inline void fixture_counter(struct ncfile *f, const char *name, size_t n, const double *values)
{
    double *v = fixture_array(n);
    for (size_t i = 0; i < n; i++)
        v[i] = values ? values[i] : (double)i;
    ncfile_dimension(f, name, n);
    ncfile_variable(f, name, NCFILE_INT, name, "1", name);
    ncfile_put(f, name, v);
    memory_free(v);
}

/* Pairs of the runs `run[n]` (NULL: 0..n-1), with the names of the real file. */
static inline void fixture_cross(const char *dir, size_t n, const double *run)
{
    char *path = memory_format("%s/cross_run.nc", dir);
    struct ncfile *f = NULL;
    CHECK_OK(ncfile_create(path, "pairs of a fixture", &f));
    fixture_counter(f, "run", n, run);
    fixture_counter(f, "run_other", n, run);
    fixture_counter(f, "component", 3, NULL);
    fixture_pairs(f, "canonical_correlation", "run run_other component", n, 3, 0.92, 0.9999, 1);
    fixture_pairs(f, "projector_overlap", "run run_other", n, 1, 0.02, 0.04, 1);
    fixture_pairs(f, "weight_cosine", "run run_other", n, 1, 0.03, 0.05, 1);
    const double strength[3] = {0.9991, 0.9989, 0.942};
    ncfile_variable(f, "consensus_strength", NCFILE_DOUBLE, "component", "1", "consensus");
    ncfile_put(f, "consensus_strength", strength);
    CHECK_OK(ncfile_close(f));
    memory_free(path);
}

#endif
