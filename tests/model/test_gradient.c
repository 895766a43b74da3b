/* Gradients by finite differences of the model's own loss, dropout included; how batches are cut; what dropout is. */
#include "check.h"
#include "model/cases.h"

/* Central differences of a smooth function with step h err by h^2 f''' / 6 and by rounding over h: with h = 1e-5
 * both are near 1e-10 of the function's size; 1e-7 of the largest gradient leaves room for large third derivatives. */
#define STEP 1e-5
#define TOLERANCE 1e-7

static double loss_at(struct model *m, const double *flat, const struct batch *b, uint64_t step)
{
    model_weights_set(m, flat);
    return model_train_pass(m, b, 3, step).loss;
}

/* Every stride-th element of each tensor. */
static void check_differences(const struct model_case *c, double dropout, int ragged, int stride)
{
    struct spec s = case_spec(c, PRECISION_FLOAT64);
    s.model.dropout = dropout;
    struct model *m = case_model(c, &s);
    struct batch b = case_batch(c, ragged);
    size_t n = model_flat_length(m);
    double *flat = memory_new(n, sizeof *flat), *gradient = memory_new(n, sizeof *gradient), most = 0.0;
    case_weights(c, m, flat);
    const uint64_t step = 11;
    loss_at(m, flat, &b, step);
    model_gradient_get(m, gradient);
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(gradient[i]));
    const struct tensor *table;
    int tensors = model_tensors(m, &table);
    for (int t = 0; t < tensors; t++)
        for (int k = t % stride; k < table[t].rows * table[t].cols; k += stride) {
            size_t i = table[t].offset + (size_t)k;
            double kept = flat[i];
            flat[i] = kept + STEP;
            double up = loss_at(m, flat, &b, step);
            flat[i] = kept - STEP;
            double down = loss_at(m, flat, &b, step);
            flat[i] = kept;
            double expected = (up - down) / (2.0 * STEP);
            if (!(fabs(gradient[i] - expected) <= TOLERANCE * most))
                CHECK_FAIL("%s, dropout %g: gradient of %s[%d] is %.12g, differences say %.12g (largest %.3g)", c->name,
                           dropout, table[t].name, k, gradient[i], expected, most);
        }
    memory_free(flat);
    memory_free(gradient);
    batch_free(&b);
    model_free(m);
}

static void check_all_differences(double dropout, int ragged)
{
    for (int i = 0; i < MODEL_CASES; i++)
        if (strncmp(model_cases[i].name, "large", 5))
            check_differences(&model_cases[i], dropout, ragged, CHECK_SANITIZED ? 37 : 1);
    CHECK_INT(memory_balance(), 0);
}

TEST(gradients_without_dropout) { check_all_differences(0.0, 0); }
TEST(gradients_with_dropout) { check_all_differences(0.3, 0); }
TEST(gradients_with_dropout_at_ragged_positions) { check_all_differences(0.1, 1); }

/* Sixty times as many sequences as tokens reach the paths for large batches: tables of token-position pairs, several
 * tiles. */
static struct model_case enlarged(const struct model_case *c)
{
    struct model_case large = *c;
    large.sequences = 60 * c->vocabulary;
    return large;
}

TEST(gradients_with_dropout_of_large_batches)
{
    for (int i = 0; i < MODEL_CASES; i += 3)
        if (strncmp(model_cases[i].name, "large", 5)) {
            struct model_case c = enlarged(&model_cases[i]);
            check_differences(&c, 0.2, i % 2, CHECK_SANITIZED ? 3700 : 37);
        }
    CHECK_INT(memory_balance(), 0);
}

/* ---- how a batch is cut ---- */

/* Sequence q of a batch, as a batch that borrows its arrays. */
static struct batch single_of(const struct batch *b, int q)
{
    return (struct batch){.sequences = 1, .length = b->length, .token = b->token + q * b->length,
                          .target = b->target + q * b->length};
}

/* Loss and gradient of a batch are the means over its sequences, taken one by one. */
static void check_cut(const struct model_case *small, int precision)
{
    struct model_case c = enlarged(small);
    struct spec s = case_spec(&c, precision);
    struct model *m = case_model(&c, &s);
    struct batch b = case_batch(&c, 0);
    size_t n = model_flat_length(m);
    double *flat = memory_new(n, sizeof *flat), *got = memory_new(n, sizeof *got), *sum = memory_new(n, sizeof *sum);
    double *one = memory_new(n, sizeof *one), loss = 0.0, most = 0.0, worst = 0.0;
    double tolerance = precision == PRECISION_FLOAT64 ? 1e-12 : 1e-5;
    case_weights(&c, m, flat);
    struct model_result whole = model_train_pass(m, &b, 1, 1);
    model_gradient_get(m, got);
    struct model_result seen = model_evaluate(m, &b, NULL);
    CHECK_INT(seen.rows, whole.rows);
    CHECK_INT(seen.correct, whole.correct);
    CHECK_NEAR(seen.loss, whole.loss, tolerance * whole.loss);
    size_t correct = 0;
    for (int q = 0; q < c.sequences; q++) {
        struct batch single = single_of(&b, q);
        struct model_result r = model_train_pass(m, &single, 1, 1);
        model_gradient_get(m, one);
        loss += r.loss / c.sequences;
        correct += r.correct;
        for (size_t i = 0; i < n; i++)
            sum[i] += one[i] / c.sequences;
    }
    CHECK_INT(correct, whole.correct);
    CHECK_NEAR(whole.loss, loss, tolerance * loss);
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs(sum[i]));
        worst = fmax(worst, fabs(sum[i] - got[i]));
    }
    if (!(worst <= tolerance * most))
        CHECK_FAIL("%s: gradient of the whole is off by %.2e of %.2e", c.name, worst / most, most);
    memory_free(flat);
    memory_free(got);
    memory_free(sum);
    memory_free(one);
    batch_free(&b);
    model_free(m);
}

TEST(large_batches_are_means_over_their_sequences)
{
    for (int i = 0; i < MODEL_CASES; i++)
        for (int precision = 0; precision < 2; precision++)
            check_cut(&model_cases[i], precision);
    CHECK_INT(memory_balance(), 0);
}

enum per_row { LOGITS, ACTIVATIONS, LOGIT_GRADIENT, PER_ROW };

static void rows_of(struct model *m, const struct batch *b, enum per_row what, int layer, double *out)
{
    switch (what) {
    case LOGITS: model_logits(m, b, out); break;
    case ACTIVATIONS: model_activations(m, b, layer, out); break;
    default: model_logit_gradient(m, b, layer, 1, out);
    }
}

/* What is said per row does not depend on the other sequences of the batch, but for roundings. */
static void check_rows(const struct model_case *small, int precision, int ragged)
{
    struct model_case c = enlarged(small);
    struct spec s = case_spec(&c, precision);
    struct model *m = case_model(&c, &s);
    struct batch b = case_batch(&c, ragged);
    double *flat = memory_new(model_flat_length(m), sizeof *flat);
    case_weights(&c, m, flat);
    size_t wide = (size_t)(c.d_model > c.classes ? c.d_model : c.classes), all = model_evaluate(m, &b, NULL).rows;
    double *whole = memory_new(all * wide, sizeof *whole), *one = memory_new((size_t)c.length * wide, sizeof *one);
    for (int what = 0; what < PER_ROW; what++) {
        size_t width = (size_t)(what == LOGITS ? c.classes : c.d_model), at = 0;
        double worst = 0.0, most = 0.0;
        rows_of(m, &b, (enum per_row)what, 1, whole);
        for (int q = 0; q < c.sequences; q++) {
            struct batch single = single_of(&b, q);
            size_t n = model_evaluate(m, &single, NULL).rows * width;
            rows_of(m, &single, (enum per_row)what, 1, one);
            for (size_t k = 0; k < n; k++, at++) {
                worst = fmax(worst, fabs(whole[at] - one[k]));
                most = fmax(most, fabs(one[k]));
            }
        }
        CHECK_INT(at, all * width);
        if (!(worst <= (precision == PRECISION_FLOAT64 ? 1e-12 : 1e-5) * most))
            CHECK_FAIL("%s: rows (%d) of the whole batch are off by %.2e of %.2e", c.name, what, worst / most, most);
    }
    memory_free(whole);
    memory_free(one);
    memory_free(flat);
    batch_free(&b);
    model_free(m);
}

TEST(rows_do_not_depend_on_the_rest_of_the_batch)
{
    for (int i = 0; i < MODEL_CASES; i++)
        check_rows(&model_cases[i], i % 2 ? PRECISION_FLOAT32 : PRECISION_FLOAT64, i % 3 == 0);
    CHECK_INT(memory_balance(), 0);
}

/* One model sees batches of several sizes and lengths in turn; what it says of one does not depend on the others. */
TEST(passes_do_not_remember_each_other)
{
    const struct model_case *c = &model_cases[1];
    struct model_case longer = *c, many = *c;
    longer.length = 9;
    many.sequences = 100;
    struct spec s = case_spec(&longer, PRECISION_FLOAT32);
    struct model *m = case_model(c, &s), *fresh = case_model(c, &s);
    struct batch b[3] = {case_batch(c, 0), case_batch(&longer, 1), case_batch(&many, 0)};
    size_t bytes = model_flat_length(m) * model_element_size(m);
    double *flat = memory_new(model_flat_length(m), sizeof *flat);
    case_weights(c, m, flat);
    case_weights(c, fresh, flat);
    struct model_result first = model_train_pass(fresh, &b[0], 1, 5);
    for (int k = 0; k < 6; k++) {
        model_train_pass(m, &b[k % 3], 1, (uint64_t)k);
        model_evaluate(m, &b[(k + 1) % 3], NULL);
    }
    struct model_result again = model_train_pass(m, &b[0], 1, 5);
    CHECK(first.loss == again.loss);
    CHECK_BYTES(model_gradient(fresh), model_gradient(m), bytes);
    for (int k = 0; k < 3; k++)
        batch_free(&b[k]);
    memory_free(flat);
    model_free(m);
    model_free(fresh);
}

/* ---- dropout ---- */

TEST(dropout_belongs_to_its_key_and_to_training_only)
{
    const struct model_case *c = &model_cases[1];
    struct spec s = case_spec(c, PRECISION_FLOAT32), dry = s;
    s.model.dropout = 0.2;
    struct model *m = case_model(c, &s), *without = case_model(c, &dry);
    struct batch b = case_batch(c, 0);
    double *flat = memory_new(model_flat_length(m), sizeof *flat);
    case_weights(c, m, flat);
    case_weights(c, without, flat);
    double loss = model_train_pass(m, &b, 1, 1).loss;
    CHECK(model_train_pass(m, &b, 1, 2).loss != loss);
    CHECK(model_train_pass(m, &b, 2, 1).loss != loss);
    CHECK(model_train_pass(m, &b, 1, 1).loss == loss);
    CHECK(model_evaluate(m, &b, NULL).loss == model_evaluate(without, &b, NULL).loss);
    CHECK(model_train_pass(without, &b, 1, 1).loss == model_train_pass(without, &b, 2, 2).loss);
    memory_free(flat);
    batch_free(&b);
    model_free(m);
    model_free(without);
}

/* With mean squared error the gradient of the unembedding's bias is linear in the logits. Where nothing but linear
 * maps follows the places of dropout, its mean over the steps must be what it is without dropout. part 0: attention
 * weights and output (no MLP); part 1: hidden units and MLP output (attention output set to zero). */
static void check_unbiased(int part)
{
    struct model_case c = {"unbiased", 1, 8, 2, 0, {part ? 12 : 0, -1}, NORM_NONE, 1, ACTIVATION_RELU, 0, LOSS_MSE,
                           5, 5, 7, 3, ALL, 1.0};
    struct spec s = case_spec(&c, PRECISION_FLOAT64), dry = s;
    s.model.dropout = 0.3;
    struct model *m = case_model(&c, &s), *without = case_model(&c, &dry);
    struct batch b = case_batch(&c, 0);
    size_t n = model_flat_length(m);
    double *flat = memory_new(n, sizeof *flat), *g = memory_new(n, sizeof *g);
    double *expected = memory_new(n, sizeof *expected);
    const struct tensor *table, *bias = NULL;
    int tensors = model_tensors(m, &table), steps = 4000;
    case_weights(&c, m, flat);
    for (int i = 0; i < tensors; i++) {
        if (table[i].group == GROUP_UNEMBEDDING && table[i].rows == 1)
            bias = &table[i];
        if (part && strstr(table[i].name, "attention.output"))
            memset(flat + table[i].offset, 0, (size_t)(table[i].rows * table[i].cols) * sizeof *flat);
    }
    model_weights_set(m, flat);
    model_weights_set(without, flat);
    model_train_pass(without, &b, 1, 1);
    model_gradient_get(without, expected);
    double sum[5] = {0}, squares[5] = {0};
    for (int step = 0; step < steps; step++) {
        model_train_pass(m, &b, 1, (uint64_t)step);
        model_gradient_get(m, g);
        for (int k = 0; k < 5; k++) {
            double x = g[bias->offset + (size_t)k] - expected[bias->offset + (size_t)k];
            sum[k] += x;
            squares[k] += x * x;
        }
    }
    for (int k = 0; k < 5; k++) {
        double deviation = sqrt(squares[k] / steps);
        CHECK(deviation > 1e-3);
        CHECK_NEAR(sum[k] / steps, 0.0, 6.0 * deviation / sqrt(steps));
    }
    memory_free(flat);
    memory_free(g);
    memory_free(expected);
    batch_free(&b);
    model_free(m);
    model_free(without);
}

TEST(dropout_of_attention_is_unbiased) { check_unbiased(0); }
TEST(dropout_of_the_mlp_is_unbiased) { check_unbiased(1); }
