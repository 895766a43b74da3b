/* rules.h: what several keys must satisfy together, at every point of the axes. */
#ifndef INVAR_JOB_RULES_H
#define INVAR_JOB_RULES_H

#include "job/complaint.h"
#include "job/job.h"

/* Where the job's keys were given, by number of the key (key_at); line 0: not given. `bad` keys have no valid value. */
struct rule_scope {
    const struct spec *spec;
    int axes;
    const struct axis *axis;
    const struct place *place;
    const bool *bad;
};

/* Adds a complaint, at the first of its keys that was given, for every rule that is broken anywhere on the axes. */
void rules_check(const struct rule_scope *scope, struct complaints *c);

#endif
