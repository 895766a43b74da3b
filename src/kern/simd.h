/* simd.h: one vector type, the same operations on every instruction set.
 *
 * A vector has 16 floats or 8 doubles whatever the machine: one register with AVX-512, two with AVX2, four with NEON, an
 * array in plain C. Every operation is exact or correctly rounded by IEEE 754 and sums fold in one fixed tree, so a kernel
 * written with them gives the same bits everywhere. A fused multiply-add stands only where v_fma or v_fnma is written.
 *
 * v_sums(x): lane i is v_sum(x[i]).
 *
 * v_gather(p, index, n): lane i is p[index[i]] for i < n, 0 beyond. v_lookup: the same, indices below `entries`.
 *
 * Included by isa.c alone, which is compiled once per instruction set and precision. In max and min the second operand
 * wins when one is NaN, as the x86 instructions do.
 */
#ifndef INVAR_KERN_SIMD_H
#define INVAR_KERN_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined KERN_f32
typedef float real;
typedef uint32_t real_bits;
#define WIDTH 16
#define R(x) (x##f)
#define ROUND_MAGIC 0x1.8p23f       /* x + ROUND_MAGIC has the nearest whole number to x in its low bits */
#define MANTISSA_BITS 23
#define ONE_BITS 0x3f800000
#define REAL_SQRT sqrtf
#else
typedef double real;
typedef uint64_t real_bits;
#define WIDTH 8
#define R(x) x
#define ROUND_MAGIC 0x1.8p52
#define MANTISSA_BITS 52
#define ONE_BITS 0x3ff0000000000000
#define REAL_SQRT sqrt
#endif

#define INLINE static inline __attribute__((always_inline, unused))

#if defined __AVX512F__ && defined __AVX512DQ__
#include <immintrin.h>

#ifdef KERN_f32
typedef __m512 vec;
typedef __mmask16 vmask;
#define V(name) _mm512_##name##_ps
#define VMASK(name) _mm512_##name##_ps_mask
#else
typedef __m512d vec;
typedef __mmask8 vmask;
#define V(name) _mm512_##name##_pd
#define VMASK(name) _mm512_##name##_pd_mask
#endif

INLINE vec v_zero(void) { return V(setzero)(); }
INLINE vec v_set(real x) { return V(set1)(x); }
INLINE vec v_load(const real *p) { return V(loadu)(p); }
INLINE void v_store(real *p, vec a) { V(storeu)(p, a); }
INLINE vec v_add(vec a, vec b) { return V(add)(a, b); }
INLINE vec v_sub(vec a, vec b) { return V(sub)(a, b); }
INLINE vec v_mul(vec a, vec b) { return V(mul)(a, b); }
INLINE vec v_div(vec a, vec b) { return V(div)(a, b); }
INLINE vec v_sqrt(vec a) { return V(sqrt)(a); }
INLINE vec v_fma(vec a, vec b, vec c) { return V(fmadd)(a, b, c); }
INLINE vec v_fnma(vec a, vec b, vec c) { return V(fnmadd)(a, b, c); }
INLINE vec v_max(vec a, vec b) { return V(max)(a, b); }
INLINE vec v_min(vec a, vec b) { return V(min)(a, b); }
INLINE vmask m_ge(vec a, vec b) { return VMASK(cmp)(a, b, _CMP_GE_OQ); }
INLINE vmask m_gt(vec a, vec b) { return VMASK(cmp)(a, b, _CMP_GT_OQ); }
INLINE vmask m_of_bits(unsigned bits) { return (vmask)bits; }
INLINE unsigned m_bits(vmask m) { return m; }
INLINE vec v_select(vmask m, vec a, vec b) { return V(mask_blend)(m, b, a); }
INLINE vec v_keep(vmask m, vec a) { return V(maskz_mov)(m, a); }
INLINE vmask m_first(size_t n) { return (vmask)((1u << n) - 1u); }
INLINE vec v_load_part(const real *p, size_t n) { return V(maskz_loadu)(m_first(n), p); }
INLINE void v_store_part(real *p, vec a, size_t n) { V(mask_storeu)(p, m_first(n), a); }

#define V_TRANSPOSE
#define V_SUMS
#ifdef KERN_f32
INLINE vec v_gather(const real *p, const int32_t *index, size_t n)
{
    vmask m = m_first(n);
    return _mm512_mask_i32gather_ps(v_zero(), m, _mm512_maskz_loadu_epi32(m, index), p, sizeof *p);
}
typedef __m512i lane_index;
INLINE lane_index lane_index_load(const int32_t *index, size_t n) { return _mm512_maskz_loadu_epi32(m_first(n), index); }
INLINE vec v_pick(vec a, lane_index i, vec b) { return _mm512_permutex2var_ps(a, i, b); }
INLINE vmask m_bit(lane_index i, int bit) { return _mm512_test_epi32_mask(i, _mm512_set1_epi32(bit)); }
/* Rows become columns. */
INLINE void v_transpose(vec r[16])
{
    vec t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int k = 0; k < 2; k++) {
            __m512d a = _mm512_castps_pd(t[i + k]), b = _mm512_castps_pd(t[i + k + 2]);
            r[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            r[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++) {
            t[8 * k + i] = _mm512_shuffle_f32x4(r[8 * k + i], r[8 * k + i + 4], 0x88);
            t[8 * k + i + 4] = _mm512_shuffle_f32x4(r[8 * k + i], r[8 * k + i + 4], 0xdd);
        }
    for (int i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    }
}
INLINE vec v_exp2_of_bits(vec m)
{
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(m), MANTISSA_BITS),
                                                _mm512_set1_epi32(ONE_BITS)));
}
INLINE real v_sum(vec a)
{
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
/* Two vectors' lanes folded by half side by side, again and again; the order of x in the tree puts sum i into lane i. */
INLINE vec v_sums(const vec x[16])
{
    vec h[8], q[4], d[2];
    for (int i = 0; i < 8; i++) {
        vec a = x[i % 4 + 8 * (i / 4)], b = x[i % 4 + 8 * (i / 4) + 4];
        h[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    }
    for (int i = 0; i < 4; i++)
        q[i] = _mm512_add_ps(_mm512_shuffle_f32x4(h[i], h[i + 4], 0x88), _mm512_shuffle_f32x4(h[i], h[i + 4], 0xdd));
    for (int i = 0; i < 2; i++) {
        __m512d a = _mm512_castps_pd(q[2 * i]), b = _mm512_castps_pd(q[2 * i + 1]);
        d[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    return _mm512_add_ps(_mm512_shuffle_ps(d[0], d[1], 0x88), _mm512_shuffle_ps(d[0], d[1], 0xdd));
}
INLINE real v_largest(vec a)
{
    __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}
#else
INLINE vec v_gather(const real *p, const int32_t *index, size_t n)
{
    vmask m = m_first(n);
    return _mm512_mask_i32gather_pd(v_zero(), m, _mm256_maskz_loadu_epi32(m, index), p, sizeof *p);
}
typedef __m512i lane_index;
INLINE lane_index lane_index_load(const int32_t *index, size_t n)
{
    return _mm512_cvtepi32_epi64(_mm256_maskz_loadu_epi32(m_first(n), index));
}
INLINE vec v_pick(vec a, lane_index i, vec b) { return _mm512_permutex2var_pd(a, i, b); }
INLINE vmask m_bit(lane_index i, int bit) { return _mm512_test_epi64_mask(i, _mm512_set1_epi64(bit)); }
INLINE void v_transpose(vec r[8])
{
    vec t[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
    }
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            r[4 * k + i] = _mm512_shuffle_f64x2(t[4 * k + i], t[4 * k + i + 2], 0x88);
            r[4 * k + i + 2] = _mm512_shuffle_f64x2(t[4 * k + i], t[4 * k + i + 2], 0xdd);
        }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f64x2(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f64x2(r[i], r[i + 4], 0xdd);
    }
    for (int i = 0; i < 8; i++)
        r[i] = t[i];
}
INLINE vec v_exp2_of_bits(vec m)
{
    return _mm512_castsi512_pd(_mm512_add_epi64(_mm512_slli_epi64(_mm512_castpd_si512(m), MANTISSA_BITS),
                                                _mm512_set1_epi64(ONE_BITS)));
}
INLINE real v_sum(vec a)
{
    __m256d h = _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
    __m128d q = _mm_add_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
    return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}
INLINE vec v_sums(const vec x[8])
{
    vec h[4], q[2];
    for (int i = 0; i < 4; i++) {
        vec a = x[i % 2 + 4 * (i / 2)], b = x[i % 2 + 4 * (i / 2) + 2];
        h[i] = _mm512_add_pd(_mm512_shuffle_f64x2(a, b, 0x44), _mm512_shuffle_f64x2(a, b, 0xee));
    }
    for (int i = 0; i < 2; i++)
        q[i] = _mm512_add_pd(_mm512_shuffle_f64x2(h[i], h[i + 2], 0x88), _mm512_shuffle_f64x2(h[i], h[i + 2], 0xdd));
    return _mm512_add_pd(_mm512_unpacklo_pd(q[0], q[1]), _mm512_unpackhi_pd(q[0], q[1]));
}
INLINE real v_largest(vec a)
{
    __m256d h = _mm256_max_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
    __m128d q = _mm_max_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
    return _mm_cvtsd_f64(_mm_max_sd(q, _mm_unpackhi_pd(q, q)));
}
#endif

/* Vector k of a table of `entries`, zeros past it. */
INLINE vec table_vector(const real *table, size_t entries, size_t k)
{
    size_t left = k * WIDTH < entries ? entries - k * WIDTH : 0;
    return left >= WIDTH ? v_load(table + k * WIDTH) : v_load_part(table + k * WIDTH, left);
}
INLINE vec table_pair(const real *table, size_t entries, lane_index i, size_t k)
{
    return v_pick(table_vector(table, entries, k), i, table_vector(table, entries, k + 1));
}
/* A table of up to eight vectors is looked up in registers: several times faster than gathering. */
INLINE vec v_lookup(const real *table, size_t entries, const int32_t *index, size_t n)
{
    if (entries > 8 * WIDTH)
        return v_gather(table, index, n);
    lane_index i = lane_index_load(index, n);
    vec r = table_pair(table, entries, i, 0);
    if (entries > 2 * WIDTH)
        r = v_select(m_bit(i, 2 * WIDTH), table_pair(table, entries, i, 2), r);
    if (entries > 4 * WIDTH) {
        vec high = table_pair(table, entries, i, 4);
        if (entries > 6 * WIDTH)
            high = v_select(m_bit(i, 2 * WIDTH), table_pair(table, entries, i, 6), high);
        r = v_select(m_bit(i, 4 * WIDTH), high, r);
    }
    return n < WIDTH ? v_keep(m_first(n), r) : r;
}
#define V_GATHER
#define V_LOOKUP

#elif defined __AVX2__ && defined __FMA__
#include <immintrin.h>

#ifdef KERN_f32
typedef __m256 half;
#define V(name) _mm256_##name##_ps
#define HALF_INT(a) _mm256_castps_si256(a)
#define HALF_REAL(a) _mm256_castsi256_ps(a)
#else
typedef __m256d half;
#define V(name) _mm256_##name##_pd
#define HALF_INT(a) _mm256_castpd_si256(a)
#define HALF_REAL(a) _mm256_castsi256_pd(a)
#endif
#define HALF (WIDTH / 2)
typedef struct { half a, b; } vec;
typedef vec vmask;                    /* all bits of a lane set, or none */

#define BOTH(call_a, call_b) ((vec){(call_a), (call_b)})
INLINE vec v_zero(void) { return BOTH(V(setzero)(), V(setzero)()); }
INLINE vec v_set(real x) { half h = V(set1)(x); return BOTH(h, h); }
INLINE vec v_load(const real *p) { return BOTH(V(loadu)(p), V(loadu)(p + HALF)); }
INLINE void v_store(real *p, vec a) { V(storeu)(p, a.a); V(storeu)(p + HALF, a.b); }
INLINE vec v_add(vec a, vec b) { return BOTH(V(add)(a.a, b.a), V(add)(a.b, b.b)); }
INLINE vec v_sub(vec a, vec b) { return BOTH(V(sub)(a.a, b.a), V(sub)(a.b, b.b)); }
INLINE vec v_mul(vec a, vec b) { return BOTH(V(mul)(a.a, b.a), V(mul)(a.b, b.b)); }
INLINE vec v_div(vec a, vec b) { return BOTH(V(div)(a.a, b.a), V(div)(a.b, b.b)); }
INLINE vec v_sqrt(vec a) { return BOTH(V(sqrt)(a.a), V(sqrt)(a.b)); }
INLINE vec v_fma(vec a, vec b, vec c) { return BOTH(V(fmadd)(a.a, b.a, c.a), V(fmadd)(a.b, b.b, c.b)); }
INLINE vec v_fnma(vec a, vec b, vec c) { return BOTH(V(fnmadd)(a.a, b.a, c.a), V(fnmadd)(a.b, b.b, c.b)); }
INLINE vec v_max(vec a, vec b) { return BOTH(V(max)(a.a, b.a), V(max)(a.b, b.b)); }
INLINE vec v_min(vec a, vec b) { return BOTH(V(min)(a.a, b.a), V(min)(a.b, b.b)); }
INLINE vmask m_ge(vec a, vec b) { return BOTH(V(cmp)(a.a, b.a, _CMP_GE_OQ), V(cmp)(a.b, b.b, _CMP_GE_OQ)); }
INLINE vmask m_gt(vec a, vec b) { return BOTH(V(cmp)(a.a, b.a, _CMP_GT_OQ), V(cmp)(a.b, b.b, _CMP_GT_OQ)); }
INLINE unsigned m_bits(vmask m) { return (unsigned)V(movemask)(m.a) | (unsigned)V(movemask)(m.b) << HALF; }
INLINE vec v_select(vmask m, vec a, vec b) { return BOTH(V(blendv)(b.a, a.a, m.a), V(blendv)(b.b, a.b, m.b)); }
INLINE vec v_keep(vmask m, vec a) { return BOTH(V(and)(m.a, a.a), V(and)(m.b, a.b)); }

#ifdef KERN_f32
INLINE vmask m_of_bits(unsigned bits)
{
    __m256i x = _mm256_set1_epi32((int)bits);
    __m256i low = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128), high = _mm256_slli_epi32(low, 8);
    return BOTH(HALF_REAL(_mm256_cmpeq_epi32(_mm256_and_si256(x, low), low)),
                HALF_REAL(_mm256_cmpeq_epi32(_mm256_and_si256(x, high), high)));
}
INLINE vec v_exp2_of_bits(vec m)
{
    __m256i one = _mm256_set1_epi32(ONE_BITS);
    return BOTH(HALF_REAL(_mm256_add_epi32(_mm256_slli_epi32(HALF_INT(m.a), MANTISSA_BITS), one)),
                HALF_REAL(_mm256_add_epi32(_mm256_slli_epi32(HALF_INT(m.b), MANTISSA_BITS), one)));
}
INLINE real v_sum(vec a)
{
    __m256 h = _mm256_add_ps(a.a, a.b);
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
INLINE real v_largest(vec a)
{
    __m256 h = _mm256_max_ps(a.a, a.b);
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}
#else
INLINE vmask m_of_bits(unsigned bits)
{
    __m256i x = _mm256_set1_epi64x((long long)bits);
    __m256i low = _mm256_setr_epi64x(1, 2, 4, 8), high = _mm256_slli_epi64(low, 4);
    return BOTH(HALF_REAL(_mm256_cmpeq_epi64(_mm256_and_si256(x, low), low)),
                HALF_REAL(_mm256_cmpeq_epi64(_mm256_and_si256(x, high), high)));
}
INLINE vec v_exp2_of_bits(vec m)
{
    __m256i one = _mm256_set1_epi64x(ONE_BITS);
    return BOTH(HALF_REAL(_mm256_add_epi64(_mm256_slli_epi64(HALF_INT(m.a), MANTISSA_BITS), one)),
                HALF_REAL(_mm256_add_epi64(_mm256_slli_epi64(HALF_INT(m.b), MANTISSA_BITS), one)));
}
INLINE real v_sum(vec a)
{
    __m256d h = _mm256_add_pd(a.a, a.b);
    __m128d q = _mm_add_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
    return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}
INLINE real v_largest(vec a)
{
    __m256d h = _mm256_max_pd(a.a, a.b);
    __m128d q = _mm_max_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
    return _mm_cvtsd_f64(_mm_max_sd(q, _mm_unpackhi_pd(q, q)));
}
#endif
INLINE vmask m_first(size_t n) { return m_of_bits((1u << n) - 1u); }
INLINE vec v_load_part(const real *p, size_t n)
{
    vmask m = m_first(n);
    return BOTH(V(maskload)(p, HALF_INT(m.a)), n > HALF ? V(maskload)(p + HALF, HALF_INT(m.b)) : V(setzero)());
}
INLINE void v_store_part(real *p, vec a, size_t n)
{
    vmask m = m_first(n);
    V(maskstore)(p, HALF_INT(m.a), a.a);
    if (n > HALF)
        V(maskstore)(p + HALF, HALF_INT(m.b), a.b);
}

#ifdef KERN_f32
INLINE half half_gather(const real *p, const int32_t *index, half m)
{
    return _mm256_mask_i32gather_ps(V(setzero)(), p, _mm256_maskload_epi32(index, HALF_INT(m)), m, sizeof *p);
}
#else
INLINE half half_gather(const real *p, const int32_t *index, half m)
{
    const __m256i low = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);      /* of each lane's mask one word */
    __m128i mask = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(HALF_INT(m), low));
    return _mm256_mask_i32gather_pd(V(setzero)(), p, _mm_maskload_epi32(index, mask), m, sizeof *p);
}
#endif
INLINE vec v_gather(const real *p, const int32_t *index, size_t n)
{
    vmask m = m_first(n);
    return BOTH(half_gather(p, index, m.a), n > HALF ? half_gather(p, index + HALF, m.b) : V(setzero)());
}
#define V_GATHER

#elif defined __aarch64__ && defined KERN_NEON
#include "kern/simd_neon.h"

#else

typedef struct { real x[WIDTH]; } vec;
typedef unsigned vmask;               /* bit i: lane i */

/* Where the compiler may not use a fused instruction (plain x86-64) these are calls: the same bits, a hundred times slower.
 * glibc takes the processor's instruction when there is one, but such processors have AVX2 too and do not come here. */

#ifdef KERN_f32
#define REAL_FMA fmaf
#else
#define REAL_FMA fma
#endif
#define LANES(expression)              \
    vec r;                             \
    for (int i = 0; i < WIDTH; i++)    \
        r.x[i] = (expression);         \
    return r
#define LANE_BITS(condition)                   \
    vmask r = 0;                               \
    for (int i = 0; i < WIDTH; i++)            \
        r |= (vmask)(condition) << i;          \
    return r
INLINE vec v_zero(void) { LANES(0); }
INLINE vec v_set(real x) { LANES(x); }
INLINE vec v_load(const real *p) { LANES(p[i]); }
INLINE void v_store(real *p, vec a) { memcpy(p, a.x, sizeof a.x); }
INLINE vec v_add(vec a, vec b) { LANES(a.x[i] + b.x[i]); }
INLINE vec v_sub(vec a, vec b) { LANES(a.x[i] - b.x[i]); }
INLINE vec v_mul(vec a, vec b) { LANES(a.x[i] * b.x[i]); }
INLINE vec v_div(vec a, vec b) { LANES(a.x[i] / b.x[i]); }
INLINE vec v_sqrt(vec a) { LANES(REAL_SQRT(a.x[i])); }
INLINE vec v_fma(vec a, vec b, vec c) { LANES(REAL_FMA(a.x[i], b.x[i], c.x[i])); }
INLINE vec v_fnma(vec a, vec b, vec c) { LANES(REAL_FMA(-a.x[i], b.x[i], c.x[i])); }
INLINE vec v_max(vec a, vec b) { LANES(a.x[i] > b.x[i] ? a.x[i] : b.x[i]); }
INLINE vec v_min(vec a, vec b) { LANES(a.x[i] < b.x[i] ? a.x[i] : b.x[i]); }
INLINE vmask m_ge(vec a, vec b) { LANE_BITS(a.x[i] >= b.x[i]); }
INLINE vmask m_gt(vec a, vec b) { LANE_BITS(a.x[i] > b.x[i]); }
INLINE vmask m_of_bits(unsigned bits) { return bits & ((1u << WIDTH) - 1u); }
INLINE unsigned m_bits(vmask m) { return m; }
INLINE vec v_select(vmask m, vec a, vec b) { LANES(m >> i & 1u ? a.x[i] : b.x[i]); }
INLINE vec v_keep(vmask m, vec a) { LANES(m >> i & 1u ? a.x[i] : 0); }
INLINE vmask m_first(size_t n) { return (1u << n) - 1u; }
INLINE vec v_load_part(const real *p, size_t n) { LANES((size_t)i < n ? p[i] : 0); }
INLINE void v_store_part(real *p, vec a, size_t n) { memcpy(p, a.x, n * sizeof *p); }
INLINE vec v_exp2_of_bits(vec m)
{
    real_bits b[WIDTH];
    memcpy(b, m.x, sizeof b);
    for (int i = 0; i < WIDTH; i++)
        b[i] = (b[i] << MANTISSA_BITS) + ONE_BITS;
    memcpy(m.x, b, sizeof b);
    return m;
}
INLINE real v_sum(vec a)
{
    for (int n = WIDTH / 2; n; n /= 2)
        for (int i = 0; i < n; i++)
            a.x[i] += a.x[i + n];
    return a.x[0];
}
INLINE real v_largest(vec a)
{
    for (int n = WIDTH / 2; n; n /= 2)
        for (int i = 0; i < n; i++)
            a.x[i] = a.x[i] > a.x[i + n] ? a.x[i] : a.x[i + n];
    return a.x[0];
}
#endif

#ifndef V_GATHER
INLINE vec v_gather(const real *p, const int32_t *index, size_t n)
{
    real x[WIDTH] = {0};
    for (size_t i = 0; i < n; i++)
        x[i] = p[index[i]];
    return v_load(x);
}
#endif

#ifndef V_LOOKUP
INLINE vec v_lookup(const real *table, size_t entries, const int32_t *index, size_t n)
{
    (void)entries;
    return v_gather(table, index, n);
}
#endif

#ifndef V_SUMS
INLINE vec v_sums(const vec x[WIDTH])
{
    real sums[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        sums[i] = v_sum(x[i]);
    return v_load(sums);
}
#endif

#ifndef V_TRANSPOSE
INLINE void v_transpose(vec r[WIDTH])
{
    real x[WIDTH][WIDTH], t[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        v_store(x[i], r[i]);
    for (int i = 0; i < WIDTH; i++) {
        for (int k = 0; k < WIDTH; k++)
            t[k] = x[k][i];
        r[i] = v_load(t);
    }
}
#endif

#endif
