/* manifold_plan.h: inside the model room: the manifold kind, and what of it a set of coordinates needs.
 *
 * On the invariant manifold (job/manifold.h; Musat et al., arXiv 2607.11875) a model is its coordinates w. With R_S the
 * n x n matrix of selection S between the positions of a sequence, A_h the attention weights of a head, and P_p the
 * product of those along path p, P_0 = 1, scores of a head = sum over its coordinates of w P_query R_S P_key' logits =
 * sum over the unembedding's coordinates of w S (P_path tokens), where the loss looks which is the attention_only model
 * (model/attention_only.h) with these weights, exactly, at a cost that knows neither the vocabulary nor the positions.
 *
 * Not formed is what no coordinate needs. Blocks but the last are computed at all positions:
 *     slots    Z_(S, k) = R_S P_k' of all pairs (S, key path) that occur, by path, then selection
 *     rows     of a block, (head, query path) that occur: T_row = sum over slots of w Z, one product for the block
 *     scores   sum over the rows of a head of P_query T_row
 * The last block and what is read out need vectors alone, where the loss looks: rows of P_p, each from that of the path
 * without its first hop, and for the scores what is said of the keys, sum over paths of P_k v_k, hop by hop.
 *
 * Coordinates stand in tables, [rows][slots] of a block, [(query, S)][key] of a last head, [path][S] of the
 * unembedding; where a table has a place without a coordinate, it holds 0. */
#ifndef INVAR_MODEL_MANIFOLD_PLAN_H
#define INVAR_MODEL_MANIFOLD_PLAN_H

#include "job/manifold.h"
#include "job/shape.h"
#include "model/manifold_metric.h"
#include "model/passes.h"
#include "model/planner.h"

#define MANIFOLD_UNUSED SIZE_MAX

/* A table of coordinates: rows (a, b) and columns. */
struct manifold_table {
    int rows, cols;
    size_t at;               /* in the flat array of all tables */
    int *a, *b;              /* [rows] block: head, query path. Last head: query path, selection. Unembedding: path, - */
    int *col;                /* [cols] last head: key path */
};

struct manifold_plan {
    struct manifold *m;
    struct manifold_metric *metric;      /* NULL: the coordinates' own */
    int layers, heads, base;             /* base = 1 + heads */
    struct task_shape shape;
    int period, centred, blind;
    enum loss loss;
    size_t length;                       /* of the flat arrays of weights */
    int paths[MANIFOLD_LAYERS_MAX + 1];  /* base^l: paths through the first l blocks */

    int *shorter, *hop;                  /* [paths[layers]]: the path without its first hop, and that hop as a path */
    char *row;                           /* [paths[layers]]: its row where the loss looks is needed */
    char *formed;                        /* [paths[layers - 1]]: P is needed at all positions */
    char *last;                          /* [heads]: of the last block, used */
    char **ask;                          /* [heads][paths[layers - 1]]: keys of a last head, and what they are reached by */
    int *matrix;                         /* [paths[layers - 1]]: number of the formed matrix, or -1 */
    int matrices;

    int slots, slots_of[MANIFOLD_LAYERS_MAX + 1];   /* of paths below paths[l] */
    int *slot_path, *slot_selection;

    struct manifold_table block[MANIFOLD_LAYERS_MAX];          /* but the last */
    struct manifold_table *asked;                              /* [heads] of the last block */
    struct manifold_table output;
    size_t tables;                       /* elements of all tables */
    size_t *place;                       /* [coordinates]: in the tables, or MANIFOLD_UNUSED: nothing depends on it */
};

/* in: m, which the plan takes over; metric may be NULL, likewise   Freed with manifold_plan_free. */
struct manifold_plan *manifold_plan_new(const struct spec *s, struct task_shape shape, struct manifold *m,
                                        struct manifold_metric *metric);
void manifold_plan_free(void *plan);
/* FLOPs of a training step.   out: *c */
void manifold_plan_count(const struct manifold_plan *d, struct planner_count *c);

extern const struct model_passes manifold_f32, manifold_f64;

#endif
