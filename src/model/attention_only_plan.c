/* attention_only_plan.c: the orders of computation of an attention_only model, counted. */
#include "model/attention_only.h"

static double step_pairs(struct task_shape shape) { return (double)shape.length * (shape.length + 1) / 2; }

static void count_dense(const struct attention_only *d, struct task_shape shape, struct planner_count *c)
{
    const double n = shape.batch ? shape.batch : 1, rows = n * shape.length, pairs = n * step_pairs(shape);
    for (int l = 0; l < d->layers; l++) {
        const double width = (double)d->width[l], heads = d->heads;
        planner_add(c, (l ? 6 : 4) * heads * rows * width * width, "block %d: queries", l + 1);
        planner_add(c, 12 * heads * pairs * width, "block %d: attention", l + 1);
    }
    planner_add(c, 6 * n * d->looked * (double)d->width[d->layers] * d->classes, "unembedding");
}

/* A block between: gathered relations and n x n products, forward and backward; and the products that continue the
 * paths. */
static void count_between(const struct attention_only *d, double sequences, double n, int l, int goes_on,
                          struct planner_count *c)
{
    const double paths = (double)d->paths[l], heads = sequences * d->heads, cube = 2 * n * n * n;
    planner_add(c, heads * 10 * paths * paths * n * n, "block %d: %.0f relations of pairs of paths", l + 1, paths * paths);
    planner_add(c, heads * cube * (3 * paths * paths - paths - 2), "block %d: scores from them", l + 1);
    if (goes_on)
        planner_add(c, heads * cube * 3 * (paths - 1), "block %d: paths that go on", l + 1);
}

/* Blocks before the last one: block 1 out of its matrix, then those between. `blocks` of them go on. */
static void count_before(const struct attention_only *d, double sequences, double n, int blocks, struct planner_count *c)
{
    if (blocks > 0)
        planner_add(c, sequences * d->heads * 7 * n * (n + 1) / 2, "block 1: scores out of its matrix");
    for (int l = 1; l < blocks; l++)
        count_between(d, sequences, n, l, l + 1 < blocks, c);
}

static void count_last(const struct attention_only *d, double sequences, double n, struct planner_count *c)
{
    const double pairs = n * (n + 1) / 2, heads = sequences * d->heads, looked = d->looked;
    const double width = (double)d->width[d->layers - 1], vectors = (double)d->paths[d->layers - 1] - 1;
    const char *where = looked < n ? ", where the loss looks" : "";
    if (d->layers == 1) {
        planner_add(c, heads * 7 * (looked * n < pairs ? looked * n : pairs), "block 1: scores out of its matrix%s", where);
        return;
    }
    planner_add(c, 6 * heads * looked * (width - (double)d->width[0]) * width, "block %d: queries%s", d->layers, where);
    planner_add(c, 3 * heads * looked * (vectors + 1) * n, "block %d: what queries say of tokens and positions%s", d->layers,
                where);
    planner_add(c, 12 * heads * looked * vectors * pairs, "block %d: attention along %.0f paths%s", d->layers, vectors + 1,
                where);
}

static void count_paths(const struct attention_only *d, struct task_shape shape, int whole, struct planner_count *c)
{
    const double sequences = shape.batch ? shape.batch : 1, n = shape.length, looked = d->looked;
    count_before(d, sequences, n, whole ? d->layers : d->layers - 1, c);
    if (whole)
        planner_add(c, 4 * sequences * looked * d->heads * ((double)d->paths[d->layers - 1] - 1) * n * n,
                    "segments of the stream, where the loss looks");
    else
        count_last(d, sequences, n, c);
    planner_add(c, 6 * sequences * looked * (double)(d->width[d->layers] - d->width[0]) * d->classes,
                "unembedding, where the loss looks");
}

static void add_paths(const struct attention_only *d, struct task_shape shape, int f64, int whole, const char *name,
                      const char *does, struct planner *p)
{
    struct planner_candidate *c = planner_candidate(p, name, does);
    c->passes = f64 ? &attention_only_paths_f64 : &attention_only_paths_f32;
    c->flags = whole ? ATTENTION_ONLY_WHOLE : 0;
    count_paths(d, shape, whole, &c->count);
}

void attention_only_plan(const struct attention_only *d, struct task_shape shape, int f64, int dense, struct planner *p)
{
    struct planner_candidate *c = planner_candidate(p, "dense", "every block at every position");
    c->passes = f64 ? &attention_only_f64 : &attention_only_f32;
    count_dense(d, shape, &c->count);
    add_paths(d, shape, f64, 0, "paths", "attention matrices along the paths; the last block only where the loss looks", p);
    add_paths(d, shape, f64, 1, "whole", "... and the last block at every position, from relations", p);
    planner_choose(p, dense);
}
