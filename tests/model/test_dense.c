/* train.plan: dense computes every block at every position; what comes out is what the planned order gives, to rounding. */
#include "check.h"

#include "cases.h"
#include "model/planner.h"

/* The same model in both orders, with equal weights, and in double. */
struct both {
    struct model *dense, *planned, *exact;
    struct batch batch;
    size_t rows;
};

static struct both both_new(const struct model_case *c, int precision, int ragged)
{
    struct both x = {0};
    struct spec s = case_spec(c, precision);
    s.train.plan = PLAN_STRUCTURED;
    x.planned = case_model(c, &s);
    s.train.plan = PLAN_DENSE;
    x.dense = case_model(c, &s);
    s.model.precision = PRECISION_FLOAT64;
    x.exact = case_model(c, &s);
    double *flat = memory_new(model_flat_length(x.dense), sizeof *flat);
    case_weights(c, x.dense, flat);
    model_weights_set(x.planned, flat);
    model_weights_set(x.exact, flat);
    memory_free(flat);
    x.batch = case_batch(c, ragged);
    for (int i = 0; i < x.batch.sequences * x.batch.length; i++)
        x.rows += x.batch.target[i] >= 0;
    return x;
}

static void both_free(struct both *x)
{
    batch_free(&x->batch);
    model_free(x->dense);
    model_free(x->planned);
    model_free(x->exact);
}

/* max |a - b| / max |b| */
static void check_close(const double *a, const double *b, size_t n, double bound, const char *name, const char *what)
{
    double difference = 0.0, size = 0.0;
    for (size_t i = 0; i < n; i++) {
        difference = fmax(difference, fabs(a[i] - b[i]));
        size = fmax(size, fabs(b[i]));
    }
    if (!(difference <= bound * size))
        CHECK_FAIL("%s: %s differs by %.3g of its largest element, bound %.3g", name, what, difference / size, bound);
}

static double worst_of(const double *a, const double *b, size_t n)
{
    double worst = 0.0;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs(a[i] - (b ? b[i] : 0.0)));
    return worst;
}

/* Where large weights magnify roundings beyond the bound, the planned order may be off by twice what the dense one is. */
static void check_gradients(struct both *x, double bound, const char *name)
{
    double dense = model_train_pass(x->dense, &x->batch, 1, 1).loss;
    double planned = model_train_pass(x->planned, &x->batch, 1, 1).loss;
    check_close(&dense, &planned, 1, bound, name, "loss");
    const struct tensor *table;
    int n = model_tensors(x->dense, &table);
    size_t length = model_flat_length(x->dense);
    double *a = memory_new(length, sizeof *a), *b = memory_new(length, sizeof *b), largest = 0.0;
    double *exact = memory_new(length, sizeof *exact);
    model_train_pass(x->exact, &x->batch, 1, 1);
    model_gradient_get(x->dense, a);
    model_gradient_get(x->planned, b);
    model_gradient_get(x->exact, exact);
    for (size_t i = 0; i < length; i++)
        largest = fmax(largest, fabs(b[i]));
    for (int i = 0; i < n; i++) {
        size_t elements = (size_t)table[i].rows * (size_t)table[i].cols, at = table[i].offset;
        double size = worst_of(exact + at, NULL, elements);
        double own = size > 0.0 ? worst_of(a + at, exact + at, elements) / size : 0.0;
        /* Key biases have no gradient: a softmax does not see them, and what is left is rounding. */
        if (strstr(table[i].name, "key.bias"))
            for (size_t k = 0; k < elements; k++)
                CHECK_NEAR(a[table[i].offset + k], 0, bound * largest);
        else
            check_close(b + at, exact + at, elements, fmax(bound, 2.0 * own), name, table[i].name);
    }
    memory_free(exact);
    memory_free(a);
    memory_free(b);
}

/* Everything that is asked of a trained model; at the last block and before it. */
static void check_reading(const struct model_case *c, struct both *x, double bound)
{
    size_t width = (size_t)c->d_model, classes = (size_t)c->classes;
    double *a = memory_new(x->rows * (width + classes), sizeof *a), *b = memory_new(x->rows * (width + classes), sizeof *b);
    model_logits(x->dense, &x->batch, a);
    model_logits(x->planned, &x->batch, b);
    check_close(a, b, x->rows * classes, bound, c->name, "logits");
    for (int layer = 1; layer <= c->layers; layer++) {
        CHECK_INT(model_activations(x->dense, &x->batch, layer, a), x->rows);
        CHECK_INT(model_activations(x->planned, &x->batch, layer, b), x->rows);
        check_close(a, b, x->rows * width, bound, c->name, "activations");
        CHECK_INT(model_logit_gradient(x->dense, &x->batch, layer, 1, a), x->rows);
        CHECK_INT(model_logit_gradient(x->planned, &x->batch, layer, 1, b), x->rows);
        check_close(a, b, x->rows * width, bound, c->name, "gradient of a logit");
        for (size_t i = 0; i < width; i++)
            b[i] = i == 0;
        struct intervention v = {.layer = layer, .rank = 1, .remove = 1, .basis = b};
        double dense = model_evaluate(x->dense, &x->batch, &v).loss;
        double planned = model_evaluate(x->planned, &x->batch, &v).loss;
        check_close(&dense, &planned, 1, bound, c->name, "loss after an intervention");
    }
    memory_free(a);
    memory_free(b);
}

static void check_all(int precision, double bound)
{
    for (int i = 0; i < MODEL_CASES; i++)
        for (int ragged = 0; ragged < 2; ragged++) {
            struct both x = both_new(&model_cases[i], precision, ragged);
            check_gradients(&x, bound, model_cases[i].name);
            check_reading(&model_cases[i], &x, bound);
            both_free(&x);
        }
}

/* Some fifty roundings: the gradients of queries and biases are small differences of large terms. In double nothing more
 * exact is at hand: the roundings of both orders add up, and scores without keys are contracted in another order. Ten
 * times less than the 1e-12 that orders may differ by. */
TEST(dense_equals_planned_in_double) { check_all(PRECISION_FLOAT64, 1e-13); }
TEST(dense_equals_planned_in_float) { check_all(PRECISION_FLOAT32, 50 * 0x1p-23); }

/* The counts differ by what the last block leaves out, so the two orders are really two. */
TEST(dense_counts_every_position)
{
    struct spec s = case_spec(&model_cases[0], PRECISION_FLOAT32);
    s.train.plan = PLAN_DENSE;
    struct model *m = case_model(&model_cases[0], &s);
    const struct planner *p = model_plan(m);
    CHECK_TEXT(p->candidate[p->chosen].name, "dense");
    CHECK(p->candidate[p->chosen].count.flops > p->candidate[1].count.flops);
    model_free(m);
}
