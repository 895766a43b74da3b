#include "base/float_mode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>

/* MXCSR: bit 15 flushes results, bit 6 takes subnormal operands as zero. */
#define FLUSH_BITS 0x8040u

static uint64_t mode(void) { return _mm_getcsr(); }
static void set_mode(uint64_t bits) { _mm_setcsr((unsigned)bits); }

#elif defined(__aarch64__)
/* FPCR: bit 24 flushes operands and results. */
#define FLUSH_BITS (1u << 24)

static uint64_t mode(void)
{
    uint64_t bits;
    __asm__ volatile("mrs %0, fpcr" : "=r"(bits));
    return bits;
}

static void set_mode(uint64_t bits) { __asm__ volatile("msr fpcr, %0" ::"r"(bits)); }

#else
#define FLUSH_BITS 0u

static uint64_t mode(void) { return 0; }
static void set_mode(uint64_t bits) { (void)bits; }
#endif

uint64_t float_mode_flush(void)
{
    uint64_t before = mode();
    set_mode(before | FLUSH_BITS);
    return before;
}

void float_mode_restore(uint64_t before) { set_mode(before); }

int float_mode_flushes(void) { return FLUSH_BITS != 0 && (mode() & FLUSH_BITS) == FLUSH_BITS; }

int float_mode_can_flush(void)
{
    uint64_t before = float_mode_flush();
    int can = float_mode_flushes();
    float_mode_restore(before);
    return can;
}
