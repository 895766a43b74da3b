#include "job/kinds.h"
#include "job/rules_private.h"
#include "job/value.h"

#include <ctype.h>
#include <string.h>

static int number_of(const char *path) { return (int)(key_find(path) - key_at(0)); }

/* ---- the points of the axes ---- */

static void add_axis(struct rule_walk *w, const struct axis *axis)
{
    for (int i = 0; i < w->axes; i++)
        if (w->axis[i] == axis)
            return;                          /* `reads` may name a key twice */
    w->axis[w->axes++] = axis;
}

/* Axes over numbers of a NAMED key are no part of it: rules look at which names there are, not at their numbers. */
bool rule_walk_begin(struct rule_walk *w, const char *const *reads, const struct rule_scope *scope, struct spec *s)
{
    *w = (struct rule_walk){0};
    for (; *reads; reads++) {
        int k = number_of(*reads);
        if (scope->bad[k])
            return false;
        for (int a = 0; a < scope->axes; a++)
            if (scope->axis[a].key == key_at(k))
                add_axis(w, &scope->axis[a]);
    }
    for (int a = 0; a < w->axes; a++)
        key_set(s, w->axis[a]->key, w->axis[a]->value[0]);
    return true;
}

bool rule_walk_next(struct rule_walk *w, struct spec *s)
{
    for (int a = w->axes - 1; a >= 0; a--) {
        bool more = ++w->at[a] < w->axis[a]->count;
        if (!more)
            w->at[a] = 0;
        key_set(s, w->axis[a]->key, w->axis[a]->value[w->at[a]]);
        if (more)
            return true;
    }
    return false;
}

/* ---- complaints ---- */

/* Where `path` stands in the text as a whole word, or NULL. */
static const char *find_path(const char *text, const char *path)
{
    size_t n = strlen(path);
    for (const char *at = text; (at = strstr(at, path)); at += n) {
        bool begins = at == text || (!isalnum((unsigned char)at[-1]) && !strchr("._", at[-1]));
        bool ends = !isalnum((unsigned char)at[n]) && at[n] != '_' && !(at[n] == '.' && isalpha((unsigned char)at[n + 1]));
        if (begins && ends)
            return at;
    }
    return NULL;
}

struct place rule_place(const char *const *reads, const struct rule_scope *scope, const char *why)
{
    struct place first = {0}, named = {0};
    const char *earliest = NULL;
    for (; *reads; reads++) {
        struct place p = scope->place[number_of(*reads)];
        const char *at = why ? find_path(why, *reads) : NULL;
        if (p.line && !first.line)
            first = p;
        if (p.line && at && (!earliest || at < earliest)) {
            earliest = at;
            named = p;
        }
    }
    return named.line ? named : first.line ? first : (struct place){0, 1, 1};
}

void rule_complain(const struct rule_walk *w, const struct spec *s, struct place where, const char *why, struct complaints *c)
{
    struct text point = {0};
    for (int i = 0; i < w->axes; i++) {
        text_add(&point, "%s%s = ", i ? ", " : " (at ", w->axis[i]->key->path);
        value_print_number(w->axis[i]->key, key_get(s, w->axis[i]->key), &point);
    }
    complaint_add(c, where, "%s%s%s", why, text_string(&point), w->axes ? ")" : "");
    text_free(&point);
}

/* ---- all rules ---- */

/* Up to the first point at which it is broken. */
static void check(const struct rule *r, const struct rule_scope *scope, struct spec *s, struct complaints *c)
{
    struct rule_walk walk;
    if (!rule_walk_begin(&walk, r->reads, scope, s))
        return;
    bool holds;
    do {
        struct text why = {0};
        holds = r->holds(s, &why);
        if (!holds) {
            struct place where = rule_place(r->reads, scope, r->at_named ? text_string(&why) : NULL);
            rule_complain(&walk, s, where, text_string(&why), c);
        }
        text_free(&why);
    } while (holds && rule_walk_next(&walk, s));
}

static void check_list(const struct rule *rules, const struct rule_scope *scope, struct complaints *c)
{
    struct spec *s = memory_new(1, sizeof *s);
    for (; rules->holds; rules++) {
        *s = *scope->spec;
        check(rules, scope, s, c);
    }
    memory_free(s);
}

/* Keys that were given though no run of the job reads them. */
static void refuse_foreign_keys(const struct rule_scope *scope, struct complaints *c)
{
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++)
        if (kinds_decides(k) && scope->bad[i])
            return;
    for (int i = 0; (k = key_at(i)); i++) {
        const struct key *by = kinds_decided_by(scope->spec, k);
        if (scope->place[i].line && by && !kinds_any_reads(scope->spec, scope->axis, scope->axes, k))
            complaint_add(c, scope->place[i], "%s is not read where %s is %s: leave it out", k->path, by->path,
                          by->words[(int)key_get(scope->spec, by)]);
    }
}

void rules_check(const struct rule_scope *scope, struct complaints *c)
{
    refuse_foreign_keys(scope, c);
    check_list(rules_of_model, scope, c);
    check_list(rules_of_task, scope, c);
    check_list(rules_of_results, scope, c);
    rules_check_names(scope, c);
    rules_check_refinement(scope, c);
}
