/* decoder_f32.c: the decoder in float. */
typedef float real;
#define PRECISION f32

#include "model/decoder.inc"
