/* Twenty training steps of several models on the Markov task, and on block lists. With a directory as argument, everything
 * is written there for test_torch.py to repeat with torch; without one, only that the trainings are reproducible is checked.
 *
 * DIR/NAME.txt    "key value" lines: the keys that the other side needs; "tensor NAME ROWS COLS" in the order of the
 * weights DIR/NAME.batch  int32: per step the number of sequences, tokens, targets, positions DIR/NAME.weight double:
 * per step the weights of the sequences DIR/NAME.loss   double: loss of each step DIR/NAME.before, DIR/NAME.after
 * double: packed weights
 */
#define CHECK_NO_MAIN
#include "check.h"
#include "base/memory.h"
#include "model/model.h"
#include "model/planner.h"
#include "task/task.h"

enum { STEPS = 20 };

struct training {
    const char *name;
    int layers, norm, activation, bias, tied, d_mlp, optimizer, loss, last_only, precision;
    double lr, weight_decay, momentum;
    int kind, blind, blocks;             /* blocks: of a block list, centred, else the Markov task */
};

static const struct training trainings[] = {
    {"post_adamw", 1, NORM_POST, ACTIVATION_RELU, 1, 0, 48, OPTIMIZER_ADAMW, LOSS_CROSS_ENTROPY, 0, PRECISION_FLOAT32,
     1e-3, 0.1, 0, MODEL_DECODER, 0, 0},
    {"post2_adamw", 2, NORM_POST, ACTIVATION_GELU, 1, 0, 48, OPTIMIZER_ADAMW, LOSS_CROSS_ENTROPY, 0, PRECISION_FLOAT32,
     1e-3, 1.0, 0, MODEL_DECODER, 0, 0},
    {"pre2_sgd", 2, NORM_PRE, ACTIVATION_GELU, 1, 0, 48, OPTIMIZER_SGD, LOSS_CROSS_ENTROPY, 0, PRECISION_FLOAT32, 0.05,
     0.01, 0.9, MODEL_DECODER, 0, 0},
    {"pre_adamw_last", 1, NORM_PRE, ACTIVATION_RELU, 1, 0, 48, OPTIMIZER_ADAMW, LOSS_CROSS_ENTROPY, 1,
     PRECISION_FLOAT32, 1e-3, 0.5, 0, MODEL_DECODER, 0, 0},
    {"none_sgd_mse", 2, NORM_NONE, ACTIVATION_RELU, 1, 0, 48, OPTIMIZER_SGD, LOSS_MSE, 0, PRECISION_FLOAT32, 0.02, 0.1,
     0.5, MODEL_DECODER, 0, 0},
    {"post_adamw_mse", 1, NORM_POST, ACTIVATION_RELU, 0, 0, 48, OPTIMIZER_ADAMW, LOSS_MSE, 0, PRECISION_FLOAT32, 1e-3,
     0.1, 0, MODEL_DECODER, 0, 0},
    {"tied_no_mlp", 2, NORM_PRE, ACTIVATION_RELU, 1, 1, 0, OPTIMIZER_ADAMW, LOSS_CROSS_ENTROPY, 0, PRECISION_FLOAT32,
     1e-3, 0.1, 0, MODEL_DECODER, 0, 0},
    {"post_adamw_double", 1, NORM_POST, ACTIVATION_RELU, 1, 0, 48, OPTIMIZER_ADAMW, LOSS_CROSS_ENTROPY, 0,
     PRECISION_FLOAT64, 1e-3, 0.1, 0, MODEL_DECODER, 0, 0},
    {"pre2_sgd_double", 2, NORM_PRE, ACTIVATION_GELU, 1, 0, 48, OPTIMIZER_SGD, LOSS_MSE, 1, PRECISION_FLOAT64, 0.05,
     0.01, 0.9, MODEL_DECODER, 0, 0},
    {"tables_adamw", 1, NORM_NONE, ACTIVATION_RELU, 1, 0, 48, OPTIMIZER_ADAMW, LOSS_CROSS_ENTROPY, 1, PRECISION_FLOAT32,
     1e-3, 0.1, 0, MODEL_DECODER, 0, 0},
    {"tables_tied_double", 1, NORM_NONE, ACTIVATION_GELU, 1, 1, 48, OPTIMIZER_ADAMW, LOSS_CROSS_ENTROPY, 1,
     PRECISION_FLOAT64, 1e-3, 0.1, 0, MODEL_DECODER, 0, 0},
    {"keys_post2", 2, NORM_POST, ACTIVATION_RELU, 1, 0, 48, OPTIMIZER_ADAMW, LOSS_CROSS_ENTROPY, 1, PRECISION_FLOAT32,
     1e-3, 0.1, 0, MODEL_DECODER, 0, 0},
    {"attention_only", 2, 0, 0, 0, 0, 0, OPTIMIZER_ADAMW, LOSS_CROSS_ENTROPY, 1, PRECISION_FLOAT32, 1e-3, 0.1, 0,
     MODEL_ATTENTION_ONLY, 0, 0},
    {"attention_only_blind_double", 3, 0, 0, 0, 0, 0, OPTIMIZER_SGD, LOSS_MSE, 0, PRECISION_FLOAT64, 0.5, 0.01, 0.9,
     MODEL_ATTENTION_ONLY, 1, 0},
    {"attention_only_blocks", 2, 0, 0, 0, 0, 0, OPTIMIZER_ADAMW, LOSS_CROSS_ENTROPY, 0, PRECISION_FLOAT32, 1e-3, 0.1, 0,
     MODEL_ATTENTION_ONLY, 1, 1},
    {"attention_only_blocks_double", 2, 0, 0, 0, 0, 0, OPTIMIZER_SGD, LOSS_SQUARED, 0, PRECISION_FLOAT64, 0.5, 0.01,
     0.9, MODEL_ATTENTION_ONLY, 1, 1},
};

/* All recalls of one block, of rare and common tokens with and without labels of their own, in slots: positions and weights. */
static void set_blocks(struct spec *s)
{
    s->task.kind = TASK_BLOCKLIST;
    s->task.blocks = 1;
    s->task.common = 6;
    s->task.rare_tokens = 4;
    s->task.rare = 0.5;
    s->task.variability = 0.25;
    s->task.layout = LAYOUT_SLOTS;
    s->task.expectation = EXPECTATION_COMPLETE;
    s->model.embedding = EMBEDDING_CENTRED;
    s->train.batch = 0;
}

static struct spec spec_of(const struct training *t)
{
    struct spec s;
    key_defaults(&s);
    s.task.sequences = 250;              /* four batches, the last one short: steps cross epochs */
    s.task.length = 12;
    s.model.kind = t->kind;
    s.model.self_attention = !t->blind;
    s.model.layers = t->layers;
    s.model.d_model = 24;
    s.model.heads = t->kind == MODEL_ATTENTION_ONLY ? 2 : 3;
    s.model.d_mlp = (struct key_list){.count = 1, .value = {t->d_mlp}};
    s.model.norm = t->norm;
    s.model.activation = t->activation;
    s.model.bias = t->bias;
    s.model.tied = t->tied;
    s.model.max_length = 16;
    s.model.precision = t->precision;
    s.train.optimizer = t->optimizer;
    s.train.loss = t->loss;
    s.train.lr = t->lr;
    s.train.weight_decay = t->weight_decay;
    s.train.momentum = t->momentum;
    s.train.positions = (struct key_list){.count = t->last_only, .value = {-1}};
    if (t->blocks)
        set_blocks(&s);
    return s;
}

static FILE *open_file(const char *dir, const char *name, const char *kind)
{
    char *path = memory_format("%s/%s.%s", dir, name, kind);
    FILE *f = fopen(path, "wb");
    if (!f) {
        perror(path);
        exit(1);
    }
    memory_free(path);
    return f;
}

static void write_all(FILE *f, const void *p, size_t size, size_t n)
{
    if (fwrite(p, size, n, f) != n) {
        perror("write");
        exit(1);
    }
}

static void write_keys(const char *dir, const struct training *t, const struct spec *s, const struct model *m)
{
    FILE *f = open_file(dir, t->name, "txt");
    const struct tensor *table;
    int n = model_tensors(m, &table);
    const struct task_shape shape = task_shape_of(s);
    const int positions = shape.positions ? shape.positions : (int)s->model.max_length;
    fprintf(f, "kind %d\nblind %d\npositions %d\n", t->kind, t->blind, positions);
    fprintf(f, "centred %d\ncommon %d\nperiod %d\n", t->blocks, shape.common, shape.period);
    fprintf(f, "layers %d\nd_model %d\nheads %d\nd_mlp %d\nlength %d\nstates %d\n", t->layers, (int)s->model.d_model,
            (int)s->model.heads, t->d_mlp, shape.length, shape.vocabulary);
    fprintf(f, "norm %s\nactivation %s\nbias %d\ntied %d\n",
            t->norm == NORM_POST ? "post" : t->norm == NORM_PRE ? "pre" : "none",
            t->activation == ACTIVATION_RELU ? "relu" : "gelu", t->bias, t->tied);
    fprintf(f, "optimizer %s\nloss %s\nprecision %d\n", t->optimizer == OPTIMIZER_ADAMW ? "adamw" : "sgd",
            t->loss == LOSS_MSE       ? "mse"
            : t->loss == LOSS_SQUARED ? "squared"
                                      : "cross_entropy",
            t->precision == PRECISION_FLOAT64 ? 64 : 32);
    fprintf(f, "lr %.17g\nweight_decay %.17g\nmomentum %.17g\nbeta1 %.17g\nbeta2 %.17g\neps %.17g\n", t->lr,
            t->weight_decay, t->momentum, s->train.beta1, s->train.beta2, s->train.eps);
    for (int i = 0; i < n; i++)
        fprintf(f, "tensor %s %d %d\n", table[i].name, table[i].rows, table[i].cols);
    fclose(f);
}

static void write_weights(const char *dir, const char *name, const char *kind, const struct model *m)
{
    FILE *f = open_file(dir, name, kind);
    const struct tensor *table;
    int n = model_tensors(m, &table);
    double *flat = memory_new(model_flat_length(m), sizeof *flat);
    model_weights_get(m, flat);
    for (int i = 0; i < n; i++)
        write_all(f, flat + table[i].offset, sizeof *flat, (size_t)table[i].rows * (size_t)table[i].cols);
    memory_free(flat);
    fclose(f);
}

static void write_batch(FILE *f, FILE *weights, const struct batch *b)
{
    int32_t sequences = b->sequences;
    size_t n = (size_t)b->sequences * (size_t)b->length;
    write_all(f, &sequences, sizeof sequences, 1);
    write_all(f, b->token, sizeof *b->token, n);
    write_all(f, b->target, sizeof *b->target, n);
    for (int32_t i = 0; i < (int32_t)n; i++) {
        int32_t position = b->position ? b->position[i] : i % b->length;
        write_all(f, &position, sizeof position, 1);
    }
    for (int i = 0; i < b->sequences; i++) {
        double weight = b->weight ? b->weight[i] : 1.0;
        write_all(weights, &weight, sizeof weight, 1);
    }
}

/* Trains; writes to `dir` unless it is NULL.   out: loss[STEPS] */
static void train(const struct training *t, const char *dir, double *loss)
{
    struct spec s = spec_of(t);
    struct task *task = NULL;
    struct model *m = NULL;
    CHECK_OK(task_open(&s, 1, &task));
    CHECK_OK(model_open(&s, task_shape(task), &m));
    if (!strncmp(t->name, "tables", 6) || !strncmp(t->name, "keys", 4)) {
        const struct planner_candidate *chosen = &model_plan(m)->candidate[model_plan(m)->chosen];
        CHECK_TEXT(chosen->name, *t->name == 't' ? "single" : "keys");       /* the order that it is there to test */
    }
    if (check_failures)
        exit(1);
    struct optimizer *o = optimizer_new(m, &s);
    struct batch b = batch_new_of((int)task_batch_size(task), task_shape(task));
    model_initialise(m, &s, 1);
    FILE *batches = dir ? open_file(dir, t->name, "batch") : NULL;
    FILE *weights = dir ? open_file(dir, t->name, "weight") : NULL;
    if (dir) {
        write_keys(dir, t, &s, m);
        write_weights(dir, t->name, "before", m);
    }
    for (size_t step = 0; step < STEPS; step++) {
        task_train_batch(task, step, &b);
        if (dir)
            write_batch(batches, weights, &b);
        loss[step] = model_train_pass(m, &b, 1, step).loss;
        optimizer_step(o, m, step + 1);
    }
    if (dir) {
        fclose(batches);
        fclose(weights);
        write_weights(dir, t->name, "after", m);
        FILE *f = open_file(dir, t->name, "loss");
        write_all(f, loss, sizeof *loss, STEPS);
        fclose(f);
    }
    batch_free(&b);
    optimizer_free(o);
    model_free(m);
    task_free(task);
}

int main(int argc, char **argv)
{
    alarm(CHECK_SECONDS);
    for (size_t i = 0; i < sizeof trainings / sizeof trainings[0]; i++) {
        double loss[STEPS], again[STEPS];
        train(&trainings[i], argc > 1 ? argv[1] : NULL, loss);
        train(&trainings[i], NULL, again);
        CHECK_BYTES(loss, again, sizeof loss);
        CHECK(loss[STEPS - 1] < loss[0]);
    }
    CHECK_INT(memory_balance(), 0);
    return check_report("torch_dump_trains_reproducibly");
}
