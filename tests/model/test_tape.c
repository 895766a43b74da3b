/* Formulas made into programs: what merges, what vanishes, and the gradient against differences. */
#include "check.h"
#include "base/memory.h"
#include "base/stream.h"
#include "kern/kern.h"
#include "model/tape.h"

#define LANES KERN_TAPE_LANES

/* Output `i` of the program at the point x, by the kernel, in lane 0. */
static double at_point(const struct tape *t, const double *x, int i)
{
    const struct kern_f64 *kern;
    double *slot = memory_new(t->program.slots * LANES, sizeof *slot);
    CHECK_OK(kern_get(NULL, &kern));
    for (int k = 0; k < t->inputs; k++)
        for (int lane = 0; lane < LANES; lane++)
            slot[k * LANES + lane] = x[k];
    kern->tape_run(&t->program, slot);
    double y = slot[(size_t)t->output[i] * LANES];
    memory_free(slot);
    return y;
}

static tape_node sum_of(struct tape_builder *b, double p, tape_node x, double q, tape_node y)
{
    return tape_linear(b, 2, (const double[]){p, q}, (const tape_node[]){x, y}, 0.0);
}

/* ---- what merges ---- */

TEST(equal_formulas_are_one_node)
{
    struct tape_builder *b = tape_begin(3);
    tape_node product = tape_product(b, 0, 1);
    CHECK_INT(tape_product(b, 1, 0), product);
    CHECK_INT(tape_exp(b, product), tape_exp(b, tape_product(b, 0, 1)));
    CHECK_INT(sum_of(b, 2.0, 0, 3.0, 1), sum_of(b, 3.0, 1, 2.0, 0));
    CHECK_INT(tape_largest(b, 3, (const tape_node[]){0, 1, 0}), tape_largest(b, 2, (const tape_node[]){1, 0}));
    CHECK_INT(tape_largest(b, 2, (const tape_node[]){2, 2}), 2);
    CHECK(tape_product(b, 0, 2) != product);
    CHECK(tape_reciprocal(b, 0) != tape_exp(b, 0));
    CHECK(sum_of(b, 2.0, 0, 3.0, 1) != sum_of(b, 2.0, 0, 3.5, 1));
    tape_drop(b);
    CHECK_INT(memory_balance(), 0);
}

TEST(constants_are_folded_and_zeros_vanish)
{
    struct tape_builder *b = tape_begin(2);
    tape_node zero = tape_constant(b, 0.0);
    CHECK_INT(tape_constant(b, -0.0), zero);
    CHECK_INT(tape_product(b, 0, zero), zero);
    CHECK_INT(tape_product(b, tape_constant(b, 1.0), 1), 1);
    CHECK_INT(tape_product(b, tape_constant(b, 2.0), tape_constant(b, 3.0)), tape_constant(b, 6.0));
    CHECK_INT(sum_of(b, 1.0, 0, -1.0, 0), zero);
    CHECK_INT(sum_of(b, 0.5, 0, 0.5, 0), 0);
    CHECK_INT(tape_exp(b, zero), tape_constant(b, 1.0));
    CHECK_INT(tape_log(b, tape_constant(b, 1.0)), zero);
    CHECK_INT(tape_reciprocal(b, tape_constant(b, 4.0)), tape_constant(b, 0.25));
    tape_drop(b);
}

/* (3 x) y and 3 (x y) are the same multiple of the same product. */
TEST(factors_move_out_of_products)
{
    struct tape_builder *b = tape_begin(2);
    tape_node three = tape_linear(b, 1, (const double[]){3.0}, (const tape_node[]){0}, 0.0), product = tape_product(b, 0, 1);
    CHECK_INT(tape_product(b, three, 1), tape_linear(b, 1, (const double[]){3.0}, &product, 0.0));
    tape_drop(b);
}

TEST(terms_that_occur_often_cost_one_product)
{
    struct tape_builder *b = tape_begin(2);
    double one[100];
    tape_node x[100];
    for (int i = 0; i < 100; i++) {
        one[i] = 1.0;
        x[i] = tape_product(b, tape_exp(b, 0), i % 2 ? 1 : 0);
    }
    tape_node sum = tape_linear(b, 100, one, x, 0.0);
    struct tape *t = tape_end(b, 1, &sum);
    CHECK_INT(t->program.ops, 4);            /* exp, two products, 50 of each */
    CHECK_NEAR(at_point(t, (const double[]){-0.5, 0.25}, 0), 50 * exp(-0.5) * (-0.5 + 0.25), 1e-14);
    tape_free(t);
    CHECK_INT(memory_balance(), 0);
}

TEST(what_no_output_needs_is_left_out)
{
    struct tape_builder *b = tape_begin(2);
    tape_node wanted = tape_product(b, 0, 1);
    for (int i = 0; i < 50; i++)
        tape_exp(b, tape_linear(b, 1, (const double[]){1.0 + i}, (const tape_node[]){0}, -1.0 * i));
    struct tape *t = tape_end(b, 1, &wanted);
    CHECK_INT(t->program.ops, 1);
    CHECK_INT(t->program.slots, 3);
    tape_free(t);
}

/* A chain of a thousand numbers, each needed once, lives in a few slots. */
TEST(slots_are_used_again)
{
    struct tape_builder *b = tape_begin(1);
    tape_node x = 0;
    double expected = 0.3;
    for (int i = 0; i < 1000; i++) {
        x = tape_reciprocal(b, tape_linear(b, 1, (const double[]){0.5}, &x, 1.0));
        expected = 1 / (1 + 0.5 * expected);
    }
    struct tape *t = tape_end(b, 1, &x);
    CHECK_INT(t->program.ops, 2000);
    CHECK(t->program.slots <= 4);
    CHECK_NEAR(at_point(t, (const double[]){0.3}, 0), expected, 1e-15);
    tape_free(t);
}

/* Outputs that are inputs, constants, or one another. */
TEST(any_node_may_be_an_output)
{
    struct tape_builder *b = tape_begin(2);
    tape_node product = tape_product(b, 0, 1);
    tape_node out[] = {1, tape_constant(b, 7.0), product, product, sum_of(b, 1.0, product, 1.0, 0), 0};
    struct tape *t = tape_end(b, 6, out);
    const double x[] = {0.5, 3.0}, expected[] = {3.0, 7.0, 1.5, 1.5, 2.0, 0.5};
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(at_point(t, x, i), expected[i], 0.0);
    tape_free(t);
}

TEST(a_full_builder_makes_no_program)
{
    struct tape_builder *b = tape_begin(1);
    tape_node x = 0;
    for (int i = 0; i < TAPE_NODES_MAX + 10; i++)
        x = tape_exp(b, x);
    CHECK(tape_is_full(b));
    CHECK(tape_end(b, 1, &x) == NULL);
    CHECK_INT(memory_balance(), 0);
}

/* ---- gradients ---- */

enum { INPUTS = 6 };

/* A random formula of all operations; each exp is of what is at most 0, each log and reciprocal of what is at least 1. */
static tape_node random_formula(struct tape_builder *b, uint32_t number, int size)
{
    struct stream s = stream_open(5, PURPOSE_PROBE, number);
    tape_node *x = memory_new((size_t)size + INPUTS, sizeof *x);
    for (int i = 0; i < INPUTS; i++)
        x[i] = i;
    for (int i = INPUTS; i < size + INPUTS; i++) {
        tape_node p = x[stream_below(&s, (uint32_t)i)], q = x[stream_below(&s, (uint32_t)i)], square = tape_product(b, p, p);
        tape_node below = tape_linear(b, 1, (const double[]){-1.0}, &square, 0.0);
        tape_node above = tape_linear(b, 1, (const double[]){1.0}, &square, 1.0);
        switch (stream_below(&s, 5)) {
        case 0: x[i] = tape_exp(b, below); break;
        case 1: x[i] = tape_log(b, above); break;
        case 2: x[i] = tape_reciprocal(b, above); break;
        case 3: x[i] = tape_product(b, tape_exp(b, below), q); break;
        default: x[i] = sum_of(b, 2 * stream_uniform(&s) - 1, p, stream_uniform(&s) < 0.5 ? 1.0 : -1.0, tape_product(b, p, q));
        }
        x[i] = tape_product(b, x[i], tape_reciprocal(b, tape_linear(b, 1, (const double[]){1.0}, (const tape_node[]){
                   tape_product(b, x[i], x[i])}, 1.0)));
    }
    tape_node y = x[size + INPUTS - 1];
    for (int i = INPUTS; i < size + INPUTS - 1; i++)
        y = sum_of(b, 1.0, y, 1.0 / i, x[i]);
    memory_free(x);
    return y;
}

static double difference(const struct tape *t, double *x, int i)
{
    const double here = x[i], h = 1e-3, factor[] = {8, -8, -1, 1}, step[] = {h, -h, 2 * h, -2 * h};
    double sum = 0.0;
    for (int k = 0; k < 4; k++) {
        x[i] = here + step[k];
        sum += factor[k] * at_point(t, x, 0);
    }
    x[i] = here;
    return sum / (12 * h);
}

/* NaN stays. */
static void keep(double *worst, double e)
{
    if (!isnan(*worst) && !(e <= *worst))
        *worst = e;
}

TEST(gradients_are_those_of_differences)
{
    double worst = 0.0;
    for (uint32_t number = 0; number < 40; number++) {
        struct tape_builder *b = tape_begin(INPUTS);
        tape_node out[1 + INPUTS];
        out[0] = random_formula(b, number, 5 + (int)number);
        tape_gradient(b, out[0], out + 1);
        struct tape *t = tape_end(b, 1 + INPUTS, out);
        struct stream s = stream_open(6, PURPOSE_PROBE, number);
        double x[INPUTS];
        for (int i = 0; i < INPUTS; i++)
            x[i] = 2 * stream_uniform(&s) - 1;
        for (int i = 0; i < INPUTS; i++)
            keep(&worst, fabs(at_point(t, x, 1 + i) - difference(t, x, i)));
        tape_free(t);
    }
    fprintf(stderr, "# largest difference of a gradient %.2g\n", worst);
    CHECK(worst <= 1e-10);       /* 1.9e-11 */
    CHECK_INT(memory_balance(), 0);
}

/* The shift of a softmax has no influence on it, so that taking it for a constant is exact. */
TEST(the_gradient_of_a_softmax_is_the_closed_form)
{
    struct tape_builder *b = tape_begin(3);
    tape_node out[4], e[3], top = tape_largest(b, 3, (const tape_node[]){0, 1, 2});
    for (int i = 0; i < 3; i++)
        e[i] = tape_exp(b, sum_of(b, 1.0, i, -1.0, top));
    const double one[] = {1.0, 1.0, 1.0};
    out[0] = tape_product(b, e[1], tape_reciprocal(b, tape_linear(b, 3, one, e, 0.0)));
    tape_gradient(b, out[0], out + 1);
    struct tape *t = tape_end(b, 4, out);
    const double x[] = {0.4, -0.3, 1.1}, sum = exp(x[0]) + exp(x[1]) + exp(x[2]), p = exp(x[1]) / sum;
    CHECK_NEAR(at_point(t, x, 0), p, 1e-16);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(at_point(t, x, 1 + i), p * ((i == 1) - exp(x[i]) / sum), 1e-16);
    tape_free(t);
}

/* An input on which nothing depends, and one that is the function itself. */
TEST(gradients_of_inputs_alone)
{
    struct tape_builder *b = tape_begin(3);
    tape_node out[4] = {1};
    tape_gradient(b, 1, out + 1);
    struct tape *t = tape_end(b, 4, out);
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(at_point(t, (const double[]){5.0, 6.0, 7.0}, 1 + i), i == 1, 0.0);
    tape_free(t);
}
