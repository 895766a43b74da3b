/* decoder_f64.c: the decoder in double. */
typedef double real;
#define PRECISION f64

#include "model/decoder.inc"
