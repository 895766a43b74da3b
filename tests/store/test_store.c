#include "store/samples.h"

#include "store/ncfile.h"
#include "store/tile.h"

#define JOB "name: test\ntask: {states: 5}\ntrain: {lr: 0.001}\nseeds: [0, 1, 2, 3]\n"

static const struct sample_shape shape = {.points = 3, .probes = 1, .d = 6, .rank = 2, .operator_rank = 2,
                                          .samples = 12, .coordinates = 1, .tensors = 2, .element_size = 4};

static struct store *open_store(const char *dir, const struct job *job)
{
    struct store *s = NULL;
    CHECK_OK(store_open(dir, job, &s));
    if (!s)
        exit(1);
    return s;
}

static void put(struct store *s, const struct job *job, const struct sample_tile *t)
{
    CHECK_OK(store_put_tile(s, job, &t->tile, t->record, t->count));
}

/* "0 1 - 3": outcomes by run, - where missing. */
static char *scan(struct store *s, const struct job *job, int expected_damaged)
{
    int *outcome = memory_new(job_runs(job), sizeof *outcome), damaged = -1;
    struct text t = {0};
    CHECK_OK(store_scan(s, job, outcome, &damaged));
    CHECK_INT(damaged, expected_damaged);
    for (size_t i = 0; i < job_runs(job); i++)
        text_add(&t, outcome[i] < 0 ? "%s-" : "%s%d", i ? " " : "", outcome[i]);
    memory_free(outcome);
    char *out = memory_text(text_string(&t));
    text_free(&t);
    return out;
}

static void check_scan(struct store *s, const struct job *job, int damaged, const char *expected)
{
    char *got = scan(s, job, damaged);
    CHECK_TEXT(got, expected);
    memory_free(got);
}

struct reading {
    const struct record *expected[8];
    size_t run[8];
    int n;
};

static enum status note(void *context, size_t run, const struct record *r)
{
    struct reading *reading = context;
    check_same_record(reading->expected[run], r);
    reading->run[reading->n++] = run;
    return run == 6 ? status_fail(STATUS_NUMERIC, "stop here") : STATUS_OK;
}

TEST(what_is_put_is_read_in_job_order)
{
    char *top = sample_path("new"), *dir = memory_format("%s/b/c/", top);      /* folders above it are made, too */
    struct job *job = sample_job(JOB);
    struct store *s = open_store(dir, job);
    check_scan(s, job, 0, "- - - -");
    struct sample_tile late = sample_tile(job, 2, 2, 1, &shape), early = sample_tile(job, 0, 1, 2, &shape);
    late.record[0].outcome = OUTCOME_DIVERGED;
    late.record[1].outcome = early.record[0].outcome = OUTCOME_DONE;
    put(s, job, &late);
    put(s, job, &early);
    check_scan(s, job, 0, "0 - 1 0");

    struct reading reading = {.expected = {&early.record[0], NULL, &late.record[0], &late.record[1]}};
    CHECK_OK(store_read(s, job, note, &reading));
    CHECK_INT(reading.n, 3);
    CHECK_INT(reading.run[0], 0);
    CHECK_INT(reading.run[1], 2);
    CHECK_INT(reading.run[2], 3);
    store_close(s);

    struct job *found = NULL;
    CHECK_OK(store_open_read(dir, &s, &found));
    CHECK_INT(job_runs(found), 4);
    struct record r = {0};
    CHECK_OK(store_read_run(s, found, 3, &r));
    check_same_record(&late.record[1], &r);
    record_clear(&r);
    CHECK_INT(store_read_run(s, found, 1, &r), STATUS_IO);
    CHECK_HAS(status_text(), "has no finished run");
    job_free(found);
    store_close(s);
    sample_tile_clear(&late), sample_tile_clear(&early);
    job_free(job);
    sample_remove(top);
    memory_free(dir), memory_free(top);
    CHECK_INT(memory_balance(), 0);
}

TEST(reading_stops_at_the_first_status)
{
    char *dir = sample_path("stop");
    struct job *job = sample_job("name: test\nseeds: 8\n");
    struct store *s = open_store(dir, job);
    struct sample_tile t = sample_tile(job, 5, 3, 1, &shape);
    put(s, job, &t);
    struct reading reading = {.expected = {[5] = &t.record[0], &t.record[1], &t.record[2]}};
    CHECK_INT(store_read(s, job, note, &reading), STATUS_NUMERIC);
    CHECK_INT(reading.n, 2);
    CHECK_TEXT(status_text(), "stop here");
    sample_tile_clear(&t);
    store_close(s);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

/* Other ranks join the folder; what they put is seen by the owner's next look. */
TEST(tiles_of_joined_ranks_are_seen)
{
    char *dir = sample_path("join");
    struct job *job = sample_job(JOB);
    struct store *owner = open_store(dir, job), *worker = NULL;
    CHECK_OK(store_join(dir, job, &worker));
    check_scan(owner, job, 0, "- - - -");
    struct sample_tile t = sample_tile(job, 1, 1, 1, &shape);
    t.record[0].outcome = OUTCOME_FAILED;
    put(worker, job, &t);
    check_scan(owner, job, 0, "- 3 - -");
    struct record r = {0};
    CHECK_OK(store_read_run(worker, job, 1, &r));
    check_same_record(&t.record[0], &r);
    record_clear(&r);
    sample_tile_clear(&t);
    store_close(worker), store_close(owner);
    CHECK_INT(store_join("/nonexistent/folder", job, &worker), STATUS_IO);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

TEST(the_first_of_two_tiles_with_a_run_counts)
{
    char *dir = sample_path("twice");
    struct job *job = sample_job(JOB);
    struct store *s = open_store(dir, job);
    struct sample_tile one = sample_tile(job, 0, 2, 1, &shape), two = sample_tile(job, 1, 2, 2, &shape);
    one.record[1].outcome = OUTCOME_DONE;
    two.record[0].outcome = OUTCOME_UNFINISHED;
    put(s, job, &one);
    put(s, job, &two);
    const struct record *first = strcmp(one.tile.id, two.tile.id) < 0 ? &one.record[1] : &two.record[0];
    struct record r = {0};
    CHECK_OK(store_read_run(s, job, 1, &r));
    check_same_record(first, &r);
    record_clear(&r);
    int outcome[4], damaged;
    CHECK_OK(store_scan(s, job, outcome, &damaged));
    CHECK_INT(outcome[1], first->outcome);
    sample_tile_clear(&one), sample_tile_clear(&two);
    store_close(s);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
}

/* Whichever of the two tiles comes first by name. */
TEST(a_run_that_was_trained_anew_after_it_failed_counts)
{
    for (int failed = 0; failed < 2; failed++) {
        char *dir = sample_path("anew");
        struct job *job = sample_job(JOB);
        struct store *s = open_store(dir, job);
        struct sample_tile tile[2] = {sample_tile(job, 0, 2, 1, &shape), sample_tile(job, 1, 2, 2, &shape)};
        tile[0].record[1].outcome = failed == 0 ? OUTCOME_FAILED : OUTCOME_DIVERGED;
        tile[1].record[0].outcome = failed == 1 ? OUTCOME_FAILED : OUTCOME_DIVERGED;
        put(s, job, &tile[0]);
        put(s, job, &tile[1]);
        int outcome[4], damaged;
        CHECK_OK(store_scan(s, job, outcome, &damaged));
        CHECK_INT(outcome[1], OUTCOME_DIVERGED);
        sample_tile_clear(&tile[0]), sample_tile_clear(&tile[1]);
        store_close(s);
        job_free(job);
        sample_remove(dir);
        memory_free(dir);
    }
}

TEST(a_tile_is_replaced_only_by_one_that_covers_it)
{
    char *dir = sample_path("cover");
    struct job *job = sample_job(JOB);
    struct store *s = open_store(dir, job);
    struct sample_tile t = sample_tile(job, 0, 3, 1, &shape);
    for (int i = 0; i < 3; i++)
        t.record[i].outcome = OUTCOME_DONE;
    CHECK_OK(store_put_tile(s, job, &t.tile, t.record, 2));              /* runs 0 and 1 */
    CHECK_INT(sample_entries(dir, "tiles"), 1);
    CHECK_OK(store_put_tile(s, job, &t.tile, t.record + 2, 1));          /* run 2 alone must not remove them */
    CHECK_INT(sample_entries(dir, "tiles"), 2);
    check_scan(s, job, 0, "0 0 0 -");
    CHECK_OK(store_put_tile(s, job, &t.tile, t.record, 3));              /* all of them may */
    CHECK_INT(sample_entries(dir, "tiles"), 2);
    check_scan(s, job, 0, "0 0 0 -");
    sample_tile_clear(&t);
    store_close(s);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
}

/* ---- damage ---- */

static char *tile_path(const char *dir, const struct sample_tile *t)
{
    return memory_format("%s/tiles/%s.nc", dir, t->tile.id);
}

TEST(a_damaged_tile_is_moved_aside_and_its_runs_are_missing)
{
    char *dir = sample_path("damaged");
    struct job *job = sample_job(JOB), *found = NULL;
    struct store *s = open_store(dir, job), *reader = NULL;
    struct sample_tile a = sample_tile(job, 0, 2, 1, &shape), b = sample_tile(job, 2, 2, 2, &shape);
    for (int i = 0; i < 2; i++)
        a.record[i].outcome = b.record[i].outcome = OUTCOME_DONE;
    put(s, job, &a);
    put(s, job, &b);
    char *path = tile_path(dir, &a);
    struct stat st = {0};
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(truncate(path, st.st_size / 2), 0);

    CHECK_OK(store_open_read(dir, &reader, &found));
    check_scan(reader, found, 1, "- - 0 0");
    CHECK_INT(access(path, F_OK), 0);                     /* a reader changes nothing */
    CHECK_INT(sample_entries(dir, "damaged"), -1);
    store_close(reader);
    job_free(found);

    check_scan(s, job, 1, "- - 0 0");
    CHECK(access(path, F_OK) != 0);
    CHECK_INT(sample_entries(dir, "damaged"), 1);
    check_scan(s, job, 0, "- - 0 0");
    char *log_path = memory_format("%s/log.txt", dir), *log = text_read_file(log_path, NULL);
    CHECK_HAS(log, "warning: ");
    CHECK_HAS(log, a.tile.id);
    CHECK_HAS(log, "cut short");
    CHECK_HAS(log, "/damaged/");

    put(s, job, &a);                                      /* trained again, damaged again: both are kept */
    CHECK_INT(truncate(path, 100), 0);
    check_scan(s, job, 1, "- - 0 0");
    CHECK_INT(sample_entries(dir, "damaged"), 2);
    memory_free(log), memory_free(log_path), memory_free(path);
    sample_tile_clear(&a), sample_tile_clear(&b);
    store_close(s);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

TEST(a_tile_cut_anywhere_counts_as_missing)
{
    char *dir = sample_path("cuts"), *bytes;
    struct job *job = sample_job(JOB);
    struct store *s = open_store(dir, job);
    struct sample_tile t = sample_tile(job, 0, 1, 1, &shape);
    t.record[0].outcome = OUTCOME_DONE;
    put(s, job, &t);
    char *path = tile_path(dir, &t);
    size_t n;
    bytes = text_read_file(path, &n);
    struct stream random = stream_open(4, PURPOSE_PROBE, 0);
    for (int i = 0; i < 40; i++) {
        size_t cut = i < 5 ? (size_t)i : i < 20 ? n - 1 - 4 * (size_t)(i - 5) : stream_below(&random, (uint32_t)n);
        sample_write(path, bytes, cut);
        check_scan(s, job, 1, "- - - -");
    }
    CHECK_INT(sample_entries(dir, "damaged"), 40);
    sample_write(path, bytes, n);
    check_scan(s, job, 0, "0 - - -");
    memory_free(bytes), memory_free(path);
    sample_tile_clear(&t);
    store_close(s);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
}

TEST(a_tile_of_another_version_is_kept_and_named)
{
    char *dir = sample_path("version");
    struct job *job = sample_job(JOB);
    struct store *s = open_store(dir, job);
    char *path = memory_format("%s/tiles/ffff.nc", dir);
    struct ncfile *f;
    CHECK_OK(ncfile_create(path, "a test", &f));
    ncfile_note(f, "invar tile 99\n");
    CHECK_OK(ncfile_close(f));
    check_scan(s, job, 0, "- - - -");                     /* the look of store_open serves once */
    int outcome[4], damaged;
    CHECK_INT(store_scan(s, job, outcome, &damaged), STATUS_VERSION);
    CHECK_HAS(status_text(), path);
    CHECK_HAS(status_text(), "99");
    store_close(s);
    CHECK_INT(store_open(dir, job, &s), STATUS_VERSION);
    CHECK_INT(access(path, F_OK), 0);
    memory_free(path);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

/* ---- changed jobs ---- */

/* A folder with all runs of `before`; then opens it for `now` and returns the status. */
static enum status reopen(const char *before, const char *now)
{
    char *dir = sample_path("changed");
    struct job *old = sample_job(before), *new = sample_job(now);
    struct store *s = open_store(dir, old);
    struct sample_tile t = sample_tile(old, 0, job_runs(old), 1, &shape);
    put(s, old, &t);
    store_close(s);
    sample_tile_clear(&t);
    enum status status = store_open(dir, new, &s);
    if (status == STATUS_OK) {
        int *outcome = memory_new(job_runs(new), sizeof *outcome), damaged, done = 0;
        CHECK_OK(store_scan(s, new, outcome, &damaged));
        for (size_t i = 0; i < job_runs(new); i++)
            done += outcome[i] >= 0;
        CHECK_INT(done, job_runs(old));
        memory_free(outcome);
        store_close(s);
    }
    job_free(old), job_free(new);
    sample_remove(dir);
    memory_free(dir);
    return status;
}

TEST(runs_may_be_added)
{
    CHECK_OK(reopen(JOB, JOB));
    CHECK_OK(reopen("name: x\nseeds: 2\n", "name: x\nseeds: 5\n"));
    CHECK_OK(reopen("name: x\nseeds: [3, 1]\n", "name: x\nseeds: [0, 1, 2, 3]\n"));
    CHECK_OK(reopen("name: x\nseeds: 2\ntrain: {lr: 0.01}\n",
                    "name: x\nseeds: 2\naxes: {train.lr: [0.1, 0.01, 0.001]}\n"));
    CHECK_INT(memory_balance(), 0);
}

TEST(keys_that_make_no_run_may_change)
{
    CHECK_OK(reopen("name: x\nseeds: 2\n", "name: y\nseeds: 2\nstore: {checkpoint_every: 1}\ngather: {seed: 7}\n"
                                           "claims: [core_dim == 3]\n"));
    CHECK_INT(memory_balance(), 0);
}

TEST(a_changed_job_is_refused_with_the_keys)
{
    CHECK_INT(reopen(JOB, "name: test\ntask: {states: 6}\ntrain: {lr: 0.01}\nseeds: [0, 1, 2, 3]\n"
                     "gather: {seed: 3}\n"), STATUS_JOB);
    CHECK_HAS(status_text(), "holds 4 finished runs");
    CHECK_HAS(status_text(), "train.lr: 0.001 -> 0.01");
    CHECK_HAS(status_text(), "task.states: 5 -> 6");
    CHECK_HAS(status_text(), "-o");
    CHECK(!strstr(status_text(), "seeds:"));
    CHECK(!strstr(status_text(), "train.beta1"));
    CHECK(!strstr(status_text(), "gather.seed"));         /* it makes no run */

    CHECK_INT(reopen("name: x\nseeds: 3\n", "name: x\nseeds: 2\n"), STATUS_JOB);
    CHECK_HAS(status_text(), "holds 1 finished run ");
    CHECK_HAS(status_text(), "seeds: [0, 1, 2] -> [0, 1]");

    CHECK_INT(reopen("name: x\nseeds: 1\naxes: {model.norm: [post, pre]}\n",
                     "name: x\nseeds: 1\naxes: {model.norm: [post, none]}\n"), STATUS_JOB);
    CHECK_HAS(status_text(), "model.norm: [post, pre] -> [post, none]");

    CHECK_INT(reopen("name: x\nseeds: 1\naxes: {train.lr: [0.1, 0.01]}\n", "name: x\nseeds: 1\ntrain: {lr: 0.1}\n"),
              STATUS_JOB);
    CHECK_HAS(status_text(), "train.lr: [0.1, 0.01] -> 0.1");
    CHECK_INT(memory_balance(), 0);
}

TEST(without_job_yaml_the_tile_says_what_differs)
{
    char *dir = sample_path("nojob");
    struct job *old = sample_job(JOB), *new = sample_job("name: test\ntask: {states: 5}\ntrain: {lr: 0.5}\nseeds: 4\n");
    struct job *none = NULL;
    struct store *s = open_store(dir, old);
    struct sample_tile t = sample_tile(old, 0, 1, 1, &shape);
    put(s, old, &t);
    store_close(s);
    char *path = memory_format("%s/job.yaml", dir);
    unlink(path);
    CHECK_INT(store_open(dir, new, &s), STATUS_JOB);
    CHECK_HAS(status_text(), "train.lr: 0.001 -> 0.5");
    CHECK(access(path, F_OK) != 0);                       /* a refused job leaves nothing behind */
    CHECK_INT(store_open_read(dir, &s, &none), STATUS_IO);
    CHECK_HAS(status_text(), "is no output folder");
    memory_free(path);
    sample_tile_clear(&t);
    job_free(old), job_free(new);
    sample_remove(dir);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

/* ---- checkpoints ---- */

TEST(checkpoints_come_back)
{
    char *dir = sample_path("checkpoints");
    struct job *job = sample_job(JOB);
    struct store *s = open_store(dir, job);
    void *bytes = &s;
    size_t n = 1;
    CHECK_OK(store_get_checkpoint(s, "abc", &bytes, &n));
    CHECK(!bytes);
    CHECK_INT(n, 0);
    const char content[] = "state\0with\0zeros", newer[] = "newer";
    CHECK_OK(store_put_checkpoint(s, "abc", content, sizeof content));
    CHECK_OK(store_get_checkpoint(s, "abc", &bytes, &n));
    CHECK_INT(n, sizeof content);
    CHECK_BYTES(bytes, content, sizeof content);
    memory_free(bytes);
    CHECK_OK(store_put_checkpoint(s, "abc", newer, sizeof newer));
    CHECK_OK(store_get_checkpoint(s, "abc", &bytes, &n));
    CHECK_BYTES(bytes, newer, sizeof newer);
    memory_free(bytes);
    CHECK_INT(sample_entries(dir, "checkpoints"), 1);
    store_drop_checkpoint(s, "abc");
    store_drop_checkpoint(s, "abc");
    CHECK_INT(sample_entries(dir, "checkpoints"), 0);
    store_close(s);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

/* Puts these bytes in place of the checkpoint: it must be moved aside. */
static void expect_aside(struct store *s, const char *path, const char *bytes, size_t n)
{
    void *back = NULL;
    size_t length;
    int before = sample_entries(store_dir(s), "damaged");
    sample_write(path, bytes, n);
    CHECK_OK(store_get_checkpoint(s, "abc", &back, &length));
    CHECK(!back);
    CHECK_INT(sample_entries(store_dir(s), "damaged"), before < 0 ? 1 : before + 1);
    CHECK(access(path, F_OK) != 0);
    memory_free(back);
}

TEST(damaged_checkpoints_are_moved_aside)
{
    char *dir = sample_path("badcheck");
    struct job *job = sample_job(JOB);
    struct store *s = open_store(dir, job);
    char *path = memory_format("%s/checkpoints/abc.ck", dir), *other = memory_format("%s/checkpoints/xyz.ck", dir);
    CHECK_OK(store_put_checkpoint(s, "abc", "some state", 10));
    CHECK_OK(store_put_checkpoint(s, "xyz", "some state", 10));
    size_t n, m;
    char *bytes = text_read_file(path, &n), *foreign = text_read_file(other, &m);
    for (size_t cut = 0; cut < n; cut += 5)
        expect_aside(s, path, bytes, cut);
    for (size_t at = 0; at < n; at += 7) {
        bytes[at] ^= 4;
        expect_aside(s, path, bytes, n);
        bytes[at] ^= 4;
    }
    expect_aside(s, path, foreign, m);
    sample_write(path, bytes, n);
    void *back = NULL;
    CHECK_OK(store_get_checkpoint(s, "abc", &back, &n));
    CHECK_BYTES(back, "some state", 10);
    memory_free(back), memory_free(bytes), memory_free(foreign), memory_free(path), memory_free(other);
    store_close(s);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}
