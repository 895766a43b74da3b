#include "model/manifold_tape.h"

#include "base/memory.h"
#include "model/manifold_relation.h"

#include <stdlib.h>
#include <string.h>

#define NONE (-1e300)
#define OPS_MAX 400000

/* The formula of one sequence. */
struct formula {
    struct tape_builder *b;
    const struct spec *spec;
    const struct manifold *m;
    struct task_shape shape;
    int centred;
    int n;                           /* positions */
    const int32_t *token, *position;
    double *relation;                /* [selections][n][n]; of tokens alone also used for classes */
    int paths;
    tape_node *entry;                /* [paths][n][n], -1: not yet */
    bool *row_done;                  /* [paths][n] of the paths of one hop */
    tape_node *scratch;              /* [n] */
};

/* ---- relations ---- */

static void find_relations(struct formula *f)
{
    for (int s = 0; s < f->m->selections; s++)
        for (int t = 0; t < f->n; t++)
            for (int u = 0; u < f->n; u++) {
                const struct manifold_selection *selection = &f->m->selection[s];
                f->relation[(s * f->n + t) * f->n + u] =
                    selection->kind == SELECTION_SHIFT
                        ? manifold_positions(&f->shape, f->centred, selection->shift, f->position[t], f->position[u])
                        : manifold_tokens(&f->shape, f->centred, selection->kind, f->token[t], f->token[u]);
            }
}

static double relation(const struct formula *f, int selection, int t, int u)
{
    return f->relation[(selection * f->n + t) * f->n + u];
}

/* ---- attention ---- */

static tape_node zero(const struct formula *f) { return tape_constant(f->b, 0.0); }

/* sum of p_i softmax over distinct scores: shares of the n nodes, in place. */
static void softmax(struct formula *f, int n, tape_node *x)
{
    tape_node top = tape_largest(f->b, n, x);
    double *one = memory_new((size_t)n, sizeof *one);
    tape_node *e = memory_new((size_t)n, sizeof *e);
    for (int i = 0; i < n; i++) {
        one[i] = 1.0;
        e[i] = tape_exp(f->b, tape_linear(f->b, 2, (const double[]){1.0, -1.0}, (const tape_node[]){x[i], top}, 0.0));
    }
    tape_node share = tape_reciprocal(f->b, tape_linear(f->b, n, one, e, 0.0));
    for (int i = 0; i < n; i++)
        x[i] = tape_product(f->b, e[i], share);
    memory_free(one);
    memory_free(e);
}

static tape_node path_entry(struct formula *f, int path, int t, int u);

/* sum over j of R[i][j] P_path[u][j] */
static tape_node seen_through(struct formula *f, int selection, int i, int path, int u)
{
    if (path == 0)
        return tape_constant(f->b, relation(f, selection, i, u));
    double *r = memory_new((size_t)u + 1, sizeof *r);
    tape_node *x = memory_new((size_t)u + 1, sizeof *x);
    int n = 0;
    for (int j = 0; j <= u; j++)
        if (relation(f, selection, i, j) != 0.0) {
            r[n] = relation(f, selection, i, j);
            x[n++] = path_entry(f, path, u, j);
        }
    tape_node sum = tape_linear(f->b, n, r, x, 0.0);
    memory_free(r);
    memory_free(x);
    return sum;
}

/* (P_query R_S P_key')[t][u] of a coordinate */
static tape_node direction_score(struct formula *f, const struct manifold_coordinate *c, int t, int u)
{
    if (c->query == 0)
        return seen_through(f, c->selection, t, c->key, u);
    double *one = memory_new((size_t)t + 1, sizeof *one);
    tape_node *x = memory_new((size_t)t + 1, sizeof *x);
    for (int i = 0; i <= t; i++) {
        one[i] = 1.0;
        x[i] = tape_product(f->b, path_entry(f, c->query, t, i), seen_through(f, c->selection, i, c->key, u));
    }
    tape_node sum = tape_linear(f->b, t + 1, one, x, 0.0);
    memory_free(one);
    memory_free(x);
    return sum;
}

static tape_node score(struct formula *f, int layer, int head, int t, int u)
{
    double one[64];
    tape_node x[64], sum = zero(f);
    int n = 0;
    for (int i = 0; i < f->m->coordinates; i++) {
        const struct manifold_coordinate *c = &f->m->coordinate[i];
        if (c->layer != layer || c->head != head)
            continue;
        one[n] = 1.0;
        x[n++] = tape_product(f->b, i, direction_score(f, c, t, u));
        if (n == 63) {
            one[n] = 1.0;
            x[n++] = sum;
            sum = tape_linear(f->b, n, one, x, 0.0);
            n = 0;
        }
    }
    one[n] = 1.0;
    x[n++] = sum;
    return tape_linear(f->b, n, one, x, 0.0);
}

/* Block and head through which a path goes last, and what it was before.   out: *layer, *head   Returns the path before */
static int last_hop(const struct formula *f, int path, int *layer, int *head)
{
    int place = 1;
    for (*layer = 1; path / place >= 1 + f->m->heads; (*layer)++)
        place *= 1 + f->m->heads;
    *head = path / place;
    return path % place;
}

static tape_node *entries(const struct formula *f, int path, int t)
{
    const size_t n = (size_t)f->n;
    return f->entry + ((size_t)path * n + (size_t)t) * n;
}

/* Row t of the attention of a head, which is a path of one hop. */
static void attend(struct formula *f, int path, int layer, int head, int t)
{
    const int seen = t + (f->spec->model.self_attention ? 1 : 0);
    tape_node *row = entries(f, path, t);
    f->row_done[path * f->n + t] = true;
    for (int u = 0; u < f->n; u++)
        row[u] = u < seen ? score(f, layer, head, t, u) : zero(f);
    if (seen)
        softmax(f, seen, row);
}

/* P_path[t][u] */
static tape_node path_entry(struct formula *f, int path, int t, int u)
{
    int layer, head, before;
    if (path == 0)
        return tape_constant(f->b, t == u);
    if (u > t)
        return zero(f);
    before = last_hop(f, path, &layer, &head);
    if (before == 0) {
        if (!f->row_done[path * f->n + t])
            attend(f, path, layer, head, t);
        return entries(f, path, t)[u];
    }
    tape_node *known = &entries(f, path, t)[u];
    if (*known >= 0)
        return *known;
    double *one = memory_new((size_t)(t - u) + 1, sizeof *one);
    tape_node *x = memory_new((size_t)(t - u) + 1, sizeof *x);
    for (int v = u; v <= t; v++) {
        one[v - u] = 1.0;
        x[v - u] = tape_product(f->b, path_entry(f, path - before, t, v), path_entry(f, before, v, u));
    }
    *known = tape_linear(f->b, t - u + 1, one, x, 0.0);
    memory_free(one);
    memory_free(x);
    return *known;
}

/* ---- what is read out ---- */

static tape_node logit(struct formula *f, int class)
{
    const int t = f->n - 1;
    tape_node sum = zero(f);
    double *r = memory_new((size_t)f->n, sizeof *r);
    for (int i = 0; i < f->m->coordinates; i++) {
        const struct manifold_coordinate *c = &f->m->coordinate[i];
        int n = 0;
        for (int u = 0; u <= t && c->layer > f->m->layers; u++) {
            double value = manifold_tokens(&f->shape, f->centred, f->m->selection[c->selection].kind, class, f->token[u]);
            if (value == 0.0 || (c->key == 0 && u != t))
                continue;
            r[n] = value;
            f->scratch[n++] = path_entry(f, c->key, t, u);
        }
        if (n == 0)
            continue;
        tape_node part = tape_product(f->b, i, tape_linear(f->b, n, r, f->scratch, 0.0));
        sum = tape_linear(f->b, 2, (const double[]){1.0, 1.0}, (const tape_node[]){sum, part}, 0.0);
    }
    memory_free(r);
    return sum;
}

/* Half the squared error, times `scale`. */
static tape_node squared(struct formula *f, int classes, const tape_node *x, int target, double scale)
{
    double *half = memory_new((size_t)classes + 1, sizeof *half);
    tape_node *square = memory_new((size_t)classes + 1, sizeof *square);
    for (int c = 0; c < classes; c++) {
        half[c] = 0.5 * scale;
        square[c] = tape_product(f->b, x[c], x[c]);
    }
    half[classes] = -scale;
    square[classes] = x[target];
    tape_node loss = tape_linear(f->b, classes + 1, half, square, 0.5 * scale);
    memory_free(half);
    memory_free(square);
    return loss;
}

static tape_node cross_entropy(struct formula *f, int classes, const tape_node *x, int target)
{
    double *one = memory_new((size_t)classes, sizeof *one);
    tape_node *e = memory_new((size_t)classes, sizeof *e), top = tape_largest(f->b, classes, x);
    for (int c = 0; c < classes; c++) {
        one[c] = 1.0;
        e[c] = tape_exp(f->b, tape_linear(f->b, 2, (const double[]){1.0, -1.0}, (const tape_node[]){x[c], top}, 0.0));
    }
    tape_node log_sum = tape_log(f->b, tape_linear(f->b, classes, one, e, 0.0));
    memory_free(one);
    memory_free(e);
    return tape_linear(f->b, 3, (const double[]){1.0, 1.0, -1.0}, (const tape_node[]){log_sum, top, x[target]}, 0.0);
}

static tape_node loss_of(struct formula *f, const tape_node *x, int target)
{
    const int classes = f->shape.classes;
    switch ((enum loss)f->spec->train.loss) {
    case LOSS_CROSS_ENTROPY: return cross_entropy(f, classes, x, target);
    case LOSS_MSE: return squared(f, classes, x, target, 2.0 / classes);
    case LOSS_SQUARED: break;
    }
    return squared(f, classes, x, target, 1.0);
}

/* ---- all sequences ---- */

struct sums {
    tape_node loss[CLASSES];         /* mean over the sequences of the class */
    tape_node *judged;               /* [sequences][3] */
};

static void start_sequence(struct formula *f, const struct batch *all, int i)
{
    const size_t n = (size_t)f->n;
    f->token = all->token + (size_t)i * n;
    f->position = all->position + (size_t)i * n;
    memset(f->entry, 0xff, (size_t)f->paths * n * n * sizeof *f->entry);
    memset(f->row_done, 0, (size_t)f->paths * n * sizeof *f->row_done);
    find_relations(f);
}

static void add_sequence(struct formula *f, const struct batch *all, int i, double weight, enum token_class class,
                         struct sums *sums)
{
    const int classes = f->shape.classes, target = all->target[(size_t)(i + 1) * (size_t)f->n - 1];
    tape_node *x = memory_new((size_t)classes, sizeof *x);
    start_sequence(f, all, i);
    for (int c = 0; c < classes; c++)
        x[c] = logit(f, c);
    sums->loss[class] = tape_linear(f->b, 2, (const double[]){1.0, weight},
                                    (const tape_node[]){sums->loss[class], loss_of(f, x, target)}, 0.0);
    tape_node *judged = sums->judged + 3 * i;
    judged[0] = x[target];
    judged[1] = target ? tape_largest(f->b, target, x) : tape_constant(f->b, NONE);
    judged[2] = target + 1 < classes ? tape_largest(f->b, classes - target - 1, x + target + 1) : tape_constant(f->b, NONE);
    memory_free(x);
}

static void open_formula(struct formula *f, const struct spec *s, const struct manifold *m)
{
    *f = (struct formula){.spec = s, .m = m, .shape = shape_of(s),
                          .centred = s->model.embedding == EMBEDDING_CENTRED};
    f->n = f->shape.length;
    f->paths = 1;
    for (int l = 0; l < m->layers; l++)
        f->paths *= 1 + m->heads;
    const size_t n = (size_t)f->n;
    f->relation = memory_new((size_t)m->selections * n * n, sizeof *f->relation);
    f->entry = memory_new((size_t)f->paths * n * n, sizeof *f->entry);
    f->row_done = memory_new((size_t)f->paths * n, sizeof *f->row_done);
    f->scratch = memory_new(n, sizeof *f->scratch);
    f->b = tape_begin(m->coordinates + CLASSES);
}

static void close_formula(struct formula *f)
{
    memory_free(f->relation);
    memory_free(f->entry);
    memory_free(f->row_done);
    memory_free(f->scratch);
}

/* Which classes there are; where it is one, its share is 1. */
static int classes_of(const struct spec *s, enum token_class present[CLASSES])
{
    int n = 0;
    for (int c = 0; c < CLASSES; c++)
        if (shape_has_class(s, (enum token_class)c))
            present[n++] = (enum token_class)c;
    return n;
}

static tape_node total(struct formula *f, const struct sums *sums, int classes)
{
    tape_node part[CLASSES];
    const double one[CLASSES] = {1.0, 1.0, 1.0};
    for (int c = 0; c < CLASSES; c++)
        part[c] = classes == 1 ? sums->loss[c] : tape_product(f->b, f->m->coordinates + c, sums->loss[c]);
    return tape_linear(f->b, CLASSES, one, part, 0.0);
}

/* Writes the formula down.   out: sums.judged; returns the loss */
static tape_node write_formula(struct formula *f, const struct batch *all, struct manifold_tape *t, struct sums *sums)
{
    enum token_class present[CLASSES];
    const int classes = classes_of(f->spec, present), each = all->sequences / classes;
    for (int c = 0; c < CLASSES; c++)
        sums->loss[c] = zero(f);
    for (int i = 0; i < all->sequences && !tape_is_full(f->b); i++) {      /* by class, as many of each */
        t->class[i] = present[i / each];
        t->weight[i] = 1.0 / each;
        add_sequence(f, all, i, t->weight[i], t->class[i], sums);
    }
    return total(f, sums, classes);
}

static enum status too_long(struct manifold_tape *t)
{
    manifold_tape_free(t);
    return status_fail(STATUS_JOB, "the program of the loss over all patterns becomes too long: fewer task.blocks, "
                       "task.queried last, fewer model.layers, or fewer model.coordinates");
}

static enum status build(const struct spec *s, const struct manifold *m, const struct batch *all, struct manifold_tape *t)
{
    struct sums sums = {.judged = memory_new(3 * (size_t)all->sequences, sizeof(tape_node))};
    tape_node *out = memory_new((size_t)m->coordinates + CLASSES + 1 + 3 * (size_t)all->sequences, sizeof *out);
    struct tape **made[2] = {&t->train, &t->judge};
    for (int i = 0; i < 2; i++) {
        struct formula f;
        open_formula(&f, s, m);
        out[0] = write_formula(&f, all, t, &sums);
        if (i == 0)
            tape_gradient(f.b, out[0], out + 1);
        else
            memcpy(out + 1, sums.judged, 3 * (size_t)all->sequences * sizeof *out);
        *made[i] = tape_end(f.b, 1 + (i == 0 ? m->coordinates : 3 * all->sequences), out);
        close_formula(&f);
    }
    memory_free(sums.judged);
    memory_free(out);
    bool fits = t->train && t->judge && t->train->program.ops <= OPS_MAX && t->judge->program.ops <= OPS_MAX;
    return fits ? STATUS_OK : too_long(t);
}

enum status manifold_tape_new(const struct spec *s, struct manifold_tape **tape)
{
    struct manifold *m;
    struct task *task;
    enum status status = manifold_new(s, &m);
    if (status != STATUS_OK)
        return status;
    status = task_open(s, 0, &task);
    if (status != STATUS_OK) {
        manifold_free(m);
        return status;
    }
    int sequences = (int)task_sequences(task, TASK_TRAIN);
    struct batch all = batch_new_of(sequences, task_shape(task));
    task_set_batch(task, TASK_TRAIN, 0, (size_t)sequences, &all);
    struct manifold_tape *t = memory_new(1, sizeof *t);
    t->coordinates = m->coordinates;
    t->sequences = sequences;
    t->weight = memory_new((size_t)sequences, sizeof *t->weight);
    t->class = memory_new((size_t)sequences, sizeof *t->class);
    status = build(s, m, &all, t);
    if (status == STATUS_OK)
        *tape = t;
    batch_free(&all);
    task_free(task);
    manifold_free(m);
    return status;
}

void manifold_tape_free(struct manifold_tape *t)
{
    if (!t)
        return;
    tape_free(t->train);
    tape_free(t->judge);
    memory_free(t->weight);
    memory_free(t->class);
    memory_free(t);
}
