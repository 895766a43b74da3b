/* single_f32.c: one-layer decoders through tables, in float. */
typedef float real;
#define PRECISION f32

#include "model/single.inc"
