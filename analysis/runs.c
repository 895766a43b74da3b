#include "analysis/runs.h"

#include "analysis/runs_manifold.h"
#include "analysis/variables.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/ncfile.h"
#include "task/task.h"

#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Values of a learning curve over all runs. */
#define CURVE_VALUES_MAX ((size_t)20000000)

#define ONE(...) +1
enum { CURVES = 0 RUN_CURVES(ONE), COMPONENT_VARIABLES = 0 RUN_COMPONENTS(ONE), TRUTHS = 0 RUN_TRUTHS(ONE) };

/* What runs.nc keeps of a record: no weights, bases or activations, so that many runs fit. */
struct probe_row {
    double *scalar;              /* [variables_scalars()] */
    int count[COMPONENT_VARIABLES];     /* elements of each variable of RUN_COMPONENTS, and the elements */
    double *value[COMPONENT_VARIABLES];
};

struct row {
    int present;
    enum outcome outcome;
    double *scalar;              /* [variables_scalars()], of the last probe */
    int points;
    int64_t *step;
    double *curve[CURVES];       /* [points] */
    int probes;
    struct probe_row *probe;
    char *error;
};

struct rows {
    struct arena *arena;
    const struct job *job;
    size_t runs;
    size_t *number;              /* [runs] of each row's run in the job */
    size_t *row_of;              /* [runs of the job] its row, where it has one */
    struct row *row;
    struct manifold_rows *manifold;
    size_t steps;
    int64_t *step;               /* all evaluation steps of all runs, ascending */
    size_t probes, components;   /* the largest */
    int any_error;
};

static double *copy(struct arena *a, const double *x, size_t n)
{
    double *y = arena_take(a, n ? n : 1, sizeof *y);
    for (size_t i = 0; i < n; i++)
        y[i] = x && isfinite(x[i]) ? x[i] : NAN;
    return y;
}

static void keep_probe(struct arena *a, const struct record *r, const struct record_probe *p, struct probe_row *row)
{
    row->scalar = arena_take(a, (size_t)variables_scalars(), sizeof *row->scalar);
    variables_values(r, p, row->scalar);
    int i = 0;
#define KEEP(name, units, long_name, parts, elements, pointer)                                                         \
    row->count[i] = elements > 0 ? elements : 0;                                                                       \
    row->value[i] = copy(a, pointer, (size_t)row->count[i] * parts);                                                   \
    i++;
    RUN_COMPONENTS(KEEP)
}

static enum status collect(void *context, size_t run, const struct record *r)
{
    struct rows *rows = context;
    struct arena *a = rows->arena;
    struct row *row = &rows->row[rows->row_of[run]];
    manifold_rows_keep(rows->manifold, rows->row_of[run], r);
    row->present = 1;
    row->outcome = r->outcome;
    row->scalar = arena_take(a, (size_t)variables_scalars(), sizeof *row->scalar);
    variables_values(r, r->probes > 0 ? &r->probe[r->probes - 1] : NULL, row->scalar);
    const struct record_curves *c = &r->curves;
    row->points = c->points;
    row->step = arena_take(a, (size_t)c->points + 1, sizeof *row->step);
    if (c->points > 0)
        memcpy(row->step, c->step, (size_t)c->points * sizeof *row->step);
    int i = 0;
#define KEEP_CURVE(name, units, long_name, pointer) row->curve[i++] = copy(a, pointer, (size_t)c->points);
    RUN_CURVES(KEEP_CURVE)
    row->probes = r->probes;
    row->probe = arena_take(a, (size_t)r->probes + 1, sizeof *row->probe);
    for (int p = 0; p < r->probes; p++)
        keep_probe(a, r, &r->probe[p], &row->probe[p]);
    if (r->error) {
        row->error = arena_text(a, r->error);
        rows->any_error = 1;
    }
    return STATUS_OK;
}

static int by_step(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Adds a run's steps to the sorted set; most runs share theirs, so one comparison usually does. */
static void add_steps(struct rows *rows, const struct row *row)
{
    size_t n = (size_t)row->points;
    if (n == rows->steps && !memcmp(row->step, rows->step, n * sizeof *row->step))
        return;
    rows->step = memory_grow(rows->step, rows->steps, rows->steps + n, sizeof *rows->step);
    memcpy(rows->step + rows->steps, row->step, n * sizeof *row->step);
    qsort(rows->step, rows->steps + n, sizeof *rows->step, by_step);
    size_t kept = 0;
    for (size_t i = 0; i < rows->steps + n; i++)
        if (kept == 0 || rows->step[kept - 1] != rows->step[i])
            rows->step[kept++] = rows->step[i];
    rows->steps = kept;
}

static void measure(struct rows *rows)
{
    for (size_t i = 0; i < rows->runs; i++) {
        const struct row *row = &rows->row[i];
        if (row->points > 0)
            add_steps(rows, row);
        if ((size_t)row->probes > rows->probes)
            rows->probes = (size_t)row->probes;
        for (int p = 0; p < row->probes; p++)
            for (int v = 0; v < COMPONENT_VARIABLES; v++)
                if ((size_t)row->probe[p].count[v] > rows->components)
                    rows->components = (size_t)row->probe[p].count[v];
    }
}

static double *missing(size_t n)
{
    double *x = memory_new(n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = NAN;
    return x;
}

/* ---- coordinates ---- */

static void put_counter(struct ncfile *f, const char *name, size_t n, const char *long_name)
{
    ncfile_dimension(f, name, n);
    ncfile_variable(f, name, NCFILE_INT, name, "1", long_name);
    int64_t *v = memory_new(n, sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (int64_t)i;
    ncfile_put_int(f, name, v);
    memory_free(v);
}

static const char *const part_words[] = {"real", "imaginary"};

static void put_dimensions(struct ncfile *f, const struct rows *rows)
{
    ncfile_dimension(f, "run", rows->runs);
    ncfile_variable(f, "run", NCFILE_INT, "run", "1", "number of the run in the job");
    int64_t *number = memory_new(rows->runs, sizeof *number);
    for (size_t i = 0; i < rows->runs; i++)
        number[i] = (int64_t)rows->number[i];
    ncfile_put_int(f, "run", number);
    memory_free(number);
    if (rows->steps > 0) {
        ncfile_dimension(f, "step", rows->steps);
        ncfile_variable(f, "step", NCFILE_INT64, "step", "1", "optimiser steps done");
        ncfile_put_int(f, "step", rows->step);
    }
    if (rows->components > 0) {
        put_counter(f, "component", rows->components, "number of the direction or eigenvalue, from 0");
        put_counter(f, "part", 2, "part of a complex number");
        ncfile_flags(f, "part", 2, part_words);
    }
    if (rows->probes > 1)
        put_counter(f, "probe", rows->probes, "number of the probe of a run, from 0");
}

/* Seed and axes of every row's run, finished or not.   out: their names, for the coordinates attribute */
static void put_grid(struct ncfile *f, const struct rows *rows, struct text *names)
{
    const struct job *job = rows->job;
    int64_t *seed = memory_new(rows->runs, sizeof *seed);
    double *value = memory_new(rows->runs, sizeof *value);
    char (*id)[HASH_TEXT] = memory_new(rows->runs, sizeof *id);
    const char **ids = memory_new(rows->runs, sizeof *ids);
    int position[JOB_AXES_MAX], s;
    for (size_t i = 0; i < rows->runs; i++) {
        job_locate(job, rows->number[i], position, &s);
        seed[i] = (int64_t)job->seed[s];
        job_id_of(job, rows->number[i], id[i]);
        ids[i] = id[i];
    }
    ncfile_variable(f, "seed", NCFILE_INT64, "run", "1", "seed of the run");
    ncfile_put_int(f, "seed", seed);
    text_add(names, "seed");
    for (int a = 0; a < job->axes; a++) {
        char *name = variables_axis_name(&job->axis[a]);
        variables_axis_define(f, &job->axis[a], name, "run");
        for (size_t i = 0; i < rows->runs; i++) {
            job_locate(job, rows->number[i], position, &s);
            value[i] = job->axis[a].value[position[a]];
        }
        ncfile_put(f, name, value);
        text_add(names, " %s", name);
        memory_free(name);
    }
    ncfile_texts(f, "run_id", "run", "hash of the run's keys and seed, its name in the store", rows->runs, ids);
    memory_free(seed);
    memory_free(value);
    memory_free(id);
    memory_free(ids);
}

/* ---- what the runs left ---- */

static void put_outcome(struct ncfile *f, const struct rows *rows, const char *names)
{
    const char *words[OUTCOME_COUNT];
    for (int o = 0; o < OUTCOME_COUNT; o++)
        words[o] = outcome_name((enum outcome)o);
    ncfile_variable(f, "outcome", NCFILE_INT, "run", "1", "what became of the run");
    ncfile_flags(f, "outcome", OUTCOME_COUNT, words);
    ncfile_coordinates(f, "outcome", names);
    double *x = missing(rows->runs);
    const char **error = memory_new(rows->runs, sizeof *error);
    for (size_t i = 0; i < rows->runs; i++) {
        if (rows->row[i].present)
            x[i] = rows->row[i].outcome;
        error[i] = rows->row[i].error ? rows->row[i].error : "";
    }
    ncfile_put(f, "outcome", x);
    if (rows->any_error)
        ncfile_texts(f, "error", "run", "why the run could not be trained", rows->runs, error);
    memory_free(x);
    memory_free(error);
}

static void put_scalars(struct ncfile *f, const struct rows *rows, const char *names)
{
    double *x = memory_new(rows->runs, sizeof *x);
    for (int v = 0; v < variables_scalars(); v++) {
        const struct run_variable *d = variables_scalar(v);
        for (size_t i = 0; i < rows->runs; i++)
            x[i] = rows->row[i].present ? rows->row[i].scalar[v] : NAN;
        ncfile_variable(f, d->name, d->type, "run", d->units, d->long_name);
        ncfile_coordinates(f, d->name, names);
        ncfile_put(f, d->name, x);
    }
    memory_free(x);
}

static void put_curve(struct ncfile *f, const struct rows *rows, int which, const char *name)
{
    double *x = missing(rows->runs * rows->steps);
    for (size_t i = 0; i < rows->runs; i++) {
        const struct row *row = &rows->row[i];
        for (size_t k = 0, s = 0; k < (size_t)row->points; k++) {
            while (rows->step[s] != row->step[k])
                s++;
            x[i * rows->steps + s] = row->curve[which][k];
        }
    }
    ncfile_put(f, name, x);
    memory_free(x);
}

static void put_curves(struct ncfile *f, const struct rows *rows, const char *names)
{
    int which = 0;
#define PUT_CURVE(name, units, long_name, pointer)                                                                     \
    ncfile_variable(f, #name, NCFILE_DOUBLE, "run step", units, long_name);                                            \
    ncfile_coordinates(f, #name, names);                                                                               \
    put_curve(f, rows, which++, #name);
    RUN_CURVES(PUT_CURVE)
}

/* Values of one component variable of a run's probe into x[components][parts]. */
static void spread(const struct probe_row *p, int which, int parts, double *x)
{
    for (int k = 0; k < p->count[which] * parts; k++)
        x[k] = p->value[which][k];
}

static void put_components(struct ncfile *f, const struct rows *rows, const char *names)
{
    int which = 0;
#define PUT_COMPONENTS(name, units, long_name, parts, count, pointer)                                                  \
    {                                                                                                                  \
        size_t stride = rows->components * parts;                                                                      \
        double *x = missing(rows->runs * stride);                                                                      \
        for (size_t i = 0; i < rows->runs; i++)                                                                        \
            if (rows->row[i].probes > 0)                                                                               \
                spread(&rows->row[i].probe[rows->row[i].probes - 1], which, parts, x + i * stride);                    \
        ncfile_variable(f, #name, NCFILE_DOUBLE, parts == 1 ? "run component" : "run component part", units,           \
                        long_name);                                                                                    \
        ncfile_coordinates(f, #name, names);                                                                           \
        ncfile_put(f, #name, x);                                                                                       \
        memory_free(x);                                                                                                \
        which++;                                                                                                       \
    }
    RUN_COMPONENTS(PUT_COMPONENTS)
}

/* ---- the same at every probe, where a run has several ---- */

static void put_probe_scalars(struct ncfile *f, const struct rows *rows, const char *names)
{
    double *x = memory_new(rows->runs * rows->probes, sizeof *x);
    for (int v = 0; v < variables_scalars(); v++) {
        const struct run_variable *d = variables_scalar(v);
        if (!d->of_probe)
            continue;
        for (size_t i = 0; i < rows->runs; i++)
            for (size_t p = 0; p < rows->probes; p++)
                x[i * rows->probes + p] =
                    p < (size_t)rows->row[i].probes ? rows->row[i].probe[p].scalar[v] : NAN;
        char *name = memory_format("%s_probe", d->name);
        char *long_name = memory_format("%s, at every probe", d->long_name);
        ncfile_variable(f, name, d->type, "run probe", d->units, long_name);
        ncfile_coordinates(f, name, names);
        ncfile_put(f, name, x);
        memory_free(name);
        memory_free(long_name);
    }
    memory_free(x);
}

static void put_probe_components(struct ncfile *f, const struct rows *rows, const char *names)
{
    int which = 0;
#define PUT_PROBES(name, units, long_name, parts, count, pointer)                                                      \
    {                                                                                                                  \
        size_t stride = rows->components * parts;                                                                      \
        double *x = missing(rows->runs * rows->probes * stride);                                                       \
        for (size_t i = 0; i < rows->runs; i++)                                                                        \
            for (int k = 0; k < rows->row[i].probes; k++)                                                              \
                spread(&rows->row[i].probe[k], which, parts, x + (i * rows->probes + (size_t)k) * stride);             \
        ncfile_variable(f, #name "_probe", NCFILE_DOUBLE,                                                              \
                        parts == 1 ? "run probe component" : "run probe component part", units,                        \
                        long_name ", at every probe");                                                                 \
        ncfile_coordinates(f, #name "_probe", names);                                                                  \
        ncfile_put(f, #name "_probe", x);                                                                              \
        memory_free(x);                                                                                                \
        which++;                                                                                                       \
    }
    RUN_COMPONENTS(PUT_PROBES)
}

/* ---- what is true of the task ---- */

/* A run whose keys make no task has no truth; its record says why it failed. */
static void put_truth(struct ncfile *f, const struct rows *rows, const char *names)
{
    size_t n = rows->runs, stride = rows->components * 2, v = 0;
    double *scalar = missing(n * TRUTHS), *value = missing(n * stride);
    struct spec *spec = memory_new(1, sizeof *spec);
    for (size_t i = 0; i < n; i++) {
        struct task_truth t;
        uint64_t seed;
        job_run(rows->job, rows->number[i], spec, &seed);
        if (task_truth_of(spec, &t) != STATUS_OK)
            continue;
        v = 0;
#define TRUTH_VALUE(name, long_name, expression) scalar[v++ * n + i] = expression;
        RUN_TRUTHS(TRUTH_VALUE)
        for (size_t k = 0; k < (size_t)t.eigenvalues && k < rows->components; k++)
            memcpy(value + i * stride + 2 * k, t.eigenvalue[k], sizeof t.eigenvalue[k]);
    }
    v = 0;
#define PUT_TRUTH(name, long_name, expression)                                                                         \
    ncfile_variable(f, #name, NCFILE_DOUBLE, "run", "1", long_name);                                                   \
    ncfile_coordinates(f, #name, names);                                                                               \
    ncfile_put(f, #name, scalar + v++ * n);
    RUN_TRUTHS(PUT_TRUTH)
    if (rows->components > 0) {
        ncfile_variable(f, RUN_TRUE_EIGENVALUE, NCFILE_DOUBLE, "run component part", "1", RUN_TRUE_EIGENVALUE_SAYS);
        ncfile_coordinates(f, RUN_TRUE_EIGENVALUE, names);
        ncfile_put(f, RUN_TRUE_EIGENVALUE, value);
    }
    memory_free(spec);
    memory_free(scalar);
    memory_free(value);
}

/* Where the runs come from: what the first tile says of the program that trained it. */
static void put_origin(struct ncfile *f, struct store *store)
{
    static const char *const names[][2] = {
        {"instruction_set", "instruction_set"}, {"training_revision", "invar_revision"}, {"training_libraries", "libraries"}};
    char *pattern = memory_format("%s/tiles/*.nc", store_dir(store));
    glob_t found;
    struct ncfile *tile;
    if (glob(pattern, 0, NULL, &found) == 0) {
        if (ncfile_open(found.gl_pathv[0], &tile) == STATUS_OK) {
            for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
                ncfile_attribute(f, NULL, names[i][0], ncfile_get_attribute(tile, NULL, names[i][1]));
            ncfile_close(tile);
        }
        globfree(&found);
    }
    memory_free(pattern);
}

/* Runs of a map end at steps of their own; a table of all runs by all steps would be mostly empty. */
static int curves_fit(const struct rows *rows)
{
    if (rows->runs * rows->steps <= CURVE_VALUES_MAX)
        return 1;
    log_line(LOG_WARNING, "runs.nc holds no learning curves: %zu runs by %zu steps are too many; they stay in the tiles", rows->runs,
             rows->steps);
    return 0;
}

static enum status write_file(struct store *store, const char *path, const struct rows *rows)
{
    struct ncfile *f;
    char *title = memory_format("runs of the job %s", rows->job->name);
    enum status s = ncfile_create(path, title, &f);
    memory_free(title);
    if (s != STATUS_OK)
        return s;
    struct text names = {0};
    put_origin(f, store);
    put_dimensions(f, rows);
    put_grid(f, rows, &names);
    put_outcome(f, rows, text_string(&names));
    put_scalars(f, rows, text_string(&names));
    if (rows->steps > 0 && curves_fit(rows))
        put_curves(f, rows, text_string(&names));
    if (rows->components > 0)
        put_components(f, rows, text_string(&names));
    if (rows->probes > 1)
        put_probe_scalars(f, rows, text_string(&names));
    if (rows->probes > 1 && rows->components > 0)
        put_probe_components(f, rows, text_string(&names));
    manifold_rows_put(f, rows->manifold, rows->job, rows->number, text_string(&names));
    put_truth(f, rows, text_string(&names));
    char *effective = job_print(rows->job);
    ncfile_text(f, "job", "the effective job, all defaults filled in", effective);
    memory_free(effective);
    text_free(&names);
    return ncfile_close(f);
}

/* All runs of the job, or where a map is refined those that the store has. */
static enum status choose_rows(struct rows *rows, struct store *store)
{
    const size_t runs = job_runs(rows->job);
    int *outcome = memory_new(runs + 1, sizeof *outcome), damaged;
    enum status s = rows->job->spec.refine.levels ? store_scan(store, rows->job, outcome, &damaged) : STATUS_OK;
    rows->number = memory_new(runs + 1, sizeof *rows->number);
    rows->row_of = memory_new(runs + 1, sizeof *rows->row_of);
    for (size_t i = 0; i < runs && s == STATUS_OK; i++) {
        rows->row_of[i] = rows->runs;
        if (outcome[i] >= 0)
            rows->number[rows->runs++] = i;
    }
    memory_free(outcome);
    rows->row = memory_new(rows->runs + 1, sizeof *rows->row);
    rows->manifold = manifold_rows_new(rows->runs);
    return s;
}

enum status runs_write(struct store *store, const struct job *job)
{
    struct rows rows = {.arena = arena_new(), .job = job};
    enum status s = choose_rows(&rows, store);
    if (s == STATUS_OK)
        s = store_read(store, job, collect, &rows);
    if (s != STATUS_OK)
        goto out;
    measure(&rows);
    char *path = store_temporary(store, "runs.nc");
    s = write_file(store, path, &rows);
    if (s == STATUS_OK)
        s = store_publish(store, path, "runs.nc");
    memory_free(path);
out:
    arena_free(rows.arena);
    manifold_rows_free(rows.manifold);
    memory_free(rows.number);
    memory_free(rows.row_of);
    memory_free(rows.row);
    memory_free(rows.step);
    return s;
}
