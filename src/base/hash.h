/* hash.h: 128-bit XXH3 of bytes (libxxhash): run ids and file checksums. Not for security. */
#ifndef INVAR_BASE_HASH_H
#define INVAR_BASE_HASH_H

#include <stddef.h>

#define HASH_TEXT 33          /* 32 hexadecimal digits and the terminator */

struct hash { unsigned char byte[16]; };   /* big-endian: the order in which it prints */

struct hash hash_bytes(const void *p, size_t n);
void hash_print(struct hash h, char out[HASH_TEXT]);
int hash_equal(struct hash a, struct hash b);

#endif
