#include "analysis/figures_map.h"

#include "analysis/gnuplot.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More points of a curve than this cannot be told apart and make the report large. */
#define CURVE_POINTS 400

struct figure *figures_add(struct figures *f, const char *name, const char *title, int width, int height)
{
    f->figure = memory_grow(f->figure, (size_t)f->count, (size_t)f->count + 1, sizeof *f->figure);
    struct figure *g = &f->figure[f->count++];
    snprintf(g->name, sizeof g->name, "%s", name);
    g->title = memory_text(title);
    g->width = width;
    g->height = height;
    return g;
}

void figures_free(struct figures *f)
{
    for (int i = 0; i < f->count; i++) {
        struct figure *g = &f->figure[i];
        memory_free(g->title);
        memory_free(g->fault);
        text_free(&g->data);
        text_free(&g->plot);
        text_free(&g->caption);
    }
    memory_free(f->figure);
    *f = (struct figures){0};
}

const char *figures_run_name(const struct results *r, size_t run)
{
    static char name[48];
    if (r->job->axes == 0)
        snprintf(name, sizeof name, "seed %.0f", r->seed[run]);
    else
        snprintf(name, sizeof name, "run %zu", run);
    return name;
}

void figures_add_value(struct text *t, double x)
{
    if (isfinite(x))
        text_add(t, " %.10g", x);
    else
        text_add(t, " NaN");
}

void figures_add_range(struct text *t, struct range range)
{
    char low[32], high[32];
    snprintf(low, sizeof low, "%.4g", range.low);
    snprintf(high, sizeof high, "%.4g", range.high);
    if (strcmp(low, high))
        text_add(t, "%s to %s", low, high);
    else
        text_add(t, "%s", low);
}

void figures_add_level(struct text *plot, double value, const char *word, int beside)
{
    if (!isfinite(value))
        return;
    text_add(plot, "set arrow from graph 0, first %.10g to graph 1, first %.10g nohead lc rgb '#333333' lw 1.2 dt (6,4) "
                   "front\n", value, value);
    text_add(plot, "set label '%s' at graph %s, first %.10g %s textcolor rgb '#333333' front\n", word,
             beside ? "1.01" : "0.99", value, beside ? "left" : "right offset 0,0.5");
}

/* ---- curves ---- */

struct curves {
    size_t steps;
    double *step, *train, *test;     /* [steps], [runs][steps] */
};

static struct curves curves_get(const struct results *r, const char *train, const char *test)
{
    struct curves c = {.steps = ncfile_length(r->runs, "step")};
    c.step = results_get(r->runs, "step");
    c.train = results_get(r->runs, train);
    c.test = results_get(r->runs, test);
    return c;
}

static void curves_free(struct curves *c)
{
    memory_free(c->step);
    memory_free(c->train);
    memory_free(c->test);
}

/* Numbers of the runs that have a finite point.   out: run[n]; returns how many */
static size_t drawn_runs(const struct results *r, const struct curves *c, size_t *run)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        if (results_range(c->test + i * c->steps, c->steps).n > 0)
            run[n++] = i;
    return n;
}

/* Rows "step train test"; a run that has no point at a step of another run is drawn straight across it. */
static void add_lines(struct figure *g, const struct curves *c, const size_t *run, size_t n)
{
    size_t every = c->steps / CURVE_POINTS + 1;
    text_add(&g->data, "$curves << EOD\n");
    for (size_t i = 0; i < n; i++) {
        for (size_t s = 0; s < c->steps; s++) {
            size_t at = run[i] * c->steps + s;
            if ((s % every && s != c->steps - 1) || (!isfinite(c->train[at]) && !isfinite(c->test[at])))
                continue;
            text_add(&g->data, "%.10g", c->step[s]);
            figures_add_value(&g->data, c->train[at]);
            figures_add_value(&g->data, c->test[at]);
            text_add(&g->data, "\n");
        }
        text_add(&g->data, "\n\n");
    }
    text_add(&g->data, "EOD\n");
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Rows "step low quarter median three-quarters high" of the test curves over the runs that have a point there. */
static void add_bands(struct figure *g, const struct curves *c, const size_t *run, size_t n)
{
    size_t every = c->steps / CURVE_POINTS + 1;
    double *x = memory_new(n, sizeof *x);
    text_add(&g->data, "$bands << EOD\n");
    for (size_t s = 0; s < c->steps; s++) {
        size_t k = 0;
        for (size_t i = 0; i < n; i++)
            if (isfinite(c->test[run[i] * c->steps + s]))
                x[k++] = c->test[run[i] * c->steps + s];
        if ((s % every && s != c->steps - 1) || k < n / 2 || k == 0)
            continue;
        qsort(x, k, sizeof *x, by_value);
        text_add(&g->data, "%.10g %.10g %.10g %.10g %.10g %.10g\n", c->step[s], x[0], x[(k - 1) / 4],
                 (x[(k - 1) / 2] + x[k / 2]) / 2, x[k - 1 - (k - 1) / 4], x[k - 1]);
    }
    text_add(&g->data, "EOD\n");
    memory_free(x);
}

static void plot_bands(struct text *p)
{
    text_add(p, "set key top right\n"
                "plot $bands using 1:2:6 with filledcurves lc rgb '#cfe3f1' title 'all runs', "
                "'' using 1:3:5 with filledcurves lc rgb '#86b9dc' title 'half of the runs', "
                "'' using 1:4 with lines lc rgb '%s' lw 2 title 'median'\n", gnuplot_colour(0));
}

/* Training in thin dashes under the test curve of the same colour. */
static void plot_lines(struct text *p, const struct results *r, const size_t *run, size_t n)
{
    int named = n <= FIGURES_RUNS_NAMED;
    text_add(p, named ? "set key outside right top samplen 2\n" : "unset key\n");
    if (!named)
        text_add(p, "set cbrange [0:%zu]\nset cblabel 'run'\n", r->n - 1);
    for (int test = 0; test < 2; test++)
        for (size_t i = 0; i < n; i++) {
            text_add(p, "%s$curves index %zu using 1:%d with lines ", i + (size_t)test ? ", " : "plot ", i, 2 + test);
            text_add(p, test ? "lw 1.8 " : "lw 0.9 dt (3,3) ");
            if (named)
                text_add(p, "lc rgb '%s' ", gnuplot_colour((int)i));
            else
                text_add(p, "lc palette cb %zu ", run[i]);
            text_add(p, "title '%s'", test && named ? figures_run_name(r, run[i]) : "");
        }
    if (named)
        text_add(p, ", NaN with lines lc rgb '#444444' lw 1.8 title 'test', "
                    "NaN with lines lc rgb '#444444' lw 0.9 dt (3,3) title 'training'");
    text_add(p, "\n");
}

static void plot_curves(struct figure *g, const struct results *r, const struct curves *c)
{
    size_t *run = memory_new(r->n, sizeof *run), n = drawn_runs(r, c, run);
    if (n <= FIGURES_RUNS_DRAWN) {
        add_lines(g, c, run, n);
        plot_lines(&g->plot, r, run, n);
    }
    else {
        add_bands(g, c, run, n);
        plot_bands(&g->plot);
    }
    memory_free(run);
}

static void caption_runs(struct figure *g, const struct results *r, const char *what, const char *variable)
{
    double *x = results_get(r->runs, variable);
    struct range range = results_range(x, x ? r->n : 0);
    text_add(&g->caption, "%s after the last step: ", what);
    figures_add_range(&g->caption, range);
    text_add(&g->caption, " (%zu run%s).", range.n, range.n == 1 ? "" : "s");
    memory_free(x);
}

/* From the first step to the last; runs that all diverged at once have a single one. */
static void add_step_axis(struct figure *g, const struct curves *c)
{
    text_add(&g->plot, "set xlabel 'optimiser steps'\nset xrange [%.10g:%.10g]\n", c->step[0],
             c->steps > 1 ? c->step[c->steps - 1] : c->step[0] + 1);
}

static void loss_curves(struct figures *f, const struct results *r)
{
    struct curves c = curves_get(r, "loss_train", "loss_test");
    struct range range = results_range(c.test, c.test ? r->n * c.steps : 0);
    if (c.step && c.train && range.n > 0) {
        struct figure *g = figures_add(f, "loss", "Loss", 680, 400);
        add_step_axis(g, &c);
        text_add(&g->plot, "set ylabel 'loss'\n");
        if (range.low > 0 && range.high > 20 * range.low)
            text_add(&g->plot, "set logscale y\n");
        plot_curves(g, r, &c);
        caption_runs(g, r, "Test loss", "loss_test_final");
    }
    curves_free(&c);
}

static void accuracy_curves(struct figures *f, const struct results *r)
{
    struct curves c = curves_get(r, "accuracy_train_curve", "accuracy_test_curve");
    struct range range = results_range(c.test, c.test ? r->n * c.steps : 0);
    if (c.step && c.train && range.n > 0) {
        double *best = results_get(r->runs, "accuracy_best"), *chance = results_get(r->runs, "accuracy_chance");
        double high = results_constant(best, best ? r->n : 0), low = results_constant(chance, chance ? r->n : 0);
        double top = isfinite(high) && high > range.high ? high : range.high;
        struct figure *g = figures_add(f, "accuracy", "Accuracy", 680, 400);
        add_step_axis(g, &c);
        text_add(&g->plot, "set ylabel 'accuracy'\nset yrange [0:%.3g]\n",
                 top > 0.9 ? 1.02 : top > 0 ? top * 1.1 : 1.0);
        figures_add_level(&g->plot, high, "best", 0);
        figures_add_level(&g->plot, low, "chance", 0);
        plot_curves(g, r, &c);
        caption_runs(g, r, "Test accuracy", "accuracy_test");
        if (isfinite(high) && isfinite(low))
            text_add(&g->caption, " Best possible %.4g, chance %.4g.", high, low);
        memory_free(best);
        memory_free(chance);
    }
    curves_free(&c);
}

struct figures figures_make(const struct results *r)
{
    struct figures f = {0};
    loss_curves(&f, r);
    accuracy_curves(&f, r);
    figures_core(&f, r);
    figures_pairs(&f, r);
    figures_winner(&f, r, NULL);
    figures_map(&f, r);
    return f;
}
