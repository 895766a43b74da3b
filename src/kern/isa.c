/* isa.c: all kernels of one precision for one instruction set. The Makefile compiles this file several times, with
 * KERN_ISA set to scalar, avx2, avx512 or neon, KERN_f32 or KERN_f64 defined, and the compiler flags to match. */
#include "kern/simd.h"

#include "kern/kern.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#ifdef KERN_f32
#define P f32
#else
#define P f64
#endif
#define ATTENTION struct JOIN(kern_attention_, P)
#define NORM struct JOIN(kern_norm_, P)
#define PATH_BACKWARD struct JOIN(kern_path_backward_, P)
#define MIX struct JOIN(kern_mix_, P)

#include "kern/math.inc"
#include "kern/gemm.inc"
#include "kern/attention.inc"
#include "kern/attention_short.inc"
#include "kern/norm.inc"
#include "kern/path.inc"
#include "kern/relation.inc"
#include "kern/pointwise.inc"
#include "kern/mix.inc"
#include "kern/loss.inc"
#include "kern/optimizer.inc"
#include "kern/dropout.inc"
#include "kern/peak.inc"
#include "kern/tape.inc"

#define TABLE_(precision, isa) kern_##precision##_##isa
#define TABLE(precision, isa) TABLE_(precision, isa)
#define MEMBER(result, name, arguments) .name = name,

extern const struct JOIN(kern_, P) TABLE(P, KERN_ISA);
const struct JOIN(kern_, P) TABLE(P, KERN_ISA) = { KERN_FUNCTIONS(MEMBER, P, real) };
