/* same_job.h: whether two jobs are the same; include after check.h. */
#ifndef INVAR_TESTS_SAME_JOB_H
#define INVAR_TESTS_SAME_JOB_H

#include "base/status.h"
#include "job/job.h"

#include <stdbool.h>

static bool same_named(const struct key_named *a, const struct key_named *b)
{
    bool same = a->count == b->count;
    for (int i = 0; i < a->count && same; i++)
        same = !strcmp(a->item[i].name, b->item[i].name) && !memcmp(&a->item[i].value, &b->item[i].value, sizeof(double));
    return same;
}

static bool same_value(const struct key *k, const struct spec *a, const struct spec *b)
{
    const char *p = (const char *)a + k->offset, *q = (const char *)b + k->offset;
    if (k->type == KEY_LIST)
        return !memcmp(p, q, sizeof(struct key_list));
    if (k->type == KEY_STRING)
        return !strcmp(p, q);
    if (k->type == KEY_NAMED)
        return same_named((const struct key_named *)p, (const struct key_named *)q);
    if (k->type == KEY_REAL)
        return !memcmp(p, q, sizeof(double));
    if (k->type == KEY_INT)
        return !memcmp(p, q, sizeof(int64_t));
    return key_get(a, k) == key_get(b, k);
}

static bool same_text(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

static void check_same(const struct job *a, const struct job *b)
{
    CHECK_TEXT(b->name, a->name);
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++)
        if (!same_value(k, &a->spec, &b->spec))
            CHECK_FAIL("%s differs after printing and reading", k->path);
    CHECK_INT(b->axes, a->axes);
    for (int i = 0; i < a->axes && i < b->axes; i++) {
        CHECK_TEXT(b->axis[i].key->path, a->axis[i].key->path);
        CHECK_INT(b->axis[i].key->offset, a->axis[i].key->offset);
        CHECK(b->axis[i].key->of == a->axis[i].key->of);
        CHECK_INT(b->axis[i].count, a->axis[i].count);
        CHECK_INT(b->axis[i].log_scale, a->axis[i].log_scale);
        if (a->axis[i].count == b->axis[i].count)
            CHECK_BYTES(a->axis[i].value, b->axis[i].value, (size_t)a->axis[i].count * sizeof(double));
    }
    CHECK_INT(b->seeds, a->seeds);
    if (a->seeds == b->seeds)
        CHECK_BYTES(a->seed, b->seed, (size_t)a->seeds * sizeof(uint64_t));
    CHECK_INT(b->claims, a->claims);
    for (int i = 0; i < a->claims && i < b->claims; i++) {
        CHECK_TEXT(b->claim[i].text, a->claim[i].text);
        CHECK(same_text(a->claim[i].says, b->claim[i].says));
        CHECK(same_text(a->claim[i].source, b->claim[i].source));
    }
}

static struct job *must_parse(const char *text)
{
    struct job *job = NULL;
    if (job_parse(text, "x.yaml", NULL, 0, &job) != STATUS_OK) {
        CHECK_FAIL("%s\n%s", status_text(), text);
        exit(1);
    }
    return job;
}

#endif
