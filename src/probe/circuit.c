#include "probe/circuit.h"

#include "base/memory.h"
#include "probe/circuit_pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct search {
    const struct spec *spec;
    struct manifold *m;
    struct circuit_model model;
    struct circuit_pass *pass;
    int sequences;
    struct circuit_sequence *sequence;
    double weight;                   /* of all sequences */
    double *value;                   /* [coordinates] those that are left; the others 0 */
    double *cost;                    /* [coordinates] loss without each, at least; INFINITY: not tried */
    bool *left, *tried;              /* [coordinates] */
    int *order;                      /* [sequences] by falling loss, so that dear coordinates are known soon */
    double *loss;                    /* [sequences] */
};

static void add_sequences(struct search *f, const struct batch *b, int first)
{
    for (int i = 0; i < b->sequences; i++) {
        circuit_sequence_open(&f->sequence[first + i], f->spec, f->m, b, i);
        f->weight += f->sequence[first + i].weight;
        f->order[first + i] = first + i;
    }
}

static enum status open_search(struct search *f, const struct spec *s, const struct task *t, const double *value)
{
    *f = (struct search){.spec = s};
    enum status status = manifold_new(s, &f->m);
    if (status != STATUS_OK)
        return status;
    const struct task_shape shape = task_shape(t);
    const size_t all = task_sequences(t, TASK_TEST), n = (size_t)f->m->coordinates;
    f->sequences = (int)(all < (size_t)s->probe_circuit.sequences ? all : (size_t)s->probe_circuit.sequences);
    status = circuit_model_open(&f->model, f->m, s->train.loss, s->model.self_attention, shape.length);
    if (status != STATUS_OK)
        return status;
    f->pass = circuit_pass_new(&f->model);
    f->sequence = memory_new((size_t)f->sequences, sizeof *f->sequence);
    f->order = memory_new((size_t)f->sequences, sizeof *f->order);
    f->loss = memory_new((size_t)f->sequences, sizeof *f->loss);
    f->value = memcpy(memory_new(n, sizeof *f->value), value, n * sizeof *f->value);
    f->cost = memory_new(n, sizeof *f->cost);
    f->left = memory_new(n, sizeof *f->left);
    f->tried = memory_new(n, sizeof *f->tried);
    struct batch b = batch_new_of(f->sequences, shape);
    task_set_batch(t, TASK_TEST, 0, (size_t)f->sequences, &b);
    add_sequences(f, &b, 0);
    batch_free(&b);
    return STATUS_OK;
}

static void close_search(struct search *f)
{
    for (int i = 0; f->sequence && i < f->sequences; i++)
        circuit_sequence_close(&f->sequence[i], f->m->selections);
    circuit_pass_free(f->pass);
    circuit_model_close(&f->model);
    manifold_free(f->m);
    memory_free(f->sequence);
    memory_free(f->order);
    memory_free(f->loss);
    memory_free(f->value);
    memory_free(f->cost);
    memory_free(f->left);
    memory_free(f->tried);
}

/* ---- losses ---- */

/* Loss of these coordinates; *accuracy may be NULL. */
static double judge(struct search *f, const double *value, double *accuracy)
{
    double loss = 0.0, right = 0.0;
    circuit_model_set(&f->model, value);
    for (int i = 0; i < f->sequences; i++) {
        bool correct;
        loss += f->sequence[i].weight * circuit_pass_all(f->pass, &f->sequence[i], &correct);
        right += correct ? f->sequence[i].weight : 0.0;
    }
    if (accuracy)
        *accuracy = right / f->weight;
    return loss / f->weight;
}

/* In falling order of the losses, equal ones as they come. */
static void sort_sequences(struct search *f)
{
    for (int i = 1; i < f->sequences; i++) {
        const int moved = f->order[i];
        int k = i;
        for (; k > 0 && f->loss[f->order[k - 1]] < f->loss[moved]; k--)
            f->order[k] = f->order[k - 1];
        f->order[k] = moved;
    }
}

/* The loss without one coordinate, summed in the order of the sequences. */
static double try_alone(struct search *f, int coordinate)
{
    double sum = 0.0;
    for (int k = 0; k < f->sequences; k++) {
        const struct circuit_sequence *q = &f->sequence[f->order[k]];
        circuit_pass_all(f->pass, q, NULL);
        sum += q->weight * circuit_pass_without(f->pass, q, coordinate);
    }
    return sum;
}

/* Sums for all that are left, sequence by sequence; one whose sum is above `bound` is given up: no loss is negative, so
 * that the rest cannot help it. */
static void try_all(struct search *f, double bound)
{
    for (int i = 0; i < f->m->coordinates; i++) {
        f->cost[i] = 0.0;
        f->tried[i] = f->left[i];
    }
    for (int k = 0; k < f->sequences; k++) {
        const struct circuit_sequence *q = &f->sequence[f->order[k]];
        f->loss[f->order[k]] = q->weight * circuit_pass_all(f->pass, q, NULL);
        for (int i = 0; i < f->m->coordinates; i++) {
            if (!f->tried[i])
                continue;
            f->cost[i] += q->weight * circuit_pass_without(f->pass, q, i);
            f->tried[i] = f->cost[i] <= bound;
        }
    }
}

/* The coordinate without which the loss is least; -1: none is left.   in: `likely` is tried first, -1: none   out: *loss */
static int find_cheapest(struct search *f, int likely, double *loss)
{
    int best = -1;
    circuit_model_set(&f->model, f->value);
    try_all(f, likely >= 0 ? try_alone(f, likely) : INFINITY);
    for (int i = 0; i < f->m->coordinates; i++)
        if (f->tried[i] && (best < 0 || f->cost[i] < f->cost[best]))
            best = i;
    if (best >= 0)
        *loss = f->cost[best] / f->weight;
    sort_sequences(f);
    return best;
}

/* Who was cheapest, as far as is known, but for the one that was dropped. */
static int next_likely(const struct search *f)
{
    int best = -1;
    for (int i = 0; i < f->m->coordinates; i++)
        if (f->left[i] && (best < 0 || f->cost[i] < f->cost[best]))
            best = i;
    return best;
}

/* ---- the search ---- */

static void drop(struct search *f, struct record_circuit *r, int coordinate, double loss)
{
    const int at = r->coordinates - r->units--;
    f->left[coordinate] = false;
    f->value[coordinate] = 0.0;
    r->dropped[at] = coordinate;
    r->dropped_loss[at] = loss;
}

static void drop_all(struct search *f, struct record_circuit *r, double budget)
{
    for (int i = 0; i < r->coordinates; i++) {
        f->left[i] = true;
        if (f->value[i] == 0.0)
            drop(f, r, i, r->loss);
    }
    for (int likely = -1; r->units > 0; likely = next_likely(f)) {
        double loss = INFINITY;
        int cheapest = find_cheapest(f, likely, &loss);
        if (cheapest < 0 || !(loss <= budget))
            return;
        drop(f, r, cheapest, loss);
    }
}

/* ---- what is left ---- */

static double chance_of(const struct spec *s)
{
    struct task_truth truth;
    if (task_truth_of(s, &truth) == STATUS_OK && isfinite(truth.accuracy_chance))
        return truth.accuracy_chance;
    return 1.0 / shape_of(s).classes;
}

/* Units by falling cost, of equals the first. */
static void add_unit(struct record_circuit *r, int count, int coordinate, double value, double cost, int canonical)
{
    int k = count;
    for (; k > 0 && r->unit_cost[k - 1] < cost; k--) {
        r->unit[k] = r->unit[k - 1];
        r->unit_value[k] = r->unit_value[k - 1];
        r->unit_cost[k] = r->unit_cost[k - 1];
        r->canonical[k] = r->canonical[k - 1];
    }
    r->unit[k] = coordinate;
    r->unit_value[k] = value;
    r->unit_cost[k] = cost;
    r->canonical[k] = canonical;
}

static void judge_units(struct search *f, struct record_circuit *r)
{
    const size_t n = (size_t)r->units;
    r->unit = memory_new(n, sizeof *r->unit);
    r->unit_value = memory_new(n, sizeof *r->unit_value);
    r->unit_cost = memory_new(n, sizeof *r->unit_cost);
    r->canonical = memory_new(n, sizeof *r->canonical);
    r->loss_circuit = judge(f, f->value, &r->accuracy_circuit);
    const double share = f->spec->probe_circuit.tolerance * (r->accuracy_circuit - chance_of(f->spec));
    int count = 0;
    for (int i = 0; i < r->coordinates; i++) {
        if (!f->left[i])
            continue;
        const double value = f->value[i];
        double accuracy;
        f->value[i] = 0.0;
        const double cost = judge(f, f->value, &accuracy) - r->loss_circuit;
        f->value[i] = value;
        add_unit(r, count++, i, value, cost, share > 0.0 && r->accuracy_circuit - accuracy >= share);
    }
}

static void judge_canonical(struct search *f, struct record_circuit *r)
{
    double *alone = memory_new((size_t)r->coordinates, sizeof *alone);
    for (int k = 0; k < r->units; k++)
        if (r->canonical[k])
            alone[r->unit[k]] = r->unit_value[k];
    r->loss_canonical = judge(f, alone, &r->accuracy_canonical);
    memory_free(alone);
}

static enum status search(struct search *f, struct record_circuit *r)
{
    const size_t n = (size_t)f->m->coordinates;
    *r = (struct record_circuit){.coordinates = f->m->coordinates, .units = f->m->coordinates};
    r->loss = judge(f, f->value, &r->accuracy);
    if (!isfinite(r->loss))
        return status_fail(STATUS_NUMERIC,
                           "the loss of the model's coordinates is not finite: there is no circuit to be sought");
    r->dropped = memory_new(n, sizeof *r->dropped);
    r->dropped_loss = memory_new(n, sizeof *r->dropped_loss);
    drop_all(f, r, f->spec->probe_circuit.budget * r->loss);
    judge_units(f, r);
    judge_canonical(f, r);
    return STATUS_OK;
}

enum status circuit_find(const struct spec *s, const struct task *t, const double *value, struct record_circuit *r)
{
    struct search f;
    *r = (struct record_circuit){0};
    enum status status = open_search(&f, s, t, value);
    if (status == STATUS_OK)
        status = search(&f, r);
    close_search(&f);
    return status;
}

void circuit_clear(struct record_circuit *r)
{
    memory_free(r->unit);
    memory_free(r->unit_value);
    memory_free(r->unit_cost);
    memory_free(r->canonical);
    memory_free(r->dropped);
    memory_free(r->dropped_loss);
    *r = (struct record_circuit){0};
}
