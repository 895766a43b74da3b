/* task.h: a task makes batches of tokens with targets, and says what is true of them.
 *
 * Everything is a pure function of the job's task keys, the run's seed and the step: batch t can be made without
 * making batch t-1. Data come from task.seed and are the same for every run; the order in which a run sees
 * them (reshuffled each epoch) comes from the run's seed.
 */
#ifndef INVAR_TASK_TASK_H
#define INVAR_TASK_TASK_H

#include "base/status.h"
#include "job/keys.h"
#include "job/shape.h"

#include <stddef.h>
#include <stdint.h>

struct task;

/* Sequences side by side; arrays belong to whoever made the batch. */
struct batch {
    int sequences, length;
    int32_t *token;          /* [sequences][length] */
    int32_t *target;         /* [sequences][length]; -1 where the loss does not look */
    int32_t *position;       /* [sequences][length] of the task's positions, or NULL: 0, 1, 2, ... */
    double *weight;          /* [sequences] of a sequence's rows in the mean of the loss, or NULL: all 1 */
};

enum task_set { TASK_TRAIN, TASK_TEST };

/* shape_of. */
struct task_shape task_shape_of(const struct spec *s);

/* Makes the data of the task. `seed` is the run's.   out: *task, freed with task_free
 * fails: STATUS_JOB (keys that contradict each other; the text says which) */
enum status task_open(const struct spec *s, uint64_t seed, struct task **task);
void task_free(struct task *t);

struct task_shape task_shape(const struct task *t);
size_t task_sequences(const struct task *t, enum task_set set);
/* Sequences per step and steps per epoch (the last one of an epoch may be short), and steps of the whole training. */
size_t task_batch_size(const struct task *t);
size_t task_epoch_steps(const struct task *t);
size_t task_steps(const struct task *t);

/* Training batch of step `step` (from 0). `b` must hold task_batch_size sequences; b->sequences is set.
 * repeats: pure function of (task keys, run seed, step) */
void task_train_batch(const struct task *t, size_t step, struct batch *b);
/* Sequences [first, first + count) of a set, in their fixed order. */
void task_set_batch(const struct task *t, enum task_set set, size_t first, size_t count, struct batch *b);

/* Positions (ascending) at which the loss looks; returns how many, out: position[length]. */
int task_positions(const struct task *t, int *position);

/* What is known in closed form; NAN or 0 where nothing is. */
struct task_truth {
    double accuracy_best, accuracy_chance;
    double operator_r2;               /* R2 of the best linear predictor of the one-hot state ("oracle") */
    int eigenvalues;                  /* non-trivial eigenvalues of the task's transition operator */
    double eigenvalue[64][2];         /* real and imaginary part, by descending modulus, then descending imaginary part */
};
struct task_truth task_truth(const struct task *t);
/* The same without the task's data.   fails: as task_open */
enum status task_truth_of(const struct spec *s, struct task_truth *truth);

/* A batch with room for `sequences` of `length`; with `position` and `weight` where the shape has positions. Freed with
 * batch_free. */
struct batch batch_new(int sequences, int length);
struct batch batch_new_of(int sequences, struct task_shape shape);
void batch_free(struct batch *b);

#endif
