/* Relations between positions: gathered and scattered against the formulas in double, and the same bits on all instruction
 * sets. */
#include "kern_test.h"
#include "base/text.h"

#define real float
#define P f32
#define EPSILON 0x1p-23
#include "relation_cases.inc"
#undef real
#undef P
#undef EPSILON

#define real double
#define P f64
#define EPSILON 0x1p-52
#include "relation_cases.inc"

#define PRECISION_TESTS(P, f32_at, f64_at) \
    TEST(relations_are_those_of_the_formulas_##P) \
    { \
        const struct kern_##P *k; \
        CHECK_OK(kern_get(f32_at, f64_at)); \
        for (int round = 0; round < (CHECK_SANITIZED ? 30 : 120); round++) \
            relation_case_##P(k, round, NULL); \
        CHECK_INT(memory_balance(), 0); \
    } \
    TEST(relations_have_the_same_bits_on_all_instruction_sets_##P) \
    { \
        const struct kern_##P *k; \
        struct text first = {0}; \
        for (int i = 0; kern_isa_at(i); i++) { \
            if (!kernels_of(kern_isa_at(i), f32_at, f64_at)) \
                continue; \
            struct text bits = {0}; \
            for (int round = 0; round < 40; round++) \
                relation_case_##P(k, round, &bits); \
            if (first.length) { \
                CHECK_INT(bits.length, first.length); \
                CHECK_BYTES(bits.s, first.s, first.length); \
                text_free(&bits); \
            } else { \
                first = bits; \
            } \
        } \
        text_free(&first); \
    }
PRECISION_TESTS(f32, &k, NULL)
PRECISION_TESTS(f64, NULL, &k)
