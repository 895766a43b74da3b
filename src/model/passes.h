/* passes.h: inside the model room: what a way of computing a model must offer.
 *
 * A model may be computed in several exact orders (planner.h). Each is a table of passes; weights and gradient are flat
 * arrays of the passes' precision, `work` holds their buffers. Whatever the order, the numbers agree to rounding; the bits
 * belong to the order, which the job fixes.
 */
#ifndef INVAR_MODEL_PASSES_H
#define INVAR_MODEL_PASSES_H

#include "model/model.h"
#include "task/task.h"

#include <stddef.h>
#include <stdint.h>

struct model_passes {
    size_t element_size;
    /* `sizes` is the kind's own description (struct decoder, ...) and outlives the work. NULL with the reason in
     * status_text() when there are no kernels (kern_get). */
    void *(*open)(const void *sizes);
    void (*free)(void *work);
    struct model_result (*train)(void *work, const void *weights, void *gradient, const struct batch *b, uint64_t seed,
                                 uint64_t step);
    struct model_result (*evaluate)(void *work, const void *weights, const struct batch *b,
                                    const struct intervention *v);
    void (*logits)(void *work, const void *weights, const struct batch *b, double *logits);
    /* NULL where these passes form no activations: model.c then asks the kind's complete passes, as it does for
     * evaluate with an intervention. */
    size_t (*activations)(void *work, const void *weights, const struct batch *b, int layer, double *h);
    size_t (*logit_gradient)(void *work, const void *weights, const struct batch *b, int layer, int c, double *g);
};

#endif
