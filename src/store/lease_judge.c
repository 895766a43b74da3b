/* The judgement of a lease: no files, no clock. */
#include "store/lease.h"

#include <math.h>

#define COUNTED_SECONDS 1.0          /* of the time between two looks */

static enum lease_verdict watch(struct lease_watch *w, const struct lease_look *look, double now, double seconds)
{
    bool moved = w->looked && (look->id != w->id || look->counter != w->counter);
    if (!w->looked || moved)
        w->still = 0;
    else
        w->still += fmin(fmax(now - w->last, 0), COUNTED_SECONDS);
    w->looked = true;
    w->id = look->id;
    w->counter = look->counter;
    w->last = now;
    if (moved)
        return LEASE_ALIVE;
    return w->still >= seconds ? LEASE_LAPSED : LEASE_UNSURE;
}

enum lease_verdict lease_judge(struct lease_watch *w, const struct lease_look *look, double now, double seconds)
{
    if (look->id == 0 && !look->locked)
        return LEASE_FREE;
    if (look->id == 0)                       /* just taken, and not written yet */
        return LEASE_ALIVE;
    if (look->here && !look->locked)
        return LEASE_FREE;
    if (look->here && !look->stopped)
        return LEASE_ALIVE;
    return watch(w, look, now, seconds);
}
