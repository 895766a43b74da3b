/* rules.h: what several keys must satisfy together, at every point of the axes. */
#ifndef INVAR_JOB_RULES_H
#define INVAR_JOB_RULES_H

#include "job/complaint.h"
#include "job/job.h"

/* A number of a NAMED key that was given, also as an axis. */
struct rule_name {
    const struct key *key;         /* the NAMED key */
    const char *name;
    struct place place;
};

/* Where the job's keys were given, by number of the key (key_at); line 0: not given. `bad` keys have no valid value. */
struct rule_scope {
    const struct spec *spec;
    int axes;
    const struct axis *axis;
    const struct place *place;
    const struct place *text;      /* where the text of the value begins, behind its quote; line 0: it has several lines */
    const bool *bad;
    int names;
    const struct rule_name *name;
};

/* Adds a complaint, at the first of its keys that was given, for every rule that is broken anywhere on the axes. */
void rules_check(const struct rule_scope *scope, struct complaints *c);

#endif
