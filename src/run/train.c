#include "run/train.h"

#include "base/clock.h"
#include "base/float_mode.h"
#include "base/log.h"
#include "base/memory.h"
#include "job/job.h"
#include "run/evaluate.h"
#include "run/group.h"
#include "run/probes.h"
#include "run/state.h"
#include "run/training.h"
#include "run/weights.h"

#include <math.h>
#include <string.h>

static double elapsed(const struct training *t) { return t->earlier + clock_now() - t->started; }

/* ---- opening and closing ---- */

static enum status open_training(struct training *t, const struct spec *spec, uint64_t seed)
{
    *t = (struct training){.spec = spec, .seed = seed, .started = clock_now()};
    t->saved = t->started;
    job_run_id(spec, seed, t->id);
    enum status status = task_open(spec, seed, &t->task);
    if (status != STATUS_OK)
        return status;
    struct task_shape shape = task_shape(t->task);
    status = model_open(spec, shape, &t->model);
    if (status != STATUS_OK)
        return status;
    t->optimizer = optimizer_new(t->model, spec);
    t->steps = task_steps(t->task);
    t->batch = batch_new_of((int)task_batch_size(t->task), shape);
    evaluate_open(t);
    return probes_check(t);
}

static void close_training(struct training *t)
{
    record_clear(&t->record);
    batch_free(&t->view);
    batch_free(&t->batch);
    optimizer_free(t->optimizer);
    model_free(t->model);
    task_free(t->task);
}

static void start(struct training *t)
{
    t->record = (struct record){.seed = t->seed, .last_finite_step = -1, .emergence_step = NAN};
    memcpy(t->record.id, t->id, sizeof t->record.id);
    model_initialise(t->model, t->spec, t->seed);
}

/* Goes on from the state; false when there is none that fits. */
static bool resume(struct training *t, const void *state, size_t n)
{
    if (!state)
        return false;
    if (state_read(t, state, n) != STATUS_OK) {
        log_line(LOG_WARNING, "run %s starts anew: %s", t->id, status_text());
        return false;
    }
    t->step = (uint64_t)t->record.steps;
    t->earlier = t->record.wall_time;
    t->record.restarts++;
    return true;
}

/* ---- one step, and what happens after it ---- */

static void diverge(struct training *t)
{
    t->over = true;
    t->outcome = OUTCOME_DIVERGED;
}

static void take_step(struct training *t)
{
    task_train_batch(t->task, t->step, &t->batch);
    struct model_result r = model_train_pass(t->model, &t->batch, t->seed, t->step);
    if (!(r.loss <= t->spec->train.diverged_above)) {       /* NaN is not */
        diverge(t);
        return;
    }
    if (isnan(t->record.emergence_step) && r.loss < t->spec->probe_manifold.emerged_below)
        t->record.emergence_step = (double)t->step;
    optimizer_step(t->optimizer, t->model, ++t->step);
    if (!model_is_finite(t->model))
        diverge(t);
}

static bool evaluation_due(const struct training *t)
{
    uint64_t every = (uint64_t)t->spec->train.eval_every;
    if (every == 0)
        every = task_epoch_steps(t->task);
    return t->step % every == 0 || t->step == t->steps;
}

static bool has_target(const struct training *t)
{
    return t->spec->train.target_accuracy > 0.0 || t->spec->train.target_loss > 0.0;
}

static bool at_target(const struct training *t)
{
    const struct record_curves *c = &t->record.curves;
    const double accuracy = t->spec->train.target_accuracy;
    return accuracy > 0.0 ? c->accuracy_test[c->points - 1] >= accuracy
                          : c->loss_train[c->points - 1] < t->spec->train.target_loss;
}

/* A point of the curves, and whether it ends the training. A target reached on a part of a set counts when the whole
 * set confirms it. */
static void evaluate(struct training *t)
{
    bool last = t->step == t->steps, wanted = has_target(t);
    evaluate_point(t, last);
    if (wanted && !last && at_target(t) && !evaluate_was_complete(t))
        evaluate_complete(t);
    if (!evaluate_is_bounded(t)) {
        diverge(t);
        return;
    }
    bool reached = wanted && at_target(t);
    t->over = last || reached;
    t->outcome = wanted && !reached ? OUTCOME_UNFINISHED : OUTCOME_DONE;
}

/* What is due now that t->step steps are done and the weights are finite. */
static enum status arrive(struct training *t)
{
    if (evaluation_due(t))
        evaluate(t);
    if (t->over && t->outcome == OUTCOME_DIVERGED)
        return STATUS_OK;
    t->record.last_finite_step = (int64_t)t->step;
    return probes_due(t) ? probes_look(t) : STATUS_OK;
}

/* ---- the loop ---- */

static void note_progress(struct training *t)
{
    t->record.steps = (int64_t)t->step;
    t->record.wall_time = elapsed(t);
}

static enum status save(struct training *t, const struct train_control *control)
{
    t->saved = clock_now();
    t->evaluated = false;
    if (!control->save)
        return STATUS_OK;
    note_progress(t);
    struct text bytes = {0};
    state_write(t, &bytes);
    enum status status = control->save(control->context, bytes.s, bytes.length);
    text_free(&bytes);
    return status;
}

static bool save_due(const struct training *t)
{
    double every = t->spec->store.checkpoint_every;
    return every > 0.0 ? clock_now() - t->saved >= every : t->evaluated;
}

static enum status go_on(struct training *t, const struct train_control *control, enum train_end *end)
{
    while (!t->over) {
        if (control->should_stop && control->should_stop(control->context)) {
            *end = TRAIN_STOPPED;
            return save(t, control);
        }
        enum status status = save_due(t) ? save(t, control) : STATUS_OK;
        if (status != STATUS_OK)
            return status;
        take_step(t);
        if (!t->over)
            status = arrive(t);
        if (status != STATUS_OK)
            return status;
        if (control->progress)
            control->progress(control->context, t->step, t->steps);
    }
    *end = TRAIN_FINISHED;
    return STATUS_OK;
}

/* Moves the finished record out of the training. */
static void finish(struct training *t, struct record *record)
{
    struct record *r = &t->record;
    const struct record_curves *c = &r->curves;
    bool diverged = t->outcome == OUTCOME_DIVERGED;
    int last = c->points - 1;
    r->outcome = t->outcome;
    r->loss_train = diverged ? NAN : c->loss_train[last];
    r->loss_test = diverged ? NAN : c->loss_test[last];
    r->accuracy_train = diverged ? NAN : c->accuracy_train[last];
    r->accuracy_test = diverged ? NAN : c->accuracy_test[last];
    weights_pack(t->model, r);
    note_progress(t);
    *record = *r;
    *r = (struct record){0};
}

/* Alone, a run of a group has the bits that it has in company. */
static enum status train_alone(const struct spec *spec, uint64_t seed, const struct train_control *control, struct record *record,
                               enum train_end *end)
{
    struct group *g = group_new();
    struct group_run run = {.spec = spec, .seed = seed, .record = record};
    enum status status = group_train(g, &run, 1, control, NULL, end);
    group_free(g);
    return status == STATUS_OK && run.state == GROUP_FAILED ? STATUS_JOB : status;
}

enum status train_run(const struct spec *spec, uint64_t seed, const struct train_control *control,
                      const void *state, size_t n, struct record *record, enum train_end *end)
{
    if (group_fits(spec))
        return train_alone(spec, seed, control, record, end);
    uint64_t mode = float_mode_flush();
    struct training t;
    enum status status = open_training(&t, spec, seed);
    if (status != STATUS_OK)
        goto out;
    if (!resume(&t, state, n)) {
        start(&t);
        status = arrive(&t);
    }
    static const struct train_control alone;
    if (status == STATUS_OK)
        status = go_on(&t, control ? control : &alone, end);
    if (status == STATUS_OK && *end == TRAIN_FINISHED)
        finish(&t, record);
out:
    close_training(&t);
    float_mode_restore(mode);
    return status;
}

enum status train_restore(const struct spec *spec, const struct record *record, struct model **model, struct task **task)
{
    struct task *t = NULL;
    struct model *m = NULL;
    enum status status = task_open(spec, record->seed, &t);
    if (status == STATUS_OK)
        status = model_open(spec, task_shape(t), &m);
    if (status == STATUS_OK)
        status = weights_unpack(record, m);
    if (status != STATUS_OK) {
        model_free(m);
        task_free(t);
        return status;
    }
    *model = m;
    *task = t;
    return STATUS_OK;
}
