/* manifold_passes_f64.c: the manifold kind in double. */
typedef double real;
#define PRECISION f64

#include "model/manifold_passes.inc"
