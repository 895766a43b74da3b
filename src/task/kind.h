/* kind.h: what a kind of task supplies; the rest (storage, order, batches, positions) is the same for all, in task.c. */
#ifndef INVAR_TASK_KIND_H
#define INVAR_TASK_KIND_H

#include "task/task.h"

struct task_ops {
    struct task_shape (*shape)(const struct spec *s);
    size_t (*sequences)(const struct spec *s, enum task_set set);
    /* Input and targets of sequence `number` of a set, before train.positions; a pure function of the task's keys.
     * out: token[shape.length], target[shape.length] (-1 where the task asks nothing) */
    void (*sequence)(const struct spec *s, enum task_set set, size_t number, int32_t *token, int32_t *target);
    void (*truth)(const struct spec *s, struct task_truth *truth);
};

extern const struct task_ops markov_ops;

#endif
