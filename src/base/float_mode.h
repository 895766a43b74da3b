/* float_mode.h: what this thread does with subnormal numbers.
 *
 * Optimiser moments decay through the subnormal range, where common processors are tens of times slower; training
 * flushes them to zero. The mode is part of the arithmetic, so a training sets it itself and puts the old one back.
 */
#ifndef INVAR_BASE_FLOAT_MODE_H
#define INVAR_BASE_FLOAT_MODE_H

#include <stdint.h>

/* Flushes subnormal operands and results to zero in this thread; returns the mode before, for float_mode_restore.
 * Does nothing on processors that it does not know (float_mode_flushes then says 0). */
uint64_t float_mode_flush(void);
void float_mode_restore(uint64_t before);

/* Whether this thread flushes subnormals now. */
int float_mode_flushes(void);
/* Whether float_mode_flush has an effect on this processor: how trainings are done here, for the record. */
int float_mode_can_flush(void);

#endif
