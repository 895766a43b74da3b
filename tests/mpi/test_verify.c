// ranks: 1 3
/* verify on a store of which every record is known: right ones, one with a single bit of a weight changed under a right seal,
 * one that says FAILED, and a tile that is not there. */
#include "made_up.h"
#include "ranks.h"

#include "base/log.h"
#include "base/text.h"
#include "mpi/options.h"
#include "mpi/verbs.h"
#include "run/train.h"

static const char *folder(void)
{
    static char path[512];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/invar-verify", tmp ? tmp : "/tmp");
    return path;
}

static void train(const struct job *job, size_t run, struct record *r)
{
    struct spec *spec = memory_new(1, sizeof *spec);
    uint64_t seed;
    enum train_end end;
    job_run(job, run, spec, &seed);
    CHECK_OK(train_run(spec, seed, NULL, NULL, 0, r, &end));
    memory_free(spec);
}

/* Tile 0: two right records. Tile 1: a changed weight, and a made-up failure. Tile 2: not there. */
static void fill(void)
{
    struct job *job;
    struct store *store;
    CHECK_OK(job_parse(made_up_job, "small.yaml", NULL, 0, &job));
    CHECK_OK(store_open(folder(), job, &store));
    struct plan *plan = plan_new(job);
    struct record right[2], wrong[2];
    train(job, 0, &right[0]);
    train(job, 1, &right[1]);
    train(job, 2, &wrong[0]);
    wrong[1] = made_up(job, 3, OUTCOME_FAILED);
    ((unsigned char *)wrong[0].weights)[4 * 5] ^= 1;
    CHECK_OK(store_put_tile(store, job, &plan->tile[0], right, 2));
    CHECK_OK(store_put_tile(store, job, &plan->tile[1], wrong, 2));
    for (int i = 0; i < 2; i++)
        record_clear(&right[i]), record_clear(&wrong[i]);
    plan_free(plan);
    store_close(store);
    job_free(job);
}

/* What `invar verify FOLDER words...` prints on rank 0, and its status on all ranks; memory_free. */
static char *verify(struct world *w, enum status expected, char *word, char *more)
{
    char *path = memory_format("%s.printed", folder());
    char *argv[] = {"invar", "verify", (char *)folder(), word, more, NULL};
    struct options options;
    CHECK_OK(options_parse(3 + !!word + !!more, argv, &options));
    struct session s = {.options = &options, .world = w};
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    if (w->rank == 0)
        CHECK(freopen(path, "w", stdout) != NULL);
    CHECK_INT(verbs_verify(&s), expected);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    verbs_close(&s);
    options_clear(&options);
    char *text = w->rank == 0 ? text_read_file(path, NULL) : memory_text("");
    memory_free(path);
    return text;
}

static int count_lines(const char *text, const char *start)
{
    int n = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        n += !strncmp(line, start, strlen(start));
    return n;
}

static void check_all(struct world *w)
{
    char *text = verify(w, STATUS_RUNS_FAILED, NULL, NULL);
    CHECK_HAS(status_text(), "2 runs differ from the records");
    if (w->rank == 0) {
        CHECK_INT(count_lines(text, "equal    "), 2);
        CHECK_INT(count_lines(text, "DIFFERS  "), 2);
        CHECK_INT(count_lines(text, "missing  "), 2);
        CHECK_HAS(text, "    weights of token.weight[0, 5]: stored ");
        CHECK_HAS(text, "    outcome: stored \"FAILED\", now \"DONE\"");
        CHECK_HAS(text, "    error: stored \"made \"up\"\", now \"\"");
        CHECK_HAS(text, "2 of 4 runs have the bits of their records; 2 not trained yet");
        CHECK_INT(count_lines(text, "note "), 0);
    }
    memory_free(text);
}

static void check_chosen(struct world *w)
{
    char *text = verify(w, STATUS_OK, "0", "seed=1");
    if (w->rank == 0)
        CHECK_INT(count_lines(text, "equal    "), 2);
    memory_free(text);
    memory_free(verify(w, STATUS_USAGE, "5", NULL));
    CHECK_HAS(status_text(), "none of the chosen runs is finished");
    memory_free(verify(w, STATUS_USAGE, "seed=77", NULL));
    memory_free(verify(w, STATUS_USAGE, "train.lr=1", NULL));
    CHECK_HAS(status_text(), "\"train.lr\" is no axis of the job; there is seed");
    memory_free(verify(w, STATUS_USAGE, "zzzz", NULL));
    CHECK_HAS(status_text(), "the job has no run \"zzzz\"");
    text = verify(w, STATUS_OK, "0", "--quiet");
    if (w->rank == 0)
        CHECK_INT(count_lines(text, "equal    "), 0);
    memory_free(text);
}

int main(int argc, char **argv)
{
    struct world w;
    CHECK_OK(world_open(&argc, &argv, &w));
    alarm(100);
    log_threshold(LOG_ERROR + 1);
    if (w.rank == 0)
        fill();
    MPI_Barrier(w.comm);
    check_all(&w);
    int bad = ranks_report(&w, "verify_finds_what_differs");
    check_chosen(&w);
    bad |= ranks_report(&w, "verify_takes_the_runs_it_is_told");
    CHECK_INT(memory_balance(), 0);
    bad |= ranks_report(&w, "verify_frees_all");
    if (w.rank == 0) {
        char *command = memory_format("rm -rf '%s' '%s.printed'", folder(), folder());
        CHECK_INT(system(command), 0);
        memory_free(command);
    }
    world_close(&w);
    return bad;
}
