#include "store/record_sets.h"

#include "base/memory.h"

#include <string.h>

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

#define M(member, type, extent, name, long_name) {name, long_name, type, offsetof(struct record_manifold, member), extent}
static const struct set_field manifold_fields[] = {
    M(step, NCFILE_INT64, SET_ONE, "manifold_step", "step after which the manifold probe looked"),
    M(coordinates, NCFILE_INT, SET_ONE, "manifold_coordinates", "number of coordinates"),
    M(layers, NCFILE_INT, SET_ONE, "manifold_layers", "layers of the model"),
    M(circuits, NCFILE_INT, SET_ONE, "manifold_circuits", "number of circuits"),
    M(winner, NCFILE_INT, SET_ONE, "manifold_winner", "number of the circuit that won; the number of circuits: none; -1: not asked"),
    M(loss, NCFILE_DOUBLE, SET_ONE, "manifold_loss", "loss on the training set"),
    M(gradient_ratio_theory, NCFILE_DOUBLE, SET_ONE, "gradient_ratio_theory", "f_r + (1 - f_r)(f_v + (1 - f_v)(1 - delta))"),
    M(rise_in_context, NCFILE_DOUBLE, SET_ONE, "rise_in_context", "rise of the loss without all gammas"),
    M(rise_in_weights, NCFILE_DOUBLE, SET_ONE, "rise_in_weights", "rise of the loss without delta"),
    M(coordinate, NCFILE_DOUBLE, SET_COORDINATE, "coordinate", "coordinates on the invariant manifold"),
    M(leakage, NCFILE_DOUBLE, SET_LAYER, "leakage", "share of the squared weights off the manifold; the last: unembedding"),
    M(gradient, NCFILE_DOUBLE, SET_COORDINATE, "gradient", "gradient of the training loss by coordinates"),
    M(gradient_ratio, NCFILE_DOUBLE, SET_COORDINATE, "gradient_ratio", "gradient over that with rare tokens alone"),
    M(rise, NCFILE_DOUBLE, SET_CIRCUIT, "rise", "rise of the loss without the circuit's beta"),
};

#define C(member, type, extent, name, long_name) {name, long_name, type, offsetof(struct record_circuit, member), extent}
static const struct set_field circuit_fields[] = {
    C(step, NCFILE_INT64, SET_ONE, "circuit_step", "step after which the circuit was sought"),
    C(coordinates, NCFILE_INT, SET_ONE, "circuit_coordinates", "number of all coordinates"),
    C(units, NCFILE_INT, SET_ONE, "circuit_units", "coordinates that survived"),
    C(loss, NCFILE_DOUBLE, SET_ONE, "circuit_loss_full", "loss of all coordinates"),
    C(loss_circuit, NCFILE_DOUBLE, SET_ONE, "circuit_loss", "loss of the circuit"),
    C(loss_canonical, NCFILE_DOUBLE, SET_ONE, "circuit_loss_canonical", "loss of its canonical units alone"),
    C(accuracy, NCFILE_DOUBLE, SET_ONE, "circuit_accuracy_full", "accuracy of all coordinates"),
    C(accuracy_circuit, NCFILE_DOUBLE, SET_ONE, "circuit_accuracy", "accuracy of the circuit"),
    C(accuracy_canonical, NCFILE_DOUBLE, SET_ONE, "circuit_accuracy_canonical", "accuracy of its canonical units alone"),
    C(unit, NCFILE_INT, SET_UNIT, "circuit_unit", "number of the coordinate"),
    C(unit_value, NCFILE_DOUBLE, SET_UNIT, "circuit_unit_value", "its value"),
    C(unit_cost, NCFILE_DOUBLE, SET_UNIT, "circuit_unit_cost", "loss without the unit, less the circuit's loss"),
    C(canonical, NCFILE_INT, SET_UNIT, "circuit_unit_canonical", "1: canonical, 0: aiding"),
    C(dropped, NCFILE_INT, SET_DROPPED, "circuit_dropped", "coordinates in the order in which they were dropped"),
    C(dropped_loss, NCFILE_DOUBLE, SET_DROPPED, "circuit_dropped_loss", "loss after each"),
};

const struct record_set record_sets[RECORD_SETS] = {
    {"manifold", offsetof(struct record, manifolds), offsetof(struct record, manifold), sizeof(struct record_manifold),
     COUNT(manifold_fields), 9, manifold_fields},
    {"circuit", offsetof(struct record, circuits), offsetof(struct record, circuit), sizeof(struct record_circuit),
     COUNT(circuit_fields), 9, circuit_fields},
};

_Static_assert(COUNT(manifold_fields) <= SET_FIELDS_MAX && COUNT(circuit_fields) <= SET_FIELDS_MAX, "SET_FIELDS_MAX is too small");

int record_set_count(const struct record_set *s, const struct record *r)
{
    int n;
    memcpy(&n, (const char *)r + s->count, sizeof n);
    return n;
}

static char *list_of(const struct record_set *s, const struct record *r)
{
    char *list;
    memcpy(&list, (const char *)r + s->list, sizeof list);
    return list;
}

void *record_set_at(const struct record_set *s, const struct record *r, int i) { return list_of(s, r) + (size_t)i * s->size; }

void record_set_new(const struct record_set *s, struct record *r, int n)
{
    void *list = memory_new((size_t)n, s->size);
    memcpy((char *)r + s->count, &n, sizeof n);
    memcpy((char *)r + s->list, &list, sizeof list);
}

static int64_t manifold_length(const struct record_manifold *m, enum set_extent e)
{
    switch (e) {
    case SET_COORDINATE: return m->coordinates;
    case SET_LAYER: return m->layers < 0 ? -1 : m->layers + 1;
    case SET_CIRCUIT: return m->circuits;
    default: return 1;
    }
}

static int64_t circuit_length(const struct record_circuit *c, enum set_extent e)
{
    if (e == SET_UNIT)
        return c->units;
    return e == SET_DROPPED ? (int64_t)c->coordinates - c->units : 1;
}

int64_t record_set_length(const struct record_set *s, const void *element, enum set_extent e)
{
    return s == &record_sets[0] ? manifold_length(element, e) : circuit_length(element, e);
}

const char *record_set_dimension(enum set_extent e)
{
    static const char *const name[SET_EXTENTS] = {"", "direction", "layer", "circuit", "unit", "dropped"};
    return name[e];
}

void *record_set_array(const struct set_field *f, const void *element)
{
    void *array;
    memcpy(&array, (const char *)element + f->offset, sizeof array);
    return array;
}

void record_set_put_array(const struct set_field *f, void *element, void *array)
{
    memcpy((char *)element + f->offset, &array, sizeof array);
}
