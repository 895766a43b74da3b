/* Training gives the same bits on every instruction set, and dropout does not know how a batch is cut. */
#include "check.h"

#include "base/memory.h"
#include "base/stream.h"
#include "base/text.h"
#include "kern/kern.h"
#include "kern/kern_test.h"
#include "model/model.h"

#include <inttypes.h>

/* A small decoder; every key that model_open reads. */
static struct spec small_spec(void)
{
    struct spec s;
    key_defaults(&s);
    s.model.layers = 2;
    s.model.d_model = 24;
    s.model.heads = 2;
    s.model.d_mlp = (struct key_list){.count = 2, .value = {40, 24}};
    s.model.dropout = 0.2;
    s.model.max_length = 40;
    s.train.lr = 1e-2;
    s.train.weight_decay = 0.1;
    return s;
}

static struct model *model_of(const struct spec *s, struct task_shape shape)
{
    struct model *m = NULL;
    CHECK_OK(model_open(s, shape, &m));
    if (!m)
        exit(1);
    model_initialise(m, s, 17);
    return m;
}

struct tokens {
    int32_t token[64 * 40], target[64 * 40];
    struct batch batch;
};

/* Random tokens; `look`: 0 everywhere, 1 at the last position, 2 at random positions. */
static void fill(struct tokens *t, struct task_shape shape, int sequences, int look, uint32_t number)
{
    struct stream s = stream_open(3, PURPOSE_PROBE, number);
    for (int i = 0; i < sequences * shape.length; i++) {
        t->token[i] = (int32_t)stream_below(&s, (uint32_t)shape.vocabulary);
        t->target[i] = (int32_t)stream_below(&s, (uint32_t)shape.classes);
        if ((look == 1 && i % shape.length != shape.length - 1) || (look == 2 && stream_below(&s, 3)))
            t->target[i] = -1;
    }
    t->batch = (struct batch){.sequences = sequences, .length = shape.length, .token = t->token, .target = t->target};
}

/* Weights, losses and read-outs of a few steps of one configuration, appended to `bits`. */
static void train_a_little(int config, struct text *bits)
{
    static struct tokens t;
    struct task_shape shape = {.vocabulary = 5, .classes = config % 2 ? 7 : 5, .length = 3 + 5 * (config % 7)};
    struct spec s = small_spec();
    s.model.norm = config % 3;
    s.model.activation = config / 3 % 2;
    s.model.bias = config % 5 != 0;
    s.model.tied = config % 2 == 0;
    s.model.precision = config / 4 % 2;
    s.train.optimizer = config / 2 % 2;
    s.train.loss = config % 4 == 3;
    s.model.d_head = config % 2 ? 9 : 0;
    if (config % 4 == 2)
        s.model.d_mlp.value[1] = 0;
    struct model *m = model_of(&s, shape);
    struct optimizer *o = optimizer_new(m, &s);
    for (uint32_t step = 0; step < 3; step++) {
        fill(&t, shape, 2 + 10 * (config % 3), config % 3, step);
        struct model_result r = model_train_pass(m, &t.batch, 5, step);
        optimizer_step(o, m, step + 1);
        text_add_bytes(bits, &r.loss, sizeof r.loss);
        text_add_bytes(bits, &r.correct, sizeof r.correct);
    }
    size_t state_bytes;
    void *state = optimizer_state(o, &state_bytes);
    text_add_bytes(bits, model_weights(m), model_flat_length(m) * model_element_size(m));
    text_add_bytes(bits, state, state_bytes);
    double *g = memory_new(64 * 40 * 24, sizeof *g);
    size_t rows = model_logit_gradient(m, &t.batch, 1, 1, g);
    text_add_bytes(bits, g, rows * 24 * sizeof *g);
    memory_free(g);
    optimizer_free(o);
    model_free(m);
}

TEST(training_has_the_same_bits_on_all_instruction_sets)
{
    struct text first[12] = {{0}};
    for (int i = 0; kern_isa_at(i); i++) {
        if (kern_pin(kern_isa_at(i)) != STATUS_OK) {
            fprintf(stderr, "# %s is not on this machine: not tested\n", kern_isa_at(i));
            continue;
        }
        CHECK_TEXT(model_isa(), kern_isa_at(i));
        for (int config = 0; config < 12; config++) {
            struct text bits = {0};
            train_a_little(config, &bits);
            if (!first[config].length) {
                first[config] = bits;
                continue;
            }
            CHECK_INT(bits.length, first[config].length);
            if (memcmp(bits.s, first[config].s, bits.length))
                CHECK_FAIL("configuration %d: %s differs from %s", config, kern_isa_at(i), kern_isa_at(0));
            text_free(&bits);
        }
    }
    uint64_t hash = 0;
    for (int config = 0; config < 12; config++) {
        hash = hash * 31 + bits_hash(first[config].s, first[config].length);
        text_free(&first[config]);
    }
    fprintf(stderr, "bits of trainings %016" PRIx64 "\n", hash);
    CHECK_INT(memory_balance(), 0);
}

/* The loss of one sequence with dropout, bit for bit, whatever stands after it in the batch: alone, in a batch of a few
 * tiles, and in one so large that block 1 comes from its table. */
TEST(dropout_does_not_know_the_cut_of_the_batch)
{
    static struct tokens t;
    struct task_shape shape = {.vocabulary = 5, .classes = 5, .length = 33};
    for (int look = 0; look < 3; look++)
        for (int precision = 0; precision < 2; precision++) {
            struct spec s = small_spec();
            s.model.precision = precision;
            struct model *m = model_of(&s, shape);
            double loss[3];
            static const int sizes[] = {4, 9, 64};
            for (int i = 0; i < 3; i++) {
                fill(&t, shape, sizes[i], look, 0);
                for (int row = 0; row < sizes[i] * shape.length; row++)
                    if (row / shape.length != 3)
                        t.target[row] = -1;
                loss[i] = model_train_pass(m, &t.batch, 1, 2).loss;
            }
            CHECK(loss[0] > 0 && loss[0] == loss[1] && loss[1] == loss[2]);
            model_free(m);
        }
}

/* What the rows say one by one, each computed alone in the last block, is what they say together. */
TEST(dropout_does_not_know_which_rows_are_looked_at)
{
    static struct tokens t, one;
    struct task_shape shape = {.vocabulary = 5, .classes = 5, .length = 37};
    struct spec s = small_spec();
    s.model.precision = PRECISION_FLOAT64;
    struct model *m = model_of(&s, shape);
    size_t n = model_flat_length(m);
    double *whole = memory_new(n, sizeof *whole), *sum = memory_new(n, sizeof *sum);
    double *part = memory_new(n, sizeof *part);
    fill(&t, shape, 2, 0, 0);
    struct model_result together = model_train_pass(m, &t.batch, 1, 2);
    model_gradient_get(m, whole);
    double loss = 0;
    size_t rows = (size_t)(2 * shape.length);
    for (size_t row = 0; row < rows; row++) {
        one = t;
        one.batch.token = one.token;
        one.batch.target = one.target;
        for (size_t i = 0; i < rows; i++)
            if (i != row)
                one.target[i] = -1;
        loss += model_train_pass(m, &one.batch, 1, 2).loss / (double)rows;
        model_gradient_get(m, part);
        for (size_t i = 0; i < n; i++)
            sum[i] += part[i] / (double)rows;
    }
    CHECK_NEAR(loss, together.loss, 1e-13);
    for (size_t i = 0; i < n && check_failures < 5; i++)
        CHECK_NEAR(sum[i], whole[i], 1e-14);
    memory_free(whole), memory_free(sum), memory_free(part);
    model_free(m);
}

TEST(without_dropout_training_and_evaluation_agree)
{
    static struct tokens t;
    struct task_shape shape = {.vocabulary = 5, .classes = 5, .length = 9};
    struct spec s = small_spec();
    s.model.dropout = 0;
    struct model *m = model_of(&s, shape);
    fill(&t, shape, 20, 2, 0);
    struct model_result a = model_train_pass(m, &t.batch, 1, 2), b = model_evaluate(m, &t.batch, NULL);
    CHECK(a.loss == b.loss && a.rows == b.rows && a.correct == b.correct);
    model_free(m);
}
