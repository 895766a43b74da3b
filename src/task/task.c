/* task.c: what all tasks share: storage of the sequences, the order of an epoch, batches, positions of the loss.
 *
 * Memory: drawn sets are kept in the narrowest whole-number type that holds their tokens, targets and positions, as long as
 * that takes at most STORED_BYTES_MAX; larger sets are made anew sequence by sequence, each from its own stream. What is
 * enumerated is always kept, once for both sets. The order of the current epoch takes 4 bytes a training sequence. A task
 * belongs to one thread.
 */
#include "task/task.h"

#include "base/memory.h"
#include "base/stream.h"
#include "task/kind.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define STORED_BYTES_MAX ((size_t)64 << 20)

/* The permutation of one epoch, kept because neighbouring steps share it. */
struct epoch_order {
    int known;
    size_t epoch;
    uint32_t *sequence;
};

struct task {
    const struct task_ops *ops;
    struct spec spec;
    uint64_t seed;
    struct task_shape shape;
    unsigned char *asked;    /* [length]: does the loss look here? */
    int parts;               /* of a stored sequence: token, target, and position where the task has its own */
    int width;               /* bytes of a stored number */
    size_t sequences[2];     /* of each set; those of an enumeration are in both */
    void *stored[2];         /* per set [sequences][parts][length], or NULL: made on the fly */
    double *weight;          /* [sequences] of an enumeration, else NULL */
    struct task_sequence scratch;
    struct epoch_order *order;
};

static const struct task_ops *ops_of(const struct spec *s)
{
    switch ((enum task_kind)s->task.kind) {
    case TASK_MARKOV: return &markov_ops;
    case TASK_BLOCKLIST: return &blocklist_ops;
    }
    return NULL;
}

struct task_shape task_shape_of(const struct spec *s) { return shape_of(s); }

static bool is_enumerated(const struct task *t)
{
    return t->spec.task.kind != TASK_MARKOV && t->spec.task.expectation != EXPECTATION_SAMPLED;
}
/* New sequences at every step. */
static bool is_fresh(const struct task *t) { return !is_enumerated(t) && t->spec.task.sequences == 0; }

/* ---- positions ---- */

static enum status ask_position(struct task *t, int64_t wanted)
{
    int length = t->shape.length;
    if (wanted >= length || wanted < -length)
        return status_fail(STATUS_JOB, "train.positions: %lld is outside the %d input positions: use 0 .. %d, or "
                           "-1 .. %d from the end", (long long)wanted, length, length - 1, -length);
    int64_t position = wanted < 0 ? wanted + length : wanted;
    if (t->asked[position])
        return status_fail(STATUS_JOB, "train.positions: %lld names position %lld a second time: leave it out",
                           (long long)wanted, (long long)position);
    t->asked[position] = 1;
    return STATUS_OK;
}

static enum status ask_positions(struct task *t, const struct key_list *wanted)
{
    t->asked = memory_new((size_t)t->shape.length, 1);
    const int all = wanted->count ? 0 : t->spec.task.kind == TASK_MARKOV ? t->shape.length : 1;       /* of a list, the last */
    memset(t->asked + t->shape.length - all, 1, (size_t)all);
    for (int i = 0; i < wanted->count; i++) {
        enum status status = ask_position(t, wanted->value[i]);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

int task_positions(const struct task *t, int *position)
{
    int count = 0;
    for (int p = 0; p < t->shape.length; p++)
        if (t->asked[p])
            position[count++] = p;
    return count;
}

/* ---- storage ---- */

static void narrow(const int32_t *from, size_t n, int width, void *to)
{
    for (size_t i = 0; i < n; i++)
        switch (width) {
        case 1: ((int8_t *)to)[i] = (int8_t)from[i]; break;
        case 2: ((int16_t *)to)[i] = (int16_t)from[i]; break;
        default: ((int32_t *)to)[i] = from[i];
        }
}

static void widen(const void *from, size_t n, int width, int32_t *to)
{
    for (size_t i = 0; i < n; i++)
        switch (width) {
        case 1: to[i] = ((const int8_t *)from)[i]; break;
        case 2: to[i] = ((const int16_t *)from)[i]; break;
        default: to[i] = ((const int32_t *)from)[i];
        }
}

static int width_of(struct task_shape shape)
{
    int most = shape.vocabulary > shape.classes ? shape.vocabulary : shape.classes;
    if (shape.positions > most)
        most = shape.positions;
    return most - 1 <= INT8_MAX ? 1 : most - 1 <= INT16_MAX ? 2 : 4;
}

static size_t stored_bytes(const struct task *t) { return (size_t)t->parts * (size_t)t->shape.length * (size_t)t->width; }

/* The parts of a sequence where they lie one behind the other from `number` on. */
static struct task_sequence parts_at(const struct task *t, int32_t *number)
{
    size_t n = (size_t)t->shape.length;
    return (struct task_sequence){number, number + n, t->shape.positions ? number + 2 * n : NULL, 1.0};
}

static void ask(const struct task *t, int32_t *target)
{
    for (int p = 0; p < t->shape.length; p++)
        if (!t->asked[p])
            target[p] = -1;
}

static void make_sequence(const struct task *t, enum task_set set, size_t number, struct task_sequence *q)
{
    enum purpose purpose = set == TASK_TRAIN ? PURPOSE_DATA_TRAIN : PURPOSE_DATA_TEST;
    struct stream stream = stream_open((uint64_t)t->spec.task.seed, purpose, (uint32_t)number);
    t->ops->draw(&t->spec, &stream, q);
    ask(t, q->target);
}

static void store(struct task *t, enum task_set set, size_t number)
{
    narrow(t->scratch.token, (size_t)t->parts * (size_t)t->shape.length, t->width,
           (char *)t->stored[set] + number * stored_bytes(t));
}

static void store_set(struct task *t, enum task_set set)
{
    size_t n = task_sequences(t, set);
    t->stored[set] = memory_new(n, stored_bytes(t));
    for (size_t i = 0; i < n; i++) {
        make_sequence(t, set, i, &t->scratch);
        store(t, set, i);
    }
}

static void keep_enumerated(void *context, const struct task_sequence *q)
{
    struct task *t = context;
    size_t n = (size_t)t->shape.length, number = t->sequences[TASK_TRAIN]++;
    assert((double)number < shape_sequences(&t->spec, false));
    memcpy(t->scratch.token, q->token, n * sizeof *q->token);
    memcpy(t->scratch.target, q->target, n * sizeof *q->target);
    memcpy(t->scratch.position, q->position, n * sizeof *q->position);
    ask(t, t->scratch.target);
    store(t, TASK_TRAIN, number);
    t->weight[number] = q->weight;
}

static void store_enumeration(struct task *t)
{
    size_t n = (size_t)shape_sequences(&t->spec, false);
    t->stored[TASK_TRAIN] = memory_new(n, stored_bytes(t));
    t->weight = memory_new(n, sizeof *t->weight);
    t->sequences[TASK_TRAIN] = 0;
    t->ops->enumerate(&t->spec, keep_enumerated, t);
    assert(t->sequences[TASK_TRAIN] == n);
    t->stored[TASK_TEST] = t->stored[TASK_TRAIN];
    t->sequences[TASK_TEST] = n;
}

/* Sequence i of a batch. */
static struct task_sequence row_of(const struct batch *b, size_t i)
{
    size_t at = i * (size_t)b->length;
    return (struct task_sequence){b->token + at, b->target + at, b->position ? b->position + at : NULL, 1.0};
}

static void put_sequence(const struct task *t, enum task_set set, size_t number, struct batch *b, size_t i)
{
    struct task_sequence q = row_of(b, i);
    assert(!t->shape.positions || b->position);
    if (b->weight)
        b->weight[i] = t->weight ? t->weight[number] : 1.0;
    if (!t->stored[set]) {
        make_sequence(t, set, number, &q);
        return;
    }
    size_t length = (size_t)t->shape.length, part = length * (size_t)t->width;
    const char *at = (const char *)t->stored[set] + number * stored_bytes(t);
    widen(at, length, t->width, q.token);
    widen(at + part, length, t->width, q.target);
    if (q.position && t->parts == 3)
        widen(at + 2 * part, length, t->width, q.position);
}

/* ---- opening ---- */

/* Streams are numbered with 32 bits: sequences, epochs and steps must fit. */
static enum status check_counts(const struct task *t)
{
    double steps = t->spec.train.steps ? (double)t->spec.train.steps
                                       : (double)t->spec.train.epochs * (double)task_epoch_steps(t);
    if (steps > (double)UINT32_MAX)
        return status_fail(STATUS_JOB, "%s: %.0f steps are more than the %lu that random streams can number: train "
                           "fewer%s", t->spec.train.steps ? "train.steps" : "train.epochs", steps,
                           (unsigned long)UINT32_MAX, t->spec.train.steps || is_fresh(t) ? "" : ", or in larger batches");
    return STATUS_OK;
}

static void open_sets(struct task *t)
{
    if (is_enumerated(t)) {
        store_enumeration(t);
        return;
    }
    if (!is_fresh(t)) {
        t->order = memory_new(1, sizeof *t->order);
        t->order->sequence = memory_new(t->sequences[TASK_TRAIN], sizeof *t->order->sequence);
    }
    if (t->sequences[TASK_TRAIN] + t->sequences[TASK_TEST] <= STORED_BYTES_MAX / stored_bytes(t)) {
        store_set(t, TASK_TRAIN);
        store_set(t, TASK_TEST);
    }
}

/* For callers that no job file has checked. */
static enum status check_possible(const struct spec *s)
{
    struct text why = {0};
    enum status status = STATUS_OK;
    if (s->task.kind != TASK_MARKOV && !shape_possible(s, &why))
        status = status_fail(STATUS_JOB, "%s", text_string(&why));
    text_free(&why);
    return status;
}

enum status task_open(const struct spec *s, uint64_t seed, struct task **task)
{
    enum status status = check_possible(s);
    if (status != STATUS_OK)
        return status;
    struct task *t = memory_new(1, sizeof *t);
    t->ops = ops_of(s);
    t->spec = *s;
    t->seed = seed;
    t->shape = task_shape_of(s);
    t->width = width_of(t->shape);
    t->parts = t->shape.positions ? 3 : 2;
    t->sequences[TASK_TRAIN] = (size_t)shape_sequences(s, false);
    t->sequences[TASK_TEST] = (size_t)shape_sequences(s, true);
    status = ask_positions(t, &s->train.positions);
    if (status == STATUS_OK)
        status = check_counts(t);
    if (status != STATUS_OK) {
        task_free(t);
        return status;
    }
    t->scratch = parts_at(t, memory_new((size_t)t->parts * (size_t)t->shape.length, sizeof(int32_t)));
    open_sets(t);
    *task = t;
    return STATUS_OK;
}

void task_free(struct task *t)
{
    if (!t)
        return;
    if (t->order)
        memory_free(t->order->sequence);
    memory_free(t->order);
    if (t->stored[TASK_TEST] != t->stored[TASK_TRAIN])
        memory_free(t->stored[TASK_TEST]);
    memory_free(t->stored[TASK_TRAIN]);
    memory_free(t->weight);
    memory_free(t->scratch.token);
    memory_free(t->asked);
    memory_free(t);
}

/* ---- sizes ---- */

struct task_shape task_shape(const struct task *t) { return t->shape; }

size_t task_sequences(const struct task *t, enum task_set set) { return t->sequences[set]; }

size_t task_batch_size(const struct task *t) { return (size_t)t->shape.batch; }

size_t task_epoch_steps(const struct task *t)
{
    size_t batch = task_batch_size(t);
    return is_fresh(t) ? 1 : (task_sequences(t, TASK_TRAIN) + batch - 1) / batch;
}

size_t task_steps(const struct task *t)
{
    return t->spec.train.steps ? (size_t)t->spec.train.steps : (size_t)t->spec.train.epochs * task_epoch_steps(t);
}

/* ---- batches ---- */

static const uint32_t *order_of_epoch(const struct task *t, size_t epoch)
{
    struct epoch_order *o = t->order;
    if (!o->known || o->epoch != epoch) {
        struct stream stream = stream_open(t->seed, PURPOSE_SHUFFLE, (uint32_t)epoch);
        stream_permutation(&stream, o->sequence, (uint32_t)task_sequences(t, TASK_TRAIN));
        o->known = 1;
        o->epoch = epoch;
    }
    return o->sequence;
}

/* Sequence i of step t is a stream of its own within the step's. */
static void draw_step(const struct task *t, size_t step, struct batch *b)
{
    assert(!t->shape.positions || b->position);
    for (size_t i = 0; i < (size_t)b->sequences; i++) {
        struct stream stream = stream_open((uint64_t)t->spec.task.seed, PURPOSE_DATA_STEP, (uint32_t)step);
        struct task_sequence q = row_of(b, i);
        stream.block = (uint64_t)i << 32;
        t->ops->draw(&t->spec, &stream, &q);
        ask(t, q.target);
        if (b->weight)
            b->weight[i] = 1.0;
    }
}

void task_train_batch(const struct task *t, size_t step, struct batch *b)
{
    size_t all = task_sequences(t, TASK_TRAIN), size = task_batch_size(t);
    assert(b->length == t->shape.length);
    if (is_fresh(t)) {
        b->sequences = (int)size;
        draw_step(t, step, b);
        return;
    }
    size_t first = step % task_epoch_steps(t) * size, count = all - first < size ? all - first : size;
    const uint32_t *order = is_enumerated(t) ? NULL : order_of_epoch(t, step / task_epoch_steps(t));
    b->sequences = (int)count;
    for (size_t i = 0; i < count; i++)
        put_sequence(t, TASK_TRAIN, order ? order[first + i] : first + i, b, i);
}

void task_set_batch(const struct task *t, enum task_set set, size_t first, size_t count, struct batch *b)
{
    assert(b->length == t->shape.length && first + count <= task_sequences(t, set));
    b->sequences = (int)count;
    for (size_t i = 0; i < count; i++)
        put_sequence(t, set, first + i, b, i);
}

enum status task_truth_of(const struct spec *s, struct task_truth *truth)
{
    enum status status = check_possible(s);
    *truth = (struct task_truth){.accuracy_best = NAN, .accuracy_chance = NAN, .operator_r2 = NAN};
    if (status == STATUS_OK)
        ops_of(s)->truth(s, truth);
    return status;
}

struct task_truth task_truth(const struct task *t)
{
    struct task_truth truth;
    task_truth_of(&t->spec, &truth);
    return truth;
}

struct batch batch_new(int sequences, int length)
{
    size_t n = (size_t)sequences * (size_t)length;
    struct batch b = {.sequences = sequences, .length = length};
    b.token = memory_new(n, sizeof *b.token);
    b.target = memory_new(n, sizeof *b.target);
    return b;
}

struct batch batch_new_of(int sequences, struct task_shape shape)
{
    struct batch b = batch_new(sequences, shape.length);
    if (shape.positions) {
        b.position = memory_new((size_t)sequences * (size_t)shape.length, sizeof *b.position);
        b.weight = memory_new((size_t)sequences, sizeof *b.weight);
    }
    return b;
}

void batch_free(struct batch *b)
{
    memory_free(b->token);
    memory_free(b->target);
    memory_free(b->position);
    memory_free(b->weight);
    *b = (struct batch){0};
}
