/* record_compare.h: in what two records of the same run differ, bit by bit. */
#ifndef INVAR_STORE_RECORD_COMPARE_H
#define INVAR_STORE_RECORD_COMPARE_H

#include "base/text.h"
#include "store/record.h"

/* Variables that differ. Probes use LAPACK, whose last bits depend on the library; training does not. */
struct record_differences {
    int training, probes;
};

/* Compares all that a tile stores of a run but the time it took and its restarts. Two NaN are equal.
 * out: appends a line to `out` for every variable that differs: its name, the first index, both values, how many of all differ */
struct record_differences record_compare(const struct record *stored, const struct record *now, struct text *out);

#endif
