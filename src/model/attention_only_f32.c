/* attention_only_f32.c: the attention_only kind, row by row, in float. */
typedef float real;
#define PRECISION f32

#include "model/attention_only.inc"
