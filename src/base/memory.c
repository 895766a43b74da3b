#include "base/memory.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_long balance;

static size_t round_up(size_t n) { return (n + MEMORY_ALIGN - 1) & ~(size_t)(MEMORY_ALIGN - 1); }

static _Noreturn void out_of_memory(size_t count, size_t size)
{
    fprintf(stderr, "invar: out of memory: %zu x %zu bytes were asked for; use fewer ranks a node, or a smaller job\n",
            count, size);
    _exit(3);
}

void *memory_new(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
        out_of_memory(count, size);
    bytes = round_up(bytes ? bytes : 1);
    void *p = aligned_alloc(MEMORY_ALIGN, bytes);
    if (!p)
        out_of_memory(count, size);
    memset(p, 0, bytes);
    atomic_fetch_add(&balance, 1);
    return p;
}

void *memory_grow(void *p, size_t old_count, size_t count, size_t size)
{
    void *q = memory_new(count, size);
    if (p)
        memcpy(q, p, old_count * size);
    memory_free(p);
    return q;
}

char *memory_text(const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(memory_new(n, 1), s, n);
}

char *memory_format(const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *s = memory_new((size_t)n + 1, 1);
    vsnprintf(s, (size_t)n + 1, format, again);
    va_end(again);
    return s;
}

void memory_free(void *p)
{
    if (!p)
        return;
    atomic_fetch_sub(&balance, 1);
    free(p);
}

long memory_balance(void) { return atomic_load(&balance); }

/* An arena is a list of blocks; the newest one is filled from the front. */
struct block {
    struct block *older;
    char *data;
    size_t used, size;
};

struct arena {
    struct block *newest;
    size_t bytes;
};

#define BLOCK_BYTES ((size_t)64 * 1024)

struct arena *arena_new(void) { return memory_new(1, sizeof(struct arena)); }

void *arena_take(struct arena *a, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        out_of_memory(count, size);
    bytes = round_up(bytes ? bytes : 1);
    struct block *b = a->newest;
    if (!b || b->size - b->used < bytes) {
        b = memory_new(1, sizeof *b);
        b->size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        b->data = memory_new(b->size, 1);
        b->older = a->newest;
        a->newest = b;
    }
    void *p = b->data + b->used;
    b->used += bytes;
    a->bytes += bytes;
    return p;
}

char *arena_text(struct arena *a, const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(arena_take(a, n, 1), s, n);
}

size_t arena_bytes(const struct arena *a) { return a->bytes; }

void arena_free(struct arena *a)
{
    if (!a)
        return;
    for (struct block *b = a->newest, *older; b; b = older) {
        older = b->older;
        memory_free(b->data);
        memory_free(b);
    }
    memory_free(a);
}
