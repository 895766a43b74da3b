/* seal.h: files that can prove that they are whole.
 *
 * A sealed file is its content, a note (some bytes that can be read without understanding the content; often none),
 * and a trailer of 32 bytes:
 *
 *     offset  bytes
 *     0       8      "INVRSEAL"
 *     8       8      length of the content, little-endian
 *     16      16     XXH3-128 of all bytes before it, big-endian
 *
 * A file is valid when it ends in a trailer whose checksum is that of the bytes before it. So a file that was cut
 * anywhere, grew, or has a byte changed anywhere, the trailer included, is found out. HDF5 ends a file at an address
 * in its superblock and does not look at what follows: a sealed NetCDF file is a NetCDF file for every reader.
 */
#ifndef INVAR_STORE_SEAL_H
#define INVAR_STORE_SEAL_H

#include "base/status.h"

#include <stddef.h>

#define SEAL_BYTES 32

/* Writes content, note (a text; may be "") and trailer to `path`, new or truncated. It is not yet durable (see
 * publish.h).
 * fails: STATUS_IO with path and reason; the file is removed */
enum status seal_write(const char *path, const void *content, size_t n, const char *note);

struct sealed {
    void *content;           /* memory_free */
    size_t length;           /* of the content */
    char *note;              /* terminated; inside the same block */
};

/* Reads and verifies a whole file.
 * fails: STATUS_IO (cannot be read), STATUS_CORRUPT (text: what is wrong); *out untouched */
enum status seal_read(const char *path, struct sealed *out);

#endif
