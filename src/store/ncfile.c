#include "store/ncfile_inside.h"

#include "base/text.h"
#include "base/version.h"
#include "store/seal.h"

#include <errno.h>
#include <math.h>
#include <netcdf_mem.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The file is built in memory and written by seal_write at the end. A full disk then is an error of write(2) with its
 * reason; HDF5 1.10 on a full disk crashes the process in close. Nor does any HDF5 file locking matter. The price: the
 * library forgets the order of such a file's variables (they are listed by name), and will not append to it. */
#define FIRST_BYTES 4096

/* Arrays of this many bytes and more are compressed, in chunks of about so many bytes. */
#define DEFLATE_BYTES 4096
#define CHUNK_BYTES ((size_t)1 << 20)

static const nc_type types[] = {[NCFILE_DOUBLE] = NC_DOUBLE, [NCFILE_FLOAT] = NC_FLOAT, [NCFILE_INT] = NC_INT,
                                [NCFILE_INT64] = NC_INT64,   [NCFILE_BYTE] = NC_BYTE,   [NCFILE_CHAR] = NC_CHAR};

size_t ncfile_type_size(nc_type type)
{
    switch (type) {
    case NC_DOUBLE: case NC_INT64: case NC_UINT64: return 8;
    case NC_FLOAT: case NC_INT: case NC_UINT: return 4;
    case NC_SHORT: case NC_USHORT: return 2;
    case NC_BYTE: case NC_UBYTE: case NC_CHAR: return 1;
    default: return 0;
    }
}

void ncfile_fail(struct ncfile *f, enum status s, const char *format, ...)
{
    if (f->status != STATUS_OK)
        return;
    struct text t = {0};
    va_list args;
    va_start(args, format);
    text_add_list(&t, format, args);
    va_end(args);
    f->status = s;
    f->message = memory_text(text_string(&t));
    text_free(&t);
}

int ncfile_keep(struct ncfile *f, int code, const char *variable, const char *what)
{
    if (code == NC_NOERR)
        return 1;
    ncfile_fail(f, f->writing ? STATUS_IO : STATUS_CORRUPT, "%s: %s%s%s%s: %s", f->path, variable ? "variable \"" : "",
                variable ? variable : "", variable ? "\": " : "", what, nc_strerror(code));
    return 0;
}

int ncfile_find(struct ncfile *f, const char *variable, struct ncfile_layout *v)
{
    if (f->status != STATUS_OK || !ncfile_keep(f, nc_inq_varid(f->id, variable, &v->id), variable, "is not there") ||
        !ncfile_keep(f, nc_inq_var(f->id, v->id, NULL, &v->type, &v->rank, v->dimension, NULL), variable, "inquiry"))
        return 0;
    v->count = 1;
    for (int i = 0; i < v->rank; i++) {
        if (!ncfile_keep(f, nc_inq_dimlen(f->id, v->dimension[i], &v->length[i]), variable, "dimension"))
            return 0;
        v->count *= v->length[i];
    }
    return 1;
}

/* ---- the file ---- */

static void add_command(struct text *t)
{
    size_t n = 0;
    char *line = text_read_file("/proc/self/cmdline", &n);
    for (size_t i = 0; i + 1 < n; i++)
        text_add(t, "%c", line[i] ? line[i] : ' ');
    if (!n)
        text_add(t, "%s", program_invocation_name);
    memory_free(line);
}

/* "2026-01-31T12:00:00Z: the command"; SOURCE_DATE_EPOCH pins the time. */
static void put_history(struct ncfile *f)
{
    const char *pinned = getenv("SOURCE_DATE_EPOCH");
    long long seconds;
    time_t now = pinned && text_to_int(pinned, &seconds) ? (time_t)seconds : time(NULL);
    struct tm tm;
    char stamp[32];
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    struct text t = {0};
    text_add(&t, "%s: ", stamp);
    add_command(&t);
    ncfile_attribute(f, NULL, "history", text_string(&t));
    text_free(&t);
}

static void put_origin(struct ncfile *f, const char *title)
{
    ncfile_attribute(f, NULL, "Conventions", "CF-1.10");
    ncfile_attribute(f, NULL, "title", title);
    put_history(f);
    char *source = memory_format("invar %s", version_program());
    ncfile_attribute(f, NULL, "source", source);
    memory_free(source);
    ncfile_attribute(f, NULL, "invar_revision", version_revision());
    ncfile_attribute(f, NULL, "libraries", version_libraries());
}

static void destroy(struct ncfile *f)
{
    memory_free(f->path);
    memory_free(f->note);
    memory_free(f->image);
    memory_free(f->message);
    arena_free(f->arena);
    memory_free(f);
}

enum status ncfile_create(const char *path, const char *title, struct ncfile **out)
{
    struct ncfile *f = memory_new(1, sizeof *f);
    f->writing = 1;
    f->path = memory_text(path);
    f->arena = arena_new();
    int code = nc_create_mem(path, NC_NETCDF4 | NC_CLOBBER, FIRST_BYTES, &f->id);
    if (code != NC_NOERR) {
        destroy(f);
        return status_fail(STATUS_IO, "%s: cannot be created: %s", path, nc_strerror(code));
    }
    put_origin(f, title);
    *out = f;
    return STATUS_OK;
}

void ncfile_note(struct ncfile *f, const char *text)
{
    memory_free(f->note);
    f->note = memory_text(text);
}

static enum status close_written(struct ncfile *f)
{
    NC_memio image = {0};
    int code = nc_close_memio(f->id, &image);
    ncfile_keep(f, code, NULL, "cannot be completed");
    enum status s = f->status == STATUS_OK ? seal_write(f->path, image.memory, image.size, f->note ? f->note : "")
                                           : status_fail(f->status, "%s", f->message);
    free(image.memory);
    return s;
}

static enum status close_read(struct ncfile *f)
{
    nc_close(f->id);
    return f->status == STATUS_OK ? STATUS_OK : status_fail(f->status, "%s", f->message);
}

enum status ncfile_close(struct ncfile *f)
{
    enum status s = f->writing ? close_written(f) : close_read(f);
    destroy(f);
    return s;
}

/* ---- definitions ---- */

void ncfile_dimension(struct ncfile *f, const char *name, size_t length)
{
    int id;
    if (f->status == STATUS_OK)
        ncfile_keep(f, nc_def_dim(f->id, name, length, &id), name, "dimension");     /* 0: unlimited, and stays empty */
}

/* Ids of the dimensions named in `names`; returns how many, -1 on failure. */
static int parse_dimensions(struct ncfile *f, const char *variable, const char *names, int id[NC_MAX_VAR_DIMS])
{
    int n = 0;
    for (const char *p = names + strspn(names, " "); *p; p += strspn(p, " ")) {
        char name[NC_MAX_NAME + 1];
        size_t length = strcspn(p, " ");
        if (length > NC_MAX_NAME || n == NC_MAX_VAR_DIMS) {
            ncfile_fail(f, STATUS_IO, "%s: variable \"%s\": dimensions \"%s\" are too long", f->path, variable, names);
            return -1;
        }
        memcpy(name, p, length);
        name[length] = '\0';
        p += length;
        if (!ncfile_keep(f, nc_inq_dimid(f->id, name, &id[n++]), variable, name))
            return -1;
    }
    return n;
}

static int put_fill(struct ncfile *f, int id, nc_type type)
{
    const double fill_double = NCFILE_FILL_DOUBLE;
    const float fill_float = (float)NCFILE_FILL_DOUBLE;
    const int fill_int = NCFILE_FILL_INT;
    const long long fill_int64 = NC_FILL_INT64;
    const signed char fill_byte = NC_FILL_BYTE;
    const void *fill = type == NC_DOUBLE ? (const void *)&fill_double : type == NC_FLOAT ? (const void *)&fill_float
                     : type == NC_INT ? (const void *)&fill_int : type == NC_INT64 ? (const void *)&fill_int64
                     : (const void *)&fill_byte;
    return nc_def_var_fill(f->id, id, NC_FILL, fill);
}

/* Chunks are runs of whole rows, so that slabs of the slowest dimensions touch each chunk once. */
static void compress(struct ncfile *f, const char *name, const struct ncfile_layout *v)
{
    size_t chunk[NC_MAX_VAR_DIMS], left = CHUNK_BYTES / ncfile_type_size(v->type), rest = v->count;
    for (int i = 0; i < v->rank; i++) {
        rest /= v->length[i];                      /* elements of one row of dimension i */
        size_t rows = left / rest ? left / rest : 1;
        chunk[i] = rows < v->length[i] ? rows : v->length[i];
        if (left >= rest)
            left = rest;                           /* the dimensions inside are whole */
    }
    ncfile_keep(f, nc_def_var_chunking(f->id, v->id, NC_CHUNKED, chunk), name, "chunks");
    ncfile_keep(f, nc_def_var_deflate(f->id, v->id, 1, 1, 1), name, "compression");
}

void ncfile_variable(struct ncfile *f, const char *name, enum nc_type_name type, const char *dims, const char *units,
                     const char *long_name)
{
    int dimension[NC_MAX_VAR_DIMS] = {0};
    if (f->status != STATUS_OK)
        return;
    int rank = parse_dimensions(f, name, dims, dimension), id;
    if (rank < 0 || !ncfile_keep(f, nc_def_var(f->id, name, types[type], rank, dimension, &id), name, "definition"))
        return;
    int is_coordinate = rank == 1 && !strcmp(name, dims + strspn(dims, " "));
    if (type != NCFILE_CHAR && !is_coordinate)
        ncfile_keep(f, put_fill(f, id, types[type]), name, "fill value");
    struct ncfile_layout v;
    if (ncfile_find(f, name, &v) && rank && v.count * ncfile_type_size(v.type) >= DEFLATE_BYTES)
        compress(f, name, &v);
    if (units && *units)
        ncfile_attribute(f, name, "units", units);
    if (long_name && *long_name)
        ncfile_attribute(f, name, "long_name", long_name);
}

/* The variable's id, NC_GLOBAL for NULL; 0 when it is not there. */
static int find_owner(struct ncfile *f, const char *variable, int *id)
{
    *id = NC_GLOBAL;
    return f->status == STATUS_OK &&
           (!variable || ncfile_keep(f, nc_inq_varid(f->id, variable, id), variable, "is not there"));
}

void ncfile_attribute(struct ncfile *f, const char *variable, const char *name, const char *text)
{
    int id;
    if (find_owner(f, variable, &id))
        ncfile_keep(f, nc_put_att_text(f->id, id, name, strlen(text), text), variable, name);
}

void ncfile_attribute_double(struct ncfile *f, const char *variable, const char *name, double value)
{
    int id;
    if (find_owner(f, variable, &id))
        ncfile_keep(f, nc_put_att_double(f->id, id, name, NC_DOUBLE, 1, &value), variable, name);
}

void ncfile_flags(struct ncfile *f, const char *variable, int n, const char *const *words)
{
    struct ncfile_layout v;
    if (!ncfile_find(f, variable, &v))
        return;
    struct text t = {0};
    int *value = memory_new((size_t)n, sizeof *value);
    for (int i = 0; i < n; i++) {
        value[i] = i;
        text_add(&t, "%s%s", i ? " " : "", words[i]);
    }
    ncfile_keep(f, nc_put_att_int(f->id, v.id, "flag_values", v.type, (size_t)n, value), variable, "flag_values");
    ncfile_attribute(f, variable, "flag_meanings", text_string(&t));
    memory_free(value);
    text_free(&t);
}

void ncfile_coordinates(struct ncfile *f, const char *variable, const char *names)
{
    ncfile_attribute(f, variable, "coordinates", names);
}

/* ---- values ---- */

/* Elements of `count` rows of the slowest dimension. */
static size_t rows_size(const struct ncfile_layout *v, size_t count)
{
    size_t rows = v->rank ? v->length[0] : 1;
    return rows ? v->count / rows * count : 0;
}

/* Whether rows [first, first + count) are there; otherwise f fails. */
static int rows_check(struct ncfile *f, const char *variable, const struct ncfile_layout *v, size_t first, size_t count)
{
    size_t rows = v->rank ? v->length[0] : 1;
    if (first <= rows && count <= rows - first)
        return 1;
    ncfile_fail(f, STATUS_IO, "%s: variable \"%s\": has no rows %zu to %zu, only %zu", f->path, variable, first,
                first + count, rows);
    return 0;
}

/* Writes rows [first, first + count) of the slowest dimension; `bytes` has the variable's own type. */
static void put_rows(struct ncfile *f, const char *variable, const struct ncfile_layout *v, size_t first, size_t count,
                     const void *bytes)
{
    size_t start[NC_MAX_VAR_DIMS] = {0}, extent[NC_MAX_VAR_DIMS];
    for (int i = 0; i < v->rank; i++)
        extent[i] = v->length[i];
    if (v->rank) {
        start[0] = first;
        extent[0] = count;
    }
    if (rows_check(f, variable, v, first, count) && rows_size(v, count))
        ncfile_keep(f, nc_put_vara(f->id, v->id, start, extent, bytes), variable, "values");
}

/* One whole number into element i of an integer array; 0 when it does not fit. */
static int store_int(nc_type type, void *to, size_t i, int64_t x)
{
    int64_t bound = type == NC_BYTE ? INT8_MAX : type == NC_INT ? INT32_MAX : INT64_MAX;
    if (x > bound || x < -bound - 1)
        return 0;
    if (type == NC_BYTE)
        ((signed char *)to)[i] = (signed char)x;
    else if (type == NC_INT)
        ((int32_t *)to)[i] = (int32_t)x;
    else
        ((int64_t *)to)[i] = x;
    return 1;
}

static int store_double(nc_type type, void *to, size_t i, double x)
{
    if (type == NC_DOUBLE)
        ((double *)to)[i] = isnan(x) ? NCFILE_FILL_DOUBLE : x;
    else if (type == NC_FLOAT)
        ((float *)to)[i] = isnan(x) ? (float)NCFILE_FILL_DOUBLE : (float)x;
    else if (isnan(x))
        return store_int(type, to, i,
                         type == NC_BYTE ? NC_FILL_BYTE : type == NC_INT ? NCFILE_FILL_INT : NC_FILL_INT64);
    else
        return fabs(x) < 9.2e18 && store_int(type, to, i, (int64_t)x);
    return 1;
}

static int store_whole(nc_type type, void *to, size_t i, int64_t x)
{
    if (type != NC_DOUBLE && type != NC_FLOAT)
        return store_int(type, to, i, x);
    return store_double(type, to, i, (double)x);
}

/* Converts and writes rows; exactly one of the sources is not NULL. */
static void put_converted(struct ncfile *f, const char *variable, size_t first, size_t count, const double *values,
                          const int64_t *whole)
{
    struct ncfile_layout v;
    if (!ncfile_find(f, variable, &v))
        return;
    if (count == SIZE_MAX)
        count = v.rank ? v.length[0] : 1;
    size_t n = rows_size(&v, count), i = 0;
    if (v.type == NC_CHAR)
        ncfile_fail(f, STATUS_IO, "%s: variable \"%s\": is for text, not for numbers", f->path, variable);
    if (!rows_check(f, variable, &v, first, count) || v.type == NC_CHAR || !n)
        return;
    void *bytes = memory_new(n, ncfile_type_size(v.type));
    while (i < n && (values ? store_double(v.type, bytes, i, values[i]) : store_whole(v.type, bytes, i, whole[i])))
        i++;
    if (i < n)
        ncfile_fail(f, STATUS_IO, "%s: variable \"%s\": value %.17g does not fit its type", f->path, variable,
                    values ? values[i] : (double)whole[i]);
    else
        put_rows(f, variable, &v, first, count, bytes);
    memory_free(bytes);
}

void ncfile_put(struct ncfile *f, const char *variable, const double *values)
{
    put_converted(f, variable, 0, SIZE_MAX, values, NULL);
}

void ncfile_put_slab(struct ncfile *f, const char *variable, size_t first, size_t count, const double *values)
{
    put_converted(f, variable, first, count, values, NULL);
}

void ncfile_put_int(struct ncfile *f, const char *variable, const int64_t *values)
{
    put_converted(f, variable, 0, SIZE_MAX, NULL, values);
}

void ncfile_put_float(struct ncfile *f, const char *variable, const float *values)
{
    struct ncfile_layout v;
    if (!ncfile_find(f, variable, &v) || !v.count)
        return;
    double *wide = memory_new(v.count, sizeof *wide);
    for (size_t i = 0; i < v.count; i++)
        wide[i] = values[i];
    ncfile_put(f, variable, wide);
    memory_free(wide);
}

void ncfile_put_raw(struct ncfile *f, const char *variable, const void *values)
{
    struct ncfile_layout v;
    if (ncfile_find(f, variable, &v))
        put_rows(f, variable, &v, 0, v.rank ? v.length[0] : 1, values);
}

void ncfile_put_raw_slab(struct ncfile *f, const char *variable, size_t first, size_t count, const void *values)
{
    struct ncfile_layout v;
    if (ncfile_find(f, variable, &v))
        put_rows(f, variable, &v, first, count, values);
}

/* ---- texts ---- */

/* A dimension NAME_length of at least one character; returns its length. */
static size_t text_dimension(struct ncfile *f, const char *name, size_t length, char dimension[NC_MAX_NAME + 1])
{
    snprintf(dimension, NC_MAX_NAME + 1, "%s_length", name);
    ncfile_dimension(f, dimension, length ? length : 1);
    return length ? length : 1;
}

void ncfile_text(struct ncfile *f, const char *name, const char *long_name, const char *text)
{
    char dimension[NC_MAX_NAME + 1];
    if (f->status != STATUS_OK)
        return;
    size_t length = text_dimension(f, name, strlen(text), dimension);
    ncfile_variable(f, name, NCFILE_CHAR, dimension, NULL, long_name);
    ncfile_attribute(f, name, "_Encoding", "utf-8");
    char *bytes = memory_new(length, 1);
    memcpy(bytes, text, strlen(text));
    ncfile_put_raw(f, name, bytes);
    memory_free(bytes);
}

void ncfile_texts(struct ncfile *f, const char *name, const char *dim, const char *long_name, size_t n,
                  const char *const *texts)
{
    char dimension[NC_MAX_NAME + 1];
    size_t longest = 0;
    if (f->status != STATUS_OK)
        return;
    for (size_t i = 0; i < n; i++)
        longest = strlen(texts[i]) > longest ? strlen(texts[i]) : longest;
    longest = text_dimension(f, name, longest, dimension);
    char *dims = memory_format("%s %s", dim, dimension);
    ncfile_variable(f, name, NCFILE_CHAR, dims, NULL, long_name);
    ncfile_attribute(f, name, "_Encoding", "utf-8");
    char *bytes = memory_new(n * longest, 1);
    for (size_t i = 0; i < n; i++)
        memcpy(bytes + i * longest, texts[i], strlen(texts[i]));
    struct ncfile_layout v;
    if (ncfile_find(f, name, &v) && v.length[0] != n)
        ncfile_fail(f, STATUS_IO, "%s: variable \"%s\": %zu texts for %zu rows", f->path, name, n, v.length[0]);
    ncfile_put_raw(f, name, bytes);
    memory_free(bytes);
    memory_free(dims);
}
