/* single_f64.c: one-layer decoders through tables, in double. */
typedef double real;
#define PRECISION f64

#include "model/single.inc"
