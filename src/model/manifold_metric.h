/* manifold_metric.h: how gradient descent of whole weights moves the coordinates of the invariant manifold.
 *
 * Weights W = sum w_i B_i move by -lr sum g_i B_i, where the gradient's part along the manifold has the coordinates
 * g = G^-1 (d loss / d w), G_ij = <B_i, B_j> the Gram matrix of the directions. Only directions of one matrix with the same paths
 * overlap, by their selections.
 */
#ifndef INVAR_MODEL_MANIFOLD_METRIC_H
#define INVAR_MODEL_MANIFOLD_METRIC_H

#include "job/manifold.h"
#include "job/shape.h"

struct manifold_metric {
    int coordinates;
    int *first;              /* [coordinates + 1] of row i's entries */
    int *column;
    double *value;           /* of G^-1 */
};

/* <S_a, S_b> of two selections as matrices of tokens or positions. Independent of paths.   out: gram[selections][selections] */
void manifold_gram(const struct spec *s, const struct manifold *m, double *gram);
/* G^-1 of the coordinates of m. Where directions depend on each other, as all centred shifts of a short period do, it is the
 * pseudo-inverse: the weights move as they should, and of the coordinates that say so the least ones do. */
struct manifold_metric *manifold_metric_new(const struct spec *s, const struct manifold *m);
void manifold_metric_free(struct manifold_metric *g);

#endif
