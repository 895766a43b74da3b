#include "analysis/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct values *values_number(struct arena *a, double x)
{
    struct values *v = arena_take(a, 1, sizeof *v);
    v->count = 1;
    v->x = arena_take(a, 1, sizeof *v->x);
    v->x[0] = x;
    return v;
}

int values_dimension(const struct values *v, const char *name)
{
    for (int i = 0; i < v->rank; i++)
        if (!strcmp(v->dim[i], name))
            return i;
    return -1;
}

static void allocate(struct arena *a, struct values *v)
{
    v->count = 1;
    for (int i = 0; i < v->rank; i++)
        v->count *= v->length[i];
    v->x = arena_take(a, v->count + 1, sizeof *v->x);
}

static double *load_labels(struct arena *a, struct ncfile *f, const char *dim, size_t length)
{
    double *label = arena_take(a, length + 1, sizeof *label);
    size_t n = 0;
    double *stored = ncfile_has(f, dim) && ncfile_rank(f, dim) == 1 ? ncfile_get(f, dim, &n) : NULL;
    for (size_t i = 0; i < length; i++)
        label[i] = stored && n == length ? stored[i] : (double)i;
    memory_free(stored);
    return label;
}

static size_t stride_of(const struct values *v, int dim)
{
    size_t stride = 1;
    for (int i = dim + 1; i < v->rank; i++)
        stride *= v->length[i];
    return stride;
}

/* A pair stands twice in a square array, and a run beside itself is none. */
static void keep_pairs(struct values *v)
{
    int run = values_dimension(v, "run"), other = values_dimension(v, "run_other");
    if (run < 0 || other < 0)
        return;
    size_t run_stride = stride_of(v, run), other_stride = stride_of(v, other);
    for (size_t i = 0; i < v->count; i++) {
        size_t r = i / run_stride % v->length[run], o = i / other_stride % v->length[other];
        if (!(v->label[run][r] < v->label[other][o]))
            v->x[i] = NAN;
    }
}

struct values *values_load(struct arena *a, struct ncfile *f, const char *name)
{
    int rank = ncfile_rank(f, name);
    if (rank < 0 || rank > VALUES_RANK_MAX)
        return NULL;
    struct values *v = arena_take(a, 1, sizeof *v);
    v->rank = rank;
    for (int i = 0; i < rank; i++) {
        v->dim[i] = arena_text(a, ncfile_variable_dimension(f, name, i, &v->length[i]));
        v->label[i] = load_labels(a, f, v->dim[i], v->length[i]);
    }
    allocate(a, v);
    double *x = ncfile_get(f, name, NULL);
    if (!x)
        return NULL;
    memcpy(v->x, x, v->count * sizeof *x);
    memory_free(x);
    keep_pairs(v);
    return v;
}

struct values *values_at(struct arena *a, const struct values *v, int dim, size_t index)
{
    struct values *w = arena_take(a, 1, sizeof *w);
    for (int i = 0; i < v->rank; i++) {
        if (i == dim)
            continue;
        w->dim[w->rank] = v->dim[i];
        w->length[w->rank] = v->length[i];
        w->label[w->rank++] = v->label[i];
    }
    allocate(a, w);
    size_t stride = stride_of(v, dim), block = stride * v->length[dim];
    for (size_t i = 0; i < w->count; i++)
        w->x[i] = v->x[i / stride * block + index * stride + i % stride];
    return w;
}

/* Where the elements of a result stand in an operand: offset of position i along each dimension of the result. */
struct places {
    size_t *offset[VALUES_RANK_MAX];      /* [length of the result], NULL where the operand lacks the dimension */
};

/* Labels that both have, and where they stand in x and in y. */
static size_t common_labels(const struct values *x, int i, const struct values *y, int j, double *label, size_t *in_x,
                            size_t *in_y)
{
    size_t n = 0, p = 0, q = 0;
    while (p < x->length[i] && q < y->length[j]) {
        double u = x->label[i][p], w = y->label[j][q];
        if (u == w) {
            label[n] = u;
            in_x[n] = p++;
            in_y[n++] = q++;
        }
        else if (u < w)
            p++;
        else
            q++;
    }
    return n;
}

static void scale(size_t *index, size_t n, size_t stride)
{
    for (size_t k = 0; k < n; k++)
        index[k] *= stride;
}

/* Dimension i of x alone (y lacks it) becomes the result's next dimension. */
static void take_dimension(struct arena *a, struct values *r, const struct values *x, int i, struct places *of_x)
{
    int d = r->rank++;
    r->dim[d] = x->dim[i];
    r->length[d] = x->length[i];
    r->label[d] = x->label[i];
    of_x->offset[d] = arena_take(a, r->length[d] + 1, sizeof(size_t));
    for (size_t k = 0; k < r->length[d]; k++)
        of_x->offset[d][k] = k * stride_of(x, i);
}

static void share_dimension(struct arena *a, struct values *r, const struct values *x, int i, struct places *of_x,
                            const struct values *y, int j, struct places *of_y)
{
    int d = r->rank++;
    double *label = arena_take(a, x->length[i] + 1, sizeof *label);
    of_x->offset[d] = arena_take(a, x->length[i] + 1, sizeof(size_t));
    of_y->offset[d] = arena_take(a, x->length[i] + 1, sizeof(size_t));
    r->dim[d] = x->dim[i];
    r->length[d] = common_labels(x, i, y, j, label, of_x->offset[d], of_y->offset[d]);
    r->label[d] = label;
    scale(of_x->offset[d], r->length[d], stride_of(x, i));
    scale(of_y->offset[d], r->length[d], stride_of(y, j));
}

struct values *values_combine(struct arena *a, const struct values *x, const struct values *y, values_function *f)
{
    struct values *r = arena_take(a, 1, sizeof *r);
    struct places of_x = {{NULL}}, of_y = {{NULL}};
    for (int i = 0; i < x->rank; i++) {
        int j = values_dimension(y, x->dim[i]);
        if (j < 0)
            take_dimension(a, r, x, i, &of_x);
        else
            share_dimension(a, r, x, i, &of_x, y, j, &of_y);
    }
    for (int j = 0; j < y->rank; j++) {
        if (values_dimension(x, y->dim[j]) >= 0)
            continue;
        if (r->rank == VALUES_RANK_MAX)
            return NULL;
        take_dimension(a, r, y, j, &of_y);
    }
    allocate(a, r);
    size_t at[VALUES_RANK_MAX] = {0};
    for (size_t i = 0; i < r->count; i++) {
        size_t in_x = 0, in_y = 0;
        for (int d = 0; d < r->rank; d++) {
            in_x += of_x.offset[d] ? of_x.offset[d][at[d]] : 0;
            in_y += of_y.offset[d] ? of_y.offset[d][at[d]] : 0;
        }
        double value = f(x->x[in_x], y->x[in_y]);
        r->x[i] = isfinite(value) ? value : NAN;
        for (int d = r->rank - 1; d >= 0 && ++at[d] == r->length[d]; d--)
            at[d] = 0;
    }
    return r;
}

size_t values_finite(const struct values *v)
{
    size_t n = 0;
    for (size_t i = 0; i < v->count; i++)
        n += isfinite(v->x[i]) != 0;
    return n;
}

/* ---- reducers, of n finite numbers in ascending order ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double mean(const double *x, size_t n)
{
    double m = 0;
    for (size_t i = 0; i < n; i++)
        m += (x[i] - m) / (double)(i + 1);
    return m;
}

static double deviation(const double *x, size_t n)
{
    double m = mean(x, n), square = 0;
    for (size_t i = 0; i < n; i++)
        square += (x[i] - m) * (x[i] - m);
    return n < 2 ? NAN : sqrt(square / (double)(n - 1));
}

static double share(const double *x, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        k += x[i] != 0;
    return (double)k / (double)n;
}

/* *known = 0 when there is no such reducer. */
static double reduce(const char *reducer, const double *x, size_t n, int *known)
{
    *known = 1;
    if (!strcmp(reducer, "count"))
        return (double)n;
    if (!strcmp(reducer, "min"))
        return n ? x[0] : NAN;
    if (!strcmp(reducer, "max"))
        return n ? x[n - 1] : NAN;
    if (!strcmp(reducer, "mean"))
        return n ? mean(x, n) : NAN;
    if (!strcmp(reducer, "median"))
        return n ? (x[(n - 1) / 2] + x[n / 2]) / 2 : NAN;
    if (!strcmp(reducer, "std"))
        return n ? deviation(x, n) : NAN;
    if (!strcmp(reducer, "share"))
        return n ? share(x, n) : NAN;
    *known = 0;
    return NAN;
}

struct values *values_reduce(struct arena *a, const struct values *v, const char *reducer)
{
    double *sorted = memory_new(v->count + 1, sizeof *sorted);
    size_t n = 0;
    for (size_t i = 0; i < v->count; i++)
        if (isfinite(v->x[i]))
            sorted[n++] = v->x[i];
    qsort(sorted, n, sizeof *sorted, by_value);
    int known;
    double x = reduce(reducer, sorted, n, &known);
    memory_free(sorted);
    return known ? values_number(a, x) : NULL;
}

static double first_of(double y, double x) { return isfinite(x) ? y : NAN; }
static double second_of(double y, double x) { return isfinite(y) ? x : NAN; }

struct values *values_slope(struct arena *a, const struct values *y, const struct values *x)
{
    const struct values *v = values_combine(a, y, x, first_of), *u = values_combine(a, y, x, second_of);
    double n = 0, mean_u = 0, mean_v = 0, uu = 0, uv = 0;
    for (size_t i = 0; v && u && i < v->count; i++) {
        if (!isfinite(v->x[i]) || !isfinite(u->x[i]))
            continue;
        const double du = u->x[i] - mean_u, dv = v->x[i] - mean_v;
        n++;
        mean_u += du / n;
        mean_v += dv / n;
        uu += du * (u->x[i] - mean_u);
        uv += du * (v->x[i] - mean_v);
    }
    return values_number(a, uu > 0 ? uv / uu : NAN);
}
