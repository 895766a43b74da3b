/* circuit_pass.h: inside the probe room: the loss of a model on the invariant manifold, again and again with single
 * coordinates at zero.
 *
 * With R_S the relations between the positions of a sequence and P_p the product of the attention matrices along path p
 * (job/manifold.h, model/attention_only.h), the scores of a head are sum w P_query R_S P_key'. What does not depend on
 * the coordinate at zero is kept from the pass with all of them: one of block l changes the scores of its own head by w
 * P_query R_S P_key', and then all from block l on. The last block is needed in the row of the last position alone.
 * Paths that no coordinate uses are not formed.
 */
#ifndef INVAR_PROBE_CIRCUIT_PASS_H
#define INVAR_PROBE_CIRCUIT_PASS_H

#include "job/manifold.h"
#include "kern/kern.h"
#include "probe/circuit_sequence.h"

#include <stdbool.h>

/* Coordinates of one head, as a matrix [rows][columns] of those that are not zero: rows (query, selection), columns keys. */
struct circuit_head {
    int rows, columns;
    int *query, *selection, *key;    /* [rows], [rows], [columns] */
    int *row_of, *column_of;         /* of (query * selections + selection), of a key; -1: none */
    double *weight;                  /* [rows][columns] */
};

struct circuit_model {
    const struct manifold *m;        /* not owned */
    const struct kern_f64 *kern;
    const double *value;             /* [coordinates] not owned */
    int loss;                        /* enum loss */
    int layers, heads, base;         /* base = 1 + heads */
    int paths;                       /* base^(layers - 1): of all blocks but the last */
    int selections, n, self;         /* self: a position attends to itself, too */
    struct circuit_head *head;       /* [layers][heads] */
    double *readout;                 /* [of_tokens][paths * base] */
    bool *needed;                    /* [paths * base] paths that something reads, and what they are made of */
};

/* in: n positions of a sequence; `self` 1: a position attends to itself
 * out: *c, freed with circuit_model_close   fails: STATUS_ENVIRONMENT (no kernels for this processor) */
enum status circuit_model_open(struct circuit_model *c, const struct manifold *m, int loss, int self, int n);
void circuit_model_close(struct circuit_model *c);
/* Takes the coordinates; zeros are not computed with. `value` stays the caller's and must not change until the next call. */
void circuit_model_set(struct circuit_model *c, const double *value);

struct circuit_pass;
struct circuit_pass *circuit_pass_new(const struct circuit_model *c);
void circuit_pass_free(struct circuit_pass *p);

/* Loss of a sequence with all coordinates; *correct (or NULL): whether the answer has the largest logit, of equals the
 * lowest class. */
double circuit_pass_all(struct circuit_pass *p, const struct circuit_sequence *s, bool *correct);
/* The same with coordinate i at zero, after circuit_pass_all of the same sequence. */
double circuit_pass_without(struct circuit_pass *p, const struct circuit_sequence *s, int i);

#endif
