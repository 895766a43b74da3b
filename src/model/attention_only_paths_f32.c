/* attention_only_paths_f32.c: the attention_only kind by paths, in float. */
typedef float real;
#define PRECISION f32

#include "model/attention_only_paths.inc"
