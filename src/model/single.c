/* single.c: whether a decoder can be computed through tables of (token, position) rows, and what that costs. */
#include "model/single.h"

#include <stdio.h>

#define TABLES_MAX ((double)(256 << 20))     /* bytes that the tables of a batch may take */

/* Sizes of a step: rows of the factored tables (tokens, then positions) and of those of pairs, both at most. */
struct single_size {
    double factored, pairs, looked, queries, mixed;      /* mixed: (looked row, key) pairs */
    double width, attention, heads, hidden, classes;
};

static double least(double a, double b) { return a < b ? a : b; }

static struct single_size size_of(const struct decoder *d, struct task_shape shape)
{
    const double length = shape.length, looked = shape.looked ? shape.looked : length;
    const double n = shape.batch ? shape.batch : 1, tokens = least(d->vocabulary, n * length);
    return (struct single_size){
        .factored = tokens + length, .pairs = least(d->vocabulary, n) * length, .looked = n * looked,
        .queries = least(d->vocabulary, n) * looked, .mixed = n * least(looked * length, length * (length + 1) / 2),
        .width = d->d_model, .attention = (double)d->heads * d->d_head, .heads = d->heads,
        .hidden = d->block[0].d_mlp, .classes = d->classes};
}

/* One level of tables: formed from the rows before it, expanded to pairs (an addition forward, two back), mixed. */
static void count_level(const struct single_size *s, double columns, double tables, const char *what,
                        struct planner_count *c)
{
    planner_add(c, tables, "%s: tables", what);
    planner_add(c, 3 * s->pairs * s->heads * columns, "%s: tables of pairs", what);
    planner_add(c, 6 * s->mixed * s->heads * columns, "%s: rows mixed of %.0f pairs", what, s->pairs);
}

/* Tables of x A: A on the queries' rows, W_o A on the values'. */
static double formed(const struct single_size *s, double columns)
{
    return 6 * columns * (s->factored * s->width + s->attention * s->width + s->factored * s->attention);
}

static void count_mlp(const struct single_size *s, unsigned flags, struct planner_count *c)
{
    if (flags & SINGLE_HIDDEN)
        count_level(s, s->hidden, formed(s, s->hidden), "hidden units", c);
    else
        planner_add(c, 6 * s->looked * s->width * s->hidden, "MLP up");
    if (flags & SINGLE_MERGED) {
        planner_add(c, 6 * s->width * s->hidden * s->classes, "W_down times unembedding");
        planner_add(c, 6 * s->looked * s->hidden * s->classes, "hidden units to logits");
    } else {
        planner_add(c, 6 * s->looked * s->hidden * s->width, "MLP down");
    }
}

static void count(const struct single_size *s, unsigned flags, struct planner_count *c)
{
    planner_add(c, 18 * s->factored * s->width * s->attention, "queries, keys, values of tokens and positions");
    planner_add(c, 6 * least(s->queries, s->looked) * s->pairs * s->attention, "scores of pairs");
    if (!(flags & SINGLE_LOGITS) || (s->hidden > 0 && !(flags & SINGLE_HIDDEN)))
        count_level(s, s->width, 6 * s->factored * s->attention * s->width, "attention half", c);
    if (s->hidden > 0)
        count_mlp(s, flags, c);
    if (flags & SINGLE_LOGITS)
        count_level(s, s->classes, formed(s, s->classes), "attention half to logits", c);
    if (!(flags & SINGLE_LOGITS) || (s->hidden > 0 && !(flags & SINGLE_MERGED)))
        planner_add(c, 6 * s->looked * s->width * s->classes, "unembedding");
}

/* Bytes of tables and their gradients for the largest batch there can be. */
static double table_bytes(const struct decoder *d, const struct single_size *s, int length, int f64)
{
    const double all = (double)d->vocabulary * length;
    return (f64 ? 16 : 8) * all * (1 + s->heads) * (s->width + s->hidden + s->classes);
}

static void set_invalid(const struct decoder *d, const struct single_size *s, struct task_shape shape, int f64,
                        struct planner_candidate *c)
{
    const double bytes = table_bytes(d, s, shape.length, f64);
    if (d->layers != 1)
        snprintf(c->invalid, sizeof c->invalid, "the model has %d layers", d->layers);
    else if (d->norm != NORM_NONE)
        snprintf(c->invalid, sizeof c->invalid, "a norm stands between the tables");
    else if (d->dropout > 0)
        snprintf(c->invalid, sizeof c->invalid, "dropout acts on what is not formed");
    else if (bytes > TABLES_MAX)
        snprintf(c->invalid, sizeof c->invalid, "its tables would take %.0f MiB", bytes / (1 << 20));
}

void single_plan(const struct decoder *d, struct task_shape shape, int f64, struct planner *p)
{
    struct planner_candidate *c = planner_candidate(p, "single", "tables of (token, position) rows through the block");
    const struct single_size s = size_of(d, shape);
    c->passes = f64 ? &single_f64 : &single_f32;
    set_invalid(d, &s, shape, f64, c);
    if (c->invalid[0])
        return;
    const unsigned all = SINGLE_LOGITS | (s.hidden > 0 ? SINGLE_HIDDEN | SINGLE_MERGED : 0);
    for (unsigned flags = 0; flags <= all; flags++) {
        struct planner_count one = {0};
        if (flags & ~all)
            continue;
        count(&s, flags, &one);
        if (c->count.parts && c->count.flops <= one.flops)
            continue;
        c->count = one;
        c->flags = flags;
    }
}
