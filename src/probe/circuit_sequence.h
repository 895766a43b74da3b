/* circuit_sequence.h: inside the probe room: what a sequence is to a model on the invariant manifold: relations between
 * positions, and between positions and classes. */
#ifndef INVAR_PROBE_CIRCUIT_SEQUENCE_H
#define INVAR_PROBE_CIRCUIT_SEQUENCE_H

#include "job/keys.h"
#include "job/manifold.h"
#include "task/task.h"

/* Loops that the compiler vectorises for the processor at hand. Products are not contracted: the bits are the same on all. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define CIRCUIT_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CIRCUIT_WIDE
#endif

/* A relation R [n][n] by columns: ones, less a mean within the group of the column. */
struct circuit_relation {
    int *first, *row;        /* [n + 1] of column j's ones, and their rows */
    int *group;              /* [n] */
    int groups;
    double *mean;            /* [n] of column j */
};

struct circuit_sequence {
    int n;
    struct circuit_relation *relation;   /* [selections] */
    /* Classes of the same relations to all positions have the same logit: they are one column. The target is alone. */
    int columns, target;
    int *count, *lowest;     /* [columns] classes of it, and the lowest */
    double *token;           /* [of_tokens][n][columns] e_class' S e_token */
    double weight;           /* of its loss in the mean */
};

/* in: sequence number i of a batch that looks at the last position   out: *c, freed with circuit_sequence_close */
void circuit_sequence_open(struct circuit_sequence *c, const struct spec *s, const struct manifold *m, const struct batch *b,
                           int i);
void circuit_sequence_close(struct circuit_sequence *c, int selections);

/* out[j][..] = sum_i R[i][j] x[i][..].   in: x [n][width], sum: room [n][width]   out: [n][width] */
void circuit_relate(const struct circuit_relation *r, int n, int width, const double *x, double *sum, double *out);

#endif
