#include "base/memory.h"
#include "base/status.h"
#include "base/stream.h"
#include "job/manifold.h"
#include "job/plan.h"
#include "job/shape.h"

#include "check.h"

#include <stdbool.h>
#include <time.h>

static struct job *must_parse(const char *text)
{
    struct job *job = NULL;
    if (job_parse(text, "x.yaml", NULL, 0, &job) != STATUS_OK) {
        CHECK_FAIL("%s\n%s", status_text(), text);
        exit(1);
    }
    return job;
}

/* ---- parameters, tensor by tensor ---- */

static int64_t stream_width(const struct spec *s, int64_t layer)
{
    int64_t width = s->task.states + s->model.max_length;
    for (int64_t b = 0; b < layer; b++)
        width += s->model.heads * width;                                    /* each head writes one as wide */
    return width;
}

static double tensors_of(const struct spec *s)
{
    if (s->model.kind == MODEL_ATTENTION_ONLY) {
        int64_t all = stream_width(s, s->model.layers) * s->task.states;
        for (int64_t b = 0; b < s->model.layers; b++)
            all += s->model.heads * stream_width(s, b) * stream_width(s, b);
        return (double)all;
    }
    int64_t d = s->model.d_model, states = s->task.states, inner = s->model.d_head ? s->model.d_head * s->model.heads : d;
    int64_t n = states * d + s->model.max_length * d;                       /* token and position embedding */
    for (int64_t b = 0; b < s->model.layers; b++) {
        int64_t mlp = s->model.d_mlp.value[s->model.d_mlp.count > 1 ? b : 0];
        for (int i = 0; i < 3; i++)
            n += d * inner + (s->model.bias ? inner : 0);                   /* query, key, value */
        n += inner * d + (s->model.bias ? d : 0);                           /* attention output */
        if (mlp > 0) {
            n += d * mlp + (s->model.bias ? mlp : 0);
            n += mlp * d + (s->model.bias ? d : 0);
        }
        if (s->model.norm != NORM_NONE)
            n += 2 * d * (mlp > 0 ? 2 : 1);                                 /* gain and shift of each layer norm */
    }
    n += s->model.norm == NORM_PRE ? 2 * d : 0;
    n += (s->model.tied ? 0 : d * states) + (s->model.bias ? states : 0);   /* unembedding */
    return (double)n;
}

TEST(parameters_are_those_of_the_tensors)
{
    static const char *const models[] = {
        "{}", "{norm: pre, tied: true}", "{norm: none, bias: false}", "{layers: 3, d_mlp: [64, 0, 32]}",
        "{heads: 3, d_head: 10, norm: pre}", "{layers: 2, d_mlp: 0, tied: true, bias: false}",
        "{kind: attention_only, heads: 1}", "{kind: attention_only, layers: 3, heads: 2, max_length: 31}",
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char *text = memory_format("name: x\nmodel: %s\n", models[i]);
        struct job *job = must_parse(text);
        CHECK_NEAR(plan_cost(&job->spec).parameters, tensors_of(&job->spec), 0.0);
        job_free(job);
        memory_free(text);
    }
}

/* ---- flops, by walking through the loops ---- */

/* Multiply-adds of y[rows][out] = x[rows][in] W[in][out]. */
static int64_t product(int64_t rows, int64_t in, int64_t out)
{
    int64_t n = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out; o++)
            n += in;
    return n;
}

static int64_t forward_of_a_sequence(const struct spec *s)
{
    int64_t t = s->task.length - 1, d = s->model.d_model, n = 0;
    int64_t width = s->model.d_head ? s->model.d_head : d / s->model.heads;
    int64_t rows = s->train.positions.count ? s->train.positions.count : t;
    for (int64_t b = 0; s->model.kind == MODEL_ATTENTION_ONLY && b <= s->model.layers; b++) {
        int64_t stream = stream_width(s, b);
        if (b == s->model.layers)
            return 2 * (n + product(rows, stream, s->task.states));
        for (int64_t h = 0; h < s->model.heads; h++)
            n += product(t, stream, stream) + product(t, stream, t) + product(t, t, stream);
    }
    for (int64_t b = 0; b < s->model.layers; b++) {
        int64_t mlp = s->model.d_mlp.value[s->model.d_mlp.count > 1 ? b : 0];
        for (int64_t h = 0; h < s->model.heads; h++) {
            n += 3 * product(t, d, width);       /* query, key, value */
            n += product(t, width, t);           /* scores */
            n += product(t, t, width);           /* weighted values */
            n += product(t, width, d);           /* output */
        }
        n += product(t, d, mlp) + product(t, mlp, d);
    }
    n += product(rows, d, s->task.states);
    return 2 * n;
}

/* Walks through the steps: the sequences of each batch, and the evaluations between. */
static double flops_of(const struct spec *s)
{
    int64_t forward = forward_of_a_sequence(s), sets = s->task.sequences + s->task.test_sequences;
    int64_t batch = s->train.batch ? s->train.batch : s->task.sequences, used = 0, trained = 0, looked = 0, steps = 0;
    int64_t per_epoch = (s->task.sequences + batch - 1) / batch;
    int64_t last = s->train.steps ? s->train.steps : s->train.epochs * per_epoch;
    int64_t every = s->train.eval_every ? s->train.eval_every : per_epoch;
    for (;;) {
        if (steps == last)
            looked += sets;
        else if (steps % every == 0)
            looked += s->train.eval_sequences ? 2 * s->train.eval_sequences : sets;
        if (steps == last)
            break;
        int64_t n = used + batch <= s->task.sequences ? batch : s->task.sequences - used;
        used = used + n == s->task.sequences ? 0 : used + n;
        trained += n;
        steps++;
    }
    CHECK_INT(plan_steps(s), last);
    return (double)(3 * forward * trained + forward * looked);
}

TEST(flops_are_those_of_the_loops)
{
    static const char *const jobs[] = {
        "task: {sequences: 100, test_sequences: 50, length: 9}\ntrain: {batch: 32, epochs: 5}",
        "task: {sequences: 100, test_sequences: 50, length: 9}\ntrain: {batch: 32, steps: 11, eval_every: 3}",
        "task: {sequences: 100, test_sequences: 50, length: 9}\ntrain: {batch: 0, epochs: 6, eval_sequences: 20}",
        "task: {sequences: 96, test_sequences: 5, length: 3, states: 11}\ntrain: {batch: 32, steps: 7, eval_every: 7}\n"
        "model: {layers: 3, d_mlp: [7, 0, 5], d_model: 12, heads: 4}",
        "task: {sequences: 64, test_sequences: 64, length: 6}\ntrain: {batch: 64, epochs: 2, positions: [-1, 0]}\n"
        "model: {heads: 3, d_head: 5}",
        "model: {kind: attention_only, layers: 2, heads: 3}\ntrain: {positions: [-1]}",
    };
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        char *text = memory_format("name: x\n%s\n", jobs[i]);
        struct job *job = must_parse(text);
        double expected = flops_of(&job->spec);
        CHECK_NEAR(plan_cost(&job->spec).flops, expected, 1e-12 * expected);
        job_free(job);
        memory_free(text);
    }
}

TEST(the_probe_costs_time_memory_and_disk)
{
    struct job *without = must_parse("name: x\n"), *with = must_parse("name: x\nprobe: {ace: {layer: 1, rank: 3}}\n");
    struct job *all = must_parse("name: x\nprobe: {ace: {layer: 1, rank: 3, store: activations}, at: [0, end]}\n");
    struct cost a = plan_cost(&without->spec), b = plan_cost(&with->spec), c = plan_cost(&all->spec);
    double samples = 3000.0 * 31.0;
    CHECK(b.flops > a.flops && c.flops > b.flops);
    double activations = 8.0 * samples * 64.0;
    CHECK(b.memory - a.memory >= activations && b.memory - a.memory < 1.1 * activations);
    CHECK(b.disk - a.disk >= 8.0 * samples * 3.0 && b.disk - a.disk < 8.0 * samples * 4.0);
    CHECK(c.disk - a.disk >= 2.0 * 8.0 * samples * (3.0 + 64.0));
    job_free(without);
    job_free(with);
    job_free(all);
}

/* ---- block lists and manifold models ---- */

#define BLOCKS "name: x\ntask: {kind: blocklist, blocks: 6, test_sequences: 100"
#define PLANE "name: x\ntask: {kind: blocklist, expectation: patterns}\n" \
    "model: {kind: manifold, layers: 3, heads: 1, coordinates: alpha_1 alpha_2 beta_12 beta_13 beta_23 gamma_2 gamma_3}\n" \
    "init: {scheme: coordinates, others: 0.05}\ntrain: {steps: 6000, eval_every: 100}\nprobe.manifold.winner: true\n"

static struct job *parse_tail(const char *head, const char *tail)
{
    char *text = memory_format("%s%s", head, tail);
    struct job *job = must_parse(text);
    memory_free(text);
    return job;
}

TEST(epochs_of_sets_and_of_new_sequences)
{
    static const struct { const char *head, *tail; int64_t epoch, steps; } cases[] = {
        {BLOCKS, ", sequences: 1000}\ntrain: {batch: 300, epochs: 5}\n", 4, 20},
        {BLOCKS, ", sequences: 1000}\ntrain: {batch: 0, epochs: 5}\n", 1, 5},
        {BLOCKS, ", sequences: 0}\ntrain: {batch: 300, epochs: 5}\n", 1, 5},
        {BLOCKS, ", sequences: 0}\ntrain: {batch: 300, epochs: 5, steps: 77}\n", 1, 77},
        {PLANE, "", 1, 6000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct job *job = parse_tail(cases[i].head, cases[i].tail);
        CHECK_INT(plan_epoch_steps(&job->spec), cases[i].epoch);
        CHECK_INT(plan_steps(&job->spec), cases[i].steps);
        job_free(job);
    }
}

/* The unembedding, at the last position alone, and the only matrix of one block; 64 tokens, 14 positions. */
TEST(an_attention_only_model_on_blocks_costs_its_own_positions)
{
    struct job *job = parse_tail(BLOCKS, ", sequences: 0}\nmodel: {kind: attention_only, heads: 1}\n"
                                 "train: {batch: 10, steps: 8, eval_every: 8}\n");
    double d = 64.0 + 14.0, n = 13.0, forward = 2.0 * n * d * d + 4.0 * n * n * d + 2.0 * 2.0 * d * 64.0;
    struct cost c = plan_cost(&job->spec);
    CHECK_NEAR(c.parameters, d * d + 2.0 * d * 64.0, 0.0);
    CHECK_NEAR(c.flops, 3.0 * forward * 80.0 + forward * 2.0 * 200.0, 1e-9 * c.flops);
    job_free(job);
}

TEST(a_manifold_model_costs_its_coordinates)
{
    struct job *few = parse_tail(PLANE, ""), *all = parse_tail(PLANE, "");
    struct job *full = must_parse(BLOCKS "}\nmodel: {kind: attention_only, layers: 3, heads: 1}\ntrain: {steps: 6000, "
                                  "batch: 100, eval_every: 100}\n");
    struct manifold *m = NULL;
    strcpy(all->spec.model.coordinates, "all");
    CHECK_OK(manifold_new(&all->spec, &m));
    CHECK_NEAR(plan_cost(&few->spec).parameters, 7.0, 0.0);
    CHECK_NEAR(plan_cost(&all->spec).parameters, m->coordinates, 0.0);
    CHECK_NEAR(manifold_count(&all->spec), m->coordinates, 0.0);
    CHECK(plan_cost(&few->spec).flops < 0.5 * plan_cost(&all->spec).flops);
    double each = plan_cost(&few->spec).flops / (shape_sequences(&few->spec, false));
    CHECK(each < 1e-2 * plan_cost(&full->spec).flops / 100.0);
    double curves = 5.0 * 8.0 * 61.0;
    CHECK(plan_cost(&few->spec).disk < curves + 2048.0 && plan_cost(&few->spec).disk > curves);
    manifold_free(m);
    job_free(few);
    job_free(all);
    job_free(full);
    CHECK_INT(memory_balance(), 0);
}

/* A million points: the plan stays small, has the ids of the runs, and says that a small disk does not hold them. */
TEST(a_map_of_a_million_points_is_planned_and_measured_against_the_disk)
{
    struct job *job = parse_tail(PLANE, "axes:\n  init.coordinates.beta_12: {from: 0, to: 1, points: 1000}\n"
                                 "  init.coordinates.beta_23: {from: 0, to: 1, points: 1000}\n");
    clock_t start = clock();
    struct plan *p = plan_new(job);
    printf("# plan of a million runs in %.2f s\n", (double)(clock() - start) / CLOCKS_PER_SEC);
    CHECK_INT(p->runs, 1000000);
    CHECK(p->tiles <= 4000);
    double curves = 5.0 * 8.0 * 61.0 * 1e6;
    CHECK(p->disk > 2.0 * curves && p->disk < 5.0 * curves);          /* in the tiles, and in runs.nc */
    int fits = 1;
    char *text = plan_print(job, p, 0.0, 1e9, 2, &fits);
    CHECK_INT(fits, 0);
    CHECK_HAS(text, "does not fit: the output needs ");
    CHECK_HAS(text, " of disk, 1.0 GB are free");
    memory_free(text);
    text = plan_print(job, p, 0.0, 1e12, 2, &fits);
    CHECK_INT(fits, 1);
    memory_free(text);
    plan_free(p);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

/* ---- tiles ---- */

static void check_tiles(const struct job *job, const struct plan *p)
{
    size_t next = 0;
    double total = 0.0;
    for (size_t t = 0; t < p->tiles; t++) {
        CHECK_INT(p->tile[t].first, next);
        CHECK(p->tile[t].count >= 1);
        next += p->tile[t].count;
        total += p->tile[t].seconds;
        CHECK_INT(strlen(p->tile[t].id), 32);
    }
    CHECK_INT(next, job_runs(job));
    CHECK_INT(p->runs, job_runs(job));
    CHECK_NEAR(total, p->seconds, 1e-9 * total);
    CHECK(p->files > p->tiles && p->disk > 0.0 && p->memory > 0.0);
}

TEST(long_runs_have_tiles_of_their_own)
{
    struct job *job = must_parse("name: x\nseeds: 40\n");
    struct plan *p = plan_new(job);
    check_tiles(job, p);
    CHECK(plan_cost(&job->spec).seconds > 1.0);
    CHECK_INT(p->tiles, 40);
    plan_free(p);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

static const char short_runs[] = "task: {sequences: 256, test_sequences: 100, length: 8}\nmodel: {d_model: 16, d_mlp: 32}\n"
                                 "train: {epochs: 20}\n";

TEST(short_runs_share_tiles_of_a_second)
{
    char *text = memory_format("name: x\nseeds: 1000\n%s", short_runs);
    struct job *job = must_parse(text);
    struct plan *p = plan_new(job);
    check_tiles(job, p);
    double one = plan_cost(&job->spec).seconds;
    CHECK(one < 0.1);
    CHECK(p->tiles > 1 && p->tiles < 1000);
    for (size_t t = 0; t + 1 < p->tiles; t++)
        CHECK(p->tile[t].seconds >= 1.0 && p->tile[t].seconds <= 1.0 + one);
    plan_free(p);
    job_free(job);
    memory_free(text);
}

TEST(long_and_short_runs_do_not_mix)
{
    char *text = memory_format("name: x\nseeds: 10\n%saxes: {task.states: [4, 4096]}\n", short_runs);
    struct job *job = must_parse(text);
    struct plan *p = plan_new(job);
    check_tiles(job, p);
    struct spec spec;
    for (size_t t = 0; t < p->tiles; t++)
        for (size_t i = 0; i < p->tile[t].count; i++) {
            uint64_t seed;
            job_run(job, p->tile[t].first + i, &spec, &seed);
            if (plan_cost(&spec).seconds >= 1.0)
                CHECK_INT(p->tile[t].count, 1);
        }
    plan_free(p);
    job_free(job);
    memory_free(text);
}

TEST(tile_runs_fixes_the_size)
{
    char *text = memory_format("name: x\nseeds: 100\nstore: {tile_runs: 7}\n%s", short_runs);
    struct job *job = must_parse(text);
    struct plan *p = plan_new(job);
    check_tiles(job, p);
    CHECK_INT(p->tiles, 15);
    for (size_t t = 0; t < p->tiles; t++)
        CHECK_INT(p->tile[t].count, t < 14 ? 7 : 2);
    plan_free(p);
    job_free(job);
    memory_free(text);
}

TEST(a_hundred_thousand_runs_make_at_most_four_thousand_files)
{
    struct job *job = must_parse("name: x\nseeds: 1000\naxes: {train.lr: {from: 1e-4, to: 1, points: 100, scale: log}}\n");
    clock_t start = clock();
    struct plan *p = plan_new(job);
    double took = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("# plan of 100,000 runs in %.2f s\n", took);
    CHECK(took < 10.0);
    check_tiles(job, p);
    CHECK(p->tiles <= 4000 && p->tiles > 3900);
    plan_free(p);
    job_free(job);
}

/* The runs that a job had before keep their tiles when seeds are added, up to the last tile, which may grow. */
TEST(added_seeds_leave_the_tiles_in_place)
{
    char *a = memory_format("name: x\nseeds: 1500\n%s", short_runs), *b = memory_format("name: x\nseeds: 2500\n%s", short_runs);
    struct job *few = must_parse(a), *many = must_parse(b);
    struct plan *p = plan_new(few), *q = plan_new(many);
    CHECK(p->tiles >= 2);
    for (size_t t = 0; t + 1 < p->tiles; t++)
        CHECK_TEXT(q->tile[t].id, p->tile[t].id);
    CHECK(strcmp(q->tile[q->tiles - 1].id, q->tile[0].id));
    plan_free(p);
    plan_free(q);
    job_free(few);
    job_free(many);
    memory_free(a);
    memory_free(b);
}

TEST(the_order_is_longest_first_then_by_number)
{
    struct job *job = must_parse("name: x\nseeds: 3\naxes: {train.epochs: [40, 80, 20]}\n");
    struct plan *p = plan_new(job);
    size_t *order = memory_new(p->tiles, sizeof *order);
    int *seen = memory_new(p->tiles, sizeof *seen);
    plan_order(p, order);
    for (size_t i = 0; i < p->tiles; i++) {
        seen[order[i]]++;
        if (i == 0)
            continue;
        double before = p->tile[order[i - 1]].seconds, now = p->tile[order[i]].seconds;
        CHECK(before > now || (before == now && order[i - 1] < order[i]));
    }
    for (size_t i = 0; i < p->tiles; i++)
        CHECK_INT(seen[i], 1);
    memory_free(order);
    memory_free(seen);
    plan_free(p);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

/* ---- for people ---- */

TEST(the_printed_plan_says_runs_cost_and_space)
{
    struct job *job = NULL;
    CHECK_OK(job_read("jobs/markov-cores.yaml", NULL, 0, &job));
    struct plan *p = plan_new(job);
    int fits = -1;
    char *text = plan_print(job, p, 0.0, 0.0, 0, &fits), line[100];
    CHECK_INT(fits, 1);
    CHECK_HAS(text, "markov-cores: 8 runs (8 seeds, no axes) in 8 tiles\n");
    double parameters = tensors_of(&job->spec);
    snprintf(line, sizeof line, "model           %.0f,%03.0f parameters, 1,880 steps\n", floor(parameters / 1e3),
             fmod(parameters, 1e3));
    CHECK_HAS(text, line);
    CHECK_HAS(text, " in 8 tiles + 3 results\n");
    CHECK(!strstr(text, "rank;") || strstr(text, "a rank;"));
    CHECK(!strstr(text, "does not fit"));
    memory_free(text);
    text = plan_print(job, p, 1e12, 1e12, 2, &fits);
    CHECK_INT(fits, 1);
    CHECK_HAS(text, " on 2 ranks\n");
    memory_free(text);
    plan_free(p);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

TEST(what_does_not_fit_is_said_with_what_to_do)
{
    struct job *job = NULL;
    const char *grid = "gather.grid=[2, 1]";
    CHECK_OK(job_read("jobs/markov-cores.yaml", &grid, 1, &job));
    struct plan *p = plan_new(job);
    int fits = 1;
    char *text = plan_print(job, p, 3.5 * p->memory, 0.0, 4, &fits);
    CHECK_INT(fits, 0);
    CHECK_HAS(text, "\ndoes not fit: training needs ");
    CHECK_HAS(text, "use at most 3 ranks");
    memory_free(text);
    text = plan_print(job, p, 0.0, 0.5 * p->disk, 2, &fits);
    CHECK_INT(fits, 0);
    CHECK_HAS(text, "\ndoes not fit: the output needs ");
    memory_free(text);
    text = plan_print(job, p, 0.0, 0.0, 1, &fits);
    CHECK_INT(fits, 0);
    CHECK_HAS(text, "\ndoes not fit: gather.grid [2, 1] needs 2 ranks, there is 1: start more, or use --set gather.grid=[1,1]\n");
    memory_free(text);
    text = plan_print(job, p, 0.4 * p->gather_memory, 0.0, 2, &fits);
    CHECK_INT(fits, 0);
    CHECK_HAS(text, "\ndoes not fit: the largest rank of gather needs ");
    memory_free(text);
    plan_free(p);
    job_free(job);
}
