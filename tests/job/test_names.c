#include "base/memory.h"
#include "base/status.h"
#include "job/axis.h"
#include "job/job.h"

#include "check.h"
#include "same_job.h"

#define ON_MANIFOLD "name: x\ntask: {kind: blocklist, expectation: patterns}\nmodel: {kind: manifold, layers: 3, heads: 1}\n" \
    "init.scheme: coordinates\n"

TEST(numbers_by_name_stand_in_any_order_and_form)
{
    struct job *a = must_parse(ON_MANIFOLD "init: {coordinates: {beta_12: 0.3, alpha_1: 0.05, w1_0_M-1_0: -1e-7}}\n");
    struct job *b = must_parse(ON_MANIFOLD "init.coordinates.w1_0_M-1_0: -1e-7\ninit: {coordinates.alpha_1: 0.05}\n"
                               "init.coordinates: {beta_12: 0.3}\n");
    const char *const set[] = {"init.coordinates={gamma_3: 5, beta_12: 1}", "init.coordinates.beta_12=0.3",
                               "init.coordinates={}", "init.coordinates.alpha_1=0.05", "init.coordinates.beta_12=3e-1",
                               "init.coordinates.w1_0_M-1_0=-1e-7"};
    struct job *c = NULL;
    CHECK_OK(job_parse(ON_MANIFOLD "init: {coordinates: {gamma_2: 1}}\n", "x.yaml", set, 6, &c));
    check_same(a, b);
    check_same(a, c);
    const struct key_named *n = &a->spec.init.coordinates;
    CHECK_INT(n->count, 3);
    CHECK_TEXT(n->item[0].name, "alpha_1");
    CHECK_TEXT(n->item[1].name, "beta_12");
    CHECK_TEXT(n->item[2].name, "w1_0_M-1_0");
    CHECK_NEAR(n->item[1].value, 0.3, 0.0);
    char x[HASH_TEXT], y[HASH_TEXT];
    job_id_of(a, 0, x);
    job_id_of(b, 0, y);
    CHECK_TEXT(x, y);
    job_free(a);
    job_free(b);
    job_free(c);
    CHECK_INT(memory_balance(), 0);
}

/* The names of the axes lie before, between and behind the others in the alphabet. */
TEST(axes_over_names_set_the_named_number_alone)
{
    struct job *job = must_parse(ON_MANIFOLD "init: {coordinates: {gamma_2: 0.25, beta_12: 0.5}}\nseeds: 2\naxes:\n"
                                 "  init.coordinates.gamma_3: {from: 0, to: 1, points: 3}\n"
                                 "  init: {coordinates: {beta_13: [5, 7], alpha_1: [0.1, 0.2]}}\n");
    CHECK_INT(job->axes, 3);
    CHECK_TEXT(job->axis[0].key->path, "init.coordinates.gamma_3");
    CHECK_TEXT(job->axis[0].key->name, "gamma_3");
    CHECK(job->axis[0].key->of == key_find("init.coordinates"));
    CHECK_INT(job->axis[0].key->type, KEY_REAL);
    CHECK(axis_is_range(&job->axis[0]) && !axis_is_range(&job->axis[1]));
    CHECK_INT(job_runs(job), 24);
    for (size_t r = 0; r < job_runs(job); r++) {
        struct spec s;
        uint64_t seed;
        job_run(job, r, &s, &seed);
        const struct key_named *n = &s.init.coordinates;
        const char *const names[] = {"alpha_1", "beta_12", "beta_13", "gamma_2", "gamma_3"};
        const double expected[] = {r % 2 ? 0.2 : 0.1, 0.5, r / 2 % 2 ? 7.0 : 5.0, 0.25, (double)(r / 4 % 3) / 2.0};
        CHECK_INT(n->count, 5);
        for (int i = 0; i < 5; i++) {
            CHECK_TEXT(n->item[i].name, names[i]);
            CHECK_NEAR(n->item[i].value, expected[i], 0.0);
        }
    }
    char *printed = job_print(job);
    CHECK_HAS(printed, "  coordinates: {beta_12: 0.5, gamma_2: 0.25}");
    CHECK_HAS(printed, "# coordinates.beta_13: an axis, see axes\n");
    CHECK_HAS(printed, "\n  init.coordinates.beta_13: [5, 7]\n");
    struct job *again = must_parse(printed);
    check_same(job, again);
    char a[HASH_TEXT], b[HASH_TEXT];
    for (size_t r = 0; r < job_runs(job); r++) {
        job_id_of(job, r, a);
        job_id_of(again, r, b);
        CHECK_TEXT(b, a);
    }
    struct job *plain = must_parse(ON_MANIFOLD "init.coordinates: {gamma_3: 0.5, gamma_2: 0.25, beta_13: 7, alpha_1: 0.1, "
                                   "beta_12: 0.5}\n");
    job_id_of(job, 6, a);
    job_id_of(plain, 0, b);
    CHECK_TEXT(b, a);
    memory_free(printed);
    job_free(job);
    job_free(again);
    job_free(plain);
    CHECK_INT(memory_balance(), 0);
}

/* The ids of many runs at once are those of the runs one by one; axes that change no, one or several lines of the text. */
TEST(ids_of_many_runs_are_those_of_each)
{
    static const char *const jobs[] = {
        "name: x\nseeds: [3, 18446744073709551615]\n",
        "name: x\nseeds: 2\naxes: {train.lr: [1e-3, 1e-2], model.norm: [post, pre], task.states: [3, 4, 5], "
        "model.bias: [true, false]}\n",
        ON_MANIFOLD "init.coordinates: {gamma_2: 0.5}\naxes: {init.coordinates.beta_12: [0, 1], train.lr: [1, 2], "
                    "init.coordinates.alpha_1: [0, -0.5], probe.manifold.level: [0.5, 1]}\n"
                    "model.coordinates: \"alpha_1 beta_12, gamma_2\"\n"
                    "probe.at: [0, 5, end]\n",
    };
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        struct job *job = must_parse(jobs[i]);
        struct job_ids *ids = job_ids_new(job);
        char a[HASH_TEXT], b[HASH_TEXT], c[HASH_TEXT];
        for (size_t r = job_runs(job); r-- > 0;) {
            struct spec s;
            uint64_t seed;
            job_run(job, r, &s, &seed);
            job_run_id(&s, seed, a);
            job_ids_of(ids, r, b);
            job_id_of(job, r, c);
            CHECK_TEXT(b, a);
            CHECK_TEXT(c, a);
        }
        job_ids_free(ids);
        job_free(job);
    }
    CHECK_INT(memory_balance(), 0);
}

TEST(axes_over_names_are_set_and_replaced_from_the_command_line)
{
    const char *const set[] = {"axes.init.coordinates.beta_12=[1, 2, 3]",
                               "axes.init.coordinates.gamma_2={from: 0, to: 1, points: 5}"};
    struct job *job = NULL;
    CHECK_OK(job_parse(ON_MANIFOLD "axes: {init.coordinates.beta_12: [0.1, 0.2]}\n", "x.yaml", set, 2, &job));
    CHECK_INT(job->axes, 2);
    CHECK_INT(job->axis[0].count, 3);
    CHECK_INT(job->axis[1].count, 5);
    CHECK_NEAR(job->axis[1].value[1], 0.25, 0.0);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

/* What refine.levels can halve, in the job and in the effective job, which lists the values of linear ranges. */
TEST(ranges_are_known_as_such_after_printing_too)
{
    struct job *job = NULL;
    CHECK_OK(job_parse(ON_MANIFOLD "axes:\n  init.coordinates.beta_12: {from: 0, to: 1, points: 41}\n"
                       "  init.coordinates.beta_13: {from: 1e-3, to: 1, points: 9, scale: log}\n"
                       "  task.blocks: {from: 10, to: 2, points: 5}\n  train.lr: [0.1, 0.2, 0.4]\n  train.eps: [0.1, 0.2]\n"
                       "  task.rare_tokens: [100, 110, 120]\n  task.queried: [any, last]\n", "x.yaml", NULL, 0, &job));
    char *printed = job_print(job);
    struct job *again = NULL;
    CHECK_OK(job_parse(printed, "y.yaml", NULL, 0, &again));
    const bool expected[] = {true, true, true, false, false, true, false};
    CHECK_INT(job->axes, 7);
    for (int a = 0; a < 7; a++) {
        CHECK_INT(axis_is_range(&job->axis[a]), expected[a]);
        CHECK_INT(axis_is_range(&again->axis[a]), expected[a]);
    }
    memory_free(printed);
    job_free(job);
    job_free(again);
    CHECK_INT(memory_balance(), 0);
}
