#include "analysis/figures.h"

#include "analysis/gnuplot.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

/* Up to this many runs a cell of a pair map shows its number; after so many, runs are left out of the picture. */
#define RUNS_NUMBERED 12
#define RUNS_SHOWN 200

/* A square array over runs from a variable over pairs: its smallest value along the further dimension, if it has one;
 * mirrored, so that it does not matter which half the file fills. NULL when it is not there. */
static double *square(struct ncfile *cross, const char *name, size_t n)
{
    int rank = cross && ncfile_has(cross, name) ? ncfile_rank(cross, name) : 0;
    if (rank < 2 || rank > 3)
        return NULL;
    size_t inner = 1;
    if (rank == 3)
        ncfile_variable_dimension(cross, name, 2, &inner);
    double *x = results_get(cross, name), *least = memory_new(n * n, sizeof *least);
    for (size_t i = 0; x && i < n * n; i++)
        least[i] = results_range(x + i * inner, inner).low;
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            if (!isfinite(least[a * n + b]))
                least[a * n + b] = least[b * n + a];
    memory_free(x);
    return least;
}

/* Of the pairs a < b. */
static struct range pairs_range(const double *x, size_t n)
{
    struct range r = {NAN, NAN, 0};
    for (size_t a = 0; a < n; a++)
        for (size_t b = a + 1; b < n; b++)
            if (isfinite(x[a * n + b])) {
                r.low = r.n == 0 ? x[a * n + b] : fmin(r.low, x[a * n + b]);
                r.high = r.n == 0 ? x[a * n + b] : fmax(r.high, x[a * n + b]);
                r.n++;
            }
    return r;
}

/* The first `shown` runs. */
static void add_cells(struct text *t, const char *name, const double *x, size_t n, size_t shown)
{
    text_add(t, "$%s << EOD\n", name);
    for (size_t a = 0; a < shown; a++) {
        for (size_t b = 0; b < shown; b++) {
            text_add(t, "%zu %zu", b, a);
            figures_add_value(t, a == b ? (double)NAN : x[a * n + b]);
            text_add(t, "\n");
        }
        text_add(t, "\n");
    }
    text_add(t, "EOD\n");
}

/* Tick labels: the runs' seeds or numbers, thinned to some ten. */
static void add_tics(struct text *p, const struct results *r, const double *run, size_t n)
{
    struct text tics = {0};
    for (size_t i = 0, every = (n + 11) / 12; i < n; i += every)
        text_add(&tics, "%s'%s' %zu", i ? ", " : "", strchr(figures_run_name(r, (size_t)run[i]), ' ') + 1, i);
    text_add(p, "set xtics (%s) scale 0\nset ytics (%s) scale 0\n", text_string(&tics), text_string(&tics));
    text_free(&tics);
}

static void plot_cells(struct text *p, const char *name, const char *title, size_t n)
{
    text_add(p, "set title '%s'\nplot $%s using 1:2:3 with image pixels notitle", title, name);
    if (n <= RUNS_NUMBERED)     /* white on the dark half of the palette */
        text_add(p, ", '' using ($3 == $3 ? $1 : NaN):2:(sprintf('%%.%df', $3)):($3 > 0.6 ? 0x000000 : 0xffffff) "
                    "with labels font small textcolor rgb variable notitle", n <= 8 ? 3 : 2);
    text_add(p, "\n");
}

/* What correlations look like when there is nothing to find. */
static void add_null(struct text *caption, const struct results *r)
{
    size_t n = 0;
    const char *name = "canonical_correlation_null_p95";
    double *x = ncfile_has(r->cross, name) ? ncfile_get(r->cross, name, &n) : NULL;
    struct range range = results_range(x, n);
    if (range.n > 0)
        text_add(caption, " With the inputs of one run permuted, 95 %% of all correlations stay below %.3g.",
                 range.high);
    memory_free(x);
}

static void pair_maps(struct figures *f, const struct results *r)
{
    size_t n = ncfile_length(r->cross, "run");
    double *correlation = square(r->cross, "canonical_correlation", n);
    double *overlap = square(r->cross, "projector_overlap", n);
    double *run = results_get(r->cross, "run");
    if (!correlation || !overlap || !run || pairs_range(correlation, n).n == 0)
        goto out;
    struct figure *g = figures_add(f, "pairs", "Same core, other subspace", 900, 430);
    size_t shown = n < RUNS_SHOWN ? n : RUNS_SHOWN;
    add_cells(&g->data, "correlation", correlation, n, shown);
    add_cells(&g->data, "overlap", overlap, n, shown);
    text_add(&g->plot, "set multiplot layout 1,2\nset size square\nunset grid\nunset border\nset cbrange [0:1]\n"
                       "set xrange [-0.5:%.1f]\nset yrange [%.1f:-0.5]\nset xlabel '%s'\nset ylabel '%s'\n",
             (double)shown - 0.5, (double)shown - 0.5, r->job->axes ? "run" : "seed", r->job->axes ? "run" : "seed");
    add_tics(&g->plot, r, run, shown);
    plot_cells(&g->plot, "correlation", "smallest canonical correlation", shown);
    plot_cells(&g->plot, "overlap", "projector overlap", shown);
    text_add(&g->plot, "unset multiplot\n");
    text_add(&g->caption, "Two runs' cores as seen by their coordinates on the same inputs, and as subspaces of their own "
                          "layers, on one scale. Smallest canonical correlation ");
    figures_add_range(&g->caption, pairs_range(correlation, n));
    text_add(&g->caption, ", projector overlap ");
    figures_add_range(&g->caption, pairs_range(overlap, n));
    text_add(&g->caption, " over %zu pairs.", pairs_range(correlation, n).n);
    if (shown < n)
        text_add(&g->caption, " The first %zu of %zu runs are drawn.", shown, n);
    add_null(&g->caption, r);
out:
    memory_free(correlation);
    memory_free(overlap);
    memory_free(run);
}

static void consensus(struct figures *f, const struct results *r)
{
    size_t n = 0, shown = 0, runs = ncfile_length(r->cross, "run");
    const char *name = ncfile_has(r->cross, "consensus_spectrum") ? "consensus_spectrum" : "consensus_strength";
    double *strength = ncfile_has(r->cross, name) ? ncfile_get(r->cross, name, &n) : NULL;
    while (shown < n && shown < 24 && isfinite(strength[shown]))
        shown++;
    if (shown > 0) {
        struct figure *g = figures_add(f, "consensus", "Consensus of all runs", 680, 400);
        text_add(&g->data, "$strength << EOD\n");
        for (size_t k = 0; k < shown; k++)
            text_add(&g->data, "%zu %.10g\n", k, strength[k]);
        text_add(&g->data, "EOD\n");
        text_add(&g->plot, "set xlabel 'direction'\nset ylabel 'share of the runs that have it'\nset yrange [0:1.08]\n"
                           "set xrange [-0.7:%.1f]\nset xtics %d scale 0\nset boxwidth 0.7\nunset key\nunset grid\n"
                           "set grid y lc rgb '#e4e4e4'\nset rmargin 10\n", (double)shown - 0.3, shown > 12 ? 2 : 1);
        figures_add_level(&g->plot, 1 / (double)runs, "one run", 1);
        text_add(&g->plot, "plot $strength using 1:2 with boxes lc rgb '%s'", gnuplot_colour(2));
        if (shown <= 12)
            text_add(&g->plot, ", '' using 1:2:(sprintf('%%.3f', $2)) with labels offset 0,0.7 font small");
        text_add(&g->plot, "\n");
        text_add(&g->caption, "Squared singular values of the bases of all %zu runs side by side, over their number: 1 is a "
                              "direction of sample space that every run has, %.3g one that a single run has. The first: ",
                 runs, 1 / (double)runs);
        for (size_t k = 0; k < shown && k < 5; k++)
            text_add(&g->caption, "%s%.4g", k ? ", " : "", strength[k]);
        text_add(&g->caption, ".");
    }
    memory_free(strength);
}

void figures_pairs(struct figures *f, const struct results *r)
{
    if (!r->cross)
        return;
    pair_maps(f, r);
    consensus(f, r);
}
