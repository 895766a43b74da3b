#include "probe/circuit_blocks.h"

#include "base/memory.h"

#include <math.h>

void circuit_state_open(const struct circuit_model *c, struct circuit_state *s)
{
    const size_t paths = (size_t)c->paths, below = (size_t)((c->layers - 1) * c->heads);
    s->path = memory_new(paths, sizeof *s->path);
    s->turned = memory_new(paths, sizeof *s->turned);
    s->own_path = memory_new(paths * circuit_squares(c), sizeof *s->own_path);
    s->own_turned = memory_new(paths * circuit_squares(c), sizeof *s->own_turned);
    s->formed = memory_new(paths, sizeof *s->formed);
    s->related = memory_new(below, sizeof *s->related);
    for (int l = 1; l < c->layers; l++)
        for (int h = 0; h < c->heads; h++)
            s->related[(l - 1) * c->heads + h] =
                memory_new((size_t)(circuit_keys(c, l) * c->selections) * circuit_squares(c), sizeof(double));
    s->score = memory_new(below * circuit_squares(c), sizeof *s->score);
}

void circuit_state_close(const struct circuit_model *c, struct circuit_state *s)
{
    for (int i = 0; i < (c->layers - 1) * c->heads; i++)
        memory_free(s->related[i]);
    memory_free(s->path);
    memory_free(s->turned);
    memory_free(s->own_path);
    memory_free(s->own_turned);
    memory_free(s->formed);
    memory_free(s->related);
    memory_free(s->score);
}

CIRCUIT_WIDE static void turn(int n, const double *x, double *y)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            y[j * n + i] = x[i * n + j];
}

void circuit_softmax(int seen, int n, const double *score, double *out)
{
    double top = -INFINITY, sum = 0.0;
    for (int u = 0; u < seen; u++)
        top = score[u] > top ? score[u] : top;
    for (int u = 0; u < seen; u++)
        sum += out[u] = exp(score[u] - top);
    for (int u = 0; u < seen; u++)
        out[u] /= sum;
    for (int u = seen; u < n; u++)
        out[u] = 0.0;
}

static double *own(const struct circuit_model *c, double *paths, int path)
{
    return paths + (size_t)path * circuit_squares(c);
}

static void put_path(const struct circuit_model *c, struct circuit_state *s, int path)
{
    s->path[path] = own(c, s->own_path, path);
    s->turned[path] = own(c, s->own_turned, path);
    s->formed[path] = true;
}

void circuit_attend(const struct circuit_model *c, struct circuit_state *s, int layer, int h, const double *score)
{
    const int n = c->n, path = h * circuit_keys(c, layer);
    double *to = own(c, s->own_path, path);
    for (int t = 0; t < n; t++)
        circuit_softmax(t + c->self, n, score + t * n, to + t * n);
    turn(n, to, own(c, s->own_turned, path));
    put_path(c, s, path);
}

void circuit_form_paths(const struct circuit_model *c, struct circuit_state *s, int layer, int h)
{
    const size_t n = (size_t)c->n;
    const int keys = circuit_keys(c, layer), hop = h * keys;
    for (int p = 1; p < keys; p++) {
        if (!c->needed[hop + p])
            continue;
        double *to = own(c, s->own_turned, hop + p);
        circuit_clear_numbers(to, n * n);
        c->kern->gemm_tn(n, n, n, s->path[p], n, s->turned[hop], n, to, n);
        turn(c->n, to, own(c, s->own_path, hop + p));
        put_path(c, s, hop + p);
    }
}

struct room {
    double *mixed, *sum;
};

/* Scores of a head: sum over keys of (sum over rows of weight P_query R_S) P_key'. `kept`: a state some of whose paths are
 * those of this one, or NULL. */
static void find_scores(const struct circuit_model *c, struct circuit_state *s, const struct circuit_sequence *q, int layer,
                        int h,
                        const struct circuit_state *kept, struct room room)
{
    const struct circuit_head *head = circuit_head_of(c, layer, h);
    const int at = (layer - 1) * c->heads + h - 1;
    const size_t n = (size_t)c->n;
    double *score = s->score + (size_t)at * n * n, *related = s->related[at];
    circuit_clear_numbers(score, n * n);
    if (!head->rows)
        return;
    for (int r = 0; r < head->rows; r++) {
        const int query = head->query[r];
        double *to = related + (size_t)r * n * n;
        if (kept && s->turned[query] == kept->turned[query])
            memcpy(to, kept->related[at] + (size_t)r * n * n, n * n * sizeof *to);
        else
            circuit_relate(&q->relation[head->selection[r]], c->n, c->n, s->turned[query], room.sum, to);
    }
    circuit_clear_numbers(room.mixed, (size_t)head->columns * n * n);
    c->kern->gemm_tn((size_t)head->columns, n * n, (size_t)head->rows, head->weight, (size_t)head->columns, related, n * n,
                     room.mixed,
                     n * n);
    for (int k = 0; k < head->columns; k++)
        c->kern->gemm_tn(n, n, n, room.mixed + (size_t)k * n * n, n, s->turned[head->key[k]], n, score, n);
}

void circuit_block(const struct circuit_model *c, struct circuit_state *s, const struct circuit_sequence *q, int layer,
                   const struct circuit_state *kept, bool leave, double *mixed, double *sum)
{
    const size_t n = (size_t)c->n;
    for (int h = 1; h <= c->heads; h++) {
        if (!c->needed[h * circuit_keys(c, layer)])
            continue;
        find_scores(c, s, q, layer, h, kept, (struct room){mixed, sum});
        circuit_attend(c, s, layer, h, s->score + (size_t)((layer - 1) * c->heads + h - 1) * n * n);
        if (!leave || layer < c->layers - 1)
            circuit_form_paths(c, s, layer, h);
    }
}

void circuit_state_begin(const struct circuit_model *c, struct circuit_state *s)
{
    memset(s->formed, 0, (size_t)c->paths * sizeof *s->formed);
    double *one = own(c, s->own_path, 0), *turned = own(c, s->own_turned, 0);
    for (int i = 0; i < c->n; i++)
        one[i * c->n + i] = turned[i * c->n + i] = 1.0;
    put_path(c, s, 0);
}
