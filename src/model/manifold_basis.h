/* manifold_basis.h: the directions of the invariant manifold (job/manifold.h) as matrices of an attention_only model's weights.
 *
 * The matrix B of a direction is zero but for one block of its tensor: the d_0 x d_0 numbers at the query path's and the key
 * path's segments of the stream (model/attention_only.h), or the d_0 x classes ones of the unembedding at the path's segment.
 * That block is the selection S of tokens, or of positions, C S C where embeddings are centred: C takes the mean away within
 * the common tokens, the rare ones, and each period of positions. S keeps within these groups, so C S = S C = C S C. What acts
 * of a key-query matrix W is C W C, and C W of the unembedding.
 *
 * Directions overlap only within one block: the Gram matrix is block diagonal, and closed form. It may be singular: where the
 * shifts are as many as the positions of a period, the centred ones add up to zero (slots of the least period), and two common
 * tokens leave I and C one direction. The projection then has the least sum of squares of the coordinates.
 */
#ifndef INVAR_MODEL_MANIFOLD_BASIS_H
#define INVAR_MODEL_MANIFOLD_BASIS_H

#include "job/manifold.h"
#include "job/shape.h"
#include "model/model.h"

struct manifold_basis;

/* Directions of `m`, which must outlive the basis, in a model with this table of tensors (model_tensors) of the spec and shape.
 * out: *b, freed with manifold_basis_free   fails: STATUS_JOB (a direction's tensor is not in the table, or of another size) */
enum status manifold_basis_open(const struct spec *s, struct task_shape shape, const struct manifold *m,
                                const struct tensor *table, int tensors, struct manifold_basis **b);
void manifold_basis_free(struct manifold_basis *b);

/* flat += sum_i coordinate[i] B_i.   in: coordinate [m->coordinates]   in, out: flat [model_flat_length] */
void manifold_basis_add(const struct manifold_basis *b, const double *coordinate, double *flat);

/* <W, B_i> for all i: of a gradient, the loss's derivatives by the coordinates. One pass over the blocks that have
 * directions.
 * in: flat   out: product [m->coordinates] */
void manifold_basis_products(const struct manifold_basis *b, const double *flat, double *product);

/* <B_i, B_j>. */
double manifold_basis_gram(const struct manifold_basis *b, int i, int j);
/* How many of the directions are independent. */
int manifold_basis_rank(const struct manifold_basis *b);
/* Coordinates of the projection, Gram^+ product.   in: product [m->coordinates]   out: coordinate, may be the same array */
void manifold_basis_solve(const struct manifold_basis *b, const double *product, double *coordinate);

/* Projection of what acts of the weights, or of a gradient, on the span of the directions: its coordinates, and of each layer
 * the squared norm of what acts and of the part of it off the span. Their ratio is the leakage.
 * in: flat   out: coordinate [m->coordinates]; norm, off [m->layers + 1], by layer, all heads together, the unembedding's last */
void manifold_basis_split(const struct manifold_basis *b, const double *flat, double *coordinate, double *norm, double *off);
/* The same, with leakage [m->layers + 1] = off / norm, 0 where the norm is 0; any of the two may be NULL. */
void manifold_basis_project(const struct manifold_basis *b, const double *flat, double *coordinate, double *leakage);

#endif
