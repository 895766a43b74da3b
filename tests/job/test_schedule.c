/* The scheduler's decisions one by one; whole clusters are simulated in test_schedule_simulated.c. */
#include "base/memory.h"
#include "job/schedule.h"

#include "check.h"

TEST(time_limit_chooses_what_ends_in_time)
{
    const double seconds[] = {100.0, 50.0, 1.5, 0.5};
    struct schedule *s = schedule_new(4, seconds, 8);
    size_t tile = 99;
    CHECK_INT(schedule_next(s, 0, 60.0, &tile), SCHEDULE_TRAIN);      /* the longest that ends */
    CHECK_INT(tile, 1);
    CHECK_INT(schedule_next(s, 1, 1.0, &tile), SCHEDULE_TRAIN);
    CHECK_INT(tile, 3);
    CHECK_INT(schedule_next(s, 2, 1.0, &tile), SCHEDULE_WAIT);        /* tiles may come back */
    CHECK_INT(schedule_next(s, 2, SCHEDULE_USEFUL_SECONDS, &tile), SCHEDULE_TRAIN);
    CHECK_INT(tile, 2);
    CHECK_INT(schedule_next(s, 3, SCHEDULE_USEFUL_SECONDS, &tile), SCHEDULE_TRAIN);   /* to its checkpoint */
    CHECK_INT(tile, 0);
    schedule_returned(s, 3, 0);
    CHECK_INT(schedule_next(s, 3, 1.0, &tile), SCHEDULE_WAIT);
    schedule_finished(s, 0, 1);
    schedule_finished(s, 1, 3);
    schedule_finished(s, 2, 2);
    CHECK_INT(schedule_next(s, 3, 1.0, &tile), SCHEDULE_FINISHED);    /* one is open, but can never be begun */
    CHECK_INT(schedule_count(s).open, 1);
    schedule_free(s);
}

TEST(fetching_ahead_is_for_short_tiles_while_there_are_many)
{
    const double seconds[] = {60.0, 9.0, 8.0, 7.0, 6.0};
    struct schedule *s = schedule_new(5, seconds, 2);
    size_t tile;
    CHECK_INT(schedule_next(s, 0, INFINITY, &tile), SCHEDULE_TRAIN);
    CHECK_INT(tile, 0);
    CHECK_INT(schedule_next(s, 0, INFINITY, &tile), SCHEDULE_TRAIN);
    CHECK_INT(tile, 1);
    CHECK_INT(schedule_next(s, 0, INFINITY, &tile), SCHEDULE_WAIT);   /* it holds two */
    CHECK_INT(schedule_next(s, 1, INFINITY, &tile), SCHEDULE_TRAIN);
    CHECK_INT(tile, 2);
    CHECK_INT(schedule_next(s, 1, INFINITY, &tile), SCHEDULE_TRAIN);
    schedule_finished(s, 1, 2);
    CHECK_INT(schedule_next(s, 1, INFINITY, &tile), SCHEDULE_WAIT);   /* one is open: for whoever is idle first */
    schedule_finished(s, 1, 3);
    CHECK_INT(schedule_next(s, 1, INFINITY, &tile), SCHEDULE_TRAIN);
    schedule_free(s);
    const double longer[] = {60.0, 50.0, 40.0, 30.0};
    s = schedule_new(4, longer, 1);
    CHECK_INT(schedule_next(s, 0, INFINITY, &tile), SCHEDULE_TRAIN);
    CHECK_INT(schedule_next(s, 0, INFINITY, &tile), SCHEDULE_WAIT);   /* too long to be kept waiting */
    schedule_free(s);
}

TEST(late_and_double_reports_are_harmless)
{
    const double seconds[] = {3.0, 2.0, 1.0};
    struct schedule *s = schedule_new(3, seconds, 3);
    size_t tile;
    schedule_next(s, 0, INFINITY, &tile);
    schedule_lost(s, 0);
    CHECK_INT(schedule_strikes(s, 0), 1);
    CHECK_INT(schedule_next(s, 1, INFINITY, &tile), SCHEDULE_TRAIN);
    CHECK_INT(tile, 0);
    schedule_failed(s, 0, 0);                     /* late: worker 1 has it now */
    CHECK_INT(schedule_count(s).failed, 0);
    schedule_returned(s, 0, 0);
    CHECK_INT(schedule_count(s).running, 1);
    schedule_finished(s, 0, 0);                   /* late, but finished is finished */
    CHECK_INT(schedule_count(s).finished, 1);
    schedule_finished(s, 0, 0);
    schedule_finished(s, 1, 0);
    schedule_failed(s, 1, 0);
    schedule_lost(s, 1);
    CHECK_INT(schedule_count(s).finished, 1);
    CHECK_INT(schedule_count(s).open, 2);
    CHECK_INT(schedule_strikes(s, 0), 1);
    schedule_next(s, 2, INFINITY, &tile);
    schedule_failed(s, 2, tile);
    schedule_failed(s, 2, tile);
    CHECK_INT(schedule_count(s).failed, 1);
    schedule_finished(s, 0, tile);                /* another copy of it ended well */
    CHECK_INT(schedule_count(s).failed, 0);
    CHECK_INT(schedule_count(s).finished, 2);
    schedule_stop(s);
    CHECK_INT(schedule_next(s, 2, INFINITY, &tile), SCHEDULE_FINISHED);
    CHECK_INT(schedule_count(s).open, 1);
    schedule_free(s);
}

TEST(the_tile_fetched_ahead_is_not_to_blame)
{
    const double seconds[] = {3.0, 2.0, 1.0, 1.0};
    struct schedule *s = schedule_new(4, seconds, 1);
    size_t tile;
    for (int death = 1; death <= SCHEDULE_STRIKES; death++) {
        CHECK_INT(schedule_next(s, 0, INFINITY, &tile), SCHEDULE_TRAIN);
        CHECK_INT(tile, 0);
        CHECK_INT(schedule_next(s, 0, INFINITY, &tile), SCHEDULE_TRAIN);
        CHECK_INT(tile, 1);
        schedule_lost(s, 0);
        schedule_lost(s, 0);                      /* said twice, counted once */
        CHECK_INT(schedule_strikes(s, 0), death);
        CHECK_INT(schedule_strikes(s, 1), 0);
    }
    CHECK(schedule_quarantined(s, 0));
    CHECK_INT(schedule_count(s).open, 3);
    schedule_finished(s, 0, 0);
    CHECK(!schedule_quarantined(s, 0));
    schedule_free(s);
}

TEST(no_tiles_at_all)
{
    struct schedule *s = schedule_new(0, NULL, 4);
    size_t tile;
    CHECK_INT(schedule_next(s, 3, INFINITY, &tile), SCHEDULE_FINISHED);
    schedule_free(s);
    CHECK_INT(memory_balance(), 0);
}
