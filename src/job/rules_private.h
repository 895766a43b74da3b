/* rules_private.h: one rule between keys, and the lists of them. */
#ifndef INVAR_JOB_RULES_PRIVATE_H
#define INVAR_JOB_RULES_PRIVATE_H

#include "base/text.h"
#include "job/rules.h"

#include <stdbool.h>

enum { RULE_READS_MAX = 24 };

/* `holds` returns true when the rule holds; otherwise `why` says what is wrong and what to do. It may read the keys `reads`
 * alone: the rule is not tried while one of them has no valid value, and at every point of the axes over them. The complaint
 * stands at the first of them that was given; `at_named`: at the one among these that it names first. */
struct rule {
    bool (*holds)(const struct spec *s, struct text *why);
    const char *reads[RULE_READS_MAX];
    bool at_named;
};

#define RULE(holds_, ...) {.holds = holds_, .reads = {__VA_ARGS__}}
#define RULE_AT_NAMED(holds_, ...) {.holds = holds_, .reads = {__VA_ARGS__}, .at_named = true}
#define RULE_END {.holds = NULL}

/* Lists that end with a rule without `holds`. */
extern const struct rule rules_of_task[], rules_of_model[], rules_of_results[];

/* The keys that make shape_of(s), but batch. */
#define RULE_SHAPE "task.kind", "task.states", "task.length", "task.pattern", "task.blocks", "task.hops", "task.chains", \
    "task.order", "task.common", "task.rare_tokens", "task.layout", "task.period"
#define RULE_STEPS "train.steps", "train.epochs", "train.batch", "task.sequences", "task.kind", "task.expectation"

/* A walk through the product of the axes over `reads` (ends with NULL). */
struct rule_walk {
    int axes, at[JOB_AXES_MAX];
    const struct axis *axis[JOB_AXES_MAX];
};
/* Puts *s at the first point; false when one of the keys has no valid value. */
bool rule_walk_begin(struct rule_walk *w, const char *const *reads, const struct rule_scope *scope, struct spec *s);
/* Puts *s at the next point; false when there is none. */
bool rule_walk_next(struct rule_walk *w, struct spec *s);
/* Complains at `where`, and says at which point. */
void rule_complain(const struct rule_walk *w, const struct spec *s, struct place where, const char *why, struct complaints *c);
/* Where the first of `reads` that was given stands; among these the one that `why` (or NULL) names first, if it names one. */
struct place rule_place(const char *const *reads, const struct rule_scope *scope, const char *why);

/* The names of coordinates: model.coordinates and those of init.coordinates. */
void rules_check_names(const struct rule_scope *scope, struct complaints *c);
/* refine.levels against the axes. */
void rules_check_refinement(const struct rule_scope *scope, struct complaints *c);

#endif
