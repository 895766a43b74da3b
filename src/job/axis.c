#include "job/axis.h"

#include "job/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANGE_FORM "{from: A, to: B, points: N, scale: linear or log}"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A value that stands twice would make two runs with the same id. */
static bool distinct(const struct key *k, const double *value, int n, struct place where, struct complaints *c)
{
    double *sorted = memory_new((size_t)n, sizeof *sorted);
    memcpy(sorted, value, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    bool ok = true;
    for (int i = 1; i < n && ok; i++)
        if (sorted[i] == sorted[i - 1]) {
            struct text t = {0};
            value_print_number(k, sorted[i], &t);
            complaint_add(c, where, "axis %s: %s stands twice", k->path, text_string(&t));
            text_free(&t);
            ok = false;
        }
    memory_free(sorted);
    return ok;
}

static bool accept(const struct key *k, const struct tree *t, struct axis made, struct axis *axis,
                   struct complaints *c)
{
    if (!distinct(k, made.value, made.count, t->place, c)) {
        memory_free(made.value);
        return false;
    }
    *axis = made;
    return true;
}

static bool read_list(const struct key *k, const struct tree *t, struct axis *axis, struct complaints *c)
{
    if (t->count == 0) {
        complaint_add(c, t->place, "axis %s is empty: give at least one value, or remove it", k->path);
        return false;
    }
    if (t->count > AXIS_VALUES_MAX) {
        complaint_add(c, t->place, "axis %s: at most %d values, got %d", k->path, AXIS_VALUES_MAX, t->count);
        return false;
    }
    struct axis made = {.key = k, .count = t->count, .value = memory_new((size_t)t->count, sizeof(double))};
    bool ok = true;
    for (int i = 0; i < t->count; i++)
        ok &= value_number(k, t->item[i], &made.value[i], c);
    if (ok)
        return accept(k, t, made, axis, c);
    memory_free(made.value);
    return false;
}

static double round_12(double x)
{
    char s[40];
    snprintf(s, sizeof s, "%.11e", x);
    return strtod(s, NULL);
}

/* Point i of n: the ends exactly, the others rounded. */
static double point(double from, double to, int i, int n, bool log_scale)
{
    if (i == 0 || i == n - 1)
        return i ? to : from;
    double share = (double)i / (n - 1);
    return round_12(log_scale ? from * pow(to / from, share) : from + (to - from) * share);
}

struct range {
    const struct tree *from, *to, *points, *scale;
};

static bool read_range_keys(const struct key *k, const struct tree *t, struct range *r, struct complaints *c)
{
    const char *const names[] = {"from", "to", "points", "scale"};
    const struct tree **const slots[] = {&r->from, &r->to, &r->points, &r->scale};
    bool ok = true;
    for (int i = 0; i < t->count; i++) {
        int which = 0, nearest = 0;
        while (which < 4 && strcmp(t->key[i]->text, names[which]))
            which++;
        for (int j = 1; j < 4; j++)
            if (text_distance(t->key[i]->text, names[j]) < text_distance(t->key[i]->text, names[nearest]))
                nearest = j;
        if (which == 4)
            complaint_add(c, t->key[i]->place, "axis %s: unknown key %s (did you mean \"%s\"?)", k->path,
                          t->key[i]->text, names[nearest]);
        else if (*slots[which])
            complaint_add(c, t->key[i]->place, "axis %s: duplicate key %s (first in line %d)", k->path,
                          names[which], (*slots[which])->place.line);
        else {
            *slots[which] = t->item[i];
            continue;
        }
        ok = false;
    }
    for (int j = 0; j < 3; j++)
        if (!*slots[j] && ok) {
            complaint_add(c, t->place, "axis %s: %s is missing: expected " RANGE_FORM, k->path, names[j]);
            ok = false;
        }
    return ok;
}

static bool read_points(const struct key *k, const struct tree *t, int *points, struct complaints *c)
{
    int64_t n;
    if (value_is_whole(t, &n) && n >= 2 && n <= AXIS_VALUES_MAX) {
        *points = (int)n;
        return true;
    }
    complaint_add(c, t->place, "axis %s: points: expected a whole number from 2 to %d, got %s", k->path,
                  AXIS_VALUES_MAX, tree_describe(c->arena, t));
    return false;
}

static bool read_scale(const struct key *k, const struct tree *t, bool *log_scale, struct complaints *c)
{
    *log_scale = t && t->kind == TREE_SCALAR && !strcmp(t->text, "log");
    if (!t || *log_scale || (t->kind == TREE_SCALAR && !strcmp(t->text, "linear")))
        return true;
    complaint_add(c, t->place, "axis %s: scale: expected linear or log, got %s", k->path, tree_describe(c->arena, t));
    return false;
}

/* A whole-number key takes points that are whole up to rounding. */
static bool make_whole(const struct key *k, struct axis *made, const struct tree *t, struct complaints *c)
{
    for (int i = 0; i < made->count && k->type == KEY_INT; i++) {
        double whole = round(made->value[i]);
        if (fabs(whole - made->value[i]) > 1e-9 * fabs(whole)) {
            complaint_add(c, t->place, "axis %s: point %d is %.6g, but the key takes whole numbers: list the values",
                          k->path, i + 1, made->value[i]);
            return false;
        }
        made->value[i] = whole;
    }
    return true;
}

bool axis_is_range(const struct axis *a)
{
    bool whole = a->key->type == KEY_INT;
    if (a->count <= 2 || (!whole && a->key->type != KEY_REAL))
        return false;
    for (int i = 0; i < a->count && !a->log_scale; i++) {
        double x = point(a->value[0], a->value[a->count - 1], i, a->count, false);
        if (a->value[i] != (whole ? round(x) : x))
            return false;
    }
    return true;
}

static bool read_range(const struct key *k, const struct tree *t, struct axis *axis, struct complaints *c)
{
    struct range r = {0};
    if (k->type != KEY_INT && k->type != KEY_REAL) {
        complaint_add(c, t->place, "axis %s: expected a list of values: only numbers have a range", k->path);
        return false;
    }
    if (!read_range_keys(k, t, &r, c))
        return false;
    struct axis made = {.key = k};
    double from = 0.0, to = 0.0;
    bool ok = value_number(k, r.from, &from, c);
    ok &= value_number(k, r.to, &to, c);
    ok &= read_points(k, r.points, &made.count, c);
    ok &= read_scale(k, r.scale, &made.log_scale, c);
    if (!ok)
        return false;
    if (made.log_scale && (from <= 0.0 || to <= 0.0)) {
        complaint_add(c, t->place, "axis %s: a log scale needs ends above 0, got %g and %g", k->path, from, to);
        return false;
    }
    made.value = memory_new((size_t)made.count, sizeof(double));
    for (int i = 0; i < made.count; i++)
        made.value[i] = point(from, to, i, made.count, made.log_scale);
    if (make_whole(k, &made, t, c))
        return accept(k, t, made, axis, c);
    memory_free(made.value);
    return false;
}

bool axis_read(const struct key *k, const struct tree *t, struct axis *axis, struct complaints *c)
{
    if (t->kind == TREE_LIST)
        return read_list(k, t, axis, c);
    if (t->kind == TREE_MAP)
        return read_range(k, t, axis, c);
    complaint_add(c, t->place, "axis %s: expected a list of values or " RANGE_FORM ", got %s", k->path,
                  tree_describe(c->arena, t));
    return false;
}
