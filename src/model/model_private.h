/* model_private.h: the inside of struct model, shared by model.c and optimizer.c. */
#ifndef INVAR_MODEL_PRIVATE_H
#define INVAR_MODEL_PRIVATE_H

#include "model/decoder.h"

struct model {
    struct decoder decoder;
    const struct decoder_passes *passes;
    void *work;
    int tensors;
    struct tensor *tensor;
    void *weights, *gradient;        /* decoder.length elements each */
};

#endif
