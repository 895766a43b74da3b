/* circuit_blocks.h: inside the probe room: the blocks of a sequence below the last one, for circuit_pass.c. */
#ifndef INVAR_PROBE_CIRCUIT_BLOCKS_H
#define INVAR_PROBE_CIRCUIT_BLOCKS_H

#include "probe/circuit_pass.h"

#include <string.h>

/* What the blocks below the last one make of a sequence. Arrays are [n][n]; `to` says of the transposed where row u is. A
 * path through the last but one block by several hops may be left unformed: it is applied hop by hop. */
struct circuit_state {
    const double **path, **turned;   /* [paths] P_p [t][u] and its transposed [u][t] */
    double *own_path, *own_turned;   /* [paths][n][n] */
    bool *formed;                    /* [paths] */
    double **related;                /* [layers - 1][heads] -> [rows][n][n]: (P_query R_S)' */
    double *score;                   /* [layers - 1][heads][n][n] */
};

/* Segments of the stream before a block: paths that its keys can have. */
static inline int circuit_keys(const struct circuit_model *c, int layer)
{
    int n = 1;
    for (int l = 1; l < layer; l++)
        n *= c->base;
    return n;
}

static inline size_t circuit_squares(const struct circuit_model *c) { return (size_t)c->n * (size_t)c->n; }
static inline const struct circuit_head *circuit_head_of(const struct circuit_model *c, int layer, int h)
{
    return &c->head[(layer - 1) * c->heads + h - 1];
}

void circuit_state_open(const struct circuit_model *c, struct circuit_state *s);
void circuit_state_close(const struct circuit_model *c, struct circuit_state *s);

/* Path 0 is formed, no other. */
void circuit_state_begin(const struct circuit_model *c, struct circuit_state *s);

/* The attention of a head from its scores [n][n]. */
void circuit_attend(const struct circuit_model *c, struct circuit_state *s, int layer, int h, const double *score);
/* Paths through the head and blocks below it. */
void circuit_form_paths(const struct circuit_model *c, struct circuit_state *s, int layer, int h);
/* Block `layer` below the last, its paths too. `kept`: a state some of whose paths are those of this one, or NULL. `leave`:
 * paths of several hops through the last but one block stay unformed.   in: mixed [keys][n][n], sum [n][n] room */
void circuit_block(const struct circuit_model *c, struct circuit_state *s, const struct circuit_sequence *q, int layer,
                   const struct circuit_state *kept, bool leave, double *mixed, double *sum);

/* Softmax of what is seen, 0 behind it. */
void circuit_softmax(int seen, int n, const double *score, double *out);

static inline void circuit_clear_numbers(double *x, size_t n) { memset(x, 0, n * sizeof *x); }

#endif
