#include "mpi/run_name.h"

#include <string.h>

/* A choice or truth value by its word. */
static void add_value(struct text *t, const struct key *key, double v, bool json)
{
    if (key->type == KEY_CHOICE)
        text_add(t, json ? "\"%s\"" : "%s", key->words[(int)v]);
    else if (key->type == KEY_BOOL)
        text_add(t, "%s", v != 0 ? "true" : "false");
    else
        text_add_double(t, v);
}

void run_name_add(struct text *t, const struct job *job, size_t run, bool json)
{
    int position[JOB_AXES_MAX], seed;
    job_locate(job, run, position, &seed);
    text_add(t, json ? ", \"seed\": %llu" : "  seed %llu", (unsigned long long)job->seed[seed]);
    for (int a = 0; a < job->axes; a++) {
        text_add(t, json ? ", \"%s\": " : "  %s ", job->axis[a].key->path);
        add_value(t, job->axis[a].key, job->axis[a].value[position[a]], json);
    }
}

static enum status no_such_axis(const struct job *job, const char *word, size_t length)
{
    struct text t = {0};
    for (int a = 0; a < job->axes; a++)
        text_add(&t, ", %s", job->axis[a].key->path);
    enum status s = status_fail(STATUS_USAGE, "\"%.*s\" is no axis of the job; there is seed%s", (int)length, word, text_string(&t));
    text_free(&t);
    return s;
}

/* Numbers by value ("1e-3" is 0.001), words by their letters. */
static bool is_value(const struct key *key, double v, const char *text)
{
    double x;
    if (key->type == KEY_CHOICE || key->type == KEY_BOOL) {
        const char *word = key->type == KEY_CHOICE ? key->words[(int)v] : v != 0 ? "true" : "false";
        return !strcmp(word, text);
    }
    return text_to_double(text, &x) && x == v;
}

enum status run_name_match(const struct job *job, size_t run, const char *word, bool *holds)
{
    size_t n = strcspn(word, "=");
    const char *value = word + n + 1;
    int position[JOB_AXES_MAX], seed;
    job_locate(job, run, position, &seed);
    if (n == 4 && !strncmp(word, "seed", n)) {
        long long s;
        if (!text_to_int(value, &s))
            return status_fail(STATUS_USAGE, "a seed is a whole number, got \"%s\"", value);
        *holds = (uint64_t)s == job->seed[seed];
        return STATUS_OK;
    }
    for (int a = 0; a < job->axes; a++) {
        const struct axis *x = &job->axis[a];
        if (strlen(x->key->path) == n && !strncmp(x->key->path, word, n)) {
            *holds = is_value(x->key, x->value[position[a]], value);
            return STATUS_OK;
        }
    }
    return no_such_axis(job, word, n);
}
