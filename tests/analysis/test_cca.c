/* Canonical correlations and the other measures of two runs: properties and closed forms. */
#include "check.h"

#include "analysis/cca.h"
#include "base/memory.h"
#include "base/stream.h"

enum { N = 500, MOST = 8 };

static void fill_normal(uint32_t number, double *x, size_t n)
{
    struct stream s = stream_open(31, PURPOSE_PROBE, number);
    for (size_t i = 0; i < n; i++)
        x[i] = stream_normal(&s);
}

static struct cca_basis basis_of(int64_t n, int columns, const double *z)
{
    double *copy = memory_new((size_t)n * (size_t)columns, sizeof *copy);
    struct cca_basis b = {0};
    memcpy(copy, z, (size_t)n * (size_t)columns * sizeof *copy);
    cca_centre(n, columns, copy, NULL);
    CHECK_OK(cca_basis(n, columns, copy, 1e-8, 0.0, &b));
    memory_free(copy);
    return b;
}

static void block_of(int64_t n, const struct cca_basis *a, const struct cca_basis *b, double *block)
{
    for (int i = 0; i < a->rank; i++)
        for (int j = 0; j < b->rank; j++) {
            double sum = 0.0;
            for (int64_t l = 0; l < n; l++)
                sum += a->u[i * n + l] * b->u[j * n + l];
            block[i * b->rank + j] = sum;
        }
}

/* Correlations of x [p][n] and y [q][n], columns contiguous; returns how many. */
static int correlate(int64_t n, int p, const double *x, int q, const double *y, double *correlation)
{
    struct cca_basis a = basis_of(n, p, x), b = basis_of(n, q, y);
    double block[MOST * MOST];
    block_of(n, &a, &b, block);
    struct cca_pair pair = {&a, &b, block, (size_t)b.rank};
    CHECK_OK(cca_correlations(&pair, correlation, NULL, NULL));
    int k = a.rank < b.rank ? a.rank : b.rank;
    for (int c = 0; c < k; c++)
        CHECK(correlation[c] >= 0.0 && correlation[c] <= 1.0 && (c == 0 || correlation[c] <= correlation[c - 1]));
    cca_basis_clear(&a);
    cca_basis_clear(&b);
    return k;
}

/* y = x M, M [p][p] random. */
static void map(int p, uint32_t number, const double *x, double *y)
{
    double m[MOST * MOST];
    fill_normal(number, m, (size_t)(p * p));
    memset(y, 0, (size_t)(p * N) * sizeof *y);
    for (int j = 0; j < p; j++)
        for (int l = 0; l < p; l++)
            for (int i = 0; i < N; i++)
                y[j * N + i] += x[l * N + i] * m[l * p + j];
}

TEST(with_itself_all_are_one)
{
    static double x[5 * N], y[5 * N];
    double correlation[MOST];
    fill_normal(1, x, 5 * N);
    CHECK_INT(correlate(N, 5, x, 5, x, correlation), 5);
    for (int c = 0; c < 5; c++)
        CHECK_NEAR(correlation[c], 1.0, 1e-12);
    map(5, 2, x, y);
    for (int i = 0; i < 5 * N; i++)
        y[i] = 1e-7 * (y[i] - 3.0);                      /* any invertible map, scale and shift */
    CHECK_INT(correlate(N, 5, x, 5, y, correlation), 5);
    for (int c = 0; c < 5; c++)
        CHECK_NEAR(correlation[c], 1.0, 1e-12);
}

TEST(order_of_columns_and_invertible_maps_change_nothing)
{
    static double x[4 * N], y[3 * N], mapped[4 * N], turned[4 * N];
    double one[MOST], other[MOST];
    fill_normal(3, x, 4 * N);
    fill_normal(4, y, 3 * N);
    for (int i = 0; i < 3 * N; i++)
        y[i] = 0.4 * y[i] + 0.3 * x[i];
    CHECK_INT(correlate(N, 4, x, 3, y, one), 3);
    map(4, 5, x, mapped);
    CHECK_INT(correlate(N, 4, mapped, 3, y, other), 3);
    for (int c = 0; c < 3; c++)
        CHECK_NEAR(other[c], one[c], 1e-12);
    for (int j = 0; j < 4; j++)
        memcpy(turned + j * N, x + (3 - j) * N, N * sizeof *x);
    CHECK_INT(correlate(N, 3, y, 4, turned, other), 3);   /* and the sides can be exchanged */
    for (int c = 0; c < 3; c++)
        CHECK_NEAR(other[c], one[c], 1e-12);
}

TEST(one_column_each_is_pearson)
{
    static double x[N], y[N];
    double correlation, sx = 0, sy = 0, xx = 0, yy = 0, xy = 0;
    fill_normal(6, x, N);
    fill_normal(7, y, N);
    for (int i = 0; i < N; i++) {
        y[i] -= 0.3 * x[i];
        sx += x[i] / N, sy += y[i] / N;
    }
    for (int i = 0; i < N; i++)
        xx += (x[i] - sx) * (x[i] - sx), yy += (y[i] - sy) * (y[i] - sy), xy += (x[i] - sx) * (y[i] - sy);
    CHECK(xy < 0.0);
    CHECK_INT(correlate(N, 1, x, 1, y, &correlation), 1);
    CHECK_NEAR(correlation, fabs(xy / sqrt(xx * yy)), 1e-13);
}

/* Orthonormal centred a_j give x = [a_0 .. a_p-1] M and y = [r_j a_j + sqrt(1 - r_j^2) a_(p+j)] M' the correlations r
 * exactly. */
TEST(planted_correlations_are_found)
{
    static const double planted[] = {1.0, 0.9999999, 0.93, 0.5, 1e-3, 0.0};
    enum { P = sizeof planted / sizeof *planted };
    static double a[2 * P * N], x[P * N], y[P * N], mapped_x[P * N], mapped_y[P * N];
    fill_normal(8, a, 2 * P * N);
    for (int pass = 0; pass < 2; pass++)
        for (int j = 0; j < 2 * P; j++) {
            cca_centre(N, 1, a + j * N, NULL);
            for (int l = 0; l <= j; l++) {
                double sum = 0.0;
                for (int i = 0; i < N; i++)
                    sum += a[j * N + i] * a[l * N + i];
                for (int i = 0; i < N; i++)
                    a[j * N + i] = l < j ? a[j * N + i] - sum * a[l * N + i] : a[j * N + i] / sqrt(sum);
            }
        }
    for (int j = 0; j < P; j++)
        for (int i = 0; i < N; i++) {
            x[j * N + i] = a[j * N + i];
            y[j * N + i] = planted[j] * a[j * N + i] + sqrt(1.0 - planted[j] * planted[j]) * a[(P + j) * N + i];
        }
    map(P, 9, x, mapped_x);
    map(P, 10, y, mapped_y);
    double correlation[MOST];
    CHECK_INT(correlate(N, P, mapped_x, P, mapped_y, correlation), P);
    for (int c = 0; c < P; c++)
        CHECK_NEAR(correlation[c], planted[c], 1e-12);
}

TEST(few_inputs_saturate)
{
    double x[3 * 6], y[3 * 6], correlation[MOST];
    fill_normal(11, x, 18);
    fill_normal(12, y, 18);
    CHECK_INT(correlate(4, 3, x, 3, y, correlation), 3);  /* 3 + 3 directions in 4 - 1 dimensions */
    for (int c = 0; c < 3; c++)
        CHECK_NEAR(correlation[c], 1.0, 1e-12);
    CHECK_INT(correlate(6, 3, x, 3, y, correlation), 3);  /* 5 dimensions: one must be shared */
    CHECK_NEAR(correlation[0], 1.0, 1e-12);
    CHECK(correlation[1] < 1.0 - 1e-6);
    CHECK_INT(correlate(3, 3, x, 3, y, correlation), 2);  /* fewer rows than columns */
}

TEST(effective_rank)
{
    static double z[4 * N];
    fill_normal(13, z, 4 * N);
    for (int i = 0; i < N; i++) {
        z[2 * N + i] = 2.0 * z[i] - z[N + i];
        z[3 * N + i] *= 1e-10;
    }
    struct cca_basis b = basis_of(N, 4, z);
    CHECK_INT(b.rank, 2);
    CHECK_INT(b.columns, 4);
    cca_basis_clear(&b);
    double *copy = memory_new(4 * N, sizeof *copy);
    memcpy(copy, z, sizeof z);
    cca_centre(N, 4, copy, NULL);
    CHECK_OK(cca_basis(N, 4, copy, 1e-14, 0.0, &b));
    CHECK_INT(b.rank, 3);
    cca_basis_clear(&b);
    for (int i = 0; i < 4 * N; i++)
        copy[i] = 0.0;
    CHECK_OK(cca_basis(N, 4, copy, 1e-8, 0.0, &b));
    CHECK_INT(b.rank, 0);
    cca_basis_clear(&b);
    copy[77] = INFINITY;
    CHECK_INT(cca_basis(N, 4, copy, 1e-8, 0.0, &b), STATUS_NUMERIC);
    CHECK(b.u == NULL);
    memory_free(copy);
    CHECK_INT(memory_balance(), 0);
}

/* A large mean leaves the coordinates fewer digits, not the centring. */
TEST(large_mean)
{
    static double x[2 * N], y[2 * N];
    double one[MOST], other[MOST];
    fill_normal(14, x, 2 * N);
    for (int i = 0; i < 2 * N; i++) {
        x[i] = ldexp(rint(ldexp(x[i], 20)), -20);        /* so that the sum with 2^20 is exact */
        y[i] = x[i] + 0x1p20;
    }
    fill_normal(15, x, N);
    correlate(N, 2, x, 1, y, one);
    for (int i = 0; i < N; i++)
        y[i] -= 0x1p20;
    correlate(N, 2, x, 1, y, other);
    CHECK_NEAR(one[0], other[0], 1e-12);
}

TEST(measures_of_equal_and_turned_data)
{
    static double x[3 * N], y[3 * N];
    fill_normal(16, x, 3 * N);
    for (int i = 0; i < N; i++) {                        /* a rotation by an angle, a reflection and a scale */
        y[i] = 7.0 * (0.6 * x[i] - 0.8 * x[N + i]);
        y[N + i] = 7.0 * (0.8 * x[i] + 0.6 * x[N + i]);
        y[2 * N + i] = -7.0 * x[2 * N + i];
    }
    struct cca_basis a = basis_of(N, 3, x), b = basis_of(N, 3, y);
    double block[9];
    block_of(N, &a, &b, block);
    struct cca_pair pair = {&a, &b, block, 3};
    struct cca_measures m;
    CHECK_OK(cca_measures(&pair, &m));
    CHECK_NEAR(m.svcca_mean, 1.0, 1e-12);
    CHECK_NEAR(m.pwcca, 1.0, 1e-12);
    CHECK_NEAR(m.pwcca_other, 1.0, 1e-12);
    CHECK_NEAR(m.linear_cka, 1.0, 1e-12);
    CHECK_NEAR(m.procrustes_distance, 0.0, 1e-12);
    cca_basis_clear(&a);
    cca_basis_clear(&b);
}

/* Judged on the data that they were fitted on, the held-out values are the correlations. */
TEST(held_out_on_the_same_data)
{
    static double x[3 * N], y[2 * N];
    double block[6], vab[9] = {0}, unit[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, correlation[2], left[6], right[4], again[2];
    fill_normal(17, x, 3 * N);
    fill_normal(18, y, 2 * N);
    for (int i = 0; i < 2 * N; i++)
        y[i] += x[i];
    struct cca_basis a = basis_of(N, 3, x), b = basis_of(N, 2, y);
    block_of(N, &a, &b, block);
    struct cca_pair pair = {&a, &b, block, 2};
    CHECK_OK(cca_correlations(&pair, correlation, left, right));
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++)
            vab[i * 3 + j] = block[i * 2 + j];
    cca_heldout(&pair, left, right, unit, unit, vab, 3, again);
    CHECK_NEAR(again[0], correlation[0], 1e-13);
    CHECK_NEAR(again[1], correlation[1], 1e-13);
    unit[0] = unit[4] = unit[8] = 0.0;           /* held-out data that do not vary */
    cca_heldout(&pair, left, right, unit, unit, vab, 3, again);
    CHECK(isnan(again[0]));
    cca_basis_clear(&a);
    cca_basis_clear(&b);
}

/* Planes at known angles, small and large, in 6 dimensions. */
TEST(principal_angles)
{
    static const double angle[] = {1e-9, 0.3, 1.5};
    double qa[6 * 3] = {0}, qb[6 * 2], found[3], overlap;
    for (int j = 0; j < 3; j++)
        qa[j * 3 + j] = 1.0;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 2; j++)
            qb[i * 2 + j] = i == j ? cos(angle[j]) : i == j + 3 ? sin(angle[j]) : 0.0;
    CHECK_OK(cca_angles(6, 3, qa, 2, qb, found, &overlap));
    CHECK_NEAR(found[0], angle[0], 1e-15);
    CHECK_NEAR(found[1], angle[1], 1e-14);
    CHECK_NEAR(overlap, (pow(cos(1e-9), 2) + pow(cos(0.3), 2)) / sqrt(6.0), 1e-14);
    CHECK_OK(cca_angles(6, 2, qb, 3, qa, found, &overlap));
    CHECK_NEAR(found[0], angle[0], 1e-15);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 2; j++)
            qb[i * 2 + j] = i == j + 1 ? cos(angle[j + 1]) : i == j + 4 ? sin(angle[j + 1]) : 0.0;
    CHECK_OK(cca_angles(6, 3, qa, 2, qb, found, &overlap));
    CHECK_NEAR(found[0], 0.3, 1e-14);
    CHECK_NEAR(found[1], 1.5, 1e-14);
}

TEST(quantiles)
{
    double x[] = {3, 1, 2, 5, 4}, one = 7;
    CHECK_NEAR(cca_quantile(x, 5, 0.5), 3.0, 0.0);
    CHECK_NEAR(cca_quantile(x, 5, 0.95), 4.8, 1e-15);
    CHECK_NEAR(cca_quantile(x, 5, 1.0), 5.0, 0.0);
    CHECK_NEAR(cca_quantile(&one, 1, 0.95), 7.0, 0.0);
}
