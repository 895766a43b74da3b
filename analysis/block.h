/* block.h: the arithmetic of a block-cyclic distribution along one dimension. Pure: no MPI, no memory.
 *
 * Indices 0..n-1 are cut into blocks of `block`; block b belongs to process b mod `processes`, which keeps its blocks
 * one after the other. (ScaLAPACK's numroc, indxg2p, indxg2l and indxl2g, with indices from 0 and the first block on
 * process 0.)
 */
#ifndef INVAR_ANALYSIS_BLOCK_H
#define INVAR_ANALYSIS_BLOCK_H

#include <stdint.h>

/* How many of n indices a process has. */
int64_t block_count(int64_t n, int64_t block, int process, int processes);
/* The process that has index i, and the place of i there. */
int block_owner(int64_t i, int64_t block, int processes);
int64_t block_local(int64_t i, int64_t block, int processes);
/* The index at a place of a process. */
int64_t block_global(int64_t local, int64_t block, int process, int processes);

#endif
