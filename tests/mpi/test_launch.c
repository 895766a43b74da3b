// ranks: 1 3
/* The training stage on a real store and real models: FAILED runs stay until they are asked for again, and then replace
 * what was there, whatever file they lie in; finished runs are left alone. */
#include "made_up.h"
#include "ranks.h"

#include "base/log.h"
#include "base/memory.h"
#include "mpi/launch.h"

struct place {
    struct world world;
    struct job *job;
    struct store *store;
};

static void launch_and_expect(struct place *p, bool retry_failed, size_t done, size_t failed)
{
    struct launch_options options = {.quiet = true, .retry_failed = retry_failed, .seconds_left = INFINITY, .heartbeat = 30};
    struct launch_result r;
    CHECK_OK(launch_train(&p->world, p->store, p->job, &options, &r));
    if (p->world.rank != 0)
        return;
    int outcome[MADE_UP_RUNS], damaged, counted[OUTCOME_COUNT] = {0};
    CHECK_INT(r.runs, MADE_UP_RUNS);
    CHECK_INT(r.missing, 0);
    CHECK_INT(r.outcome[OUTCOME_DONE], done);
    CHECK_INT(r.outcome[OUTCOME_FAILED], failed);
    CHECK_INT(r.outcome[OUTCOME_DIVERGED], 1);
    CHECK_OK(store_scan(p->store, p->job, outcome, &damaged));
    for (int i = 0; i < MADE_UP_RUNS; i++)
        if (outcome[i] >= 0)
            counted[outcome[i]]++;
    CHECK_INT(counted[OUTCOME_DONE], done);
    CHECK_INT(counted[OUTCOME_FAILED], failed);
    CHECK_INT(outcome[3], OUTCOME_DIVERGED);      /* never touched */
    CHECK_INT(damaged, 0);
}

int main(int argc, char **argv)
{
    struct place p = {0};
    CHECK_OK(world_open(&argc, &argv, &p.world));
    alarm(100);
    log_threshold(LOG_ERROR + 1);
    const char *tmp = getenv("TMPDIR");
    char *dir = memory_format("%s/launch", tmp ? tmp : "/tmp");
    CHECK_OK(job_parse(made_up_job, "small.yaml", NULL, 0, &p.job));
    if (p.world.rank == 0) {
        CHECK_OK(store_open(dir, p.job, &p.store));
        CHECK_OK(made_up_fill(p.store, p.job));
    }
    MPI_Barrier(p.world.comm);
    if (p.world.rank != 0)
        CHECK_OK(store_join(dir, p.job, &p.store));
    launch_and_expect(&p, false, 3, 2);
    int bad = ranks_report(&p.world, "launch_trains_what_is_missing");
    launch_and_expect(&p, false, 3, 2);
    bad |= ranks_report(&p.world, "launch_leaves_failed_runs");
    launch_and_expect(&p, true, 5, 0);
    bad |= ranks_report(&p.world, "launch_retries_failed_runs");
    store_close(p.store);
    job_free(p.job);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
    bad |= ranks_report(&p.world, "launch_frees_all");
    world_close(&p.world);
    return bad;
}
