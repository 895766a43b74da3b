/* Programs of the loss on the invariant manifold against a naive twin: all matrices of a sequence written out in long double, its
 * gradient by differences. */
#include "check.h"
#include "base/memory.h"
#include "base/stream.h"
#include "job/manifold.h"
#include "kern/kern.h"
#include "model/manifold_tape.h"
#include "task/task.h"

#define LANES KERN_TAPE_LANES
enum { N = 17, PATHS = 9, CLASSES_MAX = 32 };

struct tape_case {
    const char *name;
    enum pattern pattern;
    int blocks, common, rare_tokens;
    enum layout layout;
    enum queried queried;
    int layers, heads;
    enum embedding embedding;
    bool self_attention;
    enum loss loss;
    const char *coordinates;
    bool rare_identity;
    enum shifts shifts;
};

#define SEVEN "alpha_1 alpha_2 beta_12 beta_13 beta_23 gamma_2 gamma_3"
static const struct tape_case cases[] = {
    {"recall", PATTERN_RECALL, 3, 0, 8, LAYOUT_CONTIGUOUS, QUERIED_ANY, 2, 1, EMBEDDING_ONE_HOT, false, LOSS_SQUARED, "all", 0,
     SHIFTS_BOTH},
    {"recall_centred", PATTERN_RECALL, 3, 0, 8, LAYOUT_CONTIGUOUS, QUERIED_ANY, 2, 1, EMBEDDING_CENTRED, false, LOSS_SQUARED, "all",
     0, SHIFTS_BOTH},
    {"recall_classes", PATTERN_RECALL, 3, 12, 8, LAYOUT_CONTIGUOUS, QUERIED_ANY, 2, 1, EMBEDDING_CENTRED, false,
     LOSS_CROSS_ENTROPY, "all", 1, SHIFTS_BOTH},
    {"recall_one_hot_classes", PATTERN_RECALL, 2, 8, 6, LAYOUT_SLOTS, QUERIED_LAST, 2, 1, EMBEDDING_ONE_HOT, true, LOSS_MSE, "all",
     1, SHIFTS_FORWARD},
    {"recall_slots", PATTERN_RECALL, 3, 12, 8, LAYOUT_SLOTS, QUERIED_ANY, 2, 1, EMBEDDING_CENTRED, true, LOSS_CROSS_ENTROPY, "all", 0,
     SHIFTS_BOTH},
    {"recall_two_heads", PATTERN_RECALL, 2, 0, 6, LAYOUT_CONTIGUOUS, QUERIED_ANY, 2, 2, EMBEDDING_CENTRED, false, LOSS_MSE, "all", 0,
     SHIFTS_BOTH},
    {"recall_three_layers", PATTERN_RECALL, 6, 0, 12, LAYOUT_CONTIGUOUS, QUERIED_ANY, 3, 1, EMBEDDING_ONE_HOT, false, LOSS_SQUARED,
     SEVEN, 0, SHIFTS_BOTH},
    {"recall_three_layers_all", PATTERN_RECALL, 2, 8, 4, LAYOUT_CONTIGUOUS, QUERIED_LAST, 3, 1, EMBEDDING_CENTRED, false,
     LOSS_SQUARED, "all", 0, SHIFTS_FORWARD},
    {"one_layer", PATTERN_RECALL, 3, 12, 6, LAYOUT_CONTIGUOUS, QUERIED_ANY, 1, 2, EMBEDDING_ONE_HOT, true, LOSS_CROSS_ENTROPY, "all", 0,
     SHIFTS_BOTH},
    {"hop", PATTERN_HOP, 4, 0, 10, LAYOUT_CONTIGUOUS, QUERIED_ANY, 3, 1, EMBEDDING_ONE_HOT, false, LOSS_CROSS_ENTROPY, SEVEN, 0,
     SHIFTS_BOTH},
    {"ngram", PATTERN_NGRAM, 3, 0, 10, LAYOUT_SLOTS, QUERIED_ANY, 2, 1, EMBEDDING_CENTRED, false, LOSS_SQUARED, "all", 0, SHIFTS_BOTH},
    {"ioi", PATTERN_IOI, 3, 0, 10, LAYOUT_CONTIGUOUS, QUERIED_ANY, 2, 1, EMBEDDING_ONE_HOT, true, LOSS_SQUARED, "all", 0,
     SHIFTS_BOTH},
    {"conditional", PATTERN_CONDITIONAL, 4, 0, 10, LAYOUT_CONTIGUOUS, QUERIED_LAST, 2, 1, EMBEDDING_ONE_HOT, false, LOSS_MSE, "all",
     0, SHIFTS_BOTH},
    {"inversion", PATTERN_INVERSION, 3, 0, 6, LAYOUT_CONTIGUOUS, QUERIED_ANY, 2, 1, EMBEDDING_CENTRED, false, LOSS_CROSS_ENTROPY,
     "all", 0, SHIFTS_BOTH},
};

static struct spec *spec_of(const struct tape_case *c)
{
    struct spec *s = memory_new(1, sizeof *s);
    key_defaults(s);
    s->task.kind = TASK_BLOCKLIST;
    s->task.expectation = EXPECTATION_PATTERNS;
    s->task.pattern = c->pattern;
    s->task.blocks = c->blocks;
    s->task.common = c->common;
    s->task.rare_tokens = c->rare_tokens;
    s->task.rare = c->common ? 0.3 : 1.0;
    s->task.variability = c->common && c->pattern == PATTERN_RECALL ? 0.2 : 0.0;
    s->task.layout = c->layout;
    s->task.queried = c->queried;
    s->model.kind = MODEL_MANIFOLD;
    s->model.layers = c->layers;
    s->model.heads = c->heads;
    s->model.embedding = c->embedding;
    s->model.self_attention = c->self_attention;
    s->model.rare_identity = c->rare_identity;
    s->model.shifts = c->shifts;
    s->train.loss = c->loss;
    snprintf(s->model.coordinates, sizeof s->model.coordinates, "%s", c->coordinates);
    return s;
}

/* ---- the twin ---- */

typedef long double matrix[N][N];

struct twin {
    const struct spec *spec;
    struct task_shape shape;
    const struct manifold *m;
    struct batch all;
    int n;
    matrix path[PATHS];
    long double logit[CLASSES_MAX];
};

static int class_size(const struct twin *w, int token)
{
    return token < w->shape.common ? w->shape.common : w->shape.vocabulary - w->shape.common;
}

/* e_a' S e_b of tokens: the selection matrix, and the mean of its row over b's class where the embedding is centred. */
static long double token_relation(const struct twin *w, enum selection kind, int a, int b)
{
    const bool common = a < w->shape.common, together = common == (b < w->shape.common);
    bool one = a == b, row_has_one = true;
    if (kind == SELECTION_ASSOCIATED) {
        one = common && b == (a % 2 ? a - 1 : a + 1);
        row_has_one = common;
    }
    if (kind == SELECTION_RARE) {
        one = one && !common;
        row_has_one = !common;
    }
    const bool centred = w->spec->model.embedding == EMBEDDING_CENTRED;
    return one - (centred && together && row_has_one ? 1.0L / class_size(w, a) : 0);
}

static long double position_relation(const struct twin *w, int shift, int a, int b)
{
    const int period = w->shape.period;
    if (a / period != b / period)
        return 0;
    int key = a % period - shift;
    key += key < 0 ? period : key >= period ? -period : 0;
    return (key == b % period) - (w->spec->model.embedding == EMBEDDING_CENTRED ? 1.0L / period : 0);
}

static void relation_of(const struct twin *w, const int32_t *token, const int32_t *position, int selection, matrix r)
{
    const struct manifold_selection *s = &w->m->selection[selection];
    for (int t = 0; t < w->n; t++)
        for (int u = 0; u < w->n; u++)
            r[t][u] = s->kind == SELECTION_SHIFT ? position_relation(w, s->shift, position[t], position[u])
                                                 : token_relation(w, s->kind, token[t], token[u]);
}

static void softmax(const struct twin *w, matrix score)
{
    for (int t = 0; t < w->n; t++) {
        const int seen = t + (w->spec->model.self_attention ? 1 : 0);
        long double sum = 0;
        for (int u = 0; u < w->n; u++) {
            score[t][u] = u < seen ? expl(score[t][u]) : 0;
            sum += score[t][u];
        }
        for (int u = 0; u < seen; u++)
            score[t][u] /= sum;
    }
}

/* out = a b, or a b' */
static void multiply(int n, matrix a, matrix b, bool transposed, matrix out)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            out[i][j] = 0;
            for (int k = 0; k < n; k++)
                out[i][j] += a[i][k] * (transposed ? b[j][k] : b[k][j]);
        }
}

static void attend(struct twin *w, const long double *x, const int32_t *token, const int32_t *position, int layer, int head,
                   matrix out)
{
    static matrix relation, half, whole;
    memset(out, 0, sizeof(matrix));
    for (int i = 0; i < w->m->coordinates; i++) {
        const struct manifold_coordinate *c = &w->m->coordinate[i];
        if (c->layer != layer || c->head != head)
            continue;
        relation_of(w, token, position, c->selection, relation);
        multiply(w->n, w->path[c->query], relation, false, half);
        multiply(w->n, half, w->path[c->key], true, whole);
        for (int t = 0; t < w->n; t++)
            for (int u = 0; u < w->n; u++)
                out[t][u] += x[i] * whole[t][u];
    }
    softmax(w, out);
}

static void find_paths(struct twin *w, const long double *x, const int32_t *token, const int32_t *position)
{
    static matrix attention;
    int before = 1;
    memset(w->path[0], 0, sizeof(matrix));
    for (int t = 0; t < w->n; t++)
        w->path[0][t][t] = 1;
    for (int l = 1; l <= w->m->layers; l++, before *= 1 + w->m->heads)
        for (int h = 1; h <= w->m->heads; h++) {
            attend(w, x, token, position, l, h, attention);
            for (int p = 0; p < before; p++)
                multiply(w->n, attention, w->path[p], false, w->path[h * before + p]);
        }
}

static void find_logits(struct twin *w, const long double *x, const int32_t *token)
{
    for (int c = 0; c < w->shape.classes; c++) {
        w->logit[c] = 0;
        for (int i = 0; i < w->m->coordinates; i++) {
            const struct manifold_coordinate *k = &w->m->coordinate[i];
            for (int u = 0; u < w->n && k->layer > w->m->layers; u++)
                w->logit[c] += x[i] * w->path[k->key][w->n - 1][u] *
                               token_relation(w, w->m->selection[k->selection].kind, c, token[u]);
        }
    }
}

static long double row_loss(const struct twin *w, int target)
{
    long double square = 0, sum = 0;
    for (int c = 0; c < w->shape.classes; c++) {
        square += (w->logit[c] - (c == target)) * (w->logit[c] - (c == target));
        sum += expl(w->logit[c]);
    }
    switch ((enum loss)w->spec->train.loss) {
    case LOSS_SQUARED: return square / 2;
    case LOSS_MSE: return square / w->shape.classes;
    case LOSS_CROSS_ENTROPY: break;
    }
    return logl(sum) - w->logit[target];
}

/* Loss at x; of sequence `look` the logits stay. */
static long double twin_loss(struct twin *w, const long double *x, int look)
{
    long double sum = 0, weights = 0;
    for (int i = 0; i < w->all.sequences + (look >= 0); i++) {
        const int s = i < w->all.sequences ? i : look;
        const size_t at = (size_t)s * (size_t)w->n;
        find_paths(w, x, w->all.token + at, w->all.position + at);
        find_logits(w, x, w->all.token + at);
        if (i == w->all.sequences)
            break;
        sum += w->all.weight[s] * row_loss(w, w->all.target[at + (size_t)w->n - 1]);
        weights += w->all.weight[s];
    }
    return sum / weights;
}

/* By differences of fourth order. */
static long double twin_derivative(struct twin *w, long double *x, int i)
{
    const long double here = x[i], h = 1e-3L, factor[] = {8, -8, -1, 1}, step[] = {h, -h, 2 * h, -2 * h};
    long double sum = 0;
    for (int k = 0; k < 4; k++) {
        x[i] = here + step[k];
        sum += factor[k] * twin_loss(w, x, -1);
    }
    x[i] = here;
    return sum / (12 * h);
}

/* ---- comparison ---- */

static void open_twin(struct twin *w, const struct spec *s)
{
    struct task *task;
    struct manifold *m;
    CHECK_OK(task_open(s, 0, &task));
    CHECK_OK(manifold_new(s, &m));
    memset(w, 0, sizeof *w);
    w->spec = s;
    w->m = m;
    w->shape = task_shape(task);
    w->n = w->shape.length;
    const int sequences = (int)task_sequences(task, TASK_TRAIN);
    w->all = batch_new_of(sequences, w->shape);
    task_set_batch(task, TASK_TRAIN, 0, (size_t)sequences, &w->all);
    task_free(task);
    CHECK(w->n <= N && w->shape.classes <= CLASSES_MAX);
}

static void close_twin(struct twin *w)
{
    batch_free(&w->all);
    manifold_free((struct manifold *)w->m);
}

/* A point for each lane: larger and larger numbers, the first lane's near 0. */
static double *fill_slots(const struct manifold_tape *t, const struct tape *tape, const struct spec *s)
{
    double *slot = memory_new(tape->program.slots * LANES, sizeof *slot);
    struct stream stream = stream_open(11, PURPOSE_PROBE, 1);
    for (int c = 0; c < t->coordinates; c++)
        for (int lane = 0; lane < LANES; lane++)
            slot[c * LANES + lane] = (2 * stream_uniform(&stream) - 1) * 3.0 * (lane + 1) / LANES;
    for (int c = 0; c < CLASSES; c++)
        for (int lane = 0; lane < LANES; lane++)
            slot[(t->coordinates + c) * LANES + lane] = shape_class_share(s, (enum token_class)c);
    return slot;
}

static double output(const struct tape *t, const double *slot, int i, int lane)
{
    return slot[(size_t)t->output[i] * LANES + (size_t)lane];
}

/* Coordinates are at most so many per case: differences are slow. */
static bool looks_at(int i, int coordinates) { return coordinates <= 12 || i % (coordinates / 12) == 0; }

struct errors {
    double loss, gradient, logit;
};

/* NaN stays. */
static void keep(double *worst, long double got, long double expected)
{
    double e = (double)(fabsl(got - expected) / fmaxl(1, fabsl(expected)));
    if (!isnan(*worst) && !(e <= *worst))
        *worst = e;
}

static void compare_train(struct twin *w, const struct manifold_tape *t, double *slot, int lane, struct errors *e)
{
    long double *x = memory_new((size_t)t->coordinates, sizeof *x);
    for (int c = 0; c < t->coordinates; c++)
        x[c] = slot[c * LANES + lane];
    keep(&e->loss, output(t->train, slot, 0, lane), twin_loss(w, x, -1));
    for (int c = 0; c < t->coordinates; c++)
        if (looks_at(c, t->coordinates))
            keep(&e->gradient, output(t->train, slot, 1 + c, lane), twin_derivative(w, x, c));
    memory_free(x);
}

static void compare_judge(struct twin *w, const struct manifold_tape *t, double *slot, int lane, struct errors *e)
{
    long double *x = memory_new((size_t)t->coordinates, sizeof *x);
    for (int c = 0; c < t->coordinates; c++)
        x[c] = slot[c * LANES + lane];
    for (int s = 0; s < t->sequences; s += 1 + t->sequences / 3) {
        const int target = w->all.target[(size_t)(s + 1) * (size_t)w->n - 1];
        long double before = -1e300L, after = -1e300L;
        keep(&e->loss, output(t->judge, slot, 0, lane), twin_loss(w, x, s));
        for (int c = 0; c < w->shape.classes; c++) {
            if (c < target)
                before = fmaxl(before, w->logit[c]);
            if (c > target)
                after = fmaxl(after, w->logit[c]);
        }
        keep(&e->logit, output(t->judge, slot, 1 + 3 * s, lane), w->logit[target]);
        keep(&e->logit, output(t->judge, slot, 2 + 3 * s, lane), before);
        keep(&e->logit, output(t->judge, slot, 3 + 3 * s, lane), after);
    }
    memory_free(x);
}

static void check_case(const struct tape_case *c)
{
    static struct twin w;
    const struct kern_f64 *kern;
    struct spec *s = spec_of(c);
    struct manifold_tape *t;
    struct errors e = {0};
    open_twin(&w, s);
    CHECK_OK(kern_get(NULL, &kern));
    CHECK_OK(manifold_tape_new(s, &t));
    CHECK_INT(t->coordinates, w.m->coordinates);
    CHECK_INT(t->sequences, w.all.sequences);
    double *slot = fill_slots(t, t->train, s), *judge_slot = fill_slots(t, t->judge, s);
    kern->tape_run(&t->train->program, slot);
    kern->tape_run(&t->judge->program, judge_slot);
    for (int lane = 0; lane < LANES; lane += LANES - 1) {
        compare_train(&w, t, slot, lane, &e);
        compare_judge(&w, t, judge_slot, lane, &e);
    }
    fprintf(stderr, "# %s: %d coordinates, %d sequences, %zu operations: error of the loss %.1e, gradient %.1e, logits %.1e\n",
            c->name, t->coordinates, t->sequences, t->train->program.ops, e.loss, e.gradient, e.logit);
    CHECK(e.loss <= 3e-15);          /* at most 3.0e-16 of all cases */
    CHECK(e.gradient <= 2e-12);      /* 1.3e-13, most of it the differences' own */
    CHECK(e.logit <= 1e-14);         /* 1.0e-15 */
    memory_free(slot);
    memory_free(judge_slot);
    manifold_tape_free(t);
    close_twin(&w);
    memory_free(s);
    CHECK_INT(memory_balance(), 0);
}

TEST(loss_gradient_and_logits_are_those_of_the_twin)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_case(&cases[i]);
}
