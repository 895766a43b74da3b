/* record_sets.h: the measures of a record that come as lists of structs, struct record_manifold and struct record_circuit: their
 * members, once. The tables serve clearing, the bytes of checkpoints, comparison and the tile file; inside the store room. */
#ifndef INVAR_STORE_RECORD_SETS_H
#define INVAR_STORE_RECORD_SETS_H

#include "store/ncfile.h"
#include "store/record.h"

#include <stdbool.h>

/* Lengths of arrays, by the members of their own struct; also the names of the file's dimensions. */
enum set_extent { SET_ONE, SET_COORDINATE, SET_LAYER, SET_CIRCUIT, SET_UNIT, SET_DROPPED, SET_EXTENTS };

struct set_field {
    const char *name, *long_name;
    enum nc_type_name type;          /* NCFILE_DOUBLE, NCFILE_INT or NCFILE_INT64 */
    size_t offset;                   /* of the scalar, or of the pointer to the array */
    enum set_extent extent;          /* SET_ONE: a scalar; all scalars stand before all arrays */
};

#define SET_FIELDS_MAX 24

struct record_set {
    const char *name;                /* "manifold": dimension manifold_probe, variables as the fields say */
    size_t count, list;              /* offsets of the members of struct record: int, pointer */
    size_t size;                     /* of an element */
    int fields, scalars;
    const struct set_field *field;
};

enum { RECORD_SETS = 2 };
extern const struct record_set record_sets[RECORD_SETS];

int record_set_count(const struct record_set *s, const struct record *r);
/* Element i. */
void *record_set_at(const struct record_set *s, const struct record *r, int i);
/* Makes the list of `n` empty elements. */
void record_set_new(const struct record_set *s, struct record *r, int n);
/* Length of an extent in one element; negative when its members cannot be right. */
int64_t record_set_length(const struct record_set *s, const void *element, enum set_extent e);
const char *record_set_dimension(enum set_extent e);
/* The array of a field; NULL: absent. */
void *record_set_array(const struct set_field *f, const void *element);
void record_set_put_array(const struct set_field *f, void *element, void *array);

#endif
