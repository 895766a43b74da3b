/* Claims over hand-made files: every operator, chain, reducer, index, missing values, names that are not there. */
#include "check.h"

#include "analysis/claims.h"
#include "base/memory.h"
#include "store/ncfile.h"

#include <sys/stat.h>

enum { RUNS = 5, COMPONENTS = 3 };

static char *folder(void)
{
    const char *dir = getenv("TMPDIR");
    return memory_format("%s/claims-%d", dir && *dir ? dir : "/tmp", (int)getpid());
}

static void define(struct ncfile *f, const char *name, const char *dims, const double *x)
{
    ncfile_variable(f, name, NCFILE_DOUBLE, dims, "1", name);
    ncfile_put(f, name, x);
}

static void write_runs(const char *dir)
{
    char *path = memory_format("%s/runs.nc", dir);
    struct ncfile *f;
    const double run[RUNS] = {0, 1, 2, 3, 4};
    const double outcome[RUNS] = {0, 0, 1, 0, NAN}, dim[RUNS] = {3, 3, NAN, 4, NAN};
    const double accuracy[RUNS] = {0.5, 0.6, NAN, 0.8, NAN}, copy[RUNS] = {0.5, 0.6, NAN, 0.8, NAN};
    const double one[RUNS] = {1, 1, 1, 1, 1}, empty[RUNS] = {NAN, NAN, NAN, NAN, NAN}, norm[RUNS] = {0, 2, 2, 0, 0};
    const double component[COMPONENTS] = {0, 1, 2};
    double weight[RUNS][COMPONENTS], eigen[RUNS][COMPONENTS][2];
    for (int r = 0; r < RUNS; r++)
        for (int c = 0; c < COMPONENTS; c++) {
            weight[r][c] = r == 4 ? (double)NAN : (double)(10 * r + c);
            eigen[r][c][0] = c;
            eigen[r][c][1] = 0.25;
        }
    static const char *const outcomes[] = {"DONE", "DIVERGED", "UNFINISHED", "FAILED"};
    static const char *const norms[] = {"post", "pre", "none"};
    CHECK_OK(ncfile_create(path, "runs", &f));
    ncfile_dimension(f, "run", RUNS);
    ncfile_dimension(f, "component", COMPONENTS);
    ncfile_dimension(f, "part", 2);
    define(f, "run", "run", run);
    define(f, "component", "component", component);
    define(f, "outcome", "run", outcome);
    ncfile_flags(f, "outcome", 4, outcomes);
    define(f, "model_norm", "run", norm);
    ncfile_flags(f, "model_norm", 3, norms);
    define(f, "core_dim", "run", dim);
    define(f, "accuracy", "run", accuracy);
    define(f, "accuracy_copy", "run", copy);
    define(f, "one", "run", one);
    define(f, "empty", "run", empty);
    define(f, "weight", "run component", weight[0]);
    define(f, "eigen", "run component part", eigen[0][0]);
    ncfile_text(f, "job", "a text", "name: x");
    CHECK_OK(ncfile_close(f));
    memory_free(path);
}

/* Runs 0, 1 and 3 were compared; the diagonal holds 1, the lower triangle what must never be looked at. */
static void write_cross(const char *dir)
{
    char *path = memory_format("%s/cross_run.nc", dir);
    struct ncfile *f;
    const double run[3] = {0, 1, 3}, component[2] = {0, 1};
    const double overlap[3][3] = {{1, 0.02, 0.03}, {-9, 1, 0.04}, {-9, -9, 1}};
    const double correlation[3][3][2] = {{{1, 1}, {0.99, 0.95}, {0.98, 0.94}},
                                         {{-9, -9}, {1, 1}, {0.97, NAN}},
                                         {{-9, -9}, {-9, -9}, {1, 1}}};
    const double strength[2] = {0.99, 0.9}, keep[3] = {0.5, 0.6, 0.8};
    CHECK_OK(ncfile_create(path, "pairs", &f));
    ncfile_dimension(f, "run", 3);
    ncfile_dimension(f, "run_other", 3);
    ncfile_dimension(f, "component", 2);
    define(f, "run", "run", run);
    define(f, "run_other", "run_other", run);
    define(f, "component", "component", component);
    define(f, "overlap", "run run_other", overlap[0]);
    define(f, "correlation", "run run_other component", correlation[0][0]);
    define(f, "strength", "component", strength);
    define(f, "keep", "run", keep);
    CHECK_OK(ncfile_close(f));
    memory_free(path);
}

static void write_map(const char *dir)
{
    char *path = memory_format("%s/phase_map.nc", dir);
    struct ncfile *f;
    const double x[4] = {1, 2, 3, 4}, mean[4] = {0.1, 0.2, NAN, 0.4};
    CHECK_OK(ncfile_create(path, "map", &f));
    ncfile_dimension(f, "train_lr", 4);
    define(f, "train_lr", "train_lr", x);
    define(f, "accuracy_mean", "train_lr", mean);
    CHECK_OK(ncfile_close(f));
    memory_free(path);
}

/* Judges one claim over the three files (which: 1 runs, 2 cross, 4 map). */
static void check_claim(int line, int which, const char *text, enum verdict verdict, const char *measured)
{
    char *dir = folder();
    mkdir(dir, 0777);
    write_runs(dir);
    if (which & 2)
        write_cross(dir);
    if (which & 4)
        write_map(dir);
    struct claim claim;
    int column = 0;
    struct judged judged = {0};
    if (claim_parse(text, &claim, &column) != STATUS_OK) {
        CHECK_FAIL("line %d: \"%s\" column %d: %s", line, text, column, status_text());
        return;
    }
    struct job job = {.claims = 1, .claim = &claim};
    CHECK_OK(claims_judge(dir, &job, &judged));
    if (judged.verdict != verdict || !judged.measured || strcmp(judged.measured, measured))
        CHECK_FAIL("line %d: \"%s\" is %d \"%s\", expected %d \"%s\"", line, text, (int)judged.verdict, judged.measured,
                   (int)verdict, measured);
    claims_clear(&judged, 1);
    claim_clear(&claim);
    char *remove_it = memory_format("rm -rf '%s'", dir);
    CHECK_INT(system(remove_it), 0);
    memory_free(remove_it);
    memory_free(dir);
}

#define HOLDS(which, text, measured) check_claim(__LINE__, which, text, CLAIM_HOLDS, measured)
#define FAILS(which, text, measured) check_claim(__LINE__, which, text, CLAIM_FAILS, measured)
#define UNKNOWN(which, text, measured) check_claim(__LINE__, which, text, CLAIM_UNKNOWN, measured)

TEST(claims_compare)
{
    HOLDS(1, "one == 1", "1 .. 1 over 5 runs");
    FAILS(1, "core_dim == 3", "3 .. 4 over 3 of 5 runs, not in 1");
    HOLDS(1, "core_dim != 5", "3 .. 4 over 3 of 5 runs");
    FAILS(1, "core_dim != 4", "3 .. 4 over 3 of 5 runs, not in 1");
    HOLDS(1, "accuracy < 0.81", "0.5 .. 0.8 over 3 of 5 runs");
    FAILS(1, "accuracy < 0.8", "0.5 .. 0.8 over 3 of 5 runs, not in 1");
    HOLDS(1, "accuracy <= 0.8", "0.5 .. 0.8 over 3 of 5 runs");
    HOLDS(1, "accuracy > 0.49", "0.5 .. 0.8 over 3 of 5 runs");
    FAILS(1, "accuracy > 0.5", "0.5 .. 0.8 over 3 of 5 runs, not in 1");
    HOLDS(1, "accuracy >= 0.5", "0.5 .. 0.8 over 3 of 5 runs");
    FAILS(1, "accuracy >= 0.7", "0.5 .. 0.8 over 3 of 5 runs, not in 2");
    CHECK_INT(memory_balance(), 0);
}

TEST(claims_chain)
{
    HOLDS(1, "0.5 <= accuracy <= 0.8", "0.5 .. 0.8 over 3 of 5 runs");
    FAILS(1, "0.55 <= accuracy <= 0.8", "0.5 .. 0.8 over 3 of 5 runs, not in 1");
    FAILS(1, "0.5 <= accuracy < 0.8", "0.5 .. 0.8 over 3 of 5 runs, not in 1");
    HOLDS(1, "0 < accuracy < one <= 1", "0.5 .. 0.8 over 3 of 5 runs");
    CHECK_INT(memory_balance(), 0);
}

TEST(claims_arithmetic)
{
    HOLDS(1, "accuracy >= accuracy_copy - 0.001", "0.5 .. 0.8 against 0.499 .. 0.799 over 3 of 5 runs");
    HOLDS(1, "2 * (accuracy + 1) / 4 == 0.5 * accuracy + 0.5", "0.75 .. 0.9 against 0.75 .. 0.9 over 3 of 5 runs");
    HOLDS(1, "-accuracy <= -0.5", "-0.8 .. -0.5 over 3 of 5 runs");
    HOLDS(1, "abs(accuracy - 0.7) <= 0.21", "0.1 .. 0.2 over 3 of 5 runs");
    HOLDS(1, "1 - 2 - 3 == -4 * one", "-4 .. -4 over 5 runs");
    HOLDS(1, "8 / 2 / 2 == 2 * one", "2 .. 2 over 5 runs");
    UNKNOWN(1, "one / (one - 1) > 0", "no finite value of one, one");
    HOLDS(1, "1 < 2", "nothing is measured");
    CHECK_INT(memory_balance(), 0);
}

TEST(claims_reduce)
{
    HOLDS(1, "min(accuracy) == 0.5", "0.5");
    HOLDS(1, "max(accuracy) == 0.8", "0.8");
    HOLDS(1, "0.6333333333333 < mean(accuracy) < 0.6333333333334", "0.6333");
    HOLDS(1, "median(accuracy) == 0.6", "0.6");
    HOLDS(1, "median(weight) == 12 + 4", "16");
    HOLDS(1, "0.1527525231651 < std(accuracy) < 0.1527525231652", "0.1528");
    HOLDS(1, "count(accuracy) == 3", "3");
    HOLDS(1, "count(empty) == 0", "0");
    HOLDS(1, "share(accuracy > 0.55) > 0.66", "0.6667");
    HOLDS(1, "share(outcome == DONE) == 0.75", "0.75");
    HOLDS(1, "share(0.55 < accuracy < 0.7) * 3 == 1", "1");
    HOLDS(1, "share(core_dim - 3) <= 1 / 3", "0.3333");
    UNKNOWN(1, "std(accuracy[0]) > 0", "\"accuracy\" has no components: leave out [0]");
    UNKNOWN(1, "mean(empty) > 0", "no finite value of empty");
    FAILS(1, "max(accuracy) - min(accuracy) < 0.123456789", "0.3");
    HOLDS(1, "accuracy >= min(accuracy)", "0.5 .. 0.8 against 0.5 over 3 of 5 runs");
    CHECK_INT(memory_balance(), 0);
}

TEST(claims_index)
{
    HOLDS(1, "weight[0] <= 30", "0 .. 30 over 4 of 5 runs");
    HOLDS(1, "weight[2] - weight[0] == 2", "2 .. 2 over 4 of 5 runs");
    UNKNOWN(1, "weight[3] > 0", "\"weight\" has components 0 to 2");
    HOLDS(1, "weight >= 0", "0 .. 32 over 12 values of 4 of 5 runs");
    HOLDS(1, "max(eigen[2]) == 2", "2");
    FAILS(1, "eigen[1] == 1", "0.25 .. 1 over 10 values of 5 runs, not in 5");
    HOLDS(2, "strength[1] == 0.9", "0.9");
    HOLDS(2, "strength > 0.8", "0.9 .. 0.99 over 2 values");
    CHECK_INT(memory_balance(), 0);
}

TEST(claims_words)
{
    FAILS(1, "outcome == DONE", "3 DONE, 1 DIVERGED over 4 of 5 runs, not in 1");
    HOLDS(1, "outcome != FAILED", "3 DONE, 1 DIVERGED over 4 of 5 runs");
    HOLDS(1, "DIVERGED >= outcome", "3 DONE, 1 DIVERGED over 4 of 5 runs");
    HOLDS(1, "share(model_norm == none) == 0.4", "0.4");
    HOLDS(1, "share(model_norm == pre) == 0", "0");
    UNKNOWN(1, "model_norm == nothing", "no variable \"nothing\" in runs.nc");
    CHECK_INT(memory_balance(), 0);
}

TEST(claims_over_pairs)
{
    HOLDS(2, "0.02 <= overlap <= 0.04", "0.02 .. 0.04 over 3 pairs");
    FAILS(2, "overlap < 0.04", "0.02 .. 0.04 over 3 pairs, not in 1");
    HOLDS(2, "correlation >= 0.94", "0.94 .. 0.99 over 5 values of 3 pairs");
    HOLDS(2, "min(correlation) == 0.94", "0.94");
    HOLDS(2, "correlation[1] >= 0.9", "0.94 .. 0.95 over 2 of 3 pairs");
    HOLDS(2, "count(overlap) == 3", "3");
    CHECK_INT(memory_balance(), 0);
}

/* Variables of runs.nc and cross_run.nc meet in the runs that both have, by number and not by position. */
TEST(claims_meet_by_run)
{
    HOLDS(2, "keep == accuracy", "0.5 .. 0.8 against 0.5 .. 0.8 over 3 runs");
    HOLDS(2, "accuracy == keep", "0.5 .. 0.8 against 0.5 .. 0.8 over 3 runs");
    HOLDS(2, "one + overlap > one", "1.02 .. 1.04 against 1 .. 1 over 3 pairs");
    HOLDS(2, "strength + 0 * weight[0] >= 0.9", "0.9 .. 0.99 over 8 values of 4 of 5 runs");
    CHECK_INT(memory_balance(), 0);
}

TEST(claims_over_maps)
{
    HOLDS(4, "max(accuracy_mean) == 0.4", "0.4");
    HOLDS(4, "accuracy_mean >= 0.1", "0.1 .. 0.4 over 3 values");
    HOLDS(7, "train_lr >= 1", "1 .. 4 over 4 values");
    CHECK_INT(memory_balance(), 0);
}

TEST(claims_unknown)
{
    UNKNOWN(1, "no_such > 1", "no variable \"no_such\" in runs.nc");
    UNKNOWN(7, "no_such > 1", "no variable \"no_such\" in runs.nc, cross_run.nc, phase_map.nc");
    UNKNOWN(1, "overlap > 0", "no variable \"overlap\" in runs.nc");
    UNKNOWN(1, "empty >= 0", "no finite value of empty");
    UNKNOWN(1, "job == 1", "no variable \"job\" in runs.nc");
    CHECK_INT(memory_balance(), 0);
}

TEST(claims_need_runs)
{
    struct claim claim;
    int column;
    CHECK_OK(claim_parse("a == 1", &claim, &column));
    struct job job = {.claims = 1, .claim = &claim};
    struct judged judged = {0};
    CHECK_INT(claims_judge("/nowhere", &job, &judged), STATUS_IO);
    CHECK_HAS(status_text(), "/nowhere/runs.nc");
    claim_clear(&claim);
    CHECK_INT(memory_balance(), 0);
}

TEST(claims_table_is_aligned)
{
    struct claim claim[3] = {{.text = (char[]){"a == 1"}, .says = (char[]){"first"}}, {.text = (char[]){"bb\xc3\xa9 == 10"}},
                             {.text = (char[]){"c > 2"}, .says = (char[]){"third"}}};
    struct judged judged[3] = {{&claim[0], CLAIM_HOLDS, memory_text("1")}, {&claim[1], CLAIM_FAILS, memory_text("11 .. 12")},
                               {&claim[2], CLAIM_UNKNOWN, memory_text("none")}};
    char *table = claims_print(judged, 3);
    CHECK_TEXT(table, "         claim      measured\n"
                      "holds    a == 1     1\n"
                      "FAILS    bb\xc3\xa9 == 10  11 .. 12\n"
                      "unknown  c > 2      none\n"
                      "1 of 3 claims hold\n");
    memory_free(table);
    table = claims_print(judged, 0);
    CHECK_TEXT(table, "");
    memory_free(table);
    claims_clear(judged, 3);
    CHECK_INT(memory_balance(), 0);
}
