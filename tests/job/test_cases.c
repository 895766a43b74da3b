/* Bad job files: tests/cases/NAME.yaml, with the overrides of NAME.set (one a line) if there is one, must be refused
 * with exactly the complaints of NAME.expected, where "FILE:" before line and column is left out. */
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "job/job.h"

#include "check.h"

#include <dirent.h>

enum { OVERRIDES_MAX = 32, CASES_MIN = 80 };

/* `text` without `prefix` at the beginning of its lines, and with a newline at the end. */
static char *without_prefix(const char *text, const char *prefix)
{
    struct text out = {0};
    size_t n = strlen(prefix);
    while (*text) {
        if (!strncmp(text, prefix, n))
            text += n;
        size_t line = strcspn(text, "\n");
        text_add(&out, "%.*s\n", (int)line, text);
        text += line + (text[line] == '\n');
    }
    return out.s ? out.s : memory_text("");
}

static int split_lines(char *text, const char **line)
{
    int n = 0;
    for (char *p = strtok(text, "\n"); p && n < OVERRIDES_MAX; p = strtok(NULL, "\n"))
        line[n++] = p;
    return n;
}

static void check_case(const char *name)
{
    char path[512], other[512], prefix[520];
    snprintf(path, sizeof path, "tests/cases/%s.yaml", name);
    snprintf(other, sizeof other, "tests/cases/%s.set", name);
    snprintf(prefix, sizeof prefix, "%s:", path);
    char *set = text_read_file(other, NULL);
    const char *overrides[OVERRIDES_MAX];
    int n = set ? split_lines(set, overrides) : 0;
    snprintf(other, sizeof other, "tests/cases/%s.expected", name);
    char *expected = text_read_file(other, NULL);
    if (!expected) {
        CHECK_FAIL("%s is missing", other);
        expected = memory_text("");
    }
    struct job *job = NULL;
    enum status status = job_read(path, overrides, n, &job);
    CHECK_TEXT(status_name(status), "JOB");
    char *got = without_prefix(status_text(), prefix);
    if (strcmp(got, expected))
        CHECK_FAIL("%s:\ngot\n%sexpected\n%s", path, got, expected);
    CHECK(job == NULL);
    memory_free(got);
    memory_free(expected);
    memory_free(set);
}

TEST(every_bad_job_is_refused_with_these_words)
{
    DIR *dir = opendir("tests/cases");
    CHECK(dir != NULL);
    int cases = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t n = strlen(e->d_name);
        if (n < 6 || strcmp(e->d_name + n - 5, ".yaml"))
            continue;
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)(n - 5), e->d_name);
        check_case(name);
        cases++;
    }
    closedir(dir);
    CHECK(cases >= CASES_MIN);
    CHECK_INT(memory_balance(), 0);
}

TEST(a_file_that_is_not_there_is_an_io_error)
{
    struct job *job = NULL;
    CHECK_TEXT(status_name(job_read("tests/cases/no-such-file.yaml", NULL, 0, &job)), "IO");
    CHECK_TEXT(status_text(), "tests/cases/no-such-file.yaml: cannot read the job file: No such file or directory");
}

TEST(more_complaints_than_a_message_holds_are_counted)
{
    struct text t = {0};
    text_add(&t, "name: x\ntrain:\n");
    for (int i = 0; i < 1000; i++)
        text_add(&t, "  nonsense%d: 1\n", i);
    struct job *job = NULL;
    CHECK_TEXT(status_name(job_parse(text_string(&t), "x.yaml", NULL, 0, &job)), "JOB");
    CHECK(strlen(status_text()) < STATUS_TEXT_MAX);
    int lines = 1;
    for (const char *p = status_text(); *p; p++)
        lines += *p == '\n';
    const char *last = strrchr(status_text(), '\n');
    int more = 0;
    CHECK(last && sscanf(last, "\nand %d more", &more) == 1);
    CHECK_INT(lines - 1 + more, 1000);
    text_free(&t);
    CHECK_INT(memory_balance(), 0);
}

/* No text may crash the reader: a good job with one byte changed, here and there. Returns how many were refused. */
static int damage(char *text, size_t n, size_t every)
{
    int refused = 0;
    for (size_t cut = 0; cut < n; cut += every) {
        char kept = text[cut];
        const char odd[] = {'\0', '\t', '[', '"', ':', '&', '\x80', '%', '{', '.', '_'};
        for (size_t i = 0; i < sizeof odd; i++) {
            text[cut] = odd[i];
            struct job *job = NULL;
            if (job_parse(text, "x.yaml", NULL, 0, &job) == STATUS_OK)
                job_free(job);
            else {
                refused++;
                CHECK(strlen(status_text()) > 0);
            }
        }
        text[cut] = kept;
    }
    return refused;
}

TEST(damaged_files_are_read_or_refused)
{
    size_t n;
    char *text = text_read_file("jobs/markov-cores.yaml", &n);
    CHECK(text != NULL);
    CHECK(damage(text, n, 7) > 100);
    memory_free(text);
    CHECK_INT(memory_balance(), 0);
}

TEST(damaged_names_are_read_or_refused)
{
    char text[] = "name: x\ntask: {kind: blocklist, expectation: patterns}\n"
                  "model: {kind: manifold, layers: 3, heads: 1, coordinates: \"alpha_1 beta_12, gamma_2 gamma_3\"}\n"
                  "init: {scheme: coordinates, coordinates: {alpha_1: 0.3, gamma_2: 1}}\ninit.coordinates.gamma_3: 1e-3\n"
                  "axes: {init.coordinates.beta_12: {from: 0, to: 1, points: 5}, init: {coordinates: {}}}\n"
                  "refine: {levels: 1, by: outcome}\n";
    struct job *job = NULL;
    CHECK_OK(job_parse(text, "x.yaml", NULL, 0, &job));
    job_free(job);
    CHECK(damage(text, sizeof text - 1, 1) > 1000);
    CHECK_INT(memory_balance(), 0);
}
