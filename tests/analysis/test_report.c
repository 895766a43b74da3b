/* Whole folders from known records, and their report: of a job without axes, with one, two and four, of one where every run
 * diverged, of one without runs, without gnuplot and with one that fails. The folders stay in TMPDIR, to be looked at. */
#include "test_report_fixture.h"

#include "analysis/phase_map.h"
#include "analysis/report.h"
#include "analysis/runs.h"
#include "base/text.h"

#include <dirent.h>

static const char markov_yaml[] = FIXTURE_JOB
    "seeds: 8\n"
    "claims:\n"
    "  - {that: core_dim == 3, says: \"three directions, for every <seed> & all\", source: arXiv 2602.22600}\n"
    "  - accuracy_core_removed <= accuracy_chance + 0.02\n"
    "  - {that: min(canonical_correlation) >= 0.9, says: cores agree across seeds}\n"
    "  - 0.02 <= projector_overlap <= 0.04\n"
    "  - accuracy_test >= 0.7495\n"
    "  - no_such_variable > 1\n";

static void gather_and_report(struct store *store, const struct job *job, int expected_failures)
{
    int failed = -1;
    CHECK_OK(runs_write(store, job));
    CHECK_OK(phase_map_write(store, job));
    CHECK_OK(report_write(store, job, &failed));
    CHECK_INT(failed, expected_failures);
}

static char *read_report(const char *name)
{
    char *relative = memory_format("%s/report.html", name), *path = fixture_path(relative);
    char *html = text_read_file(path, NULL);
    CHECK(html != NULL);
    memory_free(relative);
    memory_free(path);
    return html ? html : memory_text("");
}

static int exists(const char *folder, const char *name, const char *extension)
{
    char *relative = memory_format("%s/figures/%s.%s", folder, name, extension), *path = fixture_path(relative);
    struct stat st;
    int there = stat(path, &st) == 0 && st.st_size > 500;
    memory_free(relative);
    memory_free(path);
    return there;
}

/* The figure is drawn as both pictures and stands in the page. */
static void check_figure(const char *folder, const char *html, const char *name)
{
    char *tag = memory_format("<figure id=\"%s\"", name);
    CHECK_HAS(html, tag);
    if (!exists(folder, name, "svg") || !exists(folder, name, "png"))
        CHECK_FAIL("%s/figures lacks %s.svg or .png", folder, name);
    memory_free(tag);
}

TEST(report_of_a_job_without_axes)
{
    struct job *job = fixture_job(markov_yaml);
    struct store *store = fixture_store("markov", job, NULL);
    fixture_cross(store_dir(store), 8, NULL);
    gather_and_report(store, job, 2);
    char *html = read_report("markov");
    static const char *const figures[] = {"loss", "accuracy", "core_weights", "ablation", "eigenvalues", "pairs", "consensus"};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        check_figure("markov", html, figures[i]);
    CHECK(strstr(html, "map_") == NULL);
    /* every claim, escaped */
    CHECK_HAS(html, "core_dim == 3");
    CHECK_HAS(html, "three directions, for every &lt;seed&gt; &amp; all");
    CHECK_HAS(html, "accuracy_core_removed &lt;= accuracy_chance + 0.02");
    CHECK_HAS(html, "0.02 &lt;= projector_overlap &lt;= 0.04");
    CHECK_HAS(html, "min(canonical_correlation) &gt;= 0.9");
    CHECK_HAS(html, "no variable &quot;no_such_variable&quot;");
    CHECK_HAS(html, "4 of 6 claims hold");
    CHECK_HAS(html, "arXiv 2602.22600");
    CHECK_HAS(html, "8 runs: 8 DONE");
    CHECK(strstr(html, "http://") == NULL || strstr(html, "src=") == NULL);
    CHECK(strstr(html, "Not drawn") == NULL);
    memory_free(html);
    store_close(store);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

/* ---- maps ---- */

static const char map_yaml[] = FIXTURE_JOB
    "seeds: 2\n"
    "axes:\n"
    "  init.scale.attention: {from: 0.1, to: 10, points: 5, scale: log}\n"
    "  init.scale.mlp: {from: 0.1, to: 10, points: 6, scale: log}\n"
    "claims: [share(outcome == DONE) >= 0.5, max(core_dim_mean) <= 5]\n";

/* Diverges where both scales are large, fails at the corner, with seeds that differ on the border. */
static int map_rule(const struct job *job, size_t run, struct record *r)
{
    int at[JOB_AXES_MAX], seed;
    job_locate(job, run, at, &seed);
    r->accuracy_test -= 0.02 * at[0] + 0.01 * at[1];
    if (r->probes > 0)
        r->probe[0].core_dim = 3 + at[0] / 2;
    if (at[0] == 4 && at[1] == 5)
        return OUTCOME_FAILED;
    if (at[0] == 0 && at[1] == 0)
        return -1;
    if (at[0] + at[1] > 6 || (at[0] + at[1] == 6 && seed % 2))
        return OUTCOME_DIVERGED;
    return at[1] == 0 ? OUTCOME_UNFINISHED : OUTCOME_DONE;
}

TEST(report_of_a_job_with_two_axes)
{
    struct job *job = fixture_job(map_yaml);
    struct store *store = fixture_store("map", job, map_rule);
    gather_and_report(store, job, 0);
    char *html = read_report("map");
    static const char *const figures[] = {"loss", "accuracy", "core_weights", "ablation", "eigenvalues", "map_outcome",
                                          "map_accuracy_test", "map_core_dim", "map_accuracy_core_removed"};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        check_figure("map", html, figures[i]);
    CHECK_HAS(html, "Runs that failed or diverged");
    CHECK_HAS(html, "activations are not finite &lt;layer 1&gt; &amp; so on");
    CHECK_HAS(html, "2 FAILED");
    CHECK_HAS(html, "2 missing");
    memory_free(html);
    store_close(store);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

static const char line_yaml[] = FIXTURE_JOB
    "seeds: [3, 5, 9]\n"
    "axes: {train.weight_decay: [2, 0.3, 1, 0.5]}\n";

static int line_rule(const struct job *job, size_t run, struct record *r)
{
    int at[JOB_AXES_MAX], seed;
    job_locate(job, run, at, &seed);
    r->accuracy_test -= 0.05 * job->axis[0].value[at[0]];
    return at[0] == 0 && seed > 0 ? OUTCOME_DIVERGED : OUTCOME_DONE;
}

TEST(report_of_a_job_with_one_axis)
{
    struct job *job = fixture_job(line_yaml);
    struct store *store = fixture_store("line", job, line_rule);
    fixture_cross(store_dir(store), 10, NULL);
    gather_and_report(store, job, 0);
    char *html = read_report("line");
    check_figure("line", html, "map_outcome");
    check_figure("line", html, "map_accuracy_test");
    memory_free(html);
    store_close(store);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

static const char cube_yaml[] = FIXTURE_JOB
    "seeds: 1\n"
    "axes: {model.norm: [post, none], train.lr: {from: 1e-4, to: 1e-1, points: 4, scale: log}, model.bias: [true, false], "
    "train.momentum: {from: 0, to: 0.8, points: 5}}\n";

static int cube_rule(const struct job *job, size_t run, struct record *r)
{
    int at[JOB_AXES_MAX], seed;
    job_locate(job, run, at, &seed);
    r->accuracy_test -= 0.02 * (at[0] + at[1] + at[2] + at[3]);
    return at[0] && at[1] > 2 ? OUTCOME_DIVERGED : OUTCOME_DONE;
}

TEST(report_of_a_job_with_four_axes)
{
    struct job *job = fixture_job(cube_yaml);
    struct store *store = fixture_store("cube", job, cube_rule);
    gather_and_report(store, job, 0);
    char *html = read_report("cube");
    check_figure("cube", html, "map_outcome");
    check_figure("cube", html, "map_accuracy_test");
    CHECK_HAS(html, "The first 6 of 8 points of the further axes");
    memory_free(html);
    store_close(store);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

/* ---- the corners ---- */

static int all_diverge(const struct job *job, size_t run, struct record *r)
{
    (void)job, (void)run, (void)r;
    return OUTCOME_DIVERGED;
}

TEST(report_when_every_run_diverged)
{
    struct job *job = fixture_job(FIXTURE_JOB "seeds: 2\naxes: {train.lr: [1, 10], train.momentum: [0, 0.5]}\n"
                                            "claims: [share(outcome == DIVERGED) == 1, core_dim == 3]\n");
    struct store *store = fixture_store("diverged", job, all_diverge);
    gather_and_report(store, job, 1);
    char *html = read_report("diverged");
    check_figure("diverged", html, "map_outcome");
    CHECK_HAS(html, "no finite value of core_dim");
    CHECK(strstr(html, "id=\"map_accuracy_test\"") == NULL);
    memory_free(html);
    store_close(store);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

static int none(const struct job *job, size_t run, struct record *r)
{
    (void)job, (void)run, (void)r;
    return -1;
}

TEST(report_without_any_run)
{
    struct job *job = fixture_job(FIXTURE_JOB "seeds: 3\naxes: {train.lr: [1, 10]}\n");
    struct store *store = fixture_store("empty", job, none);
    gather_and_report(store, job, 0);
    char *html = read_report("empty");
    CHECK_HAS(html, "6 runs: 6 missing");
    memory_free(html);
    store_close(store);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

/* Puts a shell script named gnuplot first on the PATH. */
static void put_program(struct store *store, const char *script)
{
    char *bin = memory_format("%s/bin", store_dir(store)), *program = memory_format("%s/gnuplot", bin);
    CHECK_INT(mkdir(bin, 0777), 0);
    FILE *f = fopen(program, "w");
    fprintf(f, "#!/bin/sh\n%s\n", script);
    fclose(f);
    CHECK_INT(chmod(program, 0755), 0);
    char *path = memory_format("%s:%s", bin, getenv("PATH"));
    setenv("PATH", path, 1);
    memory_free(path);
    memory_free(program);
    memory_free(bin);
}

/* A program named gnuplot that complains, and none at all. */
TEST(report_says_what_gnuplot_says)
{
    struct job *job = fixture_job(FIXTURE_JOB "seeds: 1\n");
    struct store *store = fixture_store("complaint", job, NULL);
    int failed;
    CHECK_OK(runs_write(store, job));
    put_program(store, "echo line 7: a fault of the plot >&2; exit 1");
    CHECK_INT(report_write(store, job, &failed), STATUS_ENVIRONMENT);
    CHECK_HAS(status_text(), "line 7: a fault of the plot");
    char *html = read_report("complaint");
    CHECK_HAS(html, "Not drawn: gnuplot");
    CHECK_HAS(html, "line 7: a fault of the plot");
    memory_free(html);
    setenv("PATH", "/nowhere", 1);
    CHECK_OK(report_write(store, job, &failed));
    html = read_report("complaint");
    CHECK_HAS(html, "gnuplot is not installed");
    memory_free(html);
    store_close(store);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

/* A program named gnuplot that makes pictures of 2 MB. */
TEST(report_takes_the_png_of_a_large_picture)
{
    struct job *job = fixture_job(FIXTURE_JOB "seeds: 1\n");
    struct store *store = fixture_store("large", job, NULL);
    int failed;
    CHECK_OK(runs_write(store, job));
    put_program(store, "n=${1%.gp}; { echo '<svg>'; head -c 2000000 /dev/zero | tr '\\0' ' '; echo '</svg>'; } >$n.svg; "
                       "printf 'Many' >$n.png");
    CHECK_OK(report_write(store, job, &failed));
    char *html = read_report("large");
    CHECK_HAS(html, "src=\"data:image/png;base64,TWFueQ==\"");
    CHECK(strlen(html) < 100000);
    memory_free(html);
    store_close(store);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

TEST(report_needs_runs)
{
    struct job *job = fixture_job(FIXTURE_JOB "seeds: 1\n");
    struct store *store = fixture_store("ungathered", job, NULL);
    int failed;
    CHECK_INT(report_write(store, job, &failed), STATUS_IO);
    CHECK_HAS(status_text(), "runs.nc");
    store_close(store);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}
