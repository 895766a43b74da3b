#include "probe/ace.h"

#include "base/memory.h"

#include <math.h>

/* Relative distance of an eigenvalue from a true one; absolute where the true one is zero. */
static double distance(const double x[2], const double truth[2])
{
    double scale = hypot(truth[0], truth[1]);
    return hypot(x[0] - truth[0], x[1] - truth[1]) / (scale > 0 ? scale : 1);
}

/* One step of the Hungarian method (Kuhn 1955; shortest augmenting paths by Jonker & Volgenant 1987): gives row `row` a
 * column, rows <= cols. Rows and columns count from 1; owner[0] and the other zeros stand for "none".
 * in: cost [rows][cols]   in/out: price_row, price_col, owner[cols + 1]   work: least, from, done [cols + 1] */
struct assignment {
    int rows, cols;
    const double *cost;
    double *price_row, *price_col, *least;
    int *owner, *from, *done;
};

static int nearest_free(struct assignment *a, int at)
{
    int row = a->owner[at], next = 0;
    double step = INFINITY;
    a->done[at] = 1;
    for (int j = 1; j <= a->cols; j++) {
        if (a->done[j])
            continue;
        double reduced = a->cost[(size_t)(row - 1) * (size_t)a->cols + (size_t)(j - 1)] - a->price_row[row] -
                         a->price_col[j];
        if (reduced < a->least[j]) {
            a->least[j] = reduced;
            a->from[j] = at;
        }
        if (a->least[j] < step) {
            step = a->least[j];
            next = j;
        }
    }
    for (int j = 0; j <= a->cols; j++) {
        if (a->done[j]) {
            a->price_row[a->owner[j]] += step;
            a->price_col[j] -= step;
        } else {
            a->least[j] -= step;
        }
    }
    return next;
}

static void assign(struct assignment *a, int row)
{
    for (int j = 0; j <= a->cols; j++) {
        a->least[j] = INFINITY;
        a->done[j] = 0;
    }
    a->owner[0] = row;
    int at = 0;
    do
        at = nearest_free(a, at);
    while (a->owner[at]);
    while (at) {
        a->owner[at] = a->owner[a->from[at]];
        at = a->from[at];
    }
}

void ace_match(int n, const double (*eigenvalue)[2], int truths, const double (*truth)[2], double *error)
{
    for (int i = 0; i < n; i++)
        error[i] = (double)NAN;
    if (n < 1 || truths < 1)
        return;
    int turned = n > truths, rows = turned ? truths : n, cols = turned ? n : truths;
    double *cost = memory_new((size_t)rows * (size_t)cols + (size_t)(rows + 1) + 2 * (size_t)(cols + 1), sizeof *cost);
    int *index = memory_new(3 * (size_t)(cols + 1), sizeof *index);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            cost[i * cols + j] = turned ? distance(eigenvalue[j], truth[i]) : distance(eigenvalue[i], truth[j]);
    struct assignment a = {rows, cols, cost, .price_row = cost + (size_t)rows * (size_t)cols};
    a.price_col = a.price_row + rows + 1;
    a.least = a.price_col + cols + 1;
    a.owner = index;
    a.from = index + cols + 1;
    a.done = a.from + cols + 1;
    for (int i = 1; i <= rows; i++)
        assign(&a, i);
    for (int j = 1; j <= cols; j++)
        if (a.owner[j])
            error[turned ? j - 1 : a.owner[j] - 1] = cost[(a.owner[j] - 1) * cols + j - 1];
    memory_free(cost);
    memory_free(index);
}
