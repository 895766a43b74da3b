/* status on a store that nobody works in: counts, lists, both forms. */
#include "check.h"
#include "made_up.h"

#include "base/text.h"
#include "mpi/options.h"
#include "mpi/verbs.h"
#include "store/publish.h"

static const char *folder(void)
{
    static char path[512];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/invar-status.%ld", tmp ? tmp : "/tmp", (long)getpid());
    return path;
}

static void fill(void)
{
    struct job *job;
    struct store *store;
    CHECK_OK(job_parse(made_up_job, "small.yaml", NULL, 0, &job));
    CHECK_OK(store_open(folder(), job, &store));
    CHECK_OK(made_up_fill(store, job));
    store_close(store);
    job_free(job);
}

/* What `invar status FOLDER extra...` prints; memory_free. */
static char *status_prints(const char *extra, const char *more)
{
    char *path = memory_format("%s/printed", folder());
    char *argv[] = {"invar", "status", (char *)folder(), (char *)extra, (char *)more, NULL};
    struct options options;
    CHECK_OK(options_parse(3 + !!extra + !!more, argv, &options));
    struct session s = {.options = &options};
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    CHECK(freopen(path, "w", stdout) != NULL);
    CHECK_OK(verbs_status(&s));
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    verbs_close(&s);
    char *text = text_read_file(path, NULL);
    memory_free(path);
    return text;
}

static void remove_folder(void)
{
    char *command = memory_format("rm -rf '%s'", folder());
    CHECK_INT(system(command), 0);
    memory_free(command);
}

static void expect(char *text, const char *part)
{
    CHECK_HAS(text, part);
    memory_free(text);
}

TEST(status_counts_and_lists)
{
    fill();
    expect(status_prints(NULL, NULL), "1 of 6 runs done (1 diverged), 2 failed, 0 running, 3 missing\n");
    expect(status_prints("--json", NULL), "{\"total\": 6, \"done\": 1, \"diverged\": 1, \"failed\": 2, \"running\": 0, "
                                          "\"missing\": 3, \"quarantined\": 0, \"runs_per_second\": null, \"seconds_left\": null}\n");
    expect(status_prints("--failed", NULL), "FAILED   seed 2  made \"up\"\n");
    expect(status_prints("--missing", NULL), "missing  seed 5\n");
    expect(status_prints("--json", "--failed"), "\"outcome\": \"FAILED\", \"seed\": 0, \"error\": \"made \\\"up\\\"\"}, {");
    remove_folder();
    CHECK_INT(memory_balance(), 0);
}

/* Strikes 1 to n against a tile, as launches that lost a rank leave them. */
static void strike(const char *tile_id, int n)
{
    char *path = memory_format("%s/strikes", folder());
    CHECK_OK(publish_folder(path));
    memory_free(path);
    for (int i = 1; i <= n; i++) {
        char *text = memory_format("process %d\nended by signal 9\n", i);
        path = memory_format("%s/strikes/%s.%d", folder(), tile_id, i);
        CHECK_OK(publish_bytes(path, text, strlen(text)));
        memory_free(path);
        memory_free(text);
    }
}

/* A launch that was killed leaves its last words; without its lock nothing runs, and only the rate is believed. */
TEST(status_after_a_kill)
{
    fill();
    struct job *job;
    CHECK_OK(job_parse(made_up_job, "small.yaml", NULL, 0, &job));
    struct plan *plan = plan_new(job);
    char *path = memory_format("%s/progress.json", folder());
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fprintf(f, "{\"runs_per_second\": 0.5, \"seconds_left\": 99, \"quarantined\": 1, \"tiles\": [\"%s\"]}\n", plan->tile[2].id);
    CHECK_INT(fclose(f), 0);
    expect(status_prints("--json", NULL), "\"running\": 0, \"missing\": 3, \"quarantined\": 0, \"runs_per_second\": 0.5, "
                                          "\"seconds_left\": 6}");
    strike(plan->tile[0].id, 2);
    expect(status_prints("--json", NULL), "\"missing\": 3, \"quarantined\": 0");
    strike(plan->tile[0].id, 3);
    expect(status_prints("--quarantined", NULL), "quarantined  seed 1\n    process 3\n    ended by signal 9\n");
    expect(status_prints("--quarantined", "--json"), "\"outcome\": \"quarantined\", \"seed\": 1, \"error\": \"process 3\\u000aended");
    expect(status_prints("--missing", NULL), "missing  seed 5\n");
    /* The same words while the lock is held: tile 2 runs. */
    struct store *store;
    CHECK_OK(store_open(folder(), job, &store));
    expect(status_prints("--json", NULL), "\"running\": 2, \"missing\": 0, \"quarantined\": 1, \"runs_per_second\": 0.5, "
                                          "\"seconds_left\": 99}");
    expect(status_prints("--missing", NULL), "running  seed 5\n");
    store_close(store);
    memory_free(path);
    plan_free(plan);
    job_free(job);
    remove_folder();
    CHECK_INT(memory_balance(), 0);
}
