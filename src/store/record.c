#include "store/record.h"

#include "base/memory.h"
#include "store/record_sets.h"

static void clear_probe(struct record_probe *p)
{
    memory_free(p->weight);
    memory_free(p->basis);
    memory_free(p->mean);
    memory_free(p->operator_matrix);
    memory_free(p->eigenvalue);
    memory_free(p->eigenvalue_error);
    memory_free(p->coordinates);
    memory_free(p->activations);
}

static void clear_set(const struct record_set *s, struct record *r)
{
    const int n = record_set_count(s, r);
    for (int i = 0; i < n; i++)
        for (int k = s->scalars; k < s->fields; k++)
            memory_free(record_set_array(&s->field[k], record_set_at(s, r, i)));
    if (n)
        memory_free(record_set_at(s, r, 0));
}

void record_clear(struct record *r)
{
    memory_free(r->curves.step);
    memory_free(r->curves.loss_train);
    memory_free(r->curves.loss_test);
    memory_free(r->curves.accuracy_train);
    memory_free(r->curves.accuracy_test);
    for (int i = 0; i < r->probes; i++)
        clear_probe(&r->probe[i]);
    memory_free(r->probe);
    for (int i = 0; i < RECORD_SETS; i++)
        clear_set(&record_sets[i], r);
    memory_free(r->coordinate_step);
    memory_free(r->tensor);
    memory_free(r->weights);
    memory_free(r->error);
    *r = (struct record){0};
}
