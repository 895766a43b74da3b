#include "run/bench.h"

#include "base/clock.h"
#include "base/float_mode.h"
#include "base/memory.h"
#include "kern/kern.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* ---- medians ---- */

struct times {
    int n, room;
    double *value;
};

static void times_add(struct times *t, double value)
{
    if (t->n == t->room) {
        int room = 2 * t->room + 64;
        t->value = memory_grow(t->value, (size_t)t->room, (size_t)room, sizeof *t->value);
        t->room = room;
    }
    t->value[t->n++] = value;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* NaN when there are none. Sorts. */
static double times_median(struct times *t)
{
    if (t->n == 0)
        return NAN;
    qsort(t->value, (size_t)t->n, sizeof *t->value, ascending);
    return t->value[t->n / 2];
}

static double times_least(struct times *t) { return t->n ? (times_median(t), t->value[0]) : NAN; }

static void times_free(struct times *t)
{
    memory_free(t->value);
    *t = (struct times){0};
}

/* ---- the peak ---- */

enum { PEAK_ROUNDS = 100000 };       /* about a third of a millisecond */

/* One burst, in GFLOP/s. */
static double peak_burst(const struct kern_f32 *f32, const struct kern_f64 *f64)
{
    static float x[16];
    static double y[16];
    double start = clock_now();
    size_t n = f32 ? f32->fma_peak(PEAK_ROUNDS, x) : f64->fma_peak(PEAK_ROUNDS, y);
    return 2e-9 * (double)n / (clock_now() - start);
}

static double peak_of(const struct kern_f32 *f32, const struct kern_f64 *f64)
{
    struct times t = {0};
    for (int i = 0; i < 101; i++)
        times_add(&t, peak_burst(f32, f64));
    double peak = times_median(&t);
    times_free(&t);
    return peak;
}

static double memory_rate(const struct kern_f32 *kern, size_t kib)
{
    size_t n = kib * 1024 / (3 * sizeof(float)) / 16 * 16;
    float *a = memory_new(n, sizeof *a), *b = memory_new(n, sizeof *b), *c = memory_new(n, sizeof *c);
    struct times t = {0};
    size_t repeats = (size_t)1 << 26, times = n < repeats ? repeats / n : 1;
    for (int i = 0; i < 7; i++) {
        double start = clock_now();
        for (size_t r = 0; r < times; r++)
            kern->residual(1, n, a, b, NULL, 1, c);
        times_add(&t, 12e-9 * (double)(n * times) / (clock_now() - start));
    }
    double rate = times_median(&t);
    times_free(&t);
    memory_free(a);
    memory_free(b);
    memory_free(c);
    return rate;
}

enum status bench_peak(struct bench_peak *p)
{
    const struct kern_f32 *f32;
    const struct kern_f64 *f64;
    enum status status = kern_get(&f32, &f64);
    if (status != STATUS_OK)
        return status;
    static const size_t kib[] = {24, 384, 6144, 393216};
    *p = (struct bench_peak){.gflops_f32 = peak_of(f32, NULL), .gflops_f64 = peak_of(NULL, f64)};
    for (size_t i = 0; i < sizeof kib / sizeof kib[0]; i++) {
        p->memory[i].kib = kib[i];
        p->memory[i].gbytes = memory_rate(f32, kib[i]);
    }
    return STATUS_OK;
}

/* ---- matrix products ---- */

struct product {
    const struct kern_f32 *kern;
    const struct bench_gemm *shape;
    float *a, *b, *c, *packed;
};

static void product_own(const struct product *p)
{
    const struct bench_gemm *s = p->shape;
    if (s->transposed) {
        p->kern->gemm_tn(s->m, s->n, s->k, p->a, s->m, p->b, s->n, p->c, s->n);
        return;
    }
    p->kern->pack(s->k, s->n, p->b, s->n, p->packed);
    p->kern->gemm(s->m, s->n, s->k, p->a, s->k, p->packed, NULL, 0, p->c, s->n);
}

static void product_blas(const struct product *p)
{
    const struct bench_gemm *s = p->shape;
    cblas_sgemm(CblasRowMajor, s->transposed ? CblasTrans : CblasNoTrans, CblasNoTrans, (int)s->m, (int)s->n, (int)s->k, 1.0f,
                p->a, (int)(s->transposed ? s->m : s->k), p->b, (int)s->n, s->transposed ? 1.0f : 0.0f, p->c, (int)s->n);
}

static double product_rate(const struct product *p, void (*product)(const struct product *))
{
    double work = 2e-9 * (double)p->shape->m * (double)p->shape->n * (double)p->shape->k, start = clock_now();
    int repeats = (int)(0.1 / work) + 1;
    for (int i = 0; i < repeats; i++)
        product(p);
    return work * repeats / (clock_now() - start);
}

static void gemm_shape(const struct kern_f32 *kern, struct bench_gemm *s)
{
    struct product p = {.kern = kern, .shape = s, .a = memory_new(s->m * s->k, sizeof(float)),
                        .b = memory_new(s->k * s->n, sizeof(float)), .c = memory_new(s->m * s->n, sizeof(float)),
                        .packed = memory_new(kern_packed_size(s->k, s->n), sizeof(float))};
    struct times own = {0}, blas = {0}, peak = {0};
    for (int round = 0; round < 9; round++) {
        times_add(&peak, peak_burst(kern, NULL));
        times_add(&own, product_rate(&p, product_own));
        times_add(&blas, product_rate(&p, product_blas));
    }
    s->gflops = times_median(&own);
    s->gflops_blas = times_median(&blas);
    s->peak_gflops = times_median(&peak);
    times_free(&own);
    times_free(&blas);
    times_free(&peak);
    memory_free(p.a);
    memory_free(p.b);
    memory_free(p.c);
    memory_free(p.packed);
}

enum status bench_gemm(struct bench_gemm shape[BENCH_GEMM_SHAPES])
{
    static const struct bench_gemm shapes[BENCH_GEMM_SHAPES] = {
        {.m = 512, .n = 128, .k = 128}, {.m = 512, .n = 512, .k = 128}, {.m = 512, .n = 128, .k = 512},
        {.m = 512, .n = 64, .k = 64},   {.m = 512, .n = 113, .k = 512}, {.m = 128, .n = 512, .k = 512, .transposed = 1},
        {.m = 512, .n = 128, .k = 512, .transposed = 1}, {.m = 64, .n = 64, .k = 512, .transposed = 1}};
    const struct kern_f32 *kern;
    enum status status = kern_get(&kern, NULL);
    if (status != STATUS_OK)
        return status;
    memcpy(shape, shapes, sizeof shapes);
    for (int i = 0; i < BENCH_GEMM_SHAPES; i++)
        gemm_shape(kern, &shape[i]);
    return STATUS_OK;
}

/* ---- training steps ---- */

/* A training at work, and how long its parts take. */
struct running {
    const struct bench_subject *subject;
    struct model *model;
    struct optimizer *optimizer;
    struct batch batch;                  /* of a task's step */
    uint64_t step;
    struct times data, pass, optimise, whole, peak;
};

static void take_step(struct running *r)
{
    const struct bench_subject *s = r->subject;
    const struct batch *b = &s->batch[r->step % (uint64_t)s->batches];
    double start = clock_now(), made = start;
    if (s->task) {
        task_train_batch(s->task, r->step % task_steps(s->task), &r->batch);
        b = &r->batch;
        made = clock_now();
    }
    model_train_pass(r->model, b, s->seed, r->step);
    double passed = clock_now();
    optimizer_step(r->optimizer, r->model, ++r->step);
    double end = clock_now();
    times_add(&r->data, made - start);
    times_add(&r->pass, passed - made);
    times_add(&r->optimise, end - passed);
    times_add(&r->whole, end - start);
}

static enum status open_running(const struct bench_subject *s, const struct spec *spec, struct running *r)
{
    *r = (struct running){.subject = s};
    enum status status = model_open(spec, s->shape, &r->model);
    if (status != STATUS_OK)
        return status;
    model_initialise(r->model, spec, s->seed);
    r->optimizer = optimizer_new(r->model, spec);
    r->batch = batch_new_of(s->shape.batch, s->shape);
    for (int i = 0; i < 3; i++)
        take_step(r);
    r->data.n = r->pass.n = r->optimise.n = r->whole.n = 0;
    return STATUS_OK;
}

static void close_running(struct running *r)
{
    struct times *all[] = {&r->data, &r->pass, &r->optimise, &r->whole, &r->peak};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        times_free(all[i]);
    batch_free(&r->batch);
    optimizer_free(r->optimizer);
    model_free(r->model);
}

/* Steps for about `seconds`, at least 9, with a look at the peak now and then. */
static void run_for(struct running *r, double seconds, const struct kern_f32 *f32, const struct kern_f64 *f64)
{
    double start = clock_now(), looked = -1;
    while (r->whole.n < 9 || clock_now() - start < seconds) {
        if (clock_now() - looked > 0.01) {
            times_add(&r->peak, peak_burst(f32, f64));
            looked = clock_now();
        }
        take_step(r);
    }
}

/* Seconds of looking at both sets once. */
static double evaluation_seconds(struct running *r)
{
    const struct task *t = r->subject->task;
    const int length = r->subject->shape.length, most = length < 4096 ? 4096 / length : 1;
    struct batch view = batch_new_of(most, r->subject->shape);
    double start = clock_now();
    for (int set = TASK_TRAIN; set <= TASK_TEST; set++) {
        size_t all = task_sequences(t, (enum task_set)set);
        size_t wanted = (size_t)r->subject->spec.train.eval_sequences;
        if (wanted && wanted < all)
            all = wanted;
        for (size_t first = 0; first < all; first += (size_t)most) {
            size_t left = all - first;
            task_set_batch(t, (enum task_set)set, first, left < (size_t)most ? left : (size_t)most, &view);
            model_evaluate(r->model, &view, NULL);
        }
    }
    double seconds = clock_now() - start;
    batch_free(&view);
    return seconds;
}

/* Share of the evaluations in a whole training. */
static double evaluation_share(struct running *r, double step)
{
    const struct task *t = r->subject->task;
    double steps = (double)task_steps(t), every = (double)r->subject->spec.train.eval_every;
    if (every == 0)
        every = (double)task_epoch_steps(t);
    double seconds = evaluation_seconds(r) * (floor(steps / every) + 1);
    return seconds / (seconds + steps * step);
}

/* Share of a step that goes when nothing is dropped, from steps with and without in turns. */
static enum status dropout_share(const struct bench_subject *s, double seconds, double *share)
{
    struct spec without = s->spec;
    without.model.dropout = 0;
    struct running with, none;
    enum status status = open_running(s, &s->spec, &with);
    if (status != STATUS_OK)
        return status;
    status = open_running(s, &without, &none);
    if (status == STATUS_OK) {
        double start = clock_now();
        while (with.whole.n < 9 || clock_now() - start < seconds) {
            take_step(&with);
            take_step(&none);
        }
        *share = 1.0 - times_median(&none.whole) / times_median(&with.whole);
    }
    close_running(&none);
    close_running(&with);
    return status;
}

static double resident_mb(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss / 1024.0;
}

enum status bench_step(const struct bench_subject *s, double seconds, struct bench_result *b)
{
    const struct kern_f32 *f32;
    const struct kern_f64 *f64;
    enum status status = kern_get(&f32, &f64);
    if (status != STATUS_OK)
        return status;
    uint64_t mode = float_mode_flush();
    struct running r;
    status = open_running(s, &s->spec, &r);
    if (status != STATUS_OK)
        goto out;
    run_for(&r, seconds, s->spec.model.precision == PRECISION_FLOAT64 ? NULL : f32, f64);
    double step = times_median(&r.whole);
    *b = (struct bench_result){.plan = *model_plan(r.model), .step_ms = 1e3 * step, .step_ms_least = 1e3 * times_least(&r.whole),
                               .steps = r.whole.n, .data_share = NAN, .dropout_share = NAN, .evaluation_share = NAN};
    b->flops_dense = b->plan.candidate[0].count.flops;
    b->flops_planned = b->plan.candidate[b->plan.chosen].count.flops;
    b->gflops = 1e-9 * b->flops_planned / step;
    b->peak_gflops = times_median(&r.peak);
    b->peak_share = b->gflops / b->peak_gflops;
    b->optimizer_share = times_median(&r.optimise) / step;
    if (s->task) {
        b->data_share = times_median(&r.data) / step;
        b->evaluation_share = evaluation_share(&r, step);
    }
    if (s->spec.model.dropout > 0)
        status = dropout_share(s, seconds / 2, &b->dropout_share);
    b->rss_mb = resident_mb();
out:
    close_running(&r);
    float_mode_restore(mode);
    return status;
}
