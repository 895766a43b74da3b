/* The tile file, format "invar tile", version 2.
 *
 * A tile is one sealed (seal.h) NetCDF-4 file with the records of one or more finished runs. The note of its seal says
 * what it is and holds, so that thousands of tiles can be looked through without opening the NetCDF part of each:
 *
 *     invar tile 2\n                the format and its version
 *     RUN_ID OUTCOME\n              a line for every run, in order; the outcome as a number
 *
 * Version 1 lacks emergence_step and the sets; it is read as if they had not been measured. A program refuses a version that
 * it does not know. A tile is valid when its seal holds, its note is such a text with
 * an id of 32 hexadecimal digits for every run, the NetCDF part has the same runs in run_id, and no length exceeds its
 * dimension.
 *
 *     dimension         length
 *     run               runs of the tile, in job order; run(run) = 0, 1, ... is the coordinate
 *     point             points of the longest learning curves
 *     probe             most probes of a run
 *     feature, core,    largest d, rank, operator_rank (twice) and samples of a probe
 *     operator, operator_column, sample
 *     part              2: real, imaginary
 *     tensor            most weight tensors of a run
 *     weight, weight64  most weights of a run in float32, in float64
 *     NAME_length       characters of the text variable NAME, padded with NUL
 *
 * Dimensions of length 0 and the variables on them are left out. Variables:
 *
 *     job                           effective job (YAML) of the launch that wrote the file
 *     tile_id                       id of the tile
 *     run_id(run)                   id of the run: hash of its keys and seed
 *     error(run)                    why a run FAILED; empty: no error
 *     tile_run_fields (run)         scalars, among them points, probes, tensors, element_size
 *     tile_curve_fields (run, point)              the first `points` entries of a row count
 *     tile_probe_fields (run, probe)              the first `probes` entries of a row count
 *     probe_arrays(run, probe)      bit k is set when array k of tile_array_fields is there
 *     tile_array_fields (run, probe, ..)          the leading [a][b] block counts, a and b by the probe's own lengths
 *     tensor_name, tensor_rows, tensor_cols, tensor_offset (run, tensor)
 *     SET_probes(run), SET_arrays(run, SET_probe), fields of record_sets (run, SET_probe[, extent])   SET: manifold, circuit
 *     coordinate_step(run, coordinate_time), coordinate_steps(run)              how many of a row count
 *     weights(run, weight), weights_float64(run, weight64)     packed; tensor k begins at tensor_offset
 *
 * What does not count is _FillValue. What counts has the bits of the record: NaN is a value here and is stored as it
 * is. Global attributes name format and version, too, and tell where the file comes from: source, invar_revision,
 * libraries (BLAS configuration included), instruction_set, subnormals (what training did with them), history.
 */
#include "store/tile.h"

#include "base/float_mode.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/model.h"
#include "store/tile_fields.h"
#include "store/tile_sets.h"

#include <netcdf.h>
#include <string.h>

struct lengths {
    size_t point, probe, feature, core, operator, sample, tensor, weight, weight64;
};

static void at_least(size_t *a, size_t b)
{
    if (*a < b)
        *a = b;
}

static size_t weights_of(const struct record *r)
{
    size_t n = 0;
    for (int i = 0; i < r->tensors; i++)
        n += (size_t)r->tensor[i].rows * (size_t)r->tensor[i].cols;
    return n;
}

static struct lengths measure(const struct record *records, int count)
{
    struct lengths l = {0};
    for (const struct record *r = records; r < records + count; r++) {
        at_least(&l.point, (size_t)r->curves.points);
        at_least(&l.probe, (size_t)r->probes);
        at_least(&l.tensor, (size_t)r->tensors);
        at_least(r->element_size == 8 ? &l.weight64 : &l.weight, weights_of(r));
        for (const struct record_probe *p = r->probe; p < r->probe + r->probes; p++) {
            at_least(&l.feature, (size_t)p->d);
            at_least(&l.core, (size_t)p->rank);
            at_least(&l.operator, (size_t)p->operator_rank);
            at_least(&l.sample, p->coordinates || p->activations ? (size_t)p->samples : 0);
        }
    }
    return l;
}

static size_t length_of(const struct lengths *l, enum tile_extent e)
{
    const size_t length[] = {[TILE_POINT] = l->point, [TILE_PROBE] = l->probe, [TILE_FEATURE] = l->feature,
                             [TILE_CORE] = l->core, [TILE_OPERATOR] = l->operator, [TILE_PART] = 2,
                             [TILE_SAMPLE] = l->sample, [TILE_ONE] = 1};
    return length[e];
}

static void define_dimensions(struct ncfile *f, const struct lengths *l, int count)
{
    const struct { const char *name; size_t length; } dimension[] = {
        {"run", (size_t)count}, {"point", l->point}, {"probe", l->probe}, {"feature", l->feature}, {"core", l->core},
        {"operator", l->operator}, {"operator_column", l->operator}, {"part", l->operator ? 2 : 0},
        {"sample", l->sample}, {"tensor", l->tensor}, {"weight", l->weight}, {"weight64", l->weight64},
    };
    for (size_t i = 0; i < sizeof dimension / sizeof *dimension; i++)
        if (dimension[i].length)
            ncfile_dimension(f, dimension[i].name, dimension[i].length);
}

static void define(struct ncfile *f, const char *lead, const struct tile_field *d)
{
    char *dims = memory_format("%s %s", lead, d->dims);
    ncfile_variable(f, d->name, d->type, dims, d->units, d->long_name);
    ncfile_coordinates(f, d->name, "run_id");
    memory_free(dims);
}

/* `n` elements of the type's fill value. */
static void fill(enum nc_type_name type, void *to, size_t n)
{
    const double fill_double = NCFILE_FILL_DOUBLE;
    const float fill_float = (float)NCFILE_FILL_DOUBLE;
    const int32_t fill_int = NCFILE_FILL_INT;
    const int64_t fill_int64 = NC_FILL_INT64;
    const void *value = type == NCFILE_DOUBLE ? (const void *)&fill_double
                      : type == NCFILE_FLOAT ? (const void *)&fill_float
                      : type == NCFILE_INT ? (const void *)&fill_int : (const void *)&fill_int64;
    size_t size = tile_type_size(type);
    for (size_t i = 0; i < n; i++)
        memcpy((char *)to + i * size, value, size);
}

/* ---- scalars of runs and probes, curves ---- */

static void put_run_fields(struct ncfile *f, const struct record *records, int count)
{
    for (int k = 0; k < tile_run_fields_count; k++) {
        const struct tile_field *d = &tile_run_fields[k];
        size_t size = tile_type_size(d->type);
        char *column = memory_new((size_t)count, size);
        for (int i = 0; i < count; i++)
            memcpy(column + (size_t)i * size, (const char *)&records[i] + d->offset, size);
        define(f, "run", d);
        ncfile_put_raw(f, d->name, column);
        memory_free(column);
    }
    const char *words[OUTCOME_COUNT];
    for (int i = 0; i < OUTCOME_COUNT; i++)
        words[i] = outcome_name((enum outcome)i);
    ncfile_flags(f, "outcome", OUTCOME_COUNT, words);
}

static void put_curves(struct ncfile *f, const struct lengths *l, const struct record *records, int count)
{
    for (int k = 0; k < tile_curve_fields_count && l->point; k++) {
        const struct tile_field *d = &tile_curve_fields[k];
        size_t size = tile_type_size(d->type), n = (size_t)count * l->point;
        char *rows = memory_new(n, size);
        fill(d->type, rows, n);
        for (int i = 0; i < count; i++) {
            const void *from = *(void *const *)(const void *)((const char *)&records[i].curves + d->offset);
            if (records[i].curves.points)
                memcpy(rows + (size_t)i * l->point * size, from, (size_t)records[i].curves.points * size);
        }
        define(f, "run", d);
        ncfile_put_raw(f, d->name, rows);
        memory_free(rows);
    }
}

static void put_probe_fields(struct ncfile *f, const struct lengths *l, const struct record *records, int count)
{
    for (int k = 0; k < tile_probe_fields_count && l->probe; k++) {
        const struct tile_field *d = &tile_probe_fields[k];
        size_t size = tile_type_size(d->type), n = (size_t)count * l->probe;
        char *rows = memory_new(n, size);
        fill(d->type, rows, n);
        for (int i = 0; i < count; i++)
            for (int p = 0; p < records[i].probes; p++)
                memcpy(rows + ((size_t)i * l->probe + (size_t)p) * size, (const char *)&records[i].probe[p] + d->offset,
                       size);
        define(f, "run probe", d);
        ncfile_put_raw(f, d->name, rows);
        memory_free(rows);
    }
}

/* ---- arrays of probes: one run at a time, they may be large ---- */

static const double *array_of(const struct record_probe *p, const struct tile_field *d)
{
    return *(double *const *)(const void *)((const char *)p + d->offset);
}

static int has_array(const struct record_probe *p, const struct tile_field *d)
{
    return array_of(p, d) && tile_probe_extent(p, d->a) * tile_probe_extent(p, d->b) > 0;
}

static void put_array_of_run(struct ncfile *f, const struct lengths *l, const struct tile_field *d, size_t run,
                             const struct record *r)
{
    size_t rows = length_of(l, d->a), cols = length_of(l, d->b);
    if (l->probe == 1 && r->probes == 1 && tile_probe_extent(r->probe, d->a) == rows &&
        tile_probe_extent(r->probe, d->b) == cols && array_of(r->probe, d)) {
        ncfile_put_raw_slab(f, d->name, run, 1, array_of(r->probe, d));      /* needs no padding */
        return;
    }
    double *block = memory_new(l->probe * rows * cols, sizeof *block);
    fill(NCFILE_DOUBLE, block, l->probe * rows * cols);
    for (int p = 0; p < r->probes; p++) {
        size_t a = tile_probe_extent(&r->probe[p], d->a), b = tile_probe_extent(&r->probe[p], d->b);
        for (size_t i = 0; has_array(&r->probe[p], d) && i < a; i++)
            memcpy(block + ((size_t)p * rows + i) * cols, array_of(&r->probe[p], d) + i * b, b * sizeof *block);
    }
    ncfile_put_raw_slab(f, d->name, run, 1, block);
    memory_free(block);
}

static void put_arrays(struct ncfile *f, const struct lengths *l, const struct record *records, int count)
{
    if (!l->probe)
        return;
    int64_t *present = memory_new((size_t)count * l->probe, sizeof *present);
    for (int k = 0; k < tile_array_fields_count; k++) {
        const struct tile_field *d = &tile_array_fields[k];
        int any = 0;
        for (int i = 0; i < count; i++)
            for (int p = 0; p < records[i].probes; p++)
                if (has_array(&records[i].probe[p], d)) {
                    present[(size_t)i * l->probe + (size_t)p] |= (int64_t)1 << k;
                    any = 1;
                }
        if (!any)
            continue;
        define(f, "run probe", d);
        for (int i = 0; i < count; i++)
            put_array_of_run(f, l, d, (size_t)i, &records[i]);
    }
    ncfile_variable(f, "probe_arrays", NCFILE_INT, "run probe", "1", "bit k: array k of the format is there");
    ncfile_coordinates(f, "probe_arrays", "run_id");
    ncfile_put_int(f, "probe_arrays", present);
    memory_free(present);
}

/* ---- weights ---- */

#define TENSOR_NAME sizeof(((struct record_tensor *)0)->name)

static void put_tensors(struct ncfile *f, const struct lengths *l, const struct record *records, int count)
{
    size_t n = (size_t)count * l->tensor;
    if (!n)
        return;
    char *name = memory_new(n, TENSOR_NAME);
    int32_t *rows = memory_new(n, sizeof *rows), *cols = memory_new(n, sizeof *cols);
    int64_t *offset = memory_new(n, sizeof *offset);
    fill(NCFILE_INT, rows, n);
    fill(NCFILE_INT, cols, n);
    fill(NCFILE_INT64, offset, n);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < records[i].tensors; k++) {
            const struct record_tensor *t = &records[i].tensor[k];
            size_t at = (size_t)i * l->tensor + (size_t)k;
            memcpy(name + at * TENSOR_NAME, t->name, strnlen(t->name, TENSOR_NAME));
            rows[at] = t->rows;
            cols[at] = t->cols;
            offset[at] = (int64_t)t->offset;
        }
    ncfile_dimension(f, "tensor_name_length", TENSOR_NAME);
    ncfile_variable(f, "tensor_name", NCFILE_CHAR, "run tensor tensor_name_length", NULL, "name of the weight tensor");
    ncfile_attribute(f, "tensor_name", "_Encoding", "utf-8");
    ncfile_variable(f, "tensor_rows", NCFILE_INT, "run tensor", "1", "rows of the tensor, its inputs");
    ncfile_variable(f, "tensor_cols", NCFILE_INT, "run tensor", "1", "columns of the tensor, its outputs");
    ncfile_variable(f, "tensor_offset", NCFILE_INT64, "run tensor", "1", "its first element in the packed weights");
    ncfile_put_raw(f, "tensor_name", name);
    ncfile_put_raw(f, "tensor_rows", rows);
    ncfile_put_raw(f, "tensor_cols", cols);
    ncfile_put_raw(f, "tensor_offset", offset);
    memory_free(name), memory_free(rows), memory_free(cols), memory_free(offset);
}

static void put_weights(struct ncfile *f, const char *name, const char *dim, size_t size, size_t length,
                        const struct record *records, int count)
{
    if (!length)
        return;
    enum nc_type_name type = size == 8 ? NCFILE_DOUBLE : NCFILE_FLOAT;
    char *dims = memory_format("run %s", dim);
    ncfile_variable(f, name, type, dims, "1", "final weights, packed tensor by tensor, row-major");
    ncfile_coordinates(f, name, "run_id");
    char *row = memory_new(length, size);
    for (int i = 0; i < count; i++) {
        fill(type, row, length);
        if ((size_t)records[i].element_size == size && records[i].weights)
            memcpy(row, records[i].weights, weights_of(&records[i]) * size);
        ncfile_put_raw_slab(f, name, (size_t)i, 1, row);
    }
    memory_free(row);
    memory_free(dims);
}

/* ---- the file ---- */

static void put_run_names(struct ncfile *f, const struct record *records, int count)
{
    int64_t *number = memory_new((size_t)count, sizeof *number);
    const char **id = memory_new((size_t)count, sizeof *id), **error = memory_new((size_t)count, sizeof *error);
    for (int i = 0; i < count; i++) {
        number[i] = i;
        id[i] = records[i].id;
        error[i] = records[i].error ? records[i].error : "";
    }
    ncfile_variable(f, "run", NCFILE_INT, "run", "1", "number of the run in this tile");
    ncfile_put_int(f, "run", number);
    ncfile_texts(f, "run_id", "run", "id of the run: hash of its keys and seed", (size_t)count, id);
    ncfile_texts(f, "error", "run", "why the run failed; empty: it did not", (size_t)count, error);
    memory_free(number), memory_free(id), memory_free(error);
}

enum status tile_write(const char *path, const char *tile_id, const char *job, const struct record *records, int count)
{
    struct ncfile *f;
    enum status s = ncfile_create(path, "finished runs of an invar job", &f);
    if (s != STATUS_OK)
        return s;
    struct lengths l = measure(records, count);
    ncfile_attribute(f, NULL, "format", TILE_FORMAT);
    ncfile_attribute(f, NULL, "format_version", TILE_VERSION);
    ncfile_attribute(f, NULL, "instruction_set", model_isa());
    ncfile_attribute(f, NULL, "subnormals", float_mode_can_flush() ? "flushed to zero" : "kept");
    define_dimensions(f, &l, count);
    ncfile_text(f, "job", "effective job of the launch that wrote this file (YAML)", job);
    ncfile_text(f, "tile_id", "id of the tile", tile_id);
    put_run_names(f, records, count);
    put_run_fields(f, records, count);
    put_curves(f, &l, records, count);
    put_probe_fields(f, &l, records, count);
    put_arrays(f, &l, records, count);
    tile_sets_put(f, records, count);
    put_tensors(f, &l, records, count);
    put_weights(f, "weights", "weight", 4, l.weight, records, count);
    put_weights(f, "weights_float64", "weight64", 8, l.weight64, records, count);
    struct text note = {0};
    text_add(&note, "%s %s\n", TILE_FORMAT, TILE_VERSION);
    for (int i = 0; i < count; i++)
        text_add(&note, "%s %d\n", records[i].id, (int)records[i].outcome);
    ncfile_note(f, text_string(&note));
    text_free(&note);
    return ncfile_close(f);
}
