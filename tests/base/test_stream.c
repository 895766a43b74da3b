/* Random streams: known answers, laws within bounds of six standard deviations, purity. */
#include "base/memory.h"
#include "base/stream.h"
#include "check.h"

/* |sum of n draws - n mean| within six standard deviations. */
#define CHECK_SUM(sum, n, mean, variance) CHECK_NEAR((sum) / (double)(n), mean, 6.0 * sqrt((variance) / (double)(n)))

/* The lines "philox4x32 10" of kat_vectors in Random123 (Salmon et al., SC'11): counter, key, expected. */
TEST(philox_known_answers)
{
    static const uint32_t kat[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff,
         0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
         0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 3; i++) {
        const uint32_t *c = kat[i], *k = c + 4;
        uint32_t out[4];
        stream_philox(k[0] | (uint64_t)k[1] << 32, c[0] | (uint64_t)c[1] << 32, c[2], c[3], out);
        for (int w = 0; w < 4; w++)
            CHECK_INT(out[w], kat[i][6 + w]);
    }
}

TEST(stream_is_the_blocks_of_its_key_in_order)
{
    uint64_t seed = 0x123456789abcdef0;
    struct stream s = stream_open(seed, PURPOSE_INIT, 7);
    for (uint64_t block = 0; block < 5; block++) {
        uint32_t out[4];
        stream_philox(seed, block, 7, PURPOSE_INIT, out);
        for (int w = 0; w < 4; w++)
            CHECK_INT(stream_u32(&s), out[w]);
    }
    uint32_t out[4];
    stream_philox(seed, 5, 7, PURPOSE_INIT, out);
    CHECK(stream_u64(&s) == (out[0] | (uint64_t)out[1] << 32));
    double u = stream_uniform(&s);
    CHECK(u == (double)((out[2] | (uint64_t)out[3] << 32) >> 11) / 9007199254740992.0);
}

TEST(streams_of_different_keys_are_unrelated)
{
    struct stream one = stream_open(1, PURPOSE_SHUFFLE, 3);
    struct stream others[] = {stream_open(2, PURPOSE_SHUFFLE, 3), stream_open(1, PURPOSE_INIT, 3),
                              stream_open(1, PURPOSE_SHUFFLE, 4), stream_open(1ull << 32, PURPOSE_SHUFFLE, 3)};
    long n = 100000, bits[4] = {0};
    for (long i = 0; i < n; i++) {
        uint32_t x = stream_u32(&one);
        for (int k = 0; k < 4; k++)
            bits[k] += __builtin_popcount(x ^ stream_u32(&others[k]));
    }
    for (int k = 0; k < 4; k++)
        CHECK_SUM((double)bits[k], 32 * n, 0.5, 0.25);
}

TEST(drawing_from_one_stream_does_not_disturb_another)
{
    struct stream a = stream_open(5, PURPOSE_INIT, 0), b = stream_open(5, PURPOSE_INIT, 1), alone = a;
    for (int i = 0; i < 100; i++) {
        double x = stream_normal(&a);
        stream_normal(&b);
        CHECK(x == stream_normal(&alone));
    }
}

/* Error in units in the last place against the wider logarithm of the C library. */
TEST(logarithm_is_below_two_ulp)
{
    CHECK(stream_log(1.0) == 0.0);
    struct stream s = stream_open(1, PURPOSE_PROBE, 0);
    double worst = 0.0;
    for (long i = 0; i < 2000000; i++) {
        double u = stream_uniform(&s), x;
        switch (i % 4) {
        case 0: x = u + 0x1p-54; break;                                      /* what the normals ask for */
        case 1: x = 1.0 + (u - 0.5) * ldexp(1.0, -(int)(i % 50)); break;      /* near 1, where log x is near 0 */
        case 2: x = ldexp(1.0 + u, (int)(i % 2045) - 1022); break;            /* every exponent */
        default: x = 0.5 + u; break;
        }
        long double exact = logl((long double)x);
        if (exact == 0.0L)
            continue;
        double ulp = ldexp(1.0, ilogb((double)exact) - 52);
        double error = (double)fabsl((long double)stream_log(x) - exact) / ulp;
        worst = error > worst ? error : worst;
    }
    CHECK(worst < 2.0);
    if (worst >= 2.0)
        fprintf(stderr, "worst error %.3f ulp\n", worst);
}

TEST(uniforms_have_the_moments_of_the_uniform_law)
{
    struct stream s = stream_open(11, PURPOSE_PROBE, 1);
    long n = 1000000;
    double sum = 0.0, squares = 0.0, products = 0.0, before = 0.5;
    for (long i = 0; i < n; i++) {
        double u = stream_uniform(&s);
        CHECK(u >= 0.0 && u < 1.0);
        sum += u;
        squares += u * u;
        products += (u - 0.5) * (before - 0.5);
        before = u;
    }
    CHECK_SUM(sum, n, 0.5, 1.0 / 12);
    CHECK_SUM(squares, n, 1.0 / 3, 1.0 / 5 - 1.0 / 9);
    CHECK_SUM(products, n, 0.0, 1.0 / 144);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

TEST(normals_have_the_moments_of_the_normal_law)
{
    struct stream s = stream_open(12, PURPOSE_PROBE, 2);
    long n = 1000000;
    double moment[5] = {0}, products = 0.0, before = 0.0;
    for (long i = 0; i < n; i++) {
        double x = stream_normal(&s), power = 1.0;
        for (int k = 0; k < 5; k++, power *= x)
            moment[k] += power;
        products += x * before;
        before = x;
    }
    /* E x^k = 0, 1, 0, 3 and Var x^k = 1, 2, 15, 96 for k = 1..4. */
    CHECK_SUM(moment[1], n, 0.0, 1.0);
    CHECK_SUM(moment[2], n, 1.0, 2.0);
    CHECK_SUM(moment[3], n, 0.0, 15.0);
    CHECK_SUM(moment[4], n, 3.0, 96.0);
    CHECK_SUM(products, n, 0.0, 1.0);
}

/* Kolmogorov-Smirnov: P(sqrt(n) D > 3.2) is about 2 exp(-2 3.2^2) = 3e-9. */
TEST(normals_follow_the_normal_distribution_function)
{
    struct stream s = stream_open(13, PURPOSE_PROBE, 3);
    size_t n = 200000;
    double *x = memory_new(n, sizeof *x), worst = 0.0;
    for (size_t i = 0; i < n; i++)
        x[i] = stream_normal(&s);
    qsort(x, n, sizeof *x, ascending);
    for (size_t i = 0; i < n; i++) {
        double f = 0.5 * erfc(-x[i] / sqrt(2.0)), low = (double)i / (double)n, high = (double)(i + 1) / (double)n;
        worst = fmax(worst, fmax(fabs(f - low), fabs(f - high)));
    }
    CHECK_NEAR(worst * sqrt((double)n), 0.0, 3.2);
    memory_free(x);
}

/* Without rejection, values below 2^30 would come twice as often as the others at n = 3 2^30. */
TEST(whole_numbers_are_unbiased)
{
    struct stream s = stream_open(14, PURPOSE_PROBE, 4);
    uint32_t large = 3u << 30;
    long n = 1000000, low = 0, count[10] = {0};
    for (long i = 0; i < n; i++) {
        uint32_t v = stream_below(&s, large);
        CHECK(v < large);
        low += v < 1u << 30;
        count[stream_below(&s, 10)]++;
        CHECK_INT(stream_below(&s, 1), 0);
    }
    CHECK_SUM((double)low, n, 1.0 / 3, 2.0 / 9);
    for (int k = 0; k < 10; k++)
        CHECK_SUM((double)count[k], n, 0.1, 0.09);
}

TEST(permutations_are_uniform)
{
    struct stream s = stream_open(15, PURPOSE_PERMUTATION, 0);
    long n = 240000, count[256] = {0};
    for (long i = 0; i < n; i++) {
        uint32_t p[4];
        stream_permutation(&s, p, 4);
        CHECK_INT((1u << p[0]) | (1u << p[1]) | (1u << p[2]) | (1u << p[3]), 15);
        count[p[0] << 6 | p[1] << 4 | p[2] << 2 | p[3]]++;
    }
    int seen = 0;
    for (int k = 0; k < 256; k++)
        if (count[k]) {
            seen++;
            CHECK_SUM((double)count[k], n, 1.0 / 24, 23.0 / 576);
        }
    CHECK_INT(seen, 24);
    uint32_t one[1] = {9};
    stream_permutation(&s, one, 1);
    CHECK_INT(one[0], 0);
    stream_permutation(&s, one, 0);
}
