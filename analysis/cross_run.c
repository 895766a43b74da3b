#include "analysis/cross_run.h"

#include "analysis/consensus.h"
#include "analysis/ensemble.h"
#include "analysis/exchange.h"
#include "analysis/pairs.h"
#include "analysis/panel.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stream.h"
#include "mpi/agree.h"
#include "store/ncfile.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

struct cross {
    struct ensemble e;
    struct grid grid;            /* all ranks in one column */
    struct panel panel;
    struct pairs pairs;
    int64_t held_out;            /* number of held-out inputs; 0 = none */
    signed char *is_held_out;    /* [samples] */
    int dim;                     /* directions of the consensus that are ablated: the smallest effective rank */
    double *spectrum;            /* [panel.columns] sigma^2 / K */
    double *keep, *removed;      /* [runs] */
};

static void clear(struct cross *x)
{
    memory_free(x->removed);
    memory_free(x->keep);
    memory_free(x->spectrum);
    memory_free(x->is_held_out);
    pairs_clear(&x->pairs);
    panel_clear(&x->panel);
    ensemble_clear(&x->e);
}

/* ---- held-out inputs ---- */

/* Rows of one sequence depend on each other, so that whole sequences are held out: blocks of as many rows as a test
 * sequence has, if the rows can be cut so, else single rows. The blocks are drawn from (gather.seed, PURPOSE_SPLIT,
 * 0). */
static void split(struct cross *x, const struct job *job)
{
    int64_t n = x->e.samples, sequences = job->spec.task.test_sequences;
    int64_t blocks = sequences >= 2 && n % sequences == 0 ? sequences : n;
    int64_t out = llround(job->spec.gather_cca.heldout * (double)blocks);
    x->is_held_out = memory_new((size_t)n, 1);
    if (out == 0 || out == blocks || n >= INT_MAX)
        return;
    uint32_t *block = memory_new((size_t)blocks, sizeof *block);
    struct stream s = stream_open((uint64_t)job->spec.gather.seed, PURPOSE_SPLIT, 0);
    stream_permutation(&s, block, (uint32_t)blocks);
    for (int64_t b = 0; b < out; b++)
        memset(x->is_held_out + block[b] * (n / blocks), 1, (size_t)(n / blocks));
    x->held_out = out * (n / blocks);
    memory_free(block);
}

static enum status hold_out(struct cross *x, const struct job *job)
{
    split(x, job);
    if (x->held_out == 0)
        return STATUS_OK;
    int64_t n = x->e.samples, fits = 0, tests = 0;
    uint32_t *row = memory_new((size_t)n, sizeof *row), *test = row + (n - x->held_out);
    for (int64_t i = 0; i < n; i++)
        *(x->is_held_out[i] ? &test[tests++] : &row[fits++]) = (uint32_t)i;
    enum status s = pairs_hold_out(&x->e, &x->grid, job->spec.gather_cca.rank_tolerance, fits, row, tests, test,
                                   &x->pairs);
    memory_free(row);
    return s;
}

/* ---- consensus ---- */

/* Keep and remove ablations of this rank's runs.   local */
static enum status ablate(struct cross *x, struct store *store, const struct job *job, const struct gather_hooks *hooks,
                          const double *direction)
{
    for (int k = 0; k < x->e.runs; k++) {
        const struct member *m = &x->e.member[k];
        if (m->owner != x->e.rank)
            continue;
        struct record r = {0};
        enum status s = store_read_run(store, job, m->run, &r);
        if (s == STATUS_OK)
            s = hooks->ablate(hooks->context, job, m->run, &r, direction, (size_t)x->e.samples, x->dim, &x->keep[k],
                              &x->removed[k]);
        record_clear(&r);
        if (s == STATUS_NUMERIC) {               /* of this run alone: no value, and the others go on */
            log_line(LOG_WARNING, "run %zu: no consensus ablation: %s", m->run, status_text());
            x->keep[k] = x->removed[k] = NAN;
        } else if (s != STATUS_OK) {
            return status_context(s, "consensus ablation of run %zu", m->run);
        }
    }
    return STATUS_OK;
}

static enum status ablate_all(struct cross *x, struct store *store, const struct job *job,
                              const struct gather_hooks *hooks, const double *value, const double *vector)
{
    size_t bytes = (size_t)x->e.runs * sizeof(double);
    if (!hooks || !hooks->ablate) {
        for (int k = 0; k < x->e.runs; k++)
            x->keep[k] = x->removed[k] = NAN;
        return STATUS_OK;
    }
    double *direction = memory_new((size_t)x->e.samples * (size_t)x->dim, sizeof *direction);
    enum status s = consensus_directions(&x->panel.u, x->dim, value, vector, direction);
    if (s == STATUS_OK)
        s = agree(x->e.comm, ablate(x, store, job, hooks, direction));
    if (s == STATUS_OK) {
        exchange_share(x->e.comm, x->keep, bytes);
        exchange_share(x->e.comm, x->removed, bytes);
    }
    memory_free(direction);
    return s;
}

static enum status find_consensus(struct cross *x, struct store *store, const struct job *job,
                                  const struct gather_hooks *hooks)
{
    const int64_t *shape = job->spec.gather.grid.value;
    int columns = x->panel.columns, grid[2] = {(int)shape[0], (int)shape[1]}, block = (int)job->spec.gather.block;
    x->dim = columns;
    for (int k = 0; k < x->e.runs; k++)
        if (x->panel.basis[k].rank < x->dim)
            x->dim = x->panel.basis[k].rank;
    x->spectrum = memory_new((size_t)columns, sizeof *x->spectrum);
    x->keep = memory_new((size_t)x->e.runs, sizeof *x->keep);
    x->removed = memory_new((size_t)x->e.runs, sizeof *x->removed);
    double *value = memory_new((size_t)columns, sizeof *value);
    double *vector = memory_new((size_t)columns * (size_t)x->dim, sizeof *vector);
    enum status s = consensus_spectrum(x->e.comm, grid, block, columns, x->panel.gram, x->dim, value, vector);
    for (int c = 0; c < columns; c++)
        x->spectrum[c] = value[c] / x->e.runs;
    if (s == STATUS_OK)
        s = ablate_all(x, store, job, hooks, value, vector);
    memory_free(vector);
    memory_free(value);
    return s;
}

/* ---- the file ---- */

static void put_dimensions(struct ncfile *f, const struct cross *x)
{
    ncfile_dimension(f, "run", (size_t)x->e.runs);
    ncfile_dimension(f, "run_other", (size_t)x->e.runs);
    ncfile_dimension(f, "component", (size_t)x->pairs.components);
    ncfile_dimension(f, "direction", (size_t)x->panel.columns);
    ncfile_dimension(f, "job_run", x->e.job_runs);
    if (x->held_out)
        ncfile_dimension(f, "sample", (size_t)x->e.samples);
}

static void put_counting(struct ncfile *f, const char *name, const char *long_name, size_t n)
{
    int64_t *value = memory_new(n, sizeof *value);
    for (size_t i = 0; i < n; i++)
        value[i] = (int64_t)i;
    ncfile_variable(f, name, NCFILE_INT, name, "1", long_name);
    ncfile_put_int(f, name, value);
    memory_free(value);
}

static void put_coordinates(struct ncfile *f, const struct cross *x)
{
    size_t n = (size_t)x->e.runs;
    int64_t *run = memory_new(2 * n, sizeof *run), *seed = run + n;
    for (size_t k = 0; k < n; k++) {
        run[k] = (int64_t)x->e.member[k].run;
        seed[k] = (int64_t)x->e.member[k].seed;
    }
    ncfile_variable(f, "run", NCFILE_INT64, "run", "1", "number of the run in the job");
    ncfile_variable(f, "run_other", NCFILE_INT64, "run_other", "1", "number of the other run in the job");
    ncfile_put_int(f, "run", run);
    ncfile_put_int(f, "run_other", run);
    put_counting(f, "component", "number of the component, strongest first", (size_t)x->pairs.components);
    put_counting(f, "direction", "number of the consensus direction, strongest first", (size_t)x->panel.columns);
    put_counting(f, "job_run", "number of the run in the job, for all runs", x->e.job_runs);
    if (x->held_out)
        put_counting(f, "sample", "number of the probe input", (size_t)x->e.samples);
    ncfile_variable(f, "seed", NCFILE_INT64, "run", "1", "seed of the run");
    ncfile_put_int(f, "seed", seed);
    memory_free(run);
}

static const struct cross_run_variable table[] = {
#define VARIABLE(name, type, dims, long_name, comment) {#name, type, dims, long_name, comment},
    CROSS_RUN_TABLE(VARIABLE)
#undef VARIABLE
};
enum { COUNT = sizeof table / sizeof table[0] };

const struct cross_run_variable *cross_run_variable(int i) { return i >= 0 && i < COUNT ? &table[i] : NULL; }

static void define_all(struct ncfile *f)
{
    for (int i = 0; i < COUNT; i++) {
        const struct cross_run_variable *v = &table[i];
        ncfile_variable(f, v->name, v->type, v->dims, "1", v->long_name);
        if (*v->comment)
            ncfile_attribute(f, v->name, "comment", v->comment);
        if (!strcmp(v->dims, "run"))
            ncfile_coordinates(f, v->name, "seed");
    }
}

static void put_pairs(struct ncfile *f, const struct pairs *p)
{
    for (int v = 0; v < PAIRS_COUNT; v++) {
        const struct pairs_field *d = &pairs_field[v];
        int is_flag = v == PAIRS_saturated;
        ncfile_variable(f, d->name, is_flag ? NCFILE_BYTE : NCFILE_DOUBLE,
                        d->per_component ? "run run_other component" : "run run_other", d->unit, d->long_name);
        ncfile_attribute(f, d->name, "comment", d->comment);
        ncfile_coordinates(f, d->name, "seed");
        if (is_flag)
            ncfile_flags(f, d->name, 2, (const char *const[]){"no", "yes"});
        ncfile_put(f, d->name, p->value[v]);
    }
}

static void put_consensus(struct ncfile *f, const struct cross *x)
{
    double *leading = memory_new((size_t)x->pairs.components, sizeof *leading);
    for (int c = 0; c < x->pairs.components; c++)
        leading[c] = c < x->panel.columns ? x->spectrum[c] : NAN;
    ncfile_put(f, "consensus_strength", leading);
    memory_free(leading);
    ncfile_put(f, "consensus_spectrum", x->spectrum);
    ncfile_put(f, "accuracy_consensus_only", x->keep);
    ncfile_put(f, "accuracy_consensus_removed", x->removed);
    ncfile_put_int(f, "consensus_dim", &(int64_t){x->dim});
}

static void put_ranks(struct ncfile *f, const struct cross *x)
{
    int64_t *rank = memory_new((size_t)x->e.runs, sizeof *rank);
    for (int k = 0; k < x->e.runs; k++)
        rank[k] = x->panel.basis[k].rank;
    ncfile_put_int(f, "effective_rank", rank);
    memory_free(rank);
}

static void put_excluded(struct ncfile *f, const struct cross *x)
{
    const char *word[EXCLUSION_COUNT];
    int64_t *why = memory_new(x->e.job_runs, sizeof *why);
    for (int i = 0; i < EXCLUSION_COUNT; i++)
        word[i] = ensemble_word((enum exclusion)i);
    for (size_t r = 0; r < x->e.job_runs; r++)
        why[r] = x->e.exclusion[r];
    ncfile_variable(f, "excluded", NCFILE_BYTE, "job_run", "1", "why a run of the job is not compared");
    ncfile_flags(f, "excluded", EXCLUSION_COUNT, word);
    ncfile_put_int(f, "excluded", why);
    memory_free(why);
}

static void put_held_out(struct ncfile *f, const struct cross *x)
{
    if (!x->held_out)
        return;
    ncfile_variable(f, "held_out", NCFILE_BYTE, "sample", "1", "whether a probe input was held out");
    ncfile_attribute(f, "held_out", "comment", "whole sequences where the probe inputs are whole sequences");
    ncfile_flags(f, "held_out", 2, (const char *const[]){"no", "yes"});
    ncfile_put_raw(f, "held_out", x->is_held_out);
}

static enum status write_file(const struct cross *x, struct store *store, const struct job *job)
{
    char *temporary = store_temporary(store, "cross_run.nc"), *text = job_print(job);
    struct ncfile *f;
    enum status s = ncfile_create(temporary, "cross-run comparison of algorithmic cores", &f);
    if (s == STATUS_OK) {
        put_dimensions(f, x);
        put_coordinates(f, x);
        define_all(f);
        ncfile_put_int(f, "samples", &(int64_t){x->e.samples});
        ncfile_put_int(f, "samples_held_out", &(int64_t){x->held_out});
        ncfile_put_int(f, "null_permutations", &job->spec.gather_cca.permutations);
        put_ranks(f, x);
        put_pairs(f, &x->pairs);
        put_consensus(f, x);
        put_held_out(f, x);
        put_excluded(f, x);
        ncfile_text(f, "job", "effective job", text);
        s = ncfile_close(f);
    }
    if (s == STATUS_OK)
        s = store_publish(store, temporary, "cross_run.nc");
    memory_free(text);
    memory_free(temporary);
    return s;
}

/* ---- all of it ---- */

static enum status compare(struct cross *x, struct store *store, const struct job *job,
                           const struct gather_hooks *hooks)
{
    uint64_t seed = (uint64_t)job->spec.gather.seed;
    int permutations = (int)job->spec.gather_cca.permutations;
    enum status s = panel_new(&x->e, &x->grid, x->e.samples, NULL, job->spec.gather_cca.rank_tolerance, &x->panel);
    if (s != STATUS_OK)
        return s;
    pairs_new(&x->e, &x->pairs);
    if ((s = pairs_correlate(&x->e, &x->panel, &x->pairs)) != STATUS_OK)
        return s;
    if ((s = pairs_compare_spaces(&x->e, &x->pairs)) != STATUS_OK)
        return s;
    if ((s = pairs_compare_weights(&x->e, &x->grid, &x->pairs)) != STATUS_OK)
        return s;
    if ((s = hold_out(x, job)) != STATUS_OK)
        return s;
    if ((s = find_consensus(x, store, job, hooks)) != STATUS_OK)
        return s;
    return permutations ? pairs_permute(&x->e, &x->panel, seed, permutations, &x->pairs) : STATUS_OK;
}

/* An older file would be taken for the result of this gather. */
static enum status remove_old(struct store *store)
{
    char *path = memory_format("%s/cross_run.nc", store_dir(store));
    enum status s = STATUS_OK;
    if (unlink(path) != 0 && errno != ENOENT)
        s = status_fail(STATUS_IO, "%s: cannot be removed: %s", path, strerror(errno));
    memory_free(path);
    return s;
}

/* The grid is wanted late; a wrong one is said before the work.   collective */
static enum status check_grid(MPI_Comm comm, const struct job *job)
{
    const struct key_list *shape = &job->spec.gather.grid;
    if (shape->count != 2)
        return status_fail(STATUS_USAGE, "gather.grid has %d number%s: give rows and columns, [1, 1] on one rank",
                           shape->count, shape->count == 1 ? "" : "s");
    struct grid g;
    enum status s = grid_open(comm, (int)shape->value[0], (int)shape->value[1], &g);
    if (s == STATUS_OK)
        grid_close(&g);
    return s;
}

enum status cross_run_write(MPI_Comm comm, struct store *store, const struct job *job, const struct gather_hooks *hooks)
{
    struct cross x = {0};
    enum status s = check_grid(comm, job);
    if (s == STATUS_OK)
        s = ensemble_read(comm, store, job, &x.e);
    if (s != STATUS_OK)
        return s;
    int root = x.e.rank == 0;
    if (root)
        ensemble_log(&x.e);
    if (x.e.runs < 2) {
        if (root)
            log_line(LOG_INFO, "no cross-run comparison: %d run%s of %zu can be compared, two are needed", x.e.runs,
                     x.e.runs == 1 ? "" : "s", x.e.job_runs);
        s = agree_root(comm, 0, root ? remove_old(store) : STATUS_OK);
        clear(&x);
        return s;
    }
    s = grid_open(comm, x.e.size, 1, &x.grid);
    if (s == STATUS_OK) {
        s = compare(&x, store, job, hooks);
        grid_close(&x.grid);
    }
    if (s == STATUS_OK)
        s = agree_root(comm, 0, root ? write_file(&x, store, job) : STATUS_OK);
    clear(&x);
    return s;
}
