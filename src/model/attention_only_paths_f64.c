/* attention_only_paths_f64.c: the attention_only kind by paths, in double. */
typedef double real;
#define PRECISION f64

#include "model/attention_only_paths.inc"
