#include "probe/ace.h"

#include "base/memory.h"
#include "probe/factor.h"

#include <assert.h>
#include <cblas.h>
#include <float.h>
#include <math.h>
#include <string.h>

/* Rows that go through the model at once. The sums below run over batches of this size in their order, so it is part of
 * what makes results repeat. */
#define BATCH_ROWS ((size_t)4096)

/* How far from orthonormal the directions that ace_consensus is given may be. */
#define CONSENSUS_TOLERANCE 1e-8

/* One layer of a model on the whole test set. */
struct view {
    struct model *m;
    const struct task *t;
    int layer, d, classes, positions;
    size_t sequences, samples;
    size_t at_once;            /* sequences of a batch */
    struct batch batch;
    int centered;              /* outputs are the logits minus their mean */
    double *rows, *sum;        /* [rows of a batch][d] */
    double *span;              /* [d][rank] of the present ablation */
};

static enum status view_open(struct model *m, const struct task *t, const struct spec *s, struct view *v)
{
    if (s->probe_ace.layer < 1 || s->probe_ace.layer > model_layers(m))
        return status_fail(STATUS_JOB, "probe.ace.layer is %lld, expected a block from 1 to %d",
                           (long long)s->probe_ace.layer, model_layers(m));
    const int d = model_layer_width(m, (int)s->probe_ace.layer);
    if (s->probe_ace.rank > d)
        return status_fail(STATUS_JOB, "probe.ace.rank is %lld, expected at most the width of the layer, %d, or 0 for a rank "
                           "by energy", (long long)s->probe_ace.rank, d);
    struct task_shape shape = task_shape(t);
    int *position = memory_new((size_t)shape.length, sizeof *position);
    *v = (struct view){m, t, .layer = (int)s->probe_ace.layer, .d = d, .classes = shape.classes,
                       .centered = s->probe_ace.outputs == ACE_CENTERED_LOGITS};
    v->positions = task_positions(t, position);
    memory_free(position);
    v->sequences = task_sequences(t, TASK_TEST);
    v->samples = v->sequences * (size_t)v->positions;
    v->at_once = (size_t)shape.length < BATCH_ROWS ? BATCH_ROWS / (size_t)shape.length : 1;
    v->batch = batch_new_of((int)v->at_once, shape);
    v->rows = memory_new(v->at_once * (size_t)v->positions * (size_t)v->d, sizeof *v->rows);
    v->sum = memory_new(v->at_once * (size_t)v->positions * (size_t)v->d, sizeof *v->sum);
    v->span = memory_new((size_t)v->d * (size_t)v->d, sizeof *v->span);
    return STATUS_OK;
}

static void view_close(struct view *v)
{
    batch_free(&v->batch);
    memory_free(v->rows);
    memory_free(v->sum);
    memory_free(v->span);
}

/* Makes the batch that starts at sequence *first and moves *first behind it; 0 at the end of the test set.
 * The batch's first row is *row. */
static int next_batch(struct view *v, size_t *first, size_t *row)
{
    if (*first >= v->sequences)
        return 0;
    size_t left = v->sequences - *first, count = left < v->at_once ? left : v->at_once;
    task_set_batch(v->t, TASK_TEST, *first, count, &v->batch);
    *row = *first * (size_t)v->positions;
    *first += count;
    return 1;
}

/* out: h [samples][d] */
static enum status collect(struct view *v, double *h)
{
    size_t first = 0, row = 0;
    while (next_batch(v, &first, &row)) {
        size_t rows = model_activations(v->m, &v->batch, v->layer, h + row * (size_t)v->d);
        assert(rows == (size_t)v->batch.sequences * (size_t)v->positions);
    }
    if (factor_is_finite(h, v->samples * (size_t)v->d))
        return STATUS_OK;
    return status_fail(STATUS_NUMERIC, "activations of block %d are not finite", v->layer);
}

/* Means as deviations from the first row: what never changes gets exactly its value, and no variance.
 * out: mean [d] (zeroed by the caller) */
static void column_means(size_t samples, int d, const double *h, double *mean)
{
    for (size_t i = 1; i < samples; i++)
        for (int j = 0; j < d; j++)
            mean[j] += h[i * (size_t)d + (size_t)j] - h[j];
    for (int j = 0; j < d && samples > 0; j++)
        mean[j] = h[j] + mean[j] / (double)samples;
}

/* Rows first .. first + count - 1 minus the mean, into v->rows. */
static void centred_rows(struct view *v, const double *h, const double *mean, size_t first, size_t count)
{
    size_t d = (size_t)v->d;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < d; j++)
            v->rows[i * d + j] = h[(first + i) * d + j] - mean[j];
}

/* gram += factor x'x, upper triangle.   in: x [rows][d] */
static void add_gram(int d, size_t rows, double factor, const double *x, double *gram)
{
    cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, d, (int)rows, factor, x, d, 1.0, gram, d);
}

/* The upper triangle of a sum over n, as a full symmetric matrix. */
static void finish_gram(int d, double n, double *sum)
{
    for (int i = 0; i < d; i++)
        for (int j = i; j < d; j++)
            sum[j * d + i] = sum[i * d + j] /= n;
}

/* out: cov [d][d] = Hc'Hc / (N - 1); zero for a single sample */
static void covariance(struct view *v, const double *h, const double *mean, double *cov)
{
    size_t step = v->at_once * (size_t)v->positions;
    for (size_t first = 0; first < v->samples; first += step) {
        size_t count = v->samples - first < step ? v->samples - first : step;
        centred_rows(v, h, mean, first, count);
        add_gram(v->d, count, 1.0, v->rows, cov);
    }
    finish_gram(v->d, v->samples > 1 ? (double)(v->samples - 1) : 1.0, cov);
}

/* Adds J'J of one batch. Centred outputs have gradients g_c - s / K, s the sum of all K, so J'J = sum g_c g_c' - s s' / K. */
static void add_batch_observability(struct view *v, double *obs)
{
    size_t rows = (size_t)v->batch.sequences * (size_t)v->positions, n = rows * (size_t)v->d;
    memset(v->sum, 0, n * sizeof *v->sum);
    for (int c = 0; c < v->classes; c++) {
        size_t filled = model_logit_gradient(v->m, &v->batch, v->layer, c, v->rows);
        assert(filled == rows);
        add_gram(v->d, rows, 1.0, v->rows, obs);
        for (size_t i = 0; v->centered && i < n; i++)
            v->sum[i] += v->rows[i];
    }
    if (v->centered)
        add_gram(v->d, rows, -1.0 / v->classes, v->sum, obs);
}

/* out: obs [d][d] = mean over samples of J'J, J = d outputs / d h */
static enum status observability(struct view *v, double *obs)
{
    size_t first = 0, row = 0;
    while (next_batch(v, &first, &row))
        add_batch_observability(v, obs);
    finish_gram(v->d, (double)v->samples, obs);
    if (factor_is_finite(obs, (size_t)v->d * (size_t)v->d))
        return STATUS_OK;
    return status_fail(STATUS_NUMERIC, "gradients of the logits at block %d are not finite", v->layer);
}

/* ---- ablations ---- */

/* Rows of the test set that the model gets right. threshold 0 counts them all; otherwise counting ends as soon as it is
 * sure whether there are `threshold` of them, and only that comparison of the result has a meaning. */
static size_t count_correct(struct view *v, const struct intervention *change, size_t threshold)
{
    size_t first = 0, row = 0, correct = 0, seen = 0;
    while (next_batch(v, &first, &row)) {
        struct model_result result = model_evaluate(v->m, &v->batch, change);
        correct += result.correct;
        seen += result.rows;
        if (threshold && (correct >= threshold || correct + (v->samples - seen) < threshold))
            break;
    }
    return correct;
}

/* The first `rank` of `cols` columns of basis [d][cols], side by side. */
static const double *leading_columns(struct view *v, const double *basis, int cols, int rank)
{
    for (int i = 0; i < v->d; i++)
        for (int j = 0; j < rank; j++)
            v->span[i * rank + j] = basis[i * cols + j];
    return v->span;
}

enum ablation { KEEP, REMOVE };

static size_t count_ablated(struct view *v, const double *basis, int cols, int rank, enum ablation how,
                            size_t threshold)
{
    struct intervention change = {v->layer, rank, how == REMOVE, leading_columns(v, basis, cols, rank), NULL};
    return count_correct(v, &change, threshold);
}

/* A share of the samples in whole rows. The millionth of a row undoes the rounding of shares like 0.001. */
static size_t rows_of(const struct view *v, double share)
{
    double rows = floor(share * (double)v->samples + 1e-6);
    return rows < (double)v->samples ? (size_t)rows : v->samples;
}

/* Smallest rank that alone keeps the accuracy. Accuracy need not grow with the rank, so ranks are tried in order. */
static int sufficient_dimension(struct view *v, const struct ace *a, size_t base, size_t kept, double tolerance)
{
    size_t may_lose = rows_of(v, tolerance), need = base > may_lose ? base - may_lose : 0;
    for (int r = 1; r <= v->d; r++)
        if ((r == a->rank ? kept : count_ablated(v, a->basis, v->d, r, KEEP, need)) >= need)
            return r;
    return -1;
}

/* Smallest rank from a->rank on without which the accuracy is at most 2 / classes. */
static int necessary_dimension(struct view *v, const struct ace *a, size_t removed)
{
    size_t above = rows_of(v, 2.0 / v->classes) + 1;
    for (int r = a->rank; r <= v->d; r++)
        if ((r == a->rank ? removed : count_ablated(v, a->basis, v->d, r, REMOVE, above)) < above)
            return r;
    return -1;
}

static void validate(struct view *v, const struct spec *s, struct ace *a)
{
    double n = (double)v->samples;
    size_t base = count_correct(v, NULL, 0);
    a->accuracy = (double)base / n;
    if (a->rank == 0)
        return;
    size_t kept = count_ablated(v, a->basis, v->d, a->rank, KEEP, 0);
    size_t removed = count_ablated(v, a->basis, v->d, a->rank, REMOVE, 0);
    a->accuracy_core_only = (double)kept / n;
    a->accuracy_core_removed = (double)removed / n;
    a->sufficient = sufficient_dimension(v, a, base, kept, s->probe_ace.tolerance);
    a->necessary = necessary_dimension(v, a, removed);
    a->core_dim = a->necessary > a->rank ? a->necessary : a->rank;
}

/* ---- identification ---- */

static enum status identify(struct view *v, struct ace *a, const double *z)
{
    size_t r = (size_t)a->rank;
    a->operator_matrix = memory_new(r * r, sizeof *a->operator_matrix);
    a->eigenvalue = memory_new(r, sizeof *a->eigenvalue);
    a->eigenvalue_error = memory_new(r, sizeof *a->eigenvalue_error);
    enum status s = ace_operator(v->sequences, v->positions, a->rank, z, a->operator_matrix, a->eigenvalue, &a->r2);
    if (s != STATUS_OK)
        return s;
    struct task_truth truth = task_truth(v->t);
    ace_match(a->rank, (const double(*)[2])a->eigenvalue, truth.eigenvalues, (const double(*)[2])truth.eigenvalue,
              a->eigenvalue_error);
    a->operator_rank = a->rank;
    if (truth.operator_r2 > 0)
        a->r2_oracle_ratio = a->r2 / truth.operator_r2;
    return s;
}

/* Neighbouring rows are neighbours in time only where the loss looks at every position. */
static int has_operator(const struct view *v, const struct spec *s)
{
    return s->probe_ace.operator && v->positions == v->batch.length && v->positions > 1;
}

/* ---- the whole ---- */

static enum status extract(struct view *v, const double *h, const struct spec *s, struct ace *a)
{
    size_t d = (size_t)v->d;
    double *cov = memory_new(2 * d * d, sizeof *cov), *obs = cov + d * d;
    column_means(v->samples, v->d, h, a->mean);
    covariance(v, h, a->mean, cov);
    enum status status = observability(v, obs);
    if (status == STATUS_OK)
        status = ace_core(v->d, cov, obs, a->weight, a->basis);
    memory_free(cov);
    if (status != STATUS_OK)
        return status;
    a->rank = ace_rank(v->d, a->weight, s->probe_ace.energy);
    if (a->rank > 0 && s->probe_ace.rank > 0)
        a->rank = (int)s->probe_ace.rank;
    validate(v, s, a);
    return STATUS_OK;
}

/* Coordinates and what is read from them; keeps what the job stores. *h is taken over when it is kept. */
static enum status describe(struct view *v, double **h, const struct spec *s, struct ace *a)
{
    enum status status = STATUS_OK;
    if (a->rank > 0) {
        double *z = memory_new(v->samples * (size_t)a->rank, sizeof *z);
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)v->samples, a->rank, v->d, 1.0, *h, v->d,
                    leading_columns(v, a->basis, v->d, a->rank), a->rank, 0.0, z, a->rank);
        if (has_operator(v, s))
            status = identify(v, a, z);
        if (s->probe_ace.store == STORE_NONE)
            memory_free(z);
        else
            a->coordinates = z;
    }
    if (s->probe_ace.store == STORE_ACTIVATIONS) {
        a->activations = *h;
        *h = NULL;
    }
    return status;
}

enum status ace_extract(struct model *m, const struct task *t, const struct spec *s, struct ace *a)
{
    struct view v;
    *a = (struct ace){.sufficient = -1, .necessary = -1};
    a->accuracy = a->accuracy_core_only = a->accuracy_core_removed = a->r2 = a->r2_oracle_ratio = (double)NAN;
    enum status status = view_open(m, t, s, &v);
    if (status != STATUS_OK)
        return status;
    size_t d = (size_t)v.d;
    a->d = v.d;
    a->samples = v.samples;
    a->weight = memory_new(d, sizeof *a->weight);
    a->basis = memory_new(d * d, sizeof *a->basis);
    a->mean = memory_new(d, sizeof *a->mean);
    double *h = memory_new(v.samples * d, sizeof *h);
    status = collect(&v, h);
    if (status == STATUS_OK)
        status = extract(&v, h, s, a);
    if (status == STATUS_OK)
        status = describe(&v, &h, s, a);
    memory_free(h);
    view_close(&v);
    if (status != STATUS_OK)
        ace_clear(a);
    return status;
}

void ace_clear(struct ace *a)
{
    memory_free(a->weight);
    memory_free(a->basis);
    memory_free(a->mean);
    memory_free(a->coordinates);
    memory_free(a->activations);
    memory_free(a->operator_matrix);
    memory_free(a->eigenvalue);
    memory_free(a->eigenvalue_error);
    *a = (struct ace){0};
}

/* ---- consensus ---- */

static enum status check_consensus(const struct view *v, const double *g, size_t samples, int dim)
{
    if (samples != v->samples || dim < 1)
        return status_fail(STATUS_JOB, "the consensus has %zu samples and %d directions, expected %zu samples as in "
                           "the test set and at least one direction", samples, dim, v->samples);
    if (!factor_is_finite(g, samples * (size_t)dim))
        return status_fail(STATUS_NUMERIC, "the consensus is not finite");
    double *gram = memory_new((size_t)dim * (size_t)dim, sizeof *gram);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, dim, dim, (int)samples, 1.0, g, dim, g, dim, 0.0, gram, dim);
    for (int i = 0; i < dim; i++)
        gram[i * (dim + 1)] -= 1;
    double off = cblas_dnrm2(dim * dim, gram, 1);
    memory_free(gram);
    if (off <= CONSENSUS_TOLERANCE)
        return STATUS_OK;
    return status_fail(STATUS_NUMERIC, "directions of the consensus are orthonormal to %g, expected %g", off,
                       CONSENSUS_TOLERANCE);
}

/* W' = Hc'G, the layer's share in each direction of the consensus.   out: wt [d][dim] */
static void project(struct view *v, const double *h, const double *g, int dim, double *wt)
{
    size_t step = v->at_once * (size_t)v->positions;
    double *mean = memory_new((size_t)v->d, sizeof *mean);
    column_means(v->samples, v->d, h, mean);
    for (size_t first = 0; first < v->samples; first += step) {
        size_t count = v->samples - first < step ? v->samples - first : step;
        centred_rows(v, h, mean, first, count);
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, v->d, dim, (int)count, 1.0, v->rows, v->d,
                    g + first * (size_t)dim, dim, 1.0, wt, dim);
    }
    memory_free(mean);
}

/* Orthonormal basis of the columns of wt [d][dim].   out: basis [d][min(d, dim)]; *rank columns of it span them */
static enum status column_space(int d, int dim, const double *wt, double *basis, int *rank)
{
    int k = d < dim ? d : dim;
    double *sv = memory_new((size_t)k + (size_t)k * (size_t)dim, sizeof *sv);
    enum status s = factor_svd(d, dim, wt, basis, sv, sv + k);
    double cut = (d > dim ? d : dim) * DBL_EPSILON * sv[0];
    *rank = 0;
    while (*rank < k && sv[*rank] > cut)
        ++*rank;
    memory_free(sv);
    return s;
}

enum status ace_consensus(struct model *m, const struct task *t, const struct spec *s, const double *consensus,
                          size_t samples, int dim, double *keep, double *removed)
{
    struct view v;
    enum status status = view_open(m, t, s, &v);
    if (status != STATUS_OK)
        return status;
    double *h = NULL, *wt = NULL;
    status = check_consensus(&v, consensus, samples, dim);
    if (status != STATUS_OK)
        goto out;
    h = memory_new(v.samples * (size_t)v.d, sizeof *h);
    wt = memory_new(2 * (size_t)v.d * (size_t)dim, sizeof *wt);
    status = collect(&v, h);
    if (status != STATUS_OK)
        goto out;
    int rank, cols = dim < v.d ? dim : v.d;
    double *basis = wt + (size_t)v.d * (size_t)dim;
    project(&v, h, consensus, dim, wt);
    status = column_space(v.d, dim, wt, basis, &rank);
    if (status != STATUS_OK)
        goto out;
    *keep = *removed = (double)NAN;
    if (rank > 0) {
        *keep = (double)count_ablated(&v, basis, cols, rank, KEEP, 0) / (double)v.samples;
        *removed = (double)count_ablated(&v, basis, cols, rank, REMOVE, 0) / (double)v.samples;
    }
out:
    memory_free(h);
    memory_free(wt);
    view_close(&v);
    return status;
}
