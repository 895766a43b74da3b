/* runs.nc and phase_map.nc from known records. The folders stay in TMPDIR, each with the records as text (records.txt):
 * test_runs_numpy.py and test_cf.sh read them again. */
#include "test_report_fixture.h"

#include "analysis/phase_map.h"
#include "analysis/runs.h"
#include "analysis/variables.h"

static void gather_files(struct store *store, const struct job *job)
{
    CHECK_OK(runs_write(store, job));
    CHECK_OK(phase_map_write(store, job));
    char *path = memory_format("%s/records.txt", store_dir(store));
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    CHECK_OK(store_read(store, job, fixture_dump_each, f));
    fclose(f);
    memory_free(path);
}

static struct ncfile *open_file(struct store *store, const char *name)
{
    char *path = memory_format("%s/%s", store_dir(store), name);
    struct ncfile *f = NULL;
    CHECK_OK(ncfile_open(path, &f));
    memory_free(path);
    if (!f)
        exit(1);
    return f;
}

static int no_file(struct store *store, const char *name)
{
    char *path = memory_format("%s/%s", store_dir(store), name);
    int missing = access(path, F_OK) != 0;
    memory_free(path);
    return missing;
}

/* Runs 1 and 3 are missing, 2 diverged, 4 failed, 5 is not finished. */
static int mixed(const struct job *job, size_t run, struct record *r)
{
    (void)job, (void)r;
    static const int rule[] = {OUTCOME_DONE, -1, OUTCOME_DIVERGED, -1, OUTCOME_FAILED, OUTCOME_UNFINISHED};
    return rule[run];
}

TEST(runs_of_every_outcome)
{
    struct job *job = fixture_job(FIXTURE_JOB "seeds: 6\n");
    struct store *store = fixture_store("plain", job, mixed);
    gather_files(store, job);
    CHECK(no_file(store, "phase_map.nc"));
    struct ncfile *f = open_file(store, "runs.nc");
    static const double expected[] = {0, NAN, 1, NAN, 3, 2};
    size_t n;
    double *outcome = ncfile_get(f, "outcome", &n), *loss = ncfile_get(f, "loss_test", NULL);
    CHECK_INT(n, 6);
    for (size_t i = 0; i < n; i++)
        CHECK(outcome[i] == expected[i] || (isnan(outcome[i]) && isnan(expected[i])));
    size_t steps = ncfile_length(f, "step");
    CHECK_INT(steps, 41);
    CHECK(isfinite(loss[2 * steps + 11]) && isnan(loss[2 * steps + 12]));      /* the diverged run's last loss was infinite */
    char **error = ncfile_get_texts(f, "error", &n);
    CHECK_TEXT(error[4], "activations are not finite <layer 1> & so on");
    CHECK_TEXT(error[0], "");
    for (size_t i = 0; i < n; i++)
        memory_free(error[i]);
    memory_free(error);
    double *best = ncfile_get(f, "accuracy_best", NULL), *chance = ncfile_get(f, "accuracy_chance", NULL);
    CHECK_NEAR(best[0], 0.75, 1e-15);
    CHECK_NEAR(chance[5], 0.25, 1e-15);
    char *effective = ncfile_get_text(f, "job"), *printed = job_print(job);
    CHECK_TEXT(effective, printed);
    memory_free(effective);
    memory_free(printed);
    memory_free(best);
    memory_free(chance);
    memory_free(outcome);
    memory_free(loss);
    CHECK_OK(ncfile_close(f));
    store_close(store);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

/* Two probes a run, with other ranks, and curves that end at other steps. */
static int two_probes(const struct job *job, size_t run, struct record *r)
{
    (void)job;
    struct stream s = stream_open(run + 100, PURPOSE_PROBE, 1);
    if (run == 2)
        return OUTCOME_DONE;
    r->probe = memory_grow(r->probe, 1, 2, sizeof *r->probe);
    r->probe[1] = r->probe[0];
    fixture_probe(&r->probe[0], &s, 94);
    r->probes = 2;
    r->probe[0].necessary = r->probe[0].sufficient = -1;
    for (int i = 0; i < r->curves.points; i++)
        r->curves.step[i] += (int64_t)run;
    return OUTCOME_DONE;
}

TEST(runs_with_several_probes)
{
    struct job *job = fixture_job(FIXTURE_JOB "seeds: 4\n");
    struct store *store = fixture_store("probes", job, two_probes);
    gather_files(store, job);
    struct ncfile *f = open_file(store, "runs.nc");
    CHECK_INT(ncfile_length(f, "probe"), 2);
    CHECK_INT(ncfile_length(f, "step"), 41 * 3);        /* runs 0 and 2 have the same steps */
    double *last = ncfile_get(f, "core_necessary_dim", NULL), *all = ncfile_get(f, "core_necessary_dim_probe", NULL);
    CHECK_INT(last[0], 3);
    CHECK(isnan(all[0]) && all[1] == 3);              /* no rank reached the bound at the first probe */
    CHECK(all[4] == 3 && isnan(all[5]));              /* run 2 has one probe only */
    memory_free(last);
    memory_free(all);
    CHECK_OK(ncfile_close(f));
    store_close(store);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

static int nothing(const struct job *job, size_t run, struct record *r)
{
    (void)job, (void)run, (void)r;
    return -1;
}

/* What claims may name is listed, with nothing missing. */
TEST(runs_variables_are_listed)
{
    struct job *job = fixture_job(FIXTURE_JOB "seeds: 1\n");
    struct store *store = fixture_store("listed", job, NULL);
    gather_files(store, job);
    struct ncfile *f = open_file(store, "runs.nc");
    char *reference = variables_reference();
    for (int i = 0; i < ncfile_variables(f); i++) {
        const char *name = ncfile_variable_name(f, i);
        char *row = memory_format("| `%s` | run", name);
        if (!strcmp(name, "seed") || ncfile_rank(f, name) < 1 || *ncfile_get_attribute(f, name, "_Encoding") ||
            !strcmp(name, ncfile_variable_dimension(f, name, 0, NULL)))
            CHECK(strstr(reference, row) == NULL);
        else
            CHECK_HAS(reference, row);
        memory_free(row);
    }
    memory_free(reference);
    CHECK_OK(ncfile_close(f));
    store_close(store);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

TEST(runs_of_an_empty_store)
{
    struct job *job = fixture_job(FIXTURE_JOB "seeds: 2\naxes: {train.lr: [1, 10]}\n");
    struct store *store = fixture_store("empty", job, nothing);
    gather_files(store, job);
    struct ncfile *f = open_file(store, "phase_map.nc");
    size_t n;
    double *outcome = ncfile_get(f, "outcome", &n), *count = ncfile_get(f, "accuracy_test_count", NULL);
    CHECK_INT(n, 2);
    CHECK(isnan(outcome[0]) && isnan(outcome[1]));
    CHECK_INT(count[0], 0);
    memory_free(outcome);
    memory_free(count);
    CHECK_OK(ncfile_close(f));
    store_close(store);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

/* An axis over the task: what is true differs from run to run. */
TEST(runs_know_the_truth_of_their_own_task)
{
    struct job *job = fixture_job(FIXTURE_JOB "seeds: 2\naxes: {task.stay: [0.5, 0.75, 0.875], task.states: [3, 4]}\n");
    struct store *store = fixture_store("truth", job, NULL);
    gather_files(store, job);
    struct ncfile *f = open_file(store, "runs.nc");
    double *best = ncfile_get(f, "accuracy_best", NULL), *chance = ncfile_get(f, "accuracy_chance", NULL);
    double *states = ncfile_get(f, "task_states", NULL), *stay = ncfile_get(f, "task_stay", NULL);
    for (size_t i = 0; i < job_runs(job); i++) {
        CHECK_NEAR(best[i], stay[i], 1e-15);
        CHECK_NEAR(chance[i], 1 / states[i], 1e-15);
    }
    memory_free(best);
    memory_free(chance);
    memory_free(states);
    memory_free(stay);
    CHECK_OK(ncfile_close(f));
    store_close(store);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

/* ---- maps: four seeds a point, outcomes by a table ---- */

enum { D = OUTCOME_DONE, V = OUTCOME_DIVERGED, U = OUTCOME_UNFINISHED, F = OUTCOME_FAILED, M = -1 };

static const struct { int outcome[4], majority; double share; } points[6] = {
    {{D, D, D, D}, D, 1.0},      {{D, D, V, V}, V, 0.5},      {{D, U, U, D}, U, 0.5},
    {{V, F, V, F}, F, 0.5},      {{M, M, U, V}, V, 0.5},      {{D, D, V, M}, D, 2.0 / 3},
};

static int by_table(const struct job *job, size_t run, struct record *r)
{
    int at[JOB_AXES_MAX], seed;
    job_locate(job, run, at, &seed);
    r->accuracy_test = 1e9 + 0.25 * seed + at[0];      /* a naive sum of squares would lose the spread */
    return points[at[0] * 3 + at[1]].outcome[seed];
}

TEST(phase_map_takes_the_majority_and_of_equals_the_worse)
{
    struct job *job = fixture_job(FIXTURE_JOB "seeds: 4\naxes: {model.norm: [none, post], train.lr: [0.3, 0.1, 0.2]}\n");
    struct store *store = fixture_store("map", job, by_table);
    gather_files(store, job);
    struct ncfile *f = open_file(store, "phase_map.nc");
    /* norm: post (0) before none (2); lr: 0.1, 0.2, 0.3 */
    static const int place[2][3] = {{4, 5, 3}, {1, 2, 0}};
    double *outcome = ncfile_get(f, "outcome", NULL), *share = ncfile_get(f, "outcome_share", NULL);
    double *norm = ncfile_get(f, "model_norm", NULL), *lr = ncfile_get(f, "train_lr", NULL);
    double *std = ncfile_get(f, "accuracy_test_std", NULL), *count = ncfile_get(f, "accuracy_test_count", NULL);
    for (int i = 0; i < 6; i++) {
        CHECK_INT(outcome[i], points[place[i / 3][i % 3]].majority);
        CHECK_NEAR(share[i], points[place[i / 3][i % 3]].share, 1e-15);
    }
    CHECK_NEAR(std[5], 0.25 * sqrt(5.0 / 3), 1e-7);          /* point 0: all four seeds */
    CHECK(isnan(std[0]));                                     /* point 4: one value only */
    CHECK_INT(count[0], 1);
    CHECK(norm[0] == 0 && norm[1] == 2 && lr[0] == 0.1 && lr[2] == 0.3);
    CHECK_TEXT(ncfile_get_attribute(f, "model_norm", "flag_meanings"), "post pre none");
    CHECK_TEXT(ncfile_get_attribute(f, "train_lr", "key"), "train.lr");
    double *all[] = {outcome, share, norm, lr, std, count};
    for (int i = 0; i < 6; i++)
        memory_free(all[i]);
    CHECK_OK(ncfile_close(f));
    store_close(store);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}
