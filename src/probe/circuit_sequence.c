#include "probe/circuit_sequence.h"

#include "base/memory.h"
#include "model/manifold_relation.h"

#include <string.h>

/* ---- relations between positions ---- */

static double related(const struct task_shape *shape, int centred, const struct manifold_selection *s, const int32_t *token,
                      const int32_t *position, int i, int j)
{
    return s->kind == SELECTION_SHIFT ? manifold_positions(shape, centred, s->shift, position[i], position[j])
                                      : manifold_tokens(shape, centred, s->kind, token[i], token[j]);
}

static int group_of(const struct task_shape *shape, bool shift, const int32_t *token, const int32_t *position, int i)
{
    return shift ? position[i] / shape->period : token[i] < shape->common;
}

/* Groups numbered by their first positions. */
static void find_groups(const struct task_shape *shape, bool shift, const int32_t *token, const int32_t *position, int n,
                        struct circuit_relation *r)
{
    for (int j = 0; j < n; j++) {
        r->group[j] = -1;
        for (int i = 0; i < j && r->group[j] < 0; i++)
            if (group_of(shape, shift, token, position, i) == group_of(shape, shift, token, position, j))
                r->group[j] = r->group[i];
        if (r->group[j] < 0)
            r->group[j] = r->groups++;
    }
}

static void open_relation(struct circuit_relation *r, const struct task_shape *shape, int centred,
                          const struct manifold_selection *s, const int32_t *token, const int32_t *position, int n)
{
    *r = (struct circuit_relation){.first = memory_new((size_t)n + 1, sizeof *r->first),
                                   .row = memory_new((size_t)n * (size_t)n, sizeof *r->row),
                                   .group = memory_new((size_t)n, sizeof *r->group),
                                   .mean = memory_new((size_t)n, sizeof *r->mean)};
    int ones = 0;
    for (int j = 0; j < n; j++) {
        r->first[j] = ones;
        for (int i = 0; i < n; i++)
            if (related(shape, 0, s, token, position, i, j) != 0.0)
                r->row[ones++] = i;
        if (centred)
            r->mean[j] = related(shape, 0, s, token, position, j, j) - related(shape, 1, s, token, position, j, j);
    }
    r->first[n] = ones;
    find_groups(shape, s->kind == SELECTION_SHIFT, token, position, n, r);
}

CIRCUIT_WIDE void circuit_relate(const struct circuit_relation *r, int n, int width, const double *x, double *sum,
                                 double *out)
{
    memset(sum, 0, (size_t)r->groups * (size_t)width * sizeof *sum);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < width; c++)
            sum[r->group[i] * width + c] += x[i * width + c];
    for (int j = 0; j < n; j++) {
        const double *of_group = sum + r->group[j] * width;
        double *to = out + j * width;
        for (int c = 0; c < width; c++)
            to[c] = -r->mean[j] * of_group[c];
        for (int k = r->first[j]; k < r->first[j + 1]; k++)
            for (int c = 0; c < width; c++)
                to[c] += x[r->row[k] * width + c];
    }
}

/* ---- relations between positions and classes ---- */

/* A class stands for itself when it, or its associate, is in the sequence, or is the target; all others of their kind are
 * alike. */
static void find_columns(struct circuit_sequence *c, const struct task_shape *shape, const int32_t *token, int target,
                         int *column)
{
    int other[2] = {-1, -1};
    for (int k = 0; k < shape->classes; k++) {
        bool own = k == target;
        for (int u = 0; u < c->n; u++)
            own |= token[u] == k || (k < shape->common && token[u] == (k ^ 1));
        int *shared = &other[k < shape->common];
        if (own || *shared < 0) {
            c->lowest[c->columns] = k;
            column[k] = c->columns++;
            if (!own)
                *shared = column[k];
        } else
            column[k] = *shared;
        c->count[column[k]]++;
    }
    c->target = column[target];
}

static void relate_classes(struct circuit_sequence *c, const struct task_shape *shape, int centred, const struct manifold *m,
                           const int32_t *token)
{
    c->token = memory_new((size_t)m->of_tokens * (size_t)c->n * (size_t)c->columns, sizeof *c->token);
    for (int s = 0; s < m->of_tokens; s++)
        for (int u = 0; u < c->n; u++)
            for (int k = 0; k < c->columns; k++)
                c->token[(s * c->n + u) * c->columns + k] =
                    manifold_tokens(shape, centred, m->selection[s].kind, c->lowest[k], token[u]);
}

void circuit_sequence_open(struct circuit_sequence *c, const struct spec *s, const struct manifold *m, const struct batch *b,
                           int i)
{
    const struct task_shape shape = shape_of(s);
    const int n = b->length, centred = s->model.embedding == EMBEDDING_CENTRED;
    const int32_t *token = b->token + (size_t)i * (size_t)n;
    int32_t *counted = memory_new((size_t)n, sizeof *counted);
    int *column = memory_new((size_t)shape.classes, sizeof *column);
    for (int u = 0; u < n; u++)
        counted[u] = b->position ? b->position[(size_t)i * (size_t)n + (size_t)u] : u;
    *c = (struct circuit_sequence){.n = n, .weight = b->weight ? b->weight[i] : 1.0};
    c->relation = memory_new((size_t)m->selections, sizeof *c->relation);
    for (int k = 0; k < m->selections; k++)
        open_relation(&c->relation[k], &shape, centred, &m->selection[k], token, counted, n);
    c->count = memory_new((size_t)shape.classes, sizeof *c->count);
    c->lowest = memory_new((size_t)shape.classes, sizeof *c->lowest);
    find_columns(c, &shape, token, b->target[(size_t)(i + 1) * (size_t)n - 1], column);
    relate_classes(c, &shape, centred, m, token);
    memory_free(counted);
    memory_free(column);
}

void circuit_sequence_close(struct circuit_sequence *c, int selections)
{
    for (int k = 0; k < selections; k++) {
        memory_free(c->relation[k].first);
        memory_free(c->relation[k].row);
        memory_free(c->relation[k].group);
        memory_free(c->relation[k].mean);
    }
    memory_free(c->relation);
    memory_free(c->count);
    memory_free(c->lowest);
    memory_free(c->token);
}
