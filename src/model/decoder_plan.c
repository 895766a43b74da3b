/* decoder_plan.c: the decoder's orders of computation, counted. */
#include "model/decoder.h"
#include "model/reach.h"
#include "model/single.h"

#include <stdio.h>

/* What a step has to do: rows of a batch, those at which the loss looks, and pairs of query and key of one head. */
struct step {
    double sequences, length, rows, looked, pairs, pairs_looked;
};

static struct step step_of(struct task_shape shape)
{
    double length = shape.length, looked = shape.looked ? shape.looked : length, n = shape.batch ? shape.batch : 1;
    double pairs = n * length * (length + 1) / 2;
    /* Which positions are looked at is not known here: as many pairs as the last ones have, at most all. */
    double last = n * looked * length < pairs ? n * looked * length : pairs;
    return (struct step){.sequences = n, .length = length, .rows = n * length, .looked = n * looked, .pairs = pairs,
                         .pairs_looked = last};
}

/* Rows that block 1's queries, keys and values are computed for: those of the table where that is taken. */
static double first_rows(const struct decoder *d, const struct step *s, double rows, int flags)
{
    double table = (double)d->vocabulary * s->length;
    return flags & DECODER_TABLE && 2 * table <= s->rows && table < rows ? table : rows;
}

static void count_block(const struct decoder *d, const struct step *s, int layer, int flags, struct planner_count *c)
{
    const double width = d->d_model, heads = (double)d->heads * d->d_head, mlp = d->block[layer].d_mlp;
    const int only = flags & DECODER_LOOKED && layer == d->layers - 1;
    const double rows = only ? s->looked : s->rows, pairs = only ? s->pairs_looked : s->pairs;
    const double queries = layer ? rows : first_rows(d, s, rows, flags);
    const double keys = layer ? s->rows : first_rows(d, s, s->rows, flags);
    const char *where = only && s->looked < s->rows ? ", where the loss looks" : "";
    const int n = layer + 1;
    planner_add(c, 6 * queries * width * heads, "block %d: queries%s", n, queries < rows ? ", from the table" : where);
    if (only && flags & DECODER_KEYS && keys == s->rows) {
        planner_add(c, 12 * rows * width * heads, "block %d: key and value matrices%s", n, where);
        planner_add(c, 12 * pairs * d->heads * width, "block %d: attention to the block's input%s", n, where);
    } else {
        planner_add(c, 12 * keys * width * heads, "block %d: keys and values%s", n,
                    keys < s->rows ? ", from the table" : "");
        planner_add(c, 12 * pairs * heads, "block %d: attention%s", n, where);
    }
    planner_add(c, 6 * rows * width * heads, "block %d: attention output%s", n, where);
    if (mlp > 0)
        planner_add(c, 12 * rows * width * mlp, "block %d: MLP%s", n, where);
}

static void count_rows(const struct decoder *d, const struct step *s, int flags, struct planner_count *c)
{
    for (int l = 0; l < d->layers; l++)
        count_block(d, s, l, flags, c);
    planner_add(c, 6 * s->looked * d->d_model * d->classes, "unembedding");
}

static void add_rows(const struct decoder *d, const struct step *s, int f64, struct planner *p)
{
    static const struct {
        const char *name, *does;
        unsigned flags;
    } order[] = {
        {"dense", "every block at every position", 0},
        {"looked", "the last block only where the loss looks", DECODER_LOOKED},
        {"table", "... and block 1 from a table of (token, position) rows", DECODER_LOOKED | DECODER_TABLE},
        {"keys", "... and no keys and values formed in the last block", DECODER_LOOKED | DECODER_TABLE | DECODER_KEYS},
    };
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        struct planner_candidate *c = planner_candidate(p, order[i].name, order[i].does);
        c->flags = order[i].flags;
        c->passes = f64 ? &decoder_f64 : &decoder_f32;
        count_rows(d, s, (int)order[i].flags, &c->count);
    }
}

void decoder_plan_block(const struct decoder *d, struct task_shape shape, int layer, unsigned flags,
                        struct planner_count *c)
{
    struct step s = step_of(shape);
    count_block(d, &s, layer, (int)flags, c);
}

void decoder_plan(const struct decoder *d, struct task_shape shape, int f64, int dense, struct planner *p)
{
    struct step s = step_of(shape);
    add_rows(d, &s, f64, p);
    reach_plan(d, shape, f64, p);
    single_plan(d, shape, f64, p);
    planner_choose(p, dense);
}
