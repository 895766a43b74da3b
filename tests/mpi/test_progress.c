/* The progress file that status reads, the times it prints, and what a quiet launch leaves. */
#include "check.h"

#include "base/memory.h"
#include "mpi/progress.h"
#include "store/lease.h"

#include <sys/stat.h>

TEST(progress_times)
{
    static const struct { double seconds; const char *text; } cases[] = {
        {0, "0:00"}, {7.4, "0:07"}, {59.6, "1:00"}, {720, "12:00"}, {11100, "3:05:00"}, {183900, "2d 03:05:00"},
        {NAN, "?"}, {INFINITY, "?"}, {-1, "?"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text t = {0};
        progress_add_time(&t, cases[i].seconds);
        CHECK_TEXT(text_string(&t), cases[i].text);
        text_free(&t);
    }
}

TEST(progress_file_says_rate_and_running_tiles)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = memory_format("%s/invar-progress.XXXXXX", tmp ? tmp : "/tmp");
    CHECK(mkdtemp(dir) != NULL);
    struct lease *lease;
    CHECK_OK(lease_take(dir, &(struct lease_terms){0}, &lease));
    struct progress_setup setup = {.dir = dir, .quiet = true, .runs = 10, .outcome = {[OUTCOME_DONE] = 2}, .seconds = 8};
    struct progress *p = progress_new(&setup);
    struct progress_file f;
    CHECK(progress_read(dir, &f));
    CHECK(isnan(f.runs_per_second));
    CHECK(isnan(f.seconds_left));
    memory_free(f.ids);
    usleep(2100000);             /* the file is written every two seconds */
    progress_run(p, OUTCOME_DONE, 1, true);      /* of an earlier launch: no rate in it */
    progress_run(p, OUTCOME_DONE, 1, false);
    progress_run(p, OUTCOME_DIVERGED, 1, false);
    const char *ids[] = {"aa", "bb"};
    CHECK(progress_due(p));
    progress_tick(p, &(struct progress_now){.seconds = 2, .quarantined = 4, .tiles = 2, .id = ids});
    CHECK(!progress_due(p));
    CHECK(progress_read(dir, &f));
    CHECK(f.runs_per_second > 0.2 && f.runs_per_second < 2 / 2.1);
    /* Of 8 seconds of work 5 are done, 4 of them in this launch's time: 3 are left. */
    CHECK_NEAR(f.seconds_left * f.runs_per_second, 3.0 * 2 / 4, 1e-2);
    CHECK_INT(f.launches, 1);
    CHECK_INT(f.quarantined, 4);
    CHECK_HAS(f.ids, "\"aa\"");
    CHECK_HAS(f.ids, "\"bb\"");
    memory_free(f.ids);
    lease_release(lease);
    CHECK(progress_read(dir, &f));       /* without its lease it trains nothing */
    CHECK_INT(f.launches, 0);
    CHECK_TEXT(f.ids, "");
    memory_free(f.ids);
    progress_free(p);
    CHECK(progress_read(dir, &f));
    CHECK(strstr(f.ids, "aa") == NULL);
    memory_free(f.ids);
    char *path = memory_format("%s/progress.json", dir);
    CHECK_INT(unlink(path), 0);
    memory_free(path);
    path = memory_format("%s/lock", dir);
    CHECK_INT(unlink(path), 0);
    memory_free(path);
    CHECK_INT(rmdir(dir), 0);    /* nothing else was left */
    CHECK(!progress_read(dir, &f));
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

static void write_part(const char *dir, int part, const char *text)
{
    char *path = memory_format("%s/progress.%d-of-3.json", dir, part);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fputs(text, f);
    CHECK_INT(fclose(f), 0);
    memory_free(path);
}

/* Parts 1 and 2 work, part 3 has ended: the two together, and the longer of their times. */
TEST(progress_of_parts_is_added_up)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = memory_format("%s/invar-parts.XXXXXX", tmp ? tmp : "/tmp");
    CHECK(mkdtemp(dir) != NULL);
    struct lease *one, *two;
    struct progress_file f;
    CHECK_OK(lease_take(dir, &(struct lease_terms){.part = 1, .parts = 3}, &one));
    CHECK_OK(lease_take(dir, &(struct lease_terms){.part = 2, .parts = 3}, &two));
    write_part(dir, 1, "{\"runs_per_second\": 0.5, \"seconds_left\": 10, \"quarantined\": 1, \"tiles\": [\"aa\"]}");
    write_part(dir, 2, "{\"runs_per_second\": 0.25, \"seconds_left\": 40, \"quarantined\": 2, \"tiles\": [\"bb\"]}");
    write_part(dir, 3, "{\"runs_per_second\": 8, \"seconds_left\": 99, \"quarantined\": 4, \"tiles\": [\"cc\"]}");
    CHECK(progress_read(dir, &f));
    CHECK_INT(f.launches, 2);
    CHECK_NEAR(f.runs_per_second, 0.75, 1e-12);
    CHECK_NEAR(f.seconds_left, 40, 1e-12);
    CHECK_INT(f.quarantined, 3);
    CHECK_HAS(f.ids, "\"aa\"");
    CHECK_HAS(f.ids, "\"bb\"");
    CHECK(strstr(f.ids, "cc") == NULL);
    memory_free(f.ids);
    lease_release(one);
    lease_release(two);
    char *command = memory_format("rm -r '%s'", dir);
    CHECK_INT(system(command), 0);
    memory_free(command);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}
