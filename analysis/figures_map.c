#include "analysis/figures_map.h"

#include "analysis/gnuplot.h"
#include "analysis/variables.h"
#include "base/memory.h"
#include "job/outcome.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Panels of a map over more than two axes, and tick labels of an axis. */
#define PANELS 6
#define TICS 8

/* Values at equal distances, or equal ratios where the job asked for a logarithmic axis, stand where they belong;
 * choices and irregular lists stand side by side. */
static int regular(const struct scale *s)
{
    if (s->axis->key->type == KEY_CHOICE || s->axis->key->type == KEY_BOOL || s->n < 2)
        return 0;
    if (s->is_log)
        return s->value[0] > 0;
    double step = (s->value[s->n - 1] - s->value[0]) / (double)(s->n - 1);
    for (size_t i = 1; i < s->n; i++)
        if (fabs(s->value[i] - s->value[i - 1] - step) > 1e-6 * fabs(step))
            return 0;
    return 1;
}

static struct scale scale_open(const struct results *r, const struct axis *axis)
{
    struct scale s = {.axis = axis, .is_log = axis->log_scale};
    char *name = variables_axis_name(axis);
    s.value = ncfile_has(r->map, name) ? ncfile_get(r->map, name, &s.n) : NULL;
    memory_free(name);
    s.at = memory_new(s.n + 1, sizeof *s.at);
    s.edge = memory_new(s.n + 1, sizeof *s.edge);
    if (!regular(&s)) {
        s.is_log = 0;
        for (size_t i = 0; i <= s.n; i++) {
            s.at[i] = (double)i;
            s.edge[i] = (double)i - 0.5;
        }
        return s;
    }
    memcpy(s.at, s.value, s.n * sizeof *s.at);
    for (size_t i = 1; i < s.n; i++)
        s.edge[i] = s.is_log ? sqrt(s.at[i - 1] * s.at[i]) : (s.at[i - 1] + s.at[i]) / 2;
    s.edge[0] = s.is_log ? s.at[0] * s.at[0] / s.edge[1] : 2 * s.at[0] - s.edge[1];
    s.edge[s.n] = s.is_log ? s.at[s.n - 1] * s.at[s.n - 1] / s.edge[s.n - 1] : 2 * s.at[s.n - 1] - s.edge[s.n - 1];
    return s;
}

void map_close(struct map *m)
{
    for (int a = 0; a < m->axes; a++) {
        memory_free(m->scale[a].value);
        memory_free(m->scale[a].at);
        memory_free(m->scale[a].edge);
    }
}

struct map map_open(const struct results *r)
{
    struct map m = {.r = r, .axes = r->job->axes, .nx = 1, .ny = 1, .panels = 1};
    for (int a = 0; a < m.axes; a++) {
        m.scale[a] = scale_open(r, &r->job->axis[a]);
        if (a == m.axes - 1)
            m.nx = m.scale[a].n;
        else if (a == m.axes - 2)
            m.ny = m.scale[a].n;
        else
            m.panels *= m.scale[a].n;
    }
    m.shown = m.panels < PANELS ? m.panels : PANELS;
    return m;
}

const struct scale *map_x(const struct map *m) { return &m->scale[m->axes - 1]; }
const struct scale *map_y(const struct map *m) { return m->axes > 1 ? &m->scale[m->axes - 2] : NULL; }

/* ---- axes of the plot ---- */

static void add_position(struct text *t, const struct scale *s, size_t i)
{
    const char *word = variables_axis_word(s->axis, s->value[i]);
    if (word)
        text_add(t, "%s", word);
    else
        text_add(t, fabs(s->value[i]) >= 1e3 && fabs(s->value[i]) < 1e6 ? "%.0f" : "%.3g", s->value[i]);
}

/* `letter` is x or y. */
void map_set_axis(struct text *p, char letter, const struct scale *s)
{
    struct text tics = {0};
    for (size_t i = 0, every = (s->n + TICS - 1) / TICS; i < s->n; i += every) {
        text_add(&tics, "%s'", i ? ", " : "");
        add_position(&tics, s, i);
        text_add(&tics, "' %.10g", s->at[i]);
    }
    const int plain = !s->is_log && s->n > 2 * TICS && regular(s);      /* round numbers rather than points of the axis */
    const char *unit = s->axis->key->unit;
    int is_number = variables_axis_word(s->axis, s->value[0]) == NULL;
    text_add(p, is_number ? "set %clabel '%s [%s]' noenhanced\n" : "set %clabel '%s' noenhanced\n", letter,
             s->axis->key->path, unit && *unit ? unit : "1");
    text_add(p, "%sset logscale %c\nset %crange [%.10g:%.10g]\nset %ctics ", s->is_log ? "" : "un", letter, letter, s->edge[0],
             s->edge[s->n], letter);
    text_add(p, plain ? "autofreq\n" : "(%s)\n", text_string(&tics));
    text_free(&tics);
}

static void set_axes(struct text *p, const struct map *m)
{
    text_add(p, "unset grid\nset border 15 lc rgb '#444444'\nset tics out\n");
    map_set_axis(p, 'x', map_x(m));
    if (map_y(m))
        map_set_axis(p, 'y', map_y(m));
    else
        text_add(p, "set yrange [0:1]\nunset ytics\nunset ylabel\n");
}

/* What the further axes are in panel k: "train.lr = 0.001, model.norm = post". */
static void add_panel_title(struct text *t, const struct map *m, size_t k)
{
    size_t stride = m->panels;
    for (int a = 0; a < m->axes - 2; a++) {
        stride /= m->scale[a].n;
        text_add(t, "%s%s = ", a ? ", " : "", m->scale[a].axis->key->path);
        add_position(t, &m->scale[a], k / stride % m->scale[a].n);
    }
}

/* ---- cells ---- */

/* More points than can be told apart are thinned out, or put together where neighbours are equal. */
#define MERGED_FROM 2500
#define SIDE_MAX 200

static int are_equal(double a, double b) { return a == b || (!isfinite(a) && !isfinite(b)); }

/* In gnuplot an expression with a NaN in it is undefined, so that a value is missing is a column of its own. */
void map_add_cells(struct text *t, const struct map *m, const char *name, size_t k, const double *value, enum map_values kind)
{
    const struct scale *x = map_x(m), *y = map_y(m);
    const size_t most = m->nx > m->ny ? m->nx : m->ny, thin = kind == MAP_NUMBERS ? (most + SIDE_MAX - 1) / SIDE_MAX : 1;
    const int merge = kind == MAP_FLAGS && m->nx * m->ny > MERGED_FROM;
    text_add(t, "$%s%zu << EOD\n", name, k);
    for (size_t j = 0; j < m->ny; j += thin)
        for (size_t i = 0, next; i < m->nx; i = next) {
            const double *row = value + (k * m->ny + j) * m->nx;
            const size_t above = j + thin < m->ny ? j + thin : m->ny;
            next = i + thin < m->nx ? i + thin : m->nx;
            while (merge && next < m->nx && are_equal(row[i], row[next]))
                next++;
            text_add(t, "%.8g %.8g %.8g %.8g %.8g %.8g", x->at[i], y ? y->at[j] : 0.5, x->edge[i], x->edge[next],
                     y ? y->edge[j] : 0.0, y ? y->edge[above] : 1.0);
            figures_add_value(t, row[i]);
            text_add(t, " %d\n", !isfinite(row[i]));
        }
    text_add(t, "EOD\n");
}

/* Size of a figure with all its panels. */
void map_size(const struct map *m, int *width, int *height, int *columns)
{
    *columns = m->shown == 1 ? 1 : m->shown <= 4 ? 2 : 3;
    int rows = ((int)m->shown + *columns - 1) / *columns, tall = m->axes == 1 ? 210 : 430;
    *width = m->shown == 1 ? 640 : 400 * *columns;
    *height = m->shown == 1 ? tall : 340 * rows;
}

void map_begin_panels(struct text *p, const struct map *m, int columns)
{
    if (m->shown > 1)
        text_add(p, "set multiplot layout %d,%d\n", ((int)m->shown + columns - 1) / columns, columns);
    set_axes(p, m);
}

void map_begin_panel(struct text *p, const struct map *m, size_t k)
{
    struct text title = {0};
    add_panel_title(&title, m, k);
    if (m->shown > 1)
        text_add(p, "set title '%s' noenhanced\n", text_string(&title));
    text_add(p, "plot $cells%zu using ($8 == 1 ? $1 : NaN):2:3:4:5:6 with boxxyerror lc rgb '#dddddd' notitle", k);
    text_free(&title);
}

void map_caption_panels(struct text *caption, const struct map *m)
{
    if (m->shown < m->panels)
        text_add(caption, " The first %zu of %zu points of the further axes; all are in phase_map.nc.", m->shown, m->panels);
}

/* ---- flags ---- */

static void plot_flag_panel(struct text *p, const struct map *m, size_t k, int words, const char *const *word,
                            const char *const *colour)
{
    const char *border = m->nx * m->ny > MERGED_FROM ? "noborder" : "border lc rgb '#ffffff'";
    map_begin_panel(p, m, k);
    for (int i = 0; i < words; i++)
        text_add(p, ", '' using ($7 == %d ? $1 : NaN):2:3:4:5:6 with boxxyerror fc rgb '%s' lw 0.5 fs solid %s notitle",
                 i, colour[i], border);
    for (int i = 0; i < words && k == 0; i++)
        text_add(p, ", NaN with boxes fc rgb '%s' fs solid title '%s' noenhanced", colour[i], word[i]);
    text_add(p, "\n");
}

struct figure *map_flags(struct figures *f, const struct map *m, const char *name, const char *title,
                         const double *value, int words, const char *const *word, const char *const *colour)
{
    int width, height, columns;
    map_size(m, &width, &height, &columns);
    struct figure *g = figures_add(f, name, title, width, height);
    for (size_t k = 0; k < m->shown; k++)
        map_add_cells(&g->data, m, "cells", k, value, MAP_FLAGS);
    map_begin_panels(&g->plot, m, columns);
    text_add(&g->plot, m->shown == 1 ? "set key outside right top samplen 1.5\n"
                                     : "set key at screen 0.5, 0.01 center bottom horizontal samplen 1.5 width 1 maxrows 1\n"
                                       "set bmargin 6.5\n");
    for (size_t k = 0; k < m->shown; k++)
        plot_flag_panel(&g->plot, m, k, words, word, colour);
    if (m->shown > 1)
        text_add(&g->plot, "unset multiplot\n");
    return g;
}

/* ---- outcomes ---- */

static const struct { enum outcome outcome; const char *colour; } outcome_colours[OUTCOME_COUNT] = {
    {OUTCOME_DONE, "#009E73"}, {OUTCOME_UNFINISHED, "#F0E442"}, {OUTCOME_DIVERGED, "#D55E00"}, {OUTCOME_FAILED, "#000000"}};

static void plot_outcome_panel(struct text *p, const struct map *m, size_t k)
{
    map_begin_panel(p, m, k);
    for (int o = 0; o < OUTCOME_COUNT; o++)
        text_add(p, ", '' using ($7 == %d ? $1 : NaN):2:3:4:5:6 with boxxyerror fc rgb '%s' lw 0.5 "
                    "fs solid border lc rgb '#ffffff' notitle",
                 (int)outcome_colours[o].outcome, outcome_colours[o].colour);
    if (m->nx * m->ny <= 400)
        text_add(p, ", $share%zu using ($7 < 1 ? $1 : NaN):2:(sprintf('%%.0f %%%%', 100 * $7)) with labels "
                    "font small notitle", k);
    for (int o = 0; o < OUTCOME_COUNT && k == 0; o++)
        text_add(p, ", NaN with boxes fc rgb '%s' title '%s'", outcome_colours[o].colour,
                 outcome_name(outcome_colours[o].outcome));
    text_add(p, "\n");
}

static void caption_outcomes(struct text *caption, const struct results *r)
{
    size_t count[OUTCOME_COUNT] = {0}, missing = 0;
    for (size_t i = 0; i < r->n; i++)
        if (r->outcome[i] >= 0 && r->outcome[i] < OUTCOME_COUNT)
            count[(int)r->outcome[i]]++;
        else
            missing++;
    text_add(caption, "Most frequent outcome over %d seed%s, with its share where it is not all of them. Of %zu runs ",
             r->job->seeds, r->job->seeds == 1 ? "" : "s", r->n);
    int said = 0;
    for (int o = 0; o < OUTCOME_COUNT; o++)
        if (count[o])
            text_add(caption, "%s%zu are %s", said++ ? ", " : "", count[o], outcome_name((enum outcome)o));
    if (missing)
        text_add(caption, "%s%zu are missing (grey where all are)", said ? ", " : "", missing);
    text_add(caption, ".");
}

static void outcome_map(struct figures *f, const struct map *m)
{
    double *outcome = results_get(m->r->map, "outcome"), *share = results_get(m->r->map, "outcome_share");
    if (outcome && share) {
        int width, height, columns;
        map_size(m, &width, &height, &columns);
        struct figure *g = figures_add(f, "map_outcome", "Phase map: outcome", width, height);
        for (size_t k = 0; k < m->shown; k++) {
            map_add_cells(&g->data, m, "cells", k, outcome, MAP_FLAGS);
            map_add_cells(&g->data, m, "share", k, share, MAP_FLAGS);
        }
        map_begin_panels(&g->plot, m, columns);
        text_add(&g->plot, m->shown == 1
                               ? "set key outside right top samplen 1.5\n"
                               : "set key at screen 0.5, 0.01 center bottom horizontal samplen 1.5 width 1 maxrows 1\n"
                                 "set bmargin 6.5\n");
        for (size_t k = 0; k < m->shown; k++)
            plot_outcome_panel(&g->plot, m, k);
        if (m->shown > 1)
            text_add(&g->plot, "unset multiplot\n");
        caption_outcomes(&g->caption, m->r);
        map_caption_panels(&g->caption, m);
    }
    memory_free(outcome);
    memory_free(share);
}

/* ---- order parameters ---- */

/* Rounding is no spread: gnuplot refuses such a range. */
static int is_flat(struct range r) { return r.high - r.low <= 1e-9 * fmax(fabs(r.low), fabs(r.high)); }

struct order {
    const struct run_variable *v;
    double *mean, *std, *count;
    size_t n;                    /* points of the grid */
};

static void plot_values(struct figure *g, const struct map *m, const struct order *o, int columns)
{
    struct range range = results_range(o->mean, o->n);
    double margin = is_flat(range) ? fmax(fabs(range.low) * 0.05, 1e-3) : 0;
    for (size_t k = 0; k < m->shown; k++)
        map_add_cells(&g->data, m, "cells", k, o->mean, MAP_NUMBERS);
    map_begin_panels(&g->plot, m, columns);
    text_add(&g->plot, "set cbrange [%.10g:%.10g]\nset cblabel '%s [%s]' noenhanced offset 1.5,0\n", range.low - margin,
             range.high + margin, o->v->name, o->v->units);
    for (size_t k = 0; k < m->shown; k++) {
        map_begin_panel(&g->plot, m, k);
        text_add(&g->plot, ", '' using ($8 == 1 ? NaN : $1):2:3:4:5:6:7 with boxxyerror lc palette lw 0.4 "
                           "fs solid border notitle\n");
    }
    if (m->shown > 1)
        text_add(&g->plot, "unset multiplot\n");
}

/* One axis: mean and standard deviation along it. */
static void plot_line(struct figure *g, const struct map *m, const struct order *o)
{
    const struct scale *x = map_x(m);
    text_add(&g->data, "$mean << EOD\n");
    for (size_t i = 0; i < o->n; i++) {
        text_add(&g->data, "%.10g", x->at[i]);
        figures_add_value(&g->data, o->mean[i]);
        figures_add_value(&g->data, isfinite(o->std[i]) ? o->std[i] : 0);
        text_add(&g->data, "\n");
    }
    text_add(&g->data, "EOD\n");
    map_set_axis(&g->plot, 'x', x);
    struct range range = results_range(o->mean, o->n);
    if (is_flat(range))
        text_add(&g->plot, "set yrange [%.10g:%.10g]\n", range.low - 0.5, range.high + 0.5);
    text_add(&g->plot, "set ylabel '%s [%s]' noenhanced\nunset key\n"
                       "set offsets graph 0.03, graph 0.03, graph 0.08, graph 0.08\n", o->v->name, o->v->units);
    text_add(&g->plot, "plot $mean using 1:2 with lines lc rgb '%s' lw 1, "
                       "'' using 1:2:3 with yerrorbars pt 7 ps 0.9 lw 1.3 lc rgb '%s'\n",
             gnuplot_colour(0), gnuplot_colour(0));
}

static void order_map(struct figures *f, const struct map *m, const struct order *o)
{
    int width, height, columns;
    map_size(m, &width, &height, &columns);
    char *name = memory_format("map_%s", o->v->name), *title = memory_format("Phase map: %s", o->v->name);
    struct figure *g = figures_add(f, name, title, width, m->axes == 1 ? 400 : height);
    memory_free(name);
    memory_free(title);
    if (m->axes == 1)
        plot_line(g, m, o);
    else
        plot_values(g, m, o, columns);
    struct range range = results_range(o->mean, o->n), spread = results_range(o->std, o->n);
    struct range count = results_range(o->count, o->n);
    text_add(&g->caption, "%s: mean over up to %.0f seed%s, ", o->v->long_name, count.high, count.high > 1 ? "s" : "");
    figures_add_range(&g->caption, range);
    if (spread.n > 0)
        text_add(&g->caption, "; %s at most %.2g", m->axes == 1 ? "bars: standard deviation," : "standard deviation",
                 spread.high);
    text_add(&g->caption, ".");
    if (range.n < o->n)
        text_add(&g->caption, " %s: no run has a value (%zu of %zu points).", m->axes == 1 ? "Left out" : "Grey",
                 o->n - range.n, o->n);
    map_caption_panels(&g->caption, m);
}

static double *statistic(const struct map *m, const char *variable, const char *what)
{
    char *name = memory_format("%s_%s", variable, what);
    double *x = results_get(m->r->map, name);
    memory_free(name);
    return x;
}

void figures_map(struct figures *f, const struct results *r)
{
    if (!r->map)
        return;
    struct map m = map_open(r);
    outcome_map(f, &m);
    for (int i = 0; i < variables_scalars(); i++) {
        struct order o = {.v = variables_scalar(i), .n = m.nx * m.ny * m.panels};
        if (!o.v->map)
            continue;
        o.mean = statistic(&m, o.v->name, "mean");
        o.std = statistic(&m, o.v->name, "std");
        o.count = statistic(&m, o.v->name, "count");
        if (o.mean && o.std && o.count && results_range(o.mean, o.n).n > 0)
            order_map(f, &m, &o);
        memory_free(o.mean);
        memory_free(o.std);
        memory_free(o.count);
    }
    figures_winner(f, r, &m);
    map_close(&m);
}
