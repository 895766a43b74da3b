#include "job/kinds.h"

#include "base/memory.h"
#include "job/shape.h"

#include <math.h>
#include <string.h>

/* ---- which runs read a key ---- */

static bool markov(const struct spec *s) { return s->task.kind == TASK_MARKOV; }
static bool blocklist(const struct spec *s) { return s->task.kind == TASK_BLOCKLIST; }
static bool recall(const struct spec *s) { return s->task.pattern == PATTERN_RECALL; }
static bool hop(const struct spec *s) { return s->task.pattern == PATTERN_HOP; }
static bool ngram(const struct spec *s) { return s->task.pattern == PATTERN_NGRAM; }
static bool sampled(const struct spec *s) { return markov(s) || s->task.expectation == EXPECTATION_SAMPLED; }

static bool decoder(const struct spec *s) { return s->model.kind == MODEL_DECODER; }
static bool manifold(const struct spec *s) { return s->model.kind == MODEL_MANIFOLD; }
static bool full(const struct spec *s) { return !manifold(s); }
static bool attention(const struct spec *s) { return !decoder(s); }
/* A block list has positions of its own; the decoder learns vectors of 0, 1, 2, ... all the same. */
static bool model_positions(const struct spec *s) { return decoder(s) || markov(s); }

static bool at_point(const struct spec *s) { return s->init.scheme == INIT_COORDINATES; }
static bool drawn_alone(const struct spec *s) { return !at_point(s); }

/* A key, or a section with its last dot, is read where all its rows hold. `by` is the key on which that depends. */
static const struct row {
    const char *path;
    bool (*reads)(const struct spec *s);
    const char *by;
} rows[] = {
    {"task.states", markov, "task.kind"},
    {"task.stay", markov, "task.kind"},
    {"task.length", markov, "task.kind"},
    {"task.pattern", blocklist, "task.kind"},
    {"task.blocks", blocklist, "task.kind"},
    {"task.hops", blocklist, "task.kind"},
    {"task.hops", hop, "task.pattern"},
    {"task.chains", blocklist, "task.kind"},
    {"task.chains", hop, "task.pattern"},
    {"task.order", blocklist, "task.kind"},
    {"task.order", ngram, "task.pattern"},
    {"task.burstiness", blocklist, "task.kind"},
    {"task.burstiness", recall, "task.pattern"},
    {"task.variability", blocklist, "task.kind"},
    {"task.variability", recall, "task.pattern"},
    {"task.common", blocklist, "task.kind"},
    {"task.rare_tokens", blocklist, "task.kind"},
    {"task.rare", blocklist, "task.kind"},
    {"task.layout", blocklist, "task.kind"},
    {"task.period", blocklist, "task.kind"},
    {"task.period", attention, "model.kind"},
    {"task.queried", blocklist, "task.kind"},
    {"task.expectation", blocklist, "task.kind"},
    {"task.sequences", sampled, "task.expectation"},
    {"task.test_sequences", sampled, "task.expectation"},
    {"train.batch", sampled, "task.expectation"},
    {"train.eval_sequences", sampled, "task.expectation"},
    {"train.positions", markov, "task.kind"},

    {"model.d_model", decoder, "model.kind"},
    {"model.d_head", decoder, "model.kind"},
    {"model.d_mlp", decoder, "model.kind"},
    {"model.norm", decoder, "model.kind"},
    {"model.bias", decoder, "model.kind"},
    {"model.activation", decoder, "model.kind"},
    {"model.dropout", decoder, "model.kind"},
    {"model.tied", decoder, "model.kind"},
    {"model.max_length", full, "model.kind"},
    {"model.max_length", model_positions, "task.kind"},
    {"model.embedding", attention, "model.kind"},
    {"model.self_attention", attention, "model.kind"},
    {"model.shifts", attention, "model.kind"},
    {"model.shifts", blocklist, "task.kind"},
    {"model.rare_identity", attention, "model.kind"},
    {"model.rare_identity", blocklist, "task.kind"},
    {"model.coordinates", attention, "model.kind"},
    {"model.coordinates", blocklist, "task.kind"},

    {"init.std", drawn_alone, "init.scheme"},
    {"init.coordinates", at_point, "init.scheme"},
    {"init.others", at_point, "init.scheme"},
    {"init.noise", at_point, "init.scheme"},
    {"init.scale.token", decoder, "model.kind"},
    {"init.scale.position", decoder, "model.kind"},
    {"init.scale.attention", full, "model.kind"},
    {"init.scale.query_key", full, "model.kind"},
    {"init.scale.value_output", decoder, "model.kind"},
    {"init.scale.mlp", decoder, "model.kind"},
    {"init.scale.unembedding", full, "model.kind"},

    {"train.metric", manifold, "model.kind"},
    {"train.plan", full, "model.kind"},
    {"train.gemm", full, "model.kind"},

    {"probe.ace.", full, "model.kind"},
    {"probe.manifold.", attention, "model.kind"},
    {"probe.manifold.", blocklist, "task.kind"},
    {"probe.circuit.", attention, "model.kind"},
    {"probe.circuit.", blocklist, "task.kind"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static const char *const deciding[] = {"task.kind", "task.pattern", "task.expectation", "model.kind", "init.scheme"};
enum { DECIDING = sizeof deciding / sizeof deciding[0] };

static bool is_of(const struct row *row, const struct key *k)
{
    size_t n = strlen(row->path);
    return row->path[n - 1] == '.' ? !strncmp(row->path, k->path, n) : !strcmp(row->path, k->path);
}

static const struct row *broken_row(const struct spec *s, const struct key *k)
{
    const struct key *whole = k->of ? k->of : k;
    for (int i = 0; i < ROWS; i++)
        if (is_of(&rows[i], whole) && !rows[i].reads(s))
            return &rows[i];
    return NULL;
}

bool kinds_reads(const struct spec *s, const struct key *k) { return !broken_row(s, k); }

const struct key *kinds_decided_by(const struct spec *s, const struct key *k)
{
    const struct row *row = broken_row(s, k);
    return row ? key_find(row->by) : NULL;
}

bool kinds_decides(const struct key *k)
{
    for (int i = 0; i < DECIDING; i++)
        if (!strcmp(k->path, deciding[i]))
            return true;
    return false;
}

/* Walks the product of the axes that decide. */
bool kinds_any_reads(const struct spec *spec, const struct axis *axis, int axes, const struct key *k)
{
    const struct axis *decides[JOB_AXES_MAX];
    int n = 0, at[JOB_AXES_MAX] = {0}, last;
    for (int a = 0; a < axes; a++)
        if (kinds_decides(axis[a].key))
            decides[n++] = &axis[a];
    if (n == 0)
        return kinds_reads(spec, k);
    struct spec *s = memory_new(1, sizeof *s);
    *s = *spec;
    bool found;
    do {
        for (int a = 0; a < n; a++)
            key_set(s, decides[a]->key, decides[a]->value[at[a]]);
        found = kinds_reads(s, k);
        last = n - 1;
        while (last >= 0 && ++at[last] == decides[last]->count)
            at[last--] = 0;
    } while (!found && last >= 0);
    memory_free(s);
    return found;
}

bool kinds_on_manifold(const struct spec *s)
{
    bool probed = s->probe_manifold.coordinates || s->probe_manifold.gradient || s->probe_manifold.winner ||
                  s->probe_circuit.budget > 0.0 || strcmp(s->model.coordinates, "all") != 0;
    return manifold(s) || (attention(s) && (at_point(s) || (blocklist(s) && probed)));
}

bool kinds_draws(const struct spec *s) { return sampled(s); }

double kinds_width(const struct spec *s, double vocabulary, int64_t layer)
{
    if (decoder(s))
        return (double)s->model.d_model;
    int own = shape_of(s).positions;
    double positions = own ? own : (double)s->model.max_length;
    return (vocabulary + positions) * pow(1.0 + (double)s->model.heads, (double)layer);
}
