/* scalapack.h: the routines of ScaLAPACK, PBLAS and BLACS that are used here. Debian, and most clusters, ship no C
 * headers.
 *
 * Fortran takes everything by address. PBLAS is written in C and reads one character of each text. pdgesvd is written
 * in Fortran: the lengths of its two texts come last, as gfortran passes them.
 */
#ifndef INVAR_ANALYSIS_SCALAPACK_H
#define INVAR_ANALYSIS_SCALAPACK_H

#include <mpi.h>
#include <stddef.h>

/* BLACS, C interface */
int Csys2blacs_handle(MPI_Comm comm);
void Cfree_blacs_system_handle(int handle);
void Cblacs_gridinit(int *context, const char *order, int rows, int cols);
void Cblacs_gridinfo(int context, int *rows, int *cols, int *row, int *col);
void Cblacs_gridexit(int context);
void Cblacs_set(int context, int what, const int *value);
enum { BLACS_REPEATABLE = 15, BLACS_COHERENT = 16 };         /* SGET_TOPSREPEAT and SGET_TOPSCOHRNT of BLACS */

/* Tools */
void descinit_(int *desc, const int *m, const int *n, const int *mb, const int *nb, const int *first_row,
               const int *first_col, const int *context, const int *lld, int *info);

/* PBLAS: C <- alpha op(A) op(B) + beta C */
void pdgemm_(const char *trans_a, const char *trans_b, const int *m, const int *n, const int *k, const double *alpha,
             const double *a, const int *ia, const int *ja, const int *desc_a, const double *b, const int *ib,
             const int *jb, const int *desc_b, const double *beta, double *c, const int *ic, const int *jc,
             const int *desc_c);

/* ScaLAPACK: A = U diag(s) V' */
void pdgesvd_(const char *job_u, const char *job_vt, const int *m, const int *n, double *a, const int *ia,
              const int *ja, const int *desc_a, double *s, double *u, const int *iu, const int *ju, const int *desc_u,
              double *vt, const int *ivt, const int *jvt, const int *desc_vt, double *work, const int *lwork,
              int *info, size_t length_job_u, size_t length_job_vt);

#endif
