#include "run/evaluate.h"

#include "base/memory.h"

#include <math.h>

/* Rows of one evaluation batch: enough to keep the matrix products busy, few enough to stay in the cache. The sums
 * over the batches are part of the result, so this number is part of its bits. */
#define ROWS 4096

static int view_sequences(const struct training *t)
{
    int length = task_shape(t->task).length;
    return length < ROWS ? ROWS / length : 1;
}

void evaluate_open(struct training *t) { t->view = batch_new_of(view_sequences(t), task_shape(t->task)); }

static size_t looked_at(const struct training *t, enum task_set set, bool complete)
{
    size_t all = task_sequences(t->task, set), wanted = (size_t)t->spec->train.eval_sequences;
    return complete || wanted == 0 || wanted > all ? all : wanted;
}

static void evaluate_set(struct training *t, enum task_set set, bool complete, double *loss, double *accuracy)
{
    size_t all = looked_at(t, set, complete), most = (size_t)view_sequences(t);
    double sum = 0.0, weight = 0.0, correct = 0.0;
    for (size_t first = 0; first < all; first += most) {
        size_t count = all - first < most ? all - first : most;
        task_set_batch(t->task, set, first, count, &t->view);
        struct model_result r = model_evaluate(t->model, &t->view, NULL);
        sum += r.loss * r.weight;
        weight += r.weight;
        correct += r.correct_weight;
    }
    bool finite = isfinite(sum);
    *loss = finite ? sum / weight : NAN;
    *accuracy = finite ? correct / weight : NAN;
}

static void fill_point(struct training *t, int i, bool complete)
{
    struct record_curves *c = &t->record.curves;
    evaluate_set(t, TASK_TRAIN, complete, &c->loss_train[i], &c->accuracy_train[i]);
    evaluate_set(t, TASK_TEST, complete, &c->loss_test[i], &c->accuracy_test[i]);
}

/* The arrays double, so that many points cost no more than a few copies each. */
static void reserve_point(struct training *t)
{
    struct record_curves *c = &t->record.curves;
    if (c->points < t->room)
        return;
    size_t old = (size_t)c->points, room = 2 * old + 1;
    c->step = memory_grow(c->step, old, room, sizeof *c->step);
    double **array[] = {&c->loss_train, &c->loss_test, &c->accuracy_train, &c->accuracy_test};
    for (int i = 0; i < 4; i++)
        *array[i] = memory_grow(*array[i], old, room, sizeof **array[i]);
    t->room = (int)room;
}

void evaluate_point(struct training *t, bool complete)
{
    struct record_curves *c = &t->record.curves;
    reserve_point(t);
    c->step[c->points] = (int64_t)t->step;
    fill_point(t, c->points++, complete);
    t->evaluated = true;
}

void evaluate_complete(struct training *t) { fill_point(t, t->record.curves.points - 1, true); }

bool evaluate_was_complete(const struct training *t)
{
    return looked_at(t, TASK_TRAIN, false) == task_sequences(t->task, TASK_TRAIN) &&
           looked_at(t, TASK_TEST, false) == task_sequences(t->task, TASK_TEST);
}

bool evaluate_is_bounded(const struct training *t)
{
    const struct record_curves *c = &t->record.curves;
    int i = c->points - 1;
    double bound = t->spec->train.diverged_above;
    return c->loss_train[i] <= bound && c->loss_test[i] <= bound;      /* NaN is not */
}
