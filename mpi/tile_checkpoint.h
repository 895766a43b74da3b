/* tile_checkpoint.h: an unfinished tile as bytes: its finished runs and the state of the current one.
 *
 *     "INVRTILE"  version (u32)  tile id [33]
 *     finished (u64)   records, one after the other (store/record_code)
 *     id [33] of the current run ("" when there is none)   length (u64)   its state (run/train)
 *
 * In the machine's byte order. Valid when magic, version and tile id are these and the lengths fill the bytes exactly; the
 * store puts a checksum around it.
 */
#ifndef INVAR_MPI_TILE_CHECKPOINT_H
#define INVAR_MPI_TILE_CHECKPOINT_H

#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "store/record.h"

#include <stddef.h>

struct tile_checkpoint {
    size_t finished;
    struct record *record;       /* [finished] */
    char current[HASH_TEXT];     /* id of the current run, or "" */
    size_t length;
    const void *state;           /* [length]; inside the bytes it was read from */
};

/* Appends the bytes of `c` for tile `id`. */
void tile_checkpoint_write(struct text *out, const char *id, const struct tile_checkpoint *c);

/* out: *c, whose records tile_checkpoint_clear frees; its state stays inside `bytes`
 * fails: STATUS_CORRUPT; STATUS_VERSION; outputs untouched */
enum status tile_checkpoint_read(const void *bytes, size_t n, const char *id, struct tile_checkpoint *c);
void tile_checkpoint_clear(struct tile_checkpoint *c);

#endif
