#include "store/tile.h"

#include "base/memory.h"
#include "store/ncfile_inside.h"
#include "store/seal.h"
#include "store/tile_fields.h"
#include "store/tile_sets.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A call of the library for each run of a tile of thousands takes longer than the reading. */
#define CACHED_BYTES_MAX ((size_t)64 << 20)
enum { CACHED_MAX = 2 * TILE_FIELDS_MAX };

struct tile {
    struct sealed file;      /* content is NULL once the library has it */
    struct ncfile *f;        /* NULL until something is asked that the note does not say */
    char *path;
    int runs;
    struct tile_run {
        char id[HASH_TEXT];
        int outcome;
    } *run;
    /* whole columns, read when the first record is asked for */
    struct columns {
        int loaded;
        void *run[TILE_FIELDS_MAX], *probe[TILE_FIELDS_MAX];      /* of tile_run_fields and tile_probe_fields */
        char **error;
        int32_t *present;               /* [run][probe] */
        struct tile_sets *sets;
        struct cached {                 /* whole variables by run, as long as they are small */
            const char *name;
            char *values;
            size_t row;                 /* elements of a run */
        } cached[CACHED_MAX];
    } columns;
};

static enum status corrupt(const struct tile *t, const char *what)
{
    return status_fail(STATUS_CORRUPT, "%s: %s", t->path, what);
}

/* ---- opening ---- */

/* "invar tile 2": the first line of the note. */
static enum status check_format(const struct tile *t)
{
    static const char start[] = TILE_FORMAT " ";
    const char *note = t->file.note, *version = note + sizeof start - 1;
    if (strncmp(note, start, sizeof start - 1))
        return corrupt(t, "is no tile of this program");
    int length = (int)strcspn(version, "\n");
    if (length == (int)strlen(TILE_OLDER) && !strncmp(version, TILE_OLDER, (size_t)length))
        return STATUS_OK;
    if (length != (int)strlen(TILE_VERSION) || strncmp(version, TILE_VERSION, (size_t)length))
        return status_fail(STATUS_VERSION, "%s: has format version %.*s, this program reads version %s: use the program "
                           "that wrote it, or another output folder (-o)", t->path, length, version, TILE_VERSION);
    return STATUS_OK;
}

/* "ID OUTCOME"; 0 when the line is none. */
static int parse_run(const char *line, struct tile_run *run)
{
    if (strspn(line, "0123456789abcdef") != HASH_TEXT - 1 || line[HASH_TEXT - 1] != ' ')
        return 0;
    memcpy(run->id, line, HASH_TEXT - 1);
    char *end;
    long outcome = strtol(line + HASH_TEXT, &end, 10);
    run->outcome = (int)outcome;
    return *end == '\n' && end > line + HASH_TEXT && outcome >= 0 && outcome < OUTCOME_COUNT;
}

static enum status parse_runs(struct tile *t)
{
    const char *line = strchr(t->file.note, '\n');
    int lines = -1;
    for (const char *p = t->file.note; *p; p++)
        lines += *p == '\n';
    t->run = memory_new(lines > 0 ? (size_t)lines : 0, sizeof *t->run);
    for (; line && line[1]; line = strchr(line + 1, '\n'))
        if (t->runs == lines || !parse_run(line + 1, &t->run[t->runs++]))
            return corrupt(t, "its note does not name its runs");
    return t->runs > 0 ? STATUS_OK : corrupt(t, "its note names no run");
}

enum status tile_open(const char *path, struct tile **tile)
{
    struct sealed file;
    enum status s = seal_read(path, &file);
    if (s != STATUS_OK)
        return s;
    struct tile *t = memory_new(1, sizeof *t);
    t->file = file;
    t->path = memory_text(path);
    s = check_format(t);
    if (s == STATUS_OK)
        s = parse_runs(t);
    if (s == STATUS_OK)
        *tile = t;
    else
        tile_close(t);
    return s;
}

/* Opens the NetCDF part; it must have the runs of the note. */
static enum status need_content(struct tile *t)
{
    if (t->f)
        return STATUS_OK;
    if (!t->file.content)
        return corrupt(t, "its NetCDF part cannot be opened");
    void *content = t->file.content;
    t->file.content = NULL;
    enum status s = ncfile_open_content(t->path, content, t->file.length, &t->f);
    if (s != STATUS_OK)
        return s;
    size_t n = 0;
    char **id = ncfile_get_texts(t->f, "run_id", &n);
    int good = n == (size_t)t->runs;
    for (size_t i = 0; i < n; i++) {
        good = good && !strcmp(id[i], t->run[i].id);
        memory_free(id[i]);
    }
    memory_free(id);
    if (good)
        return STATUS_OK;
    ncfile_close(t->f);
    t->f = NULL;
    return corrupt(t, "its note names other runs than its NetCDF part");
}

void tile_close(struct tile *t)
{
    if (t->f)
        ncfile_close(t->f);
    for (int k = 0; k < TILE_FIELDS_MAX; k++) {
        memory_free(t->columns.run[k]);
        memory_free(t->columns.probe[k]);
    }
    for (int i = 0; t->columns.error && i < t->runs; i++)
        memory_free(t->columns.error[i]);
    memory_free(t->columns.error);
    memory_free(t->columns.present);
    tile_sets_free(t->columns.sets);
    for (int k = 0; k < CACHED_MAX; k++)
        memory_free(t->columns.cached[k].values);
    memory_free(t->run);
    memory_free(t->file.content);
    memory_free(t->path);
    memory_free(t);
}

int tile_runs(const struct tile *t) { return t->runs; }
const char *tile_run_id(const struct tile *t, int i) { return t->run[i].id; }
enum outcome tile_outcome(const struct tile *t, int i) { return (enum outcome)t->run[i].outcome; }

char *tile_job(struct tile *t) { return need_content(t) == STATUS_OK ? ncfile_get_text(t->f, "job") : NULL; }

char *tile_attribute(struct tile *t, const char *name)
{
    return memory_text(need_content(t) == STATUS_OK ? ncfile_get_attribute(t->f, NULL, name) : "");
}

/* ---- records ---- */

/* The library's failure, now that something was missing. */
static enum status library_failure(struct tile *t)
{
    return corrupt(t, "lacks a variable of the format, or it has another shape");
}

static void *load(struct tile *t, const struct tile_field *d, size_t count)
{
    size_t n = 0;
    void *column = ncfile_get_raw(t->f, d->name, d->type, &n);
    if (n == count)
        return column;
    memory_free(column);
    return NULL;
}

/* Version 1 had no manifolds: emergence_step is not in its files, nor are the sets. */
static bool is_older_than(struct tile *t, const struct tile_field *f)
{
    return f->offset == offsetof(struct record, emergence_step) &&
           !strcmp(ncfile_get_attribute(t->f, NULL, "format_version"), TILE_OLDER);
}

static double *unknown(size_t n)
{
    double *x = memory_new(n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = NAN;
    return x;
}

static size_t elements_of_run(struct tile *t, const char *name)
{
    size_t n = 1, length;
    for (int d = 1; d < ncfile_rank(t->f, name); d++) {
        ncfile_variable_dimension(t->f, name, d, &length);
        n *= length;
    }
    return n;
}

/* The whole variable, NULL when it is too large or there is no place for it. */
static const struct cached *cached(struct tile *t, const char *name, enum nc_type_name type)
{
    size_t n = 0;
    for (int k = 0; k < CACHED_MAX; k++) {
        struct cached *c = &t->columns.cached[k];
        if (c->name && strcmp(c->name, name))
            continue;
        if (c->name)
            return c;
        size_t row = elements_of_run(t, name);
        if (row * (size_t)t->runs * tile_type_size(type) > CACHED_BYTES_MAX)
            return NULL;
        char *values = ncfile_get_raw(t->f, name, type, &n);
        if (!values || n != row * (size_t)t->runs) {
            memory_free(values);
            return NULL;
        }
        *c = (struct cached){name, values, row};
        return c;
    }
    return NULL;
}

/* The part of a variable (run, ...) that belongs to run i; memory_free. NULL: it is not there.   out: *n its elements, or NULL */
static void *row_of(struct tile *t, const char *name, enum nc_type_name type, int i, size_t *n)
{
    if (ncfile_rank(t->f, name) < 1)
        return NULL;
    const struct cached *c = t->runs > 1 ? cached(t, name, type) : NULL;
    if (!c)
        return ncfile_get_raw_slab(t->f, name, type, (size_t)i, 1, n);
    const size_t bytes = c->row * tile_type_size(type);
    if (n)
        *n = c->row;
    return memcpy(memory_new(bytes + 1, 1), c->values + (size_t)i * bytes, bytes);
}

static enum status load_columns(struct tile *t)
{
    struct columns *c = &t->columns;
    if (c->loaded)
        return STATUS_OK;
    size_t runs = (size_t)t->runs, probes = runs * ncfile_length(t->f, "probe"), n = 0;
    for (int k = 0; k < tile_run_fields_count; k++)
        if (!(c->run[k] = is_older_than(t, &tile_run_fields[k]) ? unknown(runs) : load(t, &tile_run_fields[k], runs)))
            return library_failure(t);
    for (int k = 0; k < tile_probe_fields_count && probes; k++)
        if (!(c->probe[k] = load(t, &tile_probe_fields[k], probes)))
            return library_failure(t);
    if (probes && (!(c->present = ncfile_get_raw(t->f, "probe_arrays", NCFILE_INT, &n)) || n != probes))
        return library_failure(t);
    if (!(c->error = ncfile_get_texts(t->f, "error", &n)) || n != runs)
        return library_failure(t);
    if (!(c->sets = tile_sets_load(t->f, t->runs)))
        return library_failure(t);
    c->loaded = 1;
    return STATUS_OK;
}

static int in(int64_t value, size_t length) { return value >= 0 && (uint64_t)value <= length; }

static int lengths_fit(struct tile *t, const struct record *r)
{
    return in(r->curves.points, ncfile_length(t->f, "point")) && in(r->probes, ncfile_length(t->f, "probe")) &&
           in(r->tensors, ncfile_length(t->f, "tensor")) &&
           (!r->tensors || r->element_size == 4 || r->element_size == 8);
}

static enum status read_curves(struct tile *t, int run, struct record *r)
{
    for (int k = 0; k < tile_curve_fields_count && r->curves.points; k++) {
        const struct tile_field *d = &tile_curve_fields[k];
        void *row = row_of(t, d->name, d->type, run, NULL);
        if (!row)
            return library_failure(t);
        *(void **)(void *)((char *)&r->curves + d->offset) = row;      /* may be longer than `points` */
    }
    return STATUS_OK;
}

static int probe_fits(struct tile *t, const struct record_probe *p, int present)
{
    int per_sample = present >> (tile_array_fields_count - 2);      /* core_coordinates and activations */
    return in(p->d, ncfile_length(t->f, "feature")) && in(p->rank, ncfile_length(t->f, "core")) &&
           in(p->operator_rank, ncfile_length(t->f, "operator")) &&
           in(p->samples, per_sample ? ncfile_length(t->f, "sample") : INT64_MAX);
}

/* Takes each probe's block out of the padded array of its run. */
static void take_blocks(const struct tile_field *d, int k, const int32_t *present, const double *padded, size_t rows,
                        size_t cols, struct record *r)
{
    for (int p = 0; p < r->probes; p++) {
        if (!(present[p] >> k & 1))
            continue;
        size_t a = tile_probe_extent(&r->probe[p], d->a), b = tile_probe_extent(&r->probe[p], d->b);
        double *array = memory_new(a * b, sizeof *array);
        for (size_t i = 0; i < a; i++)
            memcpy(array + i * b, padded + ((size_t)p * rows + i) * cols, b * sizeof *array);
        *(double **)(void *)((char *)&r->probe[p] + d->offset) = array;
    }
}

static enum status read_array(struct tile *t, int run, int k, const int32_t *present, struct record *r)
{
    const struct tile_field *d = &tile_array_fields[k];
    size_t n = 0, rows = 1, cols = 1, probes = ncfile_length(t->f, "probe");
    int any = 0;
    for (int p = 0; p < r->probes; p++)
        any |= present[p] >> k & 1;
    if (!any)
        return STATUS_OK;
    double *padded = row_of(t, d->name, d->type, run, &n);
    if (!padded)
        return library_failure(t);
    ncfile_variable_dimension(t->f, d->name, 2, &rows);
    if (d->b != TILE_ONE)
        ncfile_variable_dimension(t->f, d->name, 3, &cols);
    if (probes * rows * cols == n)
        take_blocks(d, k, present, padded, rows, cols, r);
    memory_free(padded);
    return probes * rows * cols == n ? STATUS_OK : library_failure(t);
}

static enum status read_probes(struct tile *t, int run, struct record *r)
{
    size_t probes = ncfile_length(t->f, "probe"), row = (size_t)run * probes;
    if (!r->probes)
        return STATUS_OK;
    r->probe = memory_new((size_t)r->probes, sizeof *r->probe);
    const int32_t *present = t->columns.present + row;
    for (int p = 0; p < r->probes; p++) {
        for (int k = 0; k < tile_probe_fields_count; k++) {
            size_t size = tile_type_size(tile_probe_fields[k].type);
            memcpy((char *)&r->probe[p] + tile_probe_fields[k].offset,
                   (const char *)t->columns.probe[k] + (row + (size_t)p) * size, size);
        }
        if (!probe_fits(t, &r->probe[p], present[p]))
            return library_failure(t);
    }
    for (int k = 0; k < tile_array_fields_count; k++) {
        enum status s = read_array(t, run, k, present, r);
        if (s != STATUS_OK)
            return s;
    }
    return STATUS_OK;
}

/* Fills r->tensor; 0 when the file lacks them. */
static int read_tensors(struct tile *t, int run, struct record *r, size_t *weights)
{
    size_t n = 0, width = sizeof r->tensor[0].name;
    char *name = row_of(t, "tensor_name", NCFILE_CHAR, run, &n);
    int32_t *rows = row_of(t, "tensor_rows", NCFILE_INT, run, NULL);
    int32_t *cols = row_of(t, "tensor_cols", NCFILE_INT, run, NULL);
    int64_t *offset = row_of(t, "tensor_offset", NCFILE_INT64, run, NULL);
    int good = name && rows && cols && offset && n == width * ncfile_length(t->f, "tensor");
    r->tensor = memory_new((size_t)r->tensors, sizeof *r->tensor);
    *weights = 0;
    for (int k = 0; good && k < r->tensors; k++) {
        memcpy(r->tensor[k].name, name + (size_t)k * width, width);
        r->tensor[k].name[width - 1] = '\0';
        r->tensor[k].rows = rows[k];
        r->tensor[k].cols = cols[k];
        r->tensor[k].offset = (size_t)offset[k];
        good = rows[k] >= 0 && cols[k] >= 0 && offset[k] >= 0;
        *weights += good ? (size_t)rows[k] * (size_t)cols[k] : 0;
    }
    memory_free(name), memory_free(rows), memory_free(cols), memory_free(offset);
    return good;
}

static enum status read_weights(struct tile *t, int run, struct record *r)
{
    size_t weights = 0, n = 0;
    if (!r->tensors)
        return STATUS_OK;
    if (!read_tensors(t, run, r, &weights))
        return library_failure(t);
    if (!weights)
        return STATUS_OK;
    int wide = r->element_size == 8;
    r->weights = row_of(t, wide ? "weights_float64" : "weights", wide ? NCFILE_DOUBLE : NCFILE_FLOAT, run, &n);
    return r->weights && n >= weights ? STATUS_OK : library_failure(t);
}

enum status tile_record(struct tile *t, int i, struct record *out)
{
    enum status s = need_content(t);
    if (s == STATUS_OK)
        s = load_columns(t);
    if (s != STATUS_OK)
        return s;
    struct record r = {0};
    memcpy(r.id, t->run[i].id, HASH_TEXT);
    for (int k = 0; k < tile_run_fields_count; k++) {
        size_t size = tile_type_size(tile_run_fields[k].type);
        memcpy((char *)&r + tile_run_fields[k].offset, (const char *)t->columns.run[k] + (size_t)i * size, size);
    }
    if (!lengths_fit(t, &r)) {
        r.probes = 0;
        s = library_failure(t);
    }
    if (s == STATUS_OK)
        s = read_curves(t, i, &r);
    if (s == STATUS_OK)
        s = read_probes(t, i, &r);
    if (s == STATUS_OK && !tile_sets_take(t->columns.sets, i, &r))
        s = library_failure(t);
    if (s == STATUS_OK)
        s = read_weights(t, i, &r);
    if (s == STATUS_OK && t->columns.error[i][0])
        r.error = memory_text(t->columns.error[i]);
    if (s == STATUS_OK)
        *out = r;
    else
        record_clear(&r);
    return s;
}
