/* bench_subject.c: the benchmark models as keys, sizes and batches, and a run of a job as a subject. */
#include "run/bench.h"

#include "base/memory.h"
#include "base/stream.h"
#include "store/ncfile.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *meaning;
} models[BENCH_MODEL_COUNT] = {
#define BENCH(name, meaning) {#name, meaning},
    BENCH_MODELS(BENCH)
#undef BENCH
};

const char *bench_model_name(enum bench_model m) { return models[m].name; }
const char *bench_model_meaning(enum bench_model m) { return models[m].meaning; }

/* ---- the models ---- */

enum { MODULUS = 113 };

static void decoder(struct spec *s, int layers, int d_model, int heads, struct key_list d_mlp)
{
    s->model.layers = layers;
    s->model.d_model = d_model;
    s->model.heads = heads;
    s->model.d_mlp = d_mlp;
    s->model.norm = NORM_NONE;
    s->model.bias = false;
    s->init.scheme = INIT_NORMAL_SQRT_D;
    s->init.std = 0.8;
}

void bench_model_spec(enum bench_model m, struct spec *s, struct task_shape *shape)
{
    key_defaults(s);
    switch (m) {
    case BENCH_M1:
        decoder(s, 2, 128, 1, (struct key_list){2, {0, 512}});
        s->train.weight_decay = 0.1;
        *shape = (struct task_shape){.vocabulary = 100, .classes = 100, .length = 20, .looked = 1, .batch = 512};
        break;
    case BENCH_M2:
        decoder(s, 1, 128, 4, (struct key_list){1, {512}});
        s->train.weight_decay = 1.0;
        s->train.beta2 = 0.98;
        *shape = (struct task_shape){.vocabulary = MODULUS + 1, .classes = MODULUS, .length = 3, .looked = 1, .batch = 3830};
        break;
    case BENCH_M3:
        decoder(s, 1, 64, 1, (struct key_list){1, {256}});
        s->train.weight_decay = 0.1;
        *shape = (struct task_shape){.vocabulary = 4, .classes = 4, .length = 64, .looked = 64, .batch = 64};
        break;
    case BENCH_M4:
        s->model.kind = MODEL_ATTENTION_ONLY;
        s->model.layers = 2;
        s->model.heads = 1;
        s->init.scheme = INIT_NORMAL;
        s->init.std = 0.01;
        s->train.optimizer = OPTIMIZER_SGD;
        s->train.lr = 0.1;
        *shape = (struct task_shape){.vocabulary = 40, .classes = 40, .length = 40, .looked = 1, .batch = 500};
        break;
    case BENCH_MODEL_COUNT:
        break;
    }
    s->model.max_length = shape->length;
}

/* ---- batches ---- */

/* Independent tokens and targets. */
static void fill_random(struct batch *b, const struct task_shape *shape, uint32_t number)
{
    struct stream stream = stream_open(0, PURPOSE_DATA_TRAIN, number);
    for (int i = 0; i < b->sequences * b->length; i++) {
        b->token[i] = (int32_t)stream_below(&stream, (uint32_t)shape->vocabulary);
        int looks = i % b->length >= b->length - shape->looked;
        b->target[i] = looks ? (int32_t)stream_below(&stream, (uint32_t)shape->classes) : -1;
    }
}

/* [a, b, =] -> a + b for a random part of all pairs. */
static void fill_addition(struct batch *b)
{
    uint32_t *pair = memory_new((size_t)MODULUS * MODULUS, sizeof *pair);
    struct stream stream = stream_open(0, PURPOSE_DATA_TRAIN, 0);
    stream_permutation(&stream, pair, MODULUS * MODULUS);
    for (int i = 0; i < b->sequences; i++) {
        int32_t x = (int32_t)pair[i] / MODULUS, y = (int32_t)pair[i] % MODULUS;
        memcpy(b->token + 3 * i, (int32_t[]){x, y, MODULUS}, 3 * sizeof *b->token);
        memcpy(b->target + 3 * i, (int32_t[]){-1, -1, (x + y) % MODULUS}, 3 * sizeof *b->target);
    }
    memory_free(pair);
}

enum status bench_subject_model(enum bench_model m, struct bench_subject *b)
{
    *b = (struct bench_subject){.name = bench_model_name(m), .seed = 0, .batches = m == BENCH_M2 ? 1 : 4};
    bench_model_spec(m, &b->spec, &b->shape);
    for (int i = 0; i < b->batches; i++) {
        b->batch[i] = batch_new_of(b->shape.batch, b->shape);
        if (m == BENCH_M2)
            fill_addition(&b->batch[i]);
        else
            fill_random(&b->batch[i], &b->shape, (uint32_t)i);
    }
    return STATUS_OK;
}

enum status bench_subject_run(const struct spec *s, uint64_t seed, struct bench_subject *b)
{
    *b = (struct bench_subject){.name = "job", .spec = *s, .seed = seed, .batches = 1};
    enum status status = task_open(s, seed, &b->task);
    if (status != STATUS_OK)
        return status;
    b->shape = task_shape(b->task);
    b->batch[0] = batch_new_of((int)task_batch_size(b->task), b->shape);
    task_train_batch(b->task, 0, &b->batch[0]);
    return STATUS_OK;
}

void bench_subject_clear(struct bench_subject *b)
{
    for (int i = 0; i < b->batches; i++)
        batch_free(&b->batch[i]);
    task_free(b->task);
    *b = (struct bench_subject){0};
}

/* ---- the same steps for another program ---- */

static void put_batches(struct ncfile *f, const struct bench_subject *b)
{
    size_t n = (size_t)b->shape.batch * (size_t)b->shape.length;
    int64_t *all = memory_new(2 * n * (size_t)b->batches, sizeof *all), *target = all + n * (size_t)b->batches;
    for (int i = 0; i < b->batches; i++)
        for (size_t k = 0; k < n; k++) {
            all[(size_t)i * n + k] = b->batch[i].token[k];
            target[(size_t)i * n + k] = b->batch[i].target[k];
        }
    ncfile_dimension(f, "batch", (size_t)b->batches);
    ncfile_dimension(f, "sequence", (size_t)b->shape.batch);
    ncfile_dimension(f, "position", (size_t)b->shape.length);
    ncfile_variable(f, "token", NCFILE_INT, "batch sequence position", "1", "token");
    ncfile_variable(f, "target", NCFILE_INT, "batch sequence position", "1",
                    "class to be predicted, -1 where the loss does not look");
    ncfile_put_int(f, "token", all);
    ncfile_put_int(f, "target", target);
    memory_free(all);
}

static void put_weights(struct ncfile *f, const struct model *m)
{
    const struct tensor *table;
    int tensors = model_tensors(m, &table);
    double *flat = memory_new(model_flat_length(m), sizeof *flat);
    model_weights_get(m, flat);
    for (int i = 0; i < tensors; i++) {
        char rows[80], cols[80], dims[168];
        snprintf(rows, sizeof rows, "%s_rows", table[i].name);
        snprintf(cols, sizeof cols, "%s_columns", table[i].name);
        snprintf(dims, sizeof dims, "%s %s", rows, cols);
        ncfile_dimension(f, rows, (size_t)table[i].rows);
        ncfile_dimension(f, cols, (size_t)table[i].cols);
        ncfile_variable(f, table[i].name, NCFILE_DOUBLE, dims, "1", "initial weights");
        ncfile_put(f, table[i].name, flat + table[i].offset);
    }
    memory_free(flat);
}

enum status bench_dump(const struct bench_subject *b, int steps, const char *path)
{
    struct model *m = NULL;
    struct ncfile *f;
    enum status status = model_open(&b->spec, b->shape, &m);
    if (status != STATUS_OK)
        return status;
    model_initialise(m, &b->spec, b->seed);
    status = ncfile_create(path, "benchmark steps", &f);
    if (status != STATUS_OK) {
        model_free(m);
        return status;
    }
    put_batches(f, b);
    put_weights(f, m);
    struct optimizer *o = optimizer_new(m, &b->spec);
    double *loss = memory_new((size_t)steps, sizeof *loss);
    for (int t = 0; t < steps; t++) {
        loss[t] = model_train_pass(m, &b->batch[t % b->batches], b->seed, (uint64_t)t).loss;
        optimizer_step(o, m, (uint64_t)t + 1);
    }
    ncfile_dimension(f, "step", (size_t)steps);
    ncfile_variable(f, "loss", NCFILE_DOUBLE, "step", "1", "training loss before each step");
    ncfile_put(f, "loss", loss);
    memory_free(loss);
    optimizer_free(o);
    model_free(m);
    return ncfile_close(f);
}
