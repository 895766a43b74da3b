#include "run/probes.h"

#include "base/log.h"
#include "base/memory.h"
#include "job/manifold.h"
#include "probe/ace.h"
#include "probe/circuit.h"
#include "probe/manifold.h"

#include <string.h>

enum { AT_END = -1 };

static bool wants_manifold(const struct spec *s)
{
    return s->probe_manifold.coordinates || s->probe_manifold.gradient || s->probe_manifold.winner;
}

enum status probes_check(const struct training *t)
{
    int64_t layer = t->spec->probe_ace.layer;
    if (layer > model_layers(t->model))
        return status_fail(STATUS_JOB, "probe.ace.layer is %lld, but the model has %d blocks: use 1 .. %d, or 0 for no "
                           "core", (long long)layer, model_layers(t->model), model_layers(t->model));
    const struct key_list *at = &t->spec->probe.at;
    const bool looks = layer || wants_manifold(t->spec) || t->spec->probe_circuit.budget > 0.0;
    for (int i = 0; looks && i < at->count; i++)
        if (at->value[i] > (int64_t)t->steps)
            log_line(LOG_WARNING, "probe.at names step %lld, but the training ends after %llu", (long long)at->value[i],
                     (unsigned long long)t->steps);
    return STATUS_OK;
}

bool probes_due(const struct training *t)
{
    const struct key_list *at = &t->spec->probe.at;
    for (int i = 0; i < at->count; i++)
        if (at->value[i] == (int64_t)t->step || (at->value[i] == AT_END && t->over))
            return true;
    return false;
}

static double *copy(const double *from, size_t n)
{
    if (!from)
        return NULL;
    return memcpy(memory_new(n, sizeof *from), from, n * sizeof *from);
}

/* The first `rank` of the d columns. */
static double *copy_basis(const double *from, size_t d, size_t rank)
{
    double *to = memory_new(d * rank, sizeof *to);
    for (size_t i = 0; i < d && from; i++)
        memcpy(to + i * rank, from + i * d, rank * sizeof *to);
    return to;
}

static double *copy_or_zero(const double *from, size_t n) { return from ? copy(from, n) : memory_new(n, sizeof *from); }

static struct record_probe take(const struct ace *a, int64_t step)
{
    size_t d = (size_t)a->d, rank = (size_t)a->rank, fitted = (size_t)a->operator_rank;
    return (struct record_probe){
        .step = step, .d = a->d, .rank = a->rank, .sufficient = a->sufficient, .necessary = a->necessary,
        .core_dim = a->core_dim, .operator_rank = a->operator_rank, .samples = (int64_t)a->samples,
        .accuracy = a->accuracy, .accuracy_core_only = a->accuracy_core_only,
        .accuracy_core_removed = a->accuracy_core_removed, .r2 = a->r2, .r2_oracle_ratio = a->r2_oracle_ratio,
        .weight = copy_or_zero(a->weight, d), .basis = copy_basis(a->basis, d, rank), .mean = copy_or_zero(a->mean, d),
        .operator_matrix = copy_or_zero(a->operator_matrix, fitted * fitted),
        .eigenvalue = copy_or_zero((const double *)a->eigenvalue, 2 * fitted),
        .eigenvalue_error = copy_or_zero(a->eigenvalue_error, fitted),
        .coordinates = copy(a->coordinates, a->samples * rank), .activations = copy(a->activations, a->samples * d)};
}

static enum status look_ace(struct training *t)
{
    struct ace a = {0};
    enum status status = ace_extract(t->model, t->task, t->spec, &a);
    if (status == STATUS_OK) {
        struct record *r = &t->record;
        r->probe = memory_grow(r->probe, (size_t)r->probes, (size_t)r->probes + 1, sizeof *r->probe);
        r->probe[r->probes++] = take(&a, (int64_t)t->step);
    }
    ace_clear(&a);
    return status;
}

/* ---- on the invariant manifold ---- */

static enum status look_manifold(struct training *t)
{
    struct record *r = &t->record;
    struct record_manifold m;
    enum status status = manifold_look(t->spec, t->seed, t->task, t->model, &m);
    if (status != STATUS_OK) {
        manifold_clear(&m);
        return status;
    }
    m.step = (int64_t)t->step;
    r->manifold = memory_grow(r->manifold, (size_t)r->manifolds, (size_t)r->manifolds + 1, sizeof m);
    r->manifold[r->manifolds++] = m;
    return STATUS_OK;
}

static enum status look_circuit(struct training *t)
{
    struct record *r = &t->record;
    struct record_circuit c = {0};
    struct manifold *named;
    enum status status = manifold_new(t->spec, &named);
    if (status != STATUS_OK)
        return status;
    double *value = memory_new((size_t)named->coordinates, sizeof *value);
    status = manifold_values(t->spec, t->model, value);
    if (status == STATUS_OK)
        status = circuit_find(t->spec, t->task, value, &c);
    memory_free(value);
    manifold_free(named);
    if (status != STATUS_OK) {
        circuit_clear(&c);
        return status;
    }
    c.step = (int64_t)t->step;
    r->circuit = memory_grow(r->circuit, (size_t)r->circuits, (size_t)r->circuits + 1, sizeof c);
    r->circuit[r->circuits++] = c;
    return STATUS_OK;
}

enum status probes_look(struct training *t)
{
    const struct spec *s = t->spec;
    enum status status = s->probe_ace.layer ? look_ace(t) : STATUS_OK;
    if (status == STATUS_OK && wants_manifold(s))
        status = look_manifold(t);
    if (status == STATUS_OK && s->probe_circuit.budget > 0.0)
        status = look_circuit(t);
    return status == STATUS_OK ? status : status_context(status, "probe after step %llu", (unsigned long long)t->step);
}
