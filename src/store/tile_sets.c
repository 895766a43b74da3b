#include "store/tile_sets.h"

#include "base/memory.h"
#include "store/record_sets.h"
#include "store/tile_fields.h"

#include <math.h>
#include <string.h>

/* ---- writing ---- */

struct lengths {
    size_t probes[RECORD_SETS], length[SET_EXTENTS], times;
};

static void at_least(size_t *a, int64_t b)
{
    if (b > 0 && *a < (size_t)b)
        *a = (size_t)b;
}

static struct lengths measure(const struct record *records, int count)
{
    struct lengths l = {0};
    for (const struct record *r = records; r < records + count; r++) {
        at_least(&l.times, r->coordinate_step ? r->coordinates : 0);
        for (int s = 0; s < RECORD_SETS; s++) {
            at_least(&l.probes[s], record_set_count(&record_sets[s], r));
            for (int p = 0; p < record_set_count(&record_sets[s], r); p++)
                for (int k = record_sets[s].scalars; k < record_sets[s].fields; k++) {
                    const struct set_field *f = &record_sets[s].field[k];
                    const void *element = record_set_at(&record_sets[s], r, p);
                    if (record_set_array(f, element))
                        at_least(&l.length[f->extent], record_set_length(&record_sets[s], element, f->extent));
                }
        }
    }
    return l;
}

static void fill(enum nc_type_name type, char *to, size_t n)
{
    const double none = NCFILE_FILL_DOUBLE;
    const int32_t none_int = NCFILE_FILL_INT;
    const int64_t none_int64 = NCFILE_FILL_INT;
    const void *value = type == NCFILE_DOUBLE ? (const void *)&none
                        : type == NCFILE_INT  ? (const void *)&none_int
                                              : (const void *)&none_int64;
    const size_t size = tile_type_size(type);
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * size, value, size);
}

static void put(struct ncfile *f, const struct set_field *d, const char *dims, const void *values)
{
    ncfile_variable(f, d->name, d->type, dims, "1", d->long_name);
    ncfile_coordinates(f, d->name, "run_id");
    ncfile_put_raw(f, d->name, values);
}

/* One variable over all runs and probes.   in: the length of a row, 1 for scalars */
static void put_field(struct ncfile *f, const struct record_set *s, int k, size_t probes, size_t length,
                      const struct record *records, int count)
{
    const struct set_field *d = &s->field[k];
    const size_t size = tile_type_size(d->type), n = (size_t)count * probes * length;
    char *values = memory_new(n, size), *dims = memory_format("run %s_probe %s", s->name, record_set_dimension(d->extent));
    bool any = false;
    fill(d->type, values, n);
    for (int i = 0; i < count; i++)
        for (int p = 0; p < record_set_count(s, &records[i]); p++) {
            const void *element = record_set_at(s, &records[i], p);
            const void *from = d->extent == SET_ONE ? (const char *)element + d->offset : record_set_array(d, element);
            if (from)
                memcpy(values + ((size_t)i * probes + (size_t)p) * length * size, from,
                       (size_t)record_set_length(s, element, d->extent) * size);
            any |= from != NULL;
        }
    if (any)
        put(f, d, dims, values);
    memory_free(dims);
    memory_free(values);
}

/* Bit k is set when field k, an array, is there. */
static void put_presence(struct ncfile *f, const struct record_set *s, size_t probes, const struct record *records, int count)
{
    int64_t *bits = memory_new((size_t)count * probes, sizeof *bits), *number = memory_new((size_t)count, sizeof *number);
    for (int i = 0; i < count; i++) {
        number[i] = record_set_count(s, &records[i]);
        for (int p = 0; p < (int)number[i]; p++)
            for (int k = s->scalars; k < s->fields; k++)
                if (record_set_array(&s->field[k], record_set_at(s, &records[i], p)))
                    bits[(size_t)i * probes + (size_t)p] |= (int64_t)1 << k;
    }
    char *dims = memory_format("run %s_probe", s->name), *name = memory_format("%s_arrays", s->name);
    char *count_name = memory_format("%s_probes", s->name);
    ncfile_variable(f, name, NCFILE_INT, dims, "1", "bit k: field k of the format, an array, is there");
    ncfile_put_int(f, name, bits);
    ncfile_variable(f, count_name, NCFILE_INT, "run", "1", "number of probes of this kind");
    ncfile_put_int(f, count_name, number);
    memory_free(dims), memory_free(name), memory_free(count_name), memory_free(bits), memory_free(number);
}

static void put_coordinate_step(struct ncfile *f, size_t length, const struct record *records, int count)
{
    bool any = false;
    double *values = memory_new((size_t)count * length, sizeof *values);
    int64_t *number = memory_new((size_t)count, sizeof *number);
    fill(NCFILE_DOUBLE, (char *)values, (size_t)count * length);
    for (int i = 0; i < count; i++)
        if (records[i].coordinate_step) {
            memcpy(values + (size_t)i * length, records[i].coordinate_step, (size_t)records[i].coordinates * sizeof *values);
            number[i] = records[i].coordinates;
            any = true;
        }
    if (any) {
        ncfile_variable(f, "coordinate_step", NCFILE_DOUBLE, "run coordinate_time", "1",
                        "time at which each coordinate reached the level");
        ncfile_coordinates(f, "coordinate_step", "run_id");
        ncfile_put_raw(f, "coordinate_step", values);
        ncfile_variable(f, "coordinate_steps", NCFILE_INT, "run", "1", "number of coordinates whose times are there");
        ncfile_put_int(f, "coordinate_steps", number);
    }
    memory_free(values);
    memory_free(number);
}

void tile_sets_put(struct ncfile *f, const struct record *records, int count)
{
    struct lengths l = measure(records, count);
    for (int e = SET_ONE + 1; e < SET_EXTENTS; e++)
        if (l.length[e])
            ncfile_dimension(f, record_set_dimension((enum set_extent)e), l.length[e]);
    for (int i = 0; i < RECORD_SETS; i++) {
        const struct record_set *s = &record_sets[i];
        if (!l.probes[i])
            continue;
        char *dim = memory_format("%s_probe", s->name);
        ncfile_dimension(f, dim, l.probes[i]);
        memory_free(dim);
        for (int k = 0; k < s->fields; k++) {
            size_t length = s->field[k].extent == SET_ONE ? 1 : l.length[s->field[k].extent];
            if (length)
                put_field(f, s, k, l.probes[i], length, records, count);
        }
        put_presence(f, s, l.probes[i], records, count);
    }
    if (l.times) {
        ncfile_dimension(f, "coordinate_time", l.times);
        put_coordinate_step(f, l.times, records, count);
    }
}

/* ---- reading ---- */

struct tile_sets {
    size_t length[SET_EXTENTS], probes[RECORD_SETS], times;
    void *field[RECORD_SETS][SET_FIELDS_MAX];
    int32_t *present[RECORD_SETS], *count[RECORD_SETS];
    double *coordinate_step;
    int32_t *coordinates;
};

static void *load(struct ncfile *f, const char *name, enum nc_type_name type, size_t wanted)
{
    size_t n = 0;
    void *values = ncfile_get_raw(f, name, type, &n);
    if (n == wanted)
        return values;
    memory_free(values);
    return NULL;
}

static int load_set(struct ncfile *f, int i, int runs, struct tile_sets *t)
{
    const struct record_set *s = &record_sets[i];
    char *name = memory_format("%s_probe", s->name), *arrays = memory_format("%s_arrays", s->name);
    char *counts = memory_format("%s_probes", s->name);
    const size_t n = (size_t)runs * (t->probes[i] = ncfile_length(f, name));
    uint32_t any = 0;
    int good = 1;
    if (n) {
        t->present[i] = load(f, arrays, NCFILE_INT, n);
        t->count[i] = load(f, counts, NCFILE_INT, (size_t)runs);
        good = t->present[i] && t->count[i];
    }
    for (size_t p = 0; p < n && good; p++)
        any |= (uint32_t)t->present[i][p];
    for (int k = 0; k < s->fields && n && good; k++) {
        const struct set_field *d = &s->field[k];
        if (k < s->scalars || (any >> k & 1 && t->length[d->extent]))
            good = (t->field[i][k] = load(f, d->name, d->type, n * (k < s->scalars ? 1 : t->length[d->extent]))) != NULL;
    }
    memory_free(name), memory_free(arrays), memory_free(counts);
    return good;
}

struct tile_sets *tile_sets_load(struct ncfile *f, int runs)
{
    struct tile_sets *t = memory_new(1, sizeof *t);
    int good = 1;
    for (int e = SET_ONE + 1; e < SET_EXTENTS; e++)
        t->length[e] = ncfile_length(f, record_set_dimension((enum set_extent)e));
    for (int i = 0; i < RECORD_SETS && good; i++)
        good = load_set(f, i, runs, t);
    t->times = ncfile_length(f, "coordinate_time");
    if (good && t->times) {
        t->coordinate_step = load(f, "coordinate_step", NCFILE_DOUBLE, (size_t)runs * t->times);
        t->coordinates = load(f, "coordinate_steps", NCFILE_INT, (size_t)runs);
        good = t->coordinate_step && t->coordinates;
    }
    if (good)
        return t;
    tile_sets_free(t);
    return NULL;
}

void tile_sets_free(struct tile_sets *t)
{
    if (!t)
        return;
    for (int i = 0; i < RECORD_SETS; i++) {
        for (int k = 0; k < SET_FIELDS_MAX; k++)
            memory_free(t->field[i][k]);
        memory_free(t->present[i]);
        memory_free(t->count[i]);
    }
    memory_free(t->coordinate_step);
    memory_free(t->coordinates);
    memory_free(t);
}

/* Fields of element p of run i. */
static int take_element(const struct tile_sets *t, int i, int run, int p, void *element)
{
    const struct record_set *s = &record_sets[i];
    const size_t at = (size_t)run * t->probes[i] + (size_t)p;
    for (int k = 0; k < s->fields; k++) {
        const struct set_field *d = &s->field[k];
        const size_t size = tile_type_size(d->type), row = k < s->scalars ? 1 : t->length[d->extent];
        const char *from = (const char *)t->field[i][k] + at * row * size;
        if (k < s->scalars) {
            memcpy((char *)element + d->offset, from, size);
            continue;
        }
        int64_t n = record_set_length(s, element, d->extent);
        if (!(t->present[i][at] >> k & 1))
            continue;
        if (n < 0 || (size_t)n > row || (n > 0 && !t->field[i][k]))
            return 0;
        void *array = memory_new((size_t)n, size);
        if (n)
            memcpy(array, from, (size_t)n * size);
        record_set_put_array(d, element, array);
    }
    return 1;
}

int tile_sets_take(const struct tile_sets *t, int run, struct record *r)
{
    for (int i = 0; i < RECORD_SETS; i++) {
        const int n = t->count[i] ? t->count[i][run] : 0;
        if (n < 0 || (size_t)n > t->probes[i])
            return 0;
        if (n == 0)
            continue;
        record_set_new(&record_sets[i], r, n);
        for (int p = 0; p < n; p++)
            if (!take_element(t, i, run, p, record_set_at(&record_sets[i], r, p)))
                return 0;
    }
    if (!t->coordinates || t->coordinates[run] == 0)
        return 1;
    if (t->coordinates[run] < 0 || (size_t)t->coordinates[run] > t->times)
        return 0;
    r->coordinates = t->coordinates[run];
    r->coordinate_step = memory_new((size_t)r->coordinates, sizeof *r->coordinate_step);
    memcpy(r->coordinate_step, t->coordinate_step + (size_t)run * t->times,
           (size_t)r->coordinates * sizeof *r->coordinate_step);
    return 1;
}
