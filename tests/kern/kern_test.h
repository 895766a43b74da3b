/* kern_test.h: what the kernel tests share: both precisions by one include, random arrays, all instruction sets. */
#ifndef INVAR_TESTS_KERN_TEST_H
#define INVAR_TESTS_KERN_TEST_H

#include "base/memory.h"
#include "base/status.h"
#include "base/stream.h"
#include "check.h"
#include "kern/kern.h"

static inline size_t random_below(struct stream *s, size_t n) { return stream_below(s, (uint32_t)n); }

/* FNV-1a of bytes, to compare bits with another processor's (test_aarch64.sh). */
static inline uint64_t bits_hash(const void *bytes, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return h;
}

/* Kernels of one instruction set; 0 when this machine has it not (said once). */
static inline int kernels_of(const char *isa, const struct kern_f32 **f32, const struct kern_f64 **f64)
{
    if (kern_pin(isa) != STATUS_OK) {
        fprintf(stderr, "# %s is not on this machine: not tested\n", isa);
        return 0;
    }
    CHECK_OK(kern_get(f32, f64));
    return 1;
}

#endif
