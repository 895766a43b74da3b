#include "analysis/results.h"

#include "base/memory.h"

#include <math.h>
#include <unistd.h>

static enum status open_if_there(const char *dir, const char *name, struct ncfile **f)
{
    char *path = memory_format("%s/%s", dir, name);
    enum status s = access(path, F_OK) == 0 ? ncfile_open(path, f) : STATUS_OK;
    memory_free(path);
    return s;
}

enum status results_open(const char *dir, const struct job *job, struct results *r)
{
    *r = (struct results){.job = job, .n = job_runs(job)};
    char *path = memory_format("%s/runs.nc", dir);
    enum status s = ncfile_open(path, &r->runs);
    if (s == STATUS_OK && job->order)
        r->n = ncfile_length(r->runs, "run");
    if (s == STATUS_OK && ncfile_length(r->runs, "run") != r->n)
        s = status_fail(STATUS_CORRUPT, "%s has %zu runs, the job has %zu: run `invar gather %s` again", path,
                        ncfile_length(r->runs, "run"), r->n, dir);
    memory_free(path);
    if (s == STATUS_OK)
        s = open_if_there(dir, "cross_run.nc", &r->cross);
    if (s == STATUS_OK && job->axes > 0)
        s = open_if_there(dir, "phase_map.nc", &r->map);
    if (s != STATUS_OK)
        return s;
    r->seed = ncfile_get(r->runs, "seed", NULL);
    r->outcome = ncfile_get(r->runs, "outcome", NULL);
    if (!r->seed || !r->outcome)
        return status_fail(STATUS_CORRUPT, "%s/runs.nc lacks seed or outcome: run `invar gather %s` again", dir, dir);
    return STATUS_OK;
}

enum status results_close(struct results *r)
{
    struct ncfile *file[] = {r->runs, r->cross, r->map};
    enum status s = STATUS_OK;
    for (int i = 0; i < 3; i++) {
        enum status closed = file[i] ? ncfile_close(file[i]) : STATUS_OK;
        if (s == STATUS_OK)
            s = closed;
    }
    memory_free(r->seed);
    memory_free(r->outcome);
    *r = (struct results){0};
    return s;
}

double *results_get(struct ncfile *f, const char *name)
{
    return f && ncfile_has(f, name) ? ncfile_get(f, name, NULL) : NULL;
}

int results_has(struct ncfile *f, const char *name)
{
    size_t n = 0;
    double *x = f && ncfile_has(f, name) ? ncfile_get(f, name, &n) : NULL;
    struct range r = results_range(x, n);
    memory_free(x);
    return r.n > 0;
}

struct range results_range(const double *x, size_t n)
{
    struct range r = {NAN, NAN, 0};
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i])) {
            r.low = r.n == 0 || x[i] < r.low ? x[i] : r.low;
            r.high = r.n == 0 || x[i] > r.high ? x[i] : r.high;
            r.n++;
        }
    return r;
}

double results_constant(const double *x, size_t n)
{
    struct range r = results_range(x, n);
    return r.n > 0 && r.low == r.high ? r.low : (double)NAN;
}
