/* kern.h: the arithmetic of a model, in float (f32) and double (f64), for several instruction sets.
 *
 * Kernels take pointers and sizes and fill arrays; they allocate nothing, print nothing and cannot fail. The same bits
 * come out on every instruction set: each is compiled from the same sources (isa.c), vectors have the same number of lanes
 * everywhere (simd.h), and exp and the error function are our own (math.inc). Products by OpenBLAS (kern_use_openblas) are
 * the exception.
 *
 * Arrays are row-major. "ld" is the distance of rows in elements. Activations [rows][width] lie in rows of
 * kern_ld(width) elements; the elements past the width are zero on entry and stay zero.
 *
 * Dropout: a keep bit per element, made by dropout_bits from Philox4x32-10 as a pure function of (seed, step, site,
 * sequence, element), so that it does not depend on how a batch is cut. Elements come in chunks of 16, the bits of one
 * uint16_t; a mask of [rows][width] has kern_chunks(width) words a row. An element is kept when its 16 random bits are
 * at least `threshold` = round(65536 p), and what is kept is scaled by the reciprocal of the realised keep probability,
 * 65536 / (65536 - threshold): the mean is exact, the share dropped is p to 1/131072.
 */
#ifndef INVAR_KERN_KERN_H
#define INVAR_KERN_KERN_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define KERN_CHUNK 16

static inline size_t kern_chunks(size_t width) { return (width + KERN_CHUNK - 1) / KERN_CHUNK; }

/* Row distance of activations: whole chunks, and not a multiple of 512 bytes (in float), because the columns of such
 * an array would all fall into a few sets of the first-level cache. */
static inline size_t kern_ld(size_t width)
{
    size_t ld = kern_chunks(width) * KERN_CHUNK;
    return ld % 128 ? ld : ld + KERN_CHUNK;
}

/* Elements of a packed k x n matrix. */
static inline size_t kern_packed_size(size_t k, size_t n) { return k * ((n + 31) / 32 * 32); }

/* Chunks of the attention of one head over n positions: query chunk c (16 queries) sees keys 0..16c+15, and key j
 * of it is chunk 8c(c+1) + j; bit i of the chunk is query 16c + i. */
static inline size_t kern_attention_chunks(size_t n) { return 8 * kern_chunks(n) * (kern_chunks(n) + 1); }

/* Rows of 16 that the attention weights of a head take: sum over query chunks of the last query's keys, rounded up. */
size_t kern_attention_rows(size_t queries, const int32_t *position);

/* The positions of one sequence whose rows are a token's plus a position's (struct members below). A table over such rows
 * has vocabulary + positions rows: token a is row a, position t is row vocabulary + t, or place[t] (V + t below).
 *
 * Attention weights of one head over it: P[length][kern_path_ld(length)], zero where the key is not seen and in the padding.
 * Vectors over positions have kern_path_ld(length) elements, zero from `length` on. */
struct kern_path {
    size_t length, vocabulary;
    const int32_t *token;    /* [length] */
    const int32_t *place;    /* [length]: row of each position; NULL: vocabulary + t */
    int blind;               /* 1: a position does not see itself; the first then sees nothing, a row of zeros */
};
static inline size_t kern_path_ld(size_t length) { return kern_chunks(length) * KERN_CHUNK; }

/* Pairs of a query and a key that it sees, of one head. */
static inline size_t kern_attention_pairs(size_t queries, const int32_t *position)
{
    size_t pairs = 0;
    for (size_t i = 0; i < queries; i++)
        pairs += (size_t)position[i] + 1;
    return pairs;
}
/* Elements that the weights of attention_short take for `units` = sequences * heads, and its scratch. */
static inline size_t kern_attention_short_weights(size_t units, size_t pairs)
{
    return kern_chunks(units) * KERN_CHUNK * pairs;
}
static inline size_t kern_attention_short_scratch(size_t pairs) { return KERN_CHUNK * pairs; }
/* More pairs than this and the weights no longer stay in the first-level cache. */
#define KERN_ATTENTION_SHORT_PAIRS 320

/* Counter of a dropout mask. Philox counter {block low, block high, index = step, purpose = PURPOSE_DROPOUT}, key seed;
 * block = site 2^56 + sequence 2^29 + b. Group g of 8 chunks comes from the 16 blocks b = 16g..16g+15: chunk
 * 8g + 2w + h is half h (0: low 16 bits) of word w, its bit i from block 16g + i. */
struct kern_dropout {
    uint64_t seed, step;
    uint32_t site;           /* 4 (layer - 1) + which */
    uint32_t sequence;       /* number in the batch, below 2^27 */
    uint32_t threshold;      /* 1..65535 */
};
#define KERN_GROUP_CHUNKS 8
#define KERN_GROUPS_MAX ((size_t)1 << 25)

/* Constants of one optimiser step, computed once in double. */
struct kern_adamw {
    double decay;            /* 1 - lr weight_decay */
    double beta1, beta2;
    double step;             /* lr / (1 - beta1^t) */
    double root;             /* 1 / (1 - beta2^t) */
    double eps;
};
struct kern_sgd {
    double lr, momentum, weight_decay;
};

/* What a loss kernel adds up over rows. */
struct kern_loss {
    double sum;              /* of the row losses */
    size_t correct;          /* rows whose largest logit is the target's; ties: the lowest class counts */
};

/* Structs with arrays of the precision. P is f32 or f64.
 *
 * attention: the heads of one sequence, head h in columns h * width and on. Query i (row i of q) stands at position[i]
 * (ascending) and sees keys 0..position[i]. Weights p: kern_attention_rows rows of 16 queries a head, key by key
 * within a query chunk; the mask's words are in the same order (NULL: no dropout); heads are head_rows rows apart in
 * both.
 * Scratch: kern_attention_scratch elements a head.
 *   forward   out[i] = sum_j drop(softmax_j(scale q_i . k_j)) v_j;  p holds the softmax
 *   backward  d_out -> d_q (set), d_k, d_v (added to). With `own` set only key position[i] of query i gets d_k and d_v,
 *             rows i of them: the path by which position i sees itself.
 * attention_short: the same without dropout for `sequences` sequences that ask at the same positions: their q, out rows and
 *             their k, v rows follow one another. p: kern_attention_short_weights elements, scratch:
 *             kern_attention_short_scratch; head_rows is not used. d_k and d_v are set, not added to.
 *
 * norm: r = x + drop(y) (y NULL: r = x), hat = (r - mean) / sqrt(var + 1e-5), out = gain hat + shift; rstd per row.
 * norm_backward: d_x = LN'(d_out) (+ add when not NULL), d_y = d_x through the mask (d_y NULL: not wanted);
 *             added to: d_gain, d_shift, d_bias = column sums of d_y (or of d_x when d_y is NULL); each may be NULL.
 *
 * path_backward: what was read through P [length][ld] by `count` vectors, y_j = P z_j and c_j = a_j P, gives
 *             dP = sum_j (a_j d_c_j' + d_a_j z_j') (+ own rows), d_a_j being the gradient of y_j; P becomes the gradient of
 *             the scores, P (dP - sum_u P dP). own[i] is added to row own_position[i] (ascending). Row distances a_ld of
 *             a, d_a; z_ld of z, d_c; own_ld of own. Scratch: kern_path_ld(length).
 *
 * mix: rows that are mixtures of table rows. Row i has the keys start[i]..start[i + 1] - 1 (at least one); key k is row
 *             pair[k] of the tables, different ones within a row. Weights p [key from start[0]][heads] are the softmax over
 *             a row's keys of scale * scores[h * head_scores + query[i] * score_ld + pair[k]]; scratch: 16 elements a key
 *             of the longest row. out row i = base row query[i] + sum over k, h of p table[pair[k] * row_ld + h * head_ld].
 *             Rows of base, table, out, d_out, d_table: whole chunks of `width` columns, zero past the width.
 *             mix_backward adds to d_p (like p) and d_table; by_pair: keys from start[0], sorted by pair, and their rows.
 *             mix_weights_backward adds to d_scores, from d_p. */
/* A straight-line program (model/tape.h) for KERN_TAPE_LANES points at once: number `slot` of point i is at
 * [slot * KERN_TAPE_LANES + i]. */
#define KERN_TAPE_LANES 32
enum kern_tape_code {
    KERN_TAPE_LINEAR,            /* constant + sum of the terms: coefficient x, or x y, or -x y */
    KERN_TAPE_EXP,               /* of the one term's x <= 0 */
    KERN_TAPE_LOG,               /* of x > 0, a normal number */
    KERN_TAPE_RECIPROCAL,
    KERN_TAPE_LARGEST            /* of the terms' x */
};
struct kern_tape_term {
    double coefficient;          /* 1 or -1 of a product */
    int32_t x, y;                /* slots; y < 0: no product */
};
struct kern_tape_op {
    int32_t code, to;            /* to: a slot, none of the terms' */
    int32_t first, terms;
    double constant;
};
struct kern_tape {
    size_t ops, slots;
    const struct kern_tape_op *op;
    const struct kern_tape_term *term;
};

#define KERN_STRUCTS(P, real) \
struct kern_attention_##P { \
    size_t heads, queries, keys, width, head_rows; \
    size_t sequences;                          /* of attention_short alone */ \
    const int32_t *position; \
    const real *q, *k, *v; size_t q_ld, kv_ld; \
    real scale; \
    const uint16_t *mask; real keep_scale; \
    real *p, *scratch; \
    real *out; size_t out_ld; \
    const real *d_out; \
    real *d_q, *d_k, *d_v; size_t d_q_ld, d_kv_ld; \
    int own; \
}; \
struct kern_norm_##P { \
    size_t rows, width; \
    const real *x, *y; const uint16_t *mask; real keep_scale; \
    const real *gain, *shift; \
    real *out, *hat, *rstd; \
    const real *d_out, *add; \
    real *d_x, *d_y, *d_gain, *d_shift, *d_bias; \
}; \
struct kern_path_backward_##P { \
    size_t length, count; \
    const real *a, *d_a; size_t a_ld; \
    const real *z, *d_c; size_t z_ld; \
    const real *own; size_t own_rows, own_ld; const int32_t *own_position; \
    real *p, *scratch; \
}; \
struct kern_mix_##P { \
    size_t rows, heads; \
    const size_t *start; const int32_t *pair, *query; \
    const real *scores; size_t score_ld, head_scores; real scale; \
    real *p, *d_p, *d_scores, *scratch; \
    size_t width; \
    const real *base; size_t base_ld; \
    const real *table; size_t row_ld, head_ld; \
    real *out; size_t out_ld; \
    const real *d_out; real *d_table; \
    const int32_t *by_pair, *by_pair_row; \
};

/* Scratch of attention, elements a head. */
static inline size_t kern_attention_scratch(size_t keys, size_t width)
{
    return KERN_CHUNK * (width + 2 * (kern_chunks(keys) * KERN_CHUNK));
}

/* F(result, name, arguments).
 *
 * pack, pack_transposed   B[k][n], or its transpose B[n][k], into panels for gemm; packed: kern_packed_size, aligned
 * gemm       C[m][n] = start + A[m][k] B. start: NULL = 0; start_ld 0 = one row for all (a bias); C itself = add to C.
 *            Each element is one chain of fused multiply-adds in the order of k.
 * gemm_tn    C[m][n] += A[k][m]' B[k][n]
 * residual   out = x + drop(y)                        (mask NULL: no dropout; so in all the following)
 * residual_backward   d_y = drop'(d_x) (d_y NULL: not wanted), d_bias += column sums of it (may be NULL)
 * relu       u <- drop(max(u, 0)); relu_backward: d <- d where h = relu(u) is positive, times keep_scale, else 0
 * gelu       h = drop(gelu(u));    gelu_backward: d <- drop'(d) gelu'(u);        d_bias += column sums (may be NULL)
 * column_sums   sum[width] += sum over rows of x
 * gather     out row i = x row index[i];  scatter_add: x row index[i] += in row i, in order of i
 * gather_sums   out row i = x row a[i] + x row b[i]
 * mix_...    rows that are mixtures of table rows, see above
 * cross_entropy, mse, squared   adds losses and hits of the rows; logits become the gradient times `factor` when gradient is
 *            set. mse: mean of (logit - one-hot)^2 over the classes; squared: half their sum
 * adamw, sgd   one step on n parameters; g is left as it is. AdamW: p <- p decay; m <- b1 m + (1-b1) g;
 *            v <- b2 v + (1-b2) g^2; p <- p - step m / (sqrt(v root) + eps).
 *            SGD: u <- momentum u + g + wd p; p <- p - lr u
 * is_finite  1 when no element is infinite or NaN
 * fma_peak   rounds of fused multiply-adds in registers alone; returns how many it did; out[16]: their sum, so that they are done
 * exp_nonpositive, erfc_nonnegative   the functions used inside, for tests; see math.inc
 * path_softmax   P of the queries at position[0..rows) (NULL: all, 0, 1, ...) from the Gram table: the score of t and u
 *            is G(t, u) = gram[a][b] + gram[a][V + u] + gram[V + t][b] + gram[V + t][V + u], a, b the tokens of t and u
 * path_gram_add  d_gram += the gradient of that, from the gradient of the scores [rows][kern_path_ld(length)]
 * path_gather    out[u] = table[token[u]] + table[V + u]; path_scatter: the gradient of that, added to the table
 * path_apply     y[t] += sum_u P[t][u] z[u];     path_collect: c[u] = sum_t w[t] P[t][u]
 * path_row_softmax   s becomes the softmax of its first `seen` (>= 1) elements, zero after; path_row_backward: d becomes the
 *            gradient of the scores from that of the weights p
 * path_backward  see above
 * relation_gather   R[t][u] = G(t, u) of a table, for all t and u (R: [length][kern_path_ld(length)]); relation_scatter: the
 *            gradient of that, added to the table
 * pair_gather   out row i = x row first[i] + x row second[i]
 * tape_run   the program's operations one after another, all lanes side by side: a lane's numbers do not depend on the others
 * dropout_bits   groups [first, first + groups) of a mask, 8 words each */
#define KERN_FUNCTIONS(F, P, real) \
F(void, pack, (size_t k, size_t n, const real *b, size_t ldb, real *packed)) \
F(void, pack_transposed, (size_t k, size_t n, const real *b, size_t ldb, real *packed)) \
F(void, gemm, (size_t m, size_t n, size_t k, const real *a, size_t lda, const real *packed, \
               const real *start, size_t start_ld, real *c, size_t ldc)) \
F(void, gemm_tn, (size_t m, size_t n, size_t k, const real *a, size_t lda, const real *b, size_t ldb, \
                  real *c, size_t ldc)) \
F(void, attention_forward, (const struct kern_attention_##P *t)) \
F(void, attention_backward, (const struct kern_attention_##P *t)) \
F(void, attention_short_forward, (const struct kern_attention_##P *t)) \
F(void, attention_short_backward, (const struct kern_attention_##P *t)) \
F(void, norm_forward, (const struct kern_norm_##P *t)) \
F(void, norm_backward, (const struct kern_norm_##P *t)) \
F(void, residual, (size_t rows, size_t width, const real *x, const real *y, const uint16_t *mask, real keep_scale, \
                   real *out)) \
F(void, residual_backward, (size_t rows, size_t width, const real *d_x, const uint16_t *mask, real keep_scale, \
                            real *d_y, real *d_bias)) \
F(void, relu_forward, (size_t rows, size_t width, real *u, const uint16_t *mask, real keep_scale)) \
F(void, relu_backward, (size_t rows, size_t width, const real *h, real keep_scale, real *d, real *d_bias)) \
F(void, gelu_forward, (size_t rows, size_t width, const real *u, const uint16_t *mask, real keep_scale, real *h)) \
F(void, gelu_backward, (size_t rows, size_t width, const real *u, const uint16_t *mask, real keep_scale, real *d, \
                        real *d_bias)) \
F(void, column_sums, (size_t rows, size_t width, const real *x, size_t ld, real *sum)) \
F(void, gather, (size_t rows, size_t width, const real *x, size_t ldx, const int32_t *index, real *out, size_t ldo)) \
F(void, scatter_add, (size_t rows, size_t width, const real *in, size_t ldi, const int32_t *index, real *x, \
                      size_t ldx)) \
F(void, gather_sums, (size_t rows, size_t width, const real *x, size_t ldx, const int32_t *a, const int32_t *b, \
                      real *out, size_t ldo)) \
F(void, mix_weights, (const struct kern_mix_##P *t)) \
F(void, mix_weights_backward, (const struct kern_mix_##P *t)) \
F(void, mix_forward, (const struct kern_mix_##P *t)) \
F(void, mix_backward, (const struct kern_mix_##P *t)) \
F(void, cross_entropy, (size_t rows, size_t classes, real *logits, size_t ld, const int32_t *target, real factor, \
                        int gradient, struct kern_loss *loss)) \
F(void, squared, (size_t rows, size_t classes, real *logits, size_t ld, const int32_t *target, real factor, \
                  int gradient, struct kern_loss *loss)) \
F(void, mse, (size_t rows, size_t classes, real *logits, size_t ld, const int32_t *target, real factor, \
              int gradient, struct kern_loss *loss)) \
F(void, adamw, (size_t n, real *p, const real *g, real *m, real *v, const struct kern_adamw *c)) \
F(void, sgd, (size_t n, real *p, const real *g, real *u, const struct kern_sgd *c)) \
F(int, is_finite, (size_t n, const real *x)) \
F(size_t, fma_peak, (size_t rounds, real *out)) \
F(void, exp_nonpositive, (size_t n, const real *x, real *y)) \
F(void, erfc_nonnegative, (size_t n, const real *x, real *y)) \
F(void, path_softmax, (const struct kern_path *t, size_t rows, const int32_t *position, const real *gram, size_t ld, \
                       real *p)) \
F(void, path_gram_add, (const struct kern_path *t, size_t rows, const int32_t *position, const real *d_s, \
                        real *d_gram, size_t ld)) \
F(void, path_gather, (const struct kern_path *t, const real *table, real *out)) \
F(void, path_scatter, (const struct kern_path *t, const real *in, real *table)) \
F(void, path_apply, (size_t length, const real *p, const real *z, real *y)) \
F(void, path_collect, (size_t length, const real *w, const real *p, real *c)) \
F(void, path_row_softmax, (size_t length, size_t seen, real *s)) \
F(void, path_row_backward, (size_t length, const real *p, real *d)) \
F(void, path_backward, (const struct kern_path_backward_##P *b)) \
F(void, relation_gather, (const struct kern_path *t, const real *table, size_t ld, real *out)) \
F(void, relation_scatter, (const struct kern_path *t, const real *in, real *table, size_t ld)) \
F(void, pair_gather, (size_t rows, size_t width, const real *x, size_t ldx, const int32_t *first, const int32_t *second, \
                      real *out, size_t ldo)) \
F(void, tape_run, (const struct kern_tape *t, real *slot)) \
F(void, dropout_bits, (const struct kern_dropout *d, size_t first, size_t groups, uint16_t *bits))

KERN_STRUCTS(f32, float)
KERN_STRUCTS(f64, double)

#define KERN_MEMBER(result, name, arguments) result (*name) arguments;
struct kern_f32 { KERN_FUNCTIONS(KERN_MEMBER, f32, float) };
struct kern_f64 { KERN_FUNCTIONS(KERN_MEMBER, f64, double) };
#undef KERN_MEMBER

/* The kernels of the instruction set in use: the best that the processor has, or the one that the environment
 * variable INVAR_ISA names (avx512, avx2, scalar).   out: *f32, *f64 (either may be NULL)
 * fails: STATUS_ENVIRONMENT when INVAR_ISA is not a name, or names what this processor or build lacks */
enum status kern_get(const struct kern_f32 **f32, const struct kern_f64 **f64);
/* Whose matrix products the tables hold that kern_get gives from now on: our own (0, as at the start), or OpenBLAS's.
 * fails: STATUS_ENVIRONMENT when the BLAS of this process is another one; nothing changes */
enum status kern_use_openblas(int openblas);
/* Name of the instruction set that kern_get gives, or "none" when it fails. */
const char *kern_isa_name(void);

/* For tests: instruction set number i of this build, best first; NULL past the end. */
const char *kern_isa_at(int i);
/* Pins the instruction set for this process from now on, over INVAR_ISA; NULL unpins. Same failures as kern_get. */
enum status kern_pin(const char *isa);

#endif
