#include "analysis/runs_manifold.h"

#include "base/memory.h"
#include "job/manifold.h"
#include "store/record_sets.h"

#include <math.h>
#include <string.h>

/* The sets of one row: copies of the record's. */
struct kept {
    struct record record;            /* its sets, emergence_step and coordinate_step alone */
};

struct manifold_rows {
    size_t rows;
    struct kept *row;
    size_t probes[RECORD_SETS], length[SET_EXTENTS];
    size_t with_steps;               /* coordinates whose times are known */
    int emerged, layers;
};

struct manifold_rows *manifold_rows_new(size_t rows)
{
    struct manifold_rows *m = memory_new(1, sizeof *m);
    m->rows = rows;
    m->row = memory_new(rows, sizeof *m->row);
    for (size_t i = 0; i < rows; i++)
        m->row[i].record.emergence_step = NAN;
    return m;
}

void manifold_rows_free(struct manifold_rows *m)
{
    for (size_t i = 0; i < m->rows; i++)
        record_clear(&m->row[i].record);
    memory_free(m->row);
    memory_free(m);
}

static size_t type_size(enum nc_type_name type) { return type == NCFILE_INT ? 4 : 8; }

static void copy_set(const struct record_set *s, const struct record *from, struct record *to)
{
    const int n = record_set_count(s, from);
    if (n == 0)
        return;
    record_set_new(s, to, n);
    for (int i = 0; i < n; i++) {
        const void *element = record_set_at(s, from, i);
        void *copy = record_set_at(s, to, i);
        memcpy(copy, element, s->size);
        for (int k = s->scalars; k < s->fields; k++) {
            const void *array = record_set_array(&s->field[k], element);
            size_t bytes = (size_t)record_set_length(s, element, s->field[k].extent) * type_size(s->field[k].type);
            record_set_put_array(&s->field[k], copy, array ? memcpy(memory_new(bytes + 1, 1), array, bytes) : NULL);
        }
    }
}

static void at_least(size_t *a, int64_t b)
{
    if (b > 0 && *a < (size_t)b)
        *a = (size_t)b;
}

void manifold_rows_keep(struct manifold_rows *m, size_t i, const struct record *r)
{
    struct record *to = &m->row[i].record;
    to->emergence_step = r->emergence_step;
    m->emerged |= isfinite(r->emergence_step);
    if (r->coordinate_step && r->coordinates > 0) {
        const size_t n = (size_t)r->coordinates;
        to->coordinates = r->coordinates;
        to->coordinate_step = memcpy(memory_new(n, sizeof(double)), r->coordinate_step, n * sizeof(double));
        at_least(&m->with_steps, r->coordinates);
        at_least(&m->length[SET_COORDINATE], r->coordinates);
    }
    for (int s = 0; s < RECORD_SETS; s++) {
        copy_set(&record_sets[s], r, to);
        at_least(&m->probes[s], record_set_count(&record_sets[s], r));
        for (int p = 0; p < record_set_count(&record_sets[s], r); p++)
            for (int k = record_sets[s].scalars; k < record_sets[s].fields; k++)
                if (record_set_array(&record_sets[s].field[k], record_set_at(&record_sets[s], r, p)))
                    at_least(&m->length[record_sets[s].field[k].extent],
                             record_set_length(&record_sets[s], record_set_at(&record_sets[s], r, p),
                                               record_sets[s].field[k].extent));
    }
    if (r->manifolds && r->manifold[0].layers > m->layers)
        m->layers = r->manifold[0].layers;
}

/* ---- values ---- */

static double value_at(enum nc_type_name type, const void *from, size_t i)
{
    int32_t whole;
    int64_t wide;
    double real;
    switch (type) {
    case NCFILE_INT: memcpy(&whole, (const char *)from + 4 * i, sizeof whole); return whole;
    case NCFILE_INT64: memcpy(&wide, (const char *)from + 8 * i, sizeof wide); return (double)wide;
    default: memcpy(&real, (const char *)from + 8 * i, sizeof real);
    }
    return isfinite(real) ? real : NAN;
}

/* One field of probe p of every row (-1: the last), padded with NAN.   out: x[rows][length]; returns whether any is there */
static bool gather(const struct manifold_rows *m, const struct record_set *s, int k, int p, size_t length,
                   size_t stride, double *x)
{
    const struct set_field *f = &s->field[k];
    bool any = false;
    for (size_t i = 0; i < m->rows; i++) {
        const struct record *r = &m->row[i].record;
        const int probes = record_set_count(s, r), which = p < 0 ? probes - 1 : p;
        double *to = x + i * stride;
        for (size_t j = 0; j < length; j++)
            to[j] = NAN;
        if (which < 0 || which >= probes)
            continue;
        const void *element = record_set_at(s, r, which);
        const void *from = f->extent == SET_ONE ? (const char *)element + f->offset : record_set_array(f, element);
        for (int64_t j = 0; from && j < record_set_length(s, element, f->extent); j++)
            to[j] = value_at(f->type, from, (size_t)j);
        any |= from != NULL;
    }
    return any;
}

/* ---- names and flags ---- */

char **manifold_circuit_words(int layers, int *n)
{
    const int circuits = manifold_circuits(layers);
    char **words = memory_new((size_t)circuits + 1, sizeof *words);
    for (int c = 0; c < circuits; c++) {
        int first, second;
        manifold_circuit(layers, c, &first, &second);
        words[c] = memory_format("circuit_%d%d", first, second);
    }
    words[circuits] = memory_text("none");
    *n = circuits + 1;
    return words;
}

void manifold_circuit_words_free(char **words, int n)
{
    for (int i = 0; i < n; i++)
        memory_free(words[i]);
    memory_free(words);
}

/* Names from the first run that has the most coordinates. */
static void put_coordinate_names(struct ncfile *f, const struct manifold_rows *m, const struct job *job,
                                 const size_t *number, size_t n)
{
    struct spec *spec = memory_new(1, sizeof *spec);
    uint64_t seed;
    struct manifold *all;
    for (size_t i = 0; i < m->rows; i++) {
        const struct record *r = &m->row[i].record;
        if ((size_t)r->coordinates != n && (r->manifolds == 0 || (size_t)r->manifold[0].coordinates != n))
            continue;
        job_run(job, number[i], spec, &seed);
        if (manifold_new(spec, &all) != STATUS_OK)
            continue;
        if ((size_t)all->coordinates == n) {
            const char **name = memory_new(n, sizeof *name);
            for (size_t c = 0; c < n; c++)
                name[c] = all->coordinate[c].name;
            ncfile_texts(f, "coordinate_name", "direction", "name of the coordinate on the invariant manifold", n, name);
            memory_free(name);
            manifold_free(all);
            break;
        }
        manifold_free(all);
    }
    memory_free(spec);
}

/* ---- variables ---- */

static void put(struct ncfile *f, const char *name, enum nc_type_name type, const char *dims, const char *long_name,
                const char *names, const double *x)
{
    ncfile_variable(f, name, type, dims, "1", long_name);
    ncfile_coordinates(f, name, names);
    ncfile_put(f, name, x);
}

static bool is_length(const struct set_field *f)
{
    return !strcmp(f->name, "manifold_coordinates") || !strcmp(f->name, "manifold_layers") ||
           !strcmp(f->name, "manifold_circuits") || !strcmp(f->name, "circuit_coordinates") ||
           !strcmp(f->name, "circuit_step");
}

static bool is_probe_step(const struct set_field *f) { return !strcmp(f->name, "manifold_step"); }

static void put_winner(struct ncfile *f, const struct manifold_rows *m, const char *names, double *x)
{
    int n;
    char **words = manifold_circuit_words(m->layers, &n);
    bool any = false;
    for (size_t i = 0; i < m->rows; i++)
        if (x[i] < 0)
            x[i] = NAN;
        else
            any |= isfinite(x[i]);
    if (any) {
        put(f, "winner", NCFILE_INT, "run", "circuit whose beta, set to zero, raises the loss most", names, x);
        ncfile_flags(f, "winner", n, (const char *const *)words);
    }
    manifold_circuit_words_free(words, n);
}

static bool any_finite(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            return true;
    return false;
}

static void put_last(struct ncfile *f, const struct manifold_rows *m, const struct record_set *s, const char *names)
{
    for (int k = 0; k < s->fields; k++) {
        const struct set_field *d = &s->field[k];
        const size_t length = d->extent == SET_ONE ? 1 : m->length[d->extent];
        if (is_length(d) || is_probe_step(d) || length == 0)
            continue;
        double *x = memory_new(m->rows * length, sizeof *x);
        char *dims = memory_format("run %s", record_set_dimension(d->extent));
        if (gather(m, s, k, -1, length, length, x) && !strcmp(d->name, "manifold_winner"))
            put_winner(f, m, names, x);
        else if (any_finite(x, m->rows * length))
            put(f, d->name, d->type == NCFILE_INT64 ? NCFILE_INT64 : d->type, dims, d->long_name, names, x);
        memory_free(dims);
        memory_free(x);
    }
}

/* The manifold probe at every step at which it looked. */
static void put_every(struct ncfile *f, const struct manifold_rows *m, const char *names)
{
    const struct record_set *s = &record_sets[0];
    const size_t probes = m->probes[0];
    for (int k = 0; k < s->fields; k++) {
        const struct set_field *d = &s->field[k];
        const size_t length = d->extent == SET_ONE ? 1 : m->length[d->extent];
        const bool wanted = is_probe_step(d) || !strcmp(d->name, "coordinate") || !strcmp(d->name, "leakage") ||
                            !strcmp(d->name, "manifold_loss");
        if (!wanted || length == 0)
            continue;
        double *x = memory_new(m->rows * probes * length, sizeof *x);
        for (size_t p = 0; p < probes; p++)
            gather(m, s, k, (int)p, length, probes * length, x + p * length);
        char *name =
            memory_format("%s%s", is_probe_step(d) ? "manifold_probe_step" : d->name, is_probe_step(d) ? "" : "_probe");
        char *dims = memory_format("run manifold_probe %s", record_set_dimension(d->extent));
        put(f, name, d->type, dims, d->long_name, names, x);
        memory_free(name);
        memory_free(dims);
        memory_free(x);
    }
}

static void put_times(struct ncfile *f, const struct manifold_rows *m, const char *names)
{
    const size_t n = m->with_steps ? m->length[SET_COORDINATE] : 0;
    double *x = memory_new(m->rows * (n + 1), sizeof *x);
    for (size_t i = 0; i < m->rows && m->emerged; i++)
        x[i] = m->row[i].record.emergence_step;
    if (m->emerged)
        put(f, "emergence_step", NCFILE_DOUBLE, "run", "first step with a training loss below emerged_below", names, x);
    for (size_t i = 0; i < m->rows; i++)
        for (size_t c = 0; c < n; c++) {
            const struct record *r = &m->row[i].record;
            x[i * n + c] = c < (size_t)r->coordinates && isfinite(r->coordinate_step[c]) ? r->coordinate_step[c] : NAN;
        }
    if (n)
        put(f, "coordinate_step", NCFILE_DOUBLE, "run direction",
            "time at which the coordinate first reached the level, in steps", names, x);
    memory_free(x);
}

void manifold_rows_put(struct ncfile *f, const struct manifold_rows *m, const struct job *job, const size_t *number,
                       const char *names)
{
    const size_t coordinates = m->length[SET_COORDINATE];
    if (coordinates) {
        ncfile_dimension(f, "direction", coordinates);
        put_coordinate_names(f, m, job, number, coordinates);
    }
    for (int e = SET_COORDINATE + 1; e < SET_EXTENTS; e++)
        if (m->length[e])
            ncfile_dimension(f, record_set_dimension((enum set_extent)e), m->length[e]);
    for (int s = 0; s < RECORD_SETS; s++)
        if (m->probes[s])
            put_last(f, m, &record_sets[s], names);
    if (m->probes[0] > 1) {
        ncfile_dimension(f, "manifold_probe", m->probes[0]);
        put_every(f, m, names);
    }
    if (m->with_steps || m->emerged)
        put_times(f, m, names);
}
