/* bench: the speed of the engine on this machine. Runs alone, on the core it is pinned to. */
#include "mpi/verbs.h"

#include "base/memory.h"
#include "base/text.h"
#include "base/version.h"
#include "kern/kern.h"
#include "run/bench.h"
#include "run/group.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SECONDS 3.0                  /* of steps for one line */
#define DUMP_STEPS 20

/* One measured line: a model in one order of computation. */
struct line {
    const char *model, *plan;
    struct bench_result r;
};

static void add_share(struct text *t, const char *name, double share)
{
    if (isnan(share))
        text_add(t, ", \"%s\": null", name);
    else
        text_add(t, ", \"%s\": %.4f", name, share);
}

static void print_json(const struct line *l)
{
    const struct bench_result *r = &l->r;
    struct text t = {0};
    text_add(&t, "{\"model\": ");
    text_add_json(&t, l->model);
    text_add(&t, ", \"plan\": \"%s\", \"order\": \"%s\", \"step_ms\": %.5f, \"step_ms_least\": %.5f, \"flops_dense\": %.0f, "
             "\"flops_planned\": %.0f, \"gflops\": %.3f, \"peak_gflops\": %.2f, \"peak_share\": %.4f, \"rss_mb\": %.1f, "
             "\"isa\": \"%s\"", l->plan, r->plan.candidate[r->plan.chosen].name, r->step_ms, r->step_ms_least, r->flops_dense,
             r->flops_planned, r->gflops, r->peak_gflops, r->peak_share, r->rss_mb, kern_isa_name());
    add_share(&t, "optimizer_share", r->optimizer_share);
    add_share(&t, "data_share", r->data_share);
    add_share(&t, "dropout_share", r->dropout_share);
    add_share(&t, "evaluation_share", r->evaluation_share);
    printf("%s}\n", text_string(&t));
    text_free(&t);
}

static void print_head(void)
{
    printf("%s, FMA peak measured between the steps; shares are of a training step, evaluation of the whole training\n"
           "%-8s %-10s %-8s %9s %9s %9s %8s %7s %7s %6s %6s %6s\n", kern_isa_name(), "model", "plan", "order", "ms/step",
           "GF dense", "GF plan", "GF/s", "peak", "optim.", "data", "drop", "eval");
}

static void print_share(double share)
{
    if (isnan(share))
        printf(" %6s", "-");
    else
        printf(" %5.1f%%", 100 * share);
}

static void print_line(const struct line *l)
{
    const struct bench_result *r = &l->r;
    printf("%-8s %-10s %-8s %9.4f %9.4f %9.4f %8.1f %6.1f%%", l->model, l->plan, r->plan.candidate[r->plan.chosen].name, r->step_ms,
           r->flops_dense / 1e9, r->flops_planned / 1e9, r->gflops, 100 * r->peak_share);
    print_share(r->optimizer_share);
    print_share(r->data_share);
    print_share(r->dropout_share);
    print_share(r->evaluation_share);
    printf("\n");
    fflush(stdout);
}

static enum status measure(const struct options *o, const struct bench_subject *b, const char *name)
{
    struct line l = {.model = name, .plan = b->spec.train.plan == PLAN_DENSE ? "dense" : "structured"};
    enum status status = bench_step(b, isfinite(o->seconds) ? o->seconds : SECONDS, &l.r);
    if (status != STATUS_OK)
        return status;
    if (o->json)
        print_json(&l);
    else
        print_line(&l);
    return STATUS_OK;
}

/* The subject as it is, and, unless that is it already, in the dense order. */
static enum status both_orders(const struct options *o, struct bench_subject *b, const char *name)
{
    if (o->dump)
        return bench_dump(b, DUMP_STEPS, o->dump);
    enum status status = measure(o, b, name);
    if (status == STATUS_OK && b->spec.train.plan != PLAN_DENSE) {
        b->spec.train.plan = PLAN_DENSE;
        status = measure(o, b, name);
    }
    return status;
}

static enum status bench_one(const struct options *o, enum bench_model m)
{
    struct bench_subject b;
    enum status status = bench_subject_model(m, &b);
    if (status == STATUS_OK)
        status = both_orders(o, &b, bench_model_name(m));
    bench_subject_clear(&b);
    return status;
}

/* ---- runs that are trained side by side ---- */

#define GROUP_POINTS 1024            /* at most so many of the job's runs are trained */

static void print_group(const struct options *o, const char *name, const struct bench_group *r)
{
    const double points = (double)r->points, step = 1e6 * r->seconds / r->steps;
    if (o->json) {
        struct text t = {0};
        text_add(&t, "{\"model\": ");
        text_add_json(&t, name);
        printf("%s, \"points\": %zu, \"operations\": %zu, \"slots\": %zu, \"build_ms\": %.3f, \"steps\": %.0f, \"step_us\": %.5f, "
               "\"point_ms\": %.5f, \"points_per_second\": %.1f, \"isa\": \"%s\"}\n", text_string(&t), r->points, r->operations,
               r->slots, r->build_ms, r->steps, step, 1e3 * r->seconds / points, points / r->seconds, kern_isa_name());
        text_free(&t);
        return;
    }
    printf("%s, runs of manifold models side by side: program of the loss and its gradient, us per step and point\n"
           "%-16s %8s %10s %8s %9s %11s %9s %10s %10s\n%-16s %8zu %10zu %8zu %9.3f %11.0f %9.4f %10.4f %10.0f\n", kern_isa_name(),
           "job", "points", "operations", "slots", "build ms", "steps", "us/step", "ms/point", "points/s", name, r->points,
           r->operations, r->slots, r->build_ms, r->steps, step, 1e3 * r->seconds / points, points / r->seconds);
}

/* Runs spread evenly over the job, from their starts to their ends. */
static enum status bench_together(struct session *s)
{
    const size_t all = job_runs(s->job), n = all < GROUP_POINTS ? all : GROUP_POINTS;
    struct spec *spec = memory_new(n, sizeof *spec);
    uint64_t *seed = memory_new(n, sizeof *seed);
    struct bench_group r;
    for (size_t i = 0; i < n; i++)
        job_run(s->job, i * all / n, &spec[i], &seed[i]);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        if (!group_fits(&spec[i]))
            status = status_fail(STATUS_JOB, "bench measures runs of one kind: some of this job's are trained side by side, others "
                                 "are not");
    if (status == STATUS_OK)
        status = bench_group(spec, seed, n, &r);
    if (status == STATUS_OK)
        print_group(s->options, s->job->name, &r);
    memory_free(spec);
    memory_free(seed);
    return status;
}

static enum status bench_alone(struct session *s, const struct spec *spec, uint64_t seed)
{
    struct bench_subject b;
    enum status status = bench_subject_run(spec, seed, &b);
    if (!s->options->json && !s->options->dump)
        print_head();
    if (status == STATUS_OK)
        status = both_orders(s->options, &b, s->job->name);
    bench_subject_clear(&b);
    return status;
}

static enum status bench_job(struct session *s)
{
    struct spec spec;
    uint64_t seed;
    enum status status = verbs_read_job(s);
    if (status != STATUS_OK)
        return status;
    job_run(s->job, 0, &spec, &seed);
    if (!group_fits(&spec))
        return bench_alone(s, &spec, seed);
    if (s->options->dump)
        return status_fail(STATUS_USAGE, "--dump takes the steps of a model that is trained by itself: this job's runs are trained "
                           "side by side");
    return bench_together(s);
}

static enum status show_peak(const struct options *o)
{
    struct bench_peak p;
    enum status status = bench_peak(&p);
    if (status != STATUS_OK)
        return status;
    if (o->json) {
        printf("{\"model\": \"peak\", \"isa\": \"%s\", \"gflops_f32\": %.2f, \"gflops_f64\": %.2f, \"memory\": [", kern_isa_name(),
               p.gflops_f32, p.gflops_f64);
        for (int i = 0; i < 4; i++)
            printf("%s{\"kib\": %zu, \"gbytes\": %.2f}", i ? ", " : "", p.memory[i].kib, p.memory[i].gbytes);
        printf("]}\n");
        return STATUS_OK;
    }
    printf("fused multiply-adds in registers (%s): %.1f GFLOP/s in float, %.1f in double\n", kern_isa_name(), p.gflops_f32,
           p.gflops_f64);
    for (int i = 0; i < 4; i++)
        printf("c = a + b over %8zu KiB: %7.1f GB/s\n", p.memory[i].kib, p.memory[i].gbytes);
    return STATUS_OK;
}

static enum status show_gemm(const struct options *o)
{
    struct bench_gemm g[BENCH_GEMM_SHAPES];
    enum status status = bench_gemm(g);
    if (status != STATUS_OK)
        return status;
    if (!o->json)
        printf("%-4s %5s %5s %5s %10s %7s %10s %7s   (%s; packing included)\n", "", "m", "n", "k", "GFLOP/s", "peak", "OpenBLAS",
               "peak", kern_isa_name());
    for (int i = 0; i < BENCH_GEMM_SHAPES; i++) {
        const char *kind = g[i].transposed ? "TN" : "NN";
        if (o->json)
            printf("{\"model\": \"gemm\", \"kind\": \"%s\", \"m\": %zu, \"n\": %zu, \"k\": %zu, \"gflops\": %.2f, \"gflops_openblas\": "
                   "%.2f, \"peak_gflops\": %.2f, \"isa\": \"%s\"}\n", kind, g[i].m, g[i].n, g[i].k, g[i].gflops, g[i].gflops_blas,
                   g[i].peak_gflops, kern_isa_name());
        else
            printf("%-4s %5zu %5zu %5zu %10.1f %6.1f%% %10.1f %6.1f%%\n", kind, g[i].m, g[i].n, g[i].k, g[i].gflops,
                   100 * g[i].gflops / g[i].peak_gflops, g[i].gflops_blas, 100 * g[i].gflops_blas / g[i].peak_gflops);
    }
    return STATUS_OK;
}

enum status verbs_bench(struct session *s)
{
    const struct options *o = s->options;
    const char *what = o->target;
    if (o->dump && (!what || !strcmp(what, "peak") || !strcmp(what, "gemm")))
        return status_fail(STATUS_USAGE, "--dump takes the steps of one model: invar bench M1 --dump FILE");
    if (what && !strcmp(what, "peak"))
        return show_peak(o);
    if (what && !strcmp(what, "gemm"))
        return show_gemm(o);
    bool of_ours = !what;
    for (int m = 0; m < BENCH_MODEL_COUNT && what; m++)
        of_ours |= !strcmp(what, bench_model_name((enum bench_model)m));
    if (!of_ours)
        return bench_job(s);
    if (!o->json && !o->dump)
        print_head();
    enum status status = STATUS_OK;
    for (int m = 0; m < BENCH_MODEL_COUNT && status == STATUS_OK; m++) {
        if (what && strcmp(what, bench_model_name((enum bench_model)m)))
            continue;
        status = bench_one(o, (enum bench_model)m);
    }
    return status;
}
