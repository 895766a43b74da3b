/* manifold.c: the manifold kind: checks of its keys, its one tensor, its plan. */
#include "base/memory.h"
#include "model/manifold_plan.h"
#include "model/model_private.h"

static enum status check_shape(const struct spec *s, struct task_shape shape)
{
    if (shape.positions == 0 && shape.length > s->model.max_length)
        return status_fail(STATUS_JOB, "the task has %d input positions, but model.max_length is %lld: set it to %d or "
                           "more", shape.length, (long long)s->model.max_length, shape.length);
    if (shape.classes != shape.vocabulary)
        return status_fail(STATUS_JOB, "model.kind manifold: what is read out are tokens, but the task has %d classes and %d "
                           "tokens", shape.classes, shape.vocabulary);
    return STATUS_OK;
}

static void make_tables(struct model *m, const struct spec *s, struct manifold_plan *d)
{
    const int f64 = s->model.precision == PRECISION_FLOAT64;
    m->sizes = d;
    m->sizes_free = manifold_plan_free;
    m->layers = d->layers;
    m->width = d->m->coordinates;
    m->tensor = memory_new(1, sizeof *m->tensor);
    model_add_tensor(m, 1, GROUP_QUERY_KEY, 1, d->m->coordinates, "coordinates");
    d->length = m->length;
    struct planner_candidate *c = planner_candidate(&m->plan, "relations", "relations between the positions of a sequence; the "
                                                    "last block only where the loss looks");
    c->passes = f64 ? &manifold_f64 : &manifold_f32;
    manifold_plan_count(d, &c->count);
    planner_choose(&m->plan, s->train.plan == PLAN_DENSE);
    m->planned.passes = m->complete.passes = c->passes;
}

static enum status build(struct model *m, const struct spec *s, struct task_shape shape)
{
    struct manifold *manifold;
    struct manifold_metric *metric = NULL;
    enum status status = check_shape(s, shape);
    if (status == STATUS_OK)
        status = manifold_new(s, &manifold);
    if (status != STATUS_OK)
        return status;
    if (s->train.metric == METRIC_WEIGHTS)
        metric = manifold_metric_new(s, manifold);
    make_tables(m, s, manifold_plan_new(s, shape, manifold, metric));
    return STATUS_OK;
}

const struct model_ops manifold_ops = {build};
