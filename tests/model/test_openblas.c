/* train.gemm: openblas gives the losses and gradients of our own products, to rounding. */
#include "check.h"

#include "cases.h"

static void check_case(const struct model_case *c, int precision, double bound)
{
    struct spec s = case_spec(c, precision);
    struct model *own = case_model(c, &s);
    s.train.gemm = GEMM_OPENBLAS;
    struct model *blas = case_model(c, &s);
    size_t length = model_flat_length(own);
    double *a = memory_new(length, sizeof *a), *b = memory_new(length, sizeof *b), difference = 0.0, size = 0.0;
    case_weights(c, own, a);
    model_weights_set(blas, a);
    struct batch batch = case_batch(c, 0);
    double expected = model_train_pass(own, &batch, 1, 1).loss;
    CHECK_NEAR(model_train_pass(blas, &batch, 1, 1).loss, expected, bound * fabs(expected));
    CHECK_NEAR(model_evaluate(blas, &batch, NULL).loss, expected, bound * fabs(expected));
    model_gradient_get(own, a);
    model_gradient_get(blas, b);
    for (size_t i = 0; i < length; i++) {
        difference = fmax(difference, fabs(a[i] - b[i]));
        size = fmax(size, fabs(a[i]));
    }
    CHECK_NEAR(difference, 0, bound * size);
    batch_free(&batch);
    memory_free(a), memory_free(b);
    model_free(own), model_free(blas);
}

TEST(gradients_by_openblas_are_ours_in_float)
{
    for (int i = 0; i < MODEL_CASES; i++)
        check_case(&model_cases[i], PRECISION_FLOAT32, 2e-6);
}

TEST(gradients_by_openblas_are_ours_in_double)
{
    for (int i = 0; i < MODEL_CASES; i++)
        check_case(&model_cases[i], PRECISION_FLOAT64, 1e-13);
}

/* The choice belongs to a model: one with our products, opened after, has them. */
TEST(models_of_both_kinds_live_side_by_side)
{
    const struct model_case *c = &model_cases[0];
    double loss[3];
    struct model *m[3];
    struct batch b = case_batch(c, 0);
    for (int i = 0; i < 3; i++) {
        struct spec s = case_spec(c, PRECISION_FLOAT32);
        s.train.gemm = i == 1 ? GEMM_OPENBLAS : GEMM_OWN;
        m[i] = case_model(c, &s);
        double *flat = memory_new(model_flat_length(m[i]), sizeof *flat);
        case_weights(c, m[i], flat);
        memory_free(flat);
    }
    for (int i = 0; i < 3; i++)
        loss[i] = model_evaluate(m[i], &b, NULL).loss;
    CHECK(loss[0] == loss[2]);
    CHECK_NEAR(loss[1], loss[0], 1e-5 * loss[0]);
    for (int i = 0; i < 3; i++)
        model_free(m[i]);
    batch_free(&b);
}
