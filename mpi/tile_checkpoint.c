#include "mpi/tile_checkpoint.h"

#include "base/memory.h"
#include "store/record_code.h"

#include <stdint.h>
#include <string.h>

#define MAGIC "INVRTILE"
enum { VERSION = 1 };

/* The id as it stands in the bytes: always HASH_TEXT of them. */
static void add_id(struct text *out, const char *id)
{
    char fixed[HASH_TEXT] = "";
    memcpy(fixed, id, strlen(id));
    text_add_bytes(out, fixed, sizeof fixed);
}

void tile_checkpoint_write(struct text *out, const char *id, const struct tile_checkpoint *c)
{
    uint32_t version = VERSION;
    uint64_t finished = c->finished, length = c->length;
    text_add_bytes(out, MAGIC, strlen(MAGIC));
    text_add_bytes(out, &version, sizeof version);
    add_id(out, id);
    text_add_bytes(out, &finished, sizeof finished);
    for (size_t i = 0; i < c->finished; i++)
        record_code_write(out, &c->record[i]);
    add_id(out, c->current);
    text_add_bytes(out, &length, sizeof length);
    text_add_bytes(out, c->state ? c->state : "", c->length);
}

/* Takes n bytes off the front; NULL when fewer are left. */
static const void *take(const char **at, size_t *left, size_t n)
{
    if (n > *left)
        return NULL;
    const void *p = *at;
    *at += n;
    *left -= n;
    return p;
}

static enum status damaged(const char *id)
{
    return status_fail(STATUS_CORRUPT, "the checkpoint of tile %s is cut or damaged", id);
}

static enum status read_head(const char **at, size_t *left, const char *id, uint64_t *finished)
{
    const void *magic = take(at, left, strlen(MAGIC)), *number = take(at, left, sizeof(uint32_t));
    const char *tile = take(at, left, HASH_TEXT);
    const void *count = take(at, left, sizeof *finished);
    uint32_t version;
    if (!magic || !number || !tile || !count || memcmp(magic, MAGIC, strlen(MAGIC)))
        return damaged(id);
    memcpy(&version, number, sizeof version);
    if (version != VERSION)
        return status_fail(STATUS_VERSION, "the checkpoint of tile %s has version %u, expected %d", id, version, VERSION);
    if (strncmp(tile, id, HASH_TEXT))
        return damaged(id);
    memcpy(finished, count, sizeof *finished);
    return *finished <= *left ? STATUS_OK : damaged(id);     /* a record takes more than a byte */
}

static enum status read_records(const char **at, size_t *left, struct tile_checkpoint *c, uint64_t finished)
{
    c->record = memory_new(finished, sizeof *c->record);
    for (; c->finished < finished; c->finished++) {
        size_t used;
        enum status status = record_code_read(*at, *left, &c->record[c->finished], &used);
        if (status != STATUS_OK)
            return status;
        take(at, left, used);
    }
    return STATUS_OK;
}

static enum status read_current(const char **at, size_t *left, const char *id, struct tile_checkpoint *c)
{
    const char *current = take(at, left, HASH_TEXT);
    const void *length = take(at, left, sizeof(uint64_t));
    uint64_t n;
    if (!current || !length || current[HASH_TEXT - 1])
        return damaged(id);
    memcpy(&n, length, sizeof n);
    memcpy(c->current, current, HASH_TEXT);
    c->state = take(at, left, n);
    c->length = n;
    return c->state && *left == 0 ? STATUS_OK : damaged(id);
}

enum status tile_checkpoint_read(const void *bytes, size_t n, const char *id, struct tile_checkpoint *c)
{
    const char *at = bytes;
    uint64_t finished = 0;
    struct tile_checkpoint read = {0};
    enum status status = read_head(&at, &n, id, &finished);
    if (status == STATUS_OK)
        status = read_records(&at, &n, &read, finished);
    if (status == STATUS_OK)
        status = read_current(&at, &n, id, &read);
    if (status != STATUS_OK) {
        tile_checkpoint_clear(&read);
        return status;
    }
    *c = read;
    return STATUS_OK;
}

void tile_checkpoint_clear(struct tile_checkpoint *c)
{
    for (size_t i = 0; i < c->finished; i++)
        record_clear(&c->record[i]);
    memory_free(c->record);
    *c = (struct tile_checkpoint){0};
}
