#include "base/memory.h"
#include "base/text.h"
#include "job/plan.h"
#include "job/refine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers for people ---- */

/* 50436 -> "50,436" */
static void add_count(struct text *out, double n)
{
    char digits[64];
    int length = snprintf(digits, sizeof digits, "%.0f", n);
    for (int i = 0; i < length && i < (int)sizeof digits - 1; i++)
        text_add(out, "%s%c", i && (length - i) % 3 == 0 && digits[i - 1] != '-' ? "," : "", digits[i]);
}

static void add_counted(struct text *out, double n, const char *one)
{
    add_count(out, n);
    text_add(out, " %s%s", one, n == 1.0 ? "" : "s");
}

/* Two significant digits: these are estimates. */
static void add_rounded(struct text *out, double x)
{
    if (x >= 99.5)
        add_count(out, round(x / 10.0) * 10.0);
    else
        text_add(out, x >= 9.95 ? "%.0f" : x >= 0.095 || x == 0.0 ? "%.1f" : "%.2g", x);
}

static void add_bytes(struct text *out, double bytes)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    int u = 0;
    double x = bytes / 1e3;
    while (x >= 999.5 && u < 5) {
        x /= 1e3;
        u++;
    }
    if (x >= 9.95)
        text_add(out, "%.0f %s", x, units[u]);
    else
        text_add(out, "%.1f %s", x, units[u]);
}

static void add_seconds(struct text *out, double s)
{
    if (s < 0.995)
        text_add(out, "%.2g s", s);
    else if (s < 119.5)
        text_add(out, "%.0f s", s);
    else if (s < 7170.0)
        text_add(out, "%.0f min", s / 60.0);
    else if (s < 48.0 * 3600.0)
        text_add(out, "%.1f h", s / 3600.0);
    else {
        add_rounded(out, s / 86400.0);
        text_add(out, " days");
    }
}

/* ---- the parts ---- */

static void add_runs(const struct job *job, const struct plan *p, struct text *out)
{
    text_add(out, "%s: ", job->name);
    add_counted(out, (double)p->runs, "run");
    text_add(out, " (");
    add_counted(out, job->seeds, "seed");
    text_add(out, job->axes ? "" : ", no axes");
    for (int i = 0; i < job->axes; i++)
        text_add(out, " x %d %s", job->axis[i].count, job->axis[i].key->path);
    text_add(out, ") in ");
    add_counted(out, (double)p->tiles, "tile");
    text_add(out, "\n");
    if (job->order)
        text_add(out, "refined         begins with %zu of them, the others are trained where the map changes: what follows is the most\n",
                 refine_level_end(job, 0));
}

struct span {
    double least, most;
};

static void widen(struct span *s, double x)
{
    s->least = fmin(s->least, x);
    s->most = fmax(s->most, x);
}

static void add_span(struct text *out, struct span s, const char *what)
{
    add_count(out, s.least);
    if (s.most > s.least) {
        text_add(out, " to ");
        add_count(out, s.most);
    }
    text_add(out, " %s", what);
}

static void add_model(const struct job *job, struct text *out)
{
    struct span parameters = {INFINITY, 0.0}, steps = {INFINITY, 0.0};
    struct spec *spec = memory_new(1, sizeof *spec);
    size_t points = job_runs(job) / (size_t)job->seeds;
    for (size_t i = 0; i < points; i++) {
        uint64_t seed;
        job_run(job, refine_run(job, i, 0), spec, &seed);
        struct cost c = plan_cost(spec);
        widen(&parameters, c.parameters);
        widen(&steps, c.steps);
    }
    memory_free(spec);
    text_add(out, "model           ");
    add_span(out, parameters, "parameters, ");
    add_span(out, steps, "steps\n");
}

/* No schedule ends before the longest tile, nor before the work divided by the ranks, nor before the last round of
 * tiles when all are alike. */
static double wall_seconds(const struct plan *p, int ranks)
{
    double longest = 0.0;
    for (size_t t = 0; t < p->tiles; t++)
        longest = fmax(longest, p->tile[t].seconds);
    double rounds = ceil((double)p->tiles / ranks), mean = p->seconds / (double)p->tiles;
    double by_rounds = longest < 1.05 * mean ? rounds * mean : 0.0;
    return fmax(fmax(longest, p->seconds / ranks), by_rounds);
}

static void add_time(const struct plan *p, int ranks, struct text *out)
{
    text_add(out, "estimated time  ");
    add_rounded(out, p->seconds / 3600.0);
    text_add(out, " core-hours; ");
    add_seconds(out, p->seconds / (double)p->runs);
    text_add(out, " a run");
    if (ranks > 0) {
        text_add(out, "; ");
        add_seconds(out, wall_seconds(p, ranks));
        text_add(out, " on %d rank%s", ranks, ranks == 1 ? "" : "s");
    }
    text_add(out, "\n");
}

static void add_space(const struct plan *p, struct text *out)
{
    text_add(out, "memory          ");
    add_bytes(out, p->memory);
    text_add(out, " a rank; gather ");
    add_bytes(out, p->gather_memory);
    text_add(out, "\ndisk            ");
    add_bytes(out, p->disk);
    text_add(out, " in ");
    add_counted(out, (double)p->tiles, "tile");
    text_add(out, " + ");
    add_counted(out, (double)(p->files - p->tiles), "result");
    text_add(out, "\n");
}

/* ---- what does not fit ---- */

static void memory_fits(const struct plan *p, double available, int ranks, struct text *out)
{
    double train = p->memory * fmax(1, ranks);
    if (available <= 0.0)
        return;
    if (train > available) {
        text_add(out, "does not fit: training needs ");
        add_bytes(out, train);
        text_add(out, " of memory on %d rank%s, ", ranks > 0 ? ranks : 1, ranks > 1 ? "s" : "");
        add_bytes(out, available);
        double possible = floor(available / p->memory);
        if (possible >= 1.0)
            text_add(out, " are there: use at most %.0f rank%s, or a smaller batch, task or probe\n", possible,
                     possible > 1.0 ? "s" : "");
        else
            text_add(out, " are there: make task.sequences, task.test_sequences or the model smaller\n");
    }
    if (p->gather_memory > available) {
        text_add(out, "does not fit: the largest rank of gather needs ");
        add_bytes(out, p->gather_memory);
        text_add(out, " of memory, ");
        add_bytes(out, available);
        text_add(out, " are there: use a larger gather.grid on more nodes, fewer runs or task.test_sequences, or "
                      "gather.cca.pairs: false\n");
    }
}

static void disk_fits(const struct plan *p, double available, struct text *out)
{
    if (available <= 0.0 || p->disk <= available)
        return;
    text_add(out, "does not fit: the output needs ");
    add_bytes(out, p->disk);
    text_add(out, " of disk, ");
    add_bytes(out, available);
    text_add(out, " are free: choose another folder with -o, or store less (probe.ace.store, fewer runs)\n");
}

static void grid_fits(const struct job *job, int ranks, struct text *out)
{
    const struct key_list *grid = &job->spec.gather.grid;
    int64_t needed = grid->value[0] * grid->value[1];
    if (ranks <= 0 || needed <= ranks)
        return;
    text_add(out, "does not fit: gather.grid [%lld, %lld] needs %lld ranks, there %s %d: start more, or use "
                  "--set gather.grid=[1,%d]\n", (long long)grid->value[0], (long long)grid->value[1],
             (long long)needed, ranks == 1 ? "is" : "are", ranks, ranks);
}

char *plan_print(const struct job *job, const struct plan *p, double memory_available, double disk_available,
                 int ranks, int *fits)
{
    struct text out = {0}, problems = {0};
    add_runs(job, p, &out);
    add_model(job, &out);
    add_time(p, ranks, &out);
    add_space(p, &out);
    memory_fits(p, memory_available, ranks, &problems);
    disk_fits(p, disk_available, &problems);
    grid_fits(job, ranks, &problems);
    *fits = problems.length == 0;
    text_add(&out, "%s", text_string(&problems));
    text_free(&problems);
    return out.s;
}
