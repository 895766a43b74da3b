/* shape.h: the sizes of a task, from its keys alone. Pure. */
#ifndef INVAR_JOB_SHAPE_H
#define INVAR_JOB_SHAPE_H

#include "base/text.h"
#include "job/keys.h"

#include <stdbool.h>

/* What a model must know of its task. */
struct task_shape {
    int vocabulary;          /* tokens 0..vocabulary-1 */
    int classes;             /* outputs; targets 0..classes-1 */
    int length;              /* input positions of a sequence */
    int looked;              /* positions of them at which the loss looks; 0: all */
    int batch;               /* sequences of a training step; 0: not known */
    /* Of block lists; 0 elsewhere. */
    int block;               /* k: tokens of a whole block */
    int common;              /* tokens 0..common-1 are common, t and t ^ 1 associated; the others are rare */
    int positions;           /* position vectors 0..positions-1; 0: 0..length-1 of the model's max_length */
    int period;              /* positions are centred, and shifted cyclically, within groups of so many; 0: all in one */
};

struct task_shape shape_of(const struct spec *s);

/* Sequences of the training and of the test set: drawn, or as many as the task's patterns or its complete enumeration has
 * (also beyond what could be trained). Where new ones are drawn at every step, the training set of an evaluation is as
 * large as the test set. */
double shape_sequences(const struct spec *s, bool test);

/* ---- block lists ---- */

/* Of which tokens a sequence is. */
enum token_class {
    CLASS_RARE,
    CLASS_COMMON,            /* recall: each label is the one associated with its item */
    CLASS_VARIED,            /* recall: no label is */
    CLASSES
};

/* Different tokens of a sequence, the answer included: as many symbols has its pattern of relations. */
int shape_symbols(const struct spec *s);
/* Whether the task has sequences of the class: there are tokens enough, whatever task.rare and task.variability say, so
 * that points of a grid that differ in these have the same sequences, of other weights. */
bool shape_has_class(const struct spec *s, enum token_class class);
/* The probability of the class. */
double shape_class_share(const struct spec *s, enum token_class class);

/* At most so many patterns, and sequences of a complete enumeration. */
#define SHAPE_PATTERNS_MAX 20000
#define SHAPE_COMPLETE_MAX 4000000

/* Whether the task's keys can be met together; otherwise `why` says which cannot and what to do. */
bool shape_possible(const struct spec *s, struct text *why);

#endif
