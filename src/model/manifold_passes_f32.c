/* manifold_passes_f32.c: the manifold kind in single precision. */
typedef float real;
#define PRECISION f32

#include "model/manifold_passes.inc"
