#include "analysis/names.h"

#include "analysis/cross_run.h"
#include "analysis/pairs.h"
#include "analysis/runs_manifold.h"
#include "analysis/variables.h"
#include "base/memory.h"
#include "base/text.h"
#include "job/outcome.h"

#include <stdio.h>
#include <string.h>

/* A name, as it is met in the list of all. */
typedef void visitor(void *context, const char *name);

static void visit_scalars(const struct job *job, visitor *visit, void *context)
{
    static const char *const suffix[] = {"mean", "std", "count"};
    for (int i = 0; i < variables_scalars(); i++) {
        const char *name = variables_scalar(i)->name;
        visit(context, name);
        for (int k = 0; job->axes && k < 3; k++) {
            char *full = memory_format("%s_%s", name, suffix[k]);
            visit(context, full);
            memory_free(full);
        }
        if (variables_scalar(i)->of_probe && job->spec.probe.at.count > 1) {
            char *full = memory_format("%s_probe", name);
            visit(context, full);
            memory_free(full);
        }
    }
}

static void visit_axes(const struct job *job, visitor *visit, void *context)
{
    for (int a = 0; a < job->axes; a++) {
        const struct axis *axis = &job->axis[a];
        char *name = variables_axis_name(axis);
        visit(context, name);
        memory_free(name);
        for (int i = 0; i < axis->count; i++)
            if (variables_axis_word(axis, axis->value[i]))
                visit(context, variables_axis_word(axis, axis->value[i]));
    }
}

#define VISIT_CURVE(name, units, long_name, pointer) visit(context, #name);
#define VISIT_COMPONENTS(name, units, long_name, parts, count, pointer) visit(context, #name);
#define VISIT_TRUTH(name, long_name, value) visit(context, #name);

/* What the manifold probe leaves (runs_manifold.h). */
static void visit_manifold(const struct job *job, visitor *visit, void *context)
{
    static const char *const always[] = {"coordinate",
                                         "leakage",
                                         "manifold_loss",
                                         "coordinate_step",
                                         "emergence_step",
                                         "gradient",
                                         "gradient_ratio",
                                         "gradient_ratio_theory",
                                         "rise",
                                         "rise_in_context",
                                         "rise_in_weights",
                                         "winner",
                                         "coordinate_probe",
                                         "leakage_probe",
                                         "manifold_probe_step",
                                         "manifold_loss_probe",
                                         "none"};
    static const char *const on_axes[] = {
        "winner_share", "winner_entropy",       "predicted",           "predicted_fails",    "level", "coordinate_mean",
        "leakage_mean", "coordinate_step_mean", "gradient_ratio_mean", "emergence_step_mean"};
    static const char *const circuit[] = {"circuit_units",
                                          "circuit_unit",
                                          "circuit_unit_value",
                                          "circuit_unit_cost",
                                          "circuit_unit_canonical",
                                          "circuit_dropped",
                                          "circuit_dropped_loss",
                                          "circuit_loss",
                                          "circuit_loss_full",
                                          "circuit_loss_canonical",
                                          "circuit_accuracy",
                                          "circuit_accuracy_full",
                                          "circuit_accuracy_canonical"};
    const struct spec *s = &job->spec;
    if (s->probe_circuit.budget == 0.0 && !s->probe_manifold.coordinates && !s->probe_manifold.gradient &&
        !s->probe_manifold.winner)
        return;
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        visit(context, always[i]);
    for (size_t i = 0; job->axes && i < sizeof on_axes / sizeof on_axes[0]; i++)
        visit(context, on_axes[i]);
    for (size_t i = 0; s->probe_circuit.budget > 0.0 && i < sizeof circuit / sizeof circuit[0]; i++)
        visit(context, circuit[i]);
    int n;
    char **words = manifold_circuit_words((int)s->model.layers, &n);
    for (int i = 0; i < n; i++)
        visit(context, words[i]);
    manifold_circuit_words_free(words, n);
}

static void visit_all(const struct job *job, visitor *visit, void *context)
{
    visit(context, "run");
    visit(context, "seed");
    visit(context, "outcome");
    if (job->axes) {
        visit(context, "outcome_share");
        visit(context, "runs");
    }
    for (int o = 0; o < OUTCOME_COUNT; o++)
        visit(context, outcome_name((enum outcome)o));
    visit_scalars(job, visit, context);
    visit_axes(job, visit, context);
    visit_manifold(job, visit, context);
    RUN_CURVES(VISIT_CURVE)
    RUN_COMPONENTS(VISIT_COMPONENTS)
    RUN_TRUTHS(VISIT_TRUTH)
    visit(context, RUN_TRUE_EIGENVALUE);
    for (int i = 0; i < PAIRS_COUNT; i++)
        visit(context, pairs_field[i].name);
    for (int i = 0; cross_run_variable(i); i++)
        visit(context, cross_run_variable(i)->name);
}

/* Looks for the name `wanted` and the nearest one to it. */
struct search {
    const char *wanted;
    char nearest[96];
    int distance;
};

static void compare(void *context, const char *name)
{
    struct search *s = context;
    int d = text_distance(s->wanted, name);
    if (d < s->distance) {
        s->distance = d;
        snprintf(s->nearest, sizeof s->nearest, "%s", name);
    }
}

static void check_node(const struct job *job, const struct claim *claim, const struct claim_node *node,
                       struct text *faults)
{
    if (!node)
        return;
    if (node->kind == CLAIM_NAME) {
        struct search s = {.wanted = node->name, .distance = 1 << 20};
        visit_all(job, compare, &s);
        if (s.distance > 0) {
            text_add(faults, "%s%s:%d:%d: claim \"%s\": no variable \"%s\" is written for this job",
                     faults->length ? "\n" : "", job->path, claim->line, claim->column, claim->text, node->name);
            if (s.distance <= 1 + (int)strlen(node->name) / 3)
                text_add(faults, " (did you mean \"%s\"?)", s.nearest);
        }
    }
    check_node(job, claim, node->a, faults);
    check_node(job, claim, node->b, faults);
}

enum status names_check(const struct job *job)
{
    struct text faults = {0};
    for (int i = 0; i < job->claims; i++)
        check_node(job, &job->claim[i], job->claim[i].tree, &faults);
    enum status s = faults.length ? status_fail(STATUS_JOB, "%s", text_string(&faults)) : STATUS_OK;
    text_free(&faults);
    return s;
}

/* A cell of a Markdown table. */
static void add_cell(struct text *t, const char *s)
{
    for (; *s; s++)
        text_add(t, "%s%c", *s == '|' ? "\\" : "", *s);
    text_add(t, " |");
}

char *names_reference(void)
{
    struct text t = {0};
    char *runs = variables_reference();
    text_add(
        &t,
        "### Variables of runs.nc\n\n%s\nWith axes, phase_map.nc has `NAME_mean`, `NAME_std` and `NAME_count` "
        "over the seeds of each of them that has one value a run, `outcome`, `outcome_share` and `runs`.\n\n"
        "With `probe.manifold`, runs.nc has, of the last probe: `coordinate`, `gradient`, `gradient_ratio` (run, "
        "coordinate; "
        "`[beta_12]` takes one by its name, as `coordinate_name` lists them), `gradient_ratio_theory`, `rise` (run, "
        "circuit), "
        "`rise_in_context`, `rise_in_weights`, `winner` (words `circuit_12`, `circuit_13`, ..., `none`), `leakage` "
        "(run, layer), "
        "`emergence_step`, `coordinate_step` (run, direction); of every probe `coordinate_probe`, `leakage_probe`, "
        "`manifold_loss_probe`, `manifold_probe_step`. phase_map.nc has `winner`, `winner_share`, `winner_entropy`, "
        "`predicted`, "
        "`predicted_fails`, `level` of a refined map, and `coordinate_mean` and its like.\n\n"
        "### Variables of cross_run.nc\n\n| variable | dimensions | unit | what it is |\n|---|---|---|---|\n",
        runs);
    memory_free(runs);
    for (int i = 0; i < PAIRS_COUNT; i++) {
        text_add(&t, "| `%s` | run, run_other%s | %s | ", pairs_field[i].name,
                 pairs_field[i].per_component ? ", component" : "", pairs_field[i].unit);
        add_cell(&t, pairs_field[i].long_name);
        text_add(&t, "\n");
    }
    for (int i = 0; cross_run_variable(i); i++) {
        text_add(&t, "| `%s` | %s | 1 | ", cross_run_variable(i)->name, cross_run_variable(i)->dims);
        add_cell(&t, cross_run_variable(i)->long_name);
        text_add(&t, "\n");
    }
    char *reference = memory_text(text_string(&t));
    text_free(&t);
    return reference;
}
