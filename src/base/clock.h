/* clock.h: the monotonic clock of this machine, in seconds. Wall clocks jump, and no two machines agree on theirs. */
#ifndef INVAR_BASE_CLOCK_H
#define INVAR_BASE_CLOCK_H

#include <time.h>

/* Seconds since some moment in the past. */
double clock_now(void);
/* Sleeps; a signal ends it early. */
void clock_rest(double seconds);
/* The moment `seconds` from now, for waits on a condition that uses CLOCK_MONOTONIC. */
struct timespec clock_in(double seconds);

#endif
