#include "check.h"

#include "base/memory.h"
#include "base/text.h"
#include "store/ncfile.h"
#include "store/seal.h"

#include <netcdf.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char *scratch(const char *name)
{
    const char *dir = getenv("TMPDIR");
    return memory_format("%s/ncfile-%d-%s", dir ? dir : "/tmp", (int)getpid(), name);
}

static struct ncfile *create(const char *path)
{
    struct ncfile *f = NULL;
    CHECK_OK(ncfile_create(path, "a test", &f));
    return f;
}

static struct ncfile *open_back(const char *path)
{
    struct ncfile *f = NULL;
    CHECK_OK(ncfile_open(path, &f));
    if (!f)
        exit(1);
    return f;
}

static int is_there(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

TEST(values_come_back_and_nan_is_fill)
{
    char *path = scratch("values.nc");
    struct ncfile *f = create(path);
    ncfile_dimension(f, "run", 3);
    ncfile_dimension(f, "component", 2);
    ncfile_variable(f, "run", NCFILE_INT64, "run", "1", "number of the run");
    ncfile_variable(f, "x", NCFILE_DOUBLE, "run component", "1", "a matrix");
    ncfile_variable(f, "y", NCFILE_FLOAT, "run", "s", "floats");
    ncfile_variable(f, "k", NCFILE_INT, "run", "1", "whole numbers");
    ncfile_variable(f, "b", NCFILE_BYTE, "run", "1", "flags");
    ncfile_variable(f, "one", NCFILE_DOUBLE, "", "1", "a scalar");
    ncfile_flags(f, "b", 2, (const char *const[]){"GOOD", "BAD"});
    ncfile_coordinates(f, "x", "y");
    ncfile_attribute_double(f, "x", "tolerance", 0.1);
    ncfile_put_int(f, "run", (const int64_t[]){0, 1, INT64_C(9007199254740993)});
    const double x[6] = {1, NAN, INFINITY, -0.0, 1e-310, -2.5};
    ncfile_put_slab(f, "x", 0, 1, x);
    ncfile_put_slab(f, "x", 1, 2, x + 2);
    ncfile_put_float(f, "y", (const float[]){0.1f, NAN, 3});
    ncfile_put(f, "k", (const double[]){-7, NAN, 7});
    ncfile_put_int(f, "b", (const int64_t[]){0, 1, 0});
    ncfile_put(f, "one", (const double[]){0.1});
    CHECK_OK(ncfile_close(f));

    f = open_back(path);
    size_t n;
    double *back = ncfile_get(f, "x", &n);
    CHECK_INT(n, 6);
    for (int i = 0; i < 6; i++)
        if (i != 1)
            CHECK_BYTES(&back[i], &x[i], sizeof x[i]);
    CHECK(isnan(back[1]));
    double *row = ncfile_get_slab(f, "x", 2, 1, &n), *y = ncfile_get(f, "y", NULL), *k = ncfile_get(f, "k", NULL);
    CHECK_INT(n, 2);
    CHECK_BYTES(row, x + 4, 2 * sizeof *x);
    CHECK_NEAR(y[0], 0.1f, 0);
    CHECK(isnan(y[1]));
    CHECK_NEAR(k[0], -7, 0);
    CHECK(isnan(k[1]));
    int64_t *run = ncfile_get_raw(f, "run", NCFILE_INT64, &n);
    CHECK_INT(run[2], INT64_C(9007199254740993));
    double *one = ncfile_get(f, "one", &n);
    CHECK_INT(n, 1);
    CHECK_NEAR(one[0], 0.1, 0);
    CHECK_TEXT(ncfile_get_attribute(f, NULL, "Conventions"), "CF-1.10");
    CHECK_TEXT(ncfile_get_attribute(f, NULL, "title"), "a test");
    CHECK_TEXT(ncfile_get_attribute(f, "b", "flag_meanings"), "GOOD BAD");
    CHECK_TEXT(ncfile_get_attribute(f, "b", "flag_values"), "0 1");
    CHECK_TEXT(ncfile_get_attribute(f, "x", "tolerance"), "0.1");
    CHECK_TEXT(ncfile_get_attribute(f, "x", "coordinates"), "y");
    CHECK_TEXT(ncfile_get_attribute(f, "run", "_FillValue"), "");
    CHECK_TEXT(ncfile_get_attribute(f, "x", "_FillValue"), "9.969209968386869e+36");
    CHECK_TEXT(ncfile_get_attribute(f, "y", "units"), "s");
    CHECK_INT(ncfile_length(f, "run"), 3);
    CHECK_INT(ncfile_length(f, "nothing"), 0);
    CHECK_INT(ncfile_rank(f, "x"), 2);
    CHECK_TEXT(ncfile_variable_dimension(f, "x", 1, &n), "component");
    CHECK_INT(n, 2);
    CHECK_INT(ncfile_variables(f), 6);
    CHECK_TEXT(ncfile_variable_name(f, 0), "b");
    CHECK_TEXT(ncfile_variable_name(f, 5), "y");
    CHECK_INT(ncfile_has(f, "x"), 1);
    CHECK_INT(ncfile_has(f, "z"), 0);
    CHECK_OK(ncfile_close(f));
    memory_free(back), memory_free(row), memory_free(y), memory_free(k), memory_free(run), memory_free(one);
    unlink(path);
    memory_free(path);
    CHECK_INT(memory_balance(), 0);
}

TEST(large_arrays_are_compressed_and_exact)
{
    enum { ROWS = 50, COLS = 1000 };
    char *path = scratch("large.nc");
    double *x = memory_new(ROWS * COLS, sizeof *x);
    for (size_t i = 0; i < ROWS * COLS; i++)
        x[i] = (double)(i % 17) / 3;
    struct ncfile *f = create(path);
    ncfile_dimension(f, "row", ROWS);
    ncfile_dimension(f, "col", COLS);
    ncfile_variable(f, "x", NCFILE_DOUBLE, "row col", "1", "a matrix");
    for (size_t i = 0; i < ROWS; i += 7)
        ncfile_put_slab(f, "x", i, i + 7 <= ROWS ? 7 : ROWS - i, x + i * COLS);
    CHECK_OK(ncfile_close(f));
    struct stat st = {0};
    stat(path, &st);
    CHECK(st.st_size < ROWS * COLS * 8 / 4);
    f = open_back(path);
    double *back = ncfile_get(f, "x", NULL);
    CHECK_BYTES(back, x, ROWS * COLS * sizeof *x);
    CHECK_OK(ncfile_close(f));
    memory_free(back), memory_free(x);
    unlink(path);
    memory_free(path);
}

TEST(raw_values_keep_every_bit)
{
    char *path = scratch("raw.nc");
    const uint32_t bits[4] = {0x7fc00001u, 0xffc12345u, 0x80000000u, 0x7f800000u};      /* two NaNs, -0, infinity */
    struct ncfile *f = create(path);
    ncfile_dimension(f, "n", 4);
    ncfile_variable(f, "x", NCFILE_FLOAT, "n", "1", "floats");
    ncfile_put_raw(f, "x", bits);
    CHECK_OK(ncfile_close(f));
    f = open_back(path);
    float *back = ncfile_get_raw(f, "x", NCFILE_FLOAT, NULL);
    CHECK_BYTES(back, bits, sizeof bits);
    memory_free(back);
    CHECK(!ncfile_get_raw(f, "x", NCFILE_DOUBLE, NULL));
    CHECK_INT(ncfile_close(f), STATUS_CORRUPT);
    CHECK_HAS(status_text(), "\"x\" has another type");
    unlink(path);
    memory_free(path);
}

TEST(texts_come_back)
{
    char *path = scratch("texts.nc");
    struct ncfile *f = create(path);
    ncfile_dimension(f, "axis", 3);
    ncfile_dimension(f, "none", 0);
    ncfile_text(f, "job", "the job", "name: x\ntask: {stay: 0.75}  # \303\251\n");
    ncfile_text(f, "empty", "nothing", "");
    ncfile_texts(f, "names", "axis", "names", 3, (const char *const[]){"a", "", "longest"});
    ncfile_texts(f, "nobody", "none", "no names", 0, NULL);
    CHECK_OK(ncfile_close(f));
    f = open_back(path);
    char *job = ncfile_get_text(f, "job"), *empty = ncfile_get_text(f, "empty");
    CHECK_TEXT(job, "name: x\ntask: {stay: 0.75}  # \303\251\n");
    CHECK_TEXT(empty, "");
    size_t n;
    char **names = ncfile_get_texts(f, "names", &n);
    CHECK_INT(n, 3);
    CHECK_TEXT(names[0], "a");
    CHECK_TEXT(names[1], "");
    CHECK_TEXT(names[2], "longest");
    for (size_t i = 0; i < n; i++)
        memory_free(names[i]);
    char **nobody = ncfile_get_texts(f, "nobody", &n);
    CHECK_INT(n, 0);
    CHECK_OK(ncfile_close(f));
    memory_free(job), memory_free(empty), memory_free(names), memory_free(nobody);
    unlink(path);
    memory_free(path);
    CHECK_INT(memory_balance(), 0);
}

TEST(first_error_sticks_and_leaves_no_file)
{
    char *path = scratch("sticky.nc");
    struct ncfile *f = create(path);
    ncfile_dimension(f, "n", 2);
    ncfile_variable(f, "x", NCFILE_DOUBLE, "n m", "1", "has no dimension m");
    ncfile_variable(f, "y", NCFILE_DOUBLE, "n", "1", "");
    ncfile_put(f, "z", (const double[]){1, 2});
    CHECK_INT(ncfile_close(f), STATUS_IO);
    CHECK_HAS(status_text(), "variable \"x\": m: ");
    CHECK_HAS(status_text(), path);
    CHECK_INT(is_there(path), 0);

    f = create(path);
    ncfile_variable(f, "k", NCFILE_INT, "", "1", "");
    ncfile_put_int(f, "k", (const int64_t[]){INT64_C(1) << 40});
    CHECK_INT(ncfile_close(f), STATUS_IO);
    CHECK_HAS(status_text(), "value 1099511627776 does not fit");
    CHECK_INT(is_there(path), 0);

    CHECK_INT(ncfile_open(path, &f), STATUS_IO);
    CHECK_HAS(status_text(), "No such file");
    memory_free(path);
    CHECK_INT(memory_balance(), 0);
}

TEST(a_missing_variable_is_named)
{
    char *path = scratch("missing.nc");
    CHECK_OK(ncfile_close(create(path)));
    struct ncfile *f = open_back(path);
    CHECK(!ncfile_get(f, "core_dim", NULL));
    CHECK(!ncfile_get_text(f, "other"));
    CHECK_INT(ncfile_close(f), STATUS_CORRUPT);
    CHECK_HAS(status_text(), "variable \"core_dim\": is not there");
    CHECK_INT(is_there(path), 1);      /* reading never removes */
    unlink(path);
    memory_free(path);
}

TEST(history_time_can_be_pinned)
{
    char *path = scratch("history.nc");
    setenv("SOURCE_DATE_EPOCH", "86400", 1);
    CHECK_OK(ncfile_close(create(path)));
    struct ncfile *f = open_back(path);
    CHECK_HAS(ncfile_get_attribute(f, NULL, "history"), "1970-01-02T00:00:00Z: ");
    CHECK_HAS(ncfile_get_attribute(f, NULL, "history"), "test_ncfile");
    CHECK_OK(ncfile_close(f));
    unlink(path);
    memory_free(path);
}

TEST(a_full_disk_is_said_with_its_reason)
{
    char *path = scratch("full.nc");
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {3000, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    struct ncfile *f = create(path);
    ncfile_dimension(f, "n", 1000);
    ncfile_variable(f, "x", NCFILE_DOUBLE, "n", "1", "");
    CHECK_INT(ncfile_close(f), STATUS_IO);
    CHECK_HAS(status_text(), path);
    CHECK_HAS(status_text(), "File too large");
    CHECK_INT(is_there(path), 0);
    memory_free(path);
    CHECK_INT(memory_balance(), 0);
}

TEST(seal_knows_its_bytes)
{
    char *path = scratch("seal");
    const char content[] = "forty-two bytes of content, more or less..";
    CHECK_OK(seal_write(path, content, sizeof content, "a note"));
    struct sealed back = {0};
    CHECK_OK(seal_read(path, &back));
    CHECK_INT(back.length, sizeof content);
    CHECK_BYTES(back.content, content, sizeof content);
    CHECK_TEXT(back.note, "a note");
    memory_free(back.content);
    CHECK_OK(seal_write(path, content, 0, ""));
    CHECK_OK(seal_read(path, &back));
    CHECK_INT(back.length, 0);
    CHECK_TEXT(back.note, "");
    memory_free(back.content);

    CHECK_OK(seal_write(path, content, sizeof content, "a note"));
    size_t length;
    char *bytes = text_read_file(path, &length);
    CHECK_INT(length, sizeof content + 6 + SEAL_BYTES);
    for (size_t cut = 0; cut < length; cut++) {
        CHECK_INT(truncate(path, (off_t)(length - 1 - cut)), 0);
        CHECK_INT(seal_read(path, &back), STATUS_CORRUPT);
    }
    for (size_t i = 0; i < 8 * length; i++) {
        FILE *f = fopen(path, "wb");
        bytes[i / 8] = (char)(bytes[i / 8] ^ (1 << i % 8));
        fwrite(bytes, 1, length, f);
        fclose(f);
        bytes[i / 8] = (char)(bytes[i / 8] ^ (1 << i % 8));
        CHECK_INT(seal_read(path, &back), STATUS_CORRUPT);
    }
    memory_free(bytes);
    unlink(path);
    CHECK_INT(seal_read(path, &back), STATUS_IO);
    CHECK_INT(seal_read("/", &back), STATUS_CORRUPT);
    memory_free(path);
    CHECK_INT(memory_balance(), 0);
}
