/* The exponential and the complementary error function against long double libm. */
#include "kern_test.h"

/* Error in units of the last place of the exact value at this precision. */
static double ulps(long double got, long double exact, int mantissa, int lowest_exponent)
{
    int e;
    frexpl(exact, &e);
    if (e < lowest_exponent)
        e = lowest_exponent;
    return (double)(fabsl(got - exact) / ldexpl(1, e - mantissa));
}

static long double exact_erfc(long double z) { return erfcl(z / sqrtl(2)); }

#define BOUNDS(P, real, mantissa, lowest) \
    static double worst_##P(void (*f)(size_t, const real *, real *), long double (*exact)(long double), double sign, \
                            double range) \
    { \
        enum { N = 4099 }; \
        static real x[N], y[N]; \
        struct stream s = stream_open(2, PURPOSE_PROBE, 2); \
        double worst = 0; \
        for (int round = 0; round < 100; round++) { \
            for (int i = 0; i < N; i++) \
                x[i] = (real)(sign * range * (round % 2 ? stream_uniform(&s) : exp(-30 * stream_uniform(&s)))); \
            f(N, x, y); \
            for (int i = 0; i < N; i++) { \
                double u = ulps(y[i], exact(x[i]), mantissa, lowest); \
                if (!(u <= worst)) \
                    worst = u; \
            } \
        } \
        return worst; \
    }
BOUNDS(f32, float, 24, -125)
BOUNDS(f64, double, 53, -1021)

TEST(exp_is_within_one_ulp)
{
    const struct kern_f32 *f32;
    const struct kern_f64 *f64;
    CHECK_OK(kern_get(&f32, &f64));
    double single = worst_f32(f32->exp_nonpositive, expl, -1, 87.3);
    double twice = worst_f64(f64->exp_nonpositive, expl, -1, 708.3);
    fprintf(stderr, "# exp: largest error %.3f ulp (float), %.3f ulp (double)\n", single, twice);
    CHECK(single <= 1.0);
    CHECK(twice <= 1.0);
}

TEST(exp_at_the_ends)
{
    const struct kern_f32 *f32;
    const struct kern_f64 *f64;
    CHECK_OK(kern_get(&f32, &f64));
    float x[] = {0.0f, -0.0f, -87.3365f, -87.34f, -104.0f, -1e30f, -INFINITY, NAN}, y[8];
    f32->exp_nonpositive(8, x, y);
    CHECK(y[0] == 1 && y[1] == 1);
    CHECK(y[2] >= 0x1p-126f && y[2] < 0x1.01p-126f);
    CHECK(y[3] == 0 && y[4] == 0 && y[5] == 0 && y[6] == 0);
    CHECK(isnan(y[7]));
    double xd[] = {0.0, -708.396, -708.4, -1e300, -INFINITY, NAN}, yd[6];
    f64->exp_nonpositive(6, xd, yd);
    CHECK(yd[0] == 1);
    CHECK(yd[1] >= 0x1p-1022 && yd[1] < 0x1.01p-1022);
    CHECK(yd[2] == 0 && yd[3] == 0 && yd[4] == 0);
    CHECK(isnan(yd[5]));
}

/* Relative error over the whole range in which the result is a normal number. */
TEST(erfc_is_within_eight_ulp)
{
    const struct kern_f32 *f32;
    const struct kern_f64 *f64;
    CHECK_OK(kern_get(&f32, &f64));
    double single = worst_f32(f32->erfc_nonnegative, exact_erfc, 1, 12.9);
    double twice = worst_f64(f64->erfc_nonnegative, exact_erfc, 1, 37.4);
    fprintf(stderr, "# erfc: largest error %.3f ulp (float), %.3f ulp (double)\n", single, twice);
    CHECK(single <= 8.0);
    CHECK(twice <= 8.0);
    double x[] = {0.0, 64.0, 1e300, INFINITY}, y[4];
    f64->erfc_nonnegative(4, x, y);
    CHECK_NEAR(y[0], 1.0, 0x1p-52);
    CHECK(y[1] == 0 && y[2] == 0 && y[3] == 0);
}
