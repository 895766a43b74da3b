/* openblas.c: the products of the kernels' tables through OpenBLAS, for processors that it knows better than we do.
 *
 * "Packed" is then B as it stands, [k][n], or its transpose. The library is told to use one thread, whatever the environment
 * says: a rank has one core. Its bits depend on the processor and on its version; version_libraries() names both. */
#include "kern/openblas.h"

#include <cblas.h>
#include <string.h>

/* Absent in any other BLAS. The test is at run time: one library may stand in for another. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));

#define PRODUCTS(P, real, x) \
    static void pack_##P(size_t k, size_t n, const real *b, size_t ldb, real *packed) \
    { \
        for (size_t i = 0; i < k; i++) \
            memcpy(packed + i * n, b + i * ldb, n * sizeof *b); \
    } \
    static void pack_transposed_##P(size_t k, size_t n, const real *b, size_t ldb, real *packed) \
    { \
        for (size_t i = 0; i < k; i++) \
            for (size_t j = 0; j < n; j++) \
                packed[i * n + j] = b[j * ldb + i]; \
    } \
    static void gemm_##P(size_t m, size_t n, size_t k, const real *a, size_t lda, const real *packed, const real *start, \
                         size_t start_ld, real *c, size_t ldc) \
    { \
        for (size_t i = 0; start && start != c && i < m; i++) \
            memcpy(c + i * ldc, start + i * start_ld, n * sizeof *c); \
        for (size_t i = 0; !start && i < m; i++) \
            memset(c + i * ldc, 0, n * sizeof *c); \
        if (m && n && k) \
            cblas_##x##gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1, a, (int)lda, packed, \
                            (int)n, start ? 1 : 0, c, (int)ldc); \
    } \
    static void gemm_tn_##P(size_t m, size_t n, size_t k, const real *a, size_t lda, const real *b, size_t ldb, real *c, \
                            size_t ldc) \
    { \
        if (m && n && k) \
            cblas_##x##gemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1, a, (int)lda, b, (int)ldb, \
                            1, c, (int)ldc); \
    } \
    struct kern_##P openblas_products_##P(const struct kern_##P *own) \
    { \
        struct kern_##P table = *own; \
        table.pack = pack_##P; \
        table.pack_transposed = pack_transposed_##P; \
        table.gemm = gemm_##P; \
        table.gemm_tn = gemm_tn_##P; \
        return table; \
    }
PRODUCTS(f32, float, s)
PRODUCTS(f64, double, d)

enum status openblas_begin(void)
{
    if (!openblas_set_num_threads)
        return status_fail(STATUS_ENVIRONMENT, "train.gemm is openblas, but this program runs with another BLAS: install "
                           "OpenBLAS, or set train.gemm: own");
    openblas_set_num_threads(1);
    return STATUS_OK;
}
