/* bench_group.c: how fast runs are trained side by side (run/group.h). */
#include "run/bench.h"

#include "base/clock.h"
#include "base/memory.h"
#include "model/manifold_tape.h"
#include "run/group.h"

/* The program of the first run, and how long it takes to write it down. */
static enum status measure_program(const struct spec *s, struct bench_group *r)
{
    struct manifold_tape *t;
    double start = clock_now();
    enum status status = manifold_tape_new(s, &t);
    if (status != STATUS_OK)
        return status;
    r->build_ms = 1e3 * (clock_now() - start);
    r->operations = t->train->program.ops;
    r->slots = t->train->program.slots;
    manifold_tape_free(t);
    return STATUS_OK;
}

enum status bench_group(const struct spec *spec, const uint64_t *seed, size_t n, struct bench_group *r)
{
    *r = (struct bench_group){.points = n};
    enum status status = measure_program(&spec[0], r);
    if (status != STATUS_OK)
        return status;
    struct record *record = memory_new(n, sizeof *record);
    struct group_run *run = memory_new(n, sizeof *run);
    for (size_t i = 0; i < n; i++)
        run[i] = (struct group_run){.spec = &spec[i], .seed = seed[i], .record = &record[i]};
    struct group *g = group_new();
    enum train_end end;
    double start = clock_now();
    status = group_train(g, run, n, NULL, NULL, &end);
    r->seconds = clock_now() - start;
    for (size_t i = 0; i < n; i++) {
        if (status == STATUS_OK && run[i].state == GROUP_FAILED)
            status = STATUS_JOB;             /* the text is group_train's */
        r->steps += (double)record[i].steps;
        record_clear(&record[i]);
    }
    group_free(g);
    memory_free(run);
    memory_free(record);
    return status;
}
