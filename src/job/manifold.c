#include "job/manifold.h"

#include "base/memory.h"
#include "base/text.h"
#include "job/shape.h"

#include <stdio.h>
#include <string.h>

/* ---- names ---- */

static void add_hop(struct text *t, const struct manifold *m, int layer, int head)
{
    text_add(t, "%d", layer);
    if (m->heads > 1)
        text_add(t, "%c", 'a' + head - 1);
}

/* The block and head of a path of one hop; false for others. */
static bool single_hop(const struct manifold *m, int path, int *layer, int *head)
{
    int hops = 0;
    *layer = *head = 0;
    for (int l = 1; path > 0; l++, path /= 1 + m->heads)
        if (path % (1 + m->heads)) {
            *layer = l;
            *head = path % (1 + m->heads);
            hops++;
        }
    return hops == 1;
}

static void add_path(struct text *t, const struct manifold *m, int path)
{
    if (path == 0)
        text_add(t, "0");
    for (int l = 1; path > 0; l++, path /= 1 + m->heads)
        if (path % (1 + m->heads))
            add_hop(t, m, l, path % (1 + m->heads));
}

static void add_selection(struct text *t, const struct manifold_selection *s)
{
    if (s->kind == SELECTION_SHIFT)
        text_add(t, "M%d", s->shift);
    else
        text_add(t, "%c", "ICR"[s->kind]);
}

static void add_name(struct text *t, const struct manifold *m, const struct manifold_coordinate *c)
{
    const struct manifold_selection *s = &m->selection[c->selection];
    int layer, head;
    bool hop = single_hop(m, c->key, &layer, &head), of_output = c->layer > m->layers;
    if (of_output && s->kind == SELECTION_SAME && hop) {
        text_add(t, "gamma_");
        add_hop(t, m, layer, head);
    } else if (of_output && s->kind == SELECTION_ASSOCIATED && c->key == 0) {
        text_add(t, "delta");
    } else if (of_output) {
        text_add(t, "u_");
        add_selection(t, s);
        text_add(t, "_");
        add_path(t, m, c->key);
    } else if (c->query == 0 && c->key == 0 && s->kind == SELECTION_SHIFT && s->shift == 1) {
        text_add(t, "alpha_");
        add_hop(t, m, c->layer, c->head);
    } else if (c->query == 0 && s->kind == SELECTION_SAME && hop) {
        text_add(t, "beta_");
        add_hop(t, m, layer, head);
        add_hop(t, m, c->layer, c->head);
    } else {
        text_add(t, "w");
        add_hop(t, m, c->layer, c->head);
        text_add(t, "_");
        add_path(t, m, c->query);
        text_add(t, "_");
        add_selection(t, s);
        text_add(t, "_");
        add_path(t, m, c->key);
    }
}

int manifold_find(const struct manifold *m, const char *name)
{
    for (int i = 0; i < m->coordinates; i++)
        if (!strcmp(m->coordinate[i].name, name))
            return i;
    return -1;
}

/* ---- all directions ---- */

static void find_selections(struct manifold *m, const struct spec *s, struct task_shape shape)
{
    m->selection[m->selections++].kind = SELECTION_SAME;
    if (shape.common > 0)
        m->selection[m->selections++].kind = SELECTION_ASSOCIATED;
    if (s->model.rare_identity && shape.common > 0 && shape.vocabulary > shape.common)
        m->selection[m->selections++].kind = SELECTION_RARE;
    m->of_tokens = m->selections;
    for (int shift = s->model.shifts == SHIFTS_BOTH ? 1 - shape.block : 0; shift < shape.block; shift++)
        m->selection[m->selections++] = (struct manifold_selection){SELECTION_SHIFT, shift};
}

static double count_all(const struct manifold *m)
{
    double paths = 1.0, n = 0.0;
    for (int l = 1; l <= m->layers; l++, paths *= 1 + m->heads)
        n += m->heads * paths * paths * m->selections;
    return n + paths * m->of_tokens;
}

static void add(struct manifold *m, struct manifold_coordinate c)
{
    struct text name = {0};
    add_name(&name, m, &c);
    snprintf(c.name, sizeof c.name, "%s", text_string(&name));
    text_free(&name);
    m->coordinate[m->coordinates++] = c;
}

static void add_all(struct manifold *m)
{
    int paths = 1;
    for (int l = 1; l <= m->layers; l++, paths *= 1 + m->heads)
        for (int h = 1; h <= m->heads; h++)
            for (int q = 0; q < paths; q++)
                for (int i = 0; i < m->selections; i++)
                    for (int k = 0; k < paths; k++)
                        add(m, (struct manifold_coordinate){.layer = l, .head = h, .query = q, .key = k, .selection = i});
    for (int i = 0; i < m->of_tokens; i++)
        for (int k = 0; k < paths; k++)
            add(m, (struct manifold_coordinate){.layer = m->layers + 1, .key = k, .selection = i});
}

enum status manifold_new_all(const struct spec *s, struct manifold **out)
{
    struct task_shape shape = shape_of(s);
    if (shape.block == 0)
        return status_fail(STATUS_JOB, "the invariant manifold is one of block lists: set task.kind to blocklist");
    if (s->model.layers > MANIFOLD_LAYERS_MAX || s->model.heads > MANIFOLD_HEADS_MAX)
        return status_fail(STATUS_JOB, "the coordinates of the invariant manifold have names for at most %d layers of at "
                           "most %d heads", MANIFOLD_LAYERS_MAX, MANIFOLD_HEADS_MAX);
    struct manifold *m = memory_new(1, sizeof *m);
    m->layers = (int)s->model.layers;
    m->heads = (int)s->model.heads;
    find_selections(m, s, shape);
    if (count_all(m) > MANIFOLD_COORDINATES_MAX) {
        double n = count_all(m);
        manifold_free(m);
        return status_fail(STATUS_JOB, "model.layers %lld with model.heads %lld make a manifold of %.0f coordinates: at most "
                           "%d",
                           (long long)s->model.layers, (long long)s->model.heads, n, MANIFOLD_COORDINATES_MAX);
    }
    m->coordinate = memory_new((size_t)count_all(m), sizeof *m->coordinate);
    add_all(m);
    *out = m;
    return STATUS_OK;
}

/* ---- those that are named ---- */

#define SEPARATORS " ,\t\n"

const char *manifold_nearest(const struct manifold *m, const char *name)
{
    const char *best = m->coordinate[0].name;
    for (int i = 1; i < m->coordinates; i++)
        if (text_distance(name, m->coordinate[i].name) < text_distance(name, best))
            best = m->coordinate[i].name;
    return best;
}

static enum status mark(const struct manifold *m, const char *name, bool *wanted)
{
    int i = manifold_find(m, name);
    if (i < 0)
        return status_fail(STATUS_JOB, "model.coordinates: %s is no coordinate of a model of %d layers of %d head%s on this "
                           "task; the nearest is %s", name, m->layers, m->heads, m->heads == 1 ? "" : "s",
                           manifold_nearest(m, name));
    if (wanted[i])
        return status_fail(STATUS_JOB, "model.coordinates names %s twice: leave one out", name);
    wanted[i] = true;
    return STATUS_OK;
}

const char *manifold_next_name(const char *names, size_t *length)
{
    names += strspn(names, SEPARATORS);
    *length = strcspn(names, SEPARATORS);
    return *length ? names : NULL;
}

static enum status mark_all(const struct manifold *m, const char *names, bool *wanted)
{
    enum status status = STATUS_OK;
    char name[KEY_TEXT];
    size_t n;
    int named = 0;
    for (; status == STATUS_OK && (names = manifold_next_name(names, &n)); names += n, named++) {
        snprintf(name, sizeof name, "%.*s", (int)n, names);
        status = mark(m, name, wanted);
    }
    if (status == STATUS_OK && named == 0)
        return status_fail(STATUS_JOB, "model.coordinates names none: give names, such as alpha_1 beta_12 gamma_2, or all");
    return status;
}

double manifold_count(const struct spec *s)
{
    struct task_shape shape = shape_of(s);
    struct manifold sizes = {.layers = (int)s->model.layers, .heads = (int)s->model.heads};
    const char *name = s->model.coordinates;
    size_t n;
    double named = 0.0;
    if (shape.block == 0)
        return 0.0;
    find_selections(&sizes, s, shape);
    if (!strcmp(name, "all"))
        return count_all(&sizes);
    for (; (name = manifold_next_name(name, &n)); name += n)
        named++;
    return named;
}

enum status manifold_new(const struct spec *s, struct manifold **out)
{
    struct manifold *m;
    enum status status = manifold_new_all(s, &m);
    if (status != STATUS_OK || !strcmp(s->model.coordinates, "all")) {
        if (status == STATUS_OK)
            *out = m;
        return status;
    }
    bool *wanted = memory_new((size_t)m->coordinates, sizeof *wanted);
    status = mark_all(m, s->model.coordinates, wanted);
    int kept = 0;
    for (int i = 0; i < m->coordinates; i++)
        if (wanted[i])
            m->coordinate[kept++] = m->coordinate[i];
    m->coordinates = kept;
    memory_free(wanted);
    if (status == STATUS_OK)
        *out = m;
    else
        manifold_free(m);
    return status;
}

void manifold_free(struct manifold *m)
{
    if (!m)
        return;
    memory_free(m->coordinate);
    memory_free(m);
}

/* ---- circuits ---- */

int manifold_circuits(int layers) { return layers * (layers - 1) / 2; }

void manifold_circuit(int layers, int circuit, int *first, int *second)
{
    for (int l = 1; l < layers; circuit -= layers - l, l++)
        if (circuit < layers - l) {
            *first = l;
            *second = l + 1 + circuit;
            return;
        }
}
