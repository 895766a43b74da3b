/* task.c: what all tasks share: storage of the sequences, the order of an epoch, batches, positions of the loss.
 *
 * Memory: both sets are kept in the narrowest whole-number type that holds their tokens and targets, as long as that
 * takes at most STORED_BYTES_MAX; larger sets are made anew sequence by sequence, each from its own stream. The
 * order of the current epoch takes 4 bytes a training sequence. A task belongs to one thread.
 */
#include "task/task.h"

#include "base/memory.h"
#include "base/stream.h"
#include "task/kind.h"

#include <assert.h>
#include <math.h>
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
    int width;               /* bytes of a stored number */
    void *stored[2];         /* per set [sequences][token | target][length], or NULL: made on the fly */
    int32_t *scratch;        /* [2][length]: one sequence's tokens and targets */
    struct epoch_order *order;
};

static const struct task_ops *ops_of(const struct spec *s)
{
    switch ((enum task_kind)s->task.kind) {
    case TASK_MARKOV:
        return &markov_ops;
    }
    return NULL;
}

/* Sequences of a step. */
static size_t batch_size(const struct spec *s)
{
    size_t all = ops_of(s)->sequences(s, TASK_TRAIN), wanted = (size_t)s->train.batch;
    return wanted == 0 || wanted > all ? all : wanted;
}

struct task_shape task_shape_of(const struct spec *s)
{
    struct task_shape shape = ops_of(s)->shape(s);
    shape.looked = s->train.positions.count ? s->train.positions.count : shape.length;
    shape.batch = (int)batch_size(s);
    return shape;
}

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
    if (wanted->count == 0)
        memset(t->asked, 1, (size_t)t->shape.length);
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
    return most - 1 <= INT8_MAX ? 1 : most - 1 <= INT16_MAX ? 2 : 4;
}

static void make_sequence(const struct task *t, enum task_set set, size_t number, int32_t *token, int32_t *target)
{
    t->ops->sequence(&t->spec, set, number, token, target);
    for (int p = 0; p < t->shape.length; p++)
        if (!t->asked[p])
            target[p] = -1;
}

static void store_set(struct task *t, enum task_set set)
{
    size_t n = task_sequences(t, set), numbers = 2 * (size_t)t->shape.length, bytes = numbers * (size_t)t->width;
    char *at = t->stored[set] = memory_new(n, bytes);
    for (size_t i = 0; i < n; i++) {
        make_sequence(t, set, i, t->scratch, t->scratch + t->shape.length);
        narrow(t->scratch, numbers, t->width, at + i * bytes);
    }
}

static void put_sequence(const struct task *t, enum task_set set, size_t number, int32_t *token, int32_t *target)
{
    if (!t->stored[set]) {
        make_sequence(t, set, number, token, target);
        return;
    }
    size_t length = (size_t)t->shape.length, half = length * (size_t)t->width;
    const char *at = (const char *)t->stored[set] + number * 2 * half;
    widen(at, length, t->width, token);
    widen(at + half, length, t->width, target);
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
                           (unsigned long)UINT32_MAX, t->spec.train.steps ? "" : ", or in larger batches");
    return STATUS_OK;
}

enum status task_open(const struct spec *s, uint64_t seed, struct task **task)
{
    struct task *t = memory_new(1, sizeof *t);
    t->ops = ops_of(s);
    t->spec = *s;
    t->seed = seed;
    t->shape = task_shape_of(s);
    t->width = width_of(t->shape);
    enum status status = ask_positions(t, &s->train.positions);
    if (status == STATUS_OK)
        status = check_counts(t);
    if (status != STATUS_OK) {
        task_free(t);
        return status;
    }
    size_t numbers = 2 * (size_t)t->shape.length;
    t->scratch = memory_new(numbers, sizeof *t->scratch);
    t->order = memory_new(1, sizeof *t->order);
    t->order->sequence = memory_new(task_sequences(t, TASK_TRAIN), sizeof *t->order->sequence);
    size_t all = task_sequences(t, TASK_TRAIN) + task_sequences(t, TASK_TEST);
    if (all <= STORED_BYTES_MAX / (numbers * (size_t)t->width)) {
        store_set(t, TASK_TRAIN);
        store_set(t, TASK_TEST);
    }
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
    memory_free(t->stored[TASK_TRAIN]);
    memory_free(t->stored[TASK_TEST]);
    memory_free(t->scratch);
    memory_free(t->asked);
    memory_free(t);
}

/* ---- sizes ---- */

struct task_shape task_shape(const struct task *t) { return t->shape; }

size_t task_sequences(const struct task *t, enum task_set set) { return t->ops->sequences(&t->spec, set); }

size_t task_batch_size(const struct task *t) { return batch_size(&t->spec); }

size_t task_epoch_steps(const struct task *t)
{
    size_t batch = task_batch_size(t);
    return (task_sequences(t, TASK_TRAIN) + batch - 1) / batch;
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

void task_train_batch(const struct task *t, size_t step, struct batch *b)
{
    size_t all = task_sequences(t, TASK_TRAIN), size = task_batch_size(t), length = (size_t)t->shape.length;
    const uint32_t *order = order_of_epoch(t, step / task_epoch_steps(t));
    size_t first = step % task_epoch_steps(t) * size, count = all - first < size ? all - first : size;
    assert(b->length == t->shape.length);
    b->sequences = (int)count;
    for (size_t i = 0; i < count; i++)
        put_sequence(t, TASK_TRAIN, order[first + i], b->token + i * length, b->target + i * length);
}

void task_set_batch(const struct task *t, enum task_set set, size_t first, size_t count, struct batch *b)
{
    size_t length = (size_t)t->shape.length;
    assert(b->length == t->shape.length && first + count <= task_sequences(t, set));
    b->sequences = (int)count;
    for (size_t i = 0; i < count; i++)
        put_sequence(t, set, first + i, b->token + i * length, b->target + i * length);
}

struct task_truth task_truth(const struct task *t)
{
    struct task_truth truth = {.accuracy_best = NAN, .accuracy_chance = NAN, .operator_r2 = NAN};
    t->ops->truth(&t->spec, &truth);
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

void batch_free(struct batch *b)
{
    memory_free(b->token);
    memory_free(b->target);
    *b = (struct batch){0};
}
