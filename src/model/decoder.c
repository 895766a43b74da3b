/* decoder.c: the decoder kind: checks of its keys, its tensors, and the choice among its orders of computation. */
#include "model/decoder.h"

#include "base/memory.h"
#include "kern/kern.h"
#include "model/model_private.h"
#include "model/reach.h"
#include "model/single.h"

#include <string.h>

#define TENSORS_PER_BLOCK 16
#define TENSORS_MAX (DECODER_LAYERS_MAX * TENSORS_PER_BLOCK + 6)

/* ---- checks ---- */

static enum status check_mlp(const struct spec *s)
{
    int count = s->model.d_mlp.count;
    if (count == 1 || count == s->model.layers)
        return STATUS_OK;
    return status_fail(STATUS_JOB, "model.d_mlp has %d values for %lld layers: give one for all blocks, or one per "
                       "block (0 = no MLP in that block)", count, (long long)s->model.layers);
}

static enum status check_shape(const struct spec *s, struct task_shape shape)
{
    long long d = s->model.d_model, heads = s->model.heads;
    if (s->model.layers > DECODER_LAYERS_MAX)
        return status_fail(STATUS_JOB, "model.layers is %lld: at most %d", (long long)s->model.layers,
                           DECODER_LAYERS_MAX);
    if (s->model.d_head == 0 && d % heads)
        return status_fail(STATUS_JOB, "model.heads = %lld does not divide model.d_model = %lld: choose another "
                           "number, or set model.d_head", heads, d);
    if (shape.length > s->model.max_length)
        return status_fail(STATUS_JOB, "the task has %d input positions, but model.max_length is %lld: set it to %d or "
                           "more",
                           shape.length, (long long)s->model.max_length, shape.length);
    if (s->model.tied && shape.classes != shape.vocabulary)
        return status_fail(STATUS_JOB, "model.tied needs as many classes as tokens, the task has %d classes and %d "
                           "tokens: set model.tied: false", shape.classes, shape.vocabulary);
    size_t chunks = (size_t)heads * kern_attention_chunks((size_t)shape.length);
    if (chunks / KERN_GROUP_CHUNKS > KERN_GROUPS_MAX)
        return status_fail(STATUS_JOB, "%lld heads over %d positions are more than a dropout mask can address: use "
                           "fewer of either", heads, shape.length);
    return check_mlp(s);
}

/* ---- the table of tensors ---- */

static void add_block(struct model *m, const struct spec *s, int layer)
{
    struct decoder *d = m->sizes;
    struct decoder_block *b = &d->block[layer];
    const int bias = s->model.bias, norm = d->norm != NORM_NONE, mlp = b->d_mlp > 0, n = layer + 1;
    const int width = d->d_model, heads = d->heads * d->d_head;
    b->query = model_add_tensor(m, 1, GROUP_QUERY_KEY, width, heads, "block%d.attention.query.weight", n);
    b->query_bias = model_add_tensor(m, bias, GROUP_QUERY_KEY, 1, heads, "block%d.attention.query.bias", n);
    b->key = model_add_tensor(m, 1, GROUP_QUERY_KEY, width, heads, "block%d.attention.key.weight", n);
    b->key_bias = model_add_tensor(m, bias, GROUP_QUERY_KEY, 1, heads, "block%d.attention.key.bias", n);
    b->value = model_add_tensor(m, 1, GROUP_VALUE_OUTPUT, width, heads, "block%d.attention.value.weight", n);
    b->value_bias = model_add_tensor(m, bias, GROUP_VALUE_OUTPUT, 1, heads, "block%d.attention.value.bias", n);
    b->output = model_add_tensor(m, 1, GROUP_VALUE_OUTPUT, heads, width, "block%d.attention.output.weight", n);
    b->output_bias = model_add_tensor(m, bias, GROUP_VALUE_OUTPUT, 1, width, "block%d.attention.output.bias", n);
    b->norm1_gain = model_add_tensor(m, norm, GROUP_NORM, 1, width, "block%d.norm1.gain", n);
    b->norm1_shift = model_add_tensor(m, norm, GROUP_NORM, 1, width, "block%d.norm1.shift", n);
    b->up = model_add_tensor(m, mlp, GROUP_MLP, width, b->d_mlp, "block%d.mlp.up.weight", n);
    b->up_bias = model_add_tensor(m, mlp && bias, GROUP_MLP, 1, b->d_mlp, "block%d.mlp.up.bias", n);
    b->down = model_add_tensor(m, mlp, GROUP_MLP, b->d_mlp, width, "block%d.mlp.down.weight", n);
    b->down_bias = model_add_tensor(m, mlp && bias, GROUP_MLP, 1, width, "block%d.mlp.down.bias", n);
    b->norm2_gain = model_add_tensor(m, mlp && norm, GROUP_NORM, 1, width, "block%d.norm2.gain", n);
    b->norm2_shift = model_add_tensor(m, mlp && norm, GROUP_NORM, 1, width, "block%d.norm2.shift", n);
}

static void add_all(struct model *m, const struct spec *s)
{
    struct decoder *d = m->sizes;
    const int pre = d->norm == NORM_PRE;
    m->tensor = memory_new(TENSORS_MAX, sizeof *m->tensor);
    d->token = model_add_tensor(m, 1, GROUP_TOKEN, d->vocabulary, d->d_model, "token.weight");
    d->position = model_add_tensor(m, 1, GROUP_POSITION, d->max_length, d->d_model, "position.weight");
    for (int l = 0; l < d->layers; l++)
        add_block(m, s, l);
    d->norm_gain = model_add_tensor(m, pre, GROUP_NORM, 1, d->d_model, "norm.gain");
    d->norm_shift = model_add_tensor(m, pre, GROUP_NORM, 1, d->d_model, "norm.shift");
    d->unembedding = model_add_tensor(m, !d->tied, GROUP_UNEMBEDDING, d->d_model, d->classes, "unembedding.weight");
    d->unembedding_bias = model_add_tensor(m, s->model.bias, GROUP_UNEMBEDDING, 1, d->classes, "unembedding.bias");
}

/* ---- sizes ---- */

static struct decoder *sizes_new(const struct spec *s, struct task_shape shape)
{
    struct decoder *d = memory_new(1, sizeof *d);
    d->layers = (int)s->model.layers;
    d->d_model = (int)s->model.d_model;
    d->heads = (int)s->model.heads;
    d->d_head = (int)(s->model.d_head ? s->model.d_head : s->model.d_model / s->model.heads);
    d->vocabulary = shape.vocabulary;
    d->classes = shape.classes;
    d->max_length = (int)s->model.max_length;
    d->norm = (enum norm)s->model.norm;
    d->activation = (enum activation)s->model.activation;
    d->loss = (enum loss)s->train.loss;
    d->tied = s->model.tied;
    d->dropout = s->model.dropout;
    d->tile_bytes = (size_t)s->train.cache_kib << 10;
    for (int l = 0; l < d->layers; l++)
        d->block[l].d_mlp = (int)s->model.d_mlp.value[s->model.d_mlp.count == 1 ? 0 : l];
    return d;
}

static enum status build(struct model *m, const struct spec *s, struct task_shape shape)
{
    enum status status = check_shape(s, shape);
    if (status != STATUS_OK)
        return status;
    struct decoder *d = m->sizes = sizes_new(s, shape);
    m->layers = d->layers;
    m->width = d->d_model;
    add_all(m, s);
    d->length = m->length;
    int f64 = s->model.precision == PRECISION_FLOAT64;
    decoder_plan(d, shape, f64, s->train.plan == PLAN_DENSE, &m->plan);
    const struct planner_candidate *chosen = &m->plan.candidate[m->plan.chosen];
    m->planned.passes = chosen->passes;
    m->complete.passes = f64 ? &decoder_f64 : &decoder_f32;
    d->flags = chosen->flags;
    d->rows = chosen->passes == m->complete.passes ? chosen->flags : DECODER_LOOKED | DECODER_TABLE;
    return STATUS_OK;
}

const struct model_ops decoder_ops = {build};
