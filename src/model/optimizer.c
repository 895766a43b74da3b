#include "base/memory.h"
#include "kern/kern.h"
#include "model/model_private.h"

#include <string.h>

struct optimizer {
    enum optimizer_kind kind;
    double lr, beta1, beta2, eps, momentum, weight_decay;
    size_t element_size, length;     /* of one array */
    void *state;                     /* AdamW: first moments, then second; SGD: velocity */
    size_t bytes;
    const struct kern_f32 *f32;
    const struct kern_f64 *f64;
};

struct optimizer *optimizer_new(const struct model *m, const struct spec *s)
{
    struct optimizer *o = memory_new(1, sizeof *o);
    o->kind = (enum optimizer_kind)s->train.optimizer;
    o->lr = s->train.lr;
    o->beta1 = s->train.beta1;
    o->beta2 = s->train.beta2;
    o->eps = s->train.eps;
    o->momentum = s->train.momentum;
    o->weight_decay = s->train.weight_decay;
    o->element_size = m->element_size;
    o->length = m->length;
    size_t arrays = o->kind == OPTIMIZER_ADAMW ? 2 : 1;
    o->bytes = arrays * o->length * o->element_size;
    o->state = memory_new(arrays * o->length, o->element_size);
    kern_get(&o->f32, &o->f64);      /* model_open has seen that there are kernels */
    return o;
}

void optimizer_free(struct optimizer *o)
{
    if (!o)
        return;
    memory_free(o->state);
    memory_free(o);
}

void *optimizer_state(struct optimizer *o, size_t *bytes)
{
    *bytes = o->bytes;
    return o->state;
}

/* x^n by squaring: no pow(), whose last bit belongs to the C library. */
static double power(double x, uint64_t n)
{
    double p = 1.0;
    for (; n; n >>= 1, x *= x)
        if (n & 1)
            p *= x;
    return p;
}

static void step_adamw(struct optimizer *o, struct model *m, size_t at, size_t n, const struct kern_adamw *c)
{
    if (o->element_size == sizeof(double)) {
        double *moment = o->state;
        o->f64->adamw(n, (double *)m->weights + at, (double *)m->gradient + at, moment + at,
                      moment + o->length + at, c);
    } else {
        float *moment = o->state;
        o->f32->adamw(n, (float *)m->weights + at, (float *)m->gradient + at, moment + at, moment + o->length + at, c);
    }
}

static void step_sgd(struct optimizer *o, struct model *m, size_t at, size_t n, const struct kern_sgd *c)
{
    if (o->element_size == sizeof(double))
        o->f64->sgd(n, (double *)m->weights + at, (double *)m->gradient + at, (double *)o->state + at, c);
    else
        o->f32->sgd(n, (float *)m->weights + at, (float *)m->gradient + at, (float *)o->state + at, c);
}

void optimizer_step(struct optimizer *o, struct model *m, uint64_t t)
{
    const struct kern_adamw adamw = {.decay = 1.0 - o->lr * o->weight_decay, .beta1 = o->beta1, .beta2 = o->beta2,
                                     .step = o->lr / (1.0 - power(o->beta1, t)),
                                     .root = 1.0 / (1.0 - power(o->beta2, t)), .eps = o->eps};
    const struct kern_sgd sgd = {.lr = o->lr, .momentum = o->momentum, .weight_decay = o->weight_decay};
    for (int i = 0; i < m->tensors; i++) {                  /* tensor by tensor: the padding stays zero */
        const struct tensor *x = &m->tensor[i];
        size_t n = (size_t)x->rows * (size_t)x->cols;
        if (o->kind == OPTIMIZER_ADAMW)
            step_adamw(o, m, x->offset, n, &adamw);
        else
            step_sgd(o, m, x->offset, n, &sgd);
    }
}
