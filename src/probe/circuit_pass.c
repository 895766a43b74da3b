#include "probe/circuit_pass.h"

#include "base/memory.h"
#include "probe/circuit_blocks.h"

#include <math.h>
#include <string.h>

struct circuit_pass {
    const struct circuit_model *c;
    struct circuit_state all, trial;
    double *mixed;                   /* [keys][n][n] sum over rows of weight (P_query R_S)' */
    double *sum;                     /* [n][max(n, paths)] */
    double *square;                  /* [n][n] */
    /* of the last position */
    double *row;                     /* [n][paths] through each path */
    double *row_related;             /* [selections][n][paths] */
    double *lined;                   /* [rows][n] the same by row of a head */
    double *lined_turned;            /* [n][rows] */
    double *drawn;                   /* [columns][n] what keys are compared with */
    double *behind;                  /* [n] */
    double *read;                    /* [n] */
    double *last_score, *last;       /* [heads][n] scores, attention */
    double *through;                 /* [heads][n][paths] what the last block attends to, through each path */
    double *logit, *other;           /* [classes] */
    /* with all coordinates, for those of the last block */
    double *kept_score, *kept, *kept_row, *kept_through, *kept_logit;
    double *part;                    /* [heads][columns][rows][n] of the scores, without weights */
    double *view;                    /* [heads][n][classes] logits by the position attended to */
    bool viewed;                     /* `part` and `view` are those of the sequence at hand */
    double loss;
};

/* ---- room ---- */

/* tokens, associates, target, others */
static size_t classes_max(const struct circuit_model *c) { return 2 * (size_t)c->n + 3; }

struct circuit_pass *circuit_pass_new(const struct circuit_model *c)
{
    struct circuit_pass *p = memory_new(1, sizeof *p);
    const size_t n = (size_t)c->n, paths = (size_t)c->paths, heads = (size_t)c->heads, rows = paths * (size_t)c->selections;
    const size_t width = n > paths ? n : paths, classes = classes_max(c);
    p->c = c;
    circuit_state_open(c, &p->all);
    circuit_state_open(c, &p->trial);
    const struct { double **array; size_t count; } room[] = {
        {&p->mixed, paths * n * n}, {&p->sum, n * width}, {&p->square, n * n}, {&p->row, n * paths},
        {&p->row_related, (size_t)c->selections * n * paths}, {&p->lined, rows * n}, {&p->lined_turned, rows * n},
        {&p->drawn, paths * n}, {&p->behind, n}, {&p->read, n}, {&p->last_score, heads * n}, {&p->last, heads * n},
        {&p->through, heads * n * paths}, {&p->logit, classes}, {&p->other, classes}, {&p->kept_score, heads * n},
        {&p->kept, heads * n}, {&p->kept_row, n * paths}, {&p->kept_through, heads * n * paths}, {&p->kept_logit, classes},
        {&p->part, heads * paths * rows * n}, {&p->view, heads * n * classes},
    };
    for (size_t i = 0; i < sizeof room / sizeof *room; i++)
        *room[i].array = memory_new(room[i].count, sizeof(double));
    return p;
}

void circuit_pass_free(struct circuit_pass *p)
{
    if (!p)
        return;
    circuit_state_close(p->c, &p->all);
    circuit_state_close(p->c, &p->trial);
    double *const room[] = {p->mixed, p->sum, p->square, p->row, p->row_related, p->lined, p->lined_turned, p->drawn,
                            p->behind, p->read, p->last_score, p->last, p->through, p->logit, p->other, p->kept_score, p->kept,
                            p->kept_row, p->kept_through, p->kept_logit, p->part, p->view};
    for (size_t i = 0; i < sizeof room / sizeof *room; i++)
        memory_free(room[i]);
    memory_free(p);
}

/* ---- small products ---- */

/* y += a x */
static inline void add(int n, double a, const double *x, double *y)
{
    for (int i = 0; i < n; i++)
        y[i] += a * x[i];
}

/* out += x' m, m [n][n] */
CIRCUIT_WIDE static void add_row_product(int n, const double *x, const double *m, double *out)
{
    for (int v = 0; v < n; v++)
        if (x[v] != 0.0)
            add(n, x[v], m + v * n, out);
}

/* ---- the last position ---- */

static int last_hop(const struct circuit_model *c, int path)
{
    const int place = circuit_keys(c, c->layers - 1);
    return path / place * place;
}

/* A row x [n] of positions through all paths below the last block.   out: [n][paths]; 0 where the path is not needed */
static void go_through(struct circuit_pass *p, const struct circuit_state *s, const double *x, double *out)
{
    const struct circuit_model *c = p->c;
    const int n = c->n;
    int behind = -1;
    for (int path = 0; path < c->paths; path++) {
        circuit_clear_numbers(p->read, (size_t)n);
        if (path == 0)
            memcpy(p->read, x, (size_t)n * sizeof *x);
        else if (c->needed[path] && s->formed[path])
            add_row_product(n, x, s->path[path], p->read);
        else if (c->needed[path]) {
            const int hop = last_hop(c, path);
            if (behind != hop) {
                circuit_clear_numbers(p->behind, (size_t)n);
                add_row_product(n, x, s->path[hop], p->behind);
                behind = hop;
            }
            add_row_product(n, p->behind, s->path[path - hop], p->read);
        }
        for (int i = 0; i < n; i++)
            out[i * c->paths + path] = p->read[i];
    }
}

static void line_up(struct circuit_pass *p, const struct circuit_head *head)
{
    const struct circuit_model *c = p->c;
    for (int r = 0; r < head->rows; r++)
        for (int j = 0; j < c->n; j++)
            p->lined[r * c->n + j] = p->lined_turned[j * head->rows + r] =
                p->row_related[(head->selection[r] * c->n + j) * c->paths + head->query[r]];
}

/* Scores of a head of the last block at the last position. */
static void find_last_scores(struct circuit_pass *p, const struct circuit_state *s, int h, double *score)
{
    const struct circuit_model *c = p->c;
    const struct circuit_head *head = circuit_head_of(c, c->layers, h);
    const size_t n = (size_t)c->n;
    int hop = 0;
    circuit_clear_numbers(score, n);
    if (!head->rows)
        return;
    circuit_clear_numbers(p->drawn, (size_t)head->columns * n);
    c->kern->gemm_tn((size_t)head->columns, n, (size_t)head->rows, head->weight, (size_t)head->columns, p->lined, n,
        p->drawn, n);
    circuit_clear_numbers(p->behind, n);
    for (int k = 0; k <= head->columns; k++) {            /* by ascending path: those through one last hop stand together */
        const int path = k < head->columns ? head->key[k] : 0;
        const int next = k < head->columns && !s->formed[path] ? last_hop(c, path) : 0;
        if (hop && next != hop) {
            add_row_product(c->n, p->behind, s->turned[hop], score);
            circuit_clear_numbers(p->behind, n);
        }
        hop = next;
        if (k < head->columns)
            add_row_product(c->n, p->drawn + (size_t)k * n, s->turned[path - hop], hop ? p->behind : score);
    }
}

/* Logits of what the last position has read: row through paths of the blocks below, through[h] of the last one. */
CIRCUIT_WIDE static void find_logits(struct circuit_pass *p, const struct circuit_sequence *q, const double *row,
                                     const double *through, double *logit)
{
    const struct circuit_model *c = p->c;
    const size_t each = (size_t)c->n * (size_t)c->paths;
    circuit_clear_numbers(logit, (size_t)q->columns);
    for (int s = 0; s < c->m->of_tokens; s++) {
        const double *u = c->readout + s * c->paths * c->base;
        for (int i = 0; i < c->n; i++) {
            double sum = 0.0;
            for (int path = 0; path < c->paths; path++)
                sum += u[path] * row[i * c->paths + path];
            for (int h = 1; h <= c->heads; h++)
                for (int path = 0; path < c->paths && c->needed[h * c->paths]; path++)
                    sum += u[h * c->paths + path] * through[(size_t)(h - 1) * each + (size_t)(i * c->paths + path)];
            if (sum != 0.0)
                add(q->columns, sum, q->token + (s * c->n + i) * q->columns, logit);
        }
    }
}

static double cross_entropy(const struct circuit_sequence *q, const double *logit)
{
    double top = -INFINITY, sum = 0.0;
    for (int k = 0; k < q->columns; k++)
        top = logit[k] > top ? logit[k] : top;
    for (int k = 0; k < q->columns; k++)
        sum += q->count[k] * exp(logit[k] - top);
    return log(sum) + top - logit[q->target];
}

static double loss_of(const struct circuit_model *c, const struct circuit_sequence *q, const double *logit)
{
    double sum = 0.0, classes = 0.0;
    if (c->loss == LOSS_CROSS_ENTROPY)
        return cross_entropy(q, logit);
    for (int k = 0; k < q->columns; k++) {
        const double error = logit[k] - (k == q->target);
        sum += q->count[k] * error * error;
        classes += q->count[k];
    }
    return c->loss == LOSS_MSE ? sum / classes : 0.5 * sum;
}

static bool is_correct(const struct circuit_sequence *q, const double *logit)
{
    for (int k = 0; k < q->columns; k++)
        if (logit[k] > logit[q->target] || (logit[k] == logit[q->target] && q->lowest[k] < q->lowest[q->target]))
            return false;
    return true;
}

static void relate_row(struct circuit_pass *p, const struct circuit_sequence *q, const double *row)
{
    const struct circuit_model *c = p->c;
    for (int k = 0; k < c->selections; k++)
        circuit_relate(&q->relation[k], c->n, c->paths, row, p->sum, p->row_related + (size_t)(k * c->n * c->paths));
}

/* The last block and the readout. */
static double pass_last(struct circuit_pass *p, const struct circuit_state *s, const struct circuit_sequence *q)
{
    const struct circuit_model *c = p->c;
    const size_t n = (size_t)c->n, each = n * (size_t)c->paths;
    double *end = p->square;
    circuit_clear_numbers(end, n);
    end[n - 1] = 1.0;
    go_through(p, s, end, p->row);
    relate_row(p, q, p->row);
    for (int h = 1; h <= c->heads; h++) {
        double *score = p->last_score + (size_t)(h - 1) * n, *last = p->last + (size_t)(h - 1) * n;
        if (!c->needed[h * c->paths])
            continue;
        line_up(p, circuit_head_of(c, c->layers, h));
        find_last_scores(p, s, h, score);
        circuit_softmax(c->n - 1 + c->self, c->n, score, last);
        go_through(p, s, last, p->through + (size_t)(h - 1) * each);
    }
    find_logits(p, q, p->row, p->through, p->logit);
    return loss_of(c, q, p->logit);
}

/* ---- with all coordinates ---- */

/* Each coordinate's part of the scores of the last block, and logits by what the last block attends to. */
static void keep_last(struct circuit_pass *p, const struct circuit_sequence *q, int h)
{
    const struct circuit_model *c = p->c;
    const struct circuit_head *head = circuit_head_of(c, c->layers, h);
    const size_t n = (size_t)c->n, rows = (size_t)head->rows, width = (size_t)q->columns;
    double *part = p->part + (size_t)(h - 1) * (size_t)c->paths * (size_t)(c->paths * c->selections) * n;
    double *view = p->view + (size_t)(h - 1) * n * classes_max(c);
    line_up(p, head);
    circuit_clear_numbers(part, (size_t)head->columns * rows * n);
    for (int k = 0; k < head->columns && rows; k++)
        c->kern->gemm_tn(rows, n, n, p->lined_turned, rows, p->all.turned[head->key[k]], n, part + (size_t)k * rows * n, n);
    circuit_clear_numbers(view, n * width);
    for (int s = 0; s < c->m->of_tokens; s++) {
        circuit_clear_numbers(p->square, n * n);
        for (int path = 0; path < c->paths; path++) {
            const double u = c->readout[(s * c->base + h) * c->paths + path];
            if (u != 0.0)
                add(c->n * c->n, u, p->all.turned[path], p->square);
        }
        c->kern->gemm_tn(n, width, n, p->square, n, q->token + (size_t)s * n * width, width, view, width);
    }
}

static void keep_last_block(struct circuit_pass *p, const struct circuit_sequence *q)
{
    const struct circuit_model *c = p->c;
    relate_row(p, q, p->kept_row);
    for (int h = 1; h <= c->heads; h++)
        if (c->needed[h * c->paths])
            keep_last(p, q, h);
    p->viewed = true;
}

double circuit_pass_all(struct circuit_pass *p, const struct circuit_sequence *q, bool *correct)
{
    const struct circuit_model *c = p->c;
    const size_t n = (size_t)c->n, heads = (size_t)c->heads, each = n * (size_t)c->paths;
    circuit_state_begin(c, &p->all);
    for (int l = 1; l < c->layers; l++)
        circuit_block(c, &p->all, q, l, NULL, false, p->mixed, p->sum);
    p->loss = pass_last(p, &p->all, q);
    memcpy(p->kept_score, p->last_score, heads * n * sizeof *p->kept_score);
    memcpy(p->kept, p->last, heads * n * sizeof *p->kept);
    memcpy(p->kept_row, p->row, each * sizeof *p->kept_row);
    memcpy(p->kept_through, p->through, heads * each * sizeof *p->kept_through);
    memcpy(p->kept_logit, p->logit, (size_t)q->columns * sizeof *p->kept_logit);
    p->viewed = false;
    if (correct)
        *correct = is_correct(q, p->logit);
    return p->loss;
}

/* ---- without one ---- */

/* Of the unembedding: its part leaves the logits. */
static double without_readout(struct circuit_pass *p, const struct circuit_sequence *q, const struct manifold_coordinate *x,
                              double w)
{
    const struct circuit_model *c = p->c;
    const int h = x->key / c->paths, path = x->key % c->paths;
    const double *row = h ? p->kept_through + (size_t)(h - 1) * (size_t)c->n * (size_t)c->paths : p->kept_row;
    memcpy(p->other, p->kept_logit, (size_t)q->columns * sizeof *p->other);
    for (int i = 0; i < c->n; i++)
        add(q->columns, -w * row[i * c->paths + path], q->token + (x->selection * c->n + i) * q->columns, p->other);
    return loss_of(c, q, p->other);
}

/* Of the last block: its part leaves the scores at the last position. */
CIRCUIT_WIDE static double without_last(struct circuit_pass *p, const struct circuit_sequence *q,
                                        const struct manifold_coordinate *x, double w)
{
    const struct circuit_model *c = p->c;
    const struct circuit_head *head = circuit_head_of(c, c->layers, x->head);
    const int n = c->n, row = head->row_of[x->query * c->selections + x->selection], column = head->column_of[x->key];
    const size_t at = (size_t)(x->head - 1);
    const double *part = p->part + at * (size_t)c->paths * (size_t)(c->paths * c->selections) * (size_t)n +
                         ((size_t)column * (size_t)head->rows + (size_t)row) * (size_t)n;
    const double *view = p->view + at * (size_t)n * classes_max(c), *score = p->kept_score + at * (size_t)n;
    const double *kept = p->kept + at * (size_t)n;
    for (int u = 0; u < n; u++)
        p->behind[u] = score[u] - w * part[u];
    circuit_softmax(n - 1 + c->self, n, p->behind, p->read);
    memcpy(p->other, p->kept_logit, (size_t)q->columns * sizeof *p->other);
    for (int u = 0; u < n - 1 + c->self; u++)
        add(q->columns, p->read[u] - kept[u], view + u * q->columns, p->other);
    return loss_of(c, q, p->other);
}

/* Whether head h of the block lies on the path, or any head of a block above it. */
static bool is_changed(const struct circuit_model *c, int path, int layer, int h)
{
    const int digits = path / circuit_keys(c, layer);
    return digits >= c->base || digits == h;
}

/* Of a block below: all from there on anew. */
static double without_below(struct circuit_pass *p, const struct circuit_sequence *q, const struct manifold_coordinate *x,
                            double w)
{
    const struct circuit_model *c = p->c;
    const struct circuit_head *head = circuit_head_of(c, x->layer, x->head);
    const int at = (x->layer - 1) * c->heads + x->head - 1;
    const size_t n = (size_t)c->n;
    struct circuit_state *s = &p->trial;
    for (int path = 0; path < c->paths; path++) {
        const bool changed = is_changed(c, path, x->layer, x->head);
        s->path[path] = changed ? NULL : p->all.path[path];
        s->turned[path] = changed ? NULL : p->all.turned[path];
        s->formed[path] = !changed && p->all.formed[path];
    }
    circuit_clear_numbers(p->square, n * n);
    c->kern->gemm_tn(n, n, n, p->all.related[at] + (size_t)head->row_of[x->query * c->selections + x->selection] * n * n, n,
                     p->all.turned[x->key], n, p->square, n);
    for (size_t i = 0; i < n * n; i++)
        p->square[i] = p->all.score[(size_t)at * n * n + i] - w * p->square[i];
    circuit_attend(c, s, x->layer, x->head, p->square);
    if (x->layer < c->layers - 1)
        circuit_form_paths(c, s, x->layer, x->head);
    for (int l = x->layer + 1; l < c->layers; l++)
        circuit_block(c, s, q, l, &p->all, true, p->mixed, p->sum);
    return pass_last(p, s, q);
}

double circuit_pass_without(struct circuit_pass *p, const struct circuit_sequence *q, int i)
{
    const struct circuit_model *c = p->c;
    const struct manifold_coordinate *x = &c->m->coordinate[i];
    const double w = c->value[i];
    if (w == 0.0)
        return p->loss;
    if (x->layer > c->layers)
        return without_readout(p, q, x, w);
    if (!c->needed[x->head * circuit_keys(c, x->layer)])
        return p->loss;
    if (x->layer < c->layers)
        return without_below(p, q, x, w);
    if (!p->viewed)
        keep_last_block(p, q);
    return without_last(p, q, x, w);
}
