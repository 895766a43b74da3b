/* manifold_relation.h: the selection matrices of the invariant manifold (job/manifold.h) between tokens and between positions,
 * with the means taken off where the embedding is centred. */
#ifndef INVAR_MODEL_MANIFOLD_RELATION_H
#define INVAR_MODEL_MANIFOLD_RELATION_H

#include "job/manifold.h"
#include "job/shape.h"

/* e_a' S e_b of tokens a, b; 0 for a shift. */
double manifold_tokens(const struct task_shape *shape, int centred, enum selection kind, int a, int b);
/* p_a' M^s p_b of positions a, b. */
double manifold_positions(const struct task_shape *shape, int centred, int shift, int a, int b);

#endif
