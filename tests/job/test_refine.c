#include "check.h"

#include "base/memory.h"
#include "base/stream.h"
#include "job/plan.h"
#include "job/refine.h"

#include <math.h>
#include <string.h>

static struct job *job_of(const char *axes, int levels, int halo, int seeds)
{
    char *text = memory_format("name: x\naxes: {%s}\nrefine: {levels: %d, by: outcome, halo: %d}\nseeds: %d\n", axes,
                               levels, halo, seeds);
    struct job *job = NULL;
    CHECK_OK(job_parse(text, "x.yaml", NULL, 0, &job));
    memory_free(text);
    if (!job)
        exit(1);
    return job;
}

#define PLANE "train.lr: {from: 0, to: 1, points: 65}, init.std: {from: 0, to: 1, points: 65}"
#define SPACE                                                                                                          \
    "train.lr: {from: 0, to: 1, points: 33}, init.std: {from: 0, to: 1, points: 33}, train.eps: {from: 0, to: 1, "     \
    "points: 33}"

typedef int map_function(const double *x);

static int circle(const double *x) { return hypot(x[0] - 0.45, x[1] - 0.55) < 0.3; }
static int four(const double *x) { return (x[0] + 0.3 * x[1] > 0.6) + 2 * (x[1] > 0.5 + 0.2 * sin(5 * x[0])); }
static int diagonal_strip(const double *x) { return fabs(x[0] - x[1] - 0.1) < 0.02 ? 1 : x[0] - x[1] > 0.1 ? 2 : 0; }
static int flat(const double *x) { return x[0] > 2; }
static int ball(const double *x)
{
    return (x[0] - 0.5) * (x[0] - 0.5) + (x[1] - 0.4) * (x[1] - 0.4) + (x[2] - 0.5) * (x[2] - 0.5) < 0.09;
}

static int label_at(const struct job *job, size_t point, map_function *f)
{
    int position[JOB_AXES_MAX];
    double x[JOB_AXES_MAX];
    refine_position(job, point, position);
    for (int a = 0; a < job->axes; a++)
        x[a] = job->axis[a].value[position[a]];
    return f(x);
}

/* Trains level by level.   Returns the number of points that were trained; out: label[points] */
static size_t train(const struct job *job, map_function *f, int *label)
{
    size_t points = refine_points(job), trained = 0;
    bool *wanted = memory_new(points, sizeof *wanted), fresh = true;
    int before = -1;
    for (size_t p = 0; p < points; p++)
        label[p] = REFINE_UNKNOWN;
    while (fresh) {
        fresh = false;
        int level = refine_wanted(job, label, wanted);
        CHECK(level >= before);
        before = level;
        for (size_t p = 0; p < points; p++)
            if (wanted[p] && label[p] == REFINE_UNKNOWN) {
                CHECK(refine_level(job, p) <= level);
                label[p] = label_at(job, p, f);
                trained++;
                fresh = true;
            }
    }
    memory_free(wanted);
    return trained;
}

/* Points of the reassembled map that differ from the uniform one. */
static size_t differing(const struct job *job, map_function *f, const int *label)
{
    size_t points = refine_points(job), differ = 0;
    size_t *source = memory_new(points, sizeof *source);
    int *level = memory_new(points, sizeof *level);
    refine_fill(job, label, source, level);
    for (size_t p = 0; p < points; p++) {
        CHECK(label[source[p]] != REFINE_UNKNOWN);
        CHECK(level[p] >= 0 && level[p] <= job->spec.refine.levels);
        differ += label[source[p]] != label_at(job, p, f);
        if (label[p] != REFINE_UNKNOWN)
            CHECK(source[p] == p);
    }
    memory_free(source);
    memory_free(level);
    return differ;
}

TEST(a_refined_map_is_the_uniform_one_where_cells_are_not_missed)
{
    static const struct { const char *axes; int levels, halo; map_function *f; const char *name; double saved;
    } cases[] = {{PLANE, 4, 1, circle, "circle", 0.5},
                 {PLANE, 3, 1, four, "four regions", 0.4},
                 {PLANE, 3, 1, diagonal_strip, "strip", 0.4},
                 {PLANE, 4, 1, flat, "flat", 0.99},
                 {SPACE, 3, 1, ball, "ball", 0.3},
                 {PLANE, 3, 0, circle, "circle without halo", 0.7}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct job *job = job_of(cases[c].axes, cases[c].levels, cases[c].halo, 1);
        size_t points = refine_points(job);
        int *label = memory_new(points, sizeof *label);
        size_t trained = train(job, cases[c].f, label), differ = differing(job, cases[c].f, label);
        printf("# %s: %zu of %zu points trained, %zu differ from the uniform map\n", cases[c].name, trained, points, differ);
        CHECK_INT(differ, 0);
        CHECK(1.0 - (double)trained / (double)points >= cases[c].saved);
        memory_free(label);
        job_free(job);
    }
    CHECK_INT(memory_balance(), 0);
}

TEST(the_order_in_which_labels_arrive_does_not_matter)
{
    struct job *job = job_of(PLANE, 3, 1, 1);
    size_t points = refine_points(job);
    int *label = memory_new(points, sizeof *label), *partial = memory_new(points, sizeof *partial);
    bool *all = memory_new(points, sizeof *all), *some = memory_new(points, sizeof *some);
    train(job, four, label);
    refine_wanted(job, label, all);
    struct stream s = stream_open(1, PURPOSE_PROBE, 0);
    for (int round = 0; round < 50; round++) {
        for (size_t p = 0; p < points; p++)
            partial[p] = stream_below(&s, 10) < 9 ? label[p] : REFINE_UNKNOWN;
        refine_wanted(job, partial, some);
        for (size_t p = 0; p < points; p++)
            if (some[p] && !all[p])
                CHECK_FAIL("point %zu is wanted too early", p);
    }
    memory_free(label), memory_free(partial), memory_free(all), memory_free(some);
    job_free(job);
}

TEST(points_without_a_result_are_looked_at_closely)
{
    struct job *job = job_of(PLANE, 2, 0, 1);
    size_t points = refine_points(job);
    int *label = memory_new(points, sizeof *label), position[2] = {32, 32};
    bool *wanted = memory_new(points, sizeof *wanted);
    for (size_t p = 0; p < points; p++)
        label[p] = refine_level(job, p) == 0 ? 0 : REFINE_UNKNOWN;
    CHECK_INT(refine_wanted(job, label, wanted), 2);
    label[refine_point(job, position)] = REFINE_NONE;
    CHECK_INT(refine_wanted(job, label, wanted), 1);
    size_t n = 0;
    for (size_t p = 0; p < points; p++)
        n += wanted[p] && label[p] == REFINE_UNKNOWN;
    CHECK_INT(n, 25 - 9);            /* the four cells around it, halved */
    memory_free(label), memory_free(wanted);
    job_free(job);
}

TEST(a_choice_is_a_slice_of_its_own)
{
    struct job *job = job_of("train.optimizer: [adamw, sgd], train.lr: {from: 0, to: 1, points: 17}", 2, 1, 1);
    size_t points = refine_points(job), n[2] = {0};
    int *label = memory_new(points, sizeof *label);
    bool *wanted = memory_new(points, sizeof *wanted);
    for (size_t p = 0; p < points; p++)      /* only sgd has a boundary */
        label[p] = refine_level(job, p) == 0 ? p >= 17 && p % 17 > 8 : REFINE_UNKNOWN;
    CHECK_INT(refine_wanted(job, label, wanted), 1);
    for (size_t p = 0; p < points; p++)
        n[p / 17] += wanted[p];
    CHECK_INT(n[0], 5);
    CHECK(n[1] > 5);
    memory_free(label), memory_free(wanted);
    job_free(job);
}

TEST(runs_come_level_by_level_and_every_run_once)
{
    struct job *job = job_of(PLANE, 3, 1, 2);
    size_t runs = job_runs(job), points = refine_points(job);
    unsigned char *seen = memory_new(runs, 1);
    int position[JOB_AXES_MAX], seed, level = 0;
    CHECK_INT(runs, 2 * 65 * 65);
    for (size_t r = 0; r < runs; r++) {
        job_locate(job, r, position, &seed);
        size_t p = refine_point(job, position);
        CHECK(refine_level(job, p) >= level);
        level = refine_level(job, p);
        CHECK_INT(refine_point_of(job, r), p);
        CHECK_INT(refine_run(job, p, seed), r);
        seen[(size_t)seed * points + p]++;
    }
    for (size_t i = 0; i < runs; i++)
        if (seen[i] != 1)
            CHECK_FAIL("run %zu is there %d times", i, seen[i]);
    struct plan *plan = plan_new(job);
    int fits;
    char *text = plan_print(job, plan, 0.0, 0.0, 1, &fits);
    CHECK_HAS(text, "refined         begins with 162 of them");      /* 9 x 9, two seeds */
    memory_free(text);
    for (size_t t = 0; t < plan->tiles; t++) {
        job_locate(job, plan->tile[t].first, position, &seed);
        int first = refine_level(job, refine_point(job, position));
        job_locate(job, plan->tile[t].first + plan->tile[t].count - 1, position, &seed);
        CHECK_INT(refine_level(job, refine_point(job, position)), first);
    }
    plan_free(plan);
    memory_free(seen);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

TEST(a_job_without_levels_has_its_usual_order)
{
    struct job *job = NULL;
    CHECK_OK(job_parse("name: x\naxes: {train.lr: [1, 2, 3]}\nseeds: 2\n", "x.yaml", NULL, 0, &job));
    int position[JOB_AXES_MAX], seed;
    job_locate(job, 4, position, &seed);
    CHECK(job->order == NULL && position[0] == 1 && seed == 1);
    CHECK_INT(refine_point_of(job, 4), 1);
    CHECK_INT(refine_run(job, 1, 1), 4);
    CHECK_INT(refine_level_end(job, 0), 6);
    job_free(job);
}

/* Costs differ by the slice: of every tile and all together as by the keys of each run. */
TEST(tiles_of_a_refined_job_cost_what_their_runs_do)
{
    struct job *job = job_of("train.steps: [100, 900], train.lr: {from: 0, to: 1, points: 17}", 2, 1, 3);
    struct plan *plan = plan_new(job);
    struct spec *spec = memory_new(1, sizeof *spec);
    uint64_t seed;
    double all = 0.0;
    for (size_t t = 0; t < plan->tiles; t++) {
        double seconds = 0.0;
        for (size_t i = 0; i < plan->tile[t].count; i++) {
            job_run(job, plan->tile[t].first + i, spec, &seed);
            seconds += plan_cost(spec).seconds;
        }
        CHECK_NEAR(plan->tile[t].seconds, seconds, 1e-12 * seconds);
        all += seconds;
    }
    CHECK_NEAR(plan->seconds, all, 1e-12 * all);
    memory_free(spec);
    plan_free(plan);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

/* A tile is lost: the cells that are judged are filled all the same, what lies around the hole is left as it is. */
TEST(an_unfinished_map_is_filled_where_it_is_known)
{
    struct job *job = job_of(PLANE, 3, 1, 1);
    size_t points = refine_points(job), *source = memory_new(points, sizeof *source), open = 0;
    int *label = memory_new(points, sizeof *label), *level = memory_new(points, sizeof *level), position[2] = {8, 56};
    train(job, circle, label);
    label[refine_point(job, position)] = REFINE_UNKNOWN;
    refine_fill(job, label, source, level);
    for (size_t p = 0; p < points; p++) {
        if (label[source[p]] == REFINE_UNKNOWN)
            open++;
        else
            CHECK_INT(label[source[p]], label_at(job, p, circle));
    }
    printf("# %zu of %zu points without a value around one that is missing\n", open, points);
    CHECK(open >= 1 && open <= 15 * 15);         /* within the four cells around it, 8 steps each */
    memory_free(label), memory_free(level), memory_free(source);
    job_free(job);
}

/* A strip narrower than a coarse cell: along the columns it falls between all corners, and no halo finds it; aslant it meets
 * some, and is lost where it does not. */
static int hidden_strip(const double *x) { return fabs(x[0] - 0.3125) < 0.025; }
static int seen_strip(const double *x) { return fabs(x[0] - 0.3 - 0.1 * x[1]) < 0.025; }

TEST(what_no_coarse_corner_sees_is_missed)
{
    struct job *job[2] = {job_of(PLANE, 3, 0, 1), job_of(PLANE, 3, 1, 1)};
    size_t points = refine_points(job[0]), differ[2][2];
    int *label = memory_new(points, sizeof *label);
    for (int halo = 0; halo < 2; halo++)
        for (int k = 0; k < 2; k++) {
            size_t trained = train(job[halo], k ? seen_strip : hidden_strip, label);
            differ[halo][k] = differing(job[halo], k ? seen_strip : hidden_strip, label);
            printf("# halo %d, strip %s: %zu trained, %zu differ\n", halo, k ? "met" : "not met", trained, differ[halo][k]);
        }
    CHECK_INT(differ[0][0], 3 * 65);             /* columns 19 to 21 of 65, between the coarse columns 16 and 24 */
    CHECK_INT(differ[1][0], 3 * 65);
    CHECK(differ[1][1] <= differ[0][1]);
    memory_free(label);
    job_free(job[0]), job_free(job[1]);
}
