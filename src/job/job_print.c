#include "base/memory.h"
#include "base/text.h"
#include "job/job.h"
#include "job/kinds.h"
#include "job/value.h"

#include <string.h>

enum { COMMENT_COLUMN = 34 };

static bool is_axis(const struct job *job, const struct key *k)
{
    for (int i = 0; i < job->axes; i++)
        if (job->axis[i].key == k)
            return true;
    return false;
}

/* Nested sections stand two blanks deeper than the section around them. */
static int depth_of(const char *section)
{
    int depth = 0;
    for (; *section; section++)
        depth += *section == '.';
    return depth;
}

/* The numbers that are no axes; the axes are named below. */
static void add_named(const struct job *job, const struct key *k, struct text *out)
{
    const struct key_named *n = (const struct key_named *)((const char *)&job->spec + k->offset);
    bool left_out[KEY_NAMED_MAX] = {false};
    for (int i = 0; i < job->axes; i++)
        if (job->axis[i].key->of == k)
            left_out[key_named_find(n, job->axis[i].key->name)] = true;
    value_print_named(n, left_out, out);
}

static void add_named_axes(const struct job *job, const struct key *k, int indent, struct text *out)
{
    for (int i = 0; i < job->axes; i++)
        if (job->axis[i].key->of == k)
            text_add(out, "%*s# %s.%s: an axis, see axes\n", indent, "", k->name, job->axis[i].key->name);
}

static void add_remark(const struct job *job, const struct key *k, size_t start, struct text *out)
{
    const char *doc = k->doc;
    if (k->type == KEY_CHOICE && !*doc)
        doc = k->word_docs[(int)key_get(&job->spec, k)];
    if (!*doc && !strcmp(k->unit, "1"))
        return;
    do
        text_add(out, " ");
    while (out->length - start < COMMENT_COLUMN);
    text_add(out, "# %s%s%s", strcmp(k->unit, "1") ? k->unit : "", strcmp(k->unit, "1") && *doc ? ": " : "", doc);
}

static void add_key(const struct job *job, const struct key *k, struct text *out)
{
    size_t start = out->length;
    int indent = 2 * (depth_of(k->section) + 1);
    if (is_axis(job, k)) {
        text_add(out, "%*s# %s: an axis, see axes\n", indent, "", k->name);
        return;
    }
    text_add(out, "%*s%s: ", indent, "", k->name);
    if (k->type == KEY_NAMED)
        add_named(job, k, out);
    else
        value_print(k, &job->spec, out);
    add_remark(job, k, start, out);
    text_add(out, "\n");
    if (k->type == KEY_NAMED)
        add_named_axes(job, k, indent, out);
}

/* Whether anything but remarks will stand in a section or within it: an empty one is not YAML for a section. */
static bool has_values(const struct job *job, const char *section)
{
    size_t n = strlen(section);
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++) {
        bool inside = !strncmp(k->section, section, n) && (k->section[n] == '\0' || k->section[n] == '.');
        if (inside && !is_axis(job, k) && kinds_any_reads(&job->spec, job->axis, job->axes, k))
            return true;
    }
    return false;
}

static void add_sections(const struct job *job, struct text *out)
{
    const char *section = "";
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++) {
        if (!kinds_any_reads(&job->spec, job->axis, job->axes, k))
            continue;
        if (strcmp(section, k->section)) {
            int depth = depth_of(k->section);
            text_add(out, "%s%*s%s%s:\n", depth ? "" : "\n", 2 * depth, "", has_values(job, k->section) ? "" : "# ",
                     key_last_name(k->section));
            section = k->section;
        }
        add_key(job, k, out);
    }
}

static void add_seeds(const struct job *job, struct text *out)
{
    bool counted = true;
    for (int i = 0; i < job->seeds; i++)
        counted &= job->seed[i] == (uint64_t)i;
    text_add(out, "\nseeds: ");
    if (counted) {
        text_add(out, "%d\n", job->seeds);
        return;
    }
    for (int i = 0; i < job->seeds; i++)
        text_add(out, "%s%llu", i ? ", " : "[", (unsigned long long)job->seed[i]);
    text_add(out, "]\n");
}

static void add_axes(const struct job *job, struct text *out)
{
    text_add(out, "\naxes:%s\n", job->axes ? "" : " {}");
    for (int i = 0; i < job->axes; i++) {
        const struct axis *a = &job->axis[i];
        text_add(out, "  %s: ", a->key->path);
        if (a->log_scale) {
            text_add(out, "{from: ");
            value_print_number(a->key, a->value[0], out);
            text_add(out, ", to: ");
            value_print_number(a->key, a->value[a->count - 1], out);
            text_add(out, ", points: %d, scale: log}\n", a->count);
            continue;
        }
        for (int v = 0; v < a->count; v++) {
            text_add(out, v ? ", " : "[");
            value_print_number(a->key, a->value[v], out);
        }
        text_add(out, "]\n");
    }
}

static void add_claims(const struct job *job, struct text *out)
{
    text_add(out, "\nclaims:%s\n", job->claims ? "" : " []");
    for (int i = 0; i < job->claims; i++) {
        const struct claim *c = &job->claim[i];
        text_add(out, "  - that: ");
        text_add_json(out, c->text);
        text_add(out, "\n");
        if (c->says) {
            text_add(out, "    says: ");
            text_add_json(out, c->says);
            text_add(out, "\n");
        }
        if (c->source) {
            text_add(out, "    source: ");
            text_add_json(out, c->source);
            text_add(out, "\n");
        }
    }
}

char *job_print(const struct job *job)
{
    struct text t = {0};
    text_add(&t, "# The effective job: every key that its runs read, with its value. It can be run like the file it was made "
             "from.\n");
    text_add(&t, "name: ");
    text_add_json(&t, job->name);
    text_add(&t, "\n");
    add_sections(job, &t);
    add_seeds(job, &t);
    add_axes(job, &t);
    add_claims(job, &t);
    return t.s;
}

/* ---- the reference ---- */

static void add_cell(struct text *out, const char *s)
{
    for (; *s; s++)
        text_add(out, *s == '|' ? "\\|" : "%c", *s);
}

static void add_key_row(const struct key *k, const struct spec *defaults, struct text *out)
{
    struct text expected = {0};
    value_expected(k, &expected);
    text_add(out, "| `%s` | ", k->name);
    add_cell(out, text_string(&expected));
    text_add(out, " | `");
    value_print(k, defaults, out);
    text_add(out, "` | %s | ", strcmp(k->unit, "1") ? k->unit : "");
    add_cell(out, k->doc);
    for (int i = 0; i < k->words_count; i++) {
        text_add(out, "%s`%s`", i ? "; " : *k->doc ? ". " : "", k->words[i]);
        if (*k->word_docs[i]) {
            text_add(out, ": ");
            add_cell(out, k->word_docs[i]);
        }
    }
    text_add(out, " |\n");
    text_free(&expected);
}

static const char reference_head[] =
    "# The job file\n"
    "\n"
    "This file is made from the key tables in src/job/keys.h by `make docs`.\n"
    "\n"
    "A job file is YAML. Keys may be nested (`train: {lr: 1e-4}`) or dotted (`train.lr: 1e-4`). Every key but `name`\n"
    "has a default. Unknown, duplicate, mistyped and out-of-range keys are errors before anything starts, and all are\n"
    "reported at once. `--set KEY=VALUE` on the command line replaces what the file says; VALUE is YAML\n"
    "(`--set seeds=4`, `--set 'axes.train.lr=[1e-4, 1e-3]'`). `invar plan JOB` says what would run.\n"
    "\n"
    "| key | takes | default | what it is |\n"
    "|---|---|---|---|\n"
    "| `name` | letters, digits and `. _ -` | | names the job and its output folder |\n"
    "| `seeds` | a number n (seeds 0 to n-1), or a list | `1` | every grid point is trained once with each seed |\n"
    "| `axes` | a mapping from keys to values | `{}` | see below |\n"
    "| `claims` | a list | `[]` | see below |\n"
    "\n"
    "## axes\n"
    "\n"
    "Keys that take several values; the runs are the product of the axes and the seeds. Any key with a single value\n"
    "may be an axis if it is part of a run (all sections but store, refine and gather); it then has no value of its own\n"
    "in its section. So may each number of a key that takes numbers by name. Later axes vary faster, seeds slowest.\n"
    "\n"
    "    axes:\n"
    "      train.weight_decay: [0.3, 0.5, 1, 2]\n"
    "      train.optimizer: [adamw, sgd]\n"
    "      init.scale.attention: {from: 0.1, to: 10, points: 5, scale: log}     # 0.1, 0.316..., 1, 3.16..., 10\n"
    "      model.dropout: {from: 0, to: 0.3, points: 4}                         # scale: linear\n"
    "      init.coordinates.beta_12: {from: 0, to: 1, points: 41}               # one number of init.coordinates\n"
    "\n"
    "## claims\n"
    "\n"
    "What the results should be, judged on what `invar gather` has written and shown in the report. A claim is a\n"
    "comparison, or a mapping with what it says and where it is claimed.\n"
    "\n"
    "    claims:\n"
    "      - core_dim == 3\n"
    "      - accuracy_core_only >= accuracy_test - 0.001\n"
    "      - that: min(canonical_correlation) >= 0.9\n"
    "        says: cores agree across seeds\n"
    "        source: arXiv 2602.22600\n"
    "\n"
    "Comparisons (`== != < <= > >=`) may be chained; sums, products and brackets are as usual. Names are variables of\n"
    "runs.nc and cross_run.nc; `core_weight[0]` is a component, from 0. Without a function a claim must hold for every\n"
    "run (or pair of runs) that has a value. `min max mean median std count` make one number of all of them, `abs` is the\n"
    "absolute value, and `share(outcome == DONE)` is the share for which a comparison holds.\n";

char *job_format_reference(void)
{
    struct text t = {0};
    struct spec *defaults = memory_new(1, sizeof *defaults);
    key_defaults(defaults);
    text_add(&t, "%s", reference_head);
    const char *section = "";
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++) {
        if (strcmp(section, k->section)) {
            text_add(&t, "\n## %s\n\n", k->section);
            if (!k->of_run)
                text_add(&t, "Of the job as a whole: no run depends on it, and changing it retrains nothing.\n\n");
            text_add(&t, "| key | takes | default | unit | what it is |\n|---|---|---|---|---|\n");
            section = k->section;
        }
        add_key_row(k, defaults, &t);
    }
    memory_free(defaults);
    return t.s;
}
