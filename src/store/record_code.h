/* record_code.h: a record as bytes and back, for checkpoints of tiles of which some runs are finished.
 *
 * Little more than the structs, field by field, in the machine's byte order: a checkpoint is read by the machine type that
 * wrote it. Lengths are checked on reading, so bytes that are cut or foreign are refused. Published files are NetCDF.
 */
#ifndef INVAR_STORE_RECORD_CODE_H
#define INVAR_STORE_RECORD_CODE_H

#include "base/status.h"
#include "base/text.h"
#include "store/record.h"

/* Appends the record to `out`. */
void record_code_write(struct text *out, const struct record *r);

/* Reads one record from the n bytes at `bytes`.   out: *r (record_clear) and *used, the bytes it took
 * fails: STATUS_CORRUPT; outputs untouched */
enum status record_code_read(const void *bytes, size_t n, struct record *r, size_t *used);

/* Elements of the packed weights. */
size_t record_code_weights(const struct record *r);

#endif
