#include "store/samples.h"

#include "store/ncfile.h"
#include "store/seal.h"
#include "store/tile.h"


/* Writes the records, reads them back and compares every bit. */
static void round_trip(const struct record *r, int count)
{
    char *path = sample_path("tile.nc");
    CHECK_OK(tile_write(path, "0123", "name: x\n", r, count));
    struct tile *t = NULL;
    CHECK_OK(tile_open(path, &t));
    if (!t)
        exit(1);
    CHECK_INT(tile_runs(t), count);
    char *job = tile_job(t);
    CHECK_TEXT(job, "name: x\n");
    memory_free(job);
    for (int i = count - 1; i >= 0; i--) {
        struct record back = {0};
        CHECK_TEXT(tile_run_id(t, i), r[i].id);
        CHECK_INT(tile_outcome(t, i), r[i].outcome);
        CHECK_OK(tile_record(t, i, &back));
        check_same_record(&r[i], &back);
        record_clear(&back);
    }
    tile_close(t);
    unlink(path);
    memory_free(path);
}

static void round_trip_shapes(const struct sample_shape *shapes, int count)
{
    struct stream s = stream_open(7, PURPOSE_PROBE, 0);
    struct record *r = memory_new((size_t)count, sizeof *r);
    for (int i = 0; i < count; i++)
        r[i] = sample_record(&s, &shapes[i]);
    round_trip(r, count);
    for (int i = 0; i < count; i++)
        record_clear(&r[i]);
    memory_free(r);
    CHECK_INT(memory_balance(), 0);
}

TEST(one_run_with_everything)
{
    round_trip_shapes(&(struct sample_shape){.points = 41, .probes = 1, .d = 64, .rank = 3, .operator_rank = 3,
                      .samples = 900, .coordinates = 1, .activations = 1, .tensors = 20, .element_size = 4}, 1);
}

/* Sets of different lengths side by side, and none. */
TEST(manifolds_and_circuits)
{
    const struct sample_shape shapes[] = {
        {.points = 2, .tensors = 1, .element_size = 8, .looks = 3, .coordinates_seen = 7},
        {.points = 1, .tensors = 1, .element_size = 8},
        {.element_size = 4, .looks = 1, .coordinates_seen = 40},
        {.points = 1, .probes = 1, .d = 4, .rank = 1, .element_size = 4, .looks = 2, .coordinates_seen = 1},
    };
    round_trip_shapes(shapes, 4);
    round_trip_shapes(shapes + 2, 1);
}

TEST(no_probe)
{
    round_trip_shapes(&(struct sample_shape){.points = 2, .tensors = 1, .element_size = 8}, 1);
}

TEST(failed_run_with_nothing)
{
    round_trip_shapes(&(struct sample_shape){.element_size = 4, .error = "d_model 65: no multiple of heads \303\251"}, 1);
}

TEST(core_of_rank_zero)
{
    round_trip_shapes(&(struct sample_shape){.points = 3, .probes = 2, .d = 5, .samples = 100, .coordinates = 1,
                      .tensors = 2, .element_size = 4}, 1);
}

TEST(probe_that_found_nothing)
{
    round_trip_shapes(&(struct sample_shape){.points = 3, .probes = 1, .tensors = 2, .element_size = 4}, 1);
}

TEST(runs_of_different_shapes_in_one_tile)
{
    const struct sample_shape shapes[] = {
        {.points = 4, .probes = 1, .d = 8, .rank = 2, .operator_rank = 2, .samples = 30, .coordinates = 1,
         .tensors = 3, .element_size = 4},
        {.points = 9, .probes = 3, .d = 16, .rank = 5, .samples = 10, .tensors = 7, .element_size = 8},
        {.element_size = 4, .error = "no"},
        {.points = 1, .probes = 2, .d = 3, .rank = 3, .operator_rank = 1, .samples = 70, .activations = 1,
         .tensors = 1, .element_size = 4},
    };
    round_trip_shapes(shapes, 4);
}

TEST(random_shapes)
{
    struct stream s = stream_open(11, PURPOSE_PROBE, 1);
    for (int round = 0; round < 25; round++) {
        struct sample_shape shapes[5];
        int count = 1 + (int)stream_below(&s, 5);
        for (int i = 0; i < count; i++) {
            int d = (int)stream_below(&s, 12), rank = d ? (int)stream_below(&s, (uint32_t)d + 1) : 0;
            shapes[i] = (struct sample_shape){
                .points = (int)stream_below(&s, 20), .probes = (int)stream_below(&s, 4), .d = d, .rank = rank,
                .operator_rank = stream_below(&s, 2) ? rank : 0, .samples = (int)stream_below(&s, 300),
                .coordinates = (int)stream_below(&s, 2), .activations = (int)stream_below(&s, 2),
                .tensors = (int)stream_below(&s, 9), .element_size = stream_below(&s, 2) ? 4 : 8,
                .error = stream_below(&s, 3) ? NULL : "it failed"};
        }
        round_trip_shapes(shapes, count);
    }
}

/* Slabs and chunks: the weights of many runs lie in several chunks. */
TEST(many_runs)
{
    enum { RUNS = 300 };
    struct sample_shape *shapes = memory_new(RUNS, sizeof *shapes);
    for (int i = 0; i < RUNS; i++)
        shapes[i] = (struct sample_shape){.points = 5, .probes = 1, .d = 12, .rank = 2, .samples = 9, .coordinates = 1,
                                          .tensors = 20, .element_size = 4};
    struct stream s = stream_open(5, PURPOSE_PROBE, 0);
    struct record *r = memory_new(RUNS, sizeof *r);
    for (int i = 0; i < RUNS; i++)
        r[i] = sample_record(&s, &shapes[i]);
    round_trip(r, RUNS);
    for (int i = 0; i < RUNS; i++)
        record_clear(&r[i]);
    memory_free(r);
    memory_free(shapes);
}

/* ---- damage ---- */

static size_t make_tile(const char *path, char **bytes)
{
    struct stream s = stream_open(3, PURPOSE_PROBE, 0);
    struct record r = sample_record(&s, &(struct sample_shape){.points = 3, .probes = 1, .d = 4, .rank = 2,
                                    .samples = 8, .coordinates = 1, .tensors = 3, .element_size = 4});
    CHECK_OK(tile_write(path, "0123", "name: x\n", &r, 1));
    record_clear(&r);
    size_t n = 0;
    *bytes = text_read_file(path, &n);
    return n;
}

static void expect_corrupt(const char *path, const char *what, size_t at)
{
    struct tile *t;
    enum status s = tile_open(path, &t);
    if (s != STATUS_CORRUPT)
        CHECK_FAIL("%s %zu: %s", what, at, status_name(s));
    if (s == STATUS_OK)
        tile_close(t);
}

TEST(a_cut_at_any_byte_is_detected)
{
    char *path = sample_path("cut.nc"), *bytes;
    size_t n = make_tile(path, &bytes);
    CHECK(n > 5000);
    struct stream s = stream_open(1, PURPOSE_PROBE, 0);
    for (size_t i = 0; i < 1500; i++) {
        size_t cut = i < 500 ? i : i < 1000 ? n - 1 - (i - 500) : stream_below(&s, (uint32_t)n);
        sample_write(path, bytes, cut);
        expect_corrupt(path, "cut at", cut);
    }
    memory_free(bytes);
    unlink(path);
    memory_free(path);
    CHECK_INT(memory_balance(), 0);
}

TEST(a_flipped_bit_is_detected)
{
    char *path = sample_path("flip.nc"), *bytes;
    size_t n = make_tile(path, &bytes);
    struct stream s = stream_open(2, PURPOSE_PROBE, 0);
    for (size_t i = 0; i < 2000; i++) {
        size_t at = i < 200 ? i : i < 400 ? n - 1 - (i - 200) : stream_below(&s, (uint32_t)n);
        char bit = (char)(1 << stream_below(&s, 8));
        bytes[at] = (char)(bytes[at] ^ bit);
        sample_write(path, bytes, n);
        expect_corrupt(path, "flip at", at);
        bytes[at] = (char)(bytes[at] ^ bit);
    }
    sample_write(path, bytes, n);
    struct tile *t = NULL;
    CHECK_OK(tile_open(path, &t));              /* the untouched bytes are good */
    if (t)
        tile_close(t);
    memory_free(bytes);
    unlink(path);
    memory_free(path);
    CHECK_INT(memory_balance(), 0);
}

static void write_foreign(const char *path, const char *note)
{
    struct ncfile *f = NULL;
    CHECK_OK(ncfile_create(path, "a test", &f));
    ncfile_note(f, note);
    CHECK_OK(ncfile_close(f));
}

#define ID "00112233445566778899aabbccddeeff"

/* A tile with a good seal and note, whose content has no variable, or is nothing known. */
static void expect_bad_content(const char *path, int is_netcdf, const char *why)
{
    struct tile *t = NULL;
    struct record r = {0};
    const char *note = "invar tile 2\n" ID " 3\n";
    if (is_netcdf)
        write_foreign(path, note);
    else
        CHECK_OK(seal_write(path, "not NetCDF", 10, note));
    CHECK_OK(tile_open(path, &t));
    if (!t)
        exit(1);
    CHECK_INT(tile_runs(t), 1);
    CHECK_TEXT(tile_run_id(t, 0), ID);
    CHECK_INT(tile_outcome(t, 0), OUTCOME_FAILED);
    CHECK_INT(tile_record(t, 0, &r), STATUS_CORRUPT);
    CHECK_HAS(status_text(), why);
    CHECK_INT(tile_record(t, 0, &r), STATUS_CORRUPT);
    CHECK(!tile_job(t));
    tile_close(t);
}

TEST(other_versions_and_other_files_are_refused)
{
    char *path = sample_path("other.nc");
    struct tile *t;
    write_foreign(path, "invar tile 3\nwhatever that means\n");
    CHECK_INT(tile_open(path, &t), STATUS_VERSION);
    CHECK_HAS(status_text(), path);
    CHECK_HAS(status_text(), "format version 3, this program reads version 2");
    write_foreign(path, "invar tile 12\n");
    CHECK_INT(tile_open(path, &t), STATUS_VERSION);
    const char *const notes[] = {"", "invar", "invar tile 2", "invar tile 2\n", "invar tile 2\nnobody 0\n",
                                 "invar tile 2\n" ID " 4\n", "invar tile 2\n" ID " -1\n", "invar tile 2\n" ID " \n",
                                 "invar tile 2\n" ID "0 0\n", "invar tile 2\n" ID " 0", "invar tile 2\n" ID " 0\nx"};
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        write_foreign(path, notes[i]);
        CHECK_INT(tile_open(path, &t), STATUS_CORRUPT);
    }
    expect_bad_content(path, 1, "its note names other runs");
    expect_bad_content(path, 0, "is no NetCDF file");
    sample_write(path, "", 0);
    CHECK_INT(tile_open(path, &t), STATUS_CORRUPT);
    unlink(path);
    CHECK_INT(tile_open(path, &t), STATUS_IO);
    memory_free(path);
    CHECK_INT(memory_balance(), 0);
}

/* ---- for test_readers.py: the tile at $SAMPLE_TILE and its values, as text, in $SAMPLE_TILE.txt ---- */

static void print_probe(FILE *f, int run, int probe, const struct record_probe *p)
{
    for (int i = 0; i < p->d; i++)
        for (int k = 0; k < p->rank; k++)
            fprintf(f, "core_basis %d,%d,%d,%d %a\n", run, probe, i, k, p->basis[i * p->rank + k]);
    for (int i = 0; p->coordinates && i < p->samples; i++)
        for (int k = 0; k < p->rank; k++)
            fprintf(f, "core_coordinates %d,%d,%d,%d %a\n", run, probe, i, k, p->coordinates[i * p->rank + k]);
    for (int i = 0; i < p->operator_rank; i++)
        for (int part = 0; part < 2; part++)
            fprintf(f, "operator_eigenvalue %d,%d,%d,%d %a\n", run, probe, i, part, p->eigenvalue[2 * i + part]);
    fprintf(f, "core_dim %d,%d %d\noperator_r2 %d,%d %a\n", run, probe, p->core_dim, run, probe, p->r2);
}

static void print_record(FILE *f, int run, const struct record *r)
{
    size_t n = 0;
    fprintf(f, "run_id %d %s\noutcome %d %d\n", run, r->id, run, (int)r->outcome);
    fprintf(f, "steps %d %lld\n", run, (long long)r->steps);
    fprintf(f, "loss_test %d %a\nseed %d %lld\n", run, r->loss_test, run, (long long)r->seed);
    for (int i = 0; i < r->curves.points; i++)
        fprintf(f, "curve_accuracy_test %d,%d %a\n", run, i, r->curves.accuracy_test[i]);
    for (int p = 0; p < r->probes; p++)
        print_probe(f, run, p, &r->probe[p]);
    for (int k = 0; k < r->tensors; k++) {
        fprintf(f, "tensor_name %d,%d %s\n", run, k, r->tensor[k].name);
        n += (size_t)r->tensor[k].rows * (size_t)r->tensor[k].cols;
    }
    for (size_t i = 0; i < n; i++)
        if (r->element_size == 4)
            fprintf(f, "weights %d,%zu %a\n", run, i, (double)((float *)r->weights)[i]);
        else
            fprintf(f, "weights_float64 %d,%zu %a\n", run, i, ((double *)r->weights)[i]);
}

TEST(a_sample_for_other_readers)
{
    const struct sample_shape shapes[] = {
        {.points = 4, .probes = 2, .d = 8, .rank = 2, .operator_rank = 2, .samples = 700, .coordinates = 1,
         .tensors = 3, .element_size = 4},
        {.points = 9, .probes = 1, .d = 16, .rank = 5, .operator_rank = 3, .samples = 10, .coordinates = 1,
         .tensors = 7, .element_size = 8},
        {.element_size = 4, .error = "d_model 65 is no multiple of heads 4 \303\251"},
    };
    const char *path = getenv("SAMPLE_TILE");
    struct stream s = stream_open(9, PURPOSE_PROBE, 0);
    struct record r[3];
    char *text = memory_format("%s.txt", path ? path : "/dev/null");
    FILE *f = path ? fopen(text, "w") : NULL;
    for (int i = 0; i < 3; i++) {
        r[i] = sample_record(&s, &shapes[i]);
        if (f)
            print_record(f, i, &r[i]);
    }
    if (f) {
        CHECK_INT(fclose(f), 0);
        CHECK_OK(tile_write(path, "0123", "name: x\ntask: {stay: 0.75}\n", r, 3));
    }
    for (int i = 0; i < 3; i++)
        record_clear(&r[i]);
    memory_free(text);
    CHECK_INT(memory_balance(), 0);
}
