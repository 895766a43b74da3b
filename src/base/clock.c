#include "base/clock.h"

static struct timespec timespec_of(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)(1e9 * (seconds - (double)t.tv_sec));
    return t;
}

double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void clock_rest(double seconds)
{
    struct timespec t = timespec_of(seconds);
    nanosleep(&t, NULL);
}

struct timespec clock_in(double seconds) { return timespec_of(clock_now() + seconds); }
