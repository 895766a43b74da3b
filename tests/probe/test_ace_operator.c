#include "check.h"

#include "base/memory.h"
#include "base/stream.h"
#include "probe/ace.h"

enum { SEQUENCES = 400, LENGTH = 12, RMAX = 5 };

/* z[t+1] = A z[t] + shift + noise, from random starts.   out: z [SEQUENCES][LENGTH][r] */
static void simulate(int r, const double *a, double shift, double noise, double *z)
{
    struct stream s = stream_open(5, PURPOSE_PROBE, 1);
    for (int k = 0; k < SEQUENCES; k++)
        for (int t = 0; t < LENGTH; t++) {
            double *now = z + (k * LENGTH + t) * r;
            for (int i = 0; i < r; i++) {
                now[i] = t ? shift + noise * stream_normal(&s) : 3 + stream_normal(&s);
                for (int j = 0; t && j < r; j++)
                    now[i] += a[i * r + j] * now[j - r];
            }
        }
}

/* Block diagonal: a damped rotation, three real eigenvalues; mixed by a similarity that is not orthogonal. */
static void planted(double *a)
{
    const double m[RMAX][RMAX] = {{0.75, -0.25, 0, 0, 0}, {0.25, 0.75, 0, 0, 0}, {0, 0, 0.5, 0, 0}, {0, 0, 0, -0.9, 0},
                                  {0, 0, 0, 0, 0.1}};
    double half[RMAX][RMAX];
    /* S = I + strictly lower ones, S^-1 = I - shift down; a = S m S^-1 */
    for (int i = 0; i < RMAX; i++)
        for (int j = 0; j < RMAX; j++) {
            half[i][j] = 0;
            for (int k = 0; k <= i; k++)
                half[i][j] += m[k][j];
        }
    for (int i = 0; i < RMAX; i++)
        for (int j = 0; j < RMAX; j++)
            a[i * RMAX + j] = half[i][j] - (j + 1 < RMAX ? half[i][j + 1] : 0);
}

TEST(an_exact_linear_system_is_recovered)
{
    const double truth[RMAX][2] = {{-0.9, 0}, {0.75, 0.25}, {0.75, -0.25}, {0.5, 0}, {0.1, 0}};
    double a[RMAX * RMAX], matrix[RMAX * RMAX], eigenvalue[RMAX][2], r2;
    double *z = memory_new(SEQUENCES * LENGTH * RMAX, sizeof *z);
    planted(a);
    simulate(RMAX, a, 0.7, 0, z);
    CHECK_OK(ace_operator(SEQUENCES, LENGTH, RMAX, z, matrix, eigenvalue, &r2));
    CHECK_NEAR(r2, 1, 1e-14);
    for (int i = 0; i < RMAX * RMAX; i++)
        CHECK_NEAR(matrix[i], a[i], 1e-11);
    for (int i = 0; i < RMAX; i++) {
        CHECK_NEAR(eigenvalue[i][0], truth[i][0], 1e-11);
        CHECK_NEAR(eigenvalue[i][1], truth[i][1], 1e-11);
    }
    memory_free(z);
    CHECK_INT(memory_balance(), 0);
}

/* One coordinate: slope and R2 are the textbook's. */
TEST(one_coordinate_is_ordinary_regression)
{
    double a = 0.6, matrix, eigenvalue[1][2], r2, sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0;
    double *z = memory_new(SEQUENCES * LENGTH, sizeof *z);
    simulate(1, &a, -2, 1, z);
    for (int k = 0; k < SEQUENCES; k++)
        for (int t = 0; t + 1 < LENGTH; t++) {
            double x = z[k * LENGTH + t], y = z[k * LENGTH + t + 1];
            sx += x, sy += y, sxx += x * x, sxy += x * y, syy += y * y;
        }
    double n = SEQUENCES * (LENGTH - 1), cxy = sxy - sx * sy / n, cxx = sxx - sx * sx / n, cyy = syy - sy * sy / n;
    CHECK_OK(ace_operator(SEQUENCES, LENGTH, 1, z, &matrix, eigenvalue, &r2));
    CHECK_NEAR(matrix, cxy / cxx, 1e-12);
    CHECK_NEAR(eigenvalue[0][0], cxy / cxx, 1e-12);
    CHECK_NEAR(r2, cxy * cxy / cxx / cyy, 1e-12);
    memory_free(z);
}

TEST(invertible_maps_and_shifts_leave_the_eigenvalues)
{
    double a[RMAX * RMAX], matrix[RMAX * RMAX], eigenvalue[RMAX][2], mapped[RMAX][2], r2;
    double *z = memory_new(SEQUENCES * LENGTH * RMAX, sizeof *z);
    planted(a);
    simulate(RMAX, a, 0, 0.5, z);
    CHECK_OK(ace_operator(SEQUENCES, LENGTH, RMAX, z, matrix, eigenvalue, &r2));
    for (int i = 0; i < SEQUENCES * LENGTH; i++)
        for (int j = 0; j < RMAX; j++)
            z[i * RMAX + j] = 10 * z[i * RMAX + j] + (j ? z[i * RMAX + j - 1] : 0) - 40;
    CHECK_OK(ace_operator(SEQUENCES, LENGTH, RMAX, z, matrix, mapped, &r2));
    for (int i = 0; i < 2 * RMAX; i++)
        CHECK_NEAR(mapped[i / 2][i % 2], eigenvalue[i / 2][i % 2], 1e-11);
    memory_free(z);
}

TEST(noise_has_no_operator)
{
    double none[4] = {0}, matrix[4], eigenvalue[2][2], r2;
    double *z = memory_new(SEQUENCES * LENGTH * 2, sizeof *z);
    simulate(2, none, 0, 1, z);
    CHECK_OK(ace_operator(SEQUENCES, LENGTH, 2, z, matrix, eigenvalue, &r2));
    CHECK(r2 >= 0 && r2 < 0.005);              /* expected: coordinates / pairs = 2 / 4400 */
    memory_free(z);
}

TEST(constant_coordinates_are_left_out)
{
    double matrix[4], eigenvalue[2][2], r2, z[6 * 4 * 2];
    for (int k = 0; k < 6; k++)
        for (int t = 0; t < 4; t++) {
            z[(k * 4 + t) * 2] = (k + 1) * pow(0.5, t);
            z[(k * 4 + t) * 2 + 1] = 0.1;
        }
    CHECK_OK(ace_operator(6, 4, 2, z, matrix, eigenvalue, &r2));
    CHECK_NEAR(r2, 1, 1e-14);
    CHECK_NEAR(matrix[0], 0.5, 1e-14);
    for (int i = 1; i < 4; i++)
        CHECK_NEAR(matrix[i], 0, 1e-15);
    for (int i = 0; i < 48; i += 2)
        z[i] = -7.3;
    CHECK_OK(ace_operator(6, 4, 2, z, matrix, eigenvalue, &r2));
    CHECK(isnan(r2));
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(matrix[i], 0, 1e-15);
}

/* Two coordinates that are one: of all matrices that predict alike the one of least norm. */
TEST(dependent_coordinates_get_the_least_norm)
{
    double matrix[4], eigenvalue[2][2], r2, z[6 * 4 * 2];
    for (int k = 0; k < 6; k++)
        for (int t = 0; t < 4; t++)
            z[(k * 4 + t) * 2] = z[(k * 4 + t) * 2 + 1] = (k * k + 1) * pow(0.5, t);
    CHECK_OK(ace_operator(6, 4, 2, z, matrix, eigenvalue, &r2));
    CHECK_NEAR(r2, 1, 1e-13);
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(matrix[i], 0.25, 1e-13);
    CHECK_NEAR(eigenvalue[0][0], 0.5, 1e-13);
    CHECK_NEAR(eigenvalue[1][0], 0, 1e-13);
}

TEST(series_without_pairs_or_with_nan_are_refused)
{
    double matrix[1], eigenvalue[1][2], r2, z[4] = {1, 2, NAN, 3};
    CHECK_INT(ace_operator(4, 1, 1, z, matrix, eigenvalue, &r2), STATUS_NUMERIC);
    CHECK_HAS(status_text(), "pairs");
    CHECK_INT(ace_operator(0, 4, 1, z, matrix, eigenvalue, &r2), STATUS_NUMERIC);
    CHECK_INT(ace_operator(1, 4, 0, z, matrix, eigenvalue, &r2), STATUS_NUMERIC);
    CHECK_INT(ace_operator(1, 4, 1, z, matrix, eigenvalue, &r2), STATUS_NUMERIC);
    CHECK_HAS(status_text(), "not finite");
    CHECK_INT(memory_balance(), 0);
}

/* ---- matching ---- */

static double total(int n, const double *error)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += isnan(error[i]) ? 0 : error[i];
    return sum;
}

/* Least sum over all ways to give each of the fewer a partner among the more. */
static double exhaustive(int fewer, int more, double cost[6][6], int row, unsigned used)
{
    if (row == fewer)
        return 0;
    double best = INFINITY;
    for (int j = 0; j < more; j++)
        if (!(used & 1u << j))
            best = fmin(best, cost[row][j] + exhaustive(fewer, more, cost, row + 1, used | 1u << j));
    return best;
}

TEST(matching_is_the_best_of_all)
{
    struct stream s = stream_open(3, PURPOSE_PROBE, 2);
    for (int round = 0; round < 400; round++) {
        int n = 1 + (int)stream_below(&s, 6), m = 1 + (int)stream_below(&s, 6), partners = 0;
        double x[6][2], truth[6][2], cost[6][6], error[6];
        for (int i = 0; i < 12; i++) {
            x[i / 2][i % 2] = 2 * stream_uniform(&s) - 1;
            truth[i / 2][i % 2] = 2 * stream_uniform(&s) - 1;
        }
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++) {
                double e = hypot(x[i][0] - truth[j][0], x[i][1] - truth[j][1]) / hypot(truth[j][0], truth[j][1]);
                if (n <= m)
                    cost[i][j] = e;
                else
                    cost[j][i] = e;
            }
        ace_match(n, (const double(*)[2])x, m, (const double(*)[2])truth, error);
        for (int i = 0; i < n; i++)
            partners += !isnan(error[i]);
        CHECK_INT(partners, n < m ? n : m);
        CHECK_NEAR(total(n, error), exhaustive(n < m ? n : m, n < m ? m : n, cost, 0, 0), 1e-13);
    }
}

TEST(errors_stand_in_the_order_of_the_eigenvalues)
{
    const double truth[3][2] = {{0.75, 0.25}, {0.75, -0.25}, {0.5, 0}};
    const double x[4][2] = {{0.9, 0}, {0.75, 0.25}, {0.75, -0.2}, {0.45, 0}};
    double error[4];
    ace_match(4, x, 3, truth, error);
    CHECK(isnan(error[0]));
    CHECK_NEAR(error[1], 0, 0);
    CHECK_NEAR(error[2], 0.05 / hypot(0.75, 0.25), 1e-15);
    CHECK_NEAR(error[3], 0.1, 1e-15);
    ace_match(1, x + 3, 3, truth, error);
    CHECK_NEAR(error[0], 0.1, 1e-15);
}

TEST(matching_without_truth_or_against_zero)
{
    const double x[2][2] = {{0.5, 0}, {0.125, 0}}, zero[1][2] = {{0, 0}};
    double error[2] = {0, 0};
    ace_match(2, x, 0, zero, error);
    CHECK(isnan(error[0]) && isnan(error[1]));
    ace_match(2, x, 1, zero, error);
    CHECK(isnan(error[0]));
    CHECK_NEAR(error[1], 0.125, 0);              /* absolute: nothing to be relative to */
    ace_match(0, x, 1, zero, error);
    CHECK_INT(memory_balance(), 0);
}
