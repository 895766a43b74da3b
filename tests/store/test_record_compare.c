/* What record_compare finds: nothing in equal records, and every single field and array element that was changed alone. */
#include "samples.h"

#include "store/record_code.h"
#include "store/record_compare.h"
#include "store/tile_fields.h"

static const struct sample_shape shape = {.points = 4,
                                          .probes = 2,
                                          .d = 6,
                                          .rank = 3,
                                          .operator_rank = 3,
                                          .samples = 5,
                                          .coordinates = 1,
                                          .activations = 1,
                                          .tensors = 3,
                                          .element_size = 4,
                                          .looks = 2,
                                          .coordinates_seen = 5};

static struct record copy_of(const struct record *r)
{
    struct text bytes = {0};
    struct record copy;
    size_t used;
    record_code_write(&bytes, r);
    CHECK_OK(record_code_read(bytes.s, bytes.length, &copy, &used));
    text_free(&bytes);
    return copy;
}

static struct record sample(int element_size)
{
    struct stream s = stream_open(7, PURPOSE_PROBE, 3);
    struct sample_shape h = shape;
    h.element_size = element_size;
    struct record r = sample_record(&s, &h);
    memset(r.weights, 1, record_code_weights(&r) * (size_t)element_size);
    return r;
}

/* Changes the lowest bit of the element at `p`, compares, changes it back. The line names the variable and the index. */
static void expect_found(const struct record *stored, const struct record *now, void *p, const char *name, int training)
{
    struct text found = {0};
    unsigned char *byte = p;
    *byte ^= 1;
    struct record_differences d = record_compare(stored, now, &found);
    *byte ^= 1;
    CHECK_INT(d.training, training);
    CHECK_INT(d.probes, !training);
    CHECK_HAS(text_string(&found), name);
    CHECK_HAS(text_string(&found), "stored ");
    text_free(&found);
}

static void expect_equal(const struct record *stored, const struct record *now)
{
    struct text found = {0};
    struct record_differences d = record_compare(stored, now, &found);
    CHECK_INT(d.training + d.probes, 0);
    CHECK_TEXT(text_string(&found), "");
    text_free(&found);
}

/* Values that are no NaN, so that the lowest bit counts. */
static void make_plain(double *x, size_t n)
{
    for (size_t i = 0; i < n && x; i++)
        x[i] = 1.5 + (double)i;
}

static void make_all_plain(struct record *r)
{
    for (int k = 0; k < tile_run_fields_count; k++)
        if (tile_run_fields[k].type == NCFILE_DOUBLE)
            make_plain((double *)(void *)((char *)r + tile_run_fields[k].offset), 1);
    make_plain(r->curves.loss_train, 4), make_plain(r->curves.loss_test, 4);
    make_plain(r->curves.accuracy_train, 4), make_plain(r->curves.accuracy_test, 4);
    for (int i = 0; i < r->probes; i++) {
        struct record_probe *p = &r->probe[i];
        for (int k = 0; k < tile_probe_fields_count; k++)
            if (tile_probe_fields[k].type == NCFILE_DOUBLE)
                make_plain((double *)(void *)((char *)p + tile_probe_fields[k].offset), 1);
        for (int k = 0; k < tile_array_fields_count; k++)
            make_plain(*(double **)(void *)((char *)p + tile_array_fields[k].offset),
                       tile_probe_extent(p, tile_array_fields[k].a) * tile_probe_extent(p, tile_array_fields[k].b));
    }
}

TEST(equal_records_are_equal)
{
    struct record a = sample(4), b = copy_of(&a);
    b.wall_time = 77;
    b.restarts = 9;
    expect_equal(&a, &b);
    a.loss_test = NAN;
    b.loss_test = -NAN;
    expect_equal(&a, &b);
    a.probe[0].operator_rank = b.probe[0].operator_rank = 0;       /* no elements: there or not, it is the same */
    memory_free(b.probe[0].eigenvalue);
    b.probe[0].eigenvalue = NULL;
    expect_equal(&a, &b);
    record_clear(&a), record_clear(&b);
    CHECK_INT(memory_balance(), 0);
}

/* Lengths are left alone here: a record whose lengths do not fit its arrays is none. */
static bool is_length(const char *name)
{
    static const char *const lengths[] = {"points", "probes", "tensors", "element_size", "probe_width", "probe_rank",
                                          "probe_operator_rank", "probe_samples", "outcome", "wall_time", "restarts"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        if (!strcmp(name, lengths[i]))
            return true;
    return false;
}

TEST(every_changed_field_is_found)
{
    struct record a = sample(4);
    make_all_plain(&a);
    struct record b = copy_of(&a);
    for (int k = 0; k < tile_run_fields_count; k++)
        if (!is_length(tile_run_fields[k].name))
            expect_found(&a, &b, (char *)&b + tile_run_fields[k].offset, tile_run_fields[k].name, 1);
    for (int k = 0; k < tile_curve_fields_count; k++) {
        char *p = *(char **)(void *)((char *)&b.curves + tile_curve_fields[k].offset);
        char *name = memory_format("%s[3]", tile_curve_fields[k].name);
        expect_found(&a, &b, p + 3 * 8, name, 1);
        memory_free(name);
    }
    for (int k = 0; k < tile_probe_fields_count; k++)
        if (!is_length(tile_probe_fields[k].name))
            expect_found(&a, &b, (char *)&b.probe[1] + tile_probe_fields[k].offset, tile_probe_fields[k].name, 0);
    for (int k = 0; k < tile_array_fields_count; k++) {
        char *p = *(char **)(void *)((char *)&b.probe[1] + tile_array_fields[k].offset);
        char *name = memory_format("probe 1, %s[", tile_array_fields[k].name);
        expect_found(&a, &b, p + 2 * 8, name, 0);
        memory_free(name);
    }
    record_clear(&a), record_clear(&b);
    CHECK_INT(memory_balance(), 0);
}

TEST(every_changed_field_of_the_sets_is_found)
{
    struct record a = sample(4), b;
    for (int i = 0; i < a.coordinates; i++)
        a.coordinate_step[i] = i;
    for (int k = 0; k < RECORD_SETS; k++)
        for (int i = record_sets[k].scalars; i < record_sets[k].fields; i++) {
            const struct set_field *f = &record_sets[k].field[i];
            double *x = record_set_array(f, record_set_at(&record_sets[k], &a, 0));
            if (f->type == NCFILE_DOUBLE)
                x[0] = 0.5;
        }
    b = copy_of(&a);
    expect_equal(&a, &b);
    expect_found(&a, &b, (char *)&b.coordinate_step[2], "coordinate_step[2]", 0);
    for (int k = 0; k < RECORD_SETS; k++)
        for (int i = record_sets[k].scalars; i < record_sets[k].fields; i++) {
            const struct set_field *f = &record_sets[k].field[i];
            char *name = memory_format("%s probe 0, %s", record_sets[k].name, f->name);
            expect_found(&a, &b, record_set_array(f, record_set_at(&record_sets[k], &b, 0)), name, 0);
            memory_free(name);
        }
    b.coordinates--;
    struct text out = {0};
    CHECK_INT(record_compare(&a, &b, &out).probes, 1);
    CHECK_HAS(text_string(&out), "coordinate_step: stored for 5 coordinates, now for 4");
    text_free(&out);
    record_clear(&a), record_clear(&b);
    CHECK_INT(memory_balance(), 0);
}

TEST(a_changed_weight_is_found_with_its_place)
{
    for (int size = 4; size <= 8; size += 4) {
        struct record a = sample(size), b = copy_of(&a);
        const struct record_tensor *t = &b.tensor[1];
        char *place = memory_format("weights of %s[%d, %d]", t->name, t->rows - 1, t->cols - 1);
        size_t last = t->offset + (size_t)t->rows * (size_t)t->cols - 1;
        expect_found(&a, &b, (char *)b.weights + last * (size_t)size, place, 1);
        memory_free(place);
        record_clear(&a), record_clear(&b);
    }
    CHECK_INT(memory_balance(), 0);
}

static void expect_text(const struct record *a, const struct record *b, const char *part)
{
    struct text found = {0};
    record_compare(a, b, &found);
    CHECK_HAS(text_string(&found), part);
    text_free(&found);
}

TEST(other_shapes_are_told)
{
    struct record a = sample(4), b = copy_of(&a);
    a.outcome = OUTCOME_FAILED, b.outcome = OUTCOME_DONE;
    a.error = memory_text("no room");
    expect_text(&a, &b, "outcome: stored \"FAILED\", now \"DONE\"");
    expect_text(&a, &b, "error: stored \"no room\", now \"\"");
    b.curves.points = 3;
    expect_text(&a, &b, "points: stored 4, now 3");
    memory_free(b.probe[0].coordinates);
    b.probe[0].coordinates = NULL;
    expect_text(&a, &b, "probe 0, core_coordinates: stored, but not there now");
    b.tensor[2].rows++;
    expect_text(&a, &b, "tensor 2: stored block2.attention.query.weight [");
    record_clear(&a), record_clear(&b);
    CHECK_INT(memory_balance(), 0);
}
