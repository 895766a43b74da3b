/* Matrix products against a naive double twin and OpenBLAS, over random shapes and row distances. */
#include "kern_test.h"

#include <cblas.h>

#define real float
#define P f32
#define EPSILON 0x1p-23
#define BLAS(name) cblas_s##name
#include "gemm_cases.inc"
#undef real
#undef P
#undef EPSILON
#undef BLAS

#define real double
#define P f64
#define EPSILON 0x1p-52
#define BLAS(name) cblas_d##name
#include "gemm_cases.inc"

TEST(gemm_f32_matches_naive_and_blas)
{
    const struct kern_f32 *k;
    for (int i = 0; kern_isa_at(i); i++)
        if (kernels_of(kern_isa_at(i), &k, NULL))
            gemm_cases_f32(k, strcmp(kern_isa_at(i), "scalar") ? 300 : 40);
}

TEST(gemm_f64_matches_naive_and_blas)
{
    const struct kern_f64 *k;
    for (int i = 0; kern_isa_at(i); i++)
        if (kernels_of(kern_isa_at(i), NULL, &k))
            gemm_cases_f64(k, strcmp(kern_isa_at(i), "scalar") ? 300 : 40);
}

/* The back end: the same contract, through the library itself. */
TEST(openblas_products_match_naive)
{
    const struct kern_f32 *f32, *own;
    const struct kern_f64 *f64;
    CHECK_OK(kern_get(&own, NULL));
    CHECK_OK(kern_use_openblas(1));
    CHECK_OK(kern_get(&f32, &f64));
    CHECK(f32->gemm != own->gemm && f32->norm_forward == own->norm_forward);
    gemm_cases_f32(f32, 200);
    gemm_cases_f64(f64, 200);
    float bias[2] = {1, 2}, c[2] = {9, 9}, a[1] = {0}, packed[64] = {0};
    f32->gemm(1, 2, 0, a, 1, packed, bias, 0, c, 2);
    CHECK(c[0] == 1 && c[1] == 2);
    f32->gemm(1, 2, 0, a, 1, packed, NULL, 0, c, 2);
    CHECK(c[0] == 0 && c[1] == 0);
    CHECK_OK(kern_use_openblas(0));
    CHECK_OK(kern_get(&f32, NULL));
    CHECK(f32 == own);
}

TEST(gemm_depth_zero_gives_the_start)
{
    const struct kern_f32 *k;
    CHECK_OK(kern_get(&k, NULL));
    float bias[5] = {1, 2, 3, 4, 5}, c[2][5] = {{9, 9, 9, 9, 9}, {9, 9, 9, 9, 9}}, a[2] = {0}, packed[64] = {0};
    k->gemm(2, 5, 0, a, 1, packed, bias, 0, &c[0][0], 5);
    for (int j = 0; j < 5; j++)
        CHECK(c[0][j] == bias[j] && c[1][j] == bias[j]);
    k->gemm(2, 5, 0, a, 1, packed, NULL, 0, &c[0][0], 5);
    CHECK(c[1][4] == 0);
}
