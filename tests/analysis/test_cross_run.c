// ranks: 1 2 3 7
/* cross_run.nc of synthetic runs: the same bits on 1..size ranks, what is left out and why, and one rank that fails.
 *
 * "test_cross_run write DIR" makes a store in DIR, gathers it on this process, and puts the inputs beside it as raw
 * arrays, for an independent computation (test_cross_run.py).
 */
#include "synthetic_runs.h"

#include "analysis/cross_run.h"
#include "analysis/ensemble.h"
#include "analysis/exchange.h"
#include "base/text.h"
#include "mpi/agree.h"
#include "store/ncfile.h"

enum { NULLS = 8 };

static char *folder(const char *name, int number)
{
    const char *base = getenv("TMPDIR");
    return memory_format("%s/%s%d", base ? base : "/tmp", name, number);
}

struct hook {
    size_t failing;              /* run at which the hook fails; SYNTHETIC_RUNS = none */
    size_t unfit;                /* run that has a numeric problem of its own */
    FILE *out;                   /* takes the directions, once */
};

/* "Accuracies" that depend on every bit of the directions. */
static enum status ablate(void *context, const struct job *job, size_t run, const struct record *r,
                          const double *consensus, size_t samples, int dim, double *keep, double *removed)
{
    struct hook *h = context;
    char id[HASH_TEXT];
    job_id_of(job, run, id);
    CHECK_TEXT(r->id, id);
    CHECK_INT(samples, SYNTHETIC_SAMPLES);
    CHECK_INT(dim, 2);
    if (run == h->failing)
        return status_fail(STATUS_IO, "the disk is on fire");
    if (run == h->unfit)
        return status_fail(STATUS_NUMERIC, "activations are not finite");
    *keep = *removed = 0.0;
    for (size_t i = 0; i < samples; i++) {
        *keep += consensus[i * (size_t)dim] * cos((double)(i + run));
        *removed += consensus[i * (size_t)dim + 1] * cos((double)(i + run));
    }
    if (h->out && fwrite(consensus, sizeof *consensus, samples * (size_t)dim, h->out) == samples * (size_t)dim) {
        fclose(h->out);
        h->out = NULL;
    }
    return STATUS_OK;
}

/* Gathers the folder on comm, which must be done by all its ranks. */
static enum status gather_on(MPI_Comm comm, const char *dir, const struct job *job, struct hook *h)
{
    struct gather_hooks hooks = {h, ablate};
    struct store *store = NULL;
    if (mpi_rank(comm) == 0)
        CHECK_OK(store_open(dir, job, &store));
    MPI_Barrier(comm);
    if (mpi_rank(comm) != 0)
        CHECK_OK(store_join(dir, job, &store));
    enum status s = cross_run_write(comm, store, job, &hooks);
    MPI_Barrier(comm);
    store_close(store);
    return s;
}

static struct ncfile *opened(const char *dir)
{
    struct ncfile *f = NULL;
    char *path = memory_format("%s/cross_run.nc", dir);
    CHECK_OK(ncfile_open(path, &f));
    memory_free(path);
    return f;
}

static void compare(const char *one, const char *other)
{
    struct ncfile *a = opened(one), *b = opened(other);
    if (!a || !b)
        return;
    CHECK_INT(ncfile_variables(a), ncfile_variables(b));
    for (int v = 0; v < ncfile_variables(a); v++) {
        const char *name = ncfile_variable_name(a, v);
        size_t n = 0, m = 0;
        if (strstr(name, "job") == name && ncfile_rank(a, name) == 1 && strcmp(name, "job_run"))
            continue;                            /* the job's text */
        double *x = ncfile_get(a, name, &n), *y = ncfile_get(b, name, &m);
        CHECK(x && y && n == m);
        if (x && y && n == m && memcmp(x, y, n * sizeof *x))
            CHECK_FAIL("%s differs between %s and %s", name, one, other);
        memory_free(x);
        memory_free(y);
    }
    CHECK_OK(ncfile_close(a));
    CHECK_OK(ncfile_close(b));
}

static void same_bits(const char *grid, int least)
{
    int size = mpi_size(MPI_COMM_WORLD);
    struct job *job = synthetic_job(NULLS, grid);
    for (int n = least; n <= size; n++) {
        if (n > 3 && n < size)
            continue;
        char *dir = folder(least == 1 ? "plain" : "grid", n);
        MPI_Comm comm = mpi_first(n);
        if (mpi_rank(MPI_COMM_WORLD) == 0)
            synthetic_store(dir, job);
        exchange_cap(n == 3 ? 1000 : (size_t)1 << 30);
        struct hook h = {SYNTHETIC_RUNS, 6, NULL};
        if (comm != MPI_COMM_NULL) {
            MPI_Barrier(comm);
            CHECK_OK(gather_on(comm, dir, job, &h));
            MPI_Comm_free(&comm);
        }
        if (mpi_rank(MPI_COMM_WORLD) == 0 && n > least) {
            char *first = folder(least == 1 ? "plain" : "grid", least);
            compare(first, dir);
            memory_free(first);
        }
        memory_free(dir);
    }
    job_free(job);
}

static double at(struct ncfile *f, const char *name, size_t i)
{
    size_t n = 0;
    double *x = ncfile_get(f, name, &n), value = x && i < n ? x[i] : NAN;
    memory_free(x);
    return value;
}

/* Included are the runs 0, 1, 2, 4 and 6. */
static void contents(void)
{
    char *dir = folder("plain", 1);
    struct ncfile *f = opened(dir);
    static const int why[SYNTHETIC_RUNS] = {[3] = EXCLUDED_NOT_FINITE, [5] = EXCLUDED_DIVERGED, [7] = EXCLUDED_MISSING,
                                            [8] = EXCLUDED_NO_VARIANCE};       /* the others EXCLUDED_NONE */
    static const int run[] = {0, 1, 2, 4, 6}, rank[] = {3, 3, 3, 2, 3};
    for (size_t r = 0; r < SYNTHETIC_RUNS; r++)
        CHECK_INT(at(f, "excluded", r), why[r]);
    CHECK_INT(ncfile_length(f, "run"), 5);
    CHECK_INT(ncfile_length(f, "component"), 4);
    for (size_t k = 0; k < 5; k++) {
        CHECK_INT(at(f, "run", k), run[k]);
        CHECK_INT(at(f, "effective_rank", k), rank[k]);
        for (size_t c = 0; c < 4; c++) {         /* a run with itself, and nothing beyond its rank */
            double x = at(f, "canonical_correlation", (k * 5 + k) * 4 + c);
            if ((int)c < rank[k])
                CHECK_NEAR(x, 1.0, 1e-12);
            else
                CHECK(isnan(x));
        }
    }
    CHECK(isnan(at(f, "weight_cosine", 3)) && isnan(at(f, "projector_overlap", 3)));      /* runs 0 and 4 */
    CHECK(isfinite(at(f, "weight_cosine", 4)) && isfinite(at(f, "projector_overlap", 4)));
    CHECK_INT(at(f, "samples", 0), SYNTHETIC_SAMPLES);
    CHECK_INT(at(f, "samples_held_out", 0), SYNTHETIC_SAMPLES / 2);
    for (size_t i = 0; i < SYNTHETIC_SAMPLES; i++)
        CHECK_INT(at(f, "held_out", i), at(f, "held_out", i / 10 * 10));                   /* whole sequences */
    CHECK(isfinite(at(f, "accuracy_consensus_only", 3)));
    CHECK(isnan(at(f, "accuracy_consensus_only", 4)));                                     /* run 6 had no ablation */
    CHECK_INT(at(f, "consensus_dim", 0), 2);
    CHECK_OK(ncfile_close(f));
    memory_free(dir);
}

/* One rank cannot ablate: all say so, and an older result is neither lost nor replaced by half a one. */
static void one_rank_fails(void)
{
    struct job *job = synthetic_job(NULLS, "");
    char *dir = folder("plain", 1), *path = memory_format("%s/cross_run.nc", dir);
    struct hook h = {1, SYNTHETIC_RUNS, NULL};
    size_t before = 0, after = 0;
    char *old = text_read_file(path, &before);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_INT(gather_on(MPI_COMM_WORLD, dir, job, &h), STATUS_IO);
    CHECK_HAS(status_text(), "consensus ablation of run 1: the disk is on fire");
    char *new = text_read_file(path, &after);
    CHECK(old && new && before == after && !memcmp(old, new, before));
    memory_free(old), memory_free(new);
    memory_free(path);
    memory_free(dir);
    job_free(job);
}

static void grid_too_large(void)
{
    char grid[50], *dir = folder("plain", 1);
    snprintf(grid, sizeof grid, "grid: [%d, 2]", mpi_size(MPI_COMM_WORLD));
    struct job *job = synthetic_job(NULLS, grid);
    struct hook h = {SYNTHETIC_RUNS, SYNTHETIC_RUNS, NULL};
    CHECK_INT(gather_on(MPI_COMM_WORLD, dir, job, &h), STATUS_USAGE);
    CHECK_HAS(status_text(), "mpirun -n");
    job_free(job);
    memory_free(dir);
}

/* ---- for the independent computation ---- */

static void put(const char *dir, const char *name, int number, const void *bytes, size_t n)
{
    char *path = memory_format("%s/%s%d.bin", dir, name, number);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(bytes, 1, n, f) == n);
    if (f)
        fclose(f);
    memory_free(path);
}

static void write_all(const char *dir)
{
    struct job *job = synthetic_job(40, "");
    char *path = memory_format("%s/consensus.bin", dir);
    synthetic_store(dir, job);
    struct hook h = {SYNTHETIC_RUNS, SYNTHETIC_RUNS, fopen(path, "wb")};
    CHECK_OK(gather_on(MPI_COMM_SELF, dir, job, &h));
    for (int run = 0; run < SYNTHETIC_RUNS; run++) {
        struct record r = synthetic_record(job, run);
        size_t columns = (size_t)synthetic_runs[run].columns, width = (size_t)synthetic_runs[run].width;
        if (r.probes) {
            put(dir, "coordinates", run, r.probe->coordinates, SYNTHETIC_SAMPLES * columns * sizeof(double));
            put(dir, "basis", run, r.probe->basis, width * columns * sizeof(double));
            put(dir, "weights", run, r.weights, SYNTHETIC_PARAMETERS * sizeof(float));
        }
        record_clear(&r);
    }
    for (int t = 0; t < job->spec.gather_cca.permutations; t++) {
        uint32_t permutation[SYNTHETIC_SAMPLES];
        struct stream s = stream_open((uint64_t)job->spec.gather.seed, PURPOSE_PERMUTATION, (uint32_t)t);
        stream_permutation(&s, permutation, SYNTHETIC_SAMPLES);
        put(dir, "permutation", t, permutation, sizeof permutation);
    }
    memory_free(path);
    job_free(job);
}

int main(int argc, char **argv)
{
    mpi_start(&argc, &argv);
    if (argc == 3 && !strcmp(argv[1], "write")) {
        write_all(argv[2]);
        return mpi_report("cross_run_written");
    }
    same_bits("", 1);
    if (mpi_size(MPI_COMM_WORLD) > 1)
        same_bits("grid: [2, 1]", 2);
    if (mpi_rank(MPI_COMM_WORLD) == 0)
        contents();
    one_rank_fails();
    grid_too_large();
    CHECK_INT(memory_balance(), 0);
    return mpi_report("cross_run");
}
