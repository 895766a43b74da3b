#include "base/hash.h"

#include <string.h>
#include <xxhash.h>

struct hash hash_bytes(const void *p, size_t n)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(p, n));
    struct hash h;
    memcpy(h.byte, c.digest, sizeof h.byte);
    return h;
}

void hash_print(struct hash h, char out[HASH_TEXT])
{
    for (int i = 0; i < 16; i++) {
        out[2 * i] = "0123456789abcdef"[h.byte[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[h.byte[i] & 15];
    }
    out[HASH_TEXT - 1] = '\0';
}

int hash_equal(struct hash a, struct hash b) { return memcmp(a.byte, b.byte, sizeof a.byte) == 0; }
