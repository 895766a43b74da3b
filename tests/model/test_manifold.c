/* The manifold kind against a naive twin in long double: every sum of its definition written out, its gradient by differences.
 * Batches are random tokens at random positions, so that chance coincidences occur, with sequences of several looked rows. */
#include "check.h"
#include "base/memory.h"
#include "base/stream.h"
#include "job/manifold.h"
#include "job/shape.h"
#include "kern/kern.h"
#include "kern/kern_test.h"
#include "model/model.h"

#include <math.h>
#include <string.h>

enum { N = 19, PATHS = 32, TOKENS_MAX = 16, SEQUENCES = 3 };
typedef long double number;
typedef number matrix[N][N];

struct man_case {
    const char *name;
    int layers, heads, common, rare, layout, embedding, self, loss, rare_identity, shifts, length, looked, weighted;
    double scale;
    const char *coordinates;
};

#define FEW "alpha_1 alpha_2 beta_12 beta_13 beta_23 gamma_2 gamma_3"
static const struct man_case cases[] = {
    {"one",         1, 1, 0, 5, LAYOUT_SLOTS, EMBEDDING_CENTRED, 0, LOSS_SQUARED, 0, SHIFTS_BOTH, 5, 1, 0, 1.0, "all"},
    {"one_heads",   1, 3, 4, 5, LAYOUT_CONTIGUOUS, EMBEDDING_CENTRED, 1, LOSS_CROSS_ENTROPY, 1, SHIFTS_FORWARD, 7, 2, 1, 1.0, "all"},
    {"two",         2, 1, 4, 4, LAYOUT_CONTIGUOUS, EMBEDDING_CENTRED, 0, LOSS_SQUARED, 0, SHIFTS_BOTH, 7, 1, 0, 1.0, "all"},
    {"two_one_hot", 2, 1, 4, 4, LAYOUT_SLOTS, EMBEDDING_ONE_HOT, 1, LOSS_MSE, 1, SHIFTS_BOTH, 7, 2, 1, 1.0, "all"},
    {"two_heads",   2, 2, 6, 3, LAYOUT_OFFSETS, EMBEDDING_CENTRED, 0, LOSS_CROSS_ENTROPY, 1, SHIFTS_BOTH, 7, 3, 1, 0.5, "all"},
    {"two_threes",  2, 3, 0, 6, LAYOUT_SLOTS, EMBEDDING_CENTRED, 1, LOSS_SQUARED, 0, SHIFTS_FORWARD, 6, 1, 0, 0.5, "all"},
    {"three",       3, 1, 0, 6, LAYOUT_CONTIGUOUS, EMBEDDING_CENTRED, 0, LOSS_CROSS_ENTROPY, 0, SHIFTS_BOTH, 8, 1, 0, 0.7, "all"},
    {"three_heads", 3, 2, 4, 0, LAYOUT_SLOTS, EMBEDDING_CENTRED, 1, LOSS_MSE, 0, SHIFTS_BOTH, 5, 2, 1, 0.3, "all"},
    {"three_one_hot", 3, 1, 4, 4, LAYOUT_OFFSETS, EMBEDDING_ONE_HOT, 0, LOSS_SQUARED, 1, SHIFTS_BOTH, 6, 6, 1, 0.5, "all"},
    {"four",        4, 1, 4, 3, LAYOUT_SLOTS, EMBEDDING_CENTRED, 0, LOSS_CROSS_ENTROPY, 0, SHIFTS_FORWARD, 6, 1, 1, 0.3, "all"},
    {"five",        5, 1, 0, 5, LAYOUT_SLOTS, EMBEDDING_CENTRED, 0, LOSS_CROSS_ENTROPY, 0, SHIFTS_BOTH, 6, 1, 0, 0.2, "all"},
    {"five_two",    5, 1, 0, 5, LAYOUT_CONTIGUOUS, EMBEDDING_ONE_HOT, 1, LOSS_SQUARED, 0, SHIFTS_FORWARD, 5, 2, 0, 0.1, "all"},
    {"few",         3, 1, 0, 9, LAYOUT_CONTIGUOUS, EMBEDDING_ONE_HOT, 0, LOSS_SQUARED, 0, SHIFTS_BOTH, 11, 1, 0, 2.0, FEW},
    {"few_long",    3, 1, 0, 9, LAYOUT_OFFSETS, EMBEDDING_CENTRED, 1, LOSS_MSE, 0, SHIFTS_BOTH, 19, 2, 1, 2.0, FEW},
    {"unread",      3, 1, 0, 9, LAYOUT_SLOTS, EMBEDDING_CENTRED, 0, LOSS_CROSS_ENTROPY, 0, SHIFTS_BOTH, 7, 1, 0, 2.0,
     "alpha_1 beta_12 alpha_3 w3_12_I_2 gamma_2"},
    {"paths",       4, 1, 4, 4, LAYOUT_SLOTS, EMBEDDING_CENTRED, 0, LOSS_SQUARED, 0, SHIFTS_BOTH, 9, 1, 0, 2.0,
     "alpha_1 w2_1_M-1_0 w3_12_I_2 w4_13_C_123 w4_0_M1_23 u_I_1234 u_C_24 delta"},
    {"heads_few",   3, 2, 4, 4, LAYOUT_SLOTS, EMBEDDING_CENTRED, 0, LOSS_SQUARED, 0, SHIFTS_BOTH, 9, 1, 1, 2.0,
     "alpha_1a alpha_2b beta_1a2b w3a_1a2b_I_1a w3b_0_M0_2b u_I_1a3a gamma_3b"},
    {"nothing_read", 2, 1, 0, 5, LAYOUT_SLOTS, EMBEDDING_CENTRED, 0, LOSS_CROSS_ENTROPY, 0, SHIFTS_BOTH, 5, 1, 0, 1.0, "alpha_1"},
};
#define CASES ((int)(sizeof cases / sizeof cases[0]))

static void spec_of(const struct man_case *c, int precision, struct spec *s)
{
    key_defaults(s);
    s->task.kind = TASK_BLOCKLIST;
    s->task.blocks = 2;
    s->task.layout = c->layout;
    s->task.period = c->layout == LAYOUT_SLOTS ? 4 : c->layout == LAYOUT_OFFSETS ? 7 : 0;
    s->task.common = c->common;
    s->task.rare_tokens = c->rare;
    s->model.kind = MODEL_MANIFOLD;
    s->model.layers = c->layers;
    s->model.heads = c->heads;
    s->model.embedding = c->embedding;
    s->model.self_attention = c->self;
    s->model.rare_identity = c->rare_identity;
    s->model.shifts = c->shifts;
    s->model.precision = precision;
    s->train.loss = c->loss;
    snprintf(s->model.coordinates, sizeof s->model.coordinates, "%s", c->coordinates);
}

/* ---- the twin ---- */

struct twin {
    const struct man_case *c;
    struct task_shape shape;
    struct manifold *m;
    struct batch b;
    double *w;               /* coordinates */
    matrix relation[16], path[PATHS];
    number logit[TOKENS_MAX];
};

static int class_of(const struct twin *w, int token) { return token < w->shape.common; }

/* The selection as a matrix of tokens, then its mean over the column's class taken off. */
static number token_entry(const struct twin *w, enum selection kind, int a, int b)
{
    switch (kind) {
    case SELECTION_SAME: return a == b;
    case SELECTION_RARE: return a == b && !class_of(w, a);
    case SELECTION_ASSOCIATED: return class_of(w, a) && class_of(w, b) && a / 2 == b / 2 && a != b;
    case SELECTION_SHIFT: break;
    }
    return 0;
}

static number token_relation(const struct twin *w, enum selection kind, int a, int b)
{
    number sum = 0, size = 0;
    for (int c = 0; c < w->shape.vocabulary; c++)
        if (class_of(w, c) == class_of(w, b)) {
            sum += token_entry(w, kind, a, c);
            size++;
        }
    return token_entry(w, kind, a, b) - (w->c->embedding == EMBEDDING_CENTRED ? sum / size : 0);
}

static number position_relation(const struct twin *w, int shift, int a, int b)
{
    const int tau = w->shape.period;
    if (a / tau != b / tau)
        return 0;
    int equal = 0;
    for (int round = -3; round <= 3; round++)
        equal |= b == a - shift + round * tau;
    return equal - (w->c->embedding == EMBEDDING_CENTRED ? (number)1 / tau : 0);
}

static void find_relations(struct twin *w, const int32_t *token, const int32_t *position)
{
    for (int s = 0; s < w->m->selections; s++)
        for (int t = 0; t < w->b.length; t++)
            for (int u = 0; u < w->b.length; u++) {
                const struct manifold_selection *k = &w->m->selection[s];
                w->relation[s][t][u] = k->kind == SELECTION_SHIFT ? position_relation(w, k->shift, position[t], position[u])
                                                                  : token_relation(w, k->kind, token[t], token[u]);
            }
}

static number score(const struct twin *w, int layer, int head, int t, int u)
{
    number sum = 0;
    for (int i = 0; i < w->m->coordinates; i++) {
        const struct manifold_coordinate *c = &w->m->coordinate[i];
        if (c->layer != layer || c->head != head)
            continue;
        number part = 0;
        for (int a = 0; a <= t; a++)
            for (int b = 0; b <= u; b++)
                part += w->path[c->query][t][a] * w->relation[c->selection][a][b] * w->path[c->key][u][b];
        sum += (number)w->w[i] * part;
    }
    return sum;
}

static void attend(const struct twin *w, int layer, int head, matrix a)
{
    memset(a, 0, sizeof(matrix));
    for (int t = 0; t < w->b.length; t++) {
        number total = 0;
        for (int u = 0; u < t + w->c->self; u++)
            total += a[t][u] = expl(score(w, layer, head, t, u));
        for (int u = 0; u < t + w->c->self; u++)
            a[t][u] /= total;
    }
}

static void find_paths(struct twin *w)
{
    const int n = w->b.length;
    memset(w->path, 0, sizeof w->path);
    for (int t = 0; t < n; t++)
        w->path[0][t][t] = 1;
    for (int l = 1, paths = 1; l <= w->m->layers; l++, paths *= 1 + w->m->heads)
        for (int h = 1; h <= w->m->heads; h++) {
            matrix a;
            attend(w, l, h, a);
            for (int p = 0; p < paths; p++)
                for (int t = 0; t < n; t++)
                    for (int u = 0; u < n; u++)
                        for (int v = 0; v < n; v++)
                            w->path[h * paths + p][t][u] += a[t][v] * w->path[p][v][u];
        }
}

static number row_loss(const struct twin *w, int target)
{
    number sum = 0;
    const int classes = w->shape.classes;
    for (int c = 0; c < classes; c++)
        sum += w->c->loss == LOSS_CROSS_ENTROPY ? expl(w->logit[c]) : powl(w->logit[c] - (c == target), 2);
    switch (w->c->loss) {
    case LOSS_CROSS_ENTROPY: return logl(sum) - w->logit[target];
    case LOSS_MSE: return sum / classes;
    default: return sum / 2;
    }
}

static void read_out(struct twin *w, const int32_t *token, int t)
{
    memset(w->logit, 0, sizeof w->logit);
    for (int i = 0; i < w->m->coordinates; i++) {
        const struct manifold_coordinate *c = &w->m->coordinate[i];
        for (int k = 0; k < w->shape.classes && c->layer > w->m->layers; k++)
            for (int u = 0; u <= t; u++)
                w->logit[k] += (number)w->w[i] * w->path[c->key][t][u] *
                               token_relation(w, w->m->selection[c->selection].kind, k, token[u]);
    }
}

/* Mean loss; logits of the looked rows [rows][classes] when not NULL. */
static number twin_loss(struct twin *w, double *logits)
{
    number loss = 0, weight = 0;
    for (int s = 0; s < w->b.sequences; s++) {
        const int32_t *token = w->b.token + s * w->b.length, *target = w->b.target + s * w->b.length;
        const double own = w->b.weight ? w->b.weight[s] : 1.0;
        find_relations(w, token, w->b.position + s * w->b.length);
        find_paths(w);
        for (int t = 0; t < w->b.length; t++) {
            if (target[t] < 0)
                continue;
            read_out(w, token, t);
            loss += own * row_loss(w, target[t]);
            weight += own;
            for (int c = 0; c < w->shape.classes && logits; c++)
                *logits++ = (double)w->logit[c];
        }
    }
    return loss / weight;
}

/* ---- cases ---- */

/* The last `looked` positions of each sequence; the second sequence has none where there are weights. */
static struct batch batch_of(const struct man_case *c, struct task_shape shape)
{
    static const double weights[] = {0.25, 1.0, 3.5};
    struct stream s = stream_open(5, PURPOSE_PROBE, (uint32_t)c->length);
    struct batch b = batch_new(SEQUENCES, c->length);
    b.position = memory_new((size_t)(SEQUENCES * c->length), sizeof *b.position);
    b.weight = c->weighted ? memory_new(SEQUENCES, sizeof *b.weight) : NULL;
    for (int i = 0; i < SEQUENCES * c->length; i++) {
        const int asked = i % c->length >= c->length - c->looked && !(c->weighted && i / c->length == 1);
        b.token[i] = (int32_t)stream_below(&s, (uint32_t)shape.vocabulary);
        b.position[i] = (int32_t)stream_below(&s, (uint32_t)shape.positions);
        b.target[i] = asked ? (int32_t)stream_below(&s, (uint32_t)shape.classes) : -1;
    }
    for (int i = 0; i < SEQUENCES && b.weight; i++)
        b.weight[i] = weights[i];
    return b;
}

struct bench {
    struct spec spec;
    struct model *model;
    struct twin twin;
    double *gradient, *logits;
    struct model_result trained;
};

static struct bench *bench_new(const struct man_case *c, int precision)
{
    struct bench *x = memory_new(1, sizeof *x);
    struct twin *w = &x->twin;
    spec_of(c, precision, &x->spec);
    w->c = c;
    w->shape = shape_of(&x->spec);
    CHECK_OK(manifold_new(&x->spec, &w->m));
    CHECK_OK(model_open(&x->spec, w->shape, &x->model));
    w->b = batch_of(c, w->shape);
    w->w = memory_new(model_flat_length(x->model), sizeof(double));
    x->gradient = memory_new(model_flat_length(x->model), sizeof(double));
    x->logits = memory_new((size_t)(SEQUENCES * c->length * w->shape.classes), sizeof(double));
    struct stream s = stream_open(6, PURPOSE_PROBE, 0);
    for (int i = 0; i < w->m->coordinates; i++)
        w->w[i] = c->scale * stream_normal(&s);
    model_weights_set(x->model, w->w);
    model_weights_get(x->model, w->w);
    x->trained = model_train_pass(x->model, &w->b, 0, 0);
    model_gradient_get(x->model, x->gradient);
    return x;
}

static void bench_free(struct bench *x)
{
    model_free(x->model);
    manifold_free(x->twin.m);
    batch_free(&x->twin.b);
    memory_free(x->twin.w);
    memory_free(x->gradient);
    memory_free(x->logits);
    memory_free(x);
}

static double relative(double a, double b) { return fabs(a - b) / fmax(1.0, fabs(b)); }

/* Measured: 4.0e-16 in double and 2.0e-7 in float. */
static double worst_value(struct bench *x)
{
    struct twin *w = &x->twin;
    const size_t rows = x->trained.rows, classes = (size_t)w->shape.classes;
    double *own = memory_new(rows * classes, sizeof *own);
    double worst = relative(x->trained.loss, (double)twin_loss(w, own));
    struct model_result evaluated = model_evaluate(x->model, &w->b, NULL);
    CHECK(evaluated.loss == x->trained.loss && evaluated.correct == x->trained.correct && evaluated.rows == rows);
    CHECK(evaluated.weight == x->trained.weight && evaluated.correct_weight == x->trained.correct_weight);
    model_logits(x->model, &w->b, x->logits);
    for (size_t i = 0; i < rows * classes; i++)
        worst = fmax(worst, relative(x->logits[i], own[i]));
    memory_free(own);
    return worst;
}

TEST(values_are_the_definitions)
{
    double worst[2] = {0, 0};
    for (int precision = 0; precision < 2; precision++)
        for (int i = 0; i < CASES; i++) {
            struct bench *x = bench_new(&cases[i], precision);
            const double bound = precision == PRECISION_FLOAT64 ? 1e-13 : 2e-5, error = worst_value(x);
            if (!(error <= bound))
                CHECK_FAIL("%s, precision %d: %g", cases[i].name, precision, error);
            worst[precision] = fmax(worst[precision], error);
            bench_free(x);
        }
    fprintf(stderr, "# values: off by %.1e, %.1e\n", worst[0], worst[1]);
    CHECK_INT(memory_balance(), 0);
}

/* Fourth-order difference along a direction. */
static double slope(struct twin *w, const double *direction)
{
    const int n = w->m->coordinates;
    const double h = 1e-3, steps[4] = {-2, -1, 1, 2}, factor[4] = {1, -8, 8, -1};
    double *start = memory_new((size_t)n, sizeof *start);
    number sum = 0;
    memcpy(start, w->w, (size_t)n * sizeof *start);
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < n; i++)
            w->w[i] = start[i] + h * steps[k] * direction[i];
        sum += (number)factor[k] * twin_loss(w, NULL);
    }
    memcpy(w->w, start, (size_t)n * sizeof *start);
    memory_free(start);
    return (double)(sum / (12 * (number)h));
}

/* Every coordinate where they are few, else some of them; and a few directions of all. Measured: 2.7e-13. */
static double worst_gradient(struct bench *x)
{
    struct twin *w = &x->twin;
    const int n = w->m->coordinates, all = n <= 60, singles = all ? n : n < 500 ? 12 : 4, directions = 3;
    double *direction = memory_new((size_t)n, sizeof *direction), worst = 0;
    struct stream s = stream_open(7, PURPOSE_PROBE, 0);
    for (int k = 0; k < singles + directions; k++) {
        double own = 0;
        const int single = all ? k : (int)stream_below(&s, (uint32_t)n);
        for (int i = 0; i < n; i++)
            direction[i] = k < singles ? i == single : stream_normal(&s) / sqrt(n);
        for (int i = 0; i < n; i++)
            own += x->gradient[i] * direction[i];
        worst = fmax(worst, fabs(own - slope(w, direction)));
    }
    memory_free(direction);
    return worst;
}

TEST(gradients_are_differences)
{
    double worst = 0;
    for (int i = 0; i < CASES; i++) {
        struct bench *x = bench_new(&cases[i], PRECISION_FLOAT64);
        const double error = worst_gradient(x);
        if (!(error <= 1e-9))
            CHECK_FAIL("%s: %g", cases[i].name, error);
        worst = fmax(worst, error);
        bench_free(x);
    }
    fprintf(stderr, "# gradients: off by %.1e\n", worst);
}

TEST(float_gradients_are_those_of_double)
{
    double worst = 0;
    for (int i = 0; i < CASES; i++) {
        struct bench *x = bench_new(&cases[i], PRECISION_FLOAT32), *y = bench_new(&cases[i], PRECISION_FLOAT64);
        for (int k = 0; k < x->twin.m->coordinates; k++)
            worst = fmax(worst, relative(x->gradient[k], y->gradient[k]));
        bench_free(x);
        bench_free(y);
    }
    fprintf(stderr, "# float gradients: off by %.1e\n", worst);
    CHECK(worst < 2e-5);
}

TEST(bits_are_the_same_on_all_instruction_sets)
{
    for (int i = 0; i < CASES; i++)
        for (int precision = 0; precision < 2; precision++) {
            struct bench *first = NULL;
            for (int isa = 0; kern_isa_at(isa); isa++) {
                if (kern_pin(kern_isa_at(isa)) != STATUS_OK)
                    continue;
                struct bench *x = bench_new(&cases[i], precision);
                if (!first) {
                    first = x;
                    continue;
                }
                if (memcmp(x->gradient, first->gradient, (size_t)x->twin.m->coordinates * sizeof(double)) ||
                    x->trained.loss != first->trained.loss)
                    CHECK_FAIL("%s, precision %d: %s differs", cases[i].name, precision, kern_isa_at(isa));
                bench_free(x);
            }
            bench_free(first);
            kern_pin(NULL);
        }
}

/* A model without a stream has nothing to intervene on, and says so. */
TEST(interventions_are_refused)
{
    struct bench *x = bench_new(&cases[2], PRECISION_FLOAT64);
    const double basis[1] = {1.0};
    const struct intervention v = {.layer = 1, .rank = 1, .basis = basis};
    CHECK(isnan(model_evaluate(x->model, &x->twin.b, &v).loss));
    CHECK_INT(model_activations(x->model, &x->twin.b, 1, x->logits), 0);
    CHECK_INT(model_logit_gradient(x->model, &x->twin.b, 1, 0, x->logits), 0);
    bench_free(x);
}
