#include "store/samples.h"

#include "base/log.h"
#include "store/publish.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define JOB "name: test\nseeds: 40\n"

static const struct sample_shape shape = {.points = 3, .probes = 1, .d = 30, .rank = 2, .samples = 400,
                                          .coordinates = 1, .activations = 1, .tensors = 9, .element_size = 4};

static void put_run(struct store *s, const struct job *job, size_t run, enum status expected, const char *why)
{
    struct sample_tile t = sample_tile(job, run, 1, 1, &shape);
    CHECK_INT(store_put_tile(s, job, &t.tile, t.record, 1), expected);
    if (expected != STATUS_OK) {
        CHECK_HAS(status_text(), t.tile.id);
        CHECK_HAS(status_text(), why);
    }
    sample_tile_clear(&t);
}

/* The runs that are there, each compared with what was put. */
static void check_runs(struct store *s, const struct job *job, size_t count)
{
    int *outcome = memory_new(job_runs(job), sizeof *outcome), damaged;
    CHECK_OK(store_scan(s, job, outcome, &damaged));
    CHECK_INT(damaged, 0);
    for (size_t i = 0; i < job_runs(job); i++) {
        CHECK_INT(outcome[i] >= 0, i < count);
        if (outcome[i] < 0)
            continue;
        struct sample_tile t = sample_tile(job, i, 1, 1, &shape);
        struct record r = {0};
        CHECK_OK(store_read_run(s, job, i, &r));
        check_same_record(&t.record[0], &r);
        record_clear(&r);
        sample_tile_clear(&t);
    }
    memory_free(outcome);
}

/* The disk of `dir` has no room (or may not be written): nothing is lost, nothing is half there, and the reason is
 * said. */
static void check_refusal(struct store *s, const struct job *job, const char *why)
{
    const char *dir = store_dir(s);
    int tiles = sample_entries(dir, "tiles"), checkpoints = sample_entries(dir, "checkpoints");
    int all = sample_entries(dir, ".");
    put_run(s, job, 1, STATUS_IO, why);
    char *state = memory_new(300000, 1);
    CHECK_INT(store_put_checkpoint(s, "abc", state, 300000), STATUS_IO);
    CHECK_HAS(status_text(), "abc.ck");
    CHECK_HAS(status_text(), why);
    memory_free(state);
    CHECK_INT(sample_entries(dir, "tiles"), tiles);
    CHECK_INT(sample_entries(dir, "checkpoints"), checkpoints);
    CHECK_INT(sample_entries(dir, "."), all);
    void *bytes;
    size_t n;
    CHECK_OK(store_get_checkpoint(s, "abc", &bytes, &n));
    CHECK_INT(n, 5);
    if (n == 5)
        CHECK_BYTES(bytes, "older", 5);
    memory_free(bytes);
}

static struct store *open_with_one_run(const char *dir, const struct job *job)
{
    struct store *s = NULL;
    CHECK_OK(store_open(dir, job, &s));
    if (!s)
        exit(1);
    put_run(s, job, 0, STATUS_OK, NULL);
    CHECK_OK(store_put_checkpoint(s, "abc", "older", 5));
    return s;
}

TEST(a_limit_on_file_sizes_loses_nothing)
{
    char *dir = sample_path("limit");
    struct job *job = sample_job(JOB);
    struct store *s = open_with_one_run(dir, job);
    struct rlimit before, small;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 20000;
    setrlimit(RLIMIT_FSIZE, &small);
    check_refusal(s, job, "File too large");
    setrlimit(RLIMIT_FSIZE, &before);
    put_run(s, job, 1, STATUS_OK, NULL);
    check_runs(s, job, 2);
    store_close(s);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

/* 0 when this process may not mount: then there is nothing to test. */
static int mount_small(const char *dir, const char *options)
{
    mkdir(dir, 0777);
    if (mount("tmpfs", dir, "tmpfs", 0, options) == 0)
        return 1;
    fprintf(stderr, "skipped: %s cannot be mounted: %s\n", dir, strerror(errno));
    rmdir(dir);
    return 0;
}

TEST(a_full_disk_loses_nothing)
{
    char *mountpoint = sample_path("small"), *dir = memory_format("%s/out", mountpoint);
    struct job *job = sample_job(JOB);
    if (mount_small(mountpoint, "size=800k")) {
        struct store *s = open_with_one_run(dir, job);
        char *ballast = memory_format("%s/ballast", mountpoint);
        FILE *f = fopen(ballast, "wb");
        for (int i = 0; f && i < 700 && fwrite((char[1024]){0}, 1024, 1, f) == 1 && !fflush(f); i++)
            ;
        if (f)
            fclose(f);
        check_refusal(s, job, "No space left on device");
        check_runs(s, job, 1);
        CHECK_INT(unlink(ballast), 0);
        put_run(s, job, 1, STATUS_OK, NULL);
        check_runs(s, job, 2);
        store_close(s);
        log_file(NULL);
        CHECK_INT(umount2(mountpoint, MNT_DETACH), 0);
        memory_free(ballast);
    }
    rmdir(mountpoint);
    job_free(job);
    memory_free(dir), memory_free(mountpoint);
    CHECK_INT(memory_balance(), 0);
}

/* Root may write everywhere: for it the folder is mounted read-only. */
TEST(a_read_only_folder_is_said)
{
    char *mountpoint = sample_path("readonly"), *dir = memory_format("%s/out", mountpoint);
    struct job *job = sample_job(JOB);
    struct store *s = NULL;
    int root = geteuid() == 0;
    if (root ? mount_small(mountpoint, "size=2m") : !mkdir(mountpoint, 0777)) {
        s = open_with_one_run(dir, job);
        struct store *worker = NULL;
        struct job *found = NULL;
        CHECK_OK(store_join(dir, job, &worker));
        store_close(s);
        log_file(NULL);
        if (root)
            CHECK_INT(mount(NULL, mountpoint, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
        else {
            char *command = memory_format("chmod -R a-w '%s'", mountpoint);
            CHECK_INT(system(command), 0);
            memory_free(command);
        }
        const char *why = root ? "Read-only file system" : "Permission denied";
        CHECK_INT(store_open(dir, job, &s), STATUS_IO);
        CHECK_HAS(status_text(), dir);
        CHECK_HAS(status_text(), why);
        check_refusal(worker, job, why);
        check_runs(worker, job, 1);
        store_close(worker);
        CHECK_OK(store_open_read(dir, &worker, &found));   /* reading is possible all the same */
        check_runs(worker, found, 1);
        store_close(worker);
        job_free(found);
        if (root)
            CHECK_INT(umount2(mountpoint, MNT_DETACH), 0);
    }
    sample_remove(mountpoint);
    job_free(job);
    memory_free(dir), memory_free(mountpoint);
    CHECK_INT(memory_balance(), 0);
}

TEST(a_folder_that_cannot_be_made_is_said)
{
    char *file = sample_path("file"), *dir = memory_format("%s/out", file);
    struct job *job = sample_job(JOB);
    struct store *s;
    sample_write(file, "x", 1);
    CHECK_INT(store_open(dir, job, &s), STATUS_IO);
    CHECK_HAS(status_text(), dir);
    CHECK_HAS(status_text(), "Not a directory");
    CHECK_INT(store_open(file, job, &s), STATUS_IO);
    unlink(file);
    memory_free(dir), memory_free(file);
    job_free(job);
    CHECK_INT(memory_balance(), 0);
}

TEST(other_files_are_published_whole)
{
    char *dir = sample_path("publish"), *folder = memory_format("%s/taken.nc", dir), *file = memory_format("%s/runs.nc", dir);
    struct job *job = sample_job(JOB);
    struct store *s = open_with_one_run(dir, job);
    char *temporary = store_temporary(s, "runs.nc");
    sample_write(temporary, "new", 3);
    CHECK_OK(store_publish(s, temporary, "runs.nc"));
    size_t n;
    char *bytes = text_read_file(file, &n);
    CHECK_TEXT(bytes, "new");
    memory_free(bytes), memory_free(temporary);

    int all = sample_entries(dir, ".");
    temporary = store_temporary(s, "taken.nc");
    sample_write(temporary, "new", 3);
    CHECK_INT(mkdir(folder, 0777), 0);                    /* the name is taken by a folder: rename fails */
    CHECK_INT(store_publish(s, temporary, "taken.nc"), STATUS_IO);
    CHECK_HAS(status_text(), "taken.nc");
    CHECK_HAS(status_text(), "Is a directory");
    CHECK_INT(sample_entries(dir, "."), all + 1);
    CHECK_INT(store_publish(s, temporary, "runs.nc"), STATUS_IO);      /* it is gone */
    bytes = text_read_file(file, &n);
    CHECK_TEXT(bytes, "new");
    store_close(s);
    memory_free(bytes), memory_free(temporary), memory_free(file), memory_free(folder);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

/* Publishes without end: every tile of the job, again and again, and a checkpoint between. */
static void publish_for_ever(const char *dir, const struct job *job, int said)
{
    struct store *s;
    char *state = memory_new(100000, 1);
    if (store_join(dir, job, &s) != STATUS_OK || write(said, "y", 1) != 1)
        _exit(1);
    for (size_t round = 0;; round++) {
        struct sample_tile t = sample_tile(job, round % job_runs(job), 1, 1, &shape);
        memset(state, (int)(round & 127), 100000);
        if (store_put_tile(s, job, &t.tile, t.record, 1) != STATUS_OK ||
            store_put_checkpoint(s, "abc", state, 100000) != STATUS_OK)
            _exit(1);
        sample_tile_clear(&t);
    }
}

static void check_clean(const char *dir, const struct job *job, int *found)
{
    struct store *s = NULL;
    int *outcome = memory_new(job_runs(job), sizeof *outcome), damaged, done = 0;
    CHECK_OK(store_open(dir, job, &s));
    CHECK_OK(store_scan(s, job, outcome, &damaged));
    CHECK_INT(damaged, 0);
    for (size_t i = 0; i < job_runs(job); i++)
        done += outcome[i] >= 0;
    CHECK_INT(sample_entries(dir, "tiles"), done);        /* no temporaries are left either */
    CHECK_INT(sample_entries(dir, "damaged"), -1);
    char *state;
    size_t n;
    CHECK_OK(store_get_checkpoint(s, "abc", (void **)&state, &n));
    CHECK_INT(n == 0 || n == 100000, 1);
    for (size_t i = 1; i < n; i++)
        if (state[i] != state[0]) {
            CHECK_FAIL("the checkpoint is a mixture at byte %zu", i);
            break;
        }
    memory_free(state), memory_free(outcome);
    store_close(s);
    *found = done;
}

/* Seconds that a round of publish_for_ever takes here and now. */
static double round_seconds(const char *dir, const struct job *job)
{
    struct timespec a, b;
    struct store *s = NULL;
    char *state = memory_new(100000, 1);
    struct sample_tile t = sample_tile(job, 0, 1, 1, &shape);
    CHECK_OK(store_open(dir, job, &s));
    clock_gettime(CLOCK_MONOTONIC, &a);
    CHECK_OK(store_put_tile(s, job, &t.tile, t.record, 1));
    CHECK_OK(store_put_checkpoint(s, "abc", state, 100000));
    clock_gettime(CLOCK_MONOTONIC, &b);
    store_close(s);
    sample_tile_clear(&t);
    memory_free(state);
    return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}

static int has_temporary(const char *dir, const char *sub)
{
    char *path = memory_format("%s/%s", dir, sub);
    DIR *d = opendir(path);
    int found = 0;
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = !strncmp(e->d_name, ".tmp-", 5);
    if (d)
        closedir(d);
    memory_free(path);
    return found;
}

/* Waits for the moment of the kill: at random in even rounds, in odd ones as soon as a file is half there. */
static void wait_for_moment(const char *dir, int round, double seconds, struct stream *random)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(3e9 * seconds * stream_uniform(random))}, NULL);
    for (int i = 0; round % 2 && i < 100000 && !has_temporary(dir, round % 4 == 1 ? "tiles" : "checkpoints"); i++)
        sched_yield();
}

TEST(a_kill_while_publishing_leaves_a_clean_folder)
{
    char *dir = sample_path("kill");
    struct job *job = sample_job(JOB);
    struct stream random = stream_open((uint64_t)getpid(), PURPOSE_PROBE, 0);
    int strays = 0, done = 0;
    double seconds = round_seconds(dir, job);
    if (seconds > 0.1)
        seconds = 0.1;                                    /* a busy disk: the test must end */
    for (int round = 0; round < 30; round++) {
        int said[2];
        char answer = 0;
        CHECK_INT(pipe(said), 0);
        pid_t child = fork();
        if (child == 0)
            publish_for_ever(dir, job, said[1]);
        CHECK_INT(read(said[0], &answer, 1), 1);
        wait_for_moment(dir, round, seconds, &random);
        kill(child, SIGKILL);
        int how;
        waitpid(child, &how, 0);
        CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
        close(said[0]), close(said[1]);
        int files = sample_entries(dir, "tiles") + sample_entries(dir, "checkpoints"), before = done;
        check_clean(dir, job, &done);
        strays += files > sample_entries(dir, "tiles") + sample_entries(dir, "checkpoints");
        CHECK(done >= before);                            /* what was there stays there */
    }
    fprintf(stderr, "%d of 30 kills came in the middle of a file; %d runs were published\n", strays, done);
    CHECK(done > 1);                                      /* the children did publish, and were hit while they did */
    CHECK(strays > 0);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
}

TEST(what_a_dead_process_left_goes_also_before_its_parent_has_noticed)
{
    char *dir = sample_path("zombie");
    struct job *job = sample_job(JOB);
    struct store *s = NULL;
    CHECK_OK(store_open(dir, job, &s));
    store_close(s);
    char *target = memory_format("%s/tiles/x.nc", dir);
    pid_t child = fork();
    if (child == 0) {
        sample_write(publish_temporary(target), "half", 4);
        _exit(0);
    }
    siginfo_t info;
    CHECK_INT(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    CHECK_INT(sample_entries(dir, "tiles"), 1);
    CHECK_OK(store_open(dir, job, &s));
    CHECK_INT(sample_entries(dir, "tiles"), 0);
    waitpid(child, NULL, 0);
    store_close(s);
    job_free(job);
    sample_remove(dir);
    memory_free(target);
    memory_free(dir);
}
