#include "run/weights.h"

#include "base/memory.h"

#include <string.h>

static size_t count_of(const struct tensor *t) { return (size_t)t->rows * (size_t)t->cols; }

void weights_pack(struct model *m, struct record *r)
{
    const struct tensor *table;
    size_t size = model_element_size(m), at = 0;
    r->tensors = model_tensors(m, &table);
    r->tensor = memory_new((size_t)r->tensors, sizeof *r->tensor);
    r->element_size = (int)size;
    r->weights = memory_new(model_parameters(m), size);
    for (int i = 0; i < r->tensors; i++) {
        struct record_tensor *t = &r->tensor[i];
        memcpy(t->name, table[i].name, sizeof t->name);
        t->rows = table[i].rows;
        t->cols = table[i].cols;
        t->offset = at;
        memcpy((char *)r->weights + at * size, (const char *)model_weights(m) + table[i].offset * size,
               count_of(&table[i]) * size);
        at += count_of(&table[i]);
    }
}

static enum status compare(const struct record *r, const struct model *m)
{
    const struct tensor *table;
    int tensors = model_tensors(m, &table);
    if (r->tensors != tensors)
        return status_fail(STATUS_CORRUPT, "run %s: %d tensors are stored, the model of its keys has %d: retrain it",
                           r->id, r->tensors, tensors);
    if (!r->weights || (r->element_size != 4 && r->element_size != 8))
        return status_fail(STATUS_CORRUPT, "run %s: no weights of 4 or 8 bytes are stored: retrain the run", r->id);
    size_t at = 0;
    for (int i = 0; i < tensors; i++) {
        const struct record_tensor *t = &r->tensor[i];
        if (strncmp(t->name, table[i].name, sizeof t->name) || t->rows != table[i].rows || t->cols != table[i].cols ||
            t->offset != at)
            return status_fail(STATUS_CORRUPT, "run %s: stored tensor %d is %.63s (%d x %d), expected %s (%d x %d): "
                               "retrain it", r->id, i, t->name, t->rows, t->cols, table[i].name, table[i].rows,
                               table[i].cols);
        at += count_of(&table[i]);
    }
    return STATUS_OK;
}

enum status weights_unpack(const struct record *r, struct model *m)
{
    enum status status = compare(r, m);
    if (status != STATUS_OK)
        return status;
    const struct tensor *table;
    int tensors = model_tensors(m, &table);
    double *flat = memory_new(model_flat_length(m), sizeof *flat);
    for (int i = 0; i < tensors; i++)
        for (size_t k = 0; k < count_of(&table[i]); k++) {
            size_t from = r->tensor[i].offset + k;
            flat[table[i].offset + k] = r->element_size == 4 ? (double)((const float *)r->weights)[from]
                                                             : ((const double *)r->weights)[from];
        }
    model_weights_set(m, flat);
    memory_free(flat);
    return STATUS_OK;
}
