/* attention_only_f64.c: the attention_only kind, row by row, in double. */
typedef double real;
#define PRECISION f64

#include "model/attention_only.inc"
