/* Silence counts while the watcher watches, and not otherwise. */
#include "check.h"

#include "base/memory.h"
#include "job/liveness.h"

TEST(silence_is_noticed_in_time)
{
    struct liveness *l = liveness_new(2, 8);
    double lost_at = 0;
    for (double t = 100; t < 120 && lost_at == 0; t += 0.005) {
        liveness_awake(l, t);
        liveness_heard(l, 0);
        if (liveness_silent(l, 1))
            lost_at = t;
        CHECK(!liveness_silent(l, 0));
    }
    CHECK_NEAR(lost_at, 108, 0.02);
    liveness_heard(l, 1);
    CHECK(!liveness_silent(l, 1));
    liveness_free(l);
    CHECK_INT(memory_balance(), 0);
}

TEST(a_watcher_that_slept_loses_nobody)
{
    struct liveness *l = liveness_new(1, 8);
    liveness_awake(l, 0);
    liveness_awake(l, 3600);
    CHECK(!liveness_silent(l, 0));
    liveness_awake(l, 0);                /* a clock that goes back is harmless */
    CHECK(!liveness_silent(l, 0));
    for (int i = 1; i <= 8; i++)
        liveness_awake(l, 3600 * i);
    CHECK(liveness_silent(l, 0));        /* it has looked nine times and heard nothing */
    liveness_free(l);
}
