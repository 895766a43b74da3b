#include "base/text.h"

#include "base/memory.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reserve(struct text *t, size_t extra)
{
    if (t->length + extra + 1 <= t->capacity)
        return;
    size_t capacity = 2 * (t->length + extra + 32);
    t->s = memory_grow(t->s, t->length, capacity, 1);
    t->capacity = capacity;
}

void text_add_list(struct text *t, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n > 0) {
        reserve(t, (size_t)n);
        vsnprintf(t->s + t->length, (size_t)n + 1, format, again);
        t->length += (size_t)n;
    }
    va_end(again);
}

void text_add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_add_list(t, format, args);
    va_end(args);
}

void text_add_bytes(struct text *t, const void *bytes, size_t n)
{
    reserve(t, n);
    memcpy(t->s + t->length, bytes, n);
    t->length += n;
    t->s[t->length] = '\0';
}

void text_add_json(struct text *t, const char *s)
{
    text_add_bytes(t, "\"", 1);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            text_add(t, "\\%c", c);
        else if (c < 0x20)
            text_add(t, "\\u%04x", c);
        else
            text_add_bytes(t, s, 1);
    }
    text_add_bytes(t, "\"", 1);
}

void text_add_xml(struct text *t, const char *s)
{
    for (; *s; s++)
        switch (*s) {
        case '<': text_add(t, "&lt;"); break;
        case '>': text_add(t, "&gt;"); break;
        case '&': text_add(t, "&amp;"); break;
        case '"': text_add(t, "&quot;"); break;
        default: text_add_bytes(t, s, 1);
        }
}

const char *text_string(const struct text *t) { return t->s ? t->s : ""; }

void text_free(struct text *t)
{
    memory_free(t->s);
    *t = (struct text){0};
}

void text_add_double(struct text *t, double x)
{
    char s[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, x);
        if (strtod(s, NULL) == x || x != x)
            break;
    }
    text_add(t, "%s", s);
}

int text_distance(const char *a, const char *b)
{
    enum { MAX = 96 };
    int na = (int)strlen(a), nb = (int)strlen(b), row[3][MAX + 1];
    if (na > MAX || nb > MAX)
        return MAX;
    int *before = row[0], *last = row[1], *now = row[2];
    for (int j = 0; j <= nb; j++)
        last[j] = j;
    for (int i = 1; i <= na; i++) {
        now[0] = i;
        for (int j = 1; j <= nb; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
        int *t = before;
        before = last;
        last = now;
        now = t;
    }
    return last[nb];
}

int text_to_int(const char *s, long long *out)
{
    char *end;
    if (s[strspn(s, "+-0123456789")])
        return 0;                      /* strtoll would skip blanks */
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (end == s || *end || errno)
        return 0;
    *out = v;
    return 1;
}

int text_to_double(const char *s, double *out)
{
    char *end;
    if (s[strspn(s, "+-.0123456789eE")])
        return 0;                      /* strtod takes blanks, hexadecimal, inf and nan too */
    double v = strtod(s, &end);
    if (end == s || *end || !isfinite(v))
        return 0;
    *out = v;
    return 1;
}

char *text_read_file(const char *path, size_t *length)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    struct text t = {0};
    char buffer[65536];
    size_t n;
    while ((n = fread(buffer, 1, sizeof buffer, f)) > 0)
        text_add_bytes(&t, buffer, n);
    if (ferror(f)) {
        text_free(&t);
        errno = EIO;
    }
    else
        text_add_bytes(&t, "", 0);
    fclose(f);
    if (length)
        *length = t.length;
    return t.s;
}
