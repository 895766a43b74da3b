/* The progress file that status reads, the times it prints, and what a quiet launch leaves. */
#include "check.h"

#include "base/memory.h"
#include "mpi/progress.h"

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
    CHECK_INT(f.quarantined, 4);
    CHECK_HAS(f.ids, "\"aa\"");
    CHECK_HAS(f.ids, "\"bb\"");
    memory_free(f.ids);
    progress_free(p);
    CHECK(progress_read(dir, &f));
    CHECK(strstr(f.ids, "aa") == NULL);
    memory_free(f.ids);
    char *path = memory_format("%s/progress.json", dir);
    CHECK_INT(unlink(path), 0);
    memory_free(path);
    CHECK_INT(rmdir(dir), 0);    /* nothing else was left */
    CHECK(!progress_read(dir, &f));
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}
