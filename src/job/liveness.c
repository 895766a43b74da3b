#include "job/liveness.h"

#include "base/memory.h"

#include <math.h>

struct liveness {
    double seconds, last;
    double awake;            /* seconds that the watcher has watched */
    bool began;
    double *heard;           /* [workers] value of `awake` when it was last heard */
};

struct liveness *liveness_new(int workers, double seconds)
{
    struct liveness *l = memory_new(1, sizeof *l);
    l->seconds = seconds;
    l->heard = memory_new((size_t)workers, sizeof *l->heard);
    return l;
}

void liveness_free(struct liveness *l)
{
    if (!l)
        return;
    memory_free(l->heard);
    memory_free(l);
}

void liveness_awake(struct liveness *l, double now)
{
    if (l->began)
        l->awake += fmin(fmax(now - l->last, 0), l->seconds / 8);
    l->began = true;
    l->last = now;
}

void liveness_heard(struct liveness *l, int worker) { l->heard[worker] = l->awake; }

bool liveness_silent(const struct liveness *l, int worker) { return l->awake - l->heard[worker] > l->seconds; }
