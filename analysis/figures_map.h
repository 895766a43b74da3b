/* figures_map.h: inside the analysis room: what the pictures on the job's axes share. */
#ifndef INVAR_ANALYSIS_FIGURES_MAP_H
#define INVAR_ANALYSIS_FIGURES_MAP_H

#include "analysis/figures.h"

/* One axis of a map as drawn: where its cells lie. */
struct scale {
    const struct axis *axis;
    size_t n;
    double *value;               /* [n] ascending */
    double *at, *edge;           /* [n] middles and [n + 1] borders, in the coordinates of the plot */
    int is_log;
};

/* A map of the job: x is the last axis, y the one before it (none: one row); a panel for each point of the others. */
struct map {
    const struct results *r;
    struct scale scale[JOB_AXES_MAX];
    int axes;
    size_t nx, ny, panels, shown;
};

struct map map_open(const struct results *r);
void map_close(struct map *m);
const struct scale *map_x(const struct map *m);
const struct scale *map_y(const struct map *m);      /* NULL: one row */
/* Range, ticks and label of an axis of the plot; `letter` is x or y. */
void map_set_axis(struct text *p, char letter, const struct scale *s);
/* Size of a figure with all its panels, and how they stand. */
void map_size(const struct map *m, int *width, int *height, int *columns);

/* Rows "x y xlow xhigh ylow yhigh value missing" of panel k as datablock $name<k>. Where a map has many points,
 * neighbours of equal value become one cell, and of values that are no flags every n-th is shown. */
enum map_values { MAP_FLAGS, MAP_NUMBERS };
void map_add_cells(struct text *t, const struct map *m, const char *name, size_t k, const double *value, enum map_values kind);
void map_begin_panels(struct text *p, const struct map *m, int columns);
/* Begins the plot of panel k with the missing cells in grey. */
void map_begin_panel(struct text *p, const struct map *m, size_t k);
void map_caption_panels(struct text *caption, const struct map *m);
/* A picture of flags: word i in colour[i]. The caller writes the caption. */
struct figure *map_flags(struct figures *f, const struct map *m, const char *name, const char *title,
                         const double *value, int words, const char *const *word, const char *const *colour);

/* figures_winner.c: on the axes (m): circuits that won, levels of a refined map, times of emergence; m NULL: gradient
 * ratios and coordinates over training, of any job. */
void figures_winner(struct figures *f, const struct results *r, const struct map *m);

#endif
