/* Checks of doctor: arithmetic, BLAS and ScaLAPACK by known answers. */
#include "mpi/doctor.h"

#include "analysis/dmatrix.h"
#include "base/float_mode.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/stream.h"
#include "job/job.h"
#include "kern/kern.h"
#include "run/train.h"
#include "store/record_code.h"

#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A function of a library that may not be there. */
#define LOOK_UP(function, name)                                \
    do {                                                       \
        void *symbol = dlsym(RTLD_DEFAULT, name);              \
        memcpy(&(function), &symbol, sizeof(function));        \
    } while (0)

/* ---- BLAS ---- */

void doctor_check_threads(struct doctor *d)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"};
    int (*blas)(void), (*omp)(void);
    LOOK_UP(blas, "openblas_get_num_threads");
    LOOK_UP(omp, "omp_get_max_threads");
    int blas_threads = blas ? blas() : 1, omp_threads = omp ? omp() : 1;
    for (int i = 0; i < 3; i++)
        if (*doctor_asked_threads(i) && strcmp(doctor_asked_threads(i), "1"))
            doctor_say(d, DOCTOR_NOTE, "%s=%s: this program sets it to 1 for itself, a rank is one core; export %s=1 in batch "
                       "scripts for what else they start", names[i], doctor_asked_threads(i), names[i]);
    if (blas_threads != 1 || omp_threads != 1)
        doctor_say(d, DOCTOR_WRONG, "BLAS uses %d threads and OpenMP %d in each rank, and cannot be told otherwise: export "
                   "OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 before the start", blas_threads, omp_threads);
    doctor_say(d, DOCTOR_OK, "one thread a rank for BLAS%s", omp ? " and OpenMP" : "");
}

/* What OpenBLAS falls back to when it does not know the processor. */
static bool is_slow_core(const char *core)
{
    static const char *const slow[] = {"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Generic", "generic", "Atom",
                                       "Athlon", "Opteron", "Barcelona", "Bobcat", "Nano", "Sandybridge", "Unknown"};
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
        if (strstr(core, slow[i]))
            return true;
    return false;
}

/* The core type that this processor can run; NULL: nothing better than the fallback. */
static const char *fit_core(void)
{
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    return NULL;
}

void doctor_check_blas(struct doctor *d)
{
    char *(*config)(void), *(*core)(void);
    LOOK_UP(config, "openblas_get_config");
    LOOK_UP(core, "openblas_get_corename");
    if (!config || !core) {
        doctor_say(d, DOCTOR_OK, "a BLAS that is not OpenBLAS");
        return;
    }
    const char *better = fit_core();
    if (better && is_slow_core(core()))
        doctor_say(d, DOCTOR_NOTE, "OpenBLAS does not know this processor and uses its slow %s kernels: export "
                   "OPENBLAS_CORETYPE=%s (probes and gather get faster; training does not use BLAS)", core(), better);
    else
        doctor_say(d, DOCTOR_OK, "%.200s (core %s)", config(), core());
}

/* ---- ScaLAPACK ---- */

enum { ROWS = 37, COLUMNS = 23, BLOCK = 4 };

/* Column j of the orthonormal cosine basis of n points. */
static double cosine(int n, int i, int j)
{
    return j == 0 ? sqrt(1.0 / n) : sqrt(2.0 / n) * cos(acos(-1.0) * (i + 0.5) * j / n);
}

static double known_value(int k) { return 10.0 / (1 + k); }

/* sum_k known_value(k) u_k v_k' with cosine bases: its singular values are known, apart from one another, and well
 * above rounding. */
static double *known_matrix(void)
{
    double *a = memory_new((size_t)ROWS * COLUMNS, sizeof *a);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            for (int k = 0; k < COLUMNS; k++)
                a[i * COLUMNS + j] += known_value(k) * cosine(ROWS, i, k) * cosine(COLUMNS, j, k);
    return a;
}

struct factors {
    double s[COLUMNS], u[ROWS * COLUMNS];
};

/* pdgesvd with its checks, as the gather stage uses it.   collective */
static enum status factor(const struct world *w, int rows, int cols, const double *whole, struct factors *f)
{
    struct grid g;
    struct dmatrix a, u, vt;
    enum status status = grid_open(w->comm, rows, cols, &g);
    if (status != STATUS_OK)
        return status;
    status = dmatrix_new(&g, ROWS, COLUMNS, BLOCK, BLOCK, &a);
    if (status == STATUS_OK) {
        dmatrix_from_whole(&a, whole);
        status = dmatrix_svd(&a, f->s, &u, &vt);
        if (status == STATUS_OK) {
            dmatrix_to_whole(&u, f->u);
            dmatrix_free(&u);
            dmatrix_free(&vt);
        }
        dmatrix_free(&a);
    }
    grid_close(&g);
    return status;
}

static double largest_error(const struct factors *f)
{
    double error = 0;
    for (int k = 0; k < COLUMNS; k++)
        error = fmax(error, fabs(f->s[k] - known_value(k)) / known_value(0));
    return error;
}

/* Shapes worth a look: all of few ranks; of many, those of up to 16 ranks and the squarest of all ranks. */
static bool is_looked_at(int rows, int cols, int size)
{
    int root = (int)sqrt((double)size);
    return rows * cols <= size && (rows * cols <= 16 || (rows == root && cols == size / root));
}

void doctor_check_scalapack(struct doctor *d)
{
    struct factors *f = memory_new(1, sizeof *f);
    double *whole = known_matrix(), worst = 0;
    int grids = 0, size = d->w->size;
    enum status status = STATUS_OK;
    for (int rows = 1; rows <= size && status == STATUS_OK; rows++)
        for (int cols = 1; rows * cols <= size && status == STATUS_OK; cols++) {
            if (!is_looked_at(rows, cols, size))
                continue;
            status = factor(d->w, rows, cols, whole, f);
            double error = status == STATUS_OK ? largest_error(f) : 0;
            if (status != STATUS_OK)
                doctor_say(d, DOCTOR_WRONG, "%.600s", status_text());
            else if (!(error <= 1e-13))
                doctor_say(d, DOCTOR_WRONG, "pdgesvd on a %d x %d grid: singular values are off by %.1e: this ScaLAPACK or BLAS "
                           "cannot be trusted, use another", rows, cols, error);
            worst = fmax(worst, error);
            grids++;
        }
    doctor_say(d, DOCTOR_OK, "pdgesvd on %d grid%s: values right to %.1e, residual and orthogonality hold", grids,
               grids == 1 ? "" : "s", worst);
    memory_free(whole);
    memory_free(f);
}

/* The same factorisation again and again: BLACS adds in the order of arrival unless Cblacs_set has told it not to. */
void doctor_check_repeatable(struct doctor *d)
{
    enum { TIMES = 5 };
    struct factors *f = memory_new(2, sizeof *f);
    double *whole = known_matrix();
    int size = d->w->size < 16 ? d->w->size : 16, rows = (int)sqrt((double)size), cols = size / rows, differ = 0;
    enum status status = STATUS_OK;
    for (int i = 0; i < TIMES && status == STATUS_OK; i++) {
        status = factor(d->w, rows, cols, whole, &f[i > 0]);
        differ += status == STATUS_OK && i > 0 && memcmp(&f[0], &f[1], sizeof f[0]);
    }
    if (status != STATUS_OK)
        doctor_say(d, DOCTOR_WRONG, "%.600s", status_text());
    else if (differ)
        doctor_say(d, DOCTOR_WRONG, "%d of %d repetitions on a %d x %d grid gave other bits: sums of this BLACS are not repeatable; "
                   "use gather.grid: [1, 1]", differ, TIMES - 1, rows, cols);
    else
        doctor_say(d, DOCTOR_OK, "%d times the same bits on a %d x %d grid", TIMES, rows, cols);
    memory_free(whole);
    memory_free(f);
}

/* ---- arithmetic of training ---- */

/* Known answers of Philox4x32-10 (Random123, kat_vectors). */
void doctor_check_philox(struct doctor *d)
{
    static const struct { uint32_t counter[4], key[2], out[4]; } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        const uint32_t *c = known[i].counter, *key = known[i].key;
        stream_philox((uint64_t)key[1] << 32 | key[0], (uint64_t)c[1] << 32 | c[0], c[2], c[3], out);
        if (memcmp(out, known[i].out, sizeof out))
            doctor_say(d, DOCTOR_WRONG, "Philox answers %08x, not %08x, to known input %zu: the program is built wrongly", out[0],
                       known[i].out[0], i);
    }
    doctor_say(d, DOCTOR_OK, "the three published answers of Philox4x32-10");
}

void doctor_check_float_mode(struct doctor *d)
{
    volatile float smallest = FLT_MIN;
    uint64_t before = float_mode_flush();
    volatile float flushed = smallest / 2;
    float_mode_restore(before);
    volatile float kept = smallest / 2;
    if (!float_mode_can_flush())
        doctor_say(d, DOCTOR_NOTE, "subnormal numbers cannot be flushed to zero on this processor: late training is slower, and its "
                   "last bits may differ from other machines'");
    else if (flushed != 0 || kept == 0)
        doctor_say(d, DOCTOR_WRONG, "half of the smallest number is %g in training and %g elsewhere, expected 0 and not 0: something "
                   "in this process changes the floating-point mode (a library built with -ffast-math?)", (double)flushed,
                   (double)kept);
    else
        doctor_say(d, DOCTOR_OK, "subnormals are zero in training, and kept elsewhere");
}

static const char small_job[] = "name: doctor\n"
                                "task: {sequences: 64, test_sequences: 32, length: 12}\n"
                                "model: {d_model: 24, heads: 2, d_mlp: 40, dropout: 0.1}\n"
                                "train: {epochs: 2, batch: 16, lr: 3e-3}\n";

/* Hash of all that a small training leaves: weights, and the learning curves through its losses. */
static enum status train_small(struct hash *h)
{
    struct job *job;
    struct record r = {0};
    uint64_t seed;
    enum train_end end;
    enum status status = job_parse(small_job, "doctor", NULL, 0, &job);
    if (status != STATUS_OK)
        return status;
    struct spec *spec = memory_new(1, sizeof *spec);
    job_run(job, 0, spec, &seed);
    status = train_run(spec, seed, NULL, NULL, 0, &r, &end);
    if (status == STATUS_OK) {
        double last[2] = {r.loss_train, r.loss_test};
        struct hash part[2] = {hash_bytes(r.weights, record_code_weights(&r) * (size_t)r.element_size),
                               hash_bytes(last, sizeof last)};
        *h = hash_bytes(part, sizeof part);
        record_clear(&r);
    }
    memory_free(spec);
    job_free(job);
    return status;
}

/* With INVAR_ISA as it is, then with every instruction set that this processor has.   returns how many agree */
static int train_on_each(struct doctor *d, struct hash *first, char names[64])
{
    int sets = 0;
    enum status status = train_small(first);
    if (status != STATUS_OK) {
        doctor_say(d, DOCTOR_WRONG, "%.600s", status_text());
        return 0;
    }
    for (int i = 0; kern_isa_at(i); i++) {
        struct hash h;
        if (kern_pin(kern_isa_at(i)) != STATUS_OK)
            continue;
        status = train_small(&h);
        if (status != STATUS_OK || !hash_equal(h, *first))
            doctor_say(d, DOCTOR_WRONG, "a small training has other bits with %s: %s", kern_isa_at(i), status != STATUS_OK ?
                       status_text() : "the compiler or the processor is at fault; run `make check`, and set INVAR_ISA=scalar");
        size_t used = strlen(names);
        snprintf(names + used, 64 - used, "%s%s", sets++ ? ", " : "", kern_isa_at(i));
    }
    kern_pin(NULL);
    return sets;
}

void doctor_check_kernels(struct doctor *d)
{
    struct hash mine = {{0}}, first;
    char names[64] = "";
    int sets = train_on_each(d, &mine, names);
    first = mine;
    MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, d->w->comm);
    if (d->verdict == DOCTOR_OK && !hash_equal(first, mine))
        doctor_say(d, DOCTOR_WRONG, "a small training has other bits than on rank 0: the machines do not compute alike");
    doctor_say(d, DOCTOR_OK, "a small training has the same bits %s%s%s; in use: %s", d->w->size > 1 ? "on all ranks and " : "",
               sets > 1 ? "with each of " : "with ", names, kern_isa_name());
}
