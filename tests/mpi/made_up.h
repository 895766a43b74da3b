/* made_up.h: a small job and records that no training made, to fill a store with. */
#ifndef INVAR_TESTS_MPI_MADE_UP_H
#define INVAR_TESTS_MPI_MADE_UP_H

#include "base/memory.h"
#include "job/job.h"
#include "job/plan.h"
#include "store/store.h"

#include <math.h>
#include <string.h>

/* Six runs in three tiles. */
static const char made_up_job[] = "name: small\n"
                                  "task: {sequences: 32, test_sequences: 32, length: 8}\n"
                                  "model: {d_model: 8, heads: 2, d_mlp: 16}\n"
                                  "train: {epochs: 1, batch: 16}\n"
                                  "store: {tile_runs: 2}\n"
                                  "seeds: 6\n";
enum { MADE_UP_RUNS = 6 };

static inline struct record made_up(const struct job *job, size_t run, enum outcome outcome)
{
    struct record r = {.seed = job->seed[run], .outcome = outcome, .loss_train = NAN, .loss_test = NAN,
                       .accuracy_train = NAN, .accuracy_test = NAN, .element_size = 4,
                       .error = outcome == OUTCOME_FAILED ? memory_text("made \"up\"") : NULL};
    job_id_of(job, run, r.id);
    return r;
}

/* Tile 0 gets its first run, FAILED; tile 1 a FAILED run beside a DIVERGED one; tile 2 nothing. */
static inline enum status made_up_fill(struct store *store, const struct job *job)
{
    struct plan *plan = plan_new(job);
    struct record first = made_up(job, 0, OUTCOME_FAILED);
    struct record second[2] = {made_up(job, 2, OUTCOME_FAILED), made_up(job, 3, OUTCOME_DIVERGED)};
    enum status status = store_put_tile(store, job, &plan->tile[0], &first, 1);
    if (status == STATUS_OK)
        status = store_put_tile(store, job, &plan->tile[1], second, 2);
    record_clear(&first);
    record_clear(&second[0]);
    record_clear(&second[1]);
    plan_free(plan);
    return status;
}

#endif
