#include "model/manifold_plan.h"

#include "base/memory.h"

#include <string.h>

/* ---- paths ---- */

static void find_hops(struct manifold_plan *d)
{
    const int paths = d->paths[d->layers];
    d->shorter = memory_new((size_t)paths, sizeof *d->shorter);
    d->hop = memory_new((size_t)paths, sizeof *d->hop);
    for (int p = 1; p < paths; p++) {
        int place = 1;
        while (p / place % d->base == 0)
            place *= d->base;
        d->hop[p] = p / place % d->base * place;
        d->shorter[p] = p - d->hop[p];
    }
}

static const struct manifold_coordinate *coordinate(const struct manifold_plan *d, int i) { return &d->m->coordinate[i]; }

/* P of a path of blocks before the last, and all that it is made of: its heads, and the path before its last hop. */
static void form(struct manifold_plan *d, int path)
{
    if (path == 0 || d->formed[path])
        return;
    int place = 1;
    while (path / place >= d->base)
        place *= d->base;
    d->formed[path] = 1;
    form(d, path / place * place);
    form(d, path % place);
}

/* The row of a path, and those that it comes from. */
static void need_row(struct manifold_plan *d, int path)
{
    const int last = d->paths[d->layers - 1];
    for (int p = path; p > 0 && !d->row[p]; p = d->shorter[p]) {
        d->row[p] = 1;
        if (d->hop[p] < last)
            form(d, d->hop[p]);
        else
            d->last[d->hop[p] / last - 1] = 1;
    }
}

static void need_key(struct manifold_plan *d, char *ask, int path)
{
    for (int p = path; p > 0 && !ask[p]; p = d->shorter[p]) {
        ask[p] = 1;
        form(d, d->hop[p]);
    }
}

/* What is read out needs rows, these need heads of the last block, whose coordinates need rows and keys, and so on down. */
static void find_needs(struct manifold_plan *d)
{
    const int n = d->m->coordinates, before = d->paths[d->layers - 1];
    d->row = memory_new((size_t)d->paths[d->layers], 1);
    d->formed = memory_new((size_t)before, 1);
    d->last = memory_new((size_t)d->heads, 1);
    d->ask = memory_new((size_t)d->heads, sizeof *d->ask);
    for (int h = 0; h < d->heads; h++)
        d->ask[h] = memory_new((size_t)before, 1);
    d->row[0] = 1;
    for (int i = n - 1; i >= 0; i--) {               /* the unembedding's first, then block by block downwards */
        const struct manifold_coordinate *c = coordinate(d, i);
        if (c->layer > d->layers) {
            need_row(d, c->key);
        } else if (c->layer == d->layers && d->last[c->head - 1]) {
            need_row(d, c->query);
            need_key(d, d->ask[c->head - 1], c->key);
        } else if (c->layer < d->layers && d->formed[c->head * d->paths[c->layer - 1]]) {
            form(d, c->query);
            form(d, c->key);
        }
    }
    d->matrix = memory_new((size_t)before, sizeof *d->matrix);
    for (int p = 0; p < before; p++)
        d->matrix[p] = d->formed[p] ? d->matrices++ : -1;
}

/* Whether what a coordinate says can reach the logits. */
static int is_used(const struct manifold_plan *d, const struct manifold_coordinate *c)
{
    if (c->layer > d->layers)
        return 1;
    return c->layer == d->layers ? d->last[c->head - 1] : d->formed[c->head * d->paths[c->layer - 1]];
}

/* ---- tables ---- */

/* Numbers the pairs (key path, selection) of blocks before the last.   out: number[paths[layers - 1]][selections], or -1 */
static int *find_slots(struct manifold_plan *d)
{
    const int before = d->paths[d->layers - 1], selections = d->m->selections, pairs = before * selections;
    int *number = memory_new((size_t)pairs, sizeof *number);
    d->slot_path = memory_new((size_t)pairs, sizeof *d->slot_path);
    d->slot_selection = memory_new((size_t)pairs, sizeof *d->slot_selection);
    for (int i = 0; i < d->m->coordinates; i++) {
        const struct manifold_coordinate *c = coordinate(d, i);
        if (c->layer < d->layers && is_used(d, c))
            number[c->key * selections + c->selection] = 1;
    }
    for (int i = 0, l = 0; i < pairs; i++) {
        for (; i == d->paths[l] * selections; l++)
            d->slots_of[l] = d->slots;
        if (number[i]) {
            d->slot_path[d->slots] = i / selections;
            d->slot_selection[d->slots] = i % selections;
        }
        number[i] = number[i] ? d->slots++ : -1;
    }
    d->slots_of[d->layers - 1] = d->slots;
    return number;
}

static void table_new(struct manifold_table *t, int rows, int cols)
{
    t->a = memory_new((size_t)rows, sizeof *t->a);
    t->b = memory_new((size_t)rows, sizeof *t->b);
    t->col = memory_new((size_t)cols, sizeof *t->col);
}

static int find_or_add(int *count, int *list, int value)
{
    for (int i = *count - 1; i >= 0; i--)
        if (list[i] == value)
            return i;
    list[*count] = value;
    return (*count)++;
}

/* The row (a, b), which is the last one or new: coordinates come in this order. */
static int row_of(struct manifold_table *t, int a, int b)
{
    if (t->rows == 0 || t->a[t->rows - 1] != a || t->b[t->rows - 1] != b) {
        t->a[t->rows] = a;
        t->b[t->rows++] = b;
    }
    return t->rows - 1;
}

/* Row of the unembedding's path, whatever came between. */
static int output_row(struct manifold_table *t, int path) { return find_or_add(&t->rows, t->a, path); }

/* The table of a coordinate, and its row and column there. */
static struct manifold_table *locate(struct manifold_plan *d, const int *slot, const struct manifold_coordinate *c, int *row,
                                     int *col)
{
    if (c->layer > d->layers) {
        *row = output_row(&d->output, c->key);
        *col = c->selection;
        return &d->output;
    }
    if (c->layer == d->layers) {
        struct manifold_table *t = &d->asked[c->head - 1];
        *row = row_of(t, c->query, c->selection);
        *col = find_or_add(&t->cols, t->col, c->key);
        return t;
    }
    struct manifold_table *t = &d->block[c->layer - 1];
    *row = row_of(t, c->head, c->query);
    *col = slot[c->key * d->m->selections + c->selection];
    return t;
}

static void tables_open(struct manifold_plan *d)
{
    const int before = d->paths[d->layers - 1];
    d->asked = memory_new((size_t)d->heads, sizeof *d->asked);
    for (int l = 0; l + 1 < d->layers; l++) {
        table_new(&d->block[l], d->heads * d->paths[l], 1);
        d->block[l].cols = d->slots_of[l];
    }
    for (int h = 0; h < d->heads; h++)
        table_new(&d->asked[h], before * d->m->selections, before);
    table_new(&d->output, d->paths[d->layers], 1);
    d->output.cols = d->m->of_tokens;
}

static void table_put(struct manifold_plan *d, struct manifold_table *t)
{
    t->at = d->tables;
    d->tables += (size_t)t->rows * (size_t)t->cols;
}

/* Twice over the coordinates: first to know the sizes. */
static void find_tables(struct manifold_plan *d)
{
    int *slot = find_slots(d), row, col;
    const int n = d->m->coordinates;
    tables_open(d);
    for (int i = 0; i < n; i++)
        if (is_used(d, coordinate(d, i)))
            locate(d, slot, coordinate(d, i), &row, &col);
    for (int l = 0; l + 1 < d->layers; l++)
        table_put(d, &d->block[l]);
    for (int h = 0; h < d->heads; h++)
        table_put(d, &d->asked[h]);
    table_put(d, &d->output);
    d->place = memory_new((size_t)n, sizeof *d->place);
    for (int l = 0; l + 1 < d->layers; l++)
        d->block[l].rows = 0;
    for (int h = 0; h < d->heads; h++)
        d->asked[h].rows = 0;
    for (int i = 0; i < n; i++) {
        d->place[i] = MANIFOLD_UNUSED;
        if (!is_used(d, coordinate(d, i)))
            continue;
        const struct manifold_table *t = locate(d, slot, coordinate(d, i), &row, &col);
        d->place[i] = t->at + (size_t)row * (size_t)t->cols + (size_t)col;
    }
    memory_free(slot);
}

/* ---- the whole ---- */

struct manifold_plan *manifold_plan_new(const struct spec *s, struct task_shape shape, struct manifold *m,
                                        struct manifold_metric *metric)
{
    struct manifold_plan *d = memory_new(1, sizeof *d);
    d->m = m;
    d->metric = metric;
    d->layers = m->layers;
    d->heads = m->heads;
    d->base = 1 + m->heads;
    d->shape = shape;
    d->period = shape.period ? shape.period : shape.positions ? shape.positions : (int)s->model.max_length;
    d->centred = s->model.embedding == EMBEDDING_CENTRED;
    d->blind = !s->model.self_attention;
    d->loss = (enum loss)s->train.loss;
    d->paths[0] = 1;
    for (int l = 0; l < d->layers; l++)
        d->paths[l + 1] = d->paths[l] * d->base;
    find_hops(d);
    find_needs(d);
    find_tables(d);
    return d;
}

static void table_free(struct manifold_table *t)
{
    memory_free(t->a);
    memory_free(t->b);
    memory_free(t->col);
}

void manifold_plan_free(void *plan)
{
    struct manifold_plan *d = plan;
    if (!d)
        return;
    for (int l = 0; l + 1 < d->layers; l++)
        table_free(&d->block[l]);
    for (int h = 0; h < d->heads; h++) {
        table_free(&d->asked[h]);
        memory_free(d->ask[h]);
    }
    table_free(&d->output);
    void *const list[] = {d->shorter, d->hop, d->row, d->formed, d->last, d->ask, d->matrix, d->slot_path, d->slot_selection,
                          d->asked, d->place};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        memory_free(list[i]);
    manifold_free(d->m);
    manifold_metric_free(d->metric);
    memory_free(d);
}

static void count_block(const struct manifold_plan *d, double sequences, double n, int l, struct planner_count *c)
{
    const struct manifold_table *t = &d->block[l];
    int products = 0, composed = 0;
    for (int i = 0; i < t->rows; i++)
        products += t->b[i] > 0;
    for (int p = d->paths[l]; p < d->paths[l + 1]; p++)
        composed += d->formed[p] && p % d->paths[l] > 0;
    planner_add(c, sequences * 6 * t->rows * t->cols * n * n, "block %d: what %d coordinates say of the keys", l + 1,
                t->rows * t->cols);
    planner_add(c, sequences * 6 * products * n * n * n, "block %d: scores along %d paths of queries", l + 1, t->rows);
    planner_add(c, sequences * 6 * composed * n * n * n, "block %d: %d paths that go on", l + 1, composed);
}

void manifold_plan_count(const struct manifold_plan *d, struct planner_count *c)
{
    const double sequences = d->shape.batch ? d->shape.batch : 1, n = d->shape.length;
    double coordinates = 0.0, vectors = 0.0;
    for (int l = 0; l + 1 < d->layers; l++)
        count_block(d, sequences, n, l, c);
    for (int h = 0; h < d->heads; h++) {
        coordinates += (double)d->asked[h].rows * d->asked[h].cols;
        for (int p = 1; p < d->paths[d->layers - 1]; p++)
            vectors += d->ask[h][p];
    }
    for (int p = 1; p < d->paths[d->layers]; p++)
        vectors += d->row[p];
    planner_add(c, sequences * 6 * coordinates * n, "block %d: what is asked, where the loss looks", d->layers);
    planner_add(c, sequences * 6 * vectors * n * n, "%.0f vectors along paths, where the loss looks", vectors);
    planner_add(c, sequences * 6 * d->output.rows * d->output.cols * n, "unembedding, where the loss looks");
}
