#include "analysis/phase_map.h"

#include "analysis/phase_grid.h"
#include "analysis/phase_winner.h"
#include "analysis/variables.h"
#include "base/memory.h"
#include "base/text.h"
#include "job/outcome.h"
#include "store/ncfile.h"

#include <math.h>
#include <string.h>

/* The reassembly of a refined map by its labels. */
static void refine(struct ncfile *f, struct grid *g, struct ncfile *runs, const double *outcome, const double *present)
{
    if (!g->job->order)
        return;
    double *label = memory_new(g->points, sizeof *label);
    if (g->job->spec.refine.by == REFINE_WINNER)
        phase_winner_labels(g, runs, label);
    else
        for (size_t p = 0; p < g->points; p++)       /* as in store/wanted.c */
            label[p] = outcome[p] == OUTCOME_FAILED ? (double)NAN : outcome[p];
    grid_refine(g, label, present);
    ncfile_variable(f, "level", NCFILE_INT, text_string(&g->dims), "1",
                    "level of the cell of the refined map; its points without runs take the values of the nearest corner");
    ncfile_put(f, "level", g->level);
    memory_free(label);
}

static void put_outcomes(struct ncfile *f, struct grid *g, struct ncfile *run_file, const double *outcome)
{
    size_t (*count)[OUTCOME_COUNT] = memory_new(g->points, sizeof *count);
    for (size_t r = 0; r < g->rows; r++)
        if (outcome[r] >= 0 && outcome[r] < OUTCOME_COUNT)
            count[g->point[r]][(int)outcome[r]]++;
    double *most = memory_new(g->points, sizeof *most), *share = memory_new(g->points, sizeof *share);
    double *present = memory_new(g->points, sizeof *present);
    for (size_t p = 0; p < g->points; p++) {
        size_t often;
        int m = outcome_most(count[p], &often);
        for (int o = 0; o < OUTCOME_COUNT; o++)
            present[p] += (double)count[p][o];
        most[p] = m < 0 ? (double)NAN : (double)m;
        share[p] = m < 0 ? NAN : (double)often / present[p];
    }
    refine(f, g, run_file, most, present);
    grid_spread(g, 1, most);
    grid_spread(g, 1, share);
    const char *words[OUTCOME_COUNT], *dims = text_string(&g->dims);
    for (int o = 0; o < OUTCOME_COUNT; o++)
        words[o] = outcome_name((enum outcome)o);
    ncfile_variable(f, "outcome", NCFILE_INT, dims, "1", "most frequent outcome over seeds; of equals, the worse");
    ncfile_flags(f, "outcome", OUTCOME_COUNT, words);
    ncfile_put(f, "outcome", most);
    ncfile_variable(f, "outcome_share", NCFILE_DOUBLE, dims, "1", "share of the finished runs that have this outcome");
    ncfile_put(f, "outcome_share", share);
    ncfile_variable(f, "runs", NCFILE_INT, dims, "1", "finished runs");
    ncfile_put(f, "runs", present);
    memory_free(count);
    memory_free(most);
    memory_free(share);
    memory_free(present);
}

static void put_statistic(struct ncfile *f, const struct grid *g, struct ncfile *runs, const char *variable,
                          const char *statistic, const char *says, const double *x)
{
    int is_count = !strcmp(statistic, "count");
    char *name = memory_format("%s_%s", variable, statistic);
    char *long_name = memory_format("%s: %s", ncfile_get_attribute(runs, variable, "long_name"), says);
    const char *units = ncfile_get_attribute(runs, variable, "units");
    ncfile_variable(f, name, is_count ? NCFILE_INT : NCFILE_DOUBLE, text_string(&g->dims), is_count ? "1" : units,
                    long_name);
    ncfile_put(f, name, x);
    memory_free(name);
    memory_free(long_name);
}

/* Mean and standard deviation by Welford's recurrence (Technometrics 4, 1962), over the runs that have a value. */
static void put_scalar(struct ncfile *f, const struct grid *g, struct ncfile *runs, const char *variable)
{
    double *x = ncfile_get(runs, variable, NULL);
    if (!x)
        return;
    double *n = memory_new(g->points, sizeof *n), *mean = memory_new(g->points, sizeof *mean);
    double *square = memory_new(g->points, sizeof *square);
    for (size_t r = 0; r < g->rows; r++) {
        size_t p = g->point[r];
        if (!isfinite(x[r]))
            continue;
        double step = x[r] - mean[p];
        n[p]++;
        mean[p] += step / n[p];
        square[p] += step * (x[r] - mean[p]);
    }
    for (size_t p = 0; p < g->points; p++) {
        if (n[p] < 1)
            mean[p] = NAN;
        square[p] = n[p] < 2 ? NAN : sqrt(square[p] / (n[p] - 1));
    }
    grid_spread(g, 1, mean);
    grid_spread(g, 1, square);
    put_statistic(f, g, runs, variable, "mean", "mean over seeds", mean);
    put_statistic(f, g, runs, variable, "std", "sample standard deviation over seeds", square);
    put_statistic(f, g, runs, variable, "count", "runs that have a value", n);
    memory_free(x);
    memory_free(n);
    memory_free(mean);
    memory_free(square);
}

/* Whether a variable of runs.nc is a result of a run: a number per run that is no coordinate and no flag. */
static int is_scalar(const struct grid *g, struct ncfile *runs, const char *name)
{
    size_t length;
    if (ncfile_rank(runs, name) != 1 || strcmp(ncfile_variable_dimension(runs, name, 0, &length), "run"))
        return 0;
    for (int a = 0; a < g->job->axes; a++)
        if (!strcmp(name, g->name[a]))
            return 0;
    return strcmp(name, "run") && strcmp(name, "seed") && !*ncfile_get_attribute(runs, name, "flag_values");
}

/* Global attributes of runs.nc that hold for the map too. */
static const char *const origin[] = {"instruction_set", "training_revision", "training_libraries"};

static enum status write_map(struct ncfile *runs, struct grid *g, const char *path)
{
    struct ncfile *f;
    double *outcome = ncfile_get(runs, "outcome", NULL);
    if (!outcome)
        return STATUS_OK;                /* closing runs.nc says what is wrong */
    char *title = memory_format("phase map of the job %s", g->job->name);
    enum status s = ncfile_create(path, title, &f);
    memory_free(title);
    if (s == STATUS_OK) {
        for (size_t i = 0; i < sizeof origin / sizeof origin[0]; i++)
            ncfile_attribute(f, NULL, origin[i], ncfile_get_attribute(runs, NULL, origin[i]));
        grid_put_axes(f, g);
        put_outcomes(f, g, runs, outcome);
        phase_winner_put(f, g, runs);
        for (int i = 0; i < ncfile_variables(runs); i++)
            if (is_scalar(g, runs, ncfile_variable_name(runs, i)))
                put_scalar(f, g, runs, ncfile_variable_name(runs, i));
        phase_vectors_put(f, g, runs);
        char *effective = job_print(g->job);
        ncfile_text(f, "job", "the effective job, all defaults filled in", effective);
        memory_free(effective);
        s = ncfile_close(f);
    }
    memory_free(outcome);
    return s;
}

enum status phase_map_write(struct store *store, const struct job *job)
{
    if (job->axes == 0)
        return STATUS_OK;
    char *from = memory_format("%s/runs.nc", store_dir(store)), *path = NULL;
    struct ncfile *runs;
    enum status s = ncfile_open(from, &runs), closed;
    if (s != STATUS_OK)
        goto out;
    struct grid g;
    s = grid_read(&g, job, runs);
    if (s == STATUS_OK) {
        path = store_temporary(store, "phase_map.nc");
        s = write_map(runs, &g, path);
        grid_clear(&g);
    }
    closed = ncfile_close(runs);
    if (s == STATUS_OK)
        s = closed;
    if (s == STATUS_OK)
        s = store_publish(store, path, "phase_map.nc");
out:
    memory_free(path);
    memory_free(from);
    return s;
}
