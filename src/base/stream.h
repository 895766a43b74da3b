/* stream.h: counter-based random streams (Philox4x32-10 of Random123; Salmon et al., SC'11).
 *
 * A stream is a pure function of (seed, purpose, index): never of a rank, an order or a clock. `index` is the
 * number of a tensor, of a training step or of a sequence, whatever the purpose says. So a run has the same bits
 * on any number of ranks, in any schedule, and after any kill and resume.
 *
 *   key     = seed (64 bits)
 *   counter = {block (64 bits), index (32 bits), purpose (32 bits)}
 *
 * Everything derived here (uniforms, normals) uses only integer arithmetic, + - * / and sqrt, so the values do not
 * depend on the C library or the instruction set.
 */
#ifndef INVAR_BASE_STREAM_H
#define INVAR_BASE_STREAM_H

#include <stdint.h>

/* What a stream is for. The numbers are part of every stored result: append, never renumber. */
enum purpose {
    PURPOSE_INIT = 1,        /* index: number of the tensor */
    PURPOSE_DATA_TRAIN = 2,  /* index: number of the sequence */
    PURPOSE_DATA_TEST = 3,   /* index: number of the sequence */
    PURPOSE_SHUFFLE = 4,     /* index: epoch */
    PURPOSE_DROPOUT = 5,     /* index: step; the place in the model selects the block, see kern/dropout */
    PURPOSE_PROBE = 6,       /* index: chosen by the probe */
    PURPOSE_PERMUTATION = 7, /* index: number of the permutation (nulls of the gather stage) */
    PURPOSE_SPLIT = 8,       /* index: 0 (train/test and held-out splits) */
    PURPOSE_DATA_STEP = 9    /* index: step; sequence i of the step begins at block i * 2^32 */
};

struct stream {
    uint64_t seed;
    uint32_t purpose, index;
    uint64_t block;          /* next block to draw */
    uint32_t word[4];
    int left;                /* words of `word` not yet used */
    int has_normal;
    double normal;           /* the polar method makes two at a time */
};

struct stream stream_open(uint64_t seed, enum purpose purpose, uint32_t index);
uint32_t stream_u32(struct stream *s);
uint64_t stream_u64(struct stream *s);
/* Uniform in [0, 1), 53 bits. */
double stream_uniform(struct stream *s);
/* Uniform on 0..n-1, unbiased (rejection); n >= 1. */
uint32_t stream_below(struct stream *s, uint32_t n);
/* Standard normal by the polar method (Marsaglia & Bray 1964), with our own logarithm. */
double stream_normal(struct stream *s);
/* Fills p[0..n) with a uniform permutation of 0..n-1 (Fisher-Yates). */
void stream_permutation(struct stream *s, uint32_t *p, uint32_t n);

/* One raw block, for kernels that make many at once and for tests. */
void stream_philox(uint64_t seed, uint64_t block, uint32_t index, uint32_t purpose, uint32_t out[4]);

/* Natural logarithm of a positive normal number by + - * / only: error below 2 ulp (tests/base). */
double stream_log(double x);

#endif
