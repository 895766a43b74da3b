#include "check.h"

#include "base/memory.h"
#include "base/stream.h"
#include "probe/ace.h"
#include "probe/factor.h"

#define D 8

static void normals(uint32_t index, size_t n, double *x)
{
    struct stream s = stream_open(17, PURPOSE_PROBE, index);
    for (size_t i = 0; i < n; i++)
        x[i] = stream_normal(&s);
}

/* c [n][n] = a [n][k] a' */
static void gram(int n, int k, const double *a, double *c)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            c[i * n + j] = 0;
            for (int l = 0; l < k; l++)
                c[i * n + j] += a[i * k + l] * a[j * k + l];
        }
}

/* c [m][n] = a [m][k] b [k][n] */
static void product(int m, int k, int n, const double *a, const double *b, double *c)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            c[i * n + j] = 0;
            for (int l = 0; l < k; l++)
                c[i * n + j] += a[i * k + l] * b[l * n + j];
        }
}

/* Projector on the first r columns of q [n][n]. */
static void projector(int n, int r, const double *q, double *p)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            p[i * n + j] = 0;
            for (int l = 0; l < r; l++)
                p[i * n + j] += q[i * n + l] * q[j * n + l];
        }
}

static double distance(int count, const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

static double trace(const double *a)
{
    double sum = 0;
    for (int i = 0; i < D; i++)
        sum += a[i * (D + 1)];
    return sum;
}

/* A covariance and an observability without any symmetry between them; obs of rank k. */
static void example(int k, double *cov, double *obs)
{
    double x[D * D], w[D * D];
    normals(1, D * D, x);
    normals(2, (size_t)(D * k), w);
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++)
            x[i * D + j] *= 1.0 + 2.0 * j;
    gram(D, D, x, cov);
    gram(D, k, w, obs);
}

TEST(core_of_diagonal_matrices_is_in_closed_form)
{
    const double a[D] = {3, 0.5, 7, 0, 2, 11, 1, 0.25}, b[D] = {1, 9, 0.125, 5, 4, 1, 0, 2};
    const int order[D] = {5, 4, 1, 0, 2, 7, 3, 6};       /* by a b: 11 8 4.5 3 .875 .5, then what the ridge leaves */
    double cov[D * D] = {0}, obs[D * D] = {0}, weight[D], basis[D * D];
    for (int i = 0; i < D; i++) {
        cov[i * (D + 1)] = a[i];
        obs[i * (D + 1)] = b[i];
    }
    CHECK_OK(ace_core(D, cov, obs, weight, basis));
    double ridge_a = 1e-8 * trace(cov) / D, ridge_b = 1e-8 * trace(obs) / D;
    for (int j = 0; j < D; j++) {
        int i = order[j];
        double expected = (a[i] + ridge_a) * (b[i] + ridge_b);
        CHECK_NEAR(weight[j], expected, 1e-13 * expected + 1e-14);
        for (int k = 0; k < D; k++)
            CHECK_NEAR(basis[k * D + j], k == i, 1e-7);
    }
}

/* Outputs that read the subspace R and nothing else: the core is what the activations show of it, the span of Cov R. */
TEST(planted_core_is_found)
{
    enum { K = 3 };
    double cov[D * D], obs[D * D], weight[D], basis[D * D], r[D * K], image[D * K], q[D * K], triangle[K * K];
    example(K, cov, obs);
    normals(2, D * K, r);
    product(D, D, K, cov, r, image);
    CHECK_OK(factor_qr(D, K, image, q, triangle));
    CHECK_OK(ace_core(D, cov, obs, weight, basis));
    CHECK_INT(ace_rank(D, weight, 1 - 1e-6), K);
    double inside[K * D], q_transposed[K * D];
    for (int i = 0; i < D; i++)
        for (int j = 0; j < K; j++)
            q_transposed[j * D + i] = q[i * K + j];
    product(K, D, D, q_transposed, basis, inside);
    for (int j = 0; j < K; j++) {
        double sum = 0;
        for (int i = 0; i < K; i++)
            sum += inside[i * D + j] * inside[i * D + j];
        CHECK_NEAR(1 - sum, 0, 1e-12);              /* sin^2; the ridge tilts by about 1e-8 */
    }
}

/* Lc U are eigenvectors of the product of the ridged matrices: each leading span is invariant under it. */
TEST(every_leading_span_is_invariant)
{
    double cov[D * D], obs[D * D], weight[D], basis[D * D], both[D * D], moved[D * D], p[D * D], back[D * D];
    example(D, cov, obs);
    CHECK_OK(ace_core(D, cov, obs, weight, basis));
    double ridge_cov = 1e-8 * trace(cov) / D, ridge_obs = 1e-8 * trace(obs) / D;
    for (int i = 0; i < D; i++) {
        cov[i * (D + 1)] += ridge_cov;
        obs[i * (D + 1)] += ridge_obs;
    }
    product(D, D, D, cov, obs, both);
    product(D, D, D, both, basis, moved);
    for (int r = 1; r <= D; r++) {
        projector(D, r, basis, p);
        product(D, D, D, p, moved, back);
        double off = 0, size = 0, diagonal = 0;
        for (int i = 0; i < D; i++)
            for (int j = 0; j < r; j++) {
                off += pow(moved[i * D + j] - back[i * D + j], 2);
                size += pow(moved[i * D + j], 2);
            }
        CHECK_NEAR(sqrt(off / size), 0, 1e-12);
        for (int i = 0; i < D; i++)
            diagonal += basis[i * D + r - 1] * moved[i * D + r - 1];
        CHECK_NEAR(diagonal / weight[r - 1], 1, 1e-9);    /* triangular in this basis, the weights on its diagonal */
    }
}

TEST(basis_is_orthonormal_with_positive_largest_entries)
{
    double cov[D * D], obs[D * D], weight[D], basis[D * D], p[D * D], one[D * D] = {0};
    example(4, cov, obs);
    CHECK_OK(ace_core(D, cov, obs, weight, basis));
    projector(D, D, basis, p);
    for (int j = 0; j < D; j++) {
        double largest = 0;
        one[j * (D + 1)] = 1;
        for (int i = 0; i < D; i++)
            if (fabs(basis[i * D + j]) > fabs(largest))
                largest = basis[i * D + j];
        CHECK(largest > 0);
        CHECK(j == 0 || weight[j] <= weight[j - 1]);
        CHECK(weight[j] > 0);
    }
    CHECK_NEAR(distance(D * D, p, one), 0, 1e-13);
}

TEST(rotated_activations_have_a_rotated_core)
{
    double cov[D * D], obs[D * D], weight[D], basis[D * D], g[D * D], x[D * D], triangle[D * D], gt[D * D], half[D * D];
    double cov_g[D * D], obs_g[D * D], weight_g[D], basis_g[D * D], turned[D * D], p[D * D], p_g[D * D];
    example(D, cov, obs);
    CHECK_OK(ace_core(D, cov, obs, weight, basis));
    normals(3, D * D, x);
    CHECK_OK(factor_qr(D, D, x, g, triangle));
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++)
            gt[i * D + j] = g[j * D + i];
    product(D, D, D, g, cov, half);
    product(D, D, D, half, gt, cov_g);
    product(D, D, D, g, obs, half);
    product(D, D, D, half, gt, obs_g);
    CHECK_OK(ace_core(D, cov_g, obs_g, weight_g, basis_g));
    product(D, D, D, g, basis, turned);
    for (int r = 1; r <= D; r++) {
        CHECK_NEAR(weight_g[r - 1] / weight[r - 1], 1, 1e-9);
        projector(D, r, turned, p);
        projector(D, r, basis_g, p_g);
        CHECK_NEAR(distance(D * D, p, p_g), 0, 1e-9);
    }
}

TEST(scaling_multiplies_weights_and_leaves_the_core)
{
    double cov[D * D], obs[D * D], weight[D], basis[D * D], weight_2[D], basis_2[D * D];
    example(D, cov, obs);
    CHECK_OK(ace_core(D, cov, obs, weight, basis));
    for (int i = 0; i < D * D; i++) {
        cov[i] *= 9;
        obs[i] *= 1e-6;
    }
    CHECK_OK(ace_core(D, cov, obs, weight_2, basis_2));
    for (int i = 0; i < D; i++)
        CHECK_NEAR(weight_2[i] / (9e-6 * weight[i]), 1, 1e-10);
    CHECK_NEAR(distance(D * D, basis, basis_2), 0, 1e-9);
}

TEST(without_variance_or_influence_there_is_no_core)
{
    double cov[D * D], obs[D * D], zero[D * D] = {0}, weight[D], basis[D * D];
    example(D, cov, obs);
    for (int which = 0; which < 3; which++) {
        CHECK_OK(ace_core(D, which == 0 ? cov : zero, which == 1 ? obs : zero, weight, basis));
        CHECK_INT(ace_rank(D, weight, 0.999), 0);
        for (int i = 0; i < D; i++)
            for (int j = 0; j < D; j++)
                CHECK_NEAR(basis[i * D + j], i == j, 0);
    }
}

TEST(a_single_coordinate_is_its_own_core)
{
    double cov = 4, obs = 0.25, weight, basis;
    CHECK_OK(ace_core(1, &cov, &obs, &weight, &basis));
    CHECK_NEAR(weight, 1 + 2e-8, 1e-15);
    CHECK_NEAR(basis, 1, 0);
    CHECK_INT(ace_rank(1, &weight, 0.999), 1);
}

TEST(not_finite_matrices_are_refused)
{
    const double bad[3] = {NAN, INFINITY, -INFINITY};
    double cov[D * D], obs[D * D], weight[D], basis[D * D];
    for (int i = 0; i < 6; i++) {
        example(D, cov, obs);
        (i % 2 ? cov : obs)[D + 3] = bad[i / 2];
        CHECK_INT(ace_core(D, cov, obs, weight, basis), STATUS_NUMERIC);
        CHECK_HAS(status_text(), "not finite");
    }
    for (int i = 0; i < D * D; i++)
        cov[i] = obs[i] = i % (D + 1) ? 0 : 1e200;
    CHECK_INT(ace_core(D, cov, obs, weight, basis), STATUS_NUMERIC);
    CHECK_HAS(status_text(), "overflow");
}

TEST(rank_is_the_smallest_that_reaches_the_energy)
{
    const double w[4] = {4, 2, 1, 1}, zero[3] = {0}, one[3] = {5, 0, 0}, equal[3] = {0.1, 0.1, 0.1};
    CHECK_INT(ace_rank(4, w, 0.5), 1);
    CHECK_INT(ace_rank(4, w, 0.5000001), 2);
    CHECK_INT(ace_rank(4, w, 0.75), 2);
    CHECK_INT(ace_rank(4, w, 0.875), 3);
    CHECK_INT(ace_rank(4, w, 0.9), 4);
    CHECK_INT(ace_rank(4, w, 1), 4);
    CHECK_INT(ace_rank(4, w, 0), 1);
    CHECK_INT(ace_rank(3, zero, 0.9), 0);
    CHECK_INT(ace_rank(3, zero, 0), 0);
    CHECK_INT(ace_rank(3, one, 1), 1);
    CHECK_INT(ace_rank(3, equal, 1), 3);
}

/* The checks after each factorisation are alive: an input that LAPACK takes without complaint, but that is not what it
 * says it is, does not pass. */
TEST(a_wrong_factorisation_is_noticed)
{
    double a[D * D], value[D], vector[D * D];
    normals(5, D * D, a);
    CHECK_INT(factor_symmetric(D, a, value, vector), STATUS_NUMERIC);
    CHECK_HAS(status_text(), "residual");
}

TEST(factorisations_of_every_shape_multiply_back)
{
    double a[D * D], u[D * D], s[D], vt[D * D], back[D * D], scaled[D * D];
    for (int rows = 1; rows <= D; rows++)
        for (int cols = 1; cols <= D; cols++) {
            int k = rows < cols ? rows : cols;
            normals((uint32_t)(100 + rows * D + cols), (size_t)(rows * cols), a);
            CHECK_OK(factor_svd(rows, cols, a, u, s, vt));
            for (int i = 0; i < k; i++)
                for (int j = 0; j < cols; j++)
                    scaled[i * cols + j] = s[i] * vt[i * cols + j];
            product(rows, k, cols, u, scaled, back);
            CHECK_NEAR(distance(rows * cols, a, back), 0, 1e-13);
            if (rows < cols)
                continue;
            CHECK_OK(factor_qr(rows, cols, a, u, vt));
            product(rows, cols, cols, u, vt, back);
            CHECK_NEAR(distance(rows * cols, a, back), 0, 1e-13);
            for (int i = 1; i < cols; i++)
                CHECK_NEAR(vt[i * cols + i - 1], 0, 0);
        }
    CHECK_INT(memory_balance(), 0);
}
