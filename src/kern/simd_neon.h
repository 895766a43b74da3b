/* simd_neon.h: the operations of simd.h on aarch64: a vector is four registers, lanes in order. Included by simd.h. */
#ifndef INVAR_KERN_SIMD_NEON_H
#define INVAR_KERN_SIMD_NEON_H

#include <arm_neon.h>

#ifdef KERN_f32
typedef float32x4_t quad;
typedef uint32x4_t quad_bits;
#define V(name) name##_f32
#define B(name) name##_u32
#define AS_REAL(bits) vreinterpretq_f32_u32(bits)
#define AS_BITS(x) vreinterpretq_u32_f32(x)
#else
typedef float64x2_t quad;
typedef uint64x2_t quad_bits;
#define V(name) name##_f64
#define B(name) name##_u64
#define AS_REAL(bits) vreinterpretq_f64_u64(bits)
#define AS_BITS(x) vreinterpretq_u64_f64(x)
#endif
#define QUAD (WIDTH / 4)              /* lanes of a register */

typedef struct { quad q[4]; } vec;
typedef struct { quad_bits q[4]; } vmask;     /* all bits of a lane set, or none */

#define FOUR(type, expression)        \
    type r;                           \
    _Pragma("GCC unroll 4")           \
    for (int i = 0; i < 4; i++)       \
        r.q[i] = (expression);        \
    return r

INLINE vec v_set(real x) { FOUR(vec, V(vdupq_n)(x)); }
INLINE vec v_zero(void) { return v_set(0); }
INLINE vec v_load(const real *p) { FOUR(vec, V(vld1q)(p + i * QUAD)); }
INLINE void v_store(real *p, vec a)
{
    _Pragma("GCC unroll 4")
    for (int i = 0; i < 4; i++)
        V(vst1q)(p + i * QUAD, a.q[i]);
}
INLINE vec v_add(vec a, vec b) { FOUR(vec, V(vaddq)(a.q[i], b.q[i])); }
INLINE vec v_sub(vec a, vec b) { FOUR(vec, V(vsubq)(a.q[i], b.q[i])); }
INLINE vec v_mul(vec a, vec b) { FOUR(vec, V(vmulq)(a.q[i], b.q[i])); }
INLINE vec v_div(vec a, vec b) { FOUR(vec, V(vdivq)(a.q[i], b.q[i])); }
INLINE vec v_sqrt(vec a) { FOUR(vec, V(vsqrtq)(a.q[i])); }
INLINE vec v_fma(vec a, vec b, vec c) { FOUR(vec, V(vfmaq)(c.q[i], a.q[i], b.q[i])); }
INLINE vec v_fnma(vec a, vec b, vec c) { FOUR(vec, V(vfmsq)(c.q[i], a.q[i], b.q[i])); }
INLINE vmask m_ge(vec a, vec b) { FOUR(vmask, V(vcgeq)(a.q[i], b.q[i])); }
INLINE vmask m_gt(vec a, vec b) { FOUR(vmask, V(vcgtq)(a.q[i], b.q[i])); }
INLINE vec v_select(vmask m, vec a, vec b) { FOUR(vec, V(vbslq)(m.q[i], a.q[i], b.q[i])); }
/* Not vmaxq and vminq: they treat NaN and the zeros otherwise. */
INLINE vec v_max(vec a, vec b) { return v_select(m_gt(a, b), a, b); }
INLINE vec v_min(vec a, vec b) { return v_select(m_gt(b, a), a, b); }
INLINE vec v_keep(vmask m, vec a) { FOUR(vec, AS_REAL(B(vandq)(m.q[i], AS_BITS(a.q[i])))); }

/* Bit 4 i (2 i in double) and on, one a lane. */
INLINE quad_bits lane_bits(int i)
{
#ifdef KERN_f32
    const quad_bits low = {1, 2, 4, 8};
    return vshlq_u32(low, vdupq_n_s32(4 * i));
#else
    const quad_bits low = {1, 2};
    return vshlq_u64(low, vdupq_n_s64(2 * i));
#endif
}
INLINE vmask m_of_bits(unsigned bits) { FOUR(vmask, B(vtstq)(B(vdupq_n)(bits), lane_bits(i))); }
INLINE unsigned m_bits(vmask m)
{
    unsigned bits = 0;
    for (int i = 0; i < 4; i++)
        bits |= (unsigned)B(vaddvq)(B(vandq)(m.q[i], lane_bits(i)));
    return bits;
}
INLINE vmask m_first(size_t n) { return m_of_bits((1u << n) - 1u); }
INLINE vec v_load_part(const real *p, size_t n)
{
    real x[WIDTH] = {0};
    memcpy(x, p, n * sizeof *p);
    return v_load(x);
}
INLINE void v_store_part(real *p, vec a, size_t n)
{
    real x[WIDTH];
    v_store(x, a);
    memcpy(p, x, n * sizeof *p);
}
#define V_GATHER
INLINE vec v_gather(const real *p, const int32_t *index, size_t n)
{
    real x[WIDTH] = {0};
    for (size_t i = 0; i < n; i++)
        x[i] = p[index[i]];
    return v_load(x);
}
INLINE vec v_exp2_of_bits(vec m)
{
    FOUR(vec, AS_REAL(B(vaddq)(B(vshlq_n)(AS_BITS(m.q[i]), MANTISSA_BITS), B(vdupq_n)(ONE_BITS))));
}

/* Halves are folded onto each other: registers first, then the lanes of the last one. */
INLINE real v_sum(vec a)
{
    real x[QUAD];
    V(vst1q)(x, V(vaddq)(V(vaddq)(a.q[0], a.q[2]), V(vaddq)(a.q[1], a.q[3])));
    return QUAD == 4 ? (x[0] + x[QUAD / 2]) + (x[1] + x[QUAD - 1]) : x[0] + x[1];
}
INLINE real v_largest(vec a)
{
    real x[WIDTH];
    v_store(x, a);
    for (int n = WIDTH / 2; n; n /= 2)
        for (int i = 0; i < n; i++)
            x[i] = x[i] > x[i + n] ? x[i] : x[i + n];
    return x[0];
}

#endif
