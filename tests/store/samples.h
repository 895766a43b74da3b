/* samples.h: random records, jobs and folders for the tests of the store. */
#ifndef INVAR_TESTS_STORE_SAMPLES_H
#define INVAR_TESTS_STORE_SAMPLES_H

#include "check.h"

#include "base/memory.h"
#include "base/stream.h"
#include "base/text.h"
#include "store/record_sets.h"
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

struct sample_shape {
    int points, probes, d, rank, operator_rank, samples, coordinates, activations, tensors, element_size;
    const char *error;
    int looks, coordinates_seen;     /* manifold and circuit probes, and their coordinates; times of coordinates, too */
};

static inline double sample_value(struct stream *s)
{
    switch (stream_below(s, 12)) {
    case 0: return NAN;
    case 1: return -NAN;
    case 2: return INFINITY;
    case 3: return -0.0;
    case 4: return 4.9e-324;
    default: return stream_normal(s);
    }
}

static inline double *sample_values(struct stream *s, size_t n)
{
    double *x = memory_new(n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = sample_value(s);
    return x;
}

static inline int64_t sample_int(struct stream *s) { return (int64_t)(stream_u64(s) >> 1); }

static inline struct record_probe sample_probe(struct stream *s, const struct sample_shape *h)
{
    size_t d = (size_t)h->d, rank = (size_t)h->rank, operator_rank = (size_t)h->operator_rank, n = (size_t)h->samples;
    struct record_probe p = {.step = sample_int(s), .d = h->d, .rank = h->rank, .operator_rank = h->operator_rank,
                             .sufficient = -1, .necessary = (int)stream_below(s, 9),
                             .core_dim = (int)stream_below(s, 9), .samples = h->samples,
                             .accuracy = sample_value(s), .accuracy_core_only = sample_value(s),
                             .accuracy_core_removed = sample_value(s), .r2 = sample_value(s),
                             .r2_oracle_ratio = sample_value(s)};
    if (!d)
        return p;
    p.weight = sample_values(s, d);
    p.mean = sample_values(s, d);
    if (rank)
        p.basis = sample_values(s, d * rank);
    if (operator_rank) {
        p.operator_matrix = sample_values(s, operator_rank * operator_rank);
        p.eigenvalue = sample_values(s, operator_rank * 2);
        p.eigenvalue_error = sample_values(s, operator_rank);
    }
    if (h->coordinates && rank && n)
        p.coordinates = sample_values(s, n * rank);
    if (h->activations && n)
        p.activations = sample_values(s, n * d);
    return p;
}

static inline void sample_weights(struct stream *s, const struct sample_shape *h, struct record *r)
{
    size_t total = 0;
    r->tensors = h->tensors;
    r->element_size = h->element_size;
    if (!h->tensors)
        return;
    r->tensor = memory_new((size_t)h->tensors, sizeof *r->tensor);
    for (int k = 0; k < h->tensors; k++) {
        struct record_tensor *t = &r->tensor[k];
        snprintf(t->name, sizeof t->name, "block%d.attention.query.weight", k);
        t->rows = 1 + (int)stream_below(s, 7);
        t->cols = 1 + (int)stream_below(s, 40);
        t->offset = total;
        total += (size_t)t->rows * (size_t)t->cols;
    }
    size_t bytes = total * (size_t)h->element_size;
    unsigned char *w = memory_new(bytes, 1);
    for (size_t i = 0; i < bytes; i++)                 /* any bits: infinities, subnormals, NaNs with payloads */
        w[i] = (unsigned char)stream_u32(s);
    r->weights = w;
}

/* Every array of the sets but the gradients of every other probe, which its job did not ask for. */
static inline void sample_sets(struct stream *s, const struct sample_shape *h, struct record *r)
{
    for (int k = 0; h->looks && k < RECORD_SETS; k++) {
        record_set_new(&record_sets[k], r, h->looks);
        for (int p = 0; p < h->looks; p++) {
            void *element = record_set_at(&record_sets[k], r, p);
            const int length[] = {h->coordinates_seen, 2 + p, 1 + p};
            for (int i = 0; i < record_sets[k].scalars; i++) {
                const struct set_field *f = &record_sets[k].field[i];
                const int64_t whole = f->type == NCFILE_INT64 ? sample_int(s) : 0;
                const double real = sample_value(s);
                memcpy((char *)element + f->offset, f->type == NCFILE_DOUBLE ? (const void *)&real : (const void *)&whole,
                       f->type == NCFILE_INT ? 4 : 8);
            }
            if (k == 0) {
                r->manifold[p].coordinates = length[0];
                r->manifold[p].layers = length[1];
                r->manifold[p].circuits = length[2];
                r->manifold[p].winner = p - 1;
            } else {
                r->circuit[p].coordinates = length[0];
                r->circuit[p].units = length[0] / 2;
            }
            for (int i = record_sets[k].scalars; i < record_sets[k].fields; i++) {
                const struct set_field *f = &record_sets[k].field[i];
                const size_t n = (size_t)record_set_length(&record_sets[k], element, f->extent);
                if (k == 0 && p % 2 && strstr(f->name, "gradient"))
                    continue;
                int32_t *whole = memory_new(n, f->type == NCFILE_INT ? sizeof *whole : 0);
                for (size_t j = 0; j < n && f->type == NCFILE_INT; j++)
                    whole[j] = (int32_t)stream_below(s, 1000);
                if (f->type == NCFILE_DOUBLE) {
                    memory_free(whole);
                    whole = (int32_t *)(void *)sample_values(s, n);
                }
                record_set_put_array(f, element, whole);
            }
        }
    }
    r->emergence_step = h->looks ? sample_value(s) : NAN;
    r->coordinates = h->looks ? h->coordinates_seen : 0;
    r->coordinate_step = h->looks ? sample_values(s, (size_t)h->coordinates_seen) : NULL;
}

/* A record with a random id. */
static inline struct record sample_record(struct stream *s, const struct sample_shape *h)
{
    struct record r = {.seed = stream_u64(s), .outcome = (enum outcome)stream_below(s, OUTCOME_COUNT),
                       .steps = sample_int(s), .last_finite_step = -1, .wall_time = sample_value(s),
                       .restarts = (int)stream_below(s, 3), .loss_train = sample_value(s), .loss_test = sample_value(s),
                       .accuracy_train = sample_value(s), .accuracy_test = sample_value(s)};
    uint64_t noise[2] = {stream_u64(s), stream_u64(s)};
    hash_print(hash_bytes(noise, sizeof noise), r.id);
    r.curves.points = h->points;
    if (h->points) {
        r.curves.step = memory_new((size_t)h->points, sizeof *r.curves.step);
        for (int i = 0; i < h->points; i++)
            r.curves.step[i] = sample_int(s);
        r.curves.loss_train = sample_values(s, (size_t)h->points);
        r.curves.loss_test = sample_values(s, (size_t)h->points);
        r.curves.accuracy_train = sample_values(s, (size_t)h->points);
        r.curves.accuracy_test = sample_values(s, (size_t)h->points);
    }
    r.probes = h->probes;
    r.probe = h->probes ? memory_new((size_t)h->probes, sizeof *r.probe) : NULL;
    for (int p = 0; p < h->probes; p++)
        r.probe[p] = sample_probe(s, h);
    sample_weights(s, h, &r);
    r.error = h->error ? memory_text(h->error) : NULL;
    sample_sets(s, h, &r);
    return r;
}

/* ---- comparing ---- */

static inline void check_array(const char *what, const void *a, const void *b, size_t bytes)
{
    if (bytes && (!a != !b || (a && memcmp(a, b, bytes))))
        CHECK_FAIL("%s differs (%zu bytes, %s and %s)", what, bytes, a ? "there" : "missing", b ? "there" : "missing");
}

#define CHECK_SAME(member) check_array(#member, &a->member, &b->member, sizeof a->member)
#define CHECK_SAME_ARRAY(member, n) check_array(#member, a->member, b->member, (size_t)(n) * sizeof *a->member)

static inline void check_same_probe(const struct record_probe *a, const struct record_probe *b)
{
    CHECK_SAME(step), CHECK_SAME(d), CHECK_SAME(rank), CHECK_SAME(sufficient), CHECK_SAME(necessary);
    CHECK_SAME(core_dim), CHECK_SAME(operator_rank), CHECK_SAME(samples), CHECK_SAME(accuracy);
    CHECK_SAME(accuracy_core_only), CHECK_SAME(accuracy_core_removed), CHECK_SAME(r2), CHECK_SAME(r2_oracle_ratio);
    CHECK_SAME_ARRAY(weight, a->d);
    CHECK_SAME_ARRAY(basis, a->d * a->rank);
    CHECK_SAME_ARRAY(mean, a->d);
    CHECK_SAME_ARRAY(operator_matrix, a->operator_rank * a->operator_rank);
    CHECK_SAME_ARRAY(eigenvalue, a->operator_rank * 2);
    CHECK_SAME_ARRAY(eigenvalue_error, a->operator_rank);
    CHECK_SAME_ARRAY(coordinates, a->samples * a->rank);
    CHECK_SAME_ARRAY(activations, a->samples * a->d);
}

static inline void check_same_sets(const struct record *a, const struct record *b)
{
    for (int k = 0; k < RECORD_SETS; k++) {
        const struct record_set *s = &record_sets[k];
        CHECK_INT(record_set_count(s, a), record_set_count(s, b));
        for (int p = 0; p < record_set_count(s, a) && !check_failures; p++)
            for (int i = 0; i < s->fields && !check_failures; i++) {
                const struct set_field *f = &s->field[i];
                const char *x = record_set_at(s, a, p), *y = record_set_at(s, b, p);
                const size_t size = f->type == NCFILE_INT ? 4 : 8;
                if (i < s->scalars)
                    check_array(f->name, x + f->offset, y + f->offset, size);
                else
                    check_array(f->name, record_set_array(f, x), record_set_array(f, y),
                                (size_t)record_set_length(s, x, f->extent) * size);
            }
    }
    CHECK_SAME(emergence_step), CHECK_SAME(coordinates);
    CHECK_SAME_ARRAY(coordinate_step, a->coordinates);
}

/* Every member has the same bits. */
static inline void check_same_record(const struct record *a, const struct record *b)
{
    CHECK_TEXT(a->id, b->id);
    CHECK_SAME(seed), CHECK_SAME(outcome), CHECK_SAME(steps), CHECK_SAME(last_finite_step), CHECK_SAME(wall_time);
    CHECK_SAME(restarts), CHECK_SAME(loss_train), CHECK_SAME(loss_test), CHECK_SAME(accuracy_train);
    CHECK_SAME(accuracy_test), CHECK_SAME(curves.points), CHECK_SAME(probes), CHECK_SAME(tensors);
    CHECK_SAME(element_size);
    if (check_failures)
        return;
    CHECK_SAME_ARRAY(curves.step, a->curves.points);
    CHECK_SAME_ARRAY(curves.loss_train, a->curves.points);
    CHECK_SAME_ARRAY(curves.loss_test, a->curves.points);
    CHECK_SAME_ARRAY(curves.accuracy_train, a->curves.points);
    CHECK_SAME_ARRAY(curves.accuracy_test, a->curves.points);
    for (int p = 0; p < a->probes; p++)
        check_same_probe(&a->probe[p], &b->probe[p]);
    size_t weights = 0;
    for (int k = 0; k < a->tensors; k++) {
        CHECK_TEXT(a->tensor[k].name, b->tensor[k].name);
        CHECK_SAME(tensor[k].rows), CHECK_SAME(tensor[k].cols), CHECK_SAME(tensor[k].offset);
        weights += (size_t)a->tensor[k].rows * (size_t)a->tensor[k].cols;
    }
    check_array("weights", a->weights, b->weights, weights * (size_t)a->element_size);
    check_same_sets(a, b);
    CHECK_INT(!a->error, !b->error);
    if (a->error && b->error)
        CHECK_TEXT(a->error, b->error);
}

/* ---- folders and files ---- */

/* A path that nobody else uses, in the test's temporary directory; memory_free. */
static inline char *sample_path(const char *name)
{
    const char *dir = getenv("TMPDIR");
    return memory_format("%s/%s-%d-%s", dir ? dir : "/tmp", program_invocation_short_name, (int)getpid(), name);
}

static inline void sample_remove(const char *path)
{
    char *command = memory_format("chmod -R u+w '%s' 2>/dev/null; rm -rf '%s'", path, path);
    CHECK_INT(system(command), 0);
    memory_free(command);
}

/* Number of entries of a folder, "." and ".." not counted; -1 when it is not there. */
static inline int sample_entries(const char *dir, const char *sub)
{
    char *path = memory_format("%s/%s", dir, sub);
    DIR *d = opendir(path);
    int n = d ? -2 : -1;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    memory_free(path);
    return n;
}

static inline void sample_write(const char *path, const void *bytes, size_t n)
{
    unlink(path);                   /* a file that is truncated and written again is flushed by some file systems */
    FILE *f = fopen(path, "wb");
    if (!f || (n && fwrite(bytes, n, 1, f) != 1) || fclose(f))
        CHECK_FAIL("%s cannot be written", path);
}

/* ---- jobs ---- */

static inline struct job *sample_job(const char *text)
{
    struct job *job = NULL;
    CHECK_OK(job_parse(text, "test.yaml", NULL, 0, &job));
    if (!job)
        exit(1);
    return job;
}

/* Records of the runs [first, first + count) of a job, of this shape, in a tile of that name. */
struct sample_tile {
    struct plan_tile tile;
    struct record *record;
    int count;
};

static inline struct sample_tile sample_tile(const struct job *job, size_t first, size_t count, uint64_t seed,
                                             const struct sample_shape *h)
{
    struct sample_tile t = {.tile = {.first = first, .count = count}, .count = (int)count};
    struct stream s = stream_open(seed, PURPOSE_PROBE, (uint32_t)first);
    t.record = memory_new(count, sizeof *t.record);
    struct text ids = {0};
    for (size_t i = 0; i < count; i++) {
        t.record[i] = sample_record(&s, h);
        job_id_of(job, first + i, t.record[i].id);
        text_add(&ids, "%s", t.record[i].id);
    }
    hash_print(hash_bytes(text_string(&ids), ids.length), t.tile.id);
    text_free(&ids);
    return t;
}

static inline void sample_tile_clear(struct sample_tile *t)
{
    for (int i = 0; i < t->count; i++)
        record_clear(&t->record[i]);
    memory_free(t->record);
}

#endif
