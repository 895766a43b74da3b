/* rules_task.c: rules of the task and of its training. */
#include "job/kinds.h"
#include "job/plan.h"
#include "job/rules_private.h"
#include "job/shape.h"

/* Data knobs that contradict each other. */
static bool task_is_possible(const struct spec *s, struct text *why)
{
    return s->task.kind != TASK_BLOCKLIST || shape_possible(s, why);
}

static bool length_fits(const struct spec *s, struct text *why)
{
    struct task_shape shape = shape_of(s);
    bool own = s->model.kind != MODEL_DECODER && shape.positions > 0;
    if (s->model.kind == MODEL_MANIFOLD || own || shape.length <= s->model.max_length)
        return true;
    if (s->task.kind == TASK_MARKOV)
        text_add(why, "task.length %lld needs %d positions, but model.max_length is %lld", (long long)s->task.length,
                 shape.length, (long long)s->model.max_length);
    else
        text_add(why, "task.blocks %lld of %d tokens need %d positions, but model.max_length is %lld",
                 (long long)s->task.blocks, shape.block, shape.length, (long long)s->model.max_length);
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
    if (!kinds_draws(s))
        return true;
    if (s->task.sequences == 0 && s->train.batch == 0) {
        text_add(why, "train.batch 0 takes the whole training set, but task.sequences 0 draws new ones at every step: "
                 "say how many");
        return false;
    }
    if (s->task.sequences == 0 || s->train.batch <= s->task.sequences)
        return true;
    text_add(why, "train.batch %lld is more than task.sequences %lld: 0 takes the whole training set",
             (long long)s->train.batch, (long long)s->task.sequences);
    return false;
}

/* Where new sequences are drawn at every step, the training set of an evaluation is as large as the test set. */
static bool eval_fits(const struct spec *s, struct text *why)
{
    int64_t test = s->task.test_sequences, train = s->task.sequences ? s->task.sequences : test;
    if (!kinds_draws(s) || (s->train.eval_sequences <= train && s->train.eval_sequences <= test))
        return true;
    text_add(why, "train.eval_sequences %lld is more than a set has (training %lld, test %lld): 0 takes all",
             (long long)s->train.eval_sequences, (long long)train, (long long)test);
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
    for (int i = 0; i < p->count && s->task.kind == TASK_MARKOV; i++) {
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

static bool one_target(const struct spec *s, struct text *why)
{
    if (s->train.target_loss == 0.0 || s->train.target_accuracy == 0.0)
        return true;
    text_add(why, "train.target_loss %g and train.target_accuracy %g are both set: a run stops at one of them, set the other "
             "to 0",
             s->train.target_loss, s->train.target_accuracy);
    return false;
}

static bool target_before_divergence(const struct spec *s, struct text *why)
{
    if (s->train.target_loss < s->train.diverged_above || s->train.target_loss == 0.0)
        return true;
    text_add(why, "train.target_loss %g is not below train.diverged_above %g: every run would stop at once",
             s->train.target_loss, s->train.diverged_above);
    return false;
}

const struct rule rules_of_task[] = {
    RULE_AT_NAMED(task_is_possible, RULE_SHAPE, "task.rare", "task.variability", "task.burstiness", "task.queried",
                  "task.expectation"),
    RULE_AT_NAMED(length_fits, "task.length", "model.max_length", "model.kind", RULE_SHAPE),
    RULE(something_to_train, "train.epochs", "train.steps"),
    RULE(steps_have_streams, RULE_STEPS),
    RULE(batch_fits, "train.batch", "task.sequences", "task.kind", "task.expectation"),
    RULE(eval_fits, "train.eval_sequences", "task.sequences", "task.test_sequences", "task.kind", "task.expectation"),
    RULE(probe_steps, "probe.at", RULE_STEPS),
    RULE(loss_positions, "train.positions", "task.length", "task.kind"),
    RULE(one_target, "train.target_loss", "train.target_accuracy"),
    RULE(target_before_divergence, "train.target_loss", "train.diverged_above"),
    RULE_END,
};
