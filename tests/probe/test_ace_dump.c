/* test_ace_dump DIR: runs the parts of the probe on raw arrays for tests/probe/test_ace_numpy.py (native doubles and
 * 64-bit integers).
 *     DIR/core.in      d; cov [d][d]; obs [d][d]               DIR/core.out      weight [d]; basis [d][d]
 *     DIR/operator.in  sequences, length, r; z [s][l][r]       DIR/operator.out  matrix [r][r]; eigenvalue [r][2]; r2
 * Without DIR it only checks that it can do so. */
#define CHECK_NO_MAIN
#include "check.h"

#include "base/memory.h"
#include "base/text.h"
#include "probe/ace.h"

#include <stdint.h>

static void *read_input(const char *dir, const char *name)
{
    char *path = memory_format("%s/%s", dir, name);
    size_t length;
    char *bytes = text_read_file(path, &length);
    if (!bytes)
        CHECK_FAIL("%s: cannot read", path);
    memory_free(path);
    return bytes;
}

static void write_output(const char *dir, const char *name, size_t n, const double *values)
{
    char *path = memory_format("%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(values, sizeof *values, n, f) != n || fclose(f))
        CHECK_FAIL("%s: cannot write", path);
    memory_free(path);
}

static void run_core(const char *dir)
{
    int64_t *in = read_input(dir, "core.in");
    if (!in)
        return;
    size_t d = (size_t)in[0];
    const double *cov = (const double *)(in + 1);
    double *out = memory_new(d + d * d, sizeof *out);
    CHECK_OK(ace_core((int)d, cov, cov + d * d, out, out + d));
    write_output(dir, "core.out", d + d * d, out);
    memory_free(out);
    memory_free(in);
}

static void run_operator(const char *dir)
{
    int64_t *in = read_input(dir, "operator.in");
    if (!in)
        return;
    size_t r = (size_t)in[2], n = r * r + 2 * r + 1;
    double *out = memory_new(n, sizeof *out);
    CHECK_OK(ace_operator((size_t)in[0], (int)in[1], (int)r, (const double *)(in + 3), out, (double(*)[2])(out + r * r),
                          out + n - 1));
    write_output(dir, "operator.out", n, out);
    memory_free(out);
    memory_free(in);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        const double one = 1;
        double weight, basis;
        CHECK_OK(ace_core(1, &one, &one, &weight, &basis));
        return check_report("dump_of_the_probe_is_ready");
    }
    run_core(argv[1]);
    run_operator(argv[1]);
    return check_report("dump_of_the_probe");
}
