#include "store/wanted.h"

#include "base/memory.h"
#include "job/manifold.h"
#include "job/outcome.h"
#include "job/refine.h"

#include <string.h>

/* Results of a point's seeds. */
struct votes {
    const struct job *job;
    size_t points;
    int kinds;
    uint32_t *count;                 /* [points][kinds] */
    uint32_t *there;                 /* [points] seeds whose run is there */
};

static enum status vote(void *context, size_t run, const struct record *r)
{
    struct votes *v = context;
    const int winner = r->manifolds ? r->manifold[r->manifolds - 1].winner : -1;
    if (winner >= 0 && winner < v->kinds)
        v->count[refine_point_of(v->job, run) * (size_t)v->kinds + (size_t)winner]++;
    return STATUS_OK;
}

/* As the map shows it: analysis/phase_map.c reassembles by the same labels. */
static int most_frequent(const struct votes *v, size_t point)
{
    size_t count[OUTCOME_COUNT], often;
    for (int o = 0; o < OUTCOME_COUNT; o++)
        count[o] = v->count[point * (size_t)v->kinds + (size_t)o];
    int most = outcome_most(count, &often);
    return most < 0 || most == OUTCOME_FAILED ? REFINE_NONE : most;
}

static int winner_of(const struct votes *v, size_t point)
{
    int best = REFINE_NONE;
    for (int k = 0; k < v->kinds; k++)
        if (v->count[point * (size_t)v->kinds + (size_t)k] > (best < 0 ? 0 : v->count[point * (size_t)v->kinds + (size_t)best]))
            best = k;
    return best;
}

/* model.layers may be an axis. */
static int winner_kinds(const struct job *job)
{
    int64_t layers = job->spec.model.layers;
    for (int a = 0; a < job->axes; a++)
        for (int i = 0; i < job->axis[a].count && job->axis[a].key == key_find("model.layers"); i++)
            layers = layers > (int64_t)job->axis[a].value[i] ? layers : (int64_t)job->axis[a].value[i];
    return manifold_circuits((int)layers) + 1;
}

enum status wanted_labels(struct store *store, const struct job *job, const int *outcome, int *label)
{
    const bool by_winner = job->spec.refine.by == REFINE_WINNER;
    struct votes v = {.job = job, .points = refine_points(job), .kinds = by_winner ? winner_kinds(job) : OUTCOME_COUNT};
    const size_t runs = job_runs(job);
    enum status status = STATUS_OK;
    v.count = memory_new(v.points * (size_t)v.kinds, sizeof *v.count);
    v.there = memory_new(v.points, sizeof *v.there);
    for (size_t r = 0; r < runs; r++) {
        if (outcome[r] < 0)
            continue;
        size_t p = refine_point_of(job, r);
        v.there[p]++;
        if (!by_winner)
            v.count[p * (size_t)v.kinds + (size_t)outcome[r]]++;
    }
    if (by_winner)
        status = store_read(store, job, vote, &v);
    for (size_t p = 0; p < v.points; p++)
        label[p] = v.there[p] < (uint32_t)job->seeds ? REFINE_UNKNOWN : by_winner ? winner_of(&v, p) : most_frequent(&v, p);
    memory_free(v.count);
    memory_free(v.there);
    return status;
}

enum status wanted_runs(struct store *store, const struct job *job, const int *outcome, bool *wanted, int *level)
{
    const size_t runs = job_runs(job), points = refine_points(job);
    *level = 0;
    if (!job->order) {
        for (size_t r = 0; r < runs; r++)
            wanted[r] = true;
        return STATUS_OK;
    }
    int *label = memory_new(points, sizeof *label);
    bool *of_point = memory_new(points, sizeof *of_point);
    enum status status = wanted_labels(store, job, outcome, label);
    *level = refine_wanted(job, label, of_point);
    for (size_t r = 0; r < runs; r++)
        wanted[r] = of_point[refine_point_of(job, r)];
    memory_free(label);
    memory_free(of_point);
    return status;
}
