#include "analysis/phase_winner.h"

#include "analysis/runs_manifold.h"
#include "base/memory.h"
#include "job/manifold.h"
#include "job/refine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Winners of all points. */
struct votes {
    int kinds;                   /* circuits, and none */
    double *count;               /* [points][kinds] */
};

static int most_layers(const struct job *job)
{
    int64_t layers = job->spec.model.layers;
    for (int a = 0; a < job->axes; a++)
        for (int i = 0; i < job->axis[a].count && job->axis[a].key == key_find("model.layers"); i++)
            layers = (int64_t)job->axis[a].value[i] > layers ? (int64_t)job->axis[a].value[i] : layers;
    return (int)layers;
}

static struct votes count_votes(const struct grid *g, struct ncfile *runs)
{
    struct votes v = {.kinds = manifold_circuits(most_layers(g->job)) + 1};
    double *winner = ncfile_has(runs, "winner") ? ncfile_get(runs, "winner", NULL) : NULL;
    v.count = memory_new(g->points * (size_t)v.kinds, sizeof *v.count);
    for (size_t r = 0; winner && r < g->rows; r++)
        if (winner[r] >= 0 && winner[r] < v.kinds)
            v.count[g->point[r] * (size_t)v.kinds + (size_t)winner[r]]++;
    memory_free(winner);
    return v;
}

static double most(const struct votes *v, size_t p)
{
    double best = NAN, often = 0.0;
    for (int k = 0; k < v->kinds; k++)
        if (v->count[p * (size_t)v->kinds + (size_t)k] > often) {
            often = v->count[p * (size_t)v->kinds + (size_t)k];
            best = k;
        }
    return best;
}

void phase_winner_labels(const struct grid *g, struct ncfile *runs, double *label)
{
    struct votes v = count_votes(g, runs);
    for (size_t p = 0; p < g->points; p++)
        label[p] = most(&v, p);
    memory_free(v.count);
}

static double entropy(const struct votes *v, size_t p, double all)
{
    double sum = 0.0;
    for (int k = 0; k < v->kinds; k++) {
        double share = v->count[p * (size_t)v->kinds + (size_t)k] / all;
        sum -= share > 0.0 ? share * log2(share) : 0.0;
    }
    return sum + 0.0;
}

static void put(struct ncfile *f, const struct grid *g, const char *name, enum nc_type_name type, const char *long_name,
                double *x)
{
    grid_spread(g, 1, x);
    ncfile_variable(f, name, type, text_string(&g->dims), "1", long_name);
    ncfile_put(f, name, x);
}

/* ---- the predictor ---- */

static double start_of(const struct spec *s, const char *format, int first, int second)
{
    char name[KEY_NAMED_TEXT];
    snprintf(name, sizeof name, format, first, second);
    for (int i = 0; i < s->init.coordinates.count; i++)
        if (!strcmp(s->init.coordinates.item[i].name, name))
            return s->init.coordinates.item[i].value;
    return s->init.others;
}

/* The circuit of the largest own product of starting coordinates; NAN when it is not unique. */
static double predict(const struct spec *s)
{
    double best = -INFINITY, winner = NAN;
    for (int c = 0; c < manifold_circuits((int)s->model.layers); c++) {
        int l, m;
        manifold_circuit((int)s->model.layers, c, &l, &m);
        double weight = start_of(s, "alpha_%d", l, 0) * start_of(s, "beta_%d%d", l, m) * start_of(s, "gamma_%d", m, 0);
        if (weight == best)
            winner = NAN;
        if (weight > best) {
            best = weight;
            winner = c;
        }
    }
    return winner;
}

static void put_prediction(struct ncfile *f, const struct grid *g, const double *winner, char **words, int kinds)
{
    const struct job *job = g->job;
    double *predicted = memory_new(g->points, sizeof *predicted), *fails = memory_new(g->points, sizeof *fails);
    struct spec *s = memory_new(1, sizeof *s);
    int position[JOB_AXES_MAX];
    if (job->spec.init.scheme == INIT_COORDINATES && job->spec.model.heads == 1) {
        *s = job->spec;
        for (size_t p = 0; p < g->points; p++) {
            refine_position(job, p, position);
            size_t at = 0;
            for (int a = 0; a < job->axes; a++) {
                key_set(s, job->axis[a].key, job->axis[a].value[position[a]]);
                at = at * (size_t)job->axis[a].count + (size_t)g->rank[a][position[a]];
            }
            predicted[at] = predict(s);
            fails[at] = !isfinite(predicted[at]) || !isfinite(winner[at]) || winner[at] == kinds - 1
                            ? NAN
                            : predicted[at] != winner[at];
        }
        ncfile_variable(f, "predicted", NCFILE_INT, text_string(&g->dims), "1",
                        "circuit whose own alpha_l beta_lm gamma_m is largest at the start");
        ncfile_flags(f, "predicted", kinds, (const char *const *)words);
        ncfile_put(f, "predicted", predicted);
        ncfile_variable(f, "predicted_fails", NCFILE_INT, text_string(&g->dims), "1",
                        "1: another circuit has won than predicted");
        ncfile_put(f, "predicted_fails", fails);
    }
    memory_free(s);
    memory_free(predicted);
    memory_free(fails);
}

void phase_winner_put(struct ncfile *f, const struct grid *g, struct ncfile *runs)
{
    if (!ncfile_has(runs, "winner"))
        return;
    struct votes v = count_votes(g, runs);
    double *winner = memory_new(g->points, sizeof *winner), *share = memory_new(g->points, sizeof *share);
    double *bits = memory_new(g->points, sizeof *bits);
    for (size_t p = 0; p < g->points; p++) {
        double all = 0.0;
        for (int k = 0; k < v.kinds; k++)
            all += v.count[p * (size_t)v.kinds + (size_t)k];
        winner[p] = most(&v, p);
        share[p] = all > 0.0 ? v.count[p * (size_t)v.kinds + (size_t)winner[p]] / all : NAN;
        bits[p] = all > 0.0 ? entropy(&v, p, all) : NAN;
    }
    int kinds;
    char **words = manifold_circuit_words(most_layers(g->job), &kinds);
    put(f, g, "winner", NCFILE_INT, "circuit that won most often over seeds; of equals, the first", winner);
    ncfile_flags(f, "winner", kinds, (const char *const *)words);
    put(f, g, "winner_share", NCFILE_DOUBLE, "share of the runs in which it won", share);
    put(f, g, "winner_entropy", NCFILE_DOUBLE, "entropy of the winner over seeds, in bits", bits);
    put_prediction(f, g, winner, words, kinds);
    manifold_circuit_words_free(words, kinds);
    memory_free(v.count);
    memory_free(winner);
    memory_free(share);
    memory_free(bits);
}

/* ---- vectors ---- */

static void put_vector(struct ncfile *f, const struct grid *g, struct ncfile *runs, const char *variable,
                       const char *dim, size_t width)
{
    double *x = ncfile_get(runs, variable, NULL), *sum = memory_new(g->points * width, sizeof *sum);
    double *n = memory_new(g->points * width, sizeof *n);
    for (size_t r = 0; x && r < g->rows; r++)
        for (size_t k = 0; k < width; k++)
            if (isfinite(x[r * width + k])) {
                sum[g->point[r] * width + k] += x[r * width + k];
                n[g->point[r] * width + k]++;
            }
    for (size_t i = 0; i < g->points * width; i++)
        sum[i] = n[i] > 0.0 ? sum[i] / n[i] : NAN;
    grid_spread(g, width, sum);
    char *name = memory_format("%s_mean", variable), *dims = memory_format("%s %s", text_string(&g->dims), dim);
    char *long_name = memory_format("%s: mean over seeds", ncfile_get_attribute(runs, variable, "long_name"));
    ncfile_variable(f, name, NCFILE_DOUBLE, dims, ncfile_get_attribute(runs, variable, "units"), long_name);
    ncfile_put(f, name, sum);
    memory_free(name), memory_free(dims), memory_free(long_name), memory_free(x), memory_free(sum), memory_free(n);
}

/* Maps of long vectors would be larger than all else; their runs are in runs.nc. */
#define VECTOR_VALUES_MAX ((size_t)50000000)

void phase_vectors_put(struct ncfile *f, const struct grid *g, struct ncfile *runs)
{
    static const char *const dims[] = {"direction", "layer"};
    for (int d = 0; d < 2; d++) {
        const size_t width = ncfile_length(runs, dims[d]);
        if (width == 0 || width * g->points > VECTOR_VALUES_MAX)
            continue;
        ncfile_dimension(f, dims[d], width);
        for (int i = 0; i < ncfile_variables(runs); i++) {
            const char *name = ncfile_variable_name(runs, i);
            size_t length;
            if (ncfile_rank(runs, name) == 2 && !strcmp(ncfile_variable_dimension(runs, name, 0, &length), "run") &&
                !strcmp(ncfile_variable_dimension(runs, name, 1, &length), dims[d]))
                put_vector(f, g, runs, name, dims[d], width);
        }
    }
    if (ncfile_has(runs, "coordinate_name") && ncfile_length(runs, "direction") * g->points <= VECTOR_VALUES_MAX) {
        size_t n;
        char **name = ncfile_get_texts(runs, "coordinate_name", &n);
        ncfile_texts(f, "coordinate_name", "direction", "name of the coordinate on the invariant manifold", n,
                     (const char *const *)name);
        for (size_t i = 0; i < n; i++)
            memory_free(name[i]);
        memory_free(name);
    }
}
