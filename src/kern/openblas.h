/* openblas.h: inside the kern room: tables whose matrix products are OpenBLAS's (train.gemm: openblas). */
#ifndef INVAR_KERN_OPENBLAS_H
#define INVAR_KERN_OPENBLAS_H

#include "kern/kern.h"

/* Tells OpenBLAS to use one thread.   fails: STATUS_ENVIRONMENT when the BLAS of this process is another one */
enum status openblas_begin(void);

/* The table `own` with pack, pack_transposed, gemm and gemm_tn exchanged. */
struct kern_f32 openblas_products_f32(const struct kern_f32 *own);
struct kern_f64 openblas_products_f64(const struct kern_f64 *own);

#endif
