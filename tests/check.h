/* check.h: tests. Each test runs in a process of its own under a time limit; checks are alive in release builds and
 * print both values. Output is one line a test, "ok NAME" or "not ok NAME", read by tests/all.
 *
 *     #include "check.h"
 *     TEST(add_is_commutative) { CHECK_INT(2 + 3, 3 + 2); }
 *
 * MPI tests are plain programs: their first line says at which rank counts they run ("// ranks: 1 2 3 7"), main()
 * calls CHECK... and ends with `return check_report("name")` on every rank (rank 0 prints).
 */
#ifndef INVAR_TESTS_CHECK_H
#define INVAR_TESTS_CHECK_H

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CHECK_SECONDS
#define CHECK_SECONDS 120
#endif

/* Sanitized code is some twenty times slower: sweeps for numbers, not memory, may be thinned out by this. */
#ifdef __SANITIZE_ADDRESS__
#define CHECK_SANITIZED 1
#else
#define CHECK_SANITIZED 0
#endif

static int check_failures;

#define CHECK_FAIL(...)                                            \
    do {                                                           \
        check_failures++;                                          \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);            \
        fprintf(stderr, __VA_ARGS__);                              \
        fputc('\n', stderr);                                       \
    } while (0)

#define CHECK(condition)                                           \
    do {                                                           \
        if (!(condition))                                          \
            CHECK_FAIL("does not hold: %s", #condition);           \
    } while (0)

#define CHECK_INT(got, expected)                                                                        \
    do {                                                                                                \
        long long check_g = (long long)(got), check_e = (long long)(expected);                          \
        if (check_g != check_e)                                                                         \
            CHECK_FAIL("%s is %lld, expected %s = %lld", #got, check_g, #expected, check_e);            \
    } while (0)

/* |got - expected| <= tolerance; NaN never passes. */
#define CHECK_NEAR(got, expected, tolerance)                                                            \
    do {                                                                                                \
        double check_g = (double)(got), check_e = (double)(expected), check_t = (double)(tolerance);    \
        if (!(fabs(check_g - check_e) <= check_t))                                                      \
            CHECK_FAIL("%s is %.17g, expected %.17g +- %.3g", #got, check_g, check_e, check_t);         \
    } while (0)

#define CHECK_TEXT(got, expected)                                                                       \
    do {                                                                                                \
        const char *check_g = (got), *check_e = (expected);                                             \
        if (!check_g || !check_e || strcmp(check_g, check_e))                                           \
            CHECK_FAIL("%s is \"%s\", expected \"%s\"", #got, check_g ? check_g : "(null)",             \
                       check_e ? check_e : "(null)");                                                   \
    } while (0)

/* `text` contains `part`. */
#define CHECK_HAS(text, part)                                                                           \
    do {                                                                                                \
        const char *check_g = (text), *check_e = (part);                                                \
        if (!check_g || !strstr(check_g, check_e))                                                      \
            CHECK_FAIL("no \"%s\" in: %s", check_e, check_g ? check_g : "(null)");                      \
    } while (0)

#define CHECK_BYTES(a, b, n)                                                                            \
    do {                                                                                                \
        if (memcmp((a), (b), (n)))                                                                      \
            CHECK_FAIL("%s and %s differ within %zu bytes", #a, #b, (size_t)(n));                       \
    } while (0)

/* A status is OK; prints the message otherwise (base/status.h must be included). */
#define CHECK_OK(call)                                                                                  \
    do {                                                                                                \
        enum status check_s = (call);                                                                   \
        if (check_s != STATUS_OK)                                                                       \
            CHECK_FAIL("%s: %s: %s", #call, status_name(check_s), status_text());                       \
    } while (0)

static inline int check_report(const char *name)
{
    printf("%s %s\n", check_failures ? "not ok" : "ok", name);
    fflush(stdout);
    return check_failures != 0;
}

#define CHECK_TESTS_MAX 200
struct check_test { const char *name; void (*run)(void); };
static struct check_test check_tests[CHECK_TESTS_MAX] __attribute__((unused));
static int check_count __attribute__((unused));

#define TEST(test)                                                                                      \
    static void test_##test(void);                                                                      \
    __attribute__((constructor)) static void add_##test(void)                                           \
    {                                                                                                   \
        if (check_count == CHECK_TESTS_MAX)                                                             \
            abort();                                                                                    \
        check_tests[check_count++] = (struct check_test){#test, test_##test};                           \
    }                                                                                                   \
    static void test_##test(void)

#ifndef CHECK_NO_MAIN
/* Runs all tests, or those named on the command line. */
int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 0; i < check_count; i++) {
        int wanted = argc < 2;
        for (int k = 1; k < argc; k++)
            wanted |= !strcmp(argv[k], check_tests[i].name);
        if (!wanted)
            continue;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            alarm(CHECK_SECONDS);
            check_tests[i].run();
            fflush(NULL);
            exit(check_failures != 0);     /* exit, not _exit: the leak checker runs */
        }
        int how = 0;
        waitpid(child, &how, 0);
        if (WIFSIGNALED(how))
            fprintf(stderr, "%s: ended by signal %d%s\n", check_tests[i].name, WTERMSIG(how),
                    WTERMSIG(how) == SIGALRM ? " (time limit)" : "");
        int ok = WIFEXITED(how) && WEXITSTATUS(how) == 0;
        failed += !ok;
        printf("%s %s\n", ok ? "ok" : "not ok", check_tests[i].name);
    }
    return failed != 0;
}
#endif

#endif
