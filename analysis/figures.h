/* figures.h: which pictures the results allow, each as a gnuplot script with its data and a caption.
 *
 * Nothing is drawn here: gnuplot.h draws. All numbers in captions are read from the files.
 */
#ifndef INVAR_ANALYSIS_FIGURES_H
#define INVAR_ANALYSIS_FIGURES_H

#include "analysis/results.h"
#include "base/text.h"

struct figure {
    char name[64];               /* file name without extension */
    char *title;
    int width, height;           /* pixels */
    struct text data, plot;      /* the two parts of the script, see gnuplot_draw */
    struct text caption;
    char *fault;                 /* why it was not drawn; NULL */
};

struct figures {
    int count;
    struct figure *figure;
};

/* All figures of the results, in the order of the report. figures_free frees them. */
struct figures figures_make(const struct results *r);
void figures_free(struct figures *f);

/* ---- for the files that make them ---- */

/* figures_core.c: core weights, ablations, eigenvalues; figures_pairs.c: pairs and consensus; figures_map.c: axes */
void figures_core(struct figures *f, const struct results *r);
void figures_pairs(struct figures *f, const struct results *r);
void figures_map(struct figures *f, const struct results *r);

/* A new, empty figure at the end of the list; valid until the next one is added. */
struct figure *figures_add(struct figures *f, const char *name, const char *title, int width, int height);

/* Up to this many runs get a line, bar or colour of their own. */
#define FIGURES_RUNS_NAMED 8
#define FIGURES_RUNS_DRAWN 32

/* "seed 3" where the job has no axes, otherwise "run 17"; the text is overwritten by the next call. */
const char *figures_run_name(const struct results *r, size_t run);
/* "0.749 to 0.751", or "0.75" where both are equal to four digits. */
void figures_add_range(struct text *t, struct range range);
/* A horizontal line with a word at its right end (inside the plot above the line, or beside it), where value is finite. */
void figures_add_level(struct text *plot, double value, const char *word, int beside);
/* "NaN" or the number, with a blank before it, for datablocks. */
void figures_add_value(struct text *t, double x);

#endif
