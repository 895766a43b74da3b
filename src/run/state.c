/* state.c: the format of a training's state.
 *
 *     magic[8] version(u32)
 *     the record as far as it has grown (store/record_code.h): id, steps, wall_time, restarts, curves, probes, sets
 *     weights: bytes(u64), the model's flat array
 *     moments: bytes(u64), the optimiser's state
 *     XXH3-128 of all bytes before it
 *
 * Numbers are in the machine's own order: a checkpoint is read where it was written. A state is valid when the checksum
 * fits, magic and version are these, the record is one of this run, and both arrays have the model's length.
 */
#include "run/state.h"

#include "base/hash.h"
#include "store/record_code.h"

#include <string.h>

static const char magic[8] = "INVARRUN";
enum { VERSION = 2, HEAD = sizeof magic + sizeof(uint32_t), TAIL = sizeof(struct hash) };

static void write_block(struct text *out, const void *p, size_t bytes)
{
    uint64_t n = bytes;
    text_add_bytes(out, &n, sizeof n);
    text_add_bytes(out, p, bytes);
}

static size_t weight_bytes(const struct training *t)
{
    return model_flat_length(t->model) * model_element_size(t->model);
}

void state_write(struct training *t, struct text *out)
{
    size_t start = out->length, bytes;
    uint32_t version = VERSION;
    text_add_bytes(out, magic, sizeof magic);
    text_add_bytes(out, &version, sizeof version);
    record_code_write(out, &t->record);
    write_block(out, model_weights(t->model), weight_bytes(t));
    void *moments = optimizer_state(t->optimizer, &bytes);
    write_block(out, moments, bytes);
    struct hash h = hash_bytes(out->s + start, out->length - start);
    text_add_bytes(out, h.byte, sizeof h.byte);
}

static enum status check_frame(const char *bytes, size_t n)
{
    uint32_t version;
    struct hash stored;
    if (n < HEAD + TAIL || memcmp(bytes, magic, sizeof magic))
        return status_fail(STATUS_CORRUPT, "these %zu bytes are no state of a training", n);
    memcpy(&version, bytes + sizeof magic, sizeof version);
    if (version != VERSION)
        return status_fail(STATUS_VERSION, "the state has format %u, this program reads %d", version, VERSION);
    memcpy(stored.byte, bytes + n - TAIL, TAIL);
    if (!hash_equal(stored, hash_bytes(bytes, n - TAIL)))
        return status_fail(STATUS_CORRUPT, "the state is damaged: its checksum does not fit");
    return STATUS_OK;
}

/* The content of the next block when it has this length, else NULL. */
static const char *next_block(const char **at, size_t *left, size_t bytes)
{
    uint64_t n;
    if (*left < sizeof n + bytes)
        return NULL;
    memcpy(&n, *at, sizeof n);
    const char *content = *at + sizeof n;
    *at = content + bytes;
    *left -= sizeof n + bytes;
    return n == bytes ? content : NULL;
}

static enum status check_record(const struct training *t, const struct record *r)
{
    if (strcmp(r->id, t->id))
        return status_fail(STATUS_JOB, "the state belongs to run %s", r->id);
    if (r->steps < 0 || (uint64_t)r->steps > t->steps || r->curves.points < 1)
        return status_fail(STATUS_CORRUPT, "the state has %lld of %llu steps and %d points: no training wrote it",
                           (long long)r->steps, (unsigned long long)t->steps, r->curves.points);
    return STATUS_OK;
}

enum status state_read(struct training *t, const void *bytes, size_t n)
{
    enum status status = check_frame(bytes, n);
    if (status != STATUS_OK)
        return status;
    struct record r;
    size_t used, moment_bytes;
    status = record_code_read((const char *)bytes + HEAD, n - HEAD - TAIL, &r, &used);
    if (status != STATUS_OK)
        return status;
    const char *at = (const char *)bytes + HEAD + used;
    size_t left = n - HEAD - TAIL - used;
    void *moment = optimizer_state(t->optimizer, &moment_bytes);
    const char *weights = next_block(&at, &left, weight_bytes(t));
    const char *moments = weights ? next_block(&at, &left, moment_bytes) : NULL;
    status = check_record(t, &r);
    if (status == STATUS_OK && (!moments || left != 0))
        status = status_fail(STATUS_CORRUPT, "the state's weights are not those of this model");
    if (status != STATUS_OK) {
        record_clear(&r);
        return status;
    }
    memcpy(model_weights(t->model), weights, weight_bytes(t));
    memcpy(moment, moments, moment_bytes);
    record_clear(&t->record);
    t->record = r;
    return STATUS_OK;
}
