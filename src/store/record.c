#include "store/record.h"

#include "base/memory.h"

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
    memory_free(r->tensor);
    memory_free(r->weights);
    memory_free(r->error);
    *r = (struct record){0};
}
