/* Every kernel: the same bits on all instruction sets, and the values of naive double twins. */
#include "kern_test.h"
#include "base/text.h"

#include <inttypes.h>

#define real float
#define P f32
#define EPSILON 0x1p-23
#include "kernel_cases.inc"
#undef real
#undef P
#undef EPSILON

#define real double
#define P f64
#define EPSILON 0x1p-52
#include "kernel_cases.inc"

#define CASES(name, cases, P, f32_at, f64_at) \
    TEST(name##_##P) \
    { \
        const struct kern_##P *k; \
        CHECK_OK(kern_get(f32_at, f64_at)); \
        cases##_##P(k); \
    }
#define PRECISION_TESTS(P, f32_at, f64_at) \
    TEST(same_bits_on_all_instruction_sets_##P) \
    { \
        const struct kern_##P *k; \
        struct text first = {0}; \
        int compared = 0; \
        for (int i = 0; kern_isa_at(i); i++) { \
            if (!kernels_of(kern_isa_at(i), f32_at, f64_at)) \
                continue; \
            struct text bits = {0}; \
            for (int round = 0; round < 12; round++) \
                exercise_##P(k, round, &bits); \
            if (first.length) { \
                CHECK_INT(bits.length, first.length); \
                CHECK_BYTES(bits.s, first.s, first.length); \
                text_free(&bits); \
            } else { \
                first = bits; \
            } \
            compared++; \
        } \
        fprintf(stderr, "# %d instruction sets, %zu bytes each\n", compared, first.length); \
        fprintf(stderr, "bits of " #P " kernels %016" PRIx64 "\n", bits_hash(first.s, first.length)); \
        text_free(&first); \
    } \
    CASES(attention_is_that_of_the_formula, attention_cases, P, f32_at, f64_at) \
    CASES(short_attention_is_that_of_the_formula, attention_short_cases, P, f32_at, f64_at) \
    CASES(norm_is_that_of_the_formula, norm_cases, P, f32_at, f64_at) \
    CASES(activations_are_those_of_libm, activation_cases, P, f32_at, f64_at) \
    CASES(losses_are_those_of_the_formula, loss_cases, P, f32_at, f64_at) \
    CASES(losses_at_the_edges, loss_edges, P, f32_at, f64_at) \
    CASES(optimisers_are_those_of_the_contract, optimiser_cases, P, f32_at, f64_at) \
    CASES(not_finite_is_seen, finite_cases, P, f32_at, f64_at)
PRECISION_TESTS(f32, &k, NULL)
PRECISION_TESTS(f64, NULL, &k)

TEST(wrong_instruction_set_is_an_error)
{
    const struct kern_f32 *k;
    setenv("INVAR_ISA", "avx1024", 1);
    CHECK_INT(kern_get(&k, NULL), STATUS_ENVIRONMENT);
    CHECK_HAS(status_text(), "avx1024");
    CHECK_HAS(status_text(), "scalar, or not set");
    CHECK_TEXT(kern_isa_name(), "none");
    setenv("INVAR_ISA", "scalar", 1);
    CHECK_OK(kern_get(&k, NULL));
    CHECK_TEXT(kern_isa_name(), "scalar");
}
