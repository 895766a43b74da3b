/* tree.h: YAML text as a tree whose nodes know where they stand.
 *
 * A subset on purpose: one document of mappings, lists and plain or quoted scalars. Anchors, aliases and tags are
 * complaints: a job file is read by people first.
 */
#ifndef INVAR_JOB_TREE_H
#define INVAR_JOB_TREE_H

#include "job/complaint.h"

#include <stdbool.h>
#include <stddef.h>

enum tree_kind { TREE_NULL, TREE_SCALAR, TREE_LIST, TREE_MAP };

struct tree {
    enum tree_kind kind;
    struct place place;
    bool plain;                    /* a scalar without quotes */
    bool one_line;                 /* it begins and ends on the same line */
    const char *text;              /* of a scalar, and of a null as written; else "" */
    int count;                     /* items of a list, pairs of a mapping */
    struct tree **key;             /* [count] scalars; mapping only */
    struct tree **item;            /* [count] */
};

/* Parses `length` bytes of source `source` (see struct place). Nodes and texts live in `arena`.
 * Returns the root, or NULL when the text is empty or not YAML (then at least one complaint was added). */
struct tree *tree_parse(struct arena *arena, const char *text, size_t length, int source, struct complaints *c);

/* What a node is, for "got ...": "a list", "a mapping", "nothing", or its text in quotes. Lives in `arena`. */
const char *tree_describe(struct arena *arena, const struct tree *t);

#endif
