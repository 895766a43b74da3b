#include "probe/manifold.h"

#include "base/memory.h"
#include "model/manifold_basis.h"

#include <math.h>
#include <string.h>

#define ROWS 4096                    /* positions of a batch; sums over batches are part of the result */

/* ---- roles ---- */

static bool selects(const struct manifold *m, int i, enum selection kind)
{
    return m->selection[m->coordinate[i].selection].kind == kind;
}

/* The block of a path of one hop, through any head; 0 of others. */
static int block_of_hop(const struct manifold *m, int path)
{
    int block = 1;
    for (; path > m->heads; path /= 1 + m->heads, block++)
        if (path % (1 + m->heads))
            return 0;
    return path ? block : 0;
}

bool manifold_is_beta(const struct manifold *m, int i, int first, int second)
{
    const struct manifold_coordinate *c = &m->coordinate[i];
    return second <= m->layers && c->layer == second && c->query == 0 && block_of_hop(m, c->key) == first &&
           selects(m, i, SELECTION_SAME);
}

bool manifold_is_gamma(const struct manifold *m, int i)
{
    return m->coordinate[i].layer > m->layers && block_of_hop(m, m->coordinate[i].key) > 0 && selects(m, i, SELECTION_SAME);
}

bool manifold_is_delta(const struct manifold *m, int i)
{
    return m->coordinate[i].layer > m->layers && m->coordinate[i].key == 0 && selects(m, i, SELECTION_ASSOCIATED);
}

double manifold_ratio_theory(const struct spec *s, double delta)
{
    const double rare = s->task.rare, varied = s->task.variability;
    return rare + (1.0 - rare) * (varied + (1.0 - varied) * (1.0 - delta));
}

int manifold_winner(const struct spec *s, double loss, const double *rise, int circuits)
{
    int winner = circuits;
    double best = 0.0;
    for (int c = 0; c < circuits && loss < s->probe_manifold.winner_below; c++)
        if (rise[c] > best) {
            best = rise[c];
            winner = c;
        }
    return winner;
}

/* ---- the model in double ---- */

struct look {
    struct spec spec;                /* in double, gradients by the coordinates */
    struct manifold *all;            /* directions that are projected on: a manifold model's own are its coordinates */
    struct manifold_basis *basis;    /* NULL: the weights are the coordinates */
    struct model *model;
    size_t length;
    double *flat, *changed;          /* [length] weights; room */
    double *value;                   /* [all->coordinates] */
};

static void close_look(struct look *l)
{
    manifold_basis_free(l->basis);
    manifold_free(l->all);
    model_free(l->model);
    memory_free(l->flat);
    memory_free(l->changed);
    memory_free(l->value);
}

/* Weights tensor by tensor: the padding between them depends on the precision. */
static void copy_weights(struct look *l, const struct model *model)
{
    const struct tensor *from, *to;
    const int n = model_tensors(model, &from);
    model_tensors(l->model, &to);
    double *flat = memory_new(model_flat_length(model), sizeof *flat);
    model_weights_get(model, flat);
    for (int i = 0; i < n; i++)
        memcpy(l->flat + to[i].offset, flat + from[i].offset, (size_t)to[i].rows * (size_t)to[i].cols * sizeof *flat);
    memory_free(flat);
}

static enum status open_basis(struct look *l, struct task_shape shape)
{
    const struct tensor *table;
    const int tensors = model_tensors(l->model, &table);
    if (l->spec.model.kind == MODEL_MANIFOLD)
        return manifold_new(&l->spec, &l->all);
    enum status status = manifold_new_all(&l->spec, &l->all);
    return status == STATUS_OK ? manifold_basis_open(&l->spec, shape, l->all, table, tensors, &l->basis) : status;
}

static enum status open_look(struct look *l, const struct spec *s, const struct model *model)
{
    *l = (struct look){.spec = *s};
    l->spec.model.precision = PRECISION_FLOAT64;
    l->spec.train.metric = METRIC_COORDINATES;
    const struct task_shape shape = shape_of(s);
    enum status status = model_open(&l->spec, shape, &l->model);
    if (status == STATUS_OK)
        status = open_basis(l, shape);
    if (status != STATUS_OK)
        return status;
    l->length = model_flat_length(l->model);
    l->flat = memory_new(l->length, sizeof *l->flat);
    l->changed = memory_new(l->length, sizeof *l->changed);
    l->value = memory_new((size_t)l->all->coordinates, sizeof *l->value);
    copy_weights(l, model);
    return STATUS_OK;
}

static void project(struct look *l, double *leakage)
{
    if (l->basis)
        manifold_basis_project(l->basis, l->flat, l->value, leakage);
    else
        memcpy(l->value, l->flat, (size_t)l->all->coordinates * sizeof *l->value);
}

/* ---- sums over a training set ---- */

static size_t looked_at(const struct spec *s, const struct task *t)
{
    const size_t train = task_sequences(t, TASK_TRAIN), test = task_sequences(t, TASK_TEST);
    return s->task.expectation != EXPECTATION_SAMPLED || train < test ? train : test;
}

/* Mean loss of the model as it stands.   out: gradient [length] of it, or NULL: not wanted */
static double mean_loss(struct look *l, const struct task *t, double *gradient)
{
    const struct task_shape shape = task_shape(t);
    const size_t all = looked_at(&l->spec, t), most = shape.length < ROWS ? (size_t)(ROWS / shape.length) : 1;
    double sum = 0.0, weight = 0.0, *part = memory_new(gradient ? l->length : 1, sizeof *part);
    struct batch b = batch_new_of((int)most, shape);
    if (gradient)
        memset(gradient, 0, l->length * sizeof *gradient);
    for (size_t first = 0; first < all; first += most) {
        task_set_batch(t, TASK_TRAIN, first, all - first < most ? all - first : most, &b);
        struct model_result r = gradient ? model_train_pass(l->model, &b, 0, 0) : model_evaluate(l->model, &b, NULL);
        sum += r.loss * r.weight;
        weight += r.weight;
        if (gradient)
            model_gradient_get(l->model, part);
        for (size_t i = 0; gradient && i < l->length; i++)
            gradient[i] += r.weight * part[i];
    }
    for (size_t i = 0; gradient && i < l->length; i++)
        gradient[i] /= weight;
    memory_free(part);
    batch_free(&b);
    return sum / weight;
}

/* Gradient by the coordinates.   out: product [all->coordinates] */
static void take_gradient(struct look *l, const struct task *t, double *product)
{
    double *gradient = memory_new(l->length, sizeof *gradient);
    model_weights_set(l->model, l->flat);
    mean_loss(l, t, gradient);
    if (l->basis)
        manifold_basis_products(l->basis, gradient, product);
    else
        memcpy(product, gradient, (size_t)l->all->coordinates * sizeof *product);
    memory_free(gradient);
}

/* ---- measures ---- */

/* Picks what model.coordinates names.   in: from [all->coordinates]   out: memory_free */
static double *pick(const struct look *l, const struct manifold *named, const double *from)
{
    double *to = memory_new((size_t)named->coordinates, sizeof *to);
    for (int i = 0; i < named->coordinates; i++)
        to[i] = from[manifold_find(l->all, named->coordinate[i].name)];
    return to;
}

static double delta_of(const struct look *l)
{
    double delta = 0.0;
    for (int i = 0; i < l->all->coordinates; i++)
        delta += manifold_is_delta(l->all, i) ? l->value[i] : 0.0;
    return delta;
}

static enum status measure_gradient(struct look *l, uint64_t seed, const struct task *t, const struct manifold *named,
                                    struct record_manifold *r)
{
    struct spec rare = l->spec;
    struct task *other;
    rare.task.rare = 1.0;
    enum status status = task_open(&rare, seed, &other);
    if (status != STATUS_OK)
        return status;
    const size_t n = (size_t)l->all->coordinates;
    double *own = memory_new(n, sizeof *own), *of_rare = memory_new(n, sizeof *of_rare);
    take_gradient(l, t, own);
    take_gradient(l, other, of_rare);
    r->gradient = pick(l, named, own);
    for (size_t i = 0; i < n; i++)
        own[i] = of_rare[i] != 0.0 ? own[i] / of_rare[i] : NAN;
    r->gradient_ratio = pick(l, named, own);
    r->gradient_ratio_theory = manifold_ratio_theory(&l->spec, delta_of(l));
    memory_free(own);
    memory_free(of_rare);
    task_free(other);
    return STATUS_OK;
}

/* By how much the loss rises without the marked coordinates. */
static double rise_without(struct look *l, const struct task *t, const bool *marked, double loss)
{
    const int n = l->all->coordinates;
    double *less = memory_new((size_t)n, sizeof *less);
    for (int i = 0; i < n; i++)
        less[i] = marked[i] ? -l->value[i] : 0.0;
    memcpy(l->changed, l->flat, l->length * sizeof *l->changed);
    if (l->basis)
        manifold_basis_add(l->basis, less, l->changed);
    else
        for (int i = 0; i < n; i++)
            l->changed[i] += less[i];
    model_weights_set(l->model, l->changed);
    memory_free(less);
    return mean_loss(l, t, NULL) - loss;
}

static void measure_winner(struct look *l, const struct task *t, struct record_manifold *r)
{
    const int n = l->all->coordinates;
    bool *marked = memory_new((size_t)n, sizeof *marked);
    r->circuits = manifold_circuits(l->all->layers);
    r->rise = memory_new((size_t)r->circuits, sizeof *r->rise);
    for (int c = 0; c < r->circuits; c++) {
        int first, second;
        manifold_circuit(l->all->layers, c, &first, &second);
        for (int i = 0; i < n; i++)
            marked[i] = manifold_is_beta(l->all, i, first, second);
        r->rise[c] = rise_without(l, t, marked, r->loss);
    }
    for (int i = 0; i < n; i++)
        marked[i] = manifold_is_gamma(l->all, i);
    r->rise_in_context = rise_without(l, t, marked, r->loss);
    for (int i = 0; i < n; i++)
        marked[i] = manifold_is_delta(l->all, i);
    r->rise_in_weights = rise_without(l, t, marked, r->loss);
    r->winner = manifold_winner(&l->spec, r->loss, r->rise, r->circuits);
    memory_free(marked);
}

static enum status measure(struct look *l, uint64_t seed, const struct task *t, const struct manifold *named,
                           struct record_manifold *r)
{
    double *leakage = memory_new((size_t)l->all->layers + 1, sizeof *leakage);
    project(l, leakage);
    model_weights_set(l->model, l->flat);
    r->loss = mean_loss(l, t, NULL);
    if (l->spec.probe_manifold.coordinates) {
        r->coordinate = pick(l, named, l->value);
        r->leakage = leakage;
    } else
        memory_free(leakage);
    if (l->spec.probe_manifold.winner)
        measure_winner(l, t, r);
    return l->spec.probe_manifold.gradient ? measure_gradient(l, seed, t, named, r) : STATUS_OK;
}

enum status manifold_look(const struct spec *s, uint64_t seed, const struct task *t, const struct model *model,
                          struct record_manifold *r)
{
    struct look l;
    struct manifold *named = NULL;
    *r = (struct record_manifold){.winner = -1, .gradient_ratio_theory = NAN, .rise_in_context = NAN, .rise_in_weights = NAN};
    enum status status = open_look(&l, s, model);
    if (status == STATUS_OK)
        status = manifold_new(s, &named);
    if (status == STATUS_OK) {
        r->coordinates = named->coordinates;
        r->layers = named->layers;
        status = measure(&l, seed, t, named, r);
    }
    manifold_free(named);
    close_look(&l);
    return status;
}

enum status manifold_values(const struct spec *s, const struct model *model, double *value)
{
    struct look l;
    struct manifold *named = NULL;
    enum status status = open_look(&l, s, model);
    if (status == STATUS_OK)
        status = manifold_new(s, &named);
    if (status == STATUS_OK) {
        project(&l, NULL);
        double *picked = pick(&l, named, l.value);
        memcpy(value, picked, (size_t)named->coordinates * sizeof *value);
        memory_free(picked);
    }
    manifold_free(named);
    close_look(&l);
    return status;
}

void manifold_clear(struct record_manifold *r)
{
    memory_free(r->coordinate);
    memory_free(r->leakage);
    memory_free(r->gradient);
    memory_free(r->gradient_ratio);
    memory_free(r->rise);
    *r = (struct record_manifold){0};
}
