/* kind.h: what a kind of task supplies; the rest (storage, order, batches, positions) is the same for all, in task.c. */
#ifndef INVAR_TASK_KIND_H
#define INVAR_TASK_KIND_H

#include "base/stream.h"
#include "task/task.h"

/* One sequence: input, targets before train.positions (-1 where the task asks nothing), places, all [shape.length]. */
struct task_sequence {
    int32_t *token, *target;
    int32_t *position;       /* filled where shape.positions is not 0; else NULL */
    double weight;           /* 1 where sequences are drawn */
};

typedef void task_each(void *context, const struct task_sequence *q);

struct task_ops {
    /* Draws a sequence: a pure function of the task's keys and the stream.   out: *q; its weight is left alone */
    void (*draw)(const struct spec *s, struct stream *stream, struct task_sequence *q);
    /* Where the task is not sampled: all sequences in their order, shape_sequences of them. NULL: it always is. */
    void (*enumerate)(const struct spec *s, task_each *each, void *context);
    void (*truth)(const struct spec *s, struct task_truth *truth);
};

extern const struct task_ops markov_ops, blocklist_ops;

#endif
