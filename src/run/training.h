/* training.h: the state of a training between two steps; shared by the files of this folder only. */
#ifndef INVAR_RUN_TRAINING_H
#define INVAR_RUN_TRAINING_H

#include "base/hash.h"
#include "job/keys.h"
#include "model/model.h"
#include "store/record.h"
#include "task/task.h"

#include <stdbool.h>
#include <stdint.h>

struct training {
    const struct spec *spec;
    uint64_t seed;
    char id[HASH_TEXT];
    struct task *task;
    struct model *model;
    struct optimizer *optimizer;
    struct batch batch;          /* of a step */
    struct batch view;           /* of an evaluation */
    uint64_t step, steps;        /* done, and of the whole training */
    double earlier;              /* seconds of training in earlier launches */
    double started, saved;       /* clock at the start of this launch and at the last checkpoint */
    bool evaluated;              /* a point of the curves was made since the last checkpoint */
    bool over;
    enum outcome outcome;        /* when over */
    struct record record;        /* id, seed, restarts, last_finite_step, and growing curves and probes; the rest at the end */
    int room;                    /* points for which the arrays of record.curves are known to have room */
};

#endif
