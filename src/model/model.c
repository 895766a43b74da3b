#include "model/model.h"

#include "base/memory.h"
#include "kern/kern.h"
#include "model/model_private.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TENSOR_ALIGN 16              /* elements: every tensor starts on a cache line in either precision */

/* ---- opening ---- */

size_t model_add_tensor(struct model *m, int wanted, enum tensor_group group, int rows, int cols, const char *format, ...)
{
    if (!wanted)
        return MODEL_NONE;
    struct tensor *t = &m->tensor[m->tensors++];
    *t = (struct tensor){.group = group, .rows = rows, .cols = cols, .offset = m->length};
    va_list args;
    va_start(args, format);
    vsnprintf(t->name, sizeof t->name, format, args);
    va_end(args);
    size_t elements = (size_t)rows * (size_t)cols;
    m->length += (elements + TENSOR_ALIGN - 1) / TENSOR_ALIGN * TENSOR_ALIGN;
    return t->offset;
}

static const struct model_ops *ops_of(const struct spec *s)
{
    switch ((enum model_kind)s->model.kind) {
    case MODEL_DECODER: return &decoder_ops;
    case MODEL_ATTENTION_ONLY: return &attention_only_ops;
    case MODEL_MANIFOLD: return &manifold_ops;
    }
    return NULL;
}

/* fails: as kern_get, and where OpenBLAS is wanted and missing */
static enum status engine_open(const struct model *m, struct engine *e)
{
    enum status s = kern_use_openblas(m->openblas);
    if (s != STATUS_OK)
        return s;
    e->work = e->passes->open(m->sizes);
    kern_use_openblas(0);
    return e->work ? STATUS_OK : STATUS_ENVIRONMENT;
}

static void engine_close(struct engine *e)
{
    if (e->work)
        e->passes->free(e->work);
    e->work = NULL;
}

/* The passes that do everything. The planned ones have been opened, so there are kernels and these open too. */
static const struct engine *complete(struct model *m)
{
    if (m->complete.passes == m->planned.passes)
        return &m->planned;
    if (!m->complete.work)
        engine_open(m, &m->complete);
    return &m->complete;
}

enum status model_open(const struct spec *s, struct task_shape shape, struct model **model)
{
    struct model *m = memory_new(1, sizeof *m);
    if (!ops_of(s)) {
        memory_free(m);
        return status_fail(STATUS_JOB, "a manifold model has no passes of its own in this version: its runs are trained side by side, by "
                           "one straight-line program");
    }
    enum status status = ops_of(s)->build(m, s, shape);
    if (status != STATUS_OK) {
        model_free(m);
        return status;
    }
    m->openblas = s->train.gemm == GEMM_OPENBLAS;
    status = engine_open(m, &m->planned);
    if (status != STATUS_OK) {
        model_free(m);
        return status;
    }
    m->element_size = m->planned.passes->element_size;
    m->weights = memory_new(m->length, m->element_size);
    m->gradient = memory_new(m->length, m->element_size);
    *model = m;
    return STATUS_OK;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    engine_close(&m->planned);
    engine_close(&m->complete);
    if (m->sizes_free)
        m->sizes_free(m->sizes);
    else
        memory_free(m->sizes);
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

size_t model_flat_length(const struct model *m) { return m->length; }
size_t model_element_size(const struct model *m) { return m->element_size; }
int model_width(const struct model *m) { return m->width; }

int model_layer_width(const struct model *m, int layer)
{
    int width = m->width;
    for (int l = 0; l < layer && m->growth > 1; l++)
        width *= m->growth;
    return width;
}

int model_layers(const struct model *m) { return m->layers; }

size_t model_parameters(const struct model *m)
{
    size_t n = 0;
    for (int i = 0; i < m->tensors; i++)
        n += (size_t)m->tensor[i].rows * (size_t)m->tensor[i].cols;
    return n;
}

const struct planner *model_plan(const struct model *m) { return &m->plan; }

/* ---- flat arrays ---- */

void *model_weights(struct model *m) { return m->weights; }
void *model_gradient(struct model *m) { return m->gradient; }

static void flat_get(const struct model *m, const void *from, double *flat)
{
    if (m->element_size == sizeof(double))
        memcpy(flat, from, m->length * sizeof(double));
    else
        for (size_t i = 0; i < m->length; i++)
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
            if (m->element_size == sizeof(double))
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
    return m->element_size == sizeof(double) ? f64->is_finite(m->length, m->weights)
                                                     : f32->is_finite(m->length, m->weights);
}

const char *model_isa(void) { return kern_isa_name(); }

/* ---- passes ---- */

struct model_result model_train_pass(struct model *m, const struct batch *b, uint64_t seed, uint64_t step)
{
    return m->planned.passes->train(m->planned.work, m->weights, m->gradient, b, seed, step);
}

struct model_result model_evaluate(struct model *m, const struct batch *b, const struct intervention *v)
{
    const struct engine *e = v ? complete(m) : &m->planned;
    if (v && !e->passes->activations)
        return (struct model_result){.loss = NAN};
    return e->passes->evaluate(e->work, m->weights, b, v);
}

void model_logits(struct model *m, const struct batch *b, double *logits)
{
    m->planned.passes->logits(m->planned.work, m->weights, b, logits);
}

size_t model_activations(struct model *m, const struct batch *b, int layer, double *h)
{
    const struct engine *e = complete(m);
    return e->passes->activations ? e->passes->activations(e->work, m->weights, b, layer, h) : 0;
}

size_t model_logit_gradient(struct model *m, const struct batch *b, int layer, int c, double *g)
{
    const struct engine *e = complete(m);
    return e->passes->logit_gradient ? e->passes->logit_gradient(e->work, m->weights, b, layer, c, g) : 0;
}
