#include "job/value.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_MAX 9007199254740992.0      /* 2^53: doubles hold every whole number up to here */

enum syntax { NO_NUMBER, WHOLE_NUMBER, REAL_NUMBER };

/* What strtod takes is more than a job file should hold (hexadecimal, inf, nan, leading zeros). */
static enum syntax syntax_of(const char *s)
{
    if (*s == '-' || *s == '+')
        s++;
    size_t whole = strspn(s, "0123456789"), part = 0;
    if (whole > 1 && *s == '0')
        return NO_NUMBER;
    enum syntax found = WHOLE_NUMBER;
    s += whole;
    if (*s == '.') {
        found = REAL_NUMBER;
        part = strspn(++s, "0123456789");
        s += part;
    }
    if (whole + part == 0)
        return NO_NUMBER;
    if (*s == 'e' || *s == 'E') {
        found = REAL_NUMBER;
        s++;
        s += *s == '-' || *s == '+';
        size_t digits = strspn(s, "0123456789");
        if (!digits)
            return NO_NUMBER;
        s += digits;
    }
    return *s ? NO_NUMBER : found;
}

bool value_is_real(const struct tree *t, double *out)
{
    double v;
    if (t->kind != TREE_SCALAR || !t->plain || !syntax_of(t->text) || !text_to_double(t->text, &v))
        return false;
    *out = v + 0.0;      /* -0 becomes 0: they are one value and must have one run id */
    return true;
}

bool value_is_whole(const struct tree *t, int64_t *out)
{
    if (t->kind != TREE_SCALAR || !t->plain)
        return false;
    enum syntax syntax = syntax_of(t->text);
    long long whole;
    if (syntax == WHOLE_NUMBER && text_to_int(t->text, &whole)) {
        *out = whole;
        return true;
    }
    double v;            /* 1e6 is a whole number, 1.0 is meant to be a real one */
    if (syntax != REAL_NUMBER || strchr(t->text, '.') || !text_to_double(t->text, &v) || v != floor(v) ||
        fabs(v) > EXACT_MAX)
        return false;
    *out = (int64_t)v;
    return true;
}

/* Whole values without an exponent where people would write none: 30, not 3e+01. */
static void add_double(struct text *out, double x)
{
    if (x == floor(x) && fabs(x) < 1e9)
        text_add(out, "%.0f", x);
    else
        text_add_double(out, x);
}

/* ---- what is expected ---- */

static void add_range(const struct key *k, struct text *out)
{
    if (k->max >= 0x1p62)
        text_add(out, " of at least ");
    else
        text_add(out, " from ");
    add_double(out, k->min);
    if (k->max < 0x1p62) {
        text_add(out, " to ");
        add_double(out, k->max);
    }
}

static void add_words(const struct key *k, struct text *out)
{
    for (int i = 0; i < k->words_count; i++)
        text_add(out, "%s%s", i ? ", " : "", k->words[i]);
}

static bool takes_end(const struct key *k) { return k->type == KEY_LIST && k->min < 0.0; }

static void add_type(const struct key *k, bool range, struct text *out)
{
    switch (k->type) {
    case KEY_INT: text_add(out, "whole number"); break;
    case KEY_REAL: text_add(out, "number"); break;
    case KEY_BOOL: text_add(out, "true or false"); return;
    case KEY_CHOICE:
        text_add(out, k->words_count > 1 ? "one of " : "");
        add_words(k, out);
        return;
    case KEY_LIST: text_add(out, "whole number, or a list of them,"); break;
    case KEY_STRING: text_add(out, "text"); return;
    case KEY_NAMED: text_add(out, "numbers by name, {name: number, ...}"); return;
    }
    if (range)
        add_range(k, out);
    if (takes_end(k))
        text_add(out, " or end");
}

void value_expected(const struct key *k, struct text *out) { add_type(k, true, out); }

static void complain(const struct key *k, const struct tree *t, bool range, struct complaints *c)
{
    struct text what = {0};
    if (k->type == KEY_INT || k->type == KEY_REAL || k->type == KEY_STRING)
        text_add(&what, "a ");
    if (k->type == KEY_LIST) {          /* the complaint is about one element */
        text_add(&what, "a whole number");
        if (range)
            add_range(k, &what);
        if (takes_end(k))
            text_add(&what, " or end");
    }
    else
        add_type(k, range, &what);
    const char *hint = "";
    if (t->kind == TREE_LIST && k->of_run && k->type != KEY_NAMED)
        hint = " (several values make an axis: write them under axes)";
    else if (t->kind == TREE_SCALAR && !t->plain && syntax_of(t->text) && k->type != KEY_CHOICE)
        hint = " in quotes, which make it a text";
    else if (t->kind == TREE_SCALAR && k->type != KEY_CHOICE && k->type != KEY_BOOL &&
             isdigit((unsigned char)*t->text) && !syntax_of(t->text))
        hint = " (plain decimal digits only)";
    if (t->kind == TREE_NULL)
        complaint_add(c, t->place, "%s has no value: expected %s", k->path, text_string(&what));
    else
        complaint_add(c, t->place, "%s: expected %s, got %s%s", k->path, text_string(&what),
                      tree_describe(c->arena, t), hint);
    text_free(&what);
}

/* ---- reading ---- */

static bool read_whole(const struct key *k, const struct tree *t, int64_t *out, struct complaints *c)
{
    int64_t v = -1;
    bool end = takes_end(k) && t->kind == TREE_SCALAR && !strcmp(t->text, "end");
    if (!end && !value_is_whole(t, &v)) {
        bool too_long = t->kind == TREE_SCALAR && t->plain && syntax_of(t->text) == WHOLE_NUMBER;
        complain(k, t, too_long, c);
        return false;
    }
    if ((double)v < k->min || (double)v > k->max) {
        complain(k, t, true, c);
        return false;
    }
    *out = v;
    return true;
}

static bool read_real(const struct key *k, const struct tree *t, double *out, struct complaints *c)
{
    double v;
    if (!value_is_real(t, &v)) {
        bool too_big = t->kind == TREE_SCALAR && t->plain && syntax_of(t->text) != NO_NUMBER;
        complain(k, t, too_big, c);
        return false;
    }
    if (v < k->min || v > k->max) {
        complain(k, t, true, c);
        return false;
    }
    *out = v;
    return true;
}

static bool read_bool(const struct key *k, const struct tree *t, bool *out, struct complaints *c)
{
    bool yes = t->kind == TREE_SCALAR && t->plain && !strcmp(t->text, "true");
    if (!yes && !(t->kind == TREE_SCALAR && t->plain && !strcmp(t->text, "false"))) {
        complain(k, t, false, c);
        return false;
    }
    *out = yes;
    return true;
}

static bool read_choice(const struct key *k, const struct tree *t, int *out, struct complaints *c)
{
    if (t->kind != TREE_SCALAR) {
        complain(k, t, false, c);
        return false;
    }
    int nearest = 0, least = INT_MAX;
    for (int i = 0; i < k->words_count; i++) {
        int d = text_distance(t->text, k->words[i]);
        if (d < least) {
            least = d;
            nearest = i;
        }
    }
    if (least == 0) {
        *out = nearest;
        return true;
    }
    struct text words = {0};
    add_words(k, &words);
    const char *got = tree_describe(c->arena, t), *one_of = k->words_count > 1 ? "one of " : "";
    if (least <= 1 + (int)strlen(k->words[nearest]) / 3)
        complaint_add(c, t->place, "%s: expected %s%s; got %s (did you mean \"%s\"?)", k->path, one_of,
                      text_string(&words), got, k->words[nearest]);
    else
        complaint_add(c, t->place, "%s: expected %s%s; got %s", k->path, one_of, text_string(&words), got);
    text_free(&words);
    return false;
}

static bool read_list(const struct key *k, const struct tree *t, struct key_list *out, struct complaints *c)
{
    struct key_list list = {0};
    if (t->kind != TREE_LIST) {
        if (!read_whole(k, t, &list.value[0], c))
            return false;
        list.count = 1;
        *out = list;
        return true;
    }
    if (t->count > KEY_LIST_MAX) {
        complaint_add(c, t->place, "%s: a list of at most %d numbers, got %d", k->path, KEY_LIST_MAX, t->count);
        return false;
    }
    bool ok = true;
    for (int i = 0; i < t->count; i++)
        ok &= read_whole(k, t->item[i], &list.value[i], c);
    list.count = t->count;
    if (ok)
        *out = list;
    return ok;
}

static bool read_text(const struct key *k, const struct tree *t, char *out, struct complaints *c)
{
    if (t->kind != TREE_SCALAR) {
        complain(k, t, false, c);
        return false;
    }
    size_t n = strlen(t->text);
    if (n >= KEY_TEXT) {
        complaint_add(c, t->place, "%s: a text of at most %d bytes, got %zu", k->path, KEY_TEXT - 1, n);
        return false;
    }
    memset(out, 0, KEY_TEXT);
    memcpy(out, t->text, n);
    return true;
}

/* The numbers themselves are read one by one, as keys of their own. */
static bool read_named(const struct key *k, const struct tree *t, struct complaints *c)
{
    if (t->kind == TREE_MAP)
        return true;
    complain(k, t, false, c);
    return false;
}

bool value_read(const struct key *k, const struct tree *t, struct spec *s, struct complaints *c)
{
    void *p = (char *)s + k->offset;
    switch (k->type) {
    case KEY_INT: return read_whole(k, t, p, c);
    case KEY_REAL: return read_real(k, t, p, c);
    case KEY_BOOL: return read_bool(k, t, p, c);
    case KEY_CHOICE: return read_choice(k, t, p, c);
    case KEY_LIST: return read_list(k, t, p, c);
    case KEY_STRING: return read_text(k, t, p, c);
    case KEY_NAMED: return read_named(k, t, c);
    }
    assert(!"unknown type of key");
    return false;
}

bool value_number(const struct key *k, const struct tree *t, double *out, struct complaints *c)
{
    int64_t whole;
    bool truth;
    int choice;
    switch (k->type) {
    case KEY_INT:
        if (!read_whole(k, t, &whole, c))
            return false;
        if (whole > (int64_t)EXACT_MAX || whole < -(int64_t)EXACT_MAX) {
            complaint_add(c, t->place, "%s: values of an axis go to 2^53 = %.0f, got %s", k->path, EXACT_MAX, t->text);
            return false;
        }
        *out = (double)whole;
        return true;
    case KEY_REAL: return read_real(k, t, out, c);
    case KEY_BOOL:
        if (!read_bool(k, t, &truth, c))
            return false;
        *out = truth;
        return true;
    case KEY_CHOICE:
        if (!read_choice(k, t, &choice, c))
            return false;
        *out = choice;
        return true;
    default:
        assert(!"no scalar key");
        return false;
    }
}

/* ---- printing ---- */

void value_print_number(const struct key *k, double value, struct text *out)
{
    switch (k->type) {
    case KEY_INT: text_add(out, "%lld", (long long)value); break;
    case KEY_BOOL: text_add(out, "%s", value != 0.0 ? "true" : "false"); break;
    case KEY_CHOICE: text_add(out, "%s", k->words[(int)value]); break;
    default: add_double(out, value);
    }
}

static void print_list(const struct key *k, const struct key_list *list, struct text *out)
{
    text_add(out, "[");
    for (int i = 0; i < list->count; i++) {
        const char *comma = i ? ", " : "";
        if (takes_end(k) && k->max > 0x1p62 && list->value[i] == -1)
            text_add(out, "%send", comma);       /* steps: -1 has no other meaning */
        else
            text_add(out, "%s%lld", comma, (long long)list->value[i]);
    }
    text_add(out, "]");
}

void value_print_named(const struct key_named *n, const bool *left_out, struct text *out)
{
    const char *comma = "";
    text_add(out, "{");
    for (int i = 0; i < n->count; i++)
        if (!left_out || !left_out[i]) {
            text_add(out, "%s%s: ", comma, n->item[i].name);
            add_double(out, n->item[i].value);
            comma = ", ";
        }
    text_add(out, "}");
}

void value_print(const struct key *k, const struct spec *s, struct text *out)
{
    const void *p = (const char *)s + k->offset;
    switch (k->type) {
    case KEY_INT: text_add(out, "%lld", (long long)*(const int64_t *)p); break;
    case KEY_LIST: print_list(k, p, out); break;
    case KEY_STRING: text_add_json(out, p); break;
    case KEY_NAMED: value_print_named(p, NULL, out); break;
    default: value_print_number(k, key_get(s, k), out);
    }
}
