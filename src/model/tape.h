/* tape.h: a straight-line program over numbers, found from formulas, with its gradient.
 *
 * Formulas are built node by node. Equal nodes are one node, constants are folded, sums gather equal terms with their
 * multiplicity, and what is multiplied by 0 vanishes; so the symmetry of a formula shortens the program without being looked
 * for. The gradient (reverse accumulation) is made of nodes too. What the outputs do not need is left out at the end.
 *
 * A tape is run for many points at once, one a lane (kern/tape.inc): all lanes do the same, whatever their numbers.
 */
#ifndef INVAR_MODEL_TAPE_H
#define INVAR_MODEL_TAPE_H

#include "kern/kern.h"

#include <stdbool.h>
#include <stddef.h>

/* Beyond so many nodes a program is no longer worth it. */
#define TAPE_NODES_MAX 4000000

struct tape_builder;
typedef int tape_node;

/* Input i is node i; nodes belong to their builder, which tape_end frees. */
struct tape_builder *tape_begin(int inputs);
void tape_drop(struct tape_builder *b);
/* Too many nodes: all further ones are the constant 0, and tape_end gives none. */
bool tape_is_full(const struct tape_builder *b);

tape_node tape_constant(struct tape_builder *b, double value);
/* constant + sum of coefficient[i] x[i] */
tape_node tape_linear(struct tape_builder *b, int n, const double *coefficient, const tape_node *x, double constant);
tape_node tape_product(struct tape_builder *b, tape_node x, tape_node y);
tape_node tape_exp(struct tape_builder *b, tape_node x);
tape_node tape_log(struct tape_builder *b, tape_node x);
tape_node tape_reciprocal(struct tape_builder *b, tape_node x);
/* The largest of n >= 1. To the gradient it is a constant: it only serves to shift exponents, which changes no value. */
tape_node tape_largest(struct tape_builder *b, int n, const tape_node *x);

/* d y / d input i, for all inputs.   out: gradient[inputs] */
void tape_gradient(struct tape_builder *b, tape_node y, tape_node *gradient);

struct tape {
    struct kern_tape program;        /* arrays below are the tape's own */
    struct kern_tape_op *op;
    struct kern_tape_term *term;
    int inputs, outputs;
    int *output;                     /* [outputs] slots */
};

/* The program that computes the outputs; frees the builder. NULL when it was full.   out: freed with tape_free */
struct tape *tape_end(struct tape_builder *b, int outputs, const tape_node *output);
void tape_free(struct tape *t);

#endif
