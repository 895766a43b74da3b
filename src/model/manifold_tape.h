/* manifold_tape.h: the loss of a model on the invariant manifold as straight-line programs.
 *
 * On the manifold only relations between positions matter (Musat et al., arXiv 2607.11875; job/manifold.h): with R_S the
 * n x n matrix of selection S in a sequence and P_p the product of the attention matrices along path p,
 *     scores of a head = sum over its coordinates of w P_query R_S P_key'
 *     logits           = sum over the unembedding's coordinates of w S (P_path tokens), at the last position
 * The loss over all patterns of a block list is a formula in the coordinates alone. manifold_tape writes it down once, rows and
 * entries only where they are needed, and leaves it to tape.h to find what is equal.
 */
#ifndef INVAR_MODEL_MANIFOLD_TAPE_H
#define INVAR_MODEL_MANIFOLD_TAPE_H

#include "base/status.h"
#include "job/manifold.h"
#include "model/tape.h"
#include "task/task.h"

/* Inputs of both programs: the coordinates, then the shares of the CLASSES of tokens (shape_class_share). */
struct manifold_tape {
    int coordinates, sequences;
    struct tape *train;      /* loss, then its gradient by the coordinates */
    struct tape *judge;      /* loss, then of each sequence the logit of its answer, the largest logit of the classes
                              * before it and of those after it (-1e300: none) */
    double *weight;          /* [sequences] within its class: their sum is 1 in each class */
    enum token_class *class; /* [sequences] */
};

/* in: a block list of patterns (task.expectation); model.coordinates, embedding, self_attention, train.loss of the spec.
 * What does not depend on init.*, task.rare, task.variability, the other keys of train and the seed is the same for all runs.
 * out: *tape, freed with manifold_tape_free
 * fails: STATUS_JOB when the programs become too long (text: what to do) */
enum status manifold_tape_new(const struct spec *s, struct manifold_tape **tape);
void manifold_tape_free(struct manifold_tape *t);

#endif
