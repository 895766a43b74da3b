/* reach.c: whether a decoder's last two blocks can be contracted through paths, and what that costs. */
#include "model/reach.h"

#include "kern/kern.h"

#include <stdio.h>

#define ROWS_MAX 4096                /* of the tables: the Gram table has their square, for each head */

/* Sizes of a step. rows: of the table of tokens and positions; basis: those and their images under each OV matrix;
 * pairs: (query, key) of block 1 in one sequence, which every asking position walks through once for each pair of
 * heads. */
struct reach_size {
    double rows, basis, looked, pairs;
    double width, attention, heads, d_head;
};

static struct reach_size size_of(const struct decoder *d, struct task_shape shape)
{
    const double length = shape.length, looked = shape.looked ? shape.looked : length;
    const double n = shape.batch ? shape.batch : 1, rows = (double)d->vocabulary + length;
    return (struct reach_size){.rows = rows, .basis = (1 + d->heads) * rows, .looked = n * looked,
                               .pairs = length * (length + 1) / 2, .width = d->d_model,
                               .attention = (double)d->heads * d->d_head, .heads = d->heads, .d_head = d->d_head};
}

/* Columns that a product of so few really takes: whole vectors. */
static double lanes(double width) { return width < KERN_CHUNK ? KERN_CHUNK : width; }

/* The last block's attention. Fused, queries are the rows themselves and the values those after the output matrix. */
static void count_last(const struct reach_size *s, int fused, int n, struct planner_count *c)
{
    const double key_width = fused ? s->width : s->d_head;
    if (fused) {
        planner_add(c, 12 * s->width * s->width * s->d_head, "block %d: fused query-key and value-output matrices", n);
        planner_add(c, 12 * s->basis * s->width * s->width, "block %d: keys and values of the tables' %.0f rows", n,
                    s->basis);
    } else {
        planner_add(c, 12 * s->basis * s->width * s->attention, "block %d: keys and values of the tables' %.0f rows", n,
                    s->basis);
        planner_add(c, 12 * s->looked * s->width * s->attention, "block %d: queries and output, where the loss looks", n);
    }
    planner_add(c, 6 * s->looked * s->heads * (key_width + lanes(key_width)) * s->basis,
                "block %d: products with the tables", n);
    planner_add(c, 12 * s->heads * s->heads * s->looked * s->pairs, "block %d: along the paths", n);
}

static void count(const struct decoder *d, const struct reach_size *s, int fused, struct planner_count *c)
{
    const int n = d->layers;
    const double mlp = d->block[n - 1].d_mlp;
    planner_add(c, 18 * s->rows * s->width * s->attention, "block %d: queries, keys, values of tokens and positions", n - 1);
    planner_add(c, 6 * s->rows * s->rows * s->attention, "block %d: Gram table", n - 1);
    planner_add(c, 6 * s->rows * s->width * s->attention, "block %d: output of tokens and positions", n - 1);
    planner_add(c, 6 * s->looked * s->heads * s->rows * s->width, "block %d: output, where the loss looks", n - 1);
    count_last(s, fused, n, c);
    if (mlp > 0)
        planner_add(c, 12 * s->looked * s->width * mlp, "block %d: MLP, where the loss looks", n);
    planner_add(c, 6 * s->looked * s->width * d->classes, "unembedding");
}

/* The last two blocks with x a row for every position; the blocks before as the row engine counts them. */
static void count_rows(const struct decoder *d, const struct reach_size *s, struct task_shape shape, struct planner_count *c)
{
    const int n = d->layers;
    const double length = shape.length, rows = (shape.batch ? shape.batch : 1) * length, asks = s->looked * s->heads;
    const double through = asks * (1 + s->heads) + asks, mlp = d->block[n - 1].d_mlp, square = s->width * s->attention;
    for (int l = 0; l < n - 2; l++)
        decoder_plan_block(d, shape, l, DECODER_LOOKED | DECODER_TABLE, c);
    planner_add(c, 12 * rows * square, "block %d: queries and keys", n - 1);
    planner_add(c, 6 * s->pairs * rows / length * s->attention, "block %d: weights", n - 1);
    planner_add(c, 12 * s->looked * square, "block %d: output, where the loss looks", n - 1);
    planner_add(c, 24 * s->looked * square, "block %d: queries and output, where the loss looks", n);
    planner_add(c, 24 * asks * square, "block %d: queries and mixtures through block %d", n, n - 1);
    planner_add(c, 12 * through * length * s->width, "block %d: products with the rows of block %d's input", n, n - 1);
    planner_add(c, 12 * s->heads * s->heads * s->looked * s->pairs, "block %d: along the paths", n);
    if (mlp > 0)
        planner_add(c, 12 * s->looked * s->width * mlp, "block %d: MLP, where the loss looks", n);
    planner_add(c, 6 * s->looked * s->width * d->classes, "unembedding");
}

/* Why not, or NULL. */
static const char *obstacle(const struct decoder *d, const struct reach_size *s)
{
    if (d->layers < 2)
        return "it is for two layers or more";
    if (d->block[d->layers - 2].d_mlp > 0)
        return "the last block but one has an MLP, through which nothing can be contracted";
    if (d->norm != NORM_NONE)
        return "a norm stands between the blocks";
    if (d->dropout > 0)
        return "dropout acts on what would not be formed";
    if (d->heads > REACH_HEADS_MAX)
        return "it is for few heads";
    if (d->layers == 2 && s->rows > ROWS_MAX)
        return "tokens and positions are too many for a Gram table";
    return NULL;
}

static int may_fuse(const struct decoder *d)
{
    return d->heads == 1 && d->block[d->layers - 1].query_bias == DECODER_NONE;
}

void reach_plan(const struct decoder *d, struct task_shape shape, int f64, struct planner *p)
{
    const struct reach_size s = size_of(d, shape);
    struct planner_candidate *c = planner_candidate(p, "reach", "the last block through paths; what it reads is not formed");
    const char *why = obstacle(d, &s);
    c->passes = f64 ? &decoder_reach_f64 : &decoder_reach_f32;
    if (why) {
        snprintf(c->invalid, sizeof c->invalid, "%s", why);
        return;
    }
    if (d->layers > 2) {
        c->passes = f64 ? &decoder_reach_rows_f64 : &decoder_reach_rows_f32;
        count_rows(d, &s, shape, &c->count);
        return;
    }
    struct planner_count fused = {0};
    count(d, &s, 0, &c->count);
    count(d, &s, 1, &fused);
    if (may_fuse(d) && fused.flops < c->count.flops) {
        c->flags = REACH_FUSED;
        c->count = fused;
    }
}
