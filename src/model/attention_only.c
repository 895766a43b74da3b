/* attention_only.c: the attention_only kind: checks of its keys, its tensors, its sizes. */
#include "model/attention_only.h"

#include "base/memory.h"
#include "job/kinds.h"
#include "job/plan.h"
#include "model/model_private.h"

static enum status check_shape(const struct spec *s, struct task_shape shape)
{
    const double width = kinds_width(s, shape.vocabulary, s->model.layers);
    if (!shape.positions && shape.length > s->model.max_length)
        return status_fail(STATUS_JOB, "the task has %d input positions, but model.max_length is %lld: set it to %d or "
                           "more", shape.length, (long long)s->model.max_length, shape.length);
    if (s->model.layers > ATTENTION_ONLY_LAYERS_MAX || width > PLAN_WIDTH_MAX)
        return status_fail(STATUS_JOB, "model.layers %lld and model.heads %lld make a residual stream of %.4g: at most %d, "
                           "in at most %d layers", (long long)s->model.layers, (long long)s->model.heads, width,
                           PLAN_WIDTH_MAX, ATTENTION_ONLY_LAYERS_MAX);
    return STATUS_OK;
}

static struct attention_only *sizes_new(const struct spec *s, struct task_shape shape)
{
    struct attention_only *d = memory_new(1, sizeof *d);
    d->layers = (int)s->model.layers;
    d->heads = (int)s->model.heads;
    d->vocabulary = shape.vocabulary;
    d->classes = shape.classes;
    d->positions = shape.positions ? shape.positions : (int)s->model.max_length;
    d->period = shape.period ? shape.period : d->positions;
    d->common = shape.common;
    d->looked = shape.looked ? shape.looked : shape.length;
    d->centred = s->model.embedding == EMBEDDING_CENTRED;
    d->blind = !s->model.self_attention;
    d->loss = (enum loss)s->train.loss;
    d->tile_bytes = (size_t)s->train.cache_kib << 10;
    d->paths[0] = 1;
    d->width[0] = (size_t)d->vocabulary + (size_t)d->positions;
    for (int l = 0; l < d->layers; l++) {
        d->paths[l + 1] = d->paths[l] * (1 + (size_t)d->heads);
        d->width[l + 1] = d->width[0] * d->paths[l + 1];
    }
    return d;
}

static void add_all(struct model *m)
{
    struct attention_only *d = m->sizes;
    m->tensor = memory_new((size_t)(d->layers * d->heads + 1), sizeof *m->tensor);
    for (int l = 0; l < d->layers; l++)
        for (int h = 0; h < d->heads; h++)
            d->query_key[l][h] = model_add_tensor(m, 1, GROUP_QUERY_KEY, (int)d->width[l], (int)d->width[l],
                                                  "block%d.head%d.query_key.weight", l + 1, h + 1);
    d->unembedding = model_add_tensor(m, 1, GROUP_UNEMBEDDING, (int)d->width[d->layers], d->classes, "unembedding.weight");
    d->length = m->length;
}

static enum status build(struct model *m, const struct spec *s, struct task_shape shape)
{
    enum status status = check_shape(s, shape);
    if (status != STATUS_OK)
        return status;
    struct attention_only *d = m->sizes = sizes_new(s, shape);
    m->layers = d->layers;
    m->width = (int)d->width[0];
    m->growth = 1 + d->heads;
    add_all(m);
    int f64 = s->model.precision == PRECISION_FLOAT64;
    attention_only_plan(d, shape, f64, s->train.plan == PLAN_DENSE, &m->plan);
    const struct planner_candidate *chosen = &m->plan.candidate[m->plan.chosen];
    d->whole = chosen->flags == ATTENTION_ONLY_WHOLE;
    m->planned.passes = chosen->passes;
    m->complete.passes = f64 ? &attention_only_f64 : &attention_only_f32;
    return STATUS_OK;
}

size_t attention_only_group(const struct attention_only *d, size_t c, size_t *count)
{
    const size_t tokens = (size_t)d->vocabulary, common = (size_t)d->common, period = (size_t)d->period;
    if (c < common) {
        *count = common;
        return 0;
    }
    if (c < tokens) {
        *count = tokens - common;
        return common;
    }
    const size_t at = (c - tokens) / period * period, rest = (size_t)d->positions - at;
    *count = rest < period ? rest : period;
    return tokens + at;
}

const struct model_ops attention_only_ops = {build};
