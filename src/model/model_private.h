/* model_private.h: the inside of struct model, shared by model.c, init.c, optimizer.c and the kinds of model. */
#ifndef INVAR_MODEL_PRIVATE_H
#define INVAR_MODEL_PRIVATE_H

#include "model/passes.h"
#include "model/planner.h"

#define MODEL_NONE SIZE_MAX          /* offset of a tensor that this model has not */

/* One way of computing, with its buffers; opened when first needed. */
struct engine {
    const struct model_passes *passes;
    void *work;
};

struct model {
    int layers, width;               /* what model_layers and model_width say */
    int growth;                      /* by how much every block multiplies the width; 0 and 1: it stays */
    void *sizes;                     /* the kind's description */
    void (*sizes_free)(void *);      /* NULL: memory_free */
    int openblas;                    /* train.gemm */
    struct planner plan;
    struct engine planned;           /* trains and evaluates */
    struct engine complete;          /* does everything; for interventions and probes */
    size_t element_size, length;     /* of the flat arrays, in elements */
    int tensors;
    struct tensor *tensor;           /* room for as many as the kind needs */
    void *weights, *gradient;        /* [length] each */
};

/* Appends a tensor to the table and returns its offset; MODEL_NONE when it is not wanted. */
size_t model_add_tensor(struct model *m, int wanted, enum tensor_group group, int rows, int cols, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* What a kind of model supplies. `build` fills sizes, layers, width, the table of tensors, plan, planned.passes and
 * complete.passes of an empty model.   fails: STATUS_JOB when keys and shape do not fit together; the model is freed */
struct model_ops {
    enum status (*build)(struct model *m, const struct spec *s, struct task_shape shape);
};
extern const struct model_ops decoder_ops, attention_only_ops, manifold_ops;

#endif
