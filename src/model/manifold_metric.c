#include "model/manifold_metric.h"

#include "base/memory.h"
#include "model/manifold_relation.h"

#include <math.h>
#include <string.h>

static double relation(const struct task_shape *shape, int centred, const struct manifold_selection *s, int a, int b)
{
    return s->kind == SELECTION_SHIFT ? manifold_positions(shape, centred, s->shift, a, b)
                                      : manifold_tokens(shape, centred, s->kind, a, b);
}

void manifold_gram(const struct spec *s, const struct manifold *m, double *gram)
{
    const struct task_shape shape = shape_of(s);
    const int centred = s->model.embedding == EMBEDDING_CENTRED;
    for (int i = 0; i < m->selections; i++)
        for (int j = 0; j < m->selections; j++) {
            const bool shifts = i >= m->of_tokens;
            const int n = shifts ? shape.positions : shape.vocabulary;
            double sum = 0.0;
            for (int a = 0; a < n && shifts == (j >= m->of_tokens); a++)
                for (int b = 0; b < n; b++)
                    sum += relation(&shape, centred, &m->selection[i], a, b) * relation(&shape, centred, &m->selection[j], a, b);
            gram[i * m->selections + j] = sum;
        }
}

/* The inverse of a small symmetric positive matrix in place, by Gauss-Jordan; 0 when it is singular. */
static int invert(int n, double *a, double *inverse)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            inverse[i * n + j] = i == j;
    for (int k = 0; k < n; k++) {
        int best = k;
        for (int i = k + 1; i < n; i++)
            best = fabs(a[i * n + k]) > fabs(a[best * n + k]) ? i : best;
        if (fabs(a[best * n + k]) < 1e-9)
            return 0;
        for (int j = 0; j < n; j++) {
            double x = a[k * n + j], y = inverse[k * n + j];
            a[k * n + j] = a[best * n + j];
            a[best * n + j] = x;
            inverse[k * n + j] = inverse[best * n + j];
            inverse[best * n + j] = y;
        }
        const double pivot = a[k * n + k];
        for (int j = 0; j < n; j++) {
            a[k * n + j] /= pivot;
            inverse[k * n + j] /= pivot;
        }
        for (int i = 0; i < n; i++) {
            const double factor = i == k ? 0.0 : a[i * n + k];
            for (int j = 0; j < n && factor != 0.0; j++) {
                a[i * n + j] -= factor * a[k * n + j];
                inverse[i * n + j] -= factor * inverse[k * n + j];
            }
        }
    }
    return 1;
}

/* One rotation of Jacobi's method in the plane (i, j): a becomes diagonal there, the columns of v turn along. */
static void rotate(int n, double *a, double *v, int i, int j)
{
    if (a[i * n + j] == 0.0)
        return;
    const double half = 0.5 * (a[j * n + j] - a[i * n + i]) / a[i * n + j];
    const double t = (half < 0.0 ? -1.0 : 1.0) / (fabs(half) + sqrt(half * half + 1.0)), c = 1.0 / sqrt(t * t + 1.0), s = t * c;
    for (int k = 0; k < n; k++) {
        const double x = a[k * n + i], y = a[k * n + j], p = v[k * n + i], q = v[k * n + j];
        a[k * n + i] = c * x - s * y;
        a[k * n + j] = s * x + c * y;
        v[k * n + i] = c * p - s * q;
        v[k * n + j] = s * p + c * q;
    }
    for (int k = 0; k < n; k++) {
        const double x = a[i * n + k], y = a[j * n + k];
        a[i * n + k] = c * x - s * y;
        a[j * n + k] = s * x + c * y;
    }
}

/* The pseudo-inverse of a small symmetric matrix without negative eigenvalues; destroys a. */
static void pseudo_invert(int n, double *a, double *inverse)
{
    double *v = memory_new((size_t)(n * n), sizeof *v), largest = 0.0;
    for (int i = 0; i < n; i++)
        v[i * n + i] = 1.0;
    for (int sweep = 0; sweep < 30; sweep++)
        for (int i = 0; i < n; i++)
            for (int j = i + 1; j < n; j++)
                rotate(n, a, v, i, j);
    for (int i = 0; i < n; i++)
        largest = fmax(largest, a[i * n + i]);
    memset(inverse, 0, (size_t)(n * n) * sizeof *inverse);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n && a[k * n + k] > 1e-9 * largest; i++)
            for (int j = 0; j < n; j++)
                inverse[i * n + j] += v[i * n + k] * v[j * n + k] / a[k * n + k];
    memory_free(v);
}

static bool overlap(const struct manifold_coordinate *a, const struct manifold_coordinate *b)
{
    return a->layer == b->layer && a->head == b->head && a->query == b->query && a->key == b->key;
}

/* Gram matrix of the n coordinates in `list`.   out: a [n][n] */
static void gram_of(const struct manifold *m, const double *gram, int n, const int *list, double *a)
{
    for (int j = 0; j < n; j++)
        for (int k = 0; k < n; k++)
            a[j * n + k] = gram[m->coordinate[list[j]].selection * m->selections + m->coordinate[list[k]].selection];
}

/* Row i of the inverse from the coordinates that overlap with it.   out: g's entries from g->first[i] on */
static void add_row(const struct manifold *m, const double *gram, int i, struct manifold_metric *g)
{
    int list[MANIFOLD_SELECTIONS_MAX] = {0}, n = 0, own = 0;
    for (int j = 0; j < m->coordinates; j++)
        if (overlap(&m->coordinate[i], &m->coordinate[j])) {
            own = j == i ? n : own;
            list[n++] = j;
        }
    double *a = memory_new((size_t)(n * n), sizeof *a), *inverse = memory_new((size_t)(n * n), sizeof *inverse);
    gram_of(m, gram, n, list, a);
    if (!invert(n, a, inverse)) {
        gram_of(m, gram, n, list, a);
        pseudo_invert(n, a, inverse);
    }
    for (int j = 0; j < n; j++) {
        g->column[g->first[i] + j] = list[j];
        g->value[g->first[i] + j] = inverse[own * n + j];
    }
    g->first[i + 1] = g->first[i] + n;
    memory_free(a);
    memory_free(inverse);
}

struct manifold_metric *manifold_metric_new(const struct spec *s, const struct manifold *m)
{
    struct manifold_metric *g = memory_new(1, sizeof *g);
    double *gram = memory_new((size_t)(m->selections * m->selections), sizeof *gram);
    const size_t n = (size_t)m->coordinates;
    manifold_gram(s, m, gram);
    g->coordinates = m->coordinates;
    g->first = memory_new(n + 1, sizeof *g->first);
    g->column = memory_new(n * (size_t)m->selections, sizeof *g->column);
    g->value = memory_new(n * (size_t)m->selections, sizeof *g->value);
    for (int i = 0; i < m->coordinates; i++)
        add_row(m, gram, i, g);
    memory_free(gram);
    return g;
}

void manifold_metric_free(struct manifold_metric *g)
{
    if (!g)
        return;
    memory_free(g->first);
    memory_free(g->column);
    memory_free(g->value);
    memory_free(g);
}
