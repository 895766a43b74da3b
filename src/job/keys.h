/* keys.h: every key of a job file, once.
 *
 * One table per section. The tables make the structs below, the parser, the range checks, the printer of the
 * effective job, the NetCDF attributes and the reference in jobs/FORMAT.md (make docs). A new key is one line here.
 *
 *   INT(name, default, min, max, unit, doc)         int64_t name
 *   REAL(name, default, min, max, unit, doc)        double name (min and max are allowed values)
 *   BOOL(name, default, doc)                        bool name
 *   CHOICE(name, type, TYPE_LIST, default, doc)     enum type name; TYPE_LIST is one of the lists below
 *   LIST(name, default, min, max, unit, doc)        struct key_list name: whole numbers, a single one may stand alone;
 *                                                   the word "end" reads as -1 where min allows it. The default is
 *                                                   (count, value, ...); an empty list is (0, 0)
 *   TEXT(name, default, doc)                        char name[KEY_TEXT]
 */
#ifndef INVAR_JOB_KEYS_H
#define INVAR_JOB_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#define KEY_TEXT 256
#define KEY_LIST_MAX 256

struct key_list {
    int count;
    int64_t value[KEY_LIST_MAX];
};

/* ---- choices: ITEM(C name, word in the job file, doc) ---- */

#define TASK_KIND_LIST(ITEM) \
    ITEM(TASK_MARKOV, "markov", "next state of a cyclic Markov chain")

#define MODEL_KIND_LIST(ITEM) \
    ITEM(MODEL_DECODER, "decoder", "causal transformer decoder with learned positions") \
    ITEM(MODEL_ATTENTION_ONLY, "attention_only", "attention layers on one-hot tokens and positions; each head writes what it attends to beside the stream: d = (vocabulary + max_length) (1 + heads)^layer; trained are the fused key-query matrices and the unembedding")

#define EMBEDDING_LIST(ITEM) \
    ITEM(EMBEDDING_ONE_HOT, "one_hot", "a coordinate for each token and one for each position") \
    ITEM(EMBEDDING_CENTRED, "centred", "one_hot minus its mean over all tokens, and over all max_length positions; up to a rotation the sinusoids of all frequencies of that period")

#define NORM_LIST(ITEM) \
    ITEM(NORM_POST, "post", "x <- LN(x + f(x))") \
    ITEM(NORM_PRE, "pre", "x <- x + f(LN(x)), and a last LN before the unembedding") \
    ITEM(NORM_NONE, "none", "x <- x + f(x)")

#define ACTIVATION_LIST(ITEM) \
    ITEM(ACTIVATION_RELU, "relu", "max(x, 0)") \
    ITEM(ACTIVATION_GELU, "gelu", "x Phi(x), exact")

#define PRECISION_LIST(ITEM) \
    ITEM(PRECISION_FLOAT32, "float32", "") \
    ITEM(PRECISION_FLOAT64, "float64", "")

#define INIT_SCHEME_LIST(ITEM) \
    ITEM(INIT_PYTORCH, "pytorch", "embeddings N(0,1); packed QKV U(+-sqrt(6/(4 d))), its bias 0; attention output U(+-1/sqrt(d)), bias 0; MLP and unembedding weights and biases U(+-1/sqrt(fan_in))") \
    ITEM(INIT_NORMAL, "normal", "every weight N(0, std^2), biases 0") \
    ITEM(INIT_NORMAL_SQRT_D, "normal_sqrt_d", "every weight N(0, std^2 / d_model), biases 0")

#define OPTIMIZER_LIST(ITEM) \
    ITEM(OPTIMIZER_ADAMW, "adamw", "AdamW, decoupled weight decay on every parameter (Loshchilov & Hutter 2019)") \
    ITEM(OPTIMIZER_SGD, "sgd", "gradient descent with momentum; weight decay added to the gradient")

#define LOSS_LIST(ITEM) \
    ITEM(LOSS_CROSS_ENTROPY, "cross_entropy", "-log softmax(logits)[target]") \
    ITEM(LOSS_MSE, "mse", "mean over classes of (logit - one_hot(target))^2")

#define PLAN_LIST(ITEM) \
    ITEM(PLAN_STRUCTURED, "structured", "the exact order of computation that takes the fewest operations; `invar plan -v` says which") \
    ITEM(PLAN_DENSE, "dense", "every block at every position: the textbook order")

#define GEMM_LIST(ITEM) \
    ITEM(GEMM_OWN, "own", "this program's products: the same bits on every processor") \
    ITEM(GEMM_OPENBLAS, "openblas", "OpenBLAS, on one thread: faster where it knows a processor better; its bits depend on processor and version")

#define ACE_OUTPUTS_LIST(ITEM) \
    ITEM(ACE_LOGITS, "logits", "all logits") \
    ITEM(ACE_CENTERED_LOGITS, "centered_logits", "logits minus their mean over the classes: without the common shift, which softmax ignores")

#define PROBE_STORE_LIST(ITEM) \
    ITEM(STORE_NONE, "none", "nothing per sample") \
    ITEM(STORE_COORDINATES, "coordinates", "core coordinates z = Q'h of every probe input (needed for cross-run correlations)") \
    ITEM(STORE_ACTIVATIONS, "activations", "also the whole activations h")

#define KEY_ENUMERATE(name, word, doc) name,
enum task_kind { TASK_KIND_LIST(KEY_ENUMERATE) };
enum model_kind { MODEL_KIND_LIST(KEY_ENUMERATE) };
enum embedding { EMBEDDING_LIST(KEY_ENUMERATE) };
enum norm { NORM_LIST(KEY_ENUMERATE) };
enum activation { ACTIVATION_LIST(KEY_ENUMERATE) };
enum precision { PRECISION_LIST(KEY_ENUMERATE) };
enum init_scheme { INIT_SCHEME_LIST(KEY_ENUMERATE) };
enum optimizer_kind { OPTIMIZER_LIST(KEY_ENUMERATE) };
enum loss { LOSS_LIST(KEY_ENUMERATE) };
enum plan_kind { PLAN_LIST(KEY_ENUMERATE) };
enum gemm_kind { GEMM_LIST(KEY_ENUMERATE) };
enum ace_outputs { ACE_OUTPUTS_LIST(KEY_ENUMERATE) };
enum probe_store { PROBE_STORE_LIST(KEY_ENUMERATE) };
#undef KEY_ENUMERATE

/* ---- sections that make a run (they are hashed into its id) ---- */

#define TASK_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT) \
    CHOICE(kind, task_kind, TASK_KIND_LIST, TASK_MARKOV, "what is learned") \
    INT(states, 4, 2, 4096, "1", "number of states of the chain; also the vocabulary") \
    REAL(stay, 0.75, 0.0, 1.0, "1", "probability to stay in a state; otherwise on to the next one, cyclically") \
    INT(sequences, 3000, 1, 100000000, "1", "training sequences") \
    INT(test_sequences, 3000, 1, 100000000, "1", "test sequences, from another stream") \
    INT(length, 32, 2, 4096, "1", "states per sequence: the first length-1 are the input, the last length-1 the targets") \
    INT(seed, 0, 0, INT64_MAX, "1", "seed of the data, the same for all runs so that runs are compared on the same inputs")

#define MODEL_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT) \
    CHOICE(kind, model_kind, MODEL_KIND_LIST, MODEL_DECODER, "architecture") \
    INT(layers, 1, 1, 64, "1", "blocks") \
    INT(d_model, 64, 1, 8192, "1", "width of the residual stream") \
    INT(heads, 4, 1, 128, "1", "attention heads per block") \
    INT(d_head, 0, 0, 8192, "1", "width of a head; 0 = d_model / heads") \
    LIST(d_mlp, (1, 256), 0, 65536, "1", "hidden width of the MLP, one for all blocks or one per block; 0 = no MLP in that block") \
    CHOICE(norm, norm, NORM_LIST, NORM_POST, "where layer normalisation stands") \
    BOOL(bias, true, "biases in attention, MLP and unembedding") \
    CHOICE(activation, activation, ACTIVATION_LIST, ACTIVATION_RELU, "of the MLP") \
    REAL(dropout, 0.0, 0.0, 0.95, "1", "dropped share of attention weights, attention output, MLP hidden units and MLP output during training") \
    BOOL(tied, false, "the unembedding is the transposed token embedding") \
    INT(max_length, 64, 1, 8192, "1", "rows of the position embedding") \
    CHOICE(embedding, embedding, EMBEDDING_LIST, EMBEDDING_ONE_HOT, "fixed vectors of tokens and positions") \
    BOOL(self_attention, true, "a position attends to itself too; if not, the first position attends to nothing") \
    CHOICE(precision, precision, PRECISION_LIST, PRECISION_FLOAT32, "arithmetic of the training")

#define INIT_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT) \
    CHOICE(scheme, init_scheme, INIT_SCHEME_LIST, INIT_PYTORCH, "distribution of the initial weights; layer norm starts at gain 1, shift 0") \
    REAL(std, 0.02, 0.0, 1e6, "1", "standard deviation of the normal schemes")

/* Factors on the initial values (weights and biases) of a tensor group. They multiply: query_key is also under attention
 * and all. */
#define INIT_SCALE_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT) \
    REAL(all, 1.0, 0.0, 1e6, "1", "factor on every tensor but the layer norms") \
    REAL(token, 1.0, 0.0, 1e6, "1", "factor on the token embedding") \
    REAL(position, 1.0, 0.0, 1e6, "1", "factor on the position embedding") \
    REAL(attention, 1.0, 0.0, 1e6, "1", "factor on all attention tensors") \
    REAL(query_key, 1.0, 0.0, 1e6, "1", "factor on queries and keys") \
    REAL(value_output, 1.0, 0.0, 1e6, "1", "factor on values and on the attention output") \
    REAL(mlp, 1.0, 0.0, 1e6, "1", "factor on both MLP layers") \
    REAL(unembedding, 1.0, 0.0, 1e6, "1", "factor on the unembedding")

#define TRAIN_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT) \
    CHOICE(optimizer, optimizer_kind, OPTIMIZER_LIST, OPTIMIZER_ADAMW, "") \
    REAL(lr, 1e-3, 0.0, 1e6, "1", "learning rate") \
    REAL(beta1, 0.9, 0.0, 0.9999999, "1", "AdamW: decay of the first moment") \
    REAL(beta2, 0.999, 0.0, 0.9999999, "1", "AdamW: decay of the second moment") \
    REAL(eps, 1e-8, 0.0, 1.0, "1", "AdamW: added to the root of the second moment") \
    REAL(momentum, 0.0, 0.0, 0.9999999, "1", "SGD: momentum") \
    REAL(weight_decay, 0.0, 0.0, 1e6, "1", "") \
    CHOICE(loss, loss, LOSS_LIST, LOSS_CROSS_ENTROPY, "") \
    LIST(positions, (0, 0), -8192, 8191, "1", "positions at which the loss looks; negative ones count from the end; empty = all that the task asks") \
    INT(batch, 64, 0, 100000000, "1", "sequences per step; 0 = the whole training set") \
    INT(epochs, 40, 0, 100000000, "1", "passes over the training set, reshuffled each") \
    INT(steps, 0, 0, INT64_MAX, "1", "optimiser steps; 0 = epochs times the steps of an epoch") \
    INT(eval_every, 0, 0, INT64_MAX, "1", "steps between points of the curves; 0 = once per epoch") \
    INT(eval_sequences, 0, 0, 100000000, "1", "sequences of each set looked at in the curves; 0 = all; the last point always takes all") \
    CHOICE(plan, plan_kind, PLAN_LIST, PLAN_STRUCTURED, "in which order the passes are computed; exact either way, with other rounding") \
    CHOICE(gemm, gemm_kind, GEMM_LIST, GEMM_OWN, "whose matrix products train and evaluate; the rest of the arithmetic is ours either way") \
    INT(cache_kib, 1024, 16, 1048576, "KiB", "second-level cache of a core: batches are cut into tiles of this size; part of the bits, so not read from the machine") \
    REAL(target_accuracy, 0.0, 0.0, 1.0, "1", "stop when the test accuracy reaches this; a run that does not by its last step is UNFINISHED; 0 = no target") \
    REAL(diverged_above, 1e4, 0.0, 1e30, "1", "a loss above this, or a loss or weight that is not finite, ends the run as DIVERGED")

#define PROBE_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT) \
    LIST(at, (1, -1), -1, INT64_MAX, "1", "steps after which the probes look; end = after the last step")

#define PROBE_ACE_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT) \
    INT(layer, 0, 0, 64, "1", "block whose output is probed; 0 = no core is extracted") \
    CHOICE(outputs, ace_outputs, ACE_OUTPUTS_LIST, ACE_LOGITS, "task outputs whose gradients make the observability") \
    REAL(energy, 0.999, 0.0, 1.0, "1", "share of the squared core weights that the core must hold") \
    INT(rank, 0, 0, 8192, "1", "fixed core dimension; 0 = by energy") \
    REAL(tolerance, 1e-3, 0.0, 1.0, "1", "accuracy that keeping only the core may lose (sufficient dimension)") \
    BOOL(operator, true, "fit the linear operator z[t+1] = A z[t] where the task has one") \
    CHOICE(store, probe_store, PROBE_STORE_LIST, STORE_COORDINATES, "what is stored per probe input")

/* ---- sections of the job as a whole (a run does not depend on them) ---- */

#define STORE_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT) \
    REAL(checkpoint_every, 60.0, 0.0, 1e9, "s", "time between checkpoints of an unfinished tile; 0 = after every evaluation") \
    INT(tile_runs, 0, 0, 1000000, "1", "runs per tile; 0 = one run where a run takes a second or more, otherwise about a second of work")

#define GATHER_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT) \
    LIST(grid, (2, 1, 1), 1, 1024, "1", "process grid [rows, columns] of the ScaLAPACK stage") \
    INT(block, 32, 1, 4096, "1", "block size of the block-cyclic distribution") \
    INT(seed, 0, 0, INT64_MAX, "1", "seed of the permutation null and of the held-out split")

#define GATHER_CCA_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT) \
    BOOL(pairs, true, "canonical correlations, overlaps and the consensus of all pairs of runs") \
    INT(permutations, 200, 0, 1000000, "1", "permutations of the null distribution") \
    REAL(heldout, 0.5, 0.0, 0.9, "1", "share of the probe inputs held out for canonical_correlation_heldout; 0 = none") \
    REAL(rank_tolerance, 1e-8, 0.0, 1.0, "1", "directions below this share of the largest singular value are no part of a run's basis")

/* SECTION(path, C name, TABLE, is part of a run) */
#define KEY_SECTIONS(SECTION) \
    SECTION("task", task, TASK_KEYS, 1) \
    SECTION("model", model, MODEL_KEYS, 1) \
    SECTION("init", init, INIT_KEYS, 1) \
    SECTION("init.scale", init_scale, INIT_SCALE_KEYS, 1) \
    SECTION("train", train, TRAIN_KEYS, 1) \
    SECTION("probe", probe, PROBE_KEYS, 1) \
    SECTION("probe.ace", probe_ace, PROBE_ACE_KEYS, 1) \
    SECTION("store", store, STORE_KEYS, 0) \
    SECTION("gather", gather, GATHER_KEYS, 0) \
    SECTION("gather.cca", gather_cca, GATHER_CCA_KEYS, 0)

#define KEY_FIELD_INT(name, ...) int64_t name;
#define KEY_FIELD_REAL(name, ...) double name;
#define KEY_FIELD_BOOL(name, ...) bool name;
#define KEY_FIELD_CHOICE(name, type, ...) int name;
#define KEY_FIELD_LIST(name, ...) struct key_list name;
#define KEY_FIELD_TEXT(name, ...) char name[KEY_TEXT];
#define KEY_STRUCT(path, cname, TABLE, is_run) \
    struct { TABLE(KEY_FIELD_INT, KEY_FIELD_REAL, KEY_FIELD_BOOL, KEY_FIELD_CHOICE, KEY_FIELD_LIST, KEY_FIELD_TEXT) } cname;

/* All keys of a job with their values: spec.train.lr, spec.init_scale.attention, ... */
struct spec {
    KEY_SECTIONS(KEY_STRUCT)
};

/* ---- the same tables as data ---- */

enum key_type { KEY_INT, KEY_REAL, KEY_BOOL, KEY_CHOICE, KEY_LIST, KEY_STRING };

struct key {
    const char *section, *name, *path;   /* "init.scale", "attention", "init.scale.attention" */
    enum key_type type;
    unsigned long offset;                /* of the value in struct spec */
    double min, max;                     /* of INT, REAL and the elements of LIST */
    const char *unit, *doc;
    const char *const *words;            /* CHOICE: the words, and what each means */
    const char *const *word_docs;
    int words_count;
    bool of_run;                         /* part of the run's id */
};

/* Key number i in the order of the tables, or NULL past the end. */
const struct key *key_at(int i);
/* The key with this path, or NULL. */
const struct key *key_find(const char *path);
/* The path nearest to a wrong one, or NULL when none is near. */
const char *key_nearest(const char *path);
/* The part of a path behind its last dot. */
const char *key_last_name(const char *path);
/* Sets every key to its default. */
void key_defaults(struct spec *s);

/* A scalar key's value as a number (a choice is its index, a bool 0 or 1). */
double key_get(const struct spec *s, const struct key *k);
void key_set(struct spec *s, const struct key *k, double value);

#endif
