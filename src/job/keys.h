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
 *   NAMED(name, unit, doc)                          struct key_named name: numbers by names that the model has, by ascending
 *                                                   name; each of them can be an axis. The default is none
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

#define KEY_NAMED_MAX 64
#define KEY_NAMED_TEXT 48

struct key_named {
    int count;
    struct {
        char name[KEY_NAMED_TEXT];
        double value;
    } item[KEY_NAMED_MAX];
};

/* ---- choices: ITEM(C name, word in the job file, doc) ---- */

#define TASK_KIND_LIST(ITEM) \
    ITEM(TASK_MARKOV, "markov", "next state of a cyclic Markov chain") \
    ITEM(TASK_BLOCKLIST, "blocklist", "a list of blocks of tokens, the last one cut short: its next token is asked")

#define PATTERN_LIST(ITEM) \
    ITEM(PATTERN_RECALL, "recall", "associative recall: [a b] .. [a] -> b") \
    ITEM(PATTERN_HOP, "hop", "induction over several hops: [a b] .. [b c] .. [a] -> c") \
    ITEM(PATTERN_NGRAM, "ngram", "in-context n-grams: [x y z] .. [x y] -> z; every token of the context is shared with other blocks, only all of them together decide") \
    ITEM(PATTERN_IOI, "ioi", "indirect object identification: [a b] .. [a] -> b or [b] -> a, the name that is not repeated") \
    ITEM(PATTERN_CONDITIONAL, "conditional", "conditional retrieval: [c a x] .. [d a y] .. [c a] -> x, each item under two conditions") \
    ITEM(PATTERN_INVERSION, "inversion", "permutation inversion: [i p(i)] for all i .. [j] -> the i with p(i) = j")

#define LAYOUT_LIST(ITEM) \
    ITEM(LAYOUT_CONTIGUOUS, "contiguous", "positions 0, 1, 2, ...: blocks end to end") \
    ITEM(LAYOUT_SLOTS, "slots", "each block in a slot of its own, assigned at random, from a random cyclic offset within the slot's period: shifts hold within blocks only") \
    ITEM(LAYOUT_OFFSETS, "offsets", "each block from a random offset on one ring of period positions; blocks may coincide by chance")

#define QUERIED_LIST(ITEM) \
    ITEM(QUERIED_ANY, "any", "each place in the list is equally likely") \
    ITEM(QUERIED_LAST, "last", "the queried block, all its copies, or the whole chain stand last in the list")

#define EXPECTATION_LIST(ITEM) \
    ITEM(EXPECTATION_SAMPLED, "sampled", "sequences are drawn") \
    ITEM(EXPECTATION_PATTERNS, "patterns", "one sequence for each pattern of relations, weighted by its probability: exact where only relations matter, as they do on the manifold; every step takes all of them") \
    ITEM(EXPECTATION_COMPLETE, "complete", "every sequence that can occur, all namings, slots and offsets, weighted by its probability: exact for every model; small tasks only")

#define SHIFTS_LIST(ITEM) \
    ITEM(SHIFTS_BOTH, "both", "all |s| < k, k the tokens of a block: the gradient stays on this manifold") \
    ITEM(SHIFTS_FORWARD, "forward", "0 <= s < k, as the paper lists them")

#define METRIC_LIST(ITEM) \
    ITEM(METRIC_COORDINATES, "coordinates", "gradient descent of the coordinates themselves") \
    ITEM(METRIC_WEIGHTS, "weights", "as gradient descent of the whole weights moves them: the gradient times the inverse of the directions' Gram matrix")

#define MODEL_KIND_LIST(ITEM) \
    ITEM(MODEL_DECODER, "decoder", "causal transformer decoder with learned positions") \
    ITEM(MODEL_ATTENTION_ONLY, "attention_only", "attention layers on one-hot tokens and positions; each head writes what it attends to beside the stream: d = (vocabulary + max_length) (1 + heads)^layer; trained are the fused key-query matrices and the unembedding") \
    ITEM(MODEL_MANIFOLD, "manifold", "an attention_only model whose weights lie on the invariant manifold, in its coordinates: the same function, computed with relations between positions alone")

#define EMBEDDING_LIST(ITEM) \
    ITEM(EMBEDDING_ONE_HOT, "one_hot", "a coordinate for each token and one for each position") \
    ITEM(EMBEDDING_CENTRED, "centred", "one_hot minus its mean over all tokens of a class, and over all positions of a period; up to a rotation the sinusoids of all frequencies of that period")

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
    ITEM(INIT_NORMAL_SQRT_D, "normal_sqrt_d", "every weight N(0, std^2 / d_model), biases 0") \
    ITEM(INIT_COORDINATES, "coordinates", "a point of the invariant manifold (init.coordinates, init.others), and N(0, noise^2) on every weight")

#define OPTIMIZER_LIST(ITEM) \
    ITEM(OPTIMIZER_ADAMW, "adamw", "AdamW, decoupled weight decay on every parameter (Loshchilov & Hutter 2019)") \
    ITEM(OPTIMIZER_SGD, "sgd", "gradient descent with momentum; weight decay added to the gradient")

#define LOSS_LIST(ITEM) \
    ITEM(LOSS_CROSS_ENTROPY, "cross_entropy", "-log softmax(logits)[target]") \
    ITEM(LOSS_MSE, "mse", "mean over classes of (logit - one_hot(target))^2") \
    ITEM(LOSS_SQUARED, "squared", "half the sum over classes of (logit - one_hot(target))^2, as theory writes it")

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

#define REFINE_BY_LIST(ITEM) \
    ITEM(REFINE_WINNER, "winner", "the circuit that won, by majority over the seeds") \
    ITEM(REFINE_OUTCOME, "outcome", "what became of the runs, by majority over the seeds")

#define KEY_ENUMERATE(name, word, doc) name,
enum task_kind { TASK_KIND_LIST(KEY_ENUMERATE) };
enum pattern { PATTERN_LIST(KEY_ENUMERATE) };
enum layout { LAYOUT_LIST(KEY_ENUMERATE) };
enum queried { QUERIED_LIST(KEY_ENUMERATE) };
enum expectation { EXPECTATION_LIST(KEY_ENUMERATE) };
enum shifts { SHIFTS_LIST(KEY_ENUMERATE) };
enum metric { METRIC_LIST(KEY_ENUMERATE) };
enum refine_by { REFINE_BY_LIST(KEY_ENUMERATE) };
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

#define TASK_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT, NAMED) \
    CHOICE(kind, task_kind, TASK_KIND_LIST, TASK_MARKOV, "what is learned") \
    INT(states, 4, 2, 4096, "1", "number of states of the chain; also the vocabulary") \
    REAL(stay, 0.75, 0.0, 1.0, "1", "probability to stay in a state; otherwise on to the next one, cyclically") \
    INT(sequences, 3000, 0, 100000000, "1", "training sequences; 0 = new ones at every step, the same for all runs") \
    INT(test_sequences, 3000, 1, 100000000, "1", "test sequences, from another stream") \
    INT(length, 32, 2, 4096, "1", "states per sequence: the first length-1 are the input, the last length-1 the targets") \
    CHOICE(pattern, pattern, PATTERN_LIST, PATTERN_RECALL, "what a block list asks") \
    INT(blocks, 6, 1, 4096, "1", "blocks of the list, without the one that is cut short") \
    INT(hops, 2, 1, 16, "1", "hop: blocks of a chain, from the token that is asked about to the answer") \
    INT(chains, 1, 1, 1024, "1", "hop: chains in the list, one of which is asked about; blocks beyond chains * hops are of other tokens") \
    INT(order, 2, 1, 8, "1", "ngram: tokens that decide") \
    INT(burstiness, 1, 1, 4096, "1", "recall: copies of the queried block among the blocks") \
    INT(common, 0, 0, 65536, "1", "common tokens, associated in pairs (2i, 2i + 1); even") \
    INT(rare_tokens, 64, 0, 65536, "1", "rare tokens, without associations: a pool from which each sequence draws anew") \
    REAL(rare, 1.0, 0.0, 1.0, "1", "share of the sequences that are of rare tokens") \
    REAL(variability, 0.0, 0.0, 1.0, "1", "recall: share of the sequences of common tokens whose labels are not the associated ones") \
    CHOICE(layout, layout, LAYOUT_LIST, LAYOUT_CONTIGUOUS, "positions of the blocks") \
    INT(period, 0, 0, 65536, "1", "positions of a slot, or of the ring; 0 = the least that keeps blocks from meeting themselves, 2 k - 1 a slot and the length on a ring") \
    CHOICE(queried, queried, QUERIED_LIST, QUERIED_ANY, "where the queried block stands") \
    CHOICE(expectation, expectation, EXPECTATION_LIST, EXPECTATION_SAMPLED, "what a step averages over") \
    INT(seed, 0, 0, INT64_MAX, "1", "seed of the data, the same for all runs so that runs are compared on the same inputs")

#define MODEL_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT, NAMED) \
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
    CHOICE(shifts, shifts, SHIFTS_LIST, SHIFTS_BOTH, "position relations of the manifold") \
    BOOL(rare_identity, false, "the manifold has a relation of its own between equal rare tokens, where there are common ones too") \
    TEXT(coordinates, "all", "coordinates of the manifold that the model has, or that are measured: all, or their names; the others are 0") \
    CHOICE(precision, precision, PRECISION_LIST, PRECISION_FLOAT32, "arithmetic of the training")

#define INIT_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT, NAMED) \
    CHOICE(scheme, init_scheme, INIT_SCHEME_LIST, INIT_PYTORCH, "distribution of the initial weights; layer norm starts at gain 1, shift 0") \
    REAL(std, 0.02, 0.0, 1e6, "1", "standard deviation of the normal schemes") \
    NAMED(coordinates, "1", "coordinates: values by name, {alpha_1: 0.3, beta_12: 0.1}") \
    REAL(others, 0.0, -1e6, 1e6, "1", "coordinates: value of the coordinates that are not named") \
    REAL(noise, 0.0, 0.0, 1e6, "1", "coordinates: standard deviation of what is added to every weight, or to every coordinate of a manifold model")

/* Factors on the initial values (weights and biases) of a tensor group. They multiply: query_key is also under attention
 * and all. */
#define INIT_SCALE_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT, NAMED) \
    REAL(all, 1.0, 0.0, 1e6, "1", "factor on every tensor but the layer norms") \
    REAL(token, 1.0, 0.0, 1e6, "1", "factor on the token embedding") \
    REAL(position, 1.0, 0.0, 1e6, "1", "factor on the position embedding") \
    REAL(attention, 1.0, 0.0, 1e6, "1", "factor on all attention tensors") \
    REAL(query_key, 1.0, 0.0, 1e6, "1", "factor on queries and keys") \
    REAL(value_output, 1.0, 0.0, 1e6, "1", "factor on values and on the attention output") \
    REAL(mlp, 1.0, 0.0, 1e6, "1", "factor on both MLP layers") \
    REAL(unembedding, 1.0, 0.0, 1e6, "1", "factor on the unembedding")

#define TRAIN_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT, NAMED) \
    CHOICE(optimizer, optimizer_kind, OPTIMIZER_LIST, OPTIMIZER_ADAMW, "") \
    REAL(lr, 1e-3, 0.0, 1e6, "1", "learning rate") \
    REAL(beta1, 0.9, 0.0, 0.9999999, "1", "AdamW: decay of the first moment") \
    REAL(beta2, 0.999, 0.0, 0.9999999, "1", "AdamW: decay of the second moment") \
    REAL(eps, 1e-8, 0.0, 1.0, "1", "AdamW: added to the root of the second moment") \
    REAL(momentum, 0.0, 0.0, 0.9999999, "1", "SGD: momentum") \
    REAL(weight_decay, 0.0, 0.0, 1e6, "1", "") \
    CHOICE(metric, metric, METRIC_LIST, METRIC_COORDINATES, "manifold: what gradient descent descends in") \
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
    REAL(target_loss, 0.0, 0.0, 1e30, "1", "stop when the training loss of a point of the curves is below this; a run that does not by its last step is UNFINISHED; 0 = no target") \
    REAL(target_accuracy, 0.0, 0.0, 1.0, "1", "stop when the test accuracy reaches this; a run that does not by its last step is UNFINISHED; 0 = no target") \
    REAL(diverged_above, 1e4, 0.0, 1e30, "1", "a loss above this, or a loss or weight that is not finite, ends the run as DIVERGED")

#define PROBE_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT, NAMED) \
    LIST(at, (1, -1), -1, INT64_MAX, "1", "steps after which the probes look; end = after the last step")

#define PROBE_ACE_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT, NAMED) \
    INT(layer, 0, 0, 64, "1", "block whose output is probed; 0 = no core is extracted") \
    CHOICE(outputs, ace_outputs, ACE_OUTPUTS_LIST, ACE_LOGITS, "task outputs whose gradients make the observability") \
    REAL(energy, 0.999, 0.0, 1.0, "1", "share of the squared core weights that the core must hold") \
    INT(rank, 0, 0, 8192, "1", "fixed core dimension; 0 = by energy") \
    REAL(tolerance, 1e-3, 0.0, 1.0, "1", "accuracy that keeping only the core may lose (sufficient dimension)") \
    BOOL(operator, true, "fit the linear operator z[t+1] = A z[t] where the task has one") \
    CHOICE(store, probe_store, PROBE_STORE_LIST, STORE_COORDINATES, "what is stored per probe input")

#define PROBE_MANIFOLD_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT, NAMED) \
    BOOL(coordinates, false, "project the weights on the invariant manifold: coordinates, and leakage by layer") \
    BOOL(gradient, false, "the gradient by coordinates, and over that of the same task with rare tokens alone") \
    BOOL(winner, false, "which circuit won: each one's loss without it") \
    REAL(winner_below, 0.15, 0.0, 1e30, "1", "no circuit has won above this training loss") \
    REAL(emerged_below, 0.0, 0.0, 1e30, "1", "emergence_step is the first step at which the training loss is below this; 0 = not measured") \
    REAL(level, 0.5, -1e6, 1e6, "1", "coordinate_step is the time at which a coordinate first reaches this")

#define PROBE_CIRCUIT_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT, NAMED) \
    REAL(budget, 0.0, 0.0, 1e6, "1", "coordinates are dropped, the least missed first, while the loss stays below budget times that of all; 0 = no circuit is sought") \
    INT(sequences, 256, 1, 100000000, "1", "test sequences by which a circuit is judged") \
    REAL(tolerance, 0.5, 0.0, 1.0, "1", "a unit is canonical when dropping it from the circuit costs at least this share of the accuracy above chance; the others aid")

/* ---- sections of the job as a whole (a run does not depend on them) ---- */

#define STORE_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT, NAMED) \
    REAL(checkpoint_every, 60.0, 0.0, 1e9, "s", "time between checkpoints of an unfinished tile; 0 = after every evaluation") \
    INT(tile_runs, 0, 0, 1000000, "1", "runs per tile; 0 = one run where a run takes a second or more, otherwise about a second of work")

#define REFINE_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT, NAMED) \
    INT(levels, 0, 0, 20, "1", "how often the cells of the axes' grid may be halved: training begins with every 2^levels-th point of each axis of numbers, and goes on where the corners of a cell disagree; 0 = every point is trained") \
    CHOICE(by, refine_by, REFINE_BY_LIST, REFINE_WINNER, "on what corners agree or disagree") \
    INT(halo, 1, 0, 16, "1", "cells of the same level around one whose corners disagree that are halved with it")

#define GATHER_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT, NAMED) \
    LIST(grid, (2, 1, 1), 1, 1024, "1", "process grid [rows, columns] of the ScaLAPACK stage") \
    INT(block, 32, 1, 4096, "1", "block size of the block-cyclic distribution") \
    INT(seed, 0, 0, INT64_MAX, "1", "seed of the permutation null and of the held-out split")

#define GATHER_CCA_KEYS(INT, REAL, BOOL, CHOICE, LIST, TEXT, NAMED) \
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
    SECTION("probe.manifold", probe_manifold, PROBE_MANIFOLD_KEYS, 1) \
    SECTION("probe.circuit", probe_circuit, PROBE_CIRCUIT_KEYS, 1) \
    SECTION("store", store, STORE_KEYS, 0) \
    SECTION("refine", refine, REFINE_KEYS, 0) \
    SECTION("gather", gather, GATHER_KEYS, 0) \
    SECTION("gather.cca", gather_cca, GATHER_CCA_KEYS, 0)

#define KEY_FIELD_INT(name, ...) int64_t name;
#define KEY_FIELD_REAL(name, ...) double name;
#define KEY_FIELD_BOOL(name, ...) bool name;
#define KEY_FIELD_CHOICE(name, type, ...) int name;
#define KEY_FIELD_LIST(name, ...) struct key_list name;
#define KEY_FIELD_TEXT(name, ...) char name[KEY_TEXT];
#define KEY_FIELD_NAMED(name, ...) struct key_named name;
#define KEY_STRUCT(path, cname, TABLE, is_run) \
    struct { TABLE(KEY_FIELD_INT, KEY_FIELD_REAL, KEY_FIELD_BOOL, KEY_FIELD_CHOICE, KEY_FIELD_LIST, KEY_FIELD_TEXT, KEY_FIELD_NAMED) } cname;

/* All keys of a job with their values: spec.train.lr, spec.init_scale.attention, ... */
struct spec {
    KEY_SECTIONS(KEY_STRUCT)
};

/* ---- the same tables as data ---- */

enum key_type { KEY_INT, KEY_REAL, KEY_BOOL, KEY_CHOICE, KEY_LIST, KEY_STRING, KEY_NAMED };

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
    const struct key *of;                /* of a single number of a NAMED key: that key; NULL of the keys of the tables */
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

/* Whether the value is the default, bit for bit. */
bool key_is_default(const struct spec *s, const struct key *k);

/* ---- single numbers of a NAMED key: init.coordinates.beta_12 ---- */

/* The NAMED key in whose path "KEY.NAME" begins, and the name, or NULL. */
const struct key *key_find_named(const char *path, const char **name);
/* Whether it is a name: letters, digits, _ and -, shorter than KEY_NAMED_TEXT. */
bool key_name_is_good(const char *name);
/* The number of a NAMED key that stands at item `slot`, as a key of its own: REAL, with the path "KEY.NAME". The caller frees
 * it with key_free, which leaves the keys of the tables alone. */
struct key *key_of_name(const struct key *named, const char *name, int slot);
void key_free(const struct key *k);
/* Where the name stands, or -1. */
int key_named_find(const struct key_named *n, const char *name);
/* Puts a name that is not there in its place, with the number 0; the later ones move. Returns false when all are taken. */
bool key_named_add(struct key_named *n, const char *name);

/* A scalar key's value as a number (a choice is its index, a bool 0 or 1). */
double key_get(const struct spec *s, const struct key *k);
void key_set(struct spec *s, const struct key *k, double value);

#endif
