#include "store/record_compare.h"

#include "store/record_sets.h"
#include "store/tile_fields.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

struct comparison {
    struct text *out;
    int differ;              /* variables */
};

static double as_double(enum nc_type_name type, const void *p)
{
    float x;
    double y;
    memcpy(&x, p, sizeof x);
    if (type == NCFILE_FLOAT)
        return (double)x;
    memcpy(&y, p, sizeof y);
    return y;
}

static bool is_real(enum nc_type_name type) { return type == NCFILE_FLOAT || type == NCFILE_DOUBLE; }

static bool equal(enum nc_type_name type, const void *a, const void *b)
{
    return !memcmp(a, b, tile_type_size(type)) || (is_real(type) && isnan(as_double(type, a)) && isnan(as_double(type, b)));
}

/* Reals with all their digits: -0 and 0 differ, too. */
static void add_value(struct text *t, enum nc_type_name type, const void *p)
{
    int32_t i;
    int64_t k;
    if (type == NCFILE_FLOAT)
        text_add(t, "%.9g", as_double(type, p));
    else if (type == NCFILE_DOUBLE)
        text_add(t, "%.17g", as_double(type, p));
    else if (type == NCFILE_INT64) {
        memcpy(&k, p, sizeof k);
        text_add(t, "%lld", (long long)k);
    } else {
        memcpy(&i, p, sizeof i);
        text_add(t, "%d", i);
    }
}

/* `rows` x `cols` values of a variable; `where` stands before the index ("probe 0, ", or ""). */
static void compare(struct comparison *c, const struct tile_field *f, const char *where, const void *stored, const void *now,
                    size_t rows, size_t cols)
{
    size_t size = tile_type_size(f->type), n = rows * cols, count = 0, first = 0;
    const char *a = stored, *b = now;
    for (size_t i = 0; i < n; i++)
        if (!equal(f->type, a + i * size, b + i * size) && count++ == 0)
            first = i;
    if (count == 0)
        return;
    c->differ++;
    text_add(c->out, "    %s%s", where, f->name);
    if (n > 1 && cols > 1)
        text_add(c->out, "[%zu, %zu]", first / cols, first % cols);
    else if (n > 1)
        text_add(c->out, "[%zu]", first);
    text_add(c->out, ": stored ");
    add_value(c->out, f->type, a + first * size);
    text_add(c->out, ", now ");
    add_value(c->out, f->type, b + first * size);
    if (n > 1)
        text_add(c->out, " (%zu of %zu values differ)", count, n);
    text_add(c->out, "\n");
}

static void compare_words(struct comparison *c, const char *name, const char *stored, const char *now)
{
    if (!strcmp(stored, now))
        return;
    c->differ++;
    text_add(c->out, "    %s: stored \"%s\", now \"%s\"\n", name, stored, now);
}

/* An array may be absent on both sides, not on one; without elements it is the same there or not. */
static void compare_arrays(struct comparison *c, const struct tile_field *f, const char *where, const void *stored,
                           const void *now, size_t rows, size_t cols)
{
    if (stored && now)
        compare(c, f, where, stored, now, rows, cols);
    else if ((stored || now) && rows * cols > 0) {
        c->differ++;
        text_add(c->out, "    %s%s: %s\n", where, f->name, stored ? "stored, but not there now" : "not stored, but there now");
    }
}

static const void *member(const void *object, const struct tile_field *f) { return (const char *)object + f->offset; }
static const void *array(const void *object, const struct tile_field *f)
{
    return *(void *const *)(const void *)((const char *)object + f->offset);
}

/* How long it took, and how often it was interrupted, are not part of the result. The outcome is told by its word. */
static bool is_told(const struct tile_field *f)
{
    return f->offset != offsetof(struct record, wall_time) && f->offset != offsetof(struct record, restarts) &&
           f->offset != offsetof(struct record, outcome);
}

static void compare_training(struct comparison *c, const struct record *stored, const struct record *now)
{
    compare_words(c, "outcome", outcome_name(stored->outcome), outcome_name(now->outcome));
    compare_words(c, "error", stored->error ? stored->error : "", now->error ? now->error : "");
    for (int k = 0; k < tile_run_fields_count; k++)
        if (is_told(&tile_run_fields[k]))
            compare(c, &tile_run_fields[k], "", member(stored, &tile_run_fields[k]), member(now, &tile_run_fields[k]), 1, 1);
    int points = stored->curves.points < now->curves.points ? stored->curves.points : now->curves.points;
    for (int k = 0; k < tile_curve_fields_count && points > 0; k++)
        compare_arrays(c, &tile_curve_fields[k], "", array(&stored->curves, &tile_curve_fields[k]),
                       array(&now->curves, &tile_curve_fields[k]), (size_t)points, 1);
}

/* Tensor by tensor, as far as both have the same. */
static void compare_weights(struct comparison *c, const struct record *stored, const struct record *now)
{
    if (stored->tensors != now->tensors || stored->element_size != now->element_size || !stored->weights || !now->weights)
        return;              /* told already, or neither has weights */
    size_t size = (size_t)stored->element_size;
    for (int i = 0; i < stored->tensors; i++) {
        const struct record_tensor *a = &stored->tensor[i], *b = &now->tensor[i];
        struct tile_field f = {.name = a->name, .type = size == 8 ? NCFILE_DOUBLE : NCFILE_FLOAT};
        if (strcmp(a->name, b->name) || a->rows != b->rows || a->cols != b->cols) {
            c->differ++;
            text_add(c->out, "    tensor %d: stored %s [%d, %d], now %s [%d, %d]\n", i, a->name, a->rows, a->cols,
                     b->name, b->rows, b->cols);
            return;
        }
        compare(c, &f, "weights of ", (const char *)stored->weights + a->offset * size,
                (const char *)now->weights + b->offset * size, (size_t)a->rows, (size_t)a->cols);
    }
}

static void compare_probe(struct comparison *c, int number, const struct record_probe *stored, const struct record_probe *now)
{
    struct text where = {0};
    text_add(&where, "probe %d, ", number);
    for (int k = 0; k < tile_probe_fields_count; k++)
        compare(c, &tile_probe_fields[k], where.s, member(stored, &tile_probe_fields[k]), member(now, &tile_probe_fields[k]),
                1, 1);
    bool same_shape = stored->d == now->d && stored->rank == now->rank && stored->operator_rank == now->operator_rank &&
                      stored->samples == now->samples;
    for (int k = 0; same_shape && k < tile_array_fields_count; k++) {
        const struct tile_field *f = &tile_array_fields[k];
        compare_arrays(c, f, where.s, array(stored, f), array(now, f), tile_probe_extent(stored, f->a),
                       tile_probe_extent(stored, f->b));
    }
    text_free(&where);
}

static void compare_element(struct comparison *c, const struct record_set *s, const char *where, const void *stored,
                            const void *now)
{
    for (int k = 0; k < s->fields; k++) {
        const struct set_field *d = &s->field[k];
        const struct tile_field f = {.name = d->name, .type = d->type};
        int64_t n = record_set_length(s, stored, d->extent);
        if (k < s->scalars)
            compare(c, &f, where, (const char *)stored + d->offset, (const char *)now + d->offset, 1, 1);
        else if (n == record_set_length(s, now, d->extent))
            compare_arrays(c, &f, where, record_set_array(d, stored), record_set_array(d, now), (size_t)n, 1);
    }
}

static void compare_set(struct comparison *c, const struct record_set *s, const struct record *stored, const struct record *now)
{
    const int a = record_set_count(s, stored), b = record_set_count(s, now);
    if (a != b) {
        c->differ++;
        text_add(c->out, "    %s_probes: stored %d, now %d\n", s->name, a, b);
    }
    for (int i = 0; i < a && i < b; i++) {
        struct text where = {0};
        text_add(&where, "%s probe %d, ", s->name, i);
        compare_element(c, s, text_string(&where), record_set_at(s, stored, i), record_set_at(s, now, i));
        text_free(&where);
    }
}

static void compare_times(struct comparison *c, const struct record *stored, const struct record *now)
{
    const struct tile_field f = {.name = "coordinate_step", .type = NCFILE_DOUBLE};
    if (stored->coordinates != now->coordinates) {
        c->differ++;
        text_add(c->out, "    coordinate_step: stored for %d coordinates, now for %d\n", stored->coordinates, now->coordinates);
    } else
        compare_arrays(c, &f, "", stored->coordinate_step, now->coordinate_step, (size_t)stored->coordinates, 1);
}

struct record_differences record_compare(const struct record *stored, const struct record *now, struct text *out)
{
    struct comparison training = {.out = out}, probes = {.out = out};
    compare_training(&training, stored, now);
    compare_weights(&training, stored, now);
    for (int i = 0; i < stored->probes && i < now->probes; i++)
        compare_probe(&probes, i, &stored->probe[i], &now->probe[i]);
    for (int i = 0; i < RECORD_SETS; i++)
        compare_set(&probes, &record_sets[i], stored, now);
    compare_times(&probes, stored, now);
    return (struct record_differences){.training = training.differ, .probes = probes.differ};
}
