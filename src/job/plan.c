#include "job/plan.h"

#include "base/memory.h"
#include "job/kinds.h"
#include "job/manifold.h"
#include "job/refine.h"
#include "job/shape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A tile of short runs holds about this much work, so that ranks end together; a run that takes longer has a tile of its
 * own. */
#define TILE_SECONDS 1.0
#define LONG_RUN_SECONDS 1.0
/* What a core does of the small relations of a manifold model. */
#define MANIFOLD_FLOPS_PER_SECOND 1e10
/* Operations of the program of a pattern, for each coordinate (model/manifold_tape.h; measured: 10 to 30). */
#define MANIFOLD_OPERATIONS 32.0
/* Runs of a manifold model that one core advances together. */
#define MANIFOLD_LANES 8.0
/* What a run takes beside its arithmetic: data, buffers, its place in the tile file. */
#define RUN_SECONDS 4e-4
#define MANIFOLD_RUN_SECONDS 1e-4
#define TILES_MAX 4000

/* Memory that every rank has before it begins: program, MPI, libraries. */
#define PROCESS_BYTES 40e6
/* Activations of one batch are worked through in pieces of at most this size. */
#define ACTIVATION_BYTES 2e6
/* Names, attributes and indices of one NetCDF-4 file. */
#define FILE_BYTES 60e3
/* The report with its figures. */
#define REPORT_BYTES 3e6

/* Steps saturate here: no training is that long, and everything computed from them stays finite and in range. */
#define STEPS_MAX ((int64_t)1 << 53)

/* What is enumerated is taken whole by every step, and where new sequences are drawn at every step there is no set to pass
 * over: an epoch is one step. */
int64_t plan_epoch_steps(const struct spec *s)
{
    int64_t batch = s->train.batch;
    if (!kinds_draws(s) || s->task.sequences == 0 || batch == 0)
        return 1;
    return (s->task.sequences + batch - 1) / batch;
}

int64_t plan_steps(const struct spec *s)
{
    int64_t steps;
    if (s->train.steps > 0)
        return s->train.steps;
    if (__builtin_mul_overflow(s->train.epochs, plan_epoch_steps(s), &steps) || steps > STEPS_MAX)
        return STEPS_MAX;
    return steps;
}

/* ---- one run ---- */

struct sizes {
    double length, rows, d, inner, classes, vocabulary;     /* per sequence; inner = heads * d_head */
    double train, test;                                      /* sequences of the sets */
    double parameters, element;
    double forward;                                          /* flops of one sequence */
    double downstream;                                       /* the part of it above the probed block */
    double samples, rank;                                    /* probe inputs, expected core dimension */
    double activations;                                      /* bytes that one sequence takes beyond the usual */
    double coordinates, circuits;                            /* of the manifold, where the run needs it */
    double own_positions;                                    /* 1 where a sequence has positions and a weight of its own */
};

static double mlp_width(const struct spec *s, int64_t block)
{
    const struct key_list *w = &s->model.d_mlp;
    return w->count == 0 ? 0.0 : (double)w->value[w->count == 1 || block >= w->count ? 0 : block];
}

/* Matrix products of one block for one sequence, a multiply-add counted as two. Attention is counted whole, without the
 * half that the causal mask leaves out. */
static double block_flops(const struct sizes *z, double mlp)
{
    double projections = 4.0 * 2.0 * z->length * z->d * z->inner;
    double attention = 2.0 * 2.0 * z->length * z->length * z->inner;
    return projections + attention + 2.0 * 2.0 * z->length * z->d * mlp;
}

static double block_parameters(const struct spec *s, const struct sizes *z, double mlp)
{
    double weights = 4.0 * z->d * z->inner + 2.0 * z->d * mlp;
    double biases = s->model.bias ? 3.0 * z->inner + z->d + (mlp > 0.0 ? mlp + z->d : 0.0) : 0.0;
    double norms = s->model.norm == NORM_NONE ? 0.0 : 2.0 * z->d * (mlp > 0.0 ? 2.0 : 1.0);
    return weights + biases + norms;
}

static void decoder_sizes(const struct spec *s, struct sizes *out)
{
    struct sizes z = *out;
    double head = s->model.d_head > 0 ? (double)s->model.d_head : floor(z.d / (double)s->model.heads);
    z.inner = head * (double)s->model.heads;
    z.parameters = (z.vocabulary + (double)s->model.max_length) * z.d;
    z.parameters += (s->model.tied ? 0.0 : z.d * z.classes) + (s->model.bias ? z.classes : 0.0);
    z.parameters += s->model.norm == NORM_PRE ? 2.0 * z.d : 0.0;
    z.forward = z.downstream = 2.0 * z.rows * z.d * z.classes;
    for (int64_t b = 0; b < s->model.layers; b++) {
        double flops = block_flops(&z, mlp_width(s, b));
        z.forward += flops;
        z.downstream += b >= s->probe_ace.layer ? flops : 0.0;
        z.parameters += block_parameters(s, &z, mlp_width(s, b));
    }
    *out = z;
}

/* Each head of a block has one square matrix; its scores and what it writes are as wide as the stream before it. */
static void attention_only_sizes(const struct spec *s, struct sizes *z)
{
    double heads = (double)s->model.heads, d = kinds_width(s, z->vocabulary, 0);
    for (int64_t b = 0; b < s->model.layers; b++, d *= 1.0 + heads) {
        double flops = heads * (2.0 * z->length * d * d + 2.0 * 2.0 * z->length * z->length * d);
        z->forward += flops;
        z->downstream += b >= s->probe_ace.layer ? flops : 0.0;
        z->parameters += heads * d * d;
        z->activations += z->element * z->length * heads * (d + z->length);
    }
    z->parameters += d * z->classes;
    z->forward += 2.0 * z->rows * d * z->classes;
    z->downstream += 2.0 * z->rows * d * z->classes;
    z->activations += 2.0 * z->element * z->length * d;
}

/* Relations between the positions of a sequence: one for each coordinate, added to the scores, and what each head passes
 * on, a product of two of them. Runs are advanced side by side, so the activations of some wait for each other. */
static void manifold_sizes(struct sizes *z)
{
    z->parameters = z->coordinates;
    z->forward = MANIFOLD_OPERATIONS * z->coordinates;
    z->activations = MANIFOLD_LANES * 8.0 * z->forward * z->train;
}

static struct sizes sizes_of(const struct spec *s)
{
    struct task_shape shape = shape_of(s);
    struct sizes z = {.length = shape.length, .vocabulary = shape.vocabulary, .classes = shape.classes};
    z.rows = shape.looked ? shape.looked : shape.length;
    z.own_positions = shape.positions > 0;
    z.train = shape_sequences(s, false);
    z.test = shape_sequences(s, true);
    z.element = s->model.precision == PRECISION_FLOAT64 ? 8.0 : 4.0;
    if (s->probe_ace.layer > 0 || s->model.kind == MODEL_DECODER)
        z.d = kinds_width(s, z.vocabulary, s->probe_ace.layer);
    if (kinds_on_manifold(s)) {
        z.coordinates = manifold_count(s);
        z.circuits = manifold_circuits((int)s->model.layers);
    }
    switch ((enum model_kind)s->model.kind) {
    case MODEL_DECODER: decoder_sizes(s, &z); break;
    case MODEL_ATTENTION_ONLY: attention_only_sizes(s, &z); break;
    case MODEL_MANIFOLD: manifold_sizes(&z); break;
    }
    z.samples = z.test * z.rows;
    z.rank = s->probe_ace.rank > 0 ? (double)s->probe_ace.rank : fmin(z.d, z.classes - 1.0);
    return z;
}

/* Points of the learning curves: step 0, every eval_every steps, and the last step. */
static double curve_points(const struct spec *s)
{
    int64_t steps = plan_steps(s), every = s->train.eval_every > 0 ? s->train.eval_every : plan_epoch_steps(s);
    if (s->model.kind == MODEL_MANIFOLD && s->train.eval_every == 0)
        return 2.0;
    return 1.0 + (double)(steps / every) + (steps % every ? 1.0 : 0.0);
}

/* Sequences that all steps of the training take. */
static double trained_sequences(const struct spec *s, const struct sizes *z)
{
    int64_t steps = plan_steps(s), epoch = plan_epoch_steps(s), left = steps % epoch;
    double batch = s->train.batch > 0 ? (double)s->train.batch : z->train;
    if (!kinds_draws(s))
        return (double)steps * z->train;
    if (s->task.sequences == 0)
        return (double)steps * batch;
    return (double)(steps / epoch) * z->train + fmin((double)left * batch, z->train);
}

/* Forward and backward: the backward pass has two products for each one of the forward pass. */
static double training_flops(const struct spec *s, const struct sizes *z)
{
    return 3.0 * z->forward * trained_sequences(s, z);
}

static double evaluation_flops(const struct spec *s, const struct sizes *z)
{
    double all = z->train + z->test;
    double some = s->train.eval_sequences > 0 && kinds_draws(s) ? 2.0 * (double)s->train.eval_sequences : all;
    return z->forward * ((curve_points(s) - 1.0) * some + all);
}

/* One look of the ACE probe: activations, a backward pass from the logits for each class, two d x d moment matrices,
 * three factorisations of some 25 d^3, and about ten ablated evaluations. */
static double ace_flops(const struct spec *s, const struct sizes *z)
{
    if (s->probe_ace.layer == 0 || s->model.kind == MODEL_MANIFOLD)
        return 0.0;
    double moments = 2.0 * z->samples * z->d * z->d * (1.0 + z->classes);
    double gradient = 2.0 * z->test * z->downstream * z->classes;
    return z->test * z->forward * 11.0 + gradient + moments + 75.0 * z->d * z->d * z->d;
}

/* One look of the manifold probe, of two gradients and of each circuit's ablation; and one search of a circuit, in which
 * every coordinate is left out once for each that is dropped, while most of the model is kept. */
static double manifold_flops(const struct spec *s, const struct sizes *z)
{
    if (z->coordinates == 0.0)
        return 0.0;
    double passes = (s->probe_manifold.gradient ? 6.0 : 0.0) + (s->probe_manifold.winner ? z->circuits + 2.0 : 0.0);
    double projection = s->probe_manifold.coordinates ? 4.0 * z->parameters : 0.0;
    double search = s->probe_circuit.budget > 0.0 ? (double)s->probe_circuit.sequences * 16.0 * z->length * z->length *
                    z->coordinates * z->coordinates : 0.0;
    return passes * z->forward * z->train + projection + search;
}

static double ace_bytes(const struct spec *s, const struct sizes *z)
{
    if (s->probe_ace.layer == 0 || s->model.kind == MODEL_MANIFOLD)
        return 0.0;
    double kept = s->probe_ace.store == STORE_NONE ? 0.0 : z->samples * z->rank;
    if (s->probe_ace.store == STORE_ACTIVATIONS)
        kept += z->samples * z->d;
    return 8.0 * (kept + z->d * (2.0 + z->rank) + z->rank * (z->rank + 3.0));
}

static double manifold_bytes(const struct spec *s, const struct sizes *z)
{
    double values = s->probe_manifold.coordinates ? z->coordinates + (double)s->model.layers + 1.0 : 0.0;
    values += s->probe_manifold.gradient ? 2.0 * z->coordinates + 1.0 : 0.0;
    values += s->probe_manifold.winner ? z->circuits + 4.0 : 0.0;
    values += s->probe_circuit.budget > 0.0 ? 4.0 * z->coordinates : 0.0;
    return z->coordinates > 0.0 ? 8.0 * values : 0.0;
}

/* Both sets of sequences, and the order of the training set; positions and weights where the task has them. */
static double data_bytes(const struct sizes *z)
{
    double sequence = 4.0 * (z->length + 1.0) + z->own_positions * (4.0 * z->length + 8.0);
    return sequence * (z->train + z->test) + 8.0 * z->train;
}

/* Activations of all probe inputs at the probed layer in double, and the d x d matrices of the core. */
static double layer_bytes(const struct spec *s, const struct sizes *z)
{
    bool probed = s->probe_ace.layer > 0 && s->model.kind != MODEL_MANIFOLD;
    return probed ? 8.0 * z->d * (z->samples + 10.0 * z->d) : 0.0;
}

struct cost plan_cost(const struct spec *s)
{
    struct sizes z = sizes_of(s);
    double looks = s->probe.at.count, curves = 5.0 * 8.0 * curve_points(s);
    double weights = z.parameters * z.element;
    double moments = s->train.optimizer == OPTIMIZER_ADAMW ? 2.0 : 1.0;
    double data = data_bytes(&z), probing = looks > 0.0 ? layer_bytes(s, &z) : 0.0;
    struct cost c = {.parameters = z.parameters, .steps = (double)plan_steps(s)};
    c.flops = training_flops(s, &z) + evaluation_flops(s, &z) + looks * (ace_flops(s, &z) + manifold_flops(s, &z));
    c.seconds = (s->model.kind == MODEL_MANIFOLD ? MANIFOLD_RUN_SECONDS : RUN_SECONDS) +
                c.flops / (s->model.kind == MODEL_MANIFOLD ? MANIFOLD_FLOPS_PER_SECOND : PLAN_FLOPS_PER_SECOND);
    c.disk = weights + curves + looks * (ace_bytes(s, &z) + manifold_bytes(s, &z)) + 8.0 * z.coordinates + 512.0;
    /* weights, gradient, moments; the state that is being written as a checkpoint; data, activations; packed weights where
     * they are large; activations of all probe inputs in double; the record */
    double packed = s->model.kind == MODEL_ATTENTION_ONLY ? 2.0 * weights : 0.0;
    c.memory = PROCESS_BYTES + weights * (2.0 + moments) + weights * (1.0 + moments) + data + packed +
               fmax(ACTIVATION_BYTES, z.activations) + probing + c.disk;
    return c;
}

/* ---- tiles ---- */

/* Runs of a tile until it is full, or the level of a refined map is. in: seconds[points of the axes]; `least`: runs that
 * every tile must have so that there are not too many files. */
static size_t tile_count(const struct job *job, const double *seconds, size_t first, size_t least)
{
    size_t runs = refine_level_end(job, first), count = 0, fixed = (size_t)job->spec.store.tile_runs;
    double sum = 0.0;
    while (first + count < runs) {
        double next = seconds[refine_point_of(job, first + count)];
        if (fixed ? count == fixed : count >= least && count > 0 && (next >= LONG_RUN_SECONDS || sum >= TILE_SECONDS))
            break;
        sum += next;
        count++;
        if (!fixed && count >= least && next >= LONG_RUN_SECONDS)
            break;
    }
    return count;
}

static void tile_finish(const struct job *job, struct job_ids *ids, const double *seconds, struct plan_tile *t)
{
    char *id = memory_new(t->count, HASH_TEXT);
    for (size_t i = 0; i < t->count; i++) {
        t->seconds += seconds[refine_point_of(job, t->first + i)];
        job_ids_of(ids, t->first + i, id + i * HASH_TEXT);
    }
    hash_print(hash_bytes(id, t->count * HASH_TEXT), t->id);
    memory_free(id);
}

static void make_tiles(const struct job *job, const double *seconds, struct plan *p)
{
    size_t least = (p->runs + TILES_MAX - 1) / TILES_MAX, capacity = 0;
    struct job_ids *ids = job_ids_new(job);
    for (size_t first = 0; first < p->runs;) {
        if (p->tiles == capacity) {
            size_t more = 2 * capacity + 64;
            p->tile = memory_grow(p->tile, capacity, more, sizeof *p->tile);
            capacity = more;
        }
        struct plan_tile *t = &p->tile[p->tiles++];
        t->first = first;
        t->count = tile_count(job, seconds, first, least);
        tile_finish(job, ids, seconds, t);
        first += t->count;
    }
    job_ids_free(ids);
}

/* ---- gather ---- */

/* Coordinates and bases of all runs side by side, N x (K r), and what their exact products need again: four times; the
 * products, (K r)^2; the record that is being read; and of one run the factors of its basis, three times N x r, and the model
 * whose layer is ablated through the consensus. */
static double gather_bytes(const struct job *job, double runs, double largest_record)
{
    const struct spec *s = &job->spec;
    struct sizes z = sizes_of(s);
    if (s->probe_ace.layer == 0 || !s->gather_cca.pairs || s->probe_ace.store == STORE_NONE || s->probe.at.count == 0)
        return PROCESS_BYTES + ACTIVATION_BYTES + largest_record;
    double ranks = (double)(s->gather.grid.value[0] * s->gather.grid.value[1]), columns = runs * z.rank;
    double one = 3.0 * 8.0 * z.samples * z.rank + layer_bytes(s, &z) + data_bytes(&z) + z.parameters * z.element;
    return PROCESS_BYTES + ACTIVATION_BYTES + largest_record + one +
           8.0 * (4.0 * z.samples * columns + 3.0 * columns * columns) / ranks;
}

/* runs.nc, cross_run.nc (four values per pair and component, three per pair), phase_map.nc, and the report. */
static double result_bytes(const struct job *job, double runs, double points)
{
    const struct spec *s = &job->spec;
    struct sizes z = sizes_of(s);
    double record = 5.0 * curve_points(s) + z.d + 40.0 + (double)s->probe.at.count * manifold_bytes(s, &z) / 8.0;
    double bytes = REPORT_BYTES + FILE_BYTES + 8.0 * runs * record;
    if (s->probe_ace.layer > 0 && s->gather_cca.pairs)
        bytes += FILE_BYTES + 8.0 * runs * runs * (4.0 * z.rank + 3.0);
    if (job->axes > 0)
        bytes += FILE_BYTES + 8.0 * points * 100.0;
    return bytes;
}

/* runs.nc and report.html always, cross_run.nc with pairs, phase_map.nc with axes. */
static size_t result_files(const struct job *job)
{
    bool pairs = job->spec.probe_ace.layer > 0 && job->spec.gather_cca.pairs;
    return 2u + pairs + (job->axes > 0);
}

struct plan *plan_new(const struct job *job)
{
    struct plan *p = memory_new(1, sizeof *p);
    struct spec *spec = memory_new(1, sizeof *spec);
    p->runs = job_runs(job);
    size_t points = p->runs / (size_t)job->seeds;
    double *seconds = memory_new(points, sizeof *seconds), record = 0.0, disk = 0.0;
    for (size_t i = 0; i < points; i++) {
        uint64_t seed;
        job_run(job, refine_run(job, i, 0), spec, &seed);
        struct cost c = plan_cost(spec);
        seconds[i] = c.seconds;
        p->seconds += c.seconds * job->seeds;
        p->memory = fmax(p->memory, c.memory);
        record = fmax(record, c.disk);
        disk += c.disk * job->seeds;
    }
    make_tiles(job, seconds, p);
    size_t most = 0;
    for (size_t t = 0; t < p->tiles; t++)
        most = p->tile[t].count > most ? p->tile[t].count : most;
    p->memory += record * (double)(most - 1);      /* the finished runs of a tile wait for the last one */
    p->disk = disk + FILE_BYTES * (double)p->tiles + result_bytes(job, (double)p->runs, (double)points);
    p->files = p->tiles + result_files(job);
    p->gather_memory = gather_bytes(job, (double)p->runs, record);
    memory_free(seconds);
    memory_free(spec);
    return p;
}

void plan_free(struct plan *p)
{
    if (!p)
        return;
    memory_free(p->tile);
    memory_free(p);
}

struct timed {
    double seconds;
    size_t number;
};

static int longest_first(const void *a, const void *b)
{
    const struct timed *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? 1 : -1;
    return (x->number > y->number) - (x->number < y->number);
}

void plan_order(const struct plan *p, size_t *order)
{
    struct timed *list = memory_new(p->tiles, sizeof *list);
    for (size_t i = 0; i < p->tiles; i++)
        list[i] = (struct timed){p->tile[i].seconds, i};
    qsort(list, p->tiles, sizeof *list, longest_first);
    for (size_t i = 0; i < p->tiles; i++)
        order[i] = list[i].number;
    memory_free(list);
}
