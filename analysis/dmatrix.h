/* dmatrix.h: a matrix in pieces over a process grid, block-cyclic in both dimensions (ScaLAPACK's layout).
 *
 * Each rank of the grid keeps its rows and columns as one column-major array. A rank outside the grid keeps nothing.
 * Who has what is in block.h. All functions that say "collective" are called by every rank of the grid's
 * communicator, those outside the grid too.
 */
#ifndef INVAR_ANALYSIS_DMATRIX_H
#define INVAR_ANALYSIS_DMATRIX_H

#include "analysis/grid.h"

#include <stdint.h>

struct dmatrix {
    const struct grid *grid;         /* not owned */
    int64_t rows, cols;
    int64_t row_block, col_block;
    int64_t local_rows, local_cols;
    double *a;                       /* [local_cols][local_rows]; NULL outside the grid */
    int desc[9];                     /* descriptor; the context in it is -1 outside the grid */
};

/* A zero matrix; dmatrix_free. Blocks of 0 mean: one block a process.   not collective: all ranks find the same
 * fails: STATUS_USAGE when a piece has more elements than an int can count, with advice */
enum status dmatrix_new(const struct grid *g, int64_t rows, int64_t cols, int64_t row_block, int64_t col_block,
                        struct dmatrix *m);
void dmatrix_free(struct dmatrix *m);

/* The process of comm (its rank) that has an element. */
int dmatrix_owner(const struct dmatrix *m, int64_t row, int64_t col);
/* Where this rank keeps (row, col) in m->a; the rank must have it. */
size_t dmatrix_place(const struct dmatrix *m, int64_t row, int64_t col);

/* Whole columns on any ranks -> pieces.   collective
 * in: owner[cols] the rank of comm that has column j (equal on all ranks); column[j] its values [rows] there, else not
 * read */
void dmatrix_from_columns(struct dmatrix *m, const int *owner, const double *const *column);
/* A matrix that all ranks have, row-major [rows][cols] -> pieces, and back.   the second is collective */
void dmatrix_from_whole(struct dmatrix *m, const double *whole);
void dmatrix_to_whole(const struct dmatrix *m, double *whole);
/* Row i of `to` becomes row permutation[i] of `from`; same grid, shape and blocks.   collective
 * in: permutation[rows], equal on all ranks */
void dmatrix_permute_rows(const struct dmatrix *from, const uint32_t *permutation, struct dmatrix *to);

/* C <- op(A) op(B) by pdgemm, transpose_a: A' B. All on one grid.   local to the grid's ranks; nothing outside */
void dmatrix_product(int transpose_a, const struct dmatrix *a, const struct dmatrix *b, struct dmatrix *c);

/* Singular value decomposition A = U diag(s) V' by pdgesvd, checked: |A - U s V'|_F <= T |A|_F, |U'U - I|_F and |V'V -
 * I|_F <= T sqrt(k), T = 30 max(rows, cols) eps. A keeps its values. Square blocks are needed.   collective
 * out: s [k = min(rows, cols)] descending, on all ranks; u [rows][k], vt [k][cols] made here, dmatrix_free
 * repeats: the same bits for the same grid shape and blocks; signs of the vectors are as they come
 * fails: STATUS_NUMERIC (values that are not finite; no convergence; a check does not hold), STATUS_USAGE (too large);
 * on all ranks alike, u and vt are then untouched */
enum status dmatrix_svd(const struct dmatrix *a, double *s, struct dmatrix *u, struct dmatrix *vt);

#endif
