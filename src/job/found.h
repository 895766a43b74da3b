/* found.h: where each key of a job is written, in the file or in a --set.
 *
 * A job is read in three passes: first every key is found and its node noted (the file, then each --set, which
 * replaces what stood before); then the values are read (job_parse.c); then the rules between keys are checked.
 */
#ifndef INVAR_JOB_FOUND_H
#define INVAR_JOB_FOUND_H

#include "job/keys.h"
#include "job/tree.h"

struct found {
    const struct tree *key, *item;       /* NULL: not given */
};

/* A number of a NAMED key. */
struct found_name {
    const struct key *key;
    const char *name;
    struct found at;
};

struct found_axis {
    const struct key *key;
    const char *name;                    /* of a NAMED key's number, else NULL */
    struct found at;
};

struct found_keys {
    struct arena *arena;
    struct complaints *complaints;
    int keys;
    struct found *key;                   /* [keys] by number of the key */
    struct found *section;               /* by number of the section */
    struct found name, seeds, claims, all_axes;
    int names, names_capacity;
    struct found_name *name_of;          /* in the order of the file, then of the --sets */
    int axes, axes_capacity;
    struct found_axis *axis;             /* in the order of the axes */
};

/* An empty set; found_clear frees its inside (the trees belong to the arena). */
struct found_keys found_new(struct arena *arena, struct complaints *c);
void found_clear(struct found_keys *f);

/* Notes all keys of the file's tree, a mapping; complains about unknown and duplicate ones. */
void found_in_file(struct found_keys *f, const struct tree *root);
/* The same for "KEY=VALUE", the --set number `source` (from 1). */
void found_in_override(struct found_keys *f, const char *override, int source);

/* Where this number of a NAMED key is written, or NULL. */
const struct found *found_name_at(const struct found_keys *f, const struct key *k, const char *name);

#endif
