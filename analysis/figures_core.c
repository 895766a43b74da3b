#include "analysis/figures.h"

#include "analysis/gnuplot.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

/* Components after this many are not drawn; shares below the least one are rounding. */
#define COMPONENTS_DRAWN 24
#define LEAST_SHARE 1e-9

/* ---- core weights ---- */

/* Each run's weights over their sum, in place. */
static void to_shares(double *weight, size_t runs, size_t components)
{
    for (size_t i = 0; i < runs; i++) {
        double sum = 0;
        for (size_t k = 0; k < components; k++)
            sum += isfinite(weight[i * components + k]) ? weight[i * components + k] : 0;
        for (size_t k = 0; k < components; k++)
            weight[i * components + k] = sum > 0 ? weight[i * components + k] / sum : (double)NAN;
    }
}

/* Components with a share that can be seen. */
static size_t visible(const double *share, size_t runs, size_t components)
{
    size_t n = 0;
    for (size_t i = 0; i < runs; i++)
        for (size_t k = 0; k < components && k < COMPONENTS_DRAWN; k++)
            if (share[i * components + k] > LEAST_SHARE && k + 1 > n)
                n = k + 1;
    return n;
}

/* One block of rows "component share" for each run that has weights.   out: run[lines]; returns lines */
static size_t add_weights(struct text *t, const double *share, const struct results *r, size_t shown, size_t *run)
{
    size_t components = ncfile_length(r->runs, "component"), lines = 0;
    text_add(t, "$weights << EOD\n");
    for (size_t i = 0; i < r->n; i++) {
        if (!isfinite(share[i * components]))
            continue;
        for (size_t k = 0; k < shown; k++)
            if (share[i * components + k] > LEAST_SHARE)
                text_add(t, "%zu %.6g\n", k, share[i * components + k]);
        text_add(t, "\n\n");
        run[lines++] = i;
    }
    text_add(t, "EOD\n");
    return lines;
}

static void plot_weights(struct text *p, const struct results *r, const size_t *run, size_t lines)
{
    if (lines > FIGURES_RUNS_NAMED) {
        text_add(p, "unset key\nplot for [i=0:%zu] $weights index i using 1:2 with linespoints pt 7 ps 0.4 lw 0.6 "
                    "lc rgb '#900072B2'\n", lines - 1);
        return;
    }
    text_add(p, "set key outside right top samplen 2\n");
    for (size_t i = 0; i < lines; i++)
        text_add(p, "%s$weights index %zu using 1:2 with linespoints pt 7 ps 0.7 lw 1.2 lc rgb '%s' title '%s'",
                 i ? ", " : "plot ", i, gnuplot_colour((int)i), figures_run_name(r, run[i]));
    text_add(p, "\n");
}

static void core_weights(struct figures *f, const struct results *r)
{
    size_t components = ncfile_length(r->runs, "component");
    double *share = results_get(r->runs, "core_weight"), *rank = results_get(r->runs, "core_rank");
    if (share)
        to_shares(share, r->n, components);
    size_t shown = share ? visible(share, r->n, components) : 0, *run = memory_new(r->n, sizeof *run);
    if (shown == 0)
        goto out;
    struct figure *g = figures_add(f, "core_weights", "Core weights", 680, 400);
    size_t lines = add_weights(&g->data, share, r, shown, run);
    text_add(&g->plot, "set logscale y\nset format y '10^{%%T}'\nset xlabel 'component'\n"
                       "set ylabel 'share of the core weights'\nset xrange [-0.5:%.1f]\nset xtics %d\n",
             (double)shown - 0.5, shown > 12 ? 2 : 1);
    struct range ranks = results_range(rank, rank ? r->n : 0);
    double cut = ranks.low == ranks.high ? ranks.low : (double)NAN;
    if (cut > 0 && cut < (double)shown)
        text_add(&g->plot, "set arrow from first %.1f, graph 0 to first %.1f, graph 1 nohead lc rgb '#444444' dt (6,4)\n"
                           "set label 'core of rank %.0f' at first %.1f, graph 0.96 left offset 0.7,0 textcolor rgb "
                           "'#444444'\n", cut - 0.5, cut - 0.5, cut, cut - 0.5);
    plot_weights(&g->plot, r, run, lines);
    text_add(&g->caption, "Squared singular values of covariance times observability, as shares of their sum, one line a run "
                          "(%zu run%s).", lines, lines == 1 ? "" : "s");
    if (ranks.n > 0) {
        text_add(&g->caption, " Rank by energy: ");
        figures_add_range(&g->caption, ranks);
        text_add(&g->caption, ".");
    }
out:
    memory_free(share);
    memory_free(rank);
    memory_free(run);
}

/* ---- keep and remove ---- */

struct bar { const char *variable, *word; int colour, of_cross; };
static const struct bar bars[] = {
    {"accuracy_full", "whole model", 6, 0},
    {"accuracy_core_only", "core only", 0, 0},
    {"accuracy_core_removed", "core removed", 1, 0},
    {"accuracy_consensus_only", "consensus only", 2, 1},
    {"accuracy_consensus_removed", "consensus removed", 4, 1},
};
enum { BARS = sizeof bars / sizeof bars[0] };

/* One value per run of the job; cross_run.nc holds the runs that could be compared. NULL when it is not there. */
static double *bar_values(const struct results *r, const struct bar *b)
{
    if (!b->of_cross)
        return results_get(r->runs, b->variable);
    double *x = results_get(r->cross, b->variable), *number = results_get(r->cross, "run");
    size_t n = r->cross ? ncfile_length(r->cross, "run") : 0;
    double *all = NULL;
    if (x && number) {
        all = memory_new(r->n, sizeof *all);
        for (size_t i = 0; i < r->n; i++)
            all[i] = NAN;
        for (size_t i = 0; i < n; i++)
            if (number[i] >= 0 && number[i] < (double)r->n)
                all[(size_t)number[i]] = x[i];
    }
    memory_free(x);
    memory_free(number);
    return all;
}

static void plot_grouped(struct figure *g, const struct results *r, double *const *value)
{
    text_add(&g->data, "$ablation << EOD\n");
    for (size_t i = 0; i < r->n; i++) {
        int any = 0;
        for (int b = 0; b < BARS; b++)
            any |= value[b] && isfinite(value[b][i]);
        if (!any)
            continue;
        text_add(&g->data, "\"%s\"", strchr(figures_run_name(r, i), ' ') + 1);
        for (int b = 0; b < BARS; b++)
            figures_add_value(&g->data, value[b] ? value[b][i] : (double)NAN);
        text_add(&g->data, "\n");
    }
    text_add(&g->data, "EOD\n");
    text_add(&g->plot, "set style data histograms\nset style histogram clustered gap 1.5\nset xlabel '%s'\n"
                       "set xtics nomirror scale 0\n", r->job->axes ? "run" : "seed");
    int first = 1;
    for (int b = 0; b < BARS; b++)
        if (value[b] && results_range(value[b], r->n).n > 0) {
            text_add(&g->plot, "%s$ablation using %d:xtic(1) lc rgb '%s' title '%s'", first ? "plot " : ", ", b + 2,
                     bars[b].colour == 6 ? "#999999" : gnuplot_colour(bars[b].colour), bars[b].word);
            first = 0;
        }
    text_add(&g->plot, "\n");
}

/* Many runs: a column of points for each kind of intervention, spread sideways by the run's number. */
static void plot_strips(struct figure *g, const struct results *r, double *const *value)
{
    int column = 0;
    struct text tics = {0}, plots = {0};
    for (int b = 0; b < BARS; b++) {
        if (!value[b] || results_range(value[b], r->n).n == 0)
            continue;
        text_add(&g->data, "$strip%d << EOD\n", b);
        for (size_t i = 0; i < r->n; i++)
            if (isfinite(value[b][i]))
                text_add(&g->data, "%.4f %.6g\n", column + 0.6 * ((double)i / (double)r->n - 0.5), value[b][i]);
        text_add(&g->data, "EOD\n");
        text_add(&tics, "%s'%s' %d", column ? ", " : "", bars[b].word, column);
        text_add(&plots, "%s$strip%d using 1:2 with points pt 7 ps 0.4 lc rgb '%s' notitle", column ? ", " : "plot ", b,
                 bars[b].colour == 6 ? "#999999" : gnuplot_colour(bars[b].colour));
        column++;
    }
    text_add(&g->plot, "set xtics (%s)\nset xrange [-0.6:%.1f]\n%s\n", text_string(&tics), column - 0.4,
             text_string(&plots));
    text_free(&tics);
    text_free(&plots);
}

static void ablation(struct figures *f, const struct results *r)
{
    double *best = results_get(r->runs, "accuracy_best"), *chance = results_get(r->runs, "accuracy_chance");
    double *value[BARS];
    size_t n = 0;
    for (int b = 0; b < BARS; b++) {
        value[b] = bar_values(r, &bars[b]);
        n = value[b] && results_range(value[b], r->n).n > n ? results_range(value[b], r->n).n : n;
    }
    if (n > 0 && value[1]) {
        struct figure *g = figures_add(f, "ablation", "Keep and remove", 680, 400);
        double high = results_constant(best, best ? r->n : 0), low = results_constant(chance, chance ? r->n : 0);
        text_add(&g->plot, "set ylabel 'test accuracy'\nset yrange [0:%s]\nset rmargin 8\nunset grid\n"
                           "set key outside top center horizontal samplen 1.5 width 1\nset grid y lc rgb '#e4e4e4'\n",
                 high > 0.9 ? "1.1" : "*");
        figures_add_level(&g->plot, high, "best", 1);
        figures_add_level(&g->plot, low, "chance", 1);
        (n <= FIGURES_RUNS_DRAWN / 2 ? plot_grouped : plot_strips)(g, r, value);
        text_add(&g->caption, "Test accuracy when the layer keeps only its core (");
        figures_add_range(&g->caption, results_range(value[1], r->n));
        text_add(&g->caption, ") and when the core is removed (");
        figures_add_range(&g->caption, results_range(value[2], value[2] ? r->n : 0));
        text_add(&g->caption, "), beside the whole model (");
        figures_add_range(&g->caption, results_range(value[0], value[0] ? r->n : 0));
        text_add(&g->caption, ").");
    }
    for (int b = 0; b < BARS; b++)
        memory_free(value[b]);
    memory_free(best);
    memory_free(chance);
}

/* ---- eigenvalues ---- */

static void add_points(struct text *t, const char *name, const double *value, size_t runs, size_t components)
{
    text_add(t, "$%s << EOD\n", name);
    for (size_t i = 0; i < runs * components; i++)
        if (isfinite(value[2 * i]) && isfinite(value[2 * i + 1]))
            text_add(t, "%.8g %.8g\n", value[2 * i], value[2 * i + 1]);
    text_add(t, "EOD\n");
}

static void add_circle(struct text *t)
{
    text_add(t, "$circle << EOD\n");
    for (int i = 0; i <= 360; i += 2)
        text_add(t, "%.5f %.5f\n", cos(i * M_PI / 180), sin(i * M_PI / 180));
    text_add(t, "EOD\n");
}

/* The true eigenvalues, each once: all runs have the same unless an axis is a key of the task. */
static void add_truth(struct text *t, const double *value, size_t runs, size_t components)
{
    size_t rows = 1;
    for (size_t i = 1; i < runs; i++)
        if (memcmp(value, value + i * components * 2, components * 2 * sizeof *value))
            rows = runs;
    add_points(t, "true", value, rows, components);
}

/* Smallest square around all points of both arrays, with a margin.   out: x, y of the middle, half its side */
static void enclose(const double *const *value, size_t n, double *x, double *y, double *half)
{
    struct range re = {INFINITY, -INFINITY, 0}, im = re;
    for (int a = 0; a < 2; a++)
        for (size_t i = 0; value[a] && i < n; i++) {
            double u = value[a][2 * i], v = value[a][2 * i + 1];
            if (!isfinite(u) || !isfinite(v))
                continue;
            re.low = fmin(re.low, u);
            re.high = fmax(re.high, u);
            im.low = fmin(im.low, v);
            im.high = fmax(im.high, v);
        }
    *x = (re.low + re.high) / 2;
    *y = (im.low + im.high) / 2;
    *half = 0.62 * fmax(fmax(re.high - re.low, im.high - im.low), 0.02);
}

static void plot_plane(struct text *p, const char *title, const double at[3], int key)
{
    text_add(p, "set title '%s'\nset xrange [%.4g:%.4g]\nset yrange [%.4g:%.4g]\n", title, at[0] - at[2], at[0] + at[2],
             at[1] - at[2], at[1] + at[2]);
    text_add(p, key ? "set key bottom left box lc rgb '#cccccc' opaque\n" : "unset key\n");
    text_add(p, "plot $circle using 1:2 with lines lc rgb '#888888' dt (5,4) title 'unit circle', "
                "$true using 1:2 with points pt 6 ps 2 lw 2 lc rgb '%s' title 'true', "
                "$fitted using 1:2 with points pt 7 ps 0.5 lc rgb '#600072B2' title 'fitted'\n", gnuplot_colour(1));
}

static void eigenvalues(struct figures *f, const struct results *r)
{
    size_t components = ncfile_length(r->runs, "component");
    double *fitted = results_get(r->runs, "operator_eigenvalue");
    double *true_ones = results_get(r->runs, "operator_eigenvalue_true");
    struct range range = results_range(fitted, fitted ? r->n * components * 2 : 0);
    if (range.n > 0 && true_ones) {
        const double *both[2] = {fitted, true_ones};
        double close[3], whole[3] = {0, 0, fmax(1.15, 1.1 * fmax(fabs(range.low), fabs(range.high)))};
        enclose(both, r->n * components, &close[0], &close[1], &close[2]);
        struct figure *g = figures_add(f, "eigenvalues", "Eigenvalues of the core's operator", 820, 430);
        add_circle(&g->data);
        add_points(&g->data, "fitted", fitted, r->n, components);
        add_truth(&g->data, true_ones, r->n, components);
        text_add(&g->plot, "set multiplot layout 1,2\nset size ratio -1\nset xlabel 'real part'\n"
                           "set ylabel 'imaginary part'\nset border 15 lc rgb '#444444'\n");
        plot_plane(&g->plot, "the unit circle", whole, 0);
        plot_plane(&g->plot, "closer", close, 1);
        text_add(&g->plot, "unset multiplot\n");
        double *error = results_get(r->runs, "operator_eigenvalue_error");
        struct range off = results_range(error, error ? r->n * components : 0);
        text_add(&g->caption, "Eigenvalues of z[t+1] = A z[t] in core coordinates, %zu of them, and the true ones of the "
                              "task.", range.n / 2);
        if (off.n > 0)
            text_add(&g->caption, " Relative distance to the true ones, matched best: %.2g to %.2g.", off.low,
                     off.high);
        memory_free(error);
    }
    memory_free(fitted);
    memory_free(true_ones);
}

void figures_core(struct figures *f, const struct results *r)
{
    core_weights(f, r);
    ablation(f, r);
    eigenvalues(f, r);
}
