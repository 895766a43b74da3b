#include "store/record_code.h"

#include "base/memory.h"
#include "store/record_sets.h"
#include "store/tile_fields.h"

#include <stdbool.h>
#include <string.h>

/* One walk over all fields serves writing and reading, so the two cannot differ. */
struct walk {
    struct text *out;            /* writing: where to; NULL when reading */
    const unsigned char *at;     /* reading: where from */
    size_t left;
    bool bad;                    /* reading: the bytes do not suffice */
};

static void bytes(struct walk *w, void *p, size_t n)
{
    if (w->out)
        text_add_bytes(w->out, p, n);
    else if (w->bad || n > w->left)
        w->bad = true;
    else {
        memcpy(p, w->at, n);
        w->at += n;
        w->left -= n;
    }
}

/* An array of `count` elements that may be absent: a byte says whether it is there. */
static void array(struct walk *w, void **p, size_t count, size_t size)
{
    unsigned char there = *p != NULL;
    bytes(w, &there, 1);
    if (!there || w->bad)
        return;
    if (!w->out) {
        if (count > w->left / size) {
            w->bad = true;
            return;
        }
        *p = memory_new(count, size);
    }
    bytes(w, *p, count * size);
}

#define FIELD(w, x) bytes(w, &(x), sizeof(x))
#define ARRAY(w, p, count)                           \
    do {                                             \
        void *array_p = p;                           \
        array(w, &array_p, count, sizeof *(p));      \
        p = array_p;                                 \
    } while (0)

/* A count read from the bytes is a length only when it is not negative. */
static size_t length(struct walk *w, int n)
{
    if (n < 0)
        w->bad = true;
    return n < 0 ? 0 : (size_t)n;
}

static void walk_curves(struct walk *w, struct record_curves *c)
{
    FIELD(w, c->points);
    size_t n = length(w, c->points);
    ARRAY(w, c->step, n);
    ARRAY(w, c->loss_train, n);
    ARRAY(w, c->loss_test, n);
    ARRAY(w, c->accuracy_train, n);
    ARRAY(w, c->accuracy_test, n);
}

static void walk_probe(struct walk *w, struct record_probe *p)
{
    FIELD(w, p->step);
    FIELD(w, p->d);
    FIELD(w, p->rank);
    FIELD(w, p->sufficient);
    FIELD(w, p->necessary);
    FIELD(w, p->core_dim);
    FIELD(w, p->operator_rank);
    FIELD(w, p->samples);
    FIELD(w, p->accuracy);
    FIELD(w, p->accuracy_core_only);
    FIELD(w, p->accuracy_core_removed);
    FIELD(w, p->r2);
    FIELD(w, p->r2_oracle_ratio);
    size_t d = length(w, p->d), rank = length(w, p->rank), a = length(w, p->operator_rank), samples = 0;
    if (p->samples < 0 || p->samples > INT32_MAX)
        w->bad = true;
    else
        samples = (size_t)p->samples;
    ARRAY(w, p->weight, d);
    ARRAY(w, p->basis, d * rank);
    ARRAY(w, p->mean, d);
    ARRAY(w, p->operator_matrix, a * a);
    ARRAY(w, p->eigenvalue, a * 2);
    ARRAY(w, p->eigenvalue_error, a);
    ARRAY(w, p->coordinates, samples * rank);
    ARRAY(w, p->activations, samples * d);
}

size_t record_code_weights(const struct record *r)
{
    size_t n = 0;
    for (int i = 0; i < r->tensors; i++)
        n += (size_t)r->tensor[i].rows * (size_t)r->tensor[i].cols;
    return n;
}

static void walk_weights(struct walk *w, struct record *r)
{
    FIELD(w, r->tensors);
    FIELD(w, r->element_size);
    ARRAY(w, r->tensor, length(w, r->tensors));
    for (int i = 0; i < r->tensors && !w->bad && r->tensor; i++)
        if (r->tensor[i].rows < 0 || r->tensor[i].cols < 0)
            w->bad = true;
    if (w->bad)
        return;
    size_t count = r->tensor ? record_code_weights(r) : 0;
    array(w, &r->weights, count, (size_t)(r->element_size == 8 ? 8 : 4));
}

static void walk_probes(struct walk *w, struct record *r)
{
    int probes = r->probes;
    FIELD(w, probes);
    size_t n = length(w, probes);
    if (!w->out && !w->bad && n <= w->left) {      /* a probe takes more than a byte */
        r->probe = memory_new(n, sizeof *r->probe);
        r->probes = probes;
    }
    w->bad = w->bad || r->probes != probes;
    for (int i = 0; i < r->probes && !w->bad; i++)
        walk_probe(w, &r->probe[i]);
}

static void walk_element(struct walk *w, const struct record_set *s, void *element)
{
    for (int k = 0; k < s->scalars && !w->bad; k++)
        bytes(w, (char *)element + s->field[k].offset, tile_type_size(s->field[k].type));
    for (int k = s->scalars; k < s->fields && !w->bad; k++) {
        const struct set_field *f = &s->field[k];
        int64_t n = record_set_length(s, element, f->extent);
        void *p = record_set_array(f, element);
        w->bad = n < 0;
        if (w->bad)
            return;
        array(w, &p, (size_t)n, tile_type_size(f->type));
        if (!w->out)
            record_set_put_array(f, element, p);
    }
}

static void walk_set(struct walk *w, const struct record_set *s, struct record *r)
{
    int count = record_set_count(s, r);
    FIELD(w, count);
    size_t n = length(w, count);
    if (!w->out && !w->bad && n && n <= w->left)       /* an element takes more than a byte */
        record_set_new(s, r, count);
    w->bad = w->bad || record_set_count(s, r) != count;
    for (int i = 0; i < count && !w->bad; i++)
        walk_element(w, s, record_set_at(s, r, i));
}

static void walk_record(struct walk *w, struct record *r)
{
    FIELD(w, r->id);
    FIELD(w, r->seed);
    FIELD(w, r->outcome);
    FIELD(w, r->steps);
    FIELD(w, r->last_finite_step);
    FIELD(w, r->wall_time);
    FIELD(w, r->restarts);
    FIELD(w, r->loss_train);
    FIELD(w, r->loss_test);
    FIELD(w, r->accuracy_train);
    FIELD(w, r->accuracy_test);
    walk_curves(w, &r->curves);
    walk_probes(w, r);
    for (int i = 0; i < RECORD_SETS && !w->bad; i++)
        walk_set(w, &record_sets[i], r);
    FIELD(w, r->emergence_step);
    FIELD(w, r->coordinates);
    ARRAY(w, r->coordinate_step, length(w, r->coordinates));
    walk_weights(w, r);
    int error_length = r->error ? (int)strlen(r->error) + 1 : 0;
    FIELD(w, error_length);
    ARRAY(w, r->error, length(w, error_length));
    if (!w->out && r->error && (error_length < 1 || r->error[error_length - 1]))
        w->bad = true;
}

void record_code_write(struct text *out, const struct record *r)
{
    struct walk w = {.out = out};
    struct record copy = *r;     /* writing changes nothing; the walk is not const because reading does */
    walk_record(&w, &copy);
}

enum status record_code_read(const void *p, size_t n, struct record *r, size_t *used)
{
    struct walk w = {.at = p, .left = n};
    struct record read = {0};
    walk_record(&w, &read);
    if (!w.bad) {
        read.id[sizeof read.id - 1] = '\0';
        w.bad = (int)read.outcome < 0 || read.outcome >= OUTCOME_COUNT;
    }
    if (w.bad) {
        record_clear(&read);
        return status_fail(STATUS_CORRUPT, "a finished run in a checkpoint is cut or damaged");
    }
    *r = read;
    *used = n - w.left;
    return STATUS_OK;
}
