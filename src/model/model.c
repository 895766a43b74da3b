#include "model/model.h"

#include "base/memory.h"
#include "base/stream.h"
#include "kern/kern.h"
#include "model/model_private.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TENSORS_PER_BLOCK 16
#define TENSORS_MAX (DECODER_LAYERS_MAX * TENSORS_PER_BLOCK + 6)
#define TENSOR_ALIGN 16              /* elements: every tensor starts on a cache line in either precision */

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

/* Appends one tensor and returns its offset; DECODER_NONE when it is not wanted. */
static size_t add(struct model *m, int wanted, enum tensor_group group, int rows, int cols, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
static size_t add(struct model *m, int wanted, enum tensor_group group, int rows, int cols, const char *format, ...)
{
    if (!wanted)
        return DECODER_NONE;
    struct tensor *t = &m->tensor[m->tensors++];
    *t = (struct tensor){.group = group, .rows = rows, .cols = cols, .offset = m->decoder.length};
    va_list args;
    va_start(args, format);
    vsnprintf(t->name, sizeof t->name, format, args);
    va_end(args);
    size_t elements = (size_t)rows * (size_t)cols;
    m->decoder.length += (elements + TENSOR_ALIGN - 1) / TENSOR_ALIGN * TENSOR_ALIGN;
    return t->offset;
}

static void add_block(struct model *m, const struct spec *s, int layer)
{
    struct decoder *d = &m->decoder;
    struct decoder_block *b = &d->block[layer];
    const int bias = s->model.bias, norm = d->norm != NORM_NONE, mlp = b->d_mlp > 0, n = layer + 1;
    const int width = d->d_model, heads = d->heads * d->d_head;
    b->query = add(m, 1, GROUP_QUERY_KEY, width, heads, "block%d.attention.query.weight", n);
    b->query_bias = add(m, bias, GROUP_QUERY_KEY, 1, heads, "block%d.attention.query.bias", n);
    b->key = add(m, 1, GROUP_QUERY_KEY, width, heads, "block%d.attention.key.weight", n);
    b->key_bias = add(m, bias, GROUP_QUERY_KEY, 1, heads, "block%d.attention.key.bias", n);
    b->value = add(m, 1, GROUP_VALUE_OUTPUT, width, heads, "block%d.attention.value.weight", n);
    b->value_bias = add(m, bias, GROUP_VALUE_OUTPUT, 1, heads, "block%d.attention.value.bias", n);
    b->output = add(m, 1, GROUP_VALUE_OUTPUT, heads, width, "block%d.attention.output.weight", n);
    b->output_bias = add(m, bias, GROUP_VALUE_OUTPUT, 1, width, "block%d.attention.output.bias", n);
    b->norm1_gain = add(m, norm, GROUP_NORM, 1, width, "block%d.norm1.gain", n);
    b->norm1_shift = add(m, norm, GROUP_NORM, 1, width, "block%d.norm1.shift", n);
    b->up = add(m, mlp, GROUP_MLP, width, b->d_mlp, "block%d.mlp.up.weight", n);
    b->up_bias = add(m, mlp && bias, GROUP_MLP, 1, b->d_mlp, "block%d.mlp.up.bias", n);
    b->down = add(m, mlp, GROUP_MLP, b->d_mlp, width, "block%d.mlp.down.weight", n);
    b->down_bias = add(m, mlp && bias, GROUP_MLP, 1, width, "block%d.mlp.down.bias", n);
    b->norm2_gain = add(m, mlp && norm, GROUP_NORM, 1, width, "block%d.norm2.gain", n);
    b->norm2_shift = add(m, mlp && norm, GROUP_NORM, 1, width, "block%d.norm2.shift", n);
}

static void add_all(struct model *m, const struct spec *s)
{
    struct decoder *d = &m->decoder;
    const int pre = d->norm == NORM_PRE;
    m->tensor = memory_new(TENSORS_MAX, sizeof *m->tensor);
    d->token = add(m, 1, GROUP_TOKEN, d->vocabulary, d->d_model, "token.weight");
    d->position = add(m, 1, GROUP_POSITION, d->max_length, d->d_model, "position.weight");
    for (int l = 0; l < d->layers; l++)
        add_block(m, s, l);
    d->norm_gain = add(m, pre, GROUP_NORM, 1, d->d_model, "norm.gain");
    d->norm_shift = add(m, pre, GROUP_NORM, 1, d->d_model, "norm.shift");
    d->unembedding = add(m, !d->tied, GROUP_UNEMBEDDING, d->d_model, d->classes, "unembedding.weight");
    d->unembedding_bias = add(m, s->model.bias, GROUP_UNEMBEDDING, 1, d->classes, "unembedding.bias");
}

enum status model_open(const struct spec *s, struct task_shape shape, struct model **model)
{
    enum status status = check_shape(s, shape);
    if (status != STATUS_OK)
        return status;
    struct model *m = memory_new(1, sizeof *m);
    struct decoder *d = &m->decoder;
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
    for (int l = 0; l < d->layers; l++)
        d->block[l].d_mlp = (int)s->model.d_mlp.value[s->model.d_mlp.count == 1 ? 0 : l];
    add_all(m, s);
    m->passes = s->model.precision == PRECISION_FLOAT64 ? &decoder_f64 : &decoder_f32;
    m->work = m->passes->open(d);
    if (!m->work) {
        model_free(m);
        return STATUS_ENVIRONMENT;
    }
    m->weights = memory_new(d->length, m->passes->element_size);
    m->gradient = memory_new(d->length, m->passes->element_size);
    *model = m;
    return STATUS_OK;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    m->passes->free(m->work);
    memory_free(m->tensor);
    memory_free(m->weights);
    memory_free(m->gradient);
    memory_free(m);
}

int model_tensors(const struct model *m, const struct tensor **table)
{
    *table = m->tensor;
    return m->tensors;
}

size_t model_flat_length(const struct model *m) { return m->decoder.length; }
size_t model_element_size(const struct model *m) { return m->passes->element_size; }
int model_width(const struct model *m) { return m->decoder.d_model; }
int model_layers(const struct model *m) { return m->decoder.layers; }

size_t model_parameters(const struct model *m)
{
    size_t n = 0;
    for (int i = 0; i < m->tensors; i++)
        n += (size_t)m->tensor[i].rows * (size_t)m->tensor[i].cols;
    return n;
}

/* ---- initial weights ---- */

/* Product of the factors that apply to a tensor group. */
static double init_factor(const struct spec *s, enum tensor_group group)
{
    switch (group) {
    case GROUP_TOKEN: return s->init_scale.all * s->init_scale.token;
    case GROUP_POSITION: return s->init_scale.all * s->init_scale.position;
    case GROUP_QUERY_KEY: return s->init_scale.all * s->init_scale.attention * s->init_scale.query_key;
    case GROUP_VALUE_OUTPUT: return s->init_scale.all * s->init_scale.attention * s->init_scale.value_output;
    case GROUP_MLP: return s->init_scale.all * s->init_scale.mlp;
    case GROUP_UNEMBEDDING: return s->init_scale.all * s->init_scale.unembedding;
    case GROUP_NORM:
    case GROUP_COUNT: break;
    }
    return 1.0;
}

static int name_ends(const struct tensor *t, const char *end)
{
    size_t n = strlen(t->name), k = strlen(end);
    return n >= k && !strcmp(t->name + n - k, end);
}

/* Where a tensor's values come from: a constant, or a uniform or normal distribution of this scale. */
struct draw {
    enum { DRAW_CONSTANT, DRAW_UNIFORM, DRAW_NORMAL } kind;
    double scale;
};

/* `fan_in` of a bias is that of the matrix before it in the table. */
static struct draw draw_pytorch(const struct tensor *t, int d_model, int fan_in)
{
    int bias = name_ends(t, ".bias");
    switch (t->group) {
    case GROUP_TOKEN:
    case GROUP_POSITION: return (struct draw){DRAW_NORMAL, 1.0};
    case GROUP_QUERY_KEY:
    case GROUP_VALUE_OUTPUT:
        if (bias)
            return (struct draw){DRAW_CONSTANT, 0.0};
        return (struct draw){DRAW_UNIFORM, name_ends(t, "output.weight") ? 1.0 / sqrt(d_model)
                                                                         : sqrt(6.0 / (4.0 * d_model))};
    default: return (struct draw){DRAW_UNIFORM, 1.0 / sqrt(fan_in)};
    }
}

static struct draw draw_of(const struct spec *s, const struct tensor *t, int d_model, int fan_in)
{
    if (t->group == GROUP_NORM)
        return (struct draw){DRAW_CONSTANT, name_ends(t, ".gain") ? 1.0 : 0.0};
    if (s->init.scheme == INIT_PYTORCH)
        return draw_pytorch(t, d_model, fan_in);
    if (name_ends(t, ".bias"))
        return (struct draw){DRAW_CONSTANT, 0.0};
    return (struct draw){DRAW_NORMAL, s->init.scheme == INIT_NORMAL ? s->init.std : s->init.std / sqrt(d_model)};
}

static double draw_next(struct draw d, struct stream *stream)
{
    switch (d.kind) {
    case DRAW_UNIFORM: return d.scale * (2.0 * stream_uniform(stream) - 1.0);
    case DRAW_NORMAL: return d.scale * stream_normal(stream);
    case DRAW_CONSTANT: break;
    }
    return d.scale;
}

void model_initialise(struct model *m, const struct spec *s, uint64_t seed)
{
    double *flat = memory_new(m->decoder.length, sizeof *flat);
    int fan_in = m->decoder.d_model;
    for (int i = 0; i < m->tensors; i++) {
        const struct tensor *t = &m->tensor[i];
        if (!name_ends(t, ".bias"))
            fan_in = t->rows;
        if (t->group == GROUP_UNEMBEDDING)
            fan_in = m->decoder.d_model;                    /* also where it is tied and only its bias stands here */
        struct draw d = draw_of(s, t, m->decoder.d_model, fan_in);
        struct stream stream = stream_open(seed, PURPOSE_INIT, (uint32_t)i);
        double factor = init_factor(s, t->group);
        for (size_t k = 0; k < (size_t)t->rows * (size_t)t->cols; k++)
            flat[t->offset + k] = factor * draw_next(d, &stream);
    }
    model_weights_set(m, flat);
    memory_free(flat);
}

/* ---- flat arrays ---- */

void *model_weights(struct model *m) { return m->weights; }
void *model_gradient(struct model *m) { return m->gradient; }

static void flat_get(const struct model *m, const void *from, double *flat)
{
    if (m->passes->element_size == sizeof(double))
        memcpy(flat, from, m->decoder.length * sizeof(double));
    else
        for (size_t i = 0; i < m->decoder.length; i++)
            flat[i] = (double)((const float *)from)[i];
}

void model_weights_get(const struct model *m, double *flat) { flat_get(m, m->weights, flat); }
void model_gradient_get(const struct model *m, double *flat) { flat_get(m, m->gradient, flat); }

void model_weights_set(struct model *m, const double *flat)
{
    for (int i = 0; i < m->tensors; i++) {
        const struct tensor *t = &m->tensor[i];
        size_t end = t->offset + (size_t)t->rows * (size_t)t->cols;
        for (size_t k = t->offset; k < end; k++)            /* not the padding, which stays zero */
            if (m->passes->element_size == sizeof(double))
                ((double *)m->weights)[k] = flat[k];
            else
                ((float *)m->weights)[k] = (float)flat[k];
    }
}

int model_is_finite(const struct model *m)
{
    const struct kern_f32 *f32;
    const struct kern_f64 *f64;
    if (kern_get(&f32, &f64) != STATUS_OK)
        return 0;
    return m->passes->element_size == sizeof(double) ? f64->is_finite(m->decoder.length, m->weights)
                                                     : f32->is_finite(m->decoder.length, m->weights);
}

const char *model_isa(void) { return kern_isa_name(); }

/* ---- passes ---- */

struct model_result model_train_pass(struct model *m, const struct batch *b, uint64_t seed, uint64_t step)
{
    return m->passes->train(m->work, m->weights, m->gradient, b, seed, step);
}

struct model_result model_evaluate(struct model *m, const struct batch *b, const struct intervention *v)
{
    return m->passes->evaluate(m->work, m->weights, b, v);
}

void model_logits(struct model *m, const struct batch *b, double *logits)
{
    m->passes->logits(m->work, m->weights, b, logits);
}

size_t model_activations(struct model *m, const struct batch *b, int layer, double *h)
{
    return m->passes->activations(m->work, m->weights, b, layer, h);
}

size_t model_logit_gradient(struct model *m, const struct batch *b, int layer, int c, double *g)
{
    return m->passes->logit_gradient(m->work, m->weights, b, layer, c, g);
}
