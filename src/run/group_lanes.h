/* group_lanes.h: inside the run room: the lanes of a group. */
#ifndef INVAR_RUN_GROUP_LANES_H
#define INVAR_RUN_GROUP_LANES_H

#include "job/manifold.h"
#include "kern/kern.h"
#include "model/manifold_metric.h"
#include "model/manifold_tape.h"
#include "run/group.h"

#define LANES KERN_TAPE_LANES

/* What the run of a lane has come to. */
struct lane {
    struct group_run *run;           /* NULL: the lane is idle */
    size_t number;                   /* of the run */
    uint64_t step, steps;
    uint64_t every, look;            /* steps between points of the curves (0: none between) and looks at the loss */
    double started;                  /* the march's share of time when it began */
    int room;                        /* of the curves */
};

/* The program of a structure, and the numbers of all lanes. Arrays [coordinates][LANES]. */
struct lanes {
    const struct kern_f64 *kern;
    struct spec spec;                /* of one run of the structure; what differs from run to run is not read from it */
    struct manifold *manifold;
    struct manifold_tape *tape;
    struct manifold_metric *metric;  /* NULL: coordinates */
    int coordinates;
    double *slot, *judge_slot;       /* of the two programs; the first coordinates of `slot` are the coordinates themselves */
    double *gradient;                /* of the step at hand, in the metric */
    double *first, *second;          /* moments, or the velocity */
    double *reached;                 /* coordinate_step */
    double decay1[LANES], decay2[LANES];     /* AdamW: beta^t */
    struct lane lane[LANES];
};

/* fails: STATUS_JOB, STATUS_ENVIRONMENT */
enum status lanes_open(struct lanes *l, const struct spec *s);
void lanes_close(struct lanes *l);

/* The start of run `number` in lane i. */
void lanes_begin(struct lanes *l, int i, struct group_run *run, size_t number);
/* One pass of the program for all lanes; loss of lane i at the coordinates it has. */
void lanes_compute(struct lanes *l);
double lanes_loss(const struct lanes *l, int i);
/* One step of the optimiser in all lanes that have a run. */
void lanes_step(struct lanes *l);

/* Measures on lane i: a point of its curves; the manifold probe. */
void lanes_point(struct lanes *l, int i);
void lanes_probe(struct lanes *l, int i);

#endif
