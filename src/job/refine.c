#include "job/refine.h"

#include "base/memory.h"
#include "job/axis.h"

#include <stdlib.h>
#include <string.h>

/* The refined axes and the slices. */
struct grid {
    const struct job *job;
    int levels, dims;
    int axis[JOB_AXES_MAX];          /* [dims] refined axes */
    bool refined[JOB_AXES_MAX];      /* of every axis */
    size_t stride[JOB_AXES_MAX];     /* of every axis, in points */
    size_t points, slices;
    size_t *slice;                   /* [slices] the first point of each */
};

static bool is_refined(const struct job *job, int a)
{
    const int steps = 1 << job->spec.refine.levels;
    return job->axis[a].count > steps && (job->axis[a].count - 1) % steps == 0 && axis_is_range(&job->axis[a]);
}

size_t refine_points(const struct job *job)
{
    size_t n = 1;
    for (int a = 0; a < job->axes; a++)
        n *= (size_t)job->axis[a].count;
    return n;
}

size_t refine_point(const struct job *job, const int *position)
{
    size_t p = 0;
    for (int a = 0; a < job->axes; a++)
        p = p * (size_t)job->axis[a].count + (size_t)position[a];
    return p;
}

void refine_position(const struct job *job, size_t point, int *position)
{
    for (int a = job->axes - 1; a >= 0; a--) {
        position[a] = (int)(point % (size_t)job->axis[a].count);
        point /= (size_t)job->axis[a].count;
    }
}

static void open_grid(struct grid *g, const struct job *job)
{
    *g = (struct grid){.job = job, .levels = (int)job->spec.refine.levels, .points = refine_points(job), .slices = 1};
    size_t stride = 1;
    for (int a = job->axes - 1; a >= 0; a--) {
        g->stride[a] = stride;
        stride *= (size_t)job->axis[a].count;
    }
    for (int a = 0; a < job->axes; a++)
        if ((g->refined[a] = is_refined(job, a)))
            g->axis[g->dims++] = a;
        else
            g->slices *= (size_t)job->axis[a].count;
    g->slice = memory_new(g->slices, sizeof *g->slice);
    for (size_t s = 0; s < g->slices; s++) {
        size_t left = s;
        for (int a = job->axes - 1; a >= 0; a--)
            if (!g->refined[a]) {
                g->slice[s] += left % (size_t)job->axis[a].count * g->stride[a];
                left /= (size_t)job->axis[a].count;
            }
    }
}

static void close_grid(struct grid *g) { memory_free(g->slice); }

static int level_of(const struct grid *g, const int *position)
{
    int level = 0;
    for (int d = 0; d < g->dims; d++)
        for (int l = level; position[g->axis[d]] % (1 << (g->levels - l)); l++)
            level = l + 1;
    return level;
}

int refine_level(const struct job *job, size_t point)
{
    struct grid g;
    int position[JOB_AXES_MAX];
    open_grid(&g, job);
    refine_position(job, point, position);
    int level = level_of(&g, position);
    close_grid(&g);
    return level;
}

/* ---- the order of runs ---- */

struct spot {
    uint64_t key;                    /* level, coarsest block */
    uint32_t point;
};

static int by_spot(const void *a, const void *b)
{
    const struct spot *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->point > y->point) - (x->point < y->point);
}

static uint64_t block_of(const struct grid *g, const int *position)
{
    uint64_t block = 0;
    for (int a = 0; a < g->job->axes; a++) {
        const bool refined = g->refined[a];
        const int cells = refined ? (g->job->axis[a].count - 1) >> g->levels : g->job->axis[a].count;
        int at = refined ? position[a] >> g->levels : position[a];
        block = block * (uint64_t)cells + (uint64_t)(at < cells ? at : cells - 1);
    }
    return block;
}

struct refine_order *refine_order_new(const struct job *job)
{
    if (job->spec.refine.levels == 0)
        return NULL;
    struct grid g;
    int position[JOB_AXES_MAX];
    open_grid(&g, job);
    struct spot *spot = memory_new(g.points, sizeof *spot);
    struct refine_order *o = memory_new(1, sizeof *o);
    *o = (struct refine_order){.levels = g.levels, .points = g.points};
    o->first = memory_new((size_t)g.levels + 2, sizeof *o->first);
    o->point = memory_new(g.points, sizeof *o->point);
    o->rank = memory_new(g.points, sizeof *o->rank);
    for (size_t p = 0; p < g.points; p++) {
        refine_position(job, p, position);
        int level = level_of(&g, position);
        spot[p] = (struct spot){(uint64_t)level << 56 | block_of(&g, position), (uint32_t)p};
        o->first[level + 1]++;
    }
    for (int l = 0; l <= g.levels; l++)
        o->first[l + 1] += o->first[l];
    qsort(spot, g.points, sizeof *spot, by_spot);
    for (size_t i = 0; i < g.points; i++) {
        o->point[i] = spot[i].point;
        o->rank[spot[i].point] = (uint32_t)i;
    }
    memory_free(spot);
    close_grid(&g);
    return o;
}

void refine_order_free(struct refine_order *o)
{
    if (!o)
        return;
    memory_free(o->first);
    memory_free(o->point);
    memory_free(o->rank);
    memory_free(o);
}

size_t refine_level_end(const struct job *job, size_t run)
{
    const struct refine_order *o = job->order;
    size_t level = 0, seeds = (size_t)job->seeds;
    if (!o)
        return job_runs(job);
    while (run >= o->first[level + 1] * seeds)
        level++;
    return o->first[level + 1] * seeds;
}

size_t refine_point_of(const struct job *job, size_t run)
{
    int position[JOB_AXES_MAX], seed_index;
    if (!job->order)
        return run % refine_points(job);
    job_locate(job, run, position, &seed_index);
    return refine_point(job, position);
}

size_t refine_run(const struct job *job, size_t point, int seed_index)
{
    const struct refine_order *o = job->order;
    size_t level = 0, seeds = (size_t)job->seeds, seed = (size_t)seed_index;
    if (!o)
        return seed * refine_points(job) + point;
    while (o->rank[point] >= o->first[level + 1])
        level++;
    size_t points = o->first[level + 1] - o->first[level];
    return o->first[level] * seeds + seed * points + o->rank[point] - o->first[level];
}

/* ---- cells ---- */

enum { CELL_ABSENT, CELL_WHOLE, CELL_HALVED, CELL_OPEN };

/* The cells of one level in one slice. */
struct cells {
    const struct grid *g;
    size_t origin;                   /* the slice's first point */
    int level, steps;                /* of a cell's edge */
    int count[JOB_AXES_MAX];         /* [dims] cells along each refined axis */
    size_t cells;
    unsigned char *state;
};

static void open_cells(struct cells *c, const struct grid *g, size_t origin, int level)
{
    *c = (struct cells){.g = g, .origin = origin, .level = level, .steps = 1 << (g->levels - level), .cells = 1};
    for (int d = 0; d < g->dims; d++) {
        c->count[d] = (g->job->axis[g->axis[d]].count - 1) / c->steps;
        c->cells *= (size_t)c->count[d];
    }
    c->state = memory_new(c->cells, 1);
}

static void close_cells(struct cells *c) { memory_free(c->state); }

static void cell_at(const struct cells *c, size_t cell, int *at)
{
    for (int d = c->g->dims - 1; d >= 0; d--) {
        at[d] = (int)(cell % (size_t)c->count[d]);
        cell /= (size_t)c->count[d];
    }
}

static size_t cell_number(const struct cells *c, const int *at)
{
    size_t n = 0;
    for (int d = 0; d < c->g->dims; d++)
        n = n * (size_t)c->count[d] + (size_t)at[d];
    return n;
}

/* The point `offset` [dims] steps of the finest grid from a cell's first corner. */
static size_t point_in(const struct cells *c, const int *at, const int *offset)
{
    size_t p = c->origin;
    for (int d = 0; d < c->g->dims; d++)
        p += (size_t)(at[d] * c->steps + offset[d]) * c->g->stride[c->g->axis[d]];
    return p;
}

/* Counts through `n` values in each of `dims` digits; false after the last. */
static bool next_digits(int dims, int n, int *digit)
{
    int d = dims - 1;
    while (d >= 0 && ++digit[d] == n)
        digit[d--] = 0;
    return d >= 0;
}

enum judgement { AGREE, DISAGREE, OPEN };

static enum judgement judge(const struct cells *c, const int *at, const int *label)
{
    int corner[JOB_AXES_MAX] = {0}, offset[JOB_AXES_MAX], first = REFINE_UNKNOWN;
    enum judgement j = AGREE;
    do {
        for (int d = 0; d < c->g->dims; d++)
            offset[d] = corner[d] * c->steps;
        int own = label[point_in(c, at, offset)];
        if (own == REFINE_UNKNOWN)
            return OPEN;
        first = first == REFINE_UNKNOWN ? own : first;
        if (own != first || own == REFINE_NONE)
            j = DISAGREE;
    } while (next_digits(c->g->dims, 2, corner));
    return j;
}

/* Halves the cells around one, itself included. */
static void halve_around(struct cells *c, const int *at, int halo)
{
    int digit[JOB_AXES_MAX] = {0}, other[JOB_AXES_MAX];
    do {
        bool inside = true;
        for (int d = 0; d < c->g->dims; d++) {
            other[d] = at[d] + digit[d] - halo;
            inside = inside && other[d] >= 0 && other[d] < c->count[d];
        }
        if (inside && c->state[cell_number(c, other)] == CELL_WHOLE)
            c->state[cell_number(c, other)] = CELL_HALVED;
    } while (next_digits(c->g->dims, 2 * halo + 1, digit));
}

/* Judges all cells that there are; false when one cannot be yet: it is left open. */
static bool judge_cells(struct cells *c, const int *label)
{
    int at[JOB_AXES_MAX];
    bool *splits = memory_new(c->cells, sizeof *splits), known = true;
    for (size_t i = 0; i < c->cells; i++) {
        if (c->state[i] == CELL_ABSENT)
            continue;
        cell_at(c, i, at);
        enum judgement j = judge(c, at, label);
        splits[i] = j == DISAGREE;
        c->state[i] = j == OPEN ? CELL_OPEN : c->state[i];
        known = known && j != OPEN;
    }
    for (size_t i = 0; i < c->cells; i++)
        if (splits[i]) {
            cell_at(c, i, at);
            halve_around(c, at, (int)c->g->job->spec.refine.halo);
        }
    memory_free(splits);
    return known;
}

/* Marks the points of the next level in the halved cells, and the cells of that level. */
static void halve(const struct cells *c, struct cells *next, bool *wanted)
{
    int at[JOB_AXES_MAX], digit[JOB_AXES_MAX], offset[JOB_AXES_MAX];
    for (size_t i = 0; i < c->cells; i++) {
        if (c->state[i] != CELL_HALVED)
            continue;
        cell_at(c, i, at);
        memset(digit, 0, sizeof digit);
        do {
            for (int d = 0; d < c->g->dims; d++)
                offset[d] = digit[d] * next->steps;
            wanted[point_in(c, at, offset)] = true;
        } while (next_digits(c->g->dims, 3, digit));
        memset(digit, 0, sizeof digit);
        do {
            for (int d = 0; d < c->g->dims; d++)
                offset[d] = 2 * at[d] + digit[d];
            next->state[cell_number(next, offset)] = CELL_WHOLE;
        } while (next_digits(c->g->dims, 2, digit));
    }
}

/* ---- what is wanted ---- */

static void want_coarse(const struct grid *g, size_t origin, bool *wanted)
{
    struct cells c;
    int digit[JOB_AXES_MAX] = {0}, at[JOB_AXES_MAX];
    open_cells(&c, g, origin, 0);
    for (size_t i = 0; i < c.cells; i++) {
        int offset[JOB_AXES_MAX];
        cell_at(&c, i, at);
        memset(digit, 0, sizeof digit);
        do {
            for (int d = 0; d < g->dims; d++)
                offset[d] = digit[d] * c.steps;
            wanted[point_in(&c, at, offset)] = true;
        } while (next_digits(g->dims, 2, digit));
    }
    close_cells(&c);
}

/* Goes through the levels of one slice; `visit` may be NULL and sees each level's cells when they are judged. Without it
 * the walk ends at the first level that has an open cell, since the halo of that cell may reach others; with it the
 * other cells are seen all the same.   returns the first level that has an open cell, or `levels` */
typedef void visit_cells(void *context, const struct cells *c);

static int walk_slice(const struct grid *g, size_t origin, const int *label, bool *wanted, visit_cells *visit, void *context)
{
    struct cells c, next;
    int open = g->levels;
    open_cells(&c, g, origin, 0);
    memset(c.state, CELL_WHOLE, c.cells);
    for (int level = 0; level < g->levels; level++) {
        if (!judge_cells(&c, label))
            open = level < open ? level : open;
        if (open < g->levels && !visit)
            break;
        if (visit)
            visit(context, &c);
        open_cells(&next, g, origin, level + 1);
        halve(&c, &next, wanted);
        close_cells(&c);
        c = next;
    }
    close_cells(&c);
    return open;
}

int refine_wanted(const struct job *job, const int *label, bool *wanted)
{
    struct grid g;
    open_grid(&g, job);
    int least = g.levels;
    memset(wanted, 0, g.points * sizeof *wanted);
    for (size_t s = 0; s < g.slices; s++) {
        want_coarse(&g, g.slice[s], wanted);
        int level = walk_slice(&g, g.slice[s], label, wanted, NULL, NULL);
        least = level < least ? level : least;
    }
    close_grid(&g);
    return least;
}

/* ---- the full map ---- */

struct filling {
    const struct job *job;
    const int *label;
    size_t *source;
    int *level;
};

/* A point within a whole cell takes the nearest corner. */
static void fill_cells(void *context, const struct cells *c)
{
    const struct filling *f = context;
    int at[JOB_AXES_MAX], offset[JOB_AXES_MAX], corner[JOB_AXES_MAX];
    for (size_t i = 0; i < c->cells; i++) {
        if (c->state[i] != CELL_WHOLE)
            continue;
        cell_at(c, i, at);
        memset(offset, 0, sizeof offset);
        do {
            size_t p = point_in(c, at, offset);
            if (f->label[p] != REFINE_UNKNOWN)
                continue;
            for (int d = 0; d < c->g->dims; d++)
                corner[d] = 2 * offset[d] > c->steps ? c->steps : 0;
            f->source[p] = point_in(c, at, corner);
            f->level[p] = c->level;
        } while (next_digits(c->g->dims, c->steps + 1, offset));
    }
}

void refine_fill(const struct job *job, const int *label, size_t *source, int *level)
{
    struct grid g;
    int position[JOB_AXES_MAX];
    struct filling f = {job, label, source, level};
    open_grid(&g, job);
    bool *wanted = memory_new(g.points, sizeof *wanted);
    for (size_t p = 0; p < g.points; p++) {
        refine_position(job, p, position);
        source[p] = p;
        level[p] = level_of(&g, position);
    }
    for (size_t s = 0; s < g.slices; s++)
        walk_slice(&g, g.slice[s], label, wanted, fill_cells, &f);
    memory_free(wanted);
    close_grid(&g);
}
