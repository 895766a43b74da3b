/* panel.h: the bases of all runs side by side, [U_1 ... U_K], as one distributed matrix with all its inner products.
 *
 * Rows (probe inputs) are spread over the ranks, and every rank has whole rows: an n x P matrix with n >> P wants a
 * grid of one column, where a product needs one sum over the ranks and nothing else.
 */
#ifndef INVAR_ANALYSIS_PANEL_H
#define INVAR_ANALYSIS_PANEL_H

#include "analysis/cca.h"
#include "analysis/dmatrix.h"
#include "analysis/ensemble.h"

struct panel {
    int64_t rows;            /* n */
    int columns;             /* P: sum of the effective ranks */
    int runs;
    int *offset;             /* [runs + 1] first column of each run */
    struct cca_basis *basis; /* [runs] without u; on all ranks */
    struct dmatrix u;        /* [n][P]; empty when P is 0 */
    double *gram;            /* [P][P] u'u, on all ranks */
};

/* Bases of the given rows of the coordinates (rows == NULL: all of them), centred on these rows.
 * collective over e->comm
 * in: row[n], equal on all ranks; g: a grid of one column on e->comm, outlives the panel   out: *p, panel_clear
 * repeats: same bits for any number of ranks   fails: STATUS_NUMERIC; on all ranks alike */
enum status panel_new(const struct ensemble *e, const struct grid *g, int64_t n, const uint32_t *row, double tolerance,
                      struct panel *p);
/* Other rows in the coordinates of the bases, V = Z T S^-1, centred on these rows.   collective
 * out: gram [P][P] = V'V, on all ranks */
enum status panel_project(const struct ensemble *e, const struct panel *p, int64_t n, const uint32_t *row, double *gram);
void panel_clear(struct panel *p);

/* Runs a and b, for cca.h; `gram` is p->gram or another [P][P] matrix. */
struct cca_pair panel_pair(const struct panel *p, const double *gram, int a, int b);

#endif
