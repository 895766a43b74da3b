/* planner.h: several exact orders of one computation, counted, and the cheapest of them taken.
 *
 * Every candidate computes the same function and the same gradient; they differ in what is formed: which positions, which
 * tables, in which order products are contracted. FLOPs are counted for one training step (forward and backward) of the
 * shape's batch, a multiply-add as two; only matrix products and attention count. The choice is a pure function of the
 * job, never of the machine, so that bits do not depend on where a run is trained. `invar plan -v` prints it.
 */
#ifndef INVAR_MODEL_PLANNER_H
#define INVAR_MODEL_PLANNER_H

#include "base/text.h"
#include "model/passes.h"

#define PLANNER_PARTS 40
#define PLANNER_CANDIDATES 8

struct planner_part {
    char what[80];                       /* "block 2: keys and values, last position only" */
    double flops;
};

struct planner_count {
    double flops;                        /* sum over the parts */
    int parts;
    struct planner_part part[PLANNER_PARTS];
};

void planner_add(struct planner_count *c, double flops, const char *format, ...) __attribute__((format(printf, 3, 4)));

struct planner_candidate {
    const char *name, *does;             /* "reach", one line for people */
    char invalid[160];                   /* why it cannot be taken here; "" when it can */
    unsigned flags;                      /* the kind's own */
    const struct model_passes *passes;
    struct planner_count count;
};

struct planner {
    int candidates, chosen;              /* candidate 0 is the dense order */
    struct planner_candidate candidate[PLANNER_CANDIDATES];
};

/* Appends a candidate, to be filled in by the caller. */
struct planner_candidate *planner_candidate(struct planner *p, const char *name, const char *does);
/* The valid candidate of fewest FLOPs; the first of equals. With `dense` candidate 0. Sets and returns p->chosen. */
int planner_choose(struct planner *p, int dense);
/* For people: candidates with their FLOPs or why they are out, then the parts of the chosen one. */
void planner_print(const struct planner *p, struct text *out);

#endif
