/* tile.h: the file of a finished tile; its format is described in tile.c. */
#ifndef INVAR_STORE_TILE_H
#define INVAR_STORE_TILE_H

#include "base/status.h"
#include "store/record.h"

#include <stddef.h>

/* Writes `count` >= 1 records to `path` (a temporary, see publish.h). `job` is the effective job's text.
 * repeats: same values for the same records   fails: STATUS_IO; nothing is left at `path` */
enum status tile_write(const char *path, const char *tile_id, const char *job, const struct record *records, int count);

struct tile;

/* Reads and verifies the whole file. Only its note is parsed; the NetCDF part is opened when a record is asked for.
 * out: *tile, closed with tile_close
 * fails: STATUS_IO (cannot be read), STATUS_CORRUPT (damaged, cut short or no tile), STATUS_VERSION */
enum status tile_open(const char *path, struct tile **tile);
void tile_close(struct tile *t);

int tile_runs(const struct tile *t);
const char *tile_run_id(const struct tile *t, int i);
enum outcome tile_outcome(const struct tile *t, int i);
/* Text of the effective job of the launch that wrote the tile; memory_free. NULL when it cannot be read. */
char *tile_job(struct tile *t);
/* A global attribute (invar_revision, libraries, instruction_set, subnormals); memory_free. "" when it cannot be read. */
char *tile_attribute(struct tile *t, const char *name);
/* Record number i, every bit as it was written.   out: *r (record_clear); untouched on failure
 * fails: STATUS_CORRUPT */
enum status tile_record(struct tile *t, int i, struct record *r);

#endif
