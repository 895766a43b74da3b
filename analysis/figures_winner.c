#include "analysis/figures_map.h"

#include "analysis/gnuplot.h"
#include "analysis/runs_manifold.h"
#include "analysis/variables.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- winners ---- */

/* Colours that remain apart for the colour-blind (Okabe and Ito); the last one is for none. */
static const char *const circuit_colours[] = {"#0072B2", "#E69F00", "#CC79A7", "#009E73",
                                              "#56B4E9", "#D55E00", "#F0E442", "#666666"};
enum { COLOURS = sizeof circuit_colours / sizeof circuit_colours[0] };

static void caption_shares(struct text *t, const double *value, size_t n, int words, char *const *word)
{
    int said = 0;
    for (int i = 0; i < words; i++) {
        size_t count = 0;
        for (size_t p = 0; p < n; p++)
            count += value[p] == i;
        if (count)
            text_add(t, "%s%s %.3g %%", said++ ? ", " : "", word[i], 100.0 * (double)count / (double)n);
    }
}

static void winner_map(struct figures *f, const struct results *r, const struct map *m)
{
    double *winner = results_get(r->map, "winner"), *level = results_get(r->map, "level");
    const size_t n = m->nx * m->ny * m->panels;
    int words, layers = (int)r->job->spec.model.layers;
    if (winner && results_range(winner, n).n > 0) {
        char **word = manifold_circuit_words(layers, &words);
        const char **colour = memory_new((size_t)words, sizeof *colour);
        for (int i = 0; i < words; i++)
            colour[i] = i == words - 1 ? "#bbbbbb" : circuit_colours[i % COLOURS];
        struct figure *g = map_flags(f, m, "map_winner", "Phase map: which circuit won", winner, words,
                                     (const char *const *)word, colour);
        text_add(&g->caption, "The pair of layers that became the induction head: its beta, set to zero, raises the "
                              "final loss most. Of the "
                              "points ");
        caption_shares(&g->caption, winner, n, words, word);
        text_add(&g->caption, ".");
        if (level)
            text_add(&g->caption, " Refined along the boundaries: %zu of %zu points were trained.",
                     r->n / (size_t)r->job->seeds, n);
        map_caption_panels(&g->caption, m);
        memory_free(colour);
        manifold_circuit_words_free(word, words);
    }
    memory_free(winner);
    memory_free(level);
}

static void level_map(struct figures *f, const struct results *r, const struct map *m)
{
    static const char *const colours[] = {"#f7fbff", "#c6dbef", "#6baed6", "#2171b5", "#08306b", "#041c3f", "#021020"};
    enum { SHADES = sizeof colours / sizeof colours[0] };
    double *level = results_get(r->map, "level");
    const int levels = (int)r->job->spec.refine.levels;
    if (level && levels < SHADES) {
        char name[SHADES][16];
        const char *word[SHADES];
        for (int l = 0; l <= levels; l++) {
            snprintf(name[l], sizeof name[l], "level %d", l);
            word[l] = name[l];
        }
        struct figure *g = map_flags(f, m, "map_level", "Phase map: where it was refined", level, levels + 1, word, colours);
        text_add(&g->caption,
                 "Level of the cell at each point: cells whose corners disagree, and %lld around them, were halved; "
                 "level 0 has the "
                 "edge of %d points.",
                 (long long)r->job->spec.refine.halo, 1 << levels);
        map_caption_panels(&g->caption, m);
    }
    memory_free(level);
}

/* ---- names ---- */

struct names {
    char **name;
    size_t n;
};

static struct names coordinate_names(struct ncfile *f)
{
    struct names names = {0};
    if (f && ncfile_has(f, "coordinate_name"))
        names.name = ncfile_get_texts(f, "coordinate_name", &names.n);
    return names;
}

static void free_names(struct names *n)
{
    for (size_t i = 0; i < n->n; i++)
        memory_free(n->name[i]);
    memory_free(n->name);
}

/* ---- times of emergence along one axis ---- */

/* Least squares of log y against log x. */
static double slope(const double *x, const double *y, size_t n)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0, k = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(y[i]) && y[i] > 0 && x[i] > 0) {
            sx += log(x[i]);
            sy += log(y[i]);
            sxx += log(x[i]) * log(x[i]);
            sxy += log(x[i]) * log(y[i]);
            k++;
        }
    return k < 2 ? NAN : (k * sxy - sx * sy) / (k * sxx - sx * sx);
}

static void emergence_times(struct figures *f, const struct results *r, const struct map *m)
{
    double *time = results_get(r->map, "coordinate_step_mean");
    struct names names = coordinate_names(r->map);
    const struct scale *x = map_x(m);
    int drawn = 0;
    if (m->axes == 1 && time && x->n > 2 && x->value[0] > 0 && results_range(time, x->n * names.n).n > 2) {
        struct figure *g = figures_add(f, "emergence", "Times of emergence", 640, 430);
        text_add(
            &g->plot,
            "set logscale xy\nset xlabel '%s' noenhanced\nset ylabel 'steps until %.3g'\nset key left top noenhanced\n"
            "set xrange [%.10g:%.10g]\nplot ",
            x->axis->key->path, r->job->spec.probe_manifold.level, x->value[0] * 0.9, x->value[x->n - 1] * 1.1);
        double *y = memory_new(x->n, sizeof *y);
        text_add(&g->caption, "Steps after which each coordinate has reached %.3g; fitted exponents",
                 r->job->spec.probe_manifold.level);
        for (size_t c = 0; c < names.n; c++) {
            for (size_t i = 0; i < x->n; i++)
                y[i] = time[i * names.n + c];
            if (results_range(y, x->n).n < 2)
                continue;
            text_add(&g->data, "$time%zu << EOD\n", c);
            for (size_t i = 0; i < x->n; i++)
                if (isfinite(y[i]) && y[i] > 0)
                    text_add(&g->data, "%.10g %.10g\n", x->value[i], y[i]);
            text_add(&g->data, "EOD\n");
            text_add(&g->plot, "%s$time%zu using 1:2 with linespoints pt 7 ps 0.9 lw 1.5 lc rgb '%s' title '%s'",
                     drawn++ ? ", " : "", c, gnuplot_colour((int)c), names.name[c]);
            text_add(&g->caption, "%s %s %.3f", drawn > 1 ? "," : "", names.name[c], slope(x->value, y, x->n));
        }
        text_add(&g->plot, "\n");
        text_add(&g->caption, ".");
        memory_free(y);
    }
    free_names(&names);
    memory_free(time);
}

/* ---- gradient ratios against theory ---- */

/* Whether there is a point: gnuplot warns of data without one. */
static int has_ratio(const double *ratio, size_t stride, const double *theory, size_t n)
{
    size_t i = 0;
    while (i < n && !(isfinite(ratio[i * stride]) && isfinite(theory[i])))
        i++;
    return i < n;
}

static void gradient_ratios(struct figures *f, const struct results *r)
{
    size_t n = 0;
    double *ratio = results_get(r->runs, "gradient_ratio"), *theory = results_get(r->runs, "gradient_ratio_theory");
    struct names names = coordinate_names(r->runs);
    if (ratio && theory && results_range(theory, r->n).n > 1 && results_range(ratio, r->n * names.n).n > 0) {
        struct figure *g = figures_add(f, "gradient_ratio", "Gradient of the induction head against theory", 640, 480);
        double worst = 0;
        text_add(&g->plot, "set xlabel 'f_r + (1 - f_r)(f_v + (1 - f_v)(1 - delta))' noenhanced\nset ylabel 'gradient "
                           "over that with rare "
                           "tokens alone'\nset key left top noenhanced\nset xrange [0:1.05]\nset yrange [0:1.05]\nplot "
                           "x with lines lc rgb "
                           "'#999999' lw 1 title 'theory'");
        for (size_t c = 0; c < names.n; c++) {
            if (!strcmp(names.name[c], "delta") || !has_ratio(ratio + c, names.n, theory, r->n))
                continue;
            text_add(&g->data, "$ratio%zu << EOD\n", c);
            for (size_t i = 0; i < r->n; i++)
                if (isfinite(ratio[i * names.n + c]) && isfinite(theory[i])) {
                    text_add(&g->data, "%.10g %.10g\n", theory[i], ratio[i * names.n + c]);
                    worst = fmax(worst, fabs(ratio[i * names.n + c] - theory[i]));
                    n++;
                }
            text_add(&g->data, "EOD\n");
            text_add(&g->plot, ", $ratio%zu using 1:2 with points pt %zu ps 0.8 lw 1.2 lc rgb '%s' title '%s'", c, 4 + 2 * c,
                     gnuplot_colour((int)c), names.name[c]);
        }
        text_add(&g->plot, "\n");
        text_add(
            &g->caption,
            "Each coordinate of each of %zu runs; largest difference from theory %.2g (Theorem 2 of arXiv 2607.11875).",
            r->n, worst);
    }
    free_names(&names);
    memory_free(ratio);
    memory_free(theory);
}

/* ---- coordinates over training ---- */

#define PANELS_MAX 6
#define LINES_MAX 12

static void plot_trajectories(struct figure *g, const struct names *names, size_t probes, size_t run,
                              const double *step, const double *value)
{
    int drawn = 0;
    text_add(&g->data, "$run%zu << EOD\n", run);
    for (size_t p = 0; p < probes; p++) {
        if (!isfinite(step[run * probes + p]))
            continue;
        text_add(&g->data, "%.10g", step[run * probes + p]);
        for (size_t c = 0; c < names->n; c++)
            figures_add_value(&g->data, value[(run * probes + p) * names->n + c]);
        text_add(&g->data, "\n");
    }
    text_add(&g->data, "EOD\n");
    text_add(&g->plot, "set title 'run %zu'\nplot ", run);
    for (size_t c = 0; c < names->n && drawn < LINES_MAX; c++)
        text_add(&g->plot,
                 "%s$run%zu using 1:%zu with linespoints pt 7 ps 0.4 lw 1.5 lc rgb '%s' title '%s' noenhanced",
                 drawn++ ? ", " : "", run, c + 2, gnuplot_colour((int)c), names->name[c]);
    text_add(&g->plot, "\n");
}

static void trajectories(struct figures *f, const struct results *r)
{
    double *step = results_get(r->runs, "manifold_probe_step"), *value = results_get(r->runs, "coordinate_probe");
    struct names names = coordinate_names(r->runs);
    const size_t probes = ncfile_length(r->runs, "manifold_probe"), shown = r->n < PANELS_MAX ? r->n : PANELS_MAX;
    if (step && value && probes > 2 && names.n) {
        const int columns = shown > 1 ? 2 : 1, rows = ((int)shown + columns - 1) / columns;
        struct figure *g =
            figures_add(f, "coordinates", "Coordinates over training", columns == 1 ? 640 : 900, 60 + 320 * rows);
        if (shown > 1)
            text_add(&g->plot, "set multiplot layout %d,%d\n", rows, columns);
        text_add(&g->plot, "set xlabel 'step'\nset ylabel 'coordinate'\nset key left top\n");
        for (size_t i = 0; i < shown; i++)
            plot_trajectories(g, &names, probes, i, step, value);
        if (shown > 1)
            text_add(&g->plot, "unset multiplot\n");
        text_add(&g->caption, "The coordinates of the first %zu of %zu runs, at the steps of probe.at%s.", shown, r->n,
                 names.n > LINES_MAX ? " (the first twelve coordinates)" : "");
    }
    free_names(&names);
    memory_free(step);
    memory_free(value);
}

void figures_winner(struct figures *f, const struct results *r, const struct map *m)
{
    if (m) {
        winner_map(f, r, m);
        level_map(f, r, m);
        emergence_times(f, r, m);
        return;
    }
    gradient_ratios(f, r);
    trajectories(f, r);
}
