/* tile_sets.h: inside the store room: the record's sets (record_sets.h) and coordinate_step in the tile file. */
#ifndef INVAR_STORE_TILE_SETS_H
#define INVAR_STORE_TILE_SETS_H

#include "store/ncfile.h"
#include "store/record.h"

void tile_sets_put(struct ncfile *f, const struct record *records, int count);

/* What tile_sets_put has written, all runs, read at once. */
struct tile_sets;
/* NULL when a variable is missing or has another shape. */
struct tile_sets *tile_sets_load(struct ncfile *f, int runs);
void tile_sets_free(struct tile_sets *t);
/* The parts of run i.   out: its sets and coordinate_step in *r   Returns 0 when lengths do not fit together */
int tile_sets_take(const struct tile_sets *t, int i, struct record *r);

#endif
