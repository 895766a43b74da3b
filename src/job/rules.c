#include "job/rules.h"

#include "job/kinds.h"
#include "job/plan.h"
#include "job/value.h"

#include <math.h>
#include <stddef.h>

/* Each rule returns true when it holds; otherwise `why` says what is wrong and what to do. */

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

static bool length_fits(const struct spec *s, struct text *why)
{
    if (s->task.length - 1 <= s->model.max_length)
        return true;
    text_add(why, "task.length %lld needs %lld positions, but model.max_length is %lld", (long long)s->task.length,
             (long long)s->task.length - 1, (long long)s->model.max_length);
    return false;
}

static bool layer_exists(const struct spec *s, struct text *why)
{
    if (s->probe_ace.layer <= s->model.layers)
        return true;
    text_add(why, "probe.ace.layer %lld does not exist: model.layers is %lld", (long long)s->probe_ace.layer,
             (long long)s->model.layers);
    return false;
}

static bool rank_fits(const struct spec *s, struct text *why)
{
    double width = kinds_width(s, (double)s->task.states, s->probe_ace.layer);
    if ((double)s->probe_ace.rank <= width)
        return true;
    if (s->model.kind == MODEL_DECODER)
        text_add(why, "probe.ace.rank %lld is more than model.d_model %.0f", (long long)s->probe_ace.rank, width);
    else
        text_add(why, "probe.ace.rank %lld is more than the residual stream's %.0f after block %lld",
                 (long long)s->probe_ace.rank, width, (long long)s->probe_ace.layer);
    return false;
}

/* The stream of an attention_only model grows with every block, and its matrices with the square of that. */
static bool stream_is_bearable(const struct spec *s, struct text *why)
{
    double width = kinds_width(s, (double)s->task.states, s->model.layers);
    if (s->model.kind == MODEL_DECODER || width <= PLAN_WIDTH_MAX)
        return true;
    text_add(why, "model.layers %lld with model.heads %lld make a residual stream of %.4g from %.0f tokens and positions: "
             "at most %d, use fewer layers or heads", (long long)s->model.layers, (long long)s->model.heads, width,
             kinds_width(s, (double)s->task.states, 0), PLAN_WIDTH_MAX);
    return false;
}

static bool something_to_train(const struct spec *s, struct text *why)
{
    if (s->train.steps > 0 || s->train.epochs > 0)
        return true;
    text_add(why, "train.steps and train.epochs are both 0: there is nothing to train");
    return false;
}

/* Random streams number steps and epochs with 32 bits. */
static bool steps_have_streams(const struct spec *s, struct text *why)
{
    if (plan_steps(s) <= (int64_t)UINT32_MAX)
        return true;
    text_add(why, "%lld steps are more than the %lu that random streams can number: train fewer, or in larger batches",
             (long long)plan_steps(s), (unsigned long)UINT32_MAX);
    return false;
}

static bool batch_fits(const struct spec *s, struct text *why)
{
    if (s->train.batch <= s->task.sequences)
        return true;
    text_add(why, "train.batch %lld is more than task.sequences %lld: 0 takes the whole training set",
             (long long)s->train.batch, (long long)s->task.sequences);
    return false;
}

static bool eval_fits(const struct spec *s, struct text *why)
{
    if (s->train.eval_sequences <= s->task.sequences && s->train.eval_sequences <= s->task.test_sequences)
        return true;
    text_add(why, "train.eval_sequences %lld is more than a set has (training %lld, test %lld): 0 takes all",
             (long long)s->train.eval_sequences, (long long)s->task.sequences, (long long)s->task.test_sequences);
    return false;
}

static bool probe_steps(const struct spec *s, struct text *why)
{
    int64_t steps = plan_steps(s);
    const struct key_list *at = &s->probe.at;
    for (int i = 0; i < at->count; i++) {
        if (at->value[i] > steps) {
            text_add(why, "probe.at %lld comes after the last step, %lld", (long long)at->value[i], (long long)steps);
            return false;
        }
        for (int j = 0; j < i; j++)
            if (at->value[i] == at->value[j]) {
                text_add(why, at->value[i] < 0 ? "probe.at holds end twice" : "probe.at holds %lld twice",
                         (long long)at->value[i]);
                return false;
            }
    }
    return true;
}

static bool loss_positions(const struct spec *s, struct text *why)
{
    int64_t length = s->task.length - 1;
    const struct key_list *p = &s->train.positions;
    for (int i = 0; i < p->count; i++) {
        if (p->value[i] >= length || p->value[i] < -length) {
            text_add(why, "train.positions %lld: a sequence has the input positions 0 to %lld (or -%lld to -1)",
                     (long long)p->value[i], (long long)length - 1, (long long)length);
            return false;
        }
        for (int j = 0; j < i; j++)
            if ((p->value[i] - p->value[j]) % length == 0) {
                text_add(why, "train.positions %lld and %lld are the same position", (long long)p->value[j],
                         (long long)p->value[i]);
                return false;
            }
    }
    return true;
}

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
    int positions = s->train.positions.count;
    double samples = (double)s->task.test_sequences * (positions ? positions : (double)(s->task.length - 1));
    double held = floor(samples * s->gather_cca.heldout), least = 2.0 + (double)s->probe_ace.rank;
    if (s->probe_ace.layer == 0 || !s->gather_cca.pairs || s->gather_cca.heldout == 0.0 ||
        (held >= least && samples - held >= least))
        return true;
    text_add(why, "gather.cca.heldout %g splits %.0f probe inputs into %.0f and %.0f: each part needs at least %.0f",
             s->gather_cca.heldout, samples, samples - held, held, least);
    return false;
}

enum { READS_MAX = 6 };

static const struct rule {
    bool (*holds)(const struct spec *s, struct text *why);
    const char *reads[READS_MAX];
} rules[] = {
    {mlp_widths, {"model.d_mlp", "model.layers", "model.kind"}},
    {head_width, {"model.heads", "model.d_model", "model.d_head", "model.kind"}},
    {stream_is_bearable, {"model.layers", "model.heads", "model.max_length", "task.states", "model.kind"}},
    {length_fits, {"task.length", "model.max_length"}},
    {layer_exists, {"probe.ace.layer", "model.layers"}},
    {rank_fits, {"probe.ace.rank", "model.d_model", "model.kind", "probe.ace.layer", "model.heads", "model.max_length"}},
    {something_to_train, {"train.epochs", "train.steps"}},
    {steps_have_streams, {"train.steps", "train.epochs", "train.batch", "task.sequences"}},
    {batch_fits, {"train.batch", "task.sequences"}},
    {eval_fits, {"train.eval_sequences", "task.sequences", "task.test_sequences"}},
    {probe_steps, {"probe.at", "train.steps", "train.epochs", "train.batch", "task.sequences"}},
    {loss_positions, {"train.positions", "task.length"}},
    {grid_shape, {"gather.grid"}},
    {heldout_split, {"gather.cca.heldout", "probe.ace.rank", "task.test_sequences", "task.length", "train.positions",
                     "probe.ace.layer"}},
};

static int number_of(const char *path) { return (int)(key_find(path) - key_at(0)); }

static void complain(const struct rule *r, const struct rule_scope *scope, const struct spec *s,
                     const struct axis *const *axis, int axes, const char *why, struct complaints *c)
{
    struct place where = {0, 1, 1};
    for (int i = 0; i < READS_MAX && r->reads[i]; i++) {
        struct place p = scope->place[number_of(r->reads[i])];
        if (p.line) {
            where = p;
            break;
        }
    }
    struct text point = {0};
    for (int i = 0; i < axes; i++) {
        text_add(&point, "%s%s = ", i ? ", " : " (at ", axis[i]->key->path);
        value_print_number(axis[i]->key, key_get(s, axis[i]->key), &point);
    }
    complaint_add(c, where, "%s%s%s", why, text_string(&point), axes ? ")" : "");
    text_free(&point);
}

/* Walks the product of the axes that the rule reads, up to its first broken point. */
static void check(const struct rule *r, const struct rule_scope *scope, struct spec *s, struct complaints *c)
{
    const struct axis *axis[JOB_AXES_MAX];
    int axes = 0, at[JOB_AXES_MAX] = {0};
    for (int i = 0; i < READS_MAX && r->reads[i]; i++) {
        int k = number_of(r->reads[i]);
        if (scope->bad[k])
            return;
        for (int a = 0; a < scope->axes; a++)
            if (scope->axis[a].key == key_at(k))
                axis[axes++] = &scope->axis[a];
    }
    for (;;) {
        for (int a = 0; a < axes; a++)
            key_set(s, axis[a]->key, axis[a]->value[at[a]]);
        struct text why = {0};
        bool holds = r->holds(s, &why);
        if (!holds)
            complain(r, scope, s, axis, axes, text_string(&why), c);
        text_free(&why);
        int a = axes - 1;
        while (a >= 0 && ++at[a] == axis[a]->count)
            at[a--] = 0;
        if (!holds || a < 0)
            return;
    }
}

/* Keys that were given though no run of the job reads them. */
static void refuse_foreign_keys(const struct rule_scope *scope, struct complaints *c)
{
    if (scope->bad[number_of("model.kind")])
        return;
    const struct key *k, *kind = key_find("model.kind");
    const char *word = kind->words[scope->spec->model.kind];
    for (int i = 0; (k = key_at(i)); i++)
        if (scope->place[i].line && !kinds_any_reads(scope->spec, scope->axis, scope->axes, k))
            complaint_add(c, scope->place[i], "%s: a model of kind %s has no such key, leave it out", k->path, word);
}

void rules_check(const struct rule_scope *scope, struct complaints *c)
{
    refuse_foreign_keys(scope, c);
    struct spec *s = memory_new(1, sizeof *s);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        *s = *scope->spec;
        check(&rules[i], scope, s, c);
    }
    memory_free(s);
}
