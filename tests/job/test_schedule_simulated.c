/* The scheduler in simulated clusters (cluster.h): every tile once, no livelock, little idling, whatever breaks. */
#include "cluster.h"

#include <time.h>

TEST(without_trouble_every_tile_is_trained_once)
{
    const int workers[] = {1, 2, 7, 100, 10000};
    for (int i = 0; i < 5; i++) {
        struct world w = {.workers = workers[i], .tiles = 20000, .latency = 1e-3, .timeout = 1e9, .seed = 100 + (uint64_t)i};
        struct cluster *m = cluster_run(w);
        check_end(m);
        for (size_t t = 0; t < w.tiles; t++)
            if (m->trainings[t] != 1)
                CHECK_FAIL("seed %llu: tile %zu was trained %d times", (unsigned long long)w.seed, t, m->trainings[t]);
        /* Graham's bound for list scheduling, and what fetching ahead may add to it */
        double total = 0.0, end = 0.0;
        for (size_t t = 0; t < w.tiles; t++)
            total += m->seconds[t];
        for (int k = 0; k < w.workers; k++)
            end = fmax(end, m->worker[k].last_end);
        double messages = 4.0 * w.latency * (2.0 + 2.0 * (double)w.tiles / w.workers);
        CHECK(end <= total / w.workers + m->seconds[0] + SCHEDULE_AHEAD_SECONDS + messages);
        CHECK(end >= total / w.workers);
        cluster_free(m);
    }
    CHECK_INT(memory_balance(), 0);
}

TEST(the_tail_is_short_for_unequal_workers)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct world w = {.workers = 500, .tiles = 20000, .latency = 1e-3, .speed_spread = 0.5, .timeout = 1e9, .seed = seed};
        struct cluster *m = cluster_run(w);
        check_end(m);
        double idle = idle_share(m);
        printf("# seed %llu: idle share of the tail %.4f\n", (unsigned long long)seed, idle);
        CHECK(idle < 0.01);
        cluster_free(m);
    }
}

TEST(deaths_poison_and_broken_tiles)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct world w = {.workers = 400 + 800 * (int)(seed % 4), .tiles = 6000, .latency = 1e-3, .speed_spread = 0.4,
                          .death_rate = 0.01, .poison = 20, .broken = 30, .timeout = 15.0, .seed = seed};
        struct cluster *m = cluster_run(w);
        check_end(m);
        struct schedule_counts c = schedule_count(m->s);
        CHECK_INT(c.failed, w.broken);
        for (size_t t = 0; t < w.poison; t++)
            CHECK_INT(m->deaths[t], SCHEDULE_STRIKES);
        for (size_t t = w.poison; t < w.tiles; t++)
            if (schedule_quarantined(m->s, t) && m->deaths[t] != SCHEDULE_STRIKES)
                CHECK_FAIL("seed %llu: tile %zu is quarantined, but %d workers died in it", (unsigned long long)seed, t,
                           m->deaths[t]);
        cluster_free(m);
    }
    CHECK_INT(memory_balance(), 0);
}

TEST(bad_lines_stalls_and_deaths_together)
{
    for (uint64_t seed = 1; seed <= 24; seed++) {
        struct world w = {.workers = 50 + 150 * (int)(seed % 3), .tiles = 3000, .latency = 5e-3, .speed_spread = 0.5,
                          .death_rate = 0.002, .stall_rate = 0.01, .loss_rate = 0.02 * (double)(seed % 4),
                          .double_rate = 0.03 * (double)(seed % 2), .late_rate = 0.02 * (double)(seed % 5), .late = 40.0,
                          .poison = 3, .broken = 5, .timeout = 15.0, .seed = 1000 + seed};
        struct cluster *m = cluster_run(w);
        check_end(m);
        cluster_free(m);
    }
}

TEST(ten_thousand_workers_and_a_storm)
{
    struct world w = {.workers = 10000, .tiles = 40000, .latency = 2e-3, .speed_spread = 0.5, .death_rate = 0.02,
                      .stall_rate = 0.005, .loss_rate = 0.01, .double_rate = 0.01, .late_rate = 0.01, .late = 30.0,
                      .poison = 50, .broken = 50, .timeout = 20.0, .seed = 4711};
    struct cluster *m = cluster_run(w);
    check_end(m);
    printf("# %.3f of the tiles were trained again\n", repeated_share(m));
    cluster_free(m);
}

/* An hour on 10,000 cores of 157 nodes, of which some are slow and some die with all their workers; ranks die and stand still;
 * messages are lost, doubled and late. The survivors idle less than 2 % of their time at the end: a loss that is noticed after
 * half a minute, and a tile that a slow worker began late, take a minute of the hour. */
TEST(ten_thousand_workers_idle_little_at_the_end)
{
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct world w = {.workers = 10000, .tiles = 280000, .shortest = 2.0, .longest = 240.0, .latency = 1e-3,
                          .speed_spread = 0.2, .node_workers = 64, .slow_nodes = 0.05, .slow = 0.5, .node_rate = 1e-5,
                          .death_rate = 1e-3, .stall_rate = 1e-4, .loss_rate = 1e-3, .double_rate = 1e-3, .late_rate = 1e-3,
                          .late = 20.0, .poison = 3, .broken = 5, .timeout = 30.0, .seed = seed};
        struct cluster *m = cluster_run(w);
        check_end(m);
        double idle = idle_share(m);
        printf("# seed %llu: %.0f s, idle share at the end %.4f, trained again %.4f, taken for lost wrongly %d\n",
               (unsigned long long)seed, m->ended, idle, repeated_share(m), m->lost_wrongly);
        CHECK(idle < 0.02);
        CHECK(schedule_count(m->s).quarantined >= w.poison);
        cluster_free(m);
    }
}

TEST(a_hundred_thousand_tiny_tiles_go_through_ten_thousand_workers)
{
    struct world w = {.workers = 10000, .tiles = 100000, .shortest = 0.05, .longest = 0.2, .latency = 1e-3,
                      .speed_spread = 0.3, .death_rate = 1e-3, .timeout = 30.0, .seed = 77};
    struct cluster *m = cluster_run(w);
    check_end(m);
    cluster_free(m);
}

TEST(a_hundred_thousand_tiles_take_well_under_a_second)
{
    const size_t tiles = 100000;
    double *seconds = memory_new(tiles, sizeof *seconds);
    for (size_t t = 0; t < tiles; t++)
        seconds[t] = (double)(tiles - t);
    clock_t start = clock();
    struct schedule *s = schedule_new(tiles, seconds, 1000);
    size_t tile, done = 0;
    while (schedule_next(s, (int)(done % 1000), 1e4 + (double)(done % 7) * 1e4, &tile) == SCHEDULE_TRAIN) {
        schedule_finished(s, (int)(done % 1000), tile);
        done++;
    }
    double took = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("# 100,000 decisions in %.3f s\n", took);
    CHECK_INT(done, tiles);
    CHECK(took < 0.5);
    schedule_free(s);
    memory_free(seconds);
}
