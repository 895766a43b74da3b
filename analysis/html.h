/* html.h: pieces of a self-contained page. What is written is also well-formed XML. */
#ifndef INVAR_ANALYSIS_HTML_H
#define INVAR_ANALYSIS_HTML_H

#include "base/text.h"

/* Head with title and style sheet, and the opened body. */
void html_begin(struct text *t, const char *title);
void html_end(struct text *t);
/* Text with everything escaped; characters that XML does not allow become "?". */
void html_add(struct text *t, const char *s);
/* A row of a two-column table: a heading and a formatted text, escaped. */
void html_row(struct text *t, const char *heading, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* An SVG file's picture as part of the page; ids get `name` before them, so that pictures do not share any. */
void html_add_svg(struct text *t, const char *svg, const char *name);
/* A PNG file's bytes as an image inside the page. */
void html_add_png(struct text *t, const void *png, size_t n);

#endif
