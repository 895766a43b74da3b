/* bench.h: how fast the engine is on this machine, on four models of the field and on a user's job.
 *
 * A figure is a median over many steps; the peak that it is compared with, fused multiply-adds in registers alone, is
 * measured between the steps, on the same core at the same time. FLOPs are those of the planner (model/planner.h): a step
 * forward and backward, a multiply-add as two.
 */
#ifndef INVAR_RUN_BENCH_H
#define INVAR_RUN_BENCH_H

#include "base/status.h"
#include "job/keys.h"
#include "model/planner.h"

#include <stddef.h>
#include <stdint.h>

/* BENCH(name, meaning) */
#define BENCH_MODELS(BENCH) \
    BENCH(M1, "assign-and-add: 2 layers, 1 head, d 128, MLP 512 in layer 2, 20 tokens, batch 512, loss at the last, AdamW") \
    BENCH(M2, "modular addition, p 113: 1 layer, 4 heads, d 128, MLP 512, full batch of 3830, loss at the last, AdamW") \
    BENCH(M3, "Markov chain size: 1 layer, 1 head, d 64, MLP 256, 4 states, 64 tokens, batch 64, loss everywhere, AdamW") \
    BENCH(M4, "attention-only: 2 layers, 40 tokens of 40 kinds one-hot, fused key-query, batch 500, loss at the last, SGD")

enum bench_model {
#define BENCH(name, meaning) BENCH_##name,
    BENCH_MODELS(BENCH)
#undef BENCH
    BENCH_MODEL_COUNT
};

const char *bench_model_name(enum bench_model m);
const char *bench_model_meaning(enum bench_model m);
/* The model's keys and sizes.   out: *s, *shape */
void bench_model_spec(enum bench_model m, struct spec *s, struct task_shape *shape);

/* What is timed: a model on batches made beforehand (`task` NULL), or a job's run with its task. */
struct bench_subject {
    const char *name;
    struct spec spec;
    struct task_shape shape;
    uint64_t seed;
    struct task *task;
    int batches;
    struct batch batch[4];
};

/* Batches of a benchmark model, or of step 0 of a run; freed with bench_subject_clear.
 * fails: STATUS_JOB */
enum status bench_subject_model(enum bench_model m, struct bench_subject *b);
enum status bench_subject_run(const struct spec *s, uint64_t seed, struct bench_subject *b);
void bench_subject_clear(struct bench_subject *b);

struct bench_result {
    struct planner plan;
    double step_ms, step_ms_least;       /* a training step: median and fastest, data included where there is a task */
    int steps;                           /* timed */
    double flops_dense, flops_planned;
    double gflops;                       /* planned FLOPs a second */
    double peak_gflops, peak_share;
    double rss_mb;                       /* largest resident size of this process so far */
    /* Shares of a whole training; NaN where they do not apply. */
    double optimizer_share, data_share, dropout_share, evaluation_share;
};

/* Times steps for about `seconds`.   fails: STATUS_JOB, STATUS_ENVIRONMENT */
enum status bench_step(const struct bench_subject *b, double seconds, struct bench_result *r);

/* Runs of manifold models that are trained side by side (run/group.h). */
struct bench_group {
    size_t points;
    size_t operations, slots;            /* of the program of the first one's structure */
    double build_ms;                     /* time to write that program down */
    double seconds, steps;               /* of all points together */
};

/* Trains n runs that group_fits, from their starts to their ends, programs included.   fails: STATUS_JOB, STATUS_ENVIRONMENT */
enum status bench_group(const struct spec *spec, const uint64_t *seed, size_t n, struct bench_group *r);

/* Trains `steps` steps from the initial weights and writes batches, those weights and all losses to a NetCDF file, so that
 * another program can do the same steps.   fails: STATUS_IO ... */
enum status bench_dump(const struct bench_subject *b, int steps, const char *path);

/* FMA peak of this core, and what a sum of two arrays moves in each level of the memory.   out: by size */
struct bench_peak {
    double gflops_f32, gflops_f64;
    struct {
        size_t kib;                      /* of the three arrays together */
        double gbytes;                   /* a second */
    } memory[4];
};
enum status bench_peak(struct bench_peak *p);

/* One shape of matrix product: C[m][n] from A and packed B (`gemm`), or C += A'B (`gemm_tn`), and OpenBLAS on the same. */
struct bench_gemm {
    size_t m, n, k;
    int transposed;
    double gflops, gflops_blas, peak_gflops;
};
#define BENCH_GEMM_SHAPES 8
enum status bench_gemm(struct bench_gemm shape[BENCH_GEMM_SHAPES]);

#endif
