/* rules_model.c: rules of the model and of what is measured on it. */
#include "base/memory.h"
#include "job/kinds.h"
#include "job/plan.h"
#include "job/rules_private.h"
#include "job/shape.h"

#include <math.h>

/* ---- the model alone ---- */

static bool mlp_widths(const struct spec *s, struct text *why)
{
    int n = s->model.d_mlp.count;
    if (s->model.kind != MODEL_DECODER || n == 1 || n == s->model.layers)
        return true;
    text_add(why, "model.d_mlp lists %d width%s, model.layers is %lld: give one for all blocks, or one per block", n,
             n == 1 ? "" : "s", (long long)s->model.layers);
    return false;
}

static bool head_width(const struct spec *s, struct text *why)
{
    if (s->model.kind != MODEL_DECODER || s->model.d_head > 0 || s->model.d_model % s->model.heads == 0)
        return true;
    text_add(why, "model.d_model %lld is no multiple of model.heads %lld: change one of them, or set model.d_head",
             (long long)s->model.d_model, (long long)s->model.heads);
    return false;
}

static double width_after(const struct spec *s, int64_t layer) { return kinds_width(s, shape_of(s).vocabulary, layer); }

/* The stream of an attention_only model grows with every block, and its matrices with the square of that. */
static bool stream_is_bearable(const struct spec *s, struct text *why)
{
    double width = width_after(s, s->model.layers);
    if (s->model.kind != MODEL_ATTENTION_ONLY || width <= PLAN_WIDTH_MAX)
        return true;
    text_add(why, "model.layers %lld with model.heads %lld make a residual stream of %.4g from %.0f tokens and positions: "
             "at most %d, use fewer layers or heads", (long long)s->model.layers, (long long)s->model.heads, width,
             width_after(s, 0), PLAN_WIDTH_MAX);
    return false;
}

/* ---- the model and its task ---- */

static bool manifold_has_blocks(const struct spec *s, struct text *why)
{
    if (s->model.kind != MODEL_MANIFOLD || s->task.kind == TASK_BLOCKLIST)
        return true;
    text_add(why, "model.kind manifold: the invariant manifold is one of block lists, set task.kind to blocklist");
    return false;
}

/* A decoder knows positions by number only, and has no relations between them. */
static bool decoder_layout(const struct spec *s, struct text *why)
{
    if (s->model.kind != MODEL_DECODER || s->task.kind != TASK_BLOCKLIST || s->task.layout == LAYOUT_CONTIGUOUS)
        return true;
    text_add(why, "task.layout %s: a decoder learns the positions 0, 1, 2, ..., use contiguous, or model.kind attention_only",
             key_find("task.layout")->words[s->task.layout]);
    return false;
}

static bool decoder_expectation(const struct spec *s, struct text *why)
{
    if (s->model.kind != MODEL_DECODER || s->task.kind != TASK_BLOCKLIST || s->task.expectation == EXPECTATION_SAMPLED)
        return true;
    text_add(why, "task.expectation %s: enumerated for attention_only and manifold models, a decoder takes sampled",
             key_find("task.expectation")->words[s->task.expectation]);
    return false;
}

/* What the keys can say and this version cannot do yet. */
static bool is_built(const struct spec *s, struct text *why)
{
    if (s->model.kind != MODEL_MANIFOLD || s->task.kind != TASK_BLOCKLIST || s->probe_circuit.budget == 0.0)
        return true;
    text_add(why, "probe.circuit: this version seeks circuits in attention_only models only");
    return false;
}

/* ---- its beginning ---- */

static bool point_exists(const struct spec *s, struct text *why)
{
    if (s->init.scheme != INIT_COORDINATES || (s->model.kind != MODEL_DECODER && s->task.kind == TASK_BLOCKLIST))
        return true;
    if (s->model.kind == MODEL_DECODER)
        text_add(why, "init.scheme coordinates: a decoder has no invariant manifold, use it with model.kind attention_only or "
                 "manifold");
    else
        text_add(why, "init.scheme coordinates: the invariant manifold is one of block lists, set task.kind to blocklist");
    return false;
}

static bool manifold_scheme(const struct spec *s, struct text *why)
{
    if (s->model.kind != MODEL_MANIFOLD || s->init.scheme == INIT_NORMAL || s->init.scheme == INIT_COORDINATES)
        return true;
    text_add(why, "init.scheme %s: a manifold model has coordinates instead of weights, use coordinates, or normal",
             key_find("init.scheme")->words[s->init.scheme]);
    return false;
}

const struct rule rules_of_model[] = {
    RULE(mlp_widths, "model.d_mlp", "model.layers", "model.kind"),
    RULE(head_width, "model.heads", "model.d_model", "model.d_head", "model.kind"),
    RULE(stream_is_bearable, "model.layers", "model.heads", "model.max_length", "model.kind", RULE_SHAPE),
    RULE(manifold_has_blocks, "model.kind", "task.kind"),
    RULE(decoder_layout, "task.layout", "model.kind", "task.kind"),
    RULE(decoder_expectation, "task.expectation", "model.kind", "task.kind"),
    RULE(is_built, "probe.circuit.budget", "model.kind", "task.kind"),
    RULE(point_exists, "init.scheme", "model.kind", "task.kind"),
    RULE(manifold_scheme, "init.scheme", "model.kind"),
    RULE_END,
};

/* ---- what is measured ---- */

static bool layer_exists(const struct spec *s, struct text *why)
{
    if (s->probe_ace.layer <= s->model.layers || s->model.kind == MODEL_MANIFOLD)
        return true;
    text_add(why, "probe.ace.layer %lld does not exist: model.layers is %lld", (long long)s->probe_ace.layer,
             (long long)s->model.layers);
    return false;
}

static bool rank_fits(const struct spec *s, struct text *why)
{
    double width = width_after(s, s->probe_ace.layer);
    if ((double)s->probe_ace.rank <= width || s->model.kind == MODEL_MANIFOLD)
        return true;
    if (s->model.kind == MODEL_DECODER)
        text_add(why, "probe.ace.rank %lld is more than model.d_model %.0f", (long long)s->probe_ace.rank, width);
    else
        text_add(why, "probe.ace.rank %lld is more than the residual stream's %.0f after block %lld",
                 (long long)s->probe_ace.rank, width, (long long)s->probe_ace.layer);
    return false;
}

static bool circuit_has_blocks(const struct spec *s, struct text *why)
{
    if (!s->probe_manifold.winner || !kinds_on_manifold(s) || s->model.layers >= 2)
        return true;
    text_add(why, "probe.manifold.winner: a circuit is made of two blocks, but model.layers is %lld",
             (long long)s->model.layers);
    return false;
}

/* The ratio's denominator: the same task, all of its sequences of rare tokens. What is wrong with the task itself is said by
 * its own rule. */
static bool gradient_has_rare_tokens(const struct spec *s, struct text *why)
{
    if (!s->probe_manifold.gradient || s->task.kind != TASK_BLOCKLIST || s->model.kind == MODEL_DECODER)
        return true;
    struct spec *rare = memory_new(1, sizeof *rare);
    struct text reason = {0}, ignored = {0};
    *rare = *s;
    rare->task.rare = 1.0;
    bool holds = s->task.rare_tokens > 0 && (shape_possible(rare, &reason) || !shape_possible(s, &ignored));
    if (!holds)
        text_add(why, "probe.manifold.gradient compares with the same task of rare tokens alone: %s",
                 reason.length ? text_string(&reason) : "task.rare_tokens is 0, give it some");
    text_free(&reason);
    text_free(&ignored);
    memory_free(rare);
    return holds;
}

static bool budget_is_above(const struct spec *s, struct text *why)
{
    if (s->probe_circuit.budget == 0.0 || s->probe_circuit.budget > 1.0)
        return true;
    text_add(why, "probe.circuit.budget %g is a factor on the loss of all coordinates: it must be above 1, or 0 for no search",
             s->probe_circuit.budget);
    return false;
}

/* ---- the job's results ---- */

static bool grid_shape(const struct spec *s, struct text *why)
{
    if (s->gather.grid.count == 2)
        return true;
    text_add(why, "gather.grid: expected 2 numbers, [rows, columns] of processes, got %d", s->gather.grid.count);
    return false;
}

/* Both parts of the split must determine correlations of cores of at least the fixed rank. */
static bool heldout_split(const struct spec *s, struct text *why)
{
    struct task_shape shape = shape_of(s);
    double samples = shape_sequences(s, true) * (shape.looked ? shape.looked : shape.length);
    double held = floor(samples * s->gather_cca.heldout), least = 2.0 + (double)s->probe_ace.rank;
    if (s->probe_ace.layer == 0 || !s->gather_cca.pairs || s->gather_cca.heldout == 0.0 || s->model.kind == MODEL_MANIFOLD ||
        (held >= least && samples - held >= least))
        return true;
    text_add(why, "gather.cca.heldout %g splits %.0f probe inputs into %.0f and %.0f: each part needs at least %.0f",
             s->gather_cca.heldout, samples, samples - held, held, least);
    return false;
}

static bool refined_by_what_is_measured(const struct spec *s, struct text *why)
{
    if (s->refine.levels == 0 || s->refine.by != REFINE_WINNER || (s->probe_manifold.winner && kinds_on_manifold(s)))
        return true;
    text_add(why, "refine.by winner needs probe.manifold.winner: true, or use outcome");
    return false;
}

const struct rule rules_of_results[] = {
    RULE(layer_exists, "probe.ace.layer", "model.layers", "model.kind"),
    RULE(rank_fits, "probe.ace.rank", "model.d_model", "model.kind", "probe.ace.layer", "model.heads", "model.max_length",
         RULE_SHAPE),
    RULE(circuit_has_blocks, "probe.manifold.winner", "model.layers", "model.kind", "task.kind"),
    RULE(gradient_has_rare_tokens, "probe.manifold.gradient", "model.kind", RULE_SHAPE, "task.rare", "task.variability",
         "task.burstiness", "task.queried", "task.expectation"),
    RULE(budget_is_above, "probe.circuit.budget"),
    RULE(grid_shape, "gather.grid"),
    RULE(heldout_split, "gather.cca.heldout", "gather.cca.pairs", "probe.ace.rank", "task.test_sequences", "train.positions",
         "probe.ace.layer", "model.kind", "task.expectation", RULE_SHAPE),
    RULE(refined_by_what_is_measured, "refine.by", "refine.levels", "probe.manifold.winner", "model.kind", "task.kind"),
    RULE_END,
};
