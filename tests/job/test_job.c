#include "base/memory.h"
#include "base/status.h"
#include "base/stream.h"
#include "base/text.h"
#include "job/job.h"
#include "job/kinds.h"

#include "check.h"
#include "same_job.h"

#include <stdbool.h>

/* ---- random jobs: texts that must be valid, written in all the ways in which a value may be written ---- */

static double random_real(struct stream *r, const struct key *k)
{
    double top = k->max < 1e6 ? k->max : 1e6, u = stream_uniform(r);
    switch (stream_below(r, 4)) {
    case 0: return k->min;
    case 1: return top;
    case 2: return k->min + u * (top - k->min);
    default: return fmax(k->min, top * pow(10.0, -12.0 * u));
    }
}

static void add_real(struct stream *r, struct text *t, double x)
{
    if (stream_below(r, 2))
        text_add(t, "%.17g", x);
    else
        text_add(t, "%.16e", x);
}

static void add_random(struct stream *r, const struct key *k, struct text *t)
{
    double top = k->max < 1e9 ? k->max : 1e9;
    switch (k->type) {
    case KEY_INT: text_add(t, "%.0f", k->min + floor(stream_uniform(r) * (top - k->min + 0.999))); break;
    case KEY_REAL: add_real(r, t, random_real(r, k)); break;
    case KEY_BOOL: text_add(t, stream_below(r, 2) ? "true" : "false"); break;
    case KEY_CHOICE: {
        const char *word = k->words[stream_below(r, (uint32_t)k->words_count)];
        text_add(t, stream_below(r, 2) ? "%s" : "\"%s\"", word);
        break;
    }
    case KEY_STRING: text_add(t, stream_below(r, 2) ? "all" : "\"gamma_2, beta_12 alpha_1\""); break;
    case KEY_NAMED:
        text_add(t, "{gamma_2: ");
        add_real(r, t, random_real(r, k));
        text_add(t, ", alpha_1: ");
        add_real(r, t, random_real(r, k));
        text_add(t, "}");
        break;
    case KEY_LIST: text_add(t, "[]");
    }
}

/* Keys that rules tie together get values that fit. */
static const struct { const char *path, *value; } fitting[] = {
    {"task.sequences", "1000"}, {"task.test_sequences", "500"}, {"task.length", "20"}, {"model.max_length", "19"},
    {"model.layers", "3"}, {"model.d_model", "48"}, {"model.heads", "6"}, {"model.d_mlp", "[100, 0, 30]"},
    {"train.batch", "1e2"}, {"train.eval_sequences", "500"}, {"train.epochs", "7"}, {"probe.at", "[end, 0, 35]"},
    {"probe.ace.layer", "2"}, {"probe.ace.rank", "48"}, {"train.positions", "[0, -1, 5]"}, {"gather.grid", "[2, 3]"},
    {"train.steps", "200"}, {"gather.cca.heldout", "0.25"}, {"model.d_head", "9"}, {"train.eval_every", "13"},
    {"task.blocks", "8"}, {"task.hops", "3"}, {"task.chains", "2"}, {"task.order", "3"}, {"task.burstiness", "2"},
    {"task.common", "64"}, {"task.rare_tokens", "80"}, {"task.rare", "0.5"}, {"task.variability", "0.25"},
    {"task.layout", "contiguous"}, {"task.period", "0"}, {"train.target_loss", "0.01"}, {"train.target_accuracy", "0"},
    {"train.diverged_above", "1e3"}, {"probe.circuit.budget", "1.05"}, {"refine.levels", "0"},
};

static const char *fitting_value(const char *path)
{
    for (size_t i = 0; i < sizeof fitting / sizeof fitting[0]; i++)
        if (!strcmp(fitting[i].path, path))
            return fitting[i].value;
    return NULL;
}

static void add_random_axis(struct stream *r, const struct key *k, struct text *t)
{
    if (k->type == KEY_REAL && stream_below(r, 2)) {
        double from = fmax(k->min, k->max * 1e-3), to = k->max < 100.0 ? k->max * 0.9 : 90.0;
        from = fmin(from, to / 10.0);
        text_add(t, "{from: %.17g, to: %.17g, points: %u%s}", from, to, 2 + stream_below(r, 4),
                 from > 0.0 && stream_below(r, 2) ? ", scale: log" : "");
    }
    else if (k->type == KEY_CHOICE)
        text_add(t, "[%s]", k->words[k->words_count - 1]);
    else if (k->type == KEY_BOOL)
        text_add(t, "[true, false]");
    else if (k->type == KEY_INT)
        text_add(t, "[%.0f, %.0f]", k->min + 1.0, k->min);
    else {
        text_add(t, "[");
        add_real(r, t, k->min);
        text_add(t, ", ");
        add_real(r, t, k->max * 0.123456789);
        text_add(t, "]");
    }
}

/* The keys on which depends what else a run reads. */
static struct spec random_kinds(struct stream *r)
{
    struct spec s;
    key_defaults(&s);
    s.model.kind = (int)stream_below(r, 3);
    s.task.kind = s.model.kind == MODEL_MANIFOLD ? TASK_BLOCKLIST : (int)stream_below(r, 2);
    s.init.scheme = (int)stream_below(r, 3);
    if (s.task.kind == TASK_BLOCKLIST)
        s.task.pattern = s.model.kind == MODEL_MANIFOLD ? PATTERN_RECALL : (int)stream_below(r, 3);
    if (s.task.kind == TASK_BLOCKLIST && s.model.kind != MODEL_DECODER) {
        s.task.expectation = s.model.kind == MODEL_MANIFOLD ? EXPECTATION_PATTERNS : EXPECTATION_SAMPLED;
        s.init.scheme = s.model.kind == MODEL_MANIFOLD && stream_below(r, 3) ? INIT_COORDINATES : INIT_NORMAL;
    }
    return s;
}

static void add_kinds(const struct spec *s, struct text *t)
{
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++)
        if (kinds_decides(k) && kinds_reads(s, k))
            text_add(t, "%s: %s\n", k->path, k->words[(int)key_get(s, k)]);
}

static const char *value_that_fits(struct stream *r, const struct spec *kinds, const struct key *k)
{
    if (!strcmp(k->path, "model.d_head") && stream_below(r, 2))
        return NULL;
    if (kinds->model.kind != MODEL_DECODER && !strcmp(k->path, "model.layers"))
        return "2";
    if (kinds->model.kind != MODEL_DECODER && !strcmp(k->path, "model.heads"))
        return kinds->task.kind == TASK_BLOCKLIST ? "1" : "2";
    if (kinds->model.kind == MODEL_MANIFOLD && !strcmp(k->path, "probe.circuit.budget"))
        return "0";
    if (kinds->model.kind == MODEL_ATTENTION_ONLY && !strcmp(k->section, "probe.manifold") && k->type == KEY_BOOL)
        return "false";
    if (kinds->task.kind == TASK_BLOCKLIST && !strcmp(k->path, "model.max_length"))
        return "63";
    return fitting_value(k->path);
}

static char *random_job(struct stream *r)
{
    struct text t = {0}, axes = {0};
    int chosen = 0;
    text_add(&t, "name: random_%u\n", stream_u32(r));
    const struct key *k;
    struct spec kinds = random_kinds(r);
    add_kinds(&kinds, &t);
    for (int i = 0; (k = key_at(i)); i++) {
        if (kinds_decides(k) || !kinds_reads(&kinds, k))
            continue;
        const char *fits = value_that_fits(r, &kinds, k);
        bool single = k->type != KEY_LIST && k->type != KEY_STRING && k->type != KEY_NAMED;
        if (!fits && k->of_run && single && chosen < JOB_AXES_MAX - 1 && !stream_below(r, 20)) {
            text_add(&axes, "  %s: ", k->path);
            add_random_axis(r, k, &axes);
            text_add(&axes, "\n");
            chosen++;
        }
        else if (fits || stream_below(r, 2)) {
            text_add(&t, "%s: ", k->path);
            if (fits)
                text_add(&t, "%s", fits);
            else
                add_random(r, k, &t);
            text_add(&t, "\n");
        }
        if (k->type == KEY_NAMED && stream_below(r, 2)) {
            text_add(&axes, "  %s.beta_12: {from: 0.1, to: 1, points: 4%s}\n", k->path,
                     stream_below(r, 2) ? ", scale: log" : "");
            chosen++;
        }
    }
    if (chosen)
        text_add(&t, "axes:\n%s", text_string(&axes));
    if (stream_below(r, 2))
        text_add(&t, "seeds: [18446744073709551615, 0, %u]\n", 1 + stream_below(r, 1000));
    else
        text_add(&t, "seeds: %u\n", 1 + stream_below(r, 5));
    if (stream_below(r, 2))
        text_add(&t, "claims:\n- core_dim == 3\n- {that: 'x[0] > 1', says: \"a \\\"b\\\" \\\\ \xc3\xa4: #\", source: ace}\n");
    text_free(&axes);
    return t.s;
}

TEST(printed_jobs_read_back_the_same)
{
    int axes = 0, logs = 0, named = 0, texts = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        struct stream r = stream_open(21, PURPOSE_PROBE, i);
        char *text = random_job(&r);
        struct job *job = must_parse(text);
        char *printed = job_print(job);
        struct job *again = must_parse(printed);
        check_same(job, again);
        char *reprinted = job_print(again);
        CHECK_TEXT(reprinted, printed);
        axes += job->axes;
        for (int a = 0; a < job->axes; a++) {
            logs += job->axis[a].log_scale;
            named += job->axis[a].key->of != NULL;
        }
        texts += strcmp(job->spec.model.coordinates, "all") != 0;
        job_free(job);
        job_free(again);
        memory_free(text);
        memory_free(printed);
        memory_free(reprinted);
    }
    CHECK(axes > 300 && logs > 20 && named > 50 && texts > 50);
    CHECK_INT(memory_balance(), 0);
}

static bool name_is_read(const struct spec *s, const char *name)
{
    const struct key *k;
    bool found = false;
    for (int i = 0; (k = key_at(i)); i++)
        found |= !strcmp(k->name, name) && kinds_reads(s, k);
    return found;
}

TEST(the_printed_job_names_every_key_that_is_read)
{
    struct job *job = must_parse("name: x\naxes: {train.lr: [1e-4, 1e-3]}\n");
    char *printed = job_print(job);
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++) {
        char line[100];
        snprintf(line, sizeof line, " %s: ", k->name);
        if (kinds_reads(&job->spec, k))
            CHECK_HAS(printed, line);
        else if (!name_is_read(&job->spec, k->name))
            CHECK(!strstr(printed, line));
    }
    CHECK_HAS(printed, "# lr: an axis, see axes");
    CHECK_HAS(printed, "train.lr: [0.0001, 0.001]");
    CHECK_HAS(printed, "checkpoint_every: 60 ");
    CHECK_HAS(printed, "# s: time between checkpoints");
    memory_free(printed);
    job_free(job);
}

/* init.scale has one key that a manifold model reads, and it is an axis. */
TEST(a_section_of_axes_alone_reads_back)
{
    struct job *job = must_parse("name: x\ntask: {kind: blocklist, expectation: patterns}\nmodel: {kind: manifold}\n"
                                 "init.scheme: normal\n"
                                 "axes: {init.scale.all: [1, 2]}\n");
    char *printed = job_print(job);
    CHECK_HAS(printed, "\n  # scale:\n    # all: an axis");
    struct job *again = must_parse(printed);
    check_same(job, again);
    memory_free(printed);
    job_free(job);
    job_free(again);
}

TEST(nested_and_dotted_keys_are_the_same)
{
    struct job *a = must_parse("name: x\ninit: {scale: {attention: 2}}\nprobe: {ace: {layer: 1}, at: end}\n"
                               "axes: {train: {lr: [1e-3, 1e-2]}}\n");
    struct job *b = must_parse("name: x\ninit: {scale.attention: 2}\nprobe.ace.layer: 1\naxes.train.lr: [1e-3, 1e-2]\n");
    check_same(a, b);
    CHECK_NEAR(a->spec.init_scale.attention, 2.0, 0.0);
    CHECK_INT(a->spec.probe_ace.layer, 1);
    job_free(a);
    job_free(b);
}

TEST(overrides_replace_what_the_file_says)
{
    const char *file = "name: x\nseeds: 2\ntrain: {lr: 1e-3, batch: 32}\naxes: {train.beta1: [0.8, 0.9], train.eps: [0.1]}\n"
                       "claims: [core_dim == 3]\n";
    const char *const set[] = {"train.lr=0.5", "name=y", "seeds=[5, 6, 7]", "axes.train.beta1=[0.1, 0.2, 0.3]",
                               "model.d_mlp=[8]", "probe={ace: {layer: 1}, at: [0, end]}", "claims=[core_dim == 4, x > 1]",
                               "train.lr=0.25"};
    struct job *job = NULL;
    CHECK_OK(job_parse(file, "x.yaml", set, 8, &job));
    CHECK_TEXT(job->name, "y");
    CHECK_NEAR(job->spec.train.lr, 0.25, 0.0);
    CHECK_INT(job->spec.train.batch, 32);
    CHECK_INT(job->seeds, 3);
    CHECK_INT(job->seed[2], 7);
    CHECK_INT(job->axes, 2);
    CHECK_TEXT(job->axis[0].key->path, "train.beta1");
    CHECK_INT(job->axis[0].count, 3);
    CHECK_INT(job->spec.model.d_mlp.value[0], 8);
    CHECK_INT(job->spec.probe_ace.layer, 1);
    CHECK_INT(job->spec.probe.at.count, 2);
    CHECK_INT(job->claims, 2);
    job_free(job);
    const char *const none[] = {"axes={}"};
    CHECK_OK(job_parse(file, "x.yaml", none, 1, &job));
    CHECK_INT(job->axes, 0);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

/* ---- expansion ---- */

static const char grid[] = "name: x\nseeds: 3\naxes:\n  train.lr: [1e-3, 1e-2]\n  model.norm: [pre, post, none]\n"
                           "  model.heads: [1, 2]\n";

TEST(the_last_axis_varies_fastest_and_seeds_slowest)
{
    struct job *job = must_parse(grid);
    CHECK_INT(job_runs(job), 36);
    const enum norm norms[] = {NORM_PRE, NORM_POST, NORM_NONE};
    size_t run = 0;
    struct spec spec;
    for (int s = 0; s < 3; s++)
        for (int a = 0; a < 2; a++)
            for (int b = 0; b < 3; b++)
                for (int c = 0; c < 2; c++, run++) {
                    int position[JOB_AXES_MAX], seed_index;
                    uint64_t seed;
                    job_locate(job, run, position, &seed_index);
                    CHECK_INT(position[0], a);
                    CHECK_INT(position[1], b);
                    CHECK_INT(position[2], c);
                    CHECK_INT(seed_index, s);
                    job_run(job, run, &spec, &seed);
                    CHECK_INT(seed, s);
                    CHECK_NEAR(spec.train.lr, a ? 1e-2 : 1e-3, 0.0);
                    CHECK_INT(spec.model.norm, norms[b]);
                    CHECK_INT(spec.model.heads, c + 1);
                    CHECK_INT(spec.train.batch, job->spec.train.batch);
                }
    job_free(job);
}

TEST(a_job_without_axes_has_one_run_a_seed)
{
    struct job *job = must_parse("name: x\nseeds: [9, 4]\n");
    CHECK_INT(job_runs(job), 2);
    struct spec spec;
    uint64_t seed;
    job_run(job, 1, &spec, &seed);
    CHECK_INT(seed, 4);
    job_free(job);
}

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

TEST(ids_are_distinct_and_stay_when_seeds_are_added)
{
    struct job *few = must_parse(grid);
    char *longer = memory_format("%s", grid);
    memcpy(strstr(longer, "seeds: 3"), "seeds: 9", 8);
    struct job *many = must_parse(longer);
    char (*id)[HASH_TEXT] = memory_new(job_runs(many), sizeof *id), other[HASH_TEXT];
    for (size_t r = 0; r < job_runs(many); r++)
        job_id_of(many, r, id[r]);
    for (size_t r = 0; r < job_runs(few); r++) {
        job_id_of(few, r, other);
        CHECK_TEXT(other, id[r]);
        struct spec spec;
        uint64_t seed;
        job_run(few, r, &spec, &seed);
        job_run_id(&spec, seed, other);
        CHECK_TEXT(other, id[r]);
        CHECK_INT(strspn(other, "0123456789abcdef"), 32);
    }
    qsort(id, job_runs(many), sizeof *id, by_text);
    for (size_t r = 1; r < job_runs(many); r++)
        CHECK(strcmp(id[r - 1], id[r]));
    memory_free(id);
    memory_free(longer);
    job_free(few);
    job_free(many);
    CHECK_INT(memory_balance(), 0);
}

/* A run is the same run in a job that names the value plainly, and in one that has it on an axis. */
TEST(an_id_does_not_depend_on_how_the_value_was_given)
{
    struct job *axis = must_parse("name: x\naxes: {train.lr: [1e-3, 1e-2]}\n");
    struct job *plain = must_parse("name: y\nseeds: 4\ntrain: {lr: 0.01}\ngather: {block: 8}\n");
    char a[HASH_TEXT], b[HASH_TEXT];
    job_id_of(axis, 1, a);
    job_id_of(plain, 0, b);
    CHECK_TEXT(a, b);
    job_free(axis);
    job_free(plain);
}

/* Another value than the default. */
static void change(struct spec *s, const struct key *k)
{
    char *p = (char *)s + k->offset;
    switch (k->type) {
    case KEY_LIST: ((struct key_list *)p)->count++; break;
    case KEY_STRING: strcpy(p, "other"); break;
    case KEY_NAMED: key_named_add((struct key_named *)p, "alpha_1"); break;
    case KEY_REAL: key_set(s, k, nextafter(key_get(s, k), 1e9)); break;
    default: key_set(s, k, key_get(s, k) == 0.0 ? 1.0 : 0.0);
    }
}

TEST(every_key_of_a_run_changes_its_id_and_no_other_key)
{
    struct spec spec;
    key_defaults(&spec);
    char before[HASH_TEXT], after[HASH_TEXT];
    job_run_id(&spec, 7, before);
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++) {
        struct spec changed = spec;
        CHECK(key_is_default(&changed, k));
        change(&changed, k);
        CHECK(!key_is_default(&changed, k));
        job_run_id(&changed, 7, after);
        if ((strcmp(before, after) != 0) != k->of_run)
            CHECK_FAIL("%s: id %s -> %s, part of a run: %d", k->path, before, after, k->of_run);
    }
    job_run_id(&spec, 8, after);
    CHECK(strcmp(before, after));
}

/* The id of the plain job, from its text as job.h describes it: nothing but the seed. A key that is added leaves it. */
TEST(defaults_are_no_part_of_an_id)
{
    struct spec spec;
    key_defaults(&spec);
    char id[HASH_TEXT], expected[HASH_TEXT];
    job_run_id(&spec, 7, id);
    hash_print(hash_bytes("seed=7\n", 7), expected);
    CHECK_TEXT(id, expected);
    spec.train.batch = 32;
    spec.model.norm = NORM_PRE;
    const char text[] = "model.norm=pre\ntrain.batch=32\nseed=0\n";
    job_run_id(&spec, 0, id);
    hash_print(hash_bytes(text, sizeof text - 1), expected);
    CHECK_TEXT(id, expected);
    struct job *plain = must_parse("name: x\n");
    struct job *said = must_parse("name: x\ntask: {kind: markov, states: 4, stay: 0.75}\nmodel: {d_mlp: [256], bias: true}\n"
                                  "train: {lr: 1e-3, eps: 1e-8, positions: []}\nprobe: {at: end}\n");
    job_id_of(plain, 0, id);
    job_id_of(said, 0, expected);
    CHECK_TEXT(id, expected);
    job_free(plain);
    job_free(said);
}

TEST(ranges_hit_their_ends_and_are_evenly_spaced)
{
    struct job *job = must_parse("name: x\naxes:\n  train.lr: {from: 1e-5, to: 0.1, points: 9, scale: log}\n"
                                 "  train.eps: {from: 0.1, to: 0.5, points: 5}\n"
                                 "  model.d_model: {from: 16, to: 1024, points: 7, scale: log}\n");
    const struct axis *a = job->axis;
    CHECK_NEAR(a[0].value[0], 1e-5, 0.0);
    CHECK_NEAR(a[0].value[8], 0.1, 0.0);
    for (int i = 0; i < 9; i++)
        CHECK_NEAR(log10(a[0].value[i]), -5.0 + 0.5 * i, 1e-11);
    const double tenths[] = {0.1, 0.2, 0.3, 0.4, 0.5};
    CHECK_BYTES(a[1].value, tenths, sizeof tenths);
    for (int i = 0; i < 7; i++)
        CHECK_NEAR(a[2].value[i], 16 << i, 0.0);
    CHECK(a[0].log_scale && !a[1].log_scale && a[2].log_scale);
    job_free(job);
}

TEST(minus_zero_is_zero)
{
    struct job *a = must_parse("name: x\ntrain: {weight_decay: -0.0}\n"), *b = must_parse("name: x\n");
    char x[HASH_TEXT], y[HASH_TEXT];
    job_id_of(a, 0, x);
    job_id_of(b, 0, y);
    CHECK_TEXT(x, y);
    job_free(a);
    job_free(b);
}

/* ---- the job files of the repository, and the reference ---- */

TEST(the_jobs_of_the_repository_are_valid)
{
    struct job *job = NULL;
    CHECK_OK(job_read("jobs/markov-cores.yaml", NULL, 0, &job));
    CHECK_TEXT(job->name, "markov-cores");
    CHECK_INT(job_runs(job), 8);
    CHECK(job->claims >= 8);
    for (int i = 0; i < job->claims; i++)
        CHECK(job->claim[i].says && job->claim[i].source);
    job_free(job);
    CHECK_OK(job_read("jobs/markov-init.yaml", NULL, 0, &job));
    CHECK_INT(job->axes, 2);
    CHECK(job->axis[0].count >= 8 && job->axis[1].count >= 8 && job->seeds == 5);
    job_free(job);
}

TEST(the_reference_names_every_key_and_word)
{
    char *text = job_format_reference();
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++) {
        char row[100];
        snprintf(row, sizeof row, "| `%s` | ", k->name);
        CHECK_HAS(text, row);
        for (int w = 0; w < k->words_count; w++)
            CHECK_HAS(text, k->words[w]);
    }
    memory_free(text);
    CHECK_INT(memory_balance(), 0);
}
