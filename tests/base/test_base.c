/* Memory, text, status, log, hash, float mode. */
#include "base/float_mode.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/stream.h"
#include "base/text.h"
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>

/* ---- memory ---- */

TEST(memory_is_zeroed_aligned_and_balanced)
{
    long before = memory_balance();
    for (size_t n = 0; n < 300; n += 37) {
        unsigned char *p = memory_new(n, 3);
        CHECK_INT((uintptr_t)p % MEMORY_ALIGN, 0);
        for (size_t i = 0; i < 3 * n; i++)
            CHECK_INT(p[i], 0);
        memset(p, 255, 3 * n);
        CHECK_INT(memory_balance(), before + 1);
        memory_free(p);
    }
    memory_free(NULL);
    CHECK_INT(memory_balance(), before);
}

TEST(memory_grows_with_zeros)
{
    int *p = memory_grow(NULL, 0, 3, sizeof *p);
    for (int i = 0; i < 3; i++)
        p[i] = i + 1;
    p = memory_grow(p, 3, 1000, sizeof *p);
    for (int i = 0; i < 1000; i++)
        CHECK_INT(p[i], i < 3 ? i + 1 : 0);
    char *s = memory_format("%d and %s", 7, "eight"), *copy = memory_text(s);
    CHECK_TEXT(copy, "7 and eight");
    memory_free(s);
    memory_free(copy);
    memory_free(p);
    CHECK_INT(memory_balance(), 0);
}

TEST(arena_frees_everything_at_once)
{
    struct arena *a = arena_new();
    char *first = arena_text(a, "kept");
    for (size_t i = 1; i < 2000; i++) {
        char *p = arena_take(a, i, 11);
        CHECK_INT((uintptr_t)p % MEMORY_ALIGN, 0);
        CHECK(p[0] == 0 && p[11 * i - 1] == 0);
        memset(p, 1, 11 * i);
    }
    CHECK_TEXT(first, "kept");
    CHECK(arena_bytes(a) >= 11u * 2000 * 1999 / 2);
    arena_free(a);
    arena_free(NULL);
    CHECK_INT(memory_balance(), 0);
}

/* Asking for the impossible ends the process with exit code 3 and a message. */
static int exit_code_of(size_t count, size_t size, char *said, size_t room)
{
    int pipes[2], how;
    if (pipe(pipes))
        return -1;
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 2);
        memory_new(count, size);
        _exit(0);
    }
    close(pipes[1]);
    ssize_t n = read(pipes[0], said, room - 1);
    said[n > 0 ? n : 0] = '\0';
    close(pipes[0]);
    waitpid(child, &how, 0);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

TEST(memory_that_is_not_there_ends_the_process)
{
    char said[400];
    CHECK_INT(exit_code_of(SIZE_MAX / 4, 8, said, sizeof said), 3);      /* the product overflows */
    CHECK_HAS(said, "out of memory");
#ifndef __SANITIZE_ADDRESS__             /* that checker stops such a call itself */
    CHECK_INT(exit_code_of((size_t)1 << 62, 1, said, sizeof said), 3);
    CHECK_HAS(said, "4611686018427387904 x 1 bytes");
#endif
}

/* ---- text ---- */

TEST(edit_distance)
{
    static const struct { const char *a, *b; int distance; } cases[] = {
        {"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"weight_decay", "weight_decay", 0}, {"weigth_decay", "weight_decay", 1},
        {"wieght_dcay", "weight_decay", 2}, {"kitten", "sitting", 3}, {"lr", "rl", 1}, {"ab", "cd", 2}, {"batch", "bach", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_INT(text_distance(cases[i].a, cases[i].b), cases[i].distance);
        CHECK_INT(text_distance(cases[i].b, cases[i].a), cases[i].distance);
    }
}

static void check_double(double x, const char *expected)
{
    struct text t = {0};
    text_add_double(&t, x);
    double back;
    CHECK(text_to_double(text_string(&t), &back) && back == x);
    if (expected)
        CHECK_TEXT(text_string(&t), expected);
    text_free(&t);
}

TEST(doubles_read_back_exactly_and_shortly)
{
    check_double(0.1, "0.1");
    check_double(1.0, "1");
    check_double(-2.5, "-2.5");
    check_double(1e-8, "1e-08");
    check_double(0.1 + 0.2, "0.30000000000000004");
    check_double(5e-324, NULL);
    check_double(1.7976931348623157e308, "1.7976931348623157e+308");
    struct stream s = stream_open(1, PURPOSE_PROBE, 0);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = stream_u64(&s);
        double x;
        memcpy(&x, &bits, sizeof x);
        if (isfinite(x))
            check_double(x, NULL);
    }
    CHECK_INT(memory_balance(), 0);
}

TEST(json_and_xml_escapes)
{
    struct text t = {0};
    text_add_json(&t, "a \"quoted\" \\ line\nwith\ttabs \x01 and \xc3\xa9");
    CHECK_TEXT(text_string(&t), "\"a \\\"quoted\\\" \\\\ line\\u000awith\\u0009tabs \\u0001 and \xc3\xa9\"");
    text_free(&t);
    text_add_xml(&t, "<a href=\"x\">R&D</a>");
    CHECK_TEXT(text_string(&t), "&lt;a href=&quot;x&quot;&gt;R&amp;D&lt;/a&gt;");
    text_free(&t);
    CHECK_TEXT(text_string(&t), "");
}

TEST(text_grows)
{
    struct text t = {0};
    for (int i = 0; i < 5000; i++)
        text_add(&t, "%d,", i % 10);
    CHECK_INT(t.length, 10000);
    CHECK_INT(strlen(t.s), 10000);
    CHECK_INT(t.s[9998], '9');
    text_add_bytes(&t, "a\0b", 3);
    CHECK_INT(t.length, 10003);
    text_free(&t);
    CHECK_INT(memory_balance(), 0);
}

TEST(numbers_must_fill_the_text)
{
    long long i = -1;
    double d = -1.0;
    CHECK(text_to_int("-12", &i) && i == -12);
    CHECK(text_to_int("9223372036854775807", &i) && i == INT64_MAX);
    CHECK(!text_to_int("9223372036854775808", &i) && !text_to_int("1e3", &i) && !text_to_int("", &i) &&
          !text_to_int("3 ", &i) && !text_to_int(" 3", &i) && !text_to_int("x", &i));
    CHECK(text_to_double("1e-3", &d) && d == 1e-3);
    CHECK(!text_to_double("nan", &d) && !text_to_double("inf", &d) && !text_to_double("1e999", &d) &&
          !text_to_double("1.0x", &d) && !text_to_double(" 1", &d) && !text_to_double("0x10", &d) && !text_to_double("", &d));
    CHECK(d == 1e-3 && i == INT64_MAX);      /* untouched by what is no number */
}

TEST(whole_files_are_read)
{
    char *path = memory_format("%s/invar-text-%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
    size_t n = 200001, got = 0;
    char *bytes = memory_new(n, 1);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(i * 7);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
    char *read = text_read_file(path, &got);
    CHECK_INT(got, n);
    CHECK(read && !memcmp(read, bytes, n) && read[n] == '\0');
    memory_free(read);
    f = fopen(path, "wb");
    CHECK(f && fclose(f) == 0);
    read = text_read_file(path, &got);
    CHECK_TEXT(read, "");
    CHECK_INT(got, 0);
    remove(path);
    errno = 0;
    CHECK(text_read_file(path, &got) == NULL);
    CHECK_INT(errno, ENOENT);
    memory_free(read);
    memory_free(bytes);
    memory_free(path);
    CHECK_INT(memory_balance(), 0);
}

/* ---- status ---- */

TEST(status_texts_nest_and_are_cut)
{
    CHECK_INT(status_fail(STATUS_IO, "%s: cannot open: %s", "a.nc", "no such file"), STATUS_IO);
    CHECK_TEXT(status_text(), "a.nc: cannot open: no such file");
    CHECK_INT(status_context(STATUS_IO, "run %d", 3), STATUS_IO);
    CHECK_TEXT(status_text(), "run 3: a.nc: cannot open: no such file");
    status_fail(STATUS_JOB, "again: %s", status_text());
    CHECK_TEXT(status_text(), "again: run 3: a.nc: cannot open: no such file");
    char *much = memory_new(10000, 1);
    memset(much, 'x', 9999);
    status_fail(STATUS_IO, "%s", much);
    CHECK_INT(strlen(status_text()), STATUS_TEXT_MAX - 1);
    status_context(STATUS_IO, "run 4");
    CHECK(!strncmp(status_text(), "run 4: xxx", 10));
    CHECK_INT(strlen(status_text()), STATUS_TEXT_MAX - 1);
    memory_free(much);
}

TEST(status_exit_codes)
{
    static const struct { enum status s; const char *name; int code; } cases[] = {
        {STATUS_OK, "OK", 0}, {STATUS_RUNS_FAILED, "RUNS_FAILED", 1}, {STATUS_USAGE, "USAGE", 2}, {STATUS_JOB, "JOB", 2},
        {STATUS_IO, "IO", 3}, {STATUS_LOCKED, "LOCKED", 3}, {STATUS_STOPPED, "STOPPED", 75}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_TEXT(status_name(cases[i].s), cases[i].name);
        CHECK_INT(status_exit_code(cases[i].s), cases[i].code);
        CHECK(status_meaning(cases[i].s)[0] != '\0');
    }
}

static void *fail_elsewhere(void *seen)
{
    *(int *)seen = status_text()[0] != '\0';
    status_fail(STATUS_IO, "of the other thread");
    return NULL;
}

TEST(status_text_belongs_to_the_thread)
{
    status_fail(STATUS_JOB, "of this thread");
    pthread_t thread;
    int seen = -1;
    CHECK_INT(pthread_create(&thread, NULL, fail_elsewhere, &seen), 0);
    pthread_join(thread, NULL);
    CHECK_INT(seen, 0);
    CHECK_TEXT(status_text(), "of this thread");
}

/* ---- log ---- */

static int count_of(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

TEST(log_repeats_nothing_without_bound)
{
    const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    char *path = memory_format("%s/invar-log-%d", dir, (int)getpid()), *shown = memory_format("%s-stderr", path);
    int keep = dup(2), to = open(shown, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(to, 2);
    CHECK(log_file(path));
    log_who("rank 3");
    for (int i = 0; i < 1000; i++)
        log_line(LOG_WARNING, "the same %s", "thing");
    log_line(LOG_DETAIL, "a detail");
    log_line(LOG_ERROR, "another thing");
    log_threshold(LOG_WARNING);
    log_line(LOG_INFO, "quiet on the terminal");
    log_finish();
    fflush(stderr);
    dup2(keep, 2);
    close(keep);
    close(to);
    size_t n;
    char *file = text_read_file(path, &n), *screen = text_read_file(shown, &n);
    CHECK_INT(count_of(file, "rank 3: warning: the same thing"), LOG_REPEATS);
    CHECK_INT(count_of(file, "(1000 times) the same thing"), 1);
    CHECK_INT(count_of(file, "error: another thing"), 1);
    CHECK_INT(count_of(file, "a detail"), 0);
    CHECK_INT(count_of(file, "quiet on the terminal"), 1);
    CHECK_INT(count_of(screen, "invar: rank 3: warning: the same thing"), LOG_REPEATS);
    CHECK_INT(count_of(screen, "(said 5 times; not again)"), 1);
    CHECK_INT(count_of(screen, "quiet on the terminal"), 0);
    CHECK(!log_file("/nowhere/at/all/log.txt"));
    remove(path);
    remove(shown);
    memory_free(file);
    memory_free(screen);
    memory_free(path);
    memory_free(shown);
}

/* ---- hash ---- */

TEST(hash_known_answer_and_sensitivity)
{
    char text[HASH_TEXT];
    hash_print(hash_bytes("", 0), text);
    CHECK_TEXT(text, "99aa06d3014798d86001c324468d497f");        /* XXH3-128 of no bytes, as xxhsum -H2 prints it */
    unsigned char bytes[1000] = {0};
    struct hash h = hash_bytes(bytes, sizeof bytes);
    CHECK(hash_equal(h, hash_bytes(bytes, sizeof bytes)));
    CHECK(!hash_equal(h, hash_bytes(bytes, sizeof bytes - 1)));
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 1;
        CHECK(!hash_equal(h, hash_bytes(bytes, sizeof bytes)));
        bytes[i] ^= 1;
    }
}

/* ---- float mode ---- */

static double half_of(double x)
{
    volatile double y = x;
    y = y * 0.5;
    return y;
}

TEST(subnormals_are_flushed_and_the_mode_comes_back)
{
    double smallest = 0x1p-1022;
    float smallest_float = 0x1p-126f;
    CHECK(!float_mode_flushes());
    CHECK(half_of(smallest) > 0.0);
    uint64_t before = float_mode_flush();
#if defined(__x86_64__) || defined(__aarch64__)
    CHECK(float_mode_flushes());
#endif
    if (float_mode_flushes()) {
        volatile float x = smallest_float;
        x = x * 0.5f;
        CHECK(x == 0.0f);
        CHECK(half_of(smallest) == 0.0);
        CHECK(half_of(5e-324) + smallest == smallest);
    }
    CHECK(half_of(2.0 * smallest) == smallest);
    float_mode_restore(before);
    CHECK(!float_mode_flushes());
    CHECK(half_of(smallest) == 0x1p-1023);
}
