#include "store/ncfile_inside.h"

#include "base/text.h"
#include "store/seal.h"

#include <math.h>
#include <netcdf_mem.h>
#include <string.h>

enum status ncfile_open(const char *path, struct ncfile **out)
{
    struct sealed file;
    enum status s = seal_read(path, &file);
    return s == STATUS_OK ? ncfile_open_content(path, file.content, file.length, out) : s;
}

enum status ncfile_open_content(const char *path, void *content, size_t n, struct ncfile **out)
{
    struct ncfile *f = memory_new(1, sizeof *f);
    int code = nc_open_mem(path, NC_NOWRITE, n, content, &f->id);
    if (code != NC_NOERR) {
        memory_free(content);
        memory_free(f);
        return status_fail(STATUS_CORRUPT, "%s: is no NetCDF file: %s", path, nc_strerror(code));
    }
    f->path = memory_text(path);
    f->image = content;
    f->arena = arena_new();
    *out = f;
    return STATUS_OK;
}

/* ---- what is there ---- */

int ncfile_has(struct ncfile *f, const char *variable)
{
    int id;
    return f->status == STATUS_OK && nc_inq_varid(f->id, variable, &id) == NC_NOERR;
}

size_t ncfile_length(struct ncfile *f, const char *dimension)
{
    int id;
    size_t length;
    if (f->status != STATUS_OK || nc_inq_dimid(f->id, dimension, &id) || nc_inq_dimlen(f->id, id, &length))
        return 0;
    return length;
}

int ncfile_rank(struct ncfile *f, const char *variable)
{
    struct ncfile_layout v;
    return ncfile_find(f, variable, &v) ? v.rank : -1;
}

const char *ncfile_variable_dimension(struct ncfile *f, const char *variable, int i, size_t *length)
{
    struct ncfile_layout v;
    char name[NC_MAX_NAME + 1];
    if (length)
        *length = 0;
    if (!ncfile_find(f, variable, &v) || i < 0 || i >= v.rank ||
        !ncfile_keep(f, nc_inq_dimname(f->id, v.dimension[i], name), variable, "dimension"))
        return "";
    if (length)
        *length = v.length[i];
    return arena_text(f->arena, name);
}

int ncfile_variables(struct ncfile *f)
{
    int n;
    return f->status == STATUS_OK && ncfile_keep(f, nc_inq_nvars(f->id, &n), NULL, "variables") ? n : 0;
}

const char *ncfile_variable_name(struct ncfile *f, int i)
{
    char name[NC_MAX_NAME + 1];
    if (f->status != STATUS_OK || !ncfile_keep(f, nc_inq_varname(f->id, i, name), NULL, "variable's name"))
        return "";
    return arena_text(f->arena, name);
}

const char *ncfile_get_attribute(struct ncfile *f, const char *variable, const char *name)
{
    int id = NC_GLOBAL;
    nc_type type;
    size_t n;
    if (f->status != STATUS_OK || (variable && nc_inq_varid(f->id, variable, &id)) ||
        nc_inq_att(f->id, id, name, &type, &n))
        return "";
    if (type == NC_CHAR) {
        char *text = arena_take(f->arena, n + 1, 1);
        return nc_get_att_text(f->id, id, name, text) == NC_NOERR ? text : "";
    }
    double *number = memory_new(n, sizeof *number);
    struct text t = {0};
    if (nc_get_att_double(f->id, id, name, number) == NC_NOERR)
        for (size_t i = 0; i < n; i++) {
            text_add(&t, "%s", i ? " " : "");
            text_add_double(&t, number[i]);
        }
    memory_free(number);
    char *text = arena_text(f->arena, text_string(&t));
    text_free(&t);
    return text;
}

/* ---- values ---- */

/* `count` rows of the slowest dimension in the variable's own type; NULL and f failed when they are not there. */
static void *get_rows(struct ncfile *f, const char *variable, const struct ncfile_layout *v, size_t first, size_t count)
{
    size_t start[NC_MAX_VAR_DIMS] = {0}, extent[NC_MAX_VAR_DIMS], rows = v->rank ? v->length[0] : 1;
    if (first > rows || count > rows - first || !ncfile_type_size(v->type)) {
        ncfile_fail(f, STATUS_CORRUPT, "%s: variable \"%s\": rows %zu to %zu of %zu cannot be read", f->path, variable,
                    first, first + count, rows);
        return NULL;
    }
    for (int i = 0; i < v->rank; i++)
        extent[i] = v->length[i];
    if (v->rank) {
        start[0] = first;
        extent[0] = count;
    }
    size_t n = rows ? v->count / rows * count : 0;
    void *bytes = memory_new(n, ncfile_type_size(v->type));
    if (n && !ncfile_keep(f, nc_get_vara(f->id, v->id, start, extent, bytes), variable, "values")) {
        memory_free(bytes);
        return NULL;
    }
    return bytes;
}

static double element(nc_type type, const void *p, size_t i)
{
    switch (type) {
    case NC_DOUBLE: return ((const double *)p)[i];
    case NC_FLOAT: return (double)((const float *)p)[i];
    case NC_INT64: return (double)((const int64_t *)p)[i];
    case NC_UINT64: return (double)((const uint64_t *)p)[i];
    case NC_INT: return ((const int32_t *)p)[i];
    case NC_UINT: return ((const uint32_t *)p)[i];
    case NC_SHORT: return ((const int16_t *)p)[i];
    case NC_USHORT: return ((const uint16_t *)p)[i];
    case NC_BYTE: return ((const signed char *)p)[i];
    default: return ((const unsigned char *)p)[i];
    }
}

/* The variable's _FillValue in its own type; 0 when it has none. */
static int get_fill(struct ncfile *f, const struct ncfile_layout *v, unsigned char fill[8])
{
    nc_type type;
    size_t n;
    return nc_inq_att(f->id, v->id, "_FillValue", &type, &n) == NC_NOERR && n == 1 && type == v->type &&
           nc_get_att(f->id, v->id, "_FillValue", fill) == NC_NOERR;
}

static double *get_doubles(struct ncfile *f, const char *variable, size_t first, size_t count, size_t *values)
{
    struct ncfile_layout v;
    if (values)
        *values = 0;
    if (!ncfile_find(f, variable, &v))
        return NULL;
    size_t rows = v.rank ? v.length[0] : 1;
    if (count == SIZE_MAX)
        count = rows;
    void *bytes = get_rows(f, variable, &v, first, count);
    if (!bytes)
        return NULL;
    size_t n = rows ? v.count / rows * count : 0, size = ncfile_type_size(v.type);
    double *x = memory_new(n, sizeof *x);
    unsigned char fill[8];
    int has_fill = get_fill(f, &v, fill);
    for (size_t i = 0; i < n; i++)
        x[i] = has_fill && !memcmp((char *)bytes + i * size, fill, size) ? NAN : element(v.type, bytes, i);
    memory_free(bytes);
    if (values)
        *values = n;
    return x;
}

double *ncfile_get(struct ncfile *f, const char *variable, size_t *count)
{
    return get_doubles(f, variable, 0, SIZE_MAX, count);
}

double *ncfile_get_slab(struct ncfile *f, const char *variable, size_t first, size_t count, size_t *values)
{
    return get_doubles(f, variable, first, count, values);
}

static void *get_typed(struct ncfile *f, const char *variable, enum nc_type_name type, size_t first, size_t count,
                       size_t *values)
{
    static const nc_type types[] = {NC_DOUBLE, NC_FLOAT, NC_INT, NC_INT64, NC_BYTE, NC_CHAR};
    struct ncfile_layout v;
    if (values)
        *values = 0;
    if (!ncfile_find(f, variable, &v))
        return NULL;
    if (v.type != types[type]) {
        ncfile_fail(f, STATUS_CORRUPT, "%s: variable \"%s\" has another type than expected", f->path, variable);
        return NULL;
    }
    size_t rows = v.rank ? v.length[0] : 1;
    if (count == SIZE_MAX)
        count = rows;
    void *bytes = get_rows(f, variable, &v, first, count);
    if (bytes && values)
        *values = rows ? v.count / rows * count : 0;
    return bytes;
}

void *ncfile_get_raw(struct ncfile *f, const char *variable, enum nc_type_name type, size_t *count)
{
    return get_typed(f, variable, type, 0, SIZE_MAX, count);
}

void *ncfile_get_raw_slab(struct ncfile *f, const char *variable, enum nc_type_name type, size_t first, size_t count,
                          size_t *values)
{
    return get_typed(f, variable, type, first, count, values);
}

/* ---- texts ---- */

/* Rows and row length of a char variable, and its characters; NULL when it is none. */
static char *get_chars(struct ncfile *f, const char *variable, size_t *rows, size_t *length)
{
    struct ncfile_layout v;
    size_t n;
    char *bytes = ncfile_get_raw(f, variable, NCFILE_CHAR, &n);
    if (!bytes || !ncfile_find(f, variable, &v))
        return bytes;
    *length = v.rank ? v.length[v.rank - 1] : 1;
    *rows = *length ? n / *length : 0;
    return bytes;
}

static char *copy_row(const char *row, size_t length)
{
    char *text = memory_new(length + 1, 1);      /* zeroed: terminated also where the row is full */
    memcpy(text, row, length);
    return text;
}

char *ncfile_get_text(struct ncfile *f, const char *variable)
{
    size_t rows = 0, length = 0;
    char *bytes = get_chars(f, variable, &rows, &length);
    if (!bytes)
        return NULL;
    char *text = copy_row(bytes, rows ? length : 0);
    memory_free(bytes);
    return text;
}

char **ncfile_get_texts(struct ncfile *f, const char *variable, size_t *count)
{
    size_t rows = 0, length = 0;
    *count = 0;
    char *bytes = get_chars(f, variable, &rows, &length);
    if (!bytes)
        return NULL;
    char **texts = memory_new(rows, sizeof *texts);
    for (size_t i = 0; i < rows; i++)
        texts[i] = copy_row(bytes + i * length, length);
    memory_free(bytes);
    *count = rows;
    return texts;
}
