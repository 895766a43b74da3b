/* Dropout masks: the bits are those of Philox4x32-10 where the header says, and the share is right. */
#include "kern_test.h"

/* The keep bit of one element by the definition in kern.h. */
static int keep_bit(const struct kern_dropout *d, size_t chunk, size_t bit)
{
    uint32_t out[4];
    size_t group = chunk / 8, place = chunk % 8;
    uint64_t block = ((uint64_t)d->site << 56) + ((uint64_t)d->sequence << 29) + 16 * group + bit;
    stream_philox(d->seed, block, (uint32_t)d->step, PURPOSE_DROPOUT, out);
    uint32_t sixteen = place % 2 ? out[place / 2] >> 16 : out[place / 2] & 0xffff;
    return sixteen >= d->threshold;
}

static void check_bits(void (*bits)(const struct kern_dropout *, size_t, size_t, uint16_t *))
{
    struct stream s = stream_open(3, PURPOSE_PROBE, 3);
    for (int round = 0; round < 60; round++) {
        struct kern_dropout d = {.seed = stream_u64(&s), .step = stream_u64(&s), .site = stream_below(&s, 256),
                                 .sequence = stream_below(&s, 1u << 27), .threshold = 1 + stream_below(&s, 65535)};
        size_t first = stream_below(&s, 1u << 25), groups = 1 + random_below(&s, 5);
        uint16_t got[6 * 8];
        memset(got, 0xaa, sizeof got);
        bits(&d, first, groups, got);
        for (size_t c = 0; c < 8 * groups; c++)
            for (size_t i = 0; i < 16; i++)
                CHECK_INT(got[c] >> i & 1, keep_bit(&d, 8 * first + c, i));
        CHECK_INT(got[8 * groups], 0xaaaa);
    }
}

TEST(masks_are_the_bits_of_philox)
{
    const struct kern_f32 *f32;
    const struct kern_f64 *f64;
    for (int i = 0; kern_isa_at(i); i++)
        if (kernels_of(kern_isa_at(i), &f32, &f64)) {
            check_bits(f32->dropout_bits);
            check_bits(f64->dropout_bits);
        }
}

/* Exact two-sided binomial bound: the count of dropped elements lies in the central 1 - 1e-9 of Binomial(n, q). */
static void binomial_range(long n, double q, double tail, long *low, long *high)
{
    double sum = 0;
    *low = -1;
    for (long k = 0; k <= n; k++) {
        sum += exp(lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1) + (double)k * log(q)
                   + (double)(n - k) * log1p(-q));
        if (*low < 0 && sum > tail)
            *low = k;
        if (sum >= 1 - tail) {
            *high = k;
            return;
        }
    }
    *high = n;
}

TEST(share_dropped_is_binomial)
{
    const struct kern_f32 *k;
    CHECK_OK(kern_get(&k, NULL));
    static const double share[] = {0.01, 0.1, 0.5, 0.9};
    enum { GROUPS = 400 };
    static uint16_t bits[GROUPS * 8];
    for (size_t i = 0; i < sizeof share / sizeof share[0]; i++)
        for (uint32_t step = 0; step < 5; step++) {
            struct kern_dropout d = {.seed = 11, .step = step, .site = 2};
            d.threshold = (uint32_t)(65536 * share[i] + 0.5);
            k->dropout_bits(&d, 0, GROUPS, bits);
            long dropped = 0, low, high, n = GROUPS * 128;
            for (size_t c = 0; c < GROUPS * 8; c++)
                dropped += 16 - __builtin_popcount(bits[c]);
            binomial_range(n, d.threshold / 65536.0, 5e-10, &low, &high);
            if (dropped < low || dropped > high)
                CHECK_FAIL("p = %g: %ld of %ld dropped, expected %ld..%ld", share[i], dropped, n, low, high);
        }
}

/* A mask made in pieces is the mask made at once. */
TEST(masks_do_not_depend_on_the_cut)
{
    const struct kern_f32 *k;
    CHECK_OK(kern_get(&k, NULL));
    uint16_t whole[20 * 8], pieces[20 * 8];
    struct kern_dropout d = {.seed = 7, .step = 9, .site = 5, .sequence = 3, .threshold = 20000};
    k->dropout_bits(&d, 0, 20, whole);
    for (size_t first = 0, size = 1; first < 20; first += size, size = size % 4 + 1) {
        if (size > 20 - first)
            size = 20 - first;
        k->dropout_bits(&d, first, size, pieces + 8 * first);
    }
    CHECK_BYTES(whole, pieces, sizeof whole);
}
