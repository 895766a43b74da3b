/* outcome.h: what became of a run. DIVERGED is a result, a pixel of the map, not an error. */
#ifndef INVAR_JOB_OUTCOME_H
#define INVAR_JOB_OUTCOME_H

#include <stddef.h>

/* OUTCOME(name, number in files: append, never renumber, meaning) */
#define OUTCOME_TABLE(OUTCOME) \
    OUTCOME(DONE, 0, "trained to its last step, or to its target accuracy") \
    OUTCOME(DIVERGED, 1, "the loss or a weight became non-finite, or the loss exceeded train.diverged_above") \
    OUTCOME(UNFINISHED, 2, "the step limit came before train.target_accuracy") \
    OUTCOME(FAILED, 3, "could not be trained; its error text says why")

enum outcome {
#define OUTCOME(name, number, meaning) OUTCOME_##name = number,
    OUTCOME_TABLE(OUTCOME)
#undef OUTCOME
    OUTCOME_COUNT
};

const char *outcome_name(enum outcome o);       /* "DONE" */

/* The most frequent outcome of several runs, of equals the worse: FAILED, then DIVERGED, UNFINISHED, DONE.
 * in: count[OUTCOME_COUNT]   out: *often, its count; returns -1 (*often 0) where there is no run */
int outcome_most(const size_t *count, size_t *often);

#endif
