#include "analysis/phase_grid.h"

#include "analysis/variables.h"
#include "base/memory.h"
#include "job/refine.h"

#include <math.h>
#include <string.h>

static void open_axes(struct grid *g, const struct job *job)
{
    *g = (struct grid){.job = job, .points = 1};
    for (int a = 0; a < job->axes; a++) {
        const struct axis *axis = &job->axis[a];
        int *order = memory_new((size_t)axis->count, sizeof *order);
        g->rank[a] = memory_new((size_t)axis->count, sizeof *g->rank[a]);
        variables_axis_order(axis, order);
        for (int i = 0; i < axis->count; i++)
            g->rank[a][order[i]] = i;
        memory_free(order);
        g->points *= (size_t)axis->count;
        g->name[a] = variables_axis_name(axis);
        text_add(&g->dims, "%s%s", a ? " " : "", g->name[a]);
    }
}

static size_t point_at(const struct grid *g, const int *position)
{
    size_t p = 0;
    for (int a = 0; a < g->job->axes; a++)
        p = p * (size_t)g->job->axis[a].count + (size_t)g->rank[a][position[a]];
    return p;
}

enum status grid_read(struct grid *g, const struct job *job, struct ncfile *runs)
{
    int position[JOB_AXES_MAX], seed;
    double *number = ncfile_get(runs, "run", &g->rows);
    size_t rows = g->rows;
    open_axes(g, job);
    g->rows = rows;
    g->point = memory_new(rows + 1, sizeof *g->point);
    bool good = number && (job->order || rows == job_runs(job));
    for (size_t r = 0; r < rows && good; r++) {
        good = number[r] >= 0 && number[r] < (double)job_runs(job);
        if (!good)
            break;
        job_locate(job, (size_t)number[r], position, &seed);
        g->point[r] = point_at(g, position);
    }
    memory_free(number);
    if (good)
        return STATUS_OK;
    grid_clear(g);
    return status_fail(STATUS_CORRUPT, "runs.nc has other runs than the job: run `invar gather` again");
}

void grid_clear(struct grid *g)
{
    for (int a = 0; a < g->job->axes; a++) {
        memory_free(g->name[a]);
        memory_free(g->rank[a]);
    }
    memory_free(g->point);
    memory_free(g->source);
    memory_free(g->level);
    text_free(&g->dims);
}

void grid_refine(struct grid *g, const double *label, const double *there)
{
    const struct job *job = g->job;
    int position[JOB_AXES_MAX], *own = memory_new(g->points, sizeof *own), *level = memory_new(g->points, sizeof *level);
    size_t *mapped = memory_new(g->points, sizeof *mapped), *source = memory_new(g->points, sizeof *source);
    for (size_t p = 0; p < g->points; p++) {
        refine_position(job, p, position);
        mapped[p] = point_at(g, position);
        own[p] = there[mapped[p]] < job->seeds ? REFINE_UNKNOWN
                 : isfinite(label[mapped[p]])  ? (int)label[mapped[p]]
                                               : REFINE_NONE;
    }
    refine_fill(job, own, source, level);
    g->source = memory_new(g->points, sizeof *g->source);
    g->level = memory_new(g->points, sizeof *g->level);
    for (size_t p = 0; p < g->points; p++) {
        g->source[mapped[p]] = mapped[source[p]];
        g->level[mapped[p]] = level[p];
    }
    memory_free(own);
    memory_free(level);
    memory_free(mapped);
    memory_free(source);
}

void grid_spread(const struct grid *g, size_t width, double *x)
{
    for (size_t p = 0; p < g->points && g->source; p++)
        if (g->source[p] != p)
            memcpy(x + p * width, x + g->source[p] * width, width * sizeof *x);
}

void grid_put_axes(struct ncfile *f, const struct grid *g)
{
    for (int a = 0; a < g->job->axes; a++)
        ncfile_dimension(f, g->name[a], (size_t)g->job->axis[a].count);
    for (int a = 0; a < g->job->axes; a++) {
        const struct axis *axis = &g->job->axis[a];
        double *value = memory_new((size_t)axis->count, sizeof *value);
        for (int i = 0; i < axis->count; i++)
            value[g->rank[a][i]] = axis->value[i];
        variables_axis_define(f, axis, g->name[a], g->name[a]);
        ncfile_put(f, g->name[a], value);
        memory_free(value);
    }
}
