#include "model/tape.h"

#include "base/memory.h"
#include "base/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum kind { CONSTANT, INPUT, LINEAR, PRODUCT, EXP, LOG, RECIPROCAL, LARGEST };

/* Terms are in the builder's pool; those of LINEAR and LARGEST are sorted by node. */
struct node {
    enum kind kind;
    int first, terms;
    double value;            /* CONSTANT; the constant of LINEAR */
};

struct term {
    double coefficient;
    tape_node x;
};

struct tape_builder {
    int inputs, nodes, nodes_room;
    struct node *node;
    size_t terms, terms_room;
    struct term *term;
    size_t buckets;          /* a power of two; node + 1, or 0 */
    int *bucket;
    bool full;
};

/* ---- nodes ---- */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint64_t hash_of(const struct node *n, const struct term *term)
{
    uint64_t h = mix(mix(0x1234567, (uint64_t)n->kind), bits_of(n->value));
    for (int i = 0; i < n->terms; i++)
        h = mix(mix(h, (uint64_t)term[i].x), bits_of(term[i].coefficient));
    return mix(h, (uint64_t)n->terms);
}

static bool is_equal(const struct tape_builder *b, const struct node *n, const struct term *term, int other)
{
    const struct node *o = &b->node[other];
    if (o->kind != n->kind || o->terms != n->terms || bits_of(o->value) != bits_of(n->value))
        return false;
    for (int i = 0; i < n->terms; i++)
        if (b->term[o->first + i].x != term[i].x || bits_of(b->term[o->first + i].coefficient) != bits_of(term[i].coefficient))
            return false;
    return true;
}

static void widen_table(struct tape_builder *b)
{
    memory_free(b->bucket);
    b->buckets = b->buckets ? 2 * b->buckets : 1024;
    b->bucket = memory_new(b->buckets, sizeof *b->bucket);
    for (int i = 0; i < b->nodes; i++) {
        if (b->node[i].kind == INPUT)
            continue;
        size_t at = hash_of(&b->node[i], b->term + b->node[i].first) & (b->buckets - 1);
        while (b->bucket[at])
            at = (at + 1) & (b->buckets - 1);
        b->bucket[at] = i + 1;
    }
}

static tape_node append(struct tape_builder *b, struct node n, const struct term *term)
{
    if (b->nodes == b->nodes_room) {
        int room = 2 * b->nodes_room + 256;
        b->node = memory_grow(b->node, (size_t)b->nodes_room, (size_t)room, sizeof *b->node);
        b->nodes_room = room;
    }
    if (b->terms + (size_t)n.terms > b->terms_room) {
        size_t room = 2 * b->terms_room + (size_t)n.terms + 256;
        b->term = memory_grow(b->term, b->terms_room, room, sizeof *b->term);
        b->terms_room = room;
    }
    n.first = (int)b->terms;
    for (int i = 0; i < n.terms; i++)
        b->term[b->terms + (size_t)i] = term[i];
    b->terms += (size_t)n.terms;
    b->node[b->nodes] = n;
    return b->nodes++;
}

/* The node that is equal to this one, a new one where there is none. */
static tape_node intern(struct tape_builder *b, struct node n, const struct term *term)
{
    if (b->nodes >= TAPE_NODES_MAX || b->terms >= 8u * TAPE_NODES_MAX)
        b->full = true;
    if (b->full)
        return b->inputs;                      /* the constant 0 */
    if (2 * (size_t)b->nodes >= b->buckets)
        widen_table(b);
    size_t at = hash_of(&n, term) & (b->buckets - 1);
    for (; b->bucket[at]; at = (at + 1) & (b->buckets - 1))
        if (is_equal(b, &n, term, b->bucket[at] - 1))
            return b->bucket[at] - 1;
    tape_node made = append(b, n, term);
    b->bucket[at] = made + 1;
    return made;
}

struct tape_builder *tape_begin(int inputs)
{
    struct tape_builder *b = memory_new(1, sizeof *b);
    for (int i = 0; i < inputs; i++)
        append(b, (struct node){.kind = INPUT}, NULL);
    b->inputs = inputs;
    tape_constant(b, 0.0);
    return b;
}

void tape_drop(struct tape_builder *b)
{
    memory_free(b->node);
    memory_free(b->term);
    memory_free(b->bucket);
    memory_free(b);
}

bool tape_is_full(const struct tape_builder *b) { return b->full; }

static bool is_constant(const struct tape_builder *b, tape_node x) { return b->node[x].kind == CONSTANT; }

tape_node tape_constant(struct tape_builder *b, double value)
{
    return intern(b, (struct node){.kind = CONSTANT, .value = value + 0.0}, NULL);
}

/* Ties by the coefficient, so that equal terms are added in the same order whatever the sort. */
static int by_node(const void *x, const void *y)
{
    const struct term *a = x, *c = y;
    int order = (a->x > c->x) - (a->x < c->x);
    return order ? order : (a->coefficient > c->coefficient) - (a->coefficient < c->coefficient);
}

/* Sorts, adds up equal terms, drops those of coefficient 0.   Returns how many are left */
static int gather(struct term *term, int n)
{
    int kept = 0;
    qsort(term, (size_t)n, sizeof *term, by_node);
    for (int i = 0; i < n; i++)
        if (kept && term[kept - 1].x == term[i].x)
            term[kept - 1].coefficient += term[i].coefficient;
        else
            term[kept++] = term[i];
    n = kept;
    kept = 0;
    for (int i = 0; i < n; i++)
        if (term[i].coefficient != 0.0)
            term[kept++] = term[i];
    return kept;
}

static tape_node linear(struct tape_builder *b, struct term *term, int n, double constant)
{
    n = gather(term, n);
    if (n == 0)
        return tape_constant(b, constant);
    if (n == 1 && constant == 0.0 && term[0].coefficient == 1.0)
        return term[0].x;
    return intern(b, (struct node){.kind = LINEAR, .terms = n, .value = constant + 0.0}, term);
}

tape_node tape_linear(struct tape_builder *b, int n, const double *coefficient, const tape_node *x, double constant)
{
    struct term few[16], *term = n <= 16 ? few : memory_new((size_t)n, sizeof *term);
    int terms = 0;
    for (int i = 0; i < n; i++) {
        const struct node *a = &b->node[x[i]];
        if (a->kind == CONSTANT)
            constant += coefficient[i] * a->value;
        else if (a->kind == LINEAR && a->terms == 1 && a->value == 0.0)      /* a multiple counts as what it is a multiple of */
            term[terms++] = (struct term){coefficient[i] * b->term[a->first].coefficient, b->term[a->first].x};
        else
            term[terms++] = (struct term){coefficient[i], x[i]};
    }
    tape_node made = linear(b, term, terms, constant);
    if (term != few)
        memory_free(term);
    return made;
}

/* Takes a node's constant factor off.   out: *x the rest */
static double factor_of(const struct tape_builder *b, tape_node *x)
{
    const struct node *n = &b->node[*x];
    if (n->kind != LINEAR || n->terms != 1 || n->value != 0.0)
        return 1.0;
    *x = b->term[n->first].x;
    return b->term[n->first].coefficient;
}

tape_node tape_product(struct tape_builder *b, tape_node x, tape_node y)
{
    if (is_constant(b, x) || is_constant(b, y)) {
        tape_node other = is_constant(b, x) ? y : x;
        return tape_linear(b, 1, &b->node[is_constant(b, x) ? x : y].value, &other, 0.0);
    }
    double factor = factor_of(b, &x) * factor_of(b, &y);
    struct term term[2] = {{1.0, x < y ? x : y}, {1.0, x < y ? y : x}};
    tape_node made = intern(b, (struct node){.kind = PRODUCT, .terms = 2}, term);
    return tape_linear(b, 1, &factor, &made, 0.0);
}

static tape_node unary(struct tape_builder *b, enum kind kind, tape_node x)
{
    struct term term = {1.0, x};
    return intern(b, (struct node){.kind = kind, .terms = 1}, &term);
}

/* The last bits of exp are the C library's own, so that only exp(0) is folded. */
tape_node tape_exp(struct tape_builder *b, tape_node x)
{
    return is_constant(b, x) && b->node[x].value == 0.0 ? tape_constant(b, 1.0) : unary(b, EXP, x);
}

tape_node tape_log(struct tape_builder *b, tape_node x)
{
    return is_constant(b, x) ? tape_constant(b, stream_log(b->node[x].value)) : unary(b, LOG, x);
}

tape_node tape_reciprocal(struct tape_builder *b, tape_node x)
{
    return is_constant(b, x) ? tape_constant(b, 1.0 / b->node[x].value) : unary(b, RECIPROCAL, x);
}

tape_node tape_largest(struct tape_builder *b, int n, const tape_node *x)
{
    struct term *term = memory_new((size_t)n, sizeof *term);
    for (int i = 0; i < n; i++)
        term[i] = (struct term){1.0, x[i]};
    int kept = gather(term, n);
    for (int i = 0; i < kept; i++)
        term[i].coefficient = 1.0;
    tape_node made = kept == 1 ? term[0].x : intern(b, (struct node){.kind = LARGEST, .terms = kept}, term);
    memory_free(term);
    return made;
}

/* ---- gradient ---- */

/* What flows into the adjoint of a node, as a list of terms. */
struct flow {
    int n, room;
    struct term *term;
};

static void add_flow(struct flow *f, double coefficient, tape_node x)
{
    if (f->n == f->room) {
        int room = 2 * f->room + 4;
        f->term = memory_grow(f->term, (size_t)f->room, (size_t)room, sizeof *f->term);
        f->room = room;
    }
    f->term[f->n++] = (struct term){coefficient, x};
}

static tape_node adjoint(struct tape_builder *b, const struct flow *f)
{
    double *coefficient = memory_new((size_t)f->n + 1, sizeof *coefficient);
    tape_node *x = memory_new((size_t)f->n + 1, sizeof *x);
    for (int i = 0; i < f->n; i++) {
        coefficient[i] = f->term[i].coefficient;
        x[i] = f->term[i].x;
    }
    tape_node made = tape_linear(b, f->n, coefficient, x, 0.0);
    memory_free(coefficient);
    memory_free(x);
    return made;
}

/* From the adjoint of node i to those of what it is made of. */
static void flow_back(struct tape_builder *b, int i, tape_node up, struct flow *flow)
{
    const struct node n = b->node[i];
    for (int k = 0; k < n.terms; k++) {
        const struct term t = b->term[n.first + k];
        switch (n.kind) {
        case LINEAR: add_flow(&flow[t.x], t.coefficient, up); break;
        case PRODUCT: add_flow(&flow[t.x], 1.0, tape_product(b, up, b->term[n.first + 1 - k].x)); break;
        case EXP: add_flow(&flow[t.x], 1.0, tape_product(b, up, i)); break;
        case LOG: add_flow(&flow[t.x], 1.0, tape_product(b, up, tape_reciprocal(b, t.x))); break;
        case RECIPROCAL: add_flow(&flow[t.x], -1.0, tape_product(b, up, tape_product(b, i, i))); break;
        case CONSTANT:
        case INPUT:
        case LARGEST: break;
        }
    }
}

void tape_gradient(struct tape_builder *b, tape_node y, tape_node *gradient)
{
    struct flow *flow = memory_new((size_t)y + 1, sizeof *flow);
    add_flow(&flow[y], 1.0, tape_constant(b, 1.0));
    for (int i = y; i >= 0; i--) {
        if (i < b->inputs)
            gradient[i] = flow[i].n ? adjoint(b, &flow[i]) : b->inputs;
        else if (flow[i].n)
            flow_back(b, i, adjoint(b, &flow[i]), flow);
        memory_free(flow[i].term);
    }
    for (int i = y + 1; i < b->inputs; i++)
        gradient[i] = b->inputs;
    memory_free(flow);
}

/* ---- the program ---- */

/* Nodes become operations in the order in which they were made; a slot is free again after its number's last use. A product
 * that is used once, in a sum with coefficient 1 or -1, is a part of that sum. */
struct lowering {
    const struct tape_builder *b;
    int *uses, *last, *slot;         /* [nodes] */
    bool *inside;                    /* [nodes] a product that is part of the sum that uses it */
    int *vacant, vacancies, slots;
    struct tape *tape;
    size_t ops, terms;
};

static void mark_uses(struct lowering *l, int outputs, const tape_node *output)
{
    const struct tape_builder *b = l->b;
    for (int i = 0; i < outputs; i++)
        l->uses[output[i]]++;
    for (int i = b->nodes - 1; i >= 0; i--)
        for (int k = 0; k < b->node[i].terms && l->uses[i]; k++)
            l->uses[b->term[b->node[i].first + k].x]++;
    for (int i = 0; i < outputs; i++)
        l->uses[output[i]] += 2;     /* an output has a slot of its own */
    for (int i = 0; i < b->nodes; i++)
        for (int k = 0; k < b->node[i].terms && l->uses[i] && b->node[i].kind == LINEAR; k++) {
            const struct term *t = &b->term[b->node[i].first + k];
            l->inside[t->x] |= b->node[t->x].kind == PRODUCT && l->uses[t->x] == 1 && fabs(t->coefficient) == 1.0;
        }
}

/* The node at which each number is read for the last time. */
static void mark_last(struct lowering *l, int outputs, const tape_node *output)
{
    const struct tape_builder *b = l->b;
    for (int i = 0; i < b->nodes; i++)
        for (int k = 0; k < b->node[i].terms && l->uses[i] && !l->inside[i]; k++) {
            tape_node x = b->term[b->node[i].first + k].x;
            if (l->inside[x])
                for (int j = 0; j < 2; j++)
                    l->last[b->term[b->node[x].first + j].x] = i;
            else
                l->last[x] = i;
        }
    for (int i = 0; i < outputs; i++)
        l->last[output[i]] = b->nodes;
    for (int i = 0; i < b->inputs; i++)
        l->last[i] = b->nodes;
}

static void emit_term(struct lowering *l, struct kern_tape_term term) { l->tape->term[l->terms++] = term; }

static void release(struct lowering *l, tape_node x, int at)
{
    if (l->last[x] == at && l->slot[x] >= 0) {
        l->vacant[l->vacancies++] = l->slot[x];
        l->last[x] = -1;
    }
}

static void release_terms(struct lowering *l, int i)
{
    const struct tape_builder *b = l->b;
    for (int k = 0; k < b->node[i].terms; k++) {
        tape_node x = b->term[b->node[i].first + k].x;
        release(l, x, i);
        for (int j = 0; j < 2 && l->inside[x]; j++)
            release(l, b->term[b->node[x].first + j].x, i);
    }
}

static void emit_node(struct lowering *l, int i)
{
    static const int32_t code[] = {KERN_TAPE_LINEAR, 0, KERN_TAPE_LINEAR, KERN_TAPE_LINEAR, KERN_TAPE_EXP, KERN_TAPE_LOG,
                                   KERN_TAPE_RECIPROCAL, KERN_TAPE_LARGEST};
    const struct tape_builder *b = l->b;
    const struct node *n = &b->node[i];
    struct kern_tape_op op = {.code = code[n->kind], .first = (int32_t)l->terms, .constant = n->value};
    if (n->kind == PRODUCT)
        emit_term(l, (struct kern_tape_term){1.0, l->slot[b->term[n->first].x], l->slot[b->term[n->first + 1].x]});
    for (int k = 0; k < n->terms && n->kind != PRODUCT; k++) {
        const struct term *t = &b->term[n->first + k];
        const struct node *x = &b->node[t->x];
        if (l->inside[t->x])
            emit_term(l, (struct kern_tape_term){t->coefficient, l->slot[b->term[x->first].x], l->slot[b->term[x->first + 1].x]});
        else
            emit_term(l, (struct kern_tape_term){t->coefficient, l->slot[t->x], -1});
    }
    op.terms = (int32_t)l->terms - op.first;
    /* The result may not overwrite what is read. */
    l->slot[i] = l->vacancies ? l->vacant[--l->vacancies] : l->slots++;
    op.to = l->slot[i];
    l->tape->op[l->ops++] = op;
    release_terms(l, i);
}

static struct tape *lower(struct lowering *l, int outputs, const tape_node *output)
{
    const struct tape_builder *b = l->b;
    struct tape *t = l->tape = memory_new(1, sizeof *t);
    t->op = memory_new((size_t)b->nodes, sizeof *t->op);
    t->term = memory_new(b->terms + (size_t)b->nodes, sizeof *t->term);
    mark_uses(l, outputs, output);
    mark_last(l, outputs, output);
    for (int i = 0; i < b->nodes; i++) {
        l->slot[i] = i < b->inputs ? l->slots++ : -1;
        if (i >= b->inputs && l->uses[i] && !l->inside[i])
            emit_node(l, i);
    }
    t->inputs = b->inputs;
    t->outputs = outputs;
    t->output = memory_new((size_t)outputs, sizeof *t->output);
    for (int i = 0; i < outputs; i++)
        t->output[i] = l->slot[output[i]];
    t->program = (struct kern_tape){.ops = l->ops, .slots = (size_t)l->slots, .op = t->op, .term = t->term};
    return t;
}

struct tape *tape_end(struct tape_builder *b, int outputs, const tape_node *output)
{
    struct tape *t = NULL;
    if (!b->full) {
        size_t n = (size_t)b->nodes;
        struct lowering l = {.b = b, .uses = memory_new(n, sizeof(int)), .last = memory_new(n, sizeof(int)),
                             .slot = memory_new(n, sizeof(int)), .inside = memory_new(n, sizeof(bool)),
                             .vacant = memory_new(n, sizeof(int))};
        t = lower(&l, outputs, output);
        memory_free(l.uses);
        memory_free(l.last);
        memory_free(l.slot);
        memory_free(l.inside);
        memory_free(l.vacant);
    }
    tape_drop(b);
    return t;
}

void tape_free(struct tape *t)
{
    if (!t)
        return;
    memory_free(t->op);
    memory_free(t->term);
    memory_free(t->output);
    memory_free(t);
}
