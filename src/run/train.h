/* train.h: one run from its start or its checkpoint to its outcome, with its probes. */
#ifndef INVAR_RUN_TRAIN_H
#define INVAR_RUN_TRAIN_H

#include "base/status.h"
#include "job/keys.h"
#include "store/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the shell around a training steers it. All members may be NULL. */
struct train_control {
    void *context;
    /* Asked between steps: should the run be checkpointed and left now? */
    bool (*should_stop)(void *context);
    /* Called with a complete state when store.checkpoint_every has passed, and before leaving. */
    enum status (*save)(void *context, const void *bytes, size_t n);
    /* Progress: steps done of all. */
    void (*progress)(void *context, uint64_t step, uint64_t steps);
};

enum train_end {
    TRAIN_FINISHED,      /* the record is complete, whatever the outcome */
    TRAIN_STOPPED        /* should_stop said so; the state was saved */
};

/* Trains the run (spec, seed), from `state` (n bytes of an earlier save of the same run; NULL: from the start).
 * A damaged or foreign state is said in the log and the run starts anew.
 * out: *record (record_clear), filled when *end is TRAIN_FINISHED
 * repeats: same bits whether or not it was stopped and resumed in between, for any number of ranks
 * fails: STATUS_JOB, STATUS_NUMERIC (of a probe): the caller records the run as FAILED; STATUS_ENVIRONMENT (no kernels for
 * this processor); whatever save returns */
enum status train_run(const struct spec *spec, uint64_t seed, const struct train_control *control,
                      const void *state, size_t n, struct record *record, enum train_end *end);

/* The trained model of a record, ready to evaluate.   out: *model (model_free) and *task (task_free)
 * fails: STATUS_CORRUPT when the record's tensors are not those of the spec */
struct model;
struct task;
enum status train_restore(const struct spec *spec, const struct record *record, struct model **model, struct task **task);

#endif
