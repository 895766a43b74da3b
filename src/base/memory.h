/* memory.h: allocation that cannot return NULL, and arenas.
 *
 * A rank that has no memory left cannot go on; plan and the start-up check refuse such jobs beforehand, so an
 * allocation that fails all the same ends the process with exit code 3 and says how much was asked for.
 * Everything is zeroed and aligned to MEMORY_ALIGN bytes (a cache line, the widest vector).
 */
#ifndef INVAR_BASE_MEMORY_H
#define INVAR_BASE_MEMORY_H

#include <stddef.h>

#define MEMORY_ALIGN 64

/* Zeroed memory for `count` objects of `size` bytes; checks the product for overflow. Free with memory_free. */
void *memory_new(size_t count, size_t size);
/* Grows `p` (may be NULL) from `old_count` to `count` objects, the new ones zeroed. */
void *memory_grow(void *p, size_t old_count, size_t count, size_t size);
char *memory_text(const char *s);                       /* a copy of a string */
char *memory_format(const char *format, ...) __attribute__((format(printf, 1, 2)));   /* a printed string */
void memory_free(void *p);
/* Blocks handed out and not yet freed, over all threads: 0 at the end of a clean program. */
long memory_balance(void);

/* An arena: many objects that die together. */
struct arena;
struct arena *arena_new(void);
void *arena_take(struct arena *a, size_t count, size_t size);
char *arena_text(struct arena *a, const char *s);
size_t arena_bytes(const struct arena *a);              /* handed out so far */
void arena_free(struct arena *a);                       /* NULL is allowed */

#endif
