/* weights.h: a model's weights as a record keeps them: packed, tensor by tensor, without the padding of the flat
 * arrays. */
#ifndef INVAR_RUN_WEIGHTS_H
#define INVAR_RUN_WEIGHTS_H

#include "base/status.h"
#include "model/model.h"
#include "store/record.h"

/* Fills the tensor table, element_size and weights of `r`, which holds none yet. */
void weights_pack(struct model *m, struct record *r);
/* Sets the model's weights.   fails: STATUS_CORRUPT when names, shapes or places differ: the model is untouched */
enum status weights_unpack(const struct record *r, struct model *m);

#endif
