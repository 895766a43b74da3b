/* gnuplot.h: one picture from one script, as SVG and PNG.
 *
 * A figure is a script with its data inside. It is kept beside the pictures as NAME.gp, so that `gnuplot NAME.gp` in
 * that folder draws them again, changed as one likes.
 */
#ifndef INVAR_ANALYSIS_GNUPLOT_H
#define INVAR_ANALYSIS_GNUPLOT_H

#include "base/status.h"

/* Whether there is a program gnuplot on the PATH. */
int gnuplot_found(void);

/* Writes DIR/NAME.gp and makes NAME.svg and NAME.png with it.
 *   data: datablocks, read once;  plot: settings and what draws, read once for each of the two pictures
 *   width, height: of the SVG, in pixels; the PNG has half as many again
 * fails: STATUS_IO; STATUS_ENVIRONMENT with what gnuplot said */
enum status gnuplot_draw(const char *dir, const char *name, const char *data, const char *plot, int width, int height);

/* Colour of line i, "#0072B2", told apart with any colour vision (Okabe & Ito 2008); maps have the viridis palette. */
const char *gnuplot_colour(int i);

#endif
