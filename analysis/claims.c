#include "analysis/claims.h"

#include "analysis/values.h"
#include "base/memory.h"
#include "base/text.h"
#include "job/outcome.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The files in which names are looked up, in this order. */
static const char *const file_names[] = {"runs.nc", "cross_run.nc", "phase_map.nc"};
enum { FILES = sizeof file_names / sizeof file_names[0] };

struct scope {
    struct ncfile *file[FILES];      /* NULL: not there */
    struct arena *arena;             /* of the claim that is being judged */
    char *why;                       /* why it has no value; NULL while it has */
};

static struct values *unknown(struct scope *s, char *why)
{
    if (s->why)
        memory_free(why);
    else
        s->why = why;
    return NULL;
}

/* ---- names ---- */

/* The file that has this variable of numbers, or NULL. */
static struct ncfile *file_of(const struct scope *s, const char *name)
{
    for (int i = 0; i < FILES; i++)
        if (s->file[i] && ncfile_has(s->file[i], name) && !*ncfile_get_attribute(s->file[i], name, "_Encoding"))
            return s->file[i];
    return NULL;
}

/* Number of `word` in a blank-separated list, or -1. */
static int word_number(const char *list, const char *word)
{
    size_t length = strlen(word);
    int n = 0;
    for (const char *p = list; *p; n++) {
        size_t k = strcspn(p, " ");
        if (k == length && !strncmp(p, word, k))
            return n;
        p += k;
        p += strspn(p, " ");
    }
    return -1;
}

/* The first variable with flags under a node, or NULL. */
static const char *flagged_variable(const struct scope *s, const struct claim_node *node)
{
    if (!node)
        return NULL;
    struct ncfile *f = node->kind == CLAIM_NAME ? file_of(s, node->name) : NULL;
    if (f && *ncfile_get_attribute(f, node->name, "flag_meanings"))
        return node->name;
    const char *found = flagged_variable(s, node->a);
    return found ? found : flagged_variable(s, node->b);
}

/* The value of a flag's word: of the variable that it is compared with, else an outcome; -1 when it is none. */
static int flag_value(const struct scope *s, const char *word, const char *compared_with)
{
    if (compared_with) {
        int n = word_number(ncfile_get_attribute(file_of(s, compared_with), compared_with, "flag_meanings"), word);
        if (n >= 0)
            return n;
    }
    for (int o = 0; o < OUTCOME_COUNT; o++)
        if (!strcmp(word, outcome_name((enum outcome)o)))
            return o;
    return -1;
}

/* The dimension that an index looks along: the components, or the last one that is neither runs nor parts of a complex
 * number. */
static int indexed_dimension(const struct values *v)
{
    int found = values_dimension(v, "component");
    for (int i = v->rank - 1; i >= 0 && found < 0; i--)
        if (strcmp(v->dim[i], "run") && strcmp(v->dim[i], "run_other") && strcmp(v->dim[i], "part"))
            found = i;
    return found;
}

/* The component of this name; its names are in a variable coordinate_name of the file. */
static struct values *by_label(struct scope *s, struct ncfile *f, const struct claim_node *node, const struct values *v)
{
    int d = values_dimension(v, "direction"), found = -1;
    if (d < 0 || !ncfile_has(f, "coordinate_name"))
        return unknown(s, memory_format("\"%s\" has no components with names: leave out [%s]", node->name, node->label));
    size_t n;
    char **name = ncfile_get_texts(f, "coordinate_name", &n);
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(name[i], node->label))
            found = (int)i;
        memory_free(name[i]);
    }
    memory_free(name);
    if (found < 0 || (size_t)found >= v->length[d])
        return unknown(s, memory_format("no coordinate is named %s", node->label));
    return values_at(s->arena, v, d, (size_t)found);
}

static struct values *look_up(struct scope *s, const struct claim_node *node, const char *compared_with)
{
    struct ncfile *f = file_of(s, node->name);
    if (!f) {
        int word = flag_value(s, node->name, compared_with);
        if (word >= 0 && node->index < 0)
            return values_number(s->arena, word);
        return unknown(s, memory_format("no variable \"%s\" in runs.nc%s%s", node->name,
                                        s->file[1] ? ", cross_run.nc" : "", s->file[2] ? ", phase_map.nc" : ""));
    }
    struct values *v = values_load(s->arena, f, node->name);
    if (!v)
        return unknown(s, memory_format("\"%s\" cannot be read", node->name));
    if (node->label)
        return by_label(s, f, node, v);
    if (node->index < 0)
        return v;
    int d = indexed_dimension(v);
    if (d < 0)
        return unknown(s, memory_format("\"%s\" has no components: leave out [%d]", node->name, node->index));
    if ((size_t)node->index >= v->length[d])
        return unknown(s, memory_format("\"%s\" has components 0 to %zu", node->name, v->length[d] - 1));
    return values_at(s->arena, v, d, (size_t)node->index);
}

/* ---- arithmetic ---- */

static double add(double x, double y) { return x + y; }
static double subtract(double x, double y) { return x - y; }
static double multiply(double x, double y) { return x * y; }
static double divide(double x, double y) { return x / y; }
static double magnitude(double x, double y) { return fabs(x) + y; }
static double logarithm(double x, double y) { return x > 0 ? log(x) + y : (double)NAN; }
static double truth(int holds, double x, double y) { return isnan(x) || isnan(y) ? (double)NAN : (double)holds; }
static double equal(double x, double y) { return truth(x == y, x, y); }
static double differ(double x, double y) { return truth(x != y, x, y); }
static double less(double x, double y) { return truth(x < y, x, y); }
static double at_most(double x, double y) { return truth(x <= y, x, y); }
static double more(double x, double y) { return truth(x > y, x, y); }
static double at_least(double x, double y) { return truth(x >= y, x, y); }
/* One part that does not hold is enough, also where another has no value. */
static double both(double x, double y) { return x == 0 || y == 0 ? 0 : isnan(x) ? x : y; }

static values_function *const functions[] = {
    [CLAIM_ADD] = add, [CLAIM_SUBTRACT] = subtract, [CLAIM_MULTIPLY] = multiply, [CLAIM_DIVIDE] = divide,
    [CLAIM_EQ] = equal, [CLAIM_NE] = differ, [CLAIM_LT] = less, [CLAIM_LE] = at_most, [CLAIM_GT] = more,
    [CLAIM_GE] = at_least, [CLAIM_AND] = both,
};

static bool is_comparison(const struct claim_node *node) { return node->kind >= CLAIM_EQ && node->kind <= CLAIM_GE; }

static struct values *evaluate(struct scope *s, const struct claim_node *node, const char *compared_with);

static struct values *call(struct scope *s, const struct claim_node *node)
{
    struct values *v = evaluate(s, node->a, NULL);
    if (!v)
        return NULL;
    if (!strcmp(node->name, "abs"))
        return values_combine(s->arena, v, values_number(s->arena, 0), magnitude);
    if (!strcmp(node->name, "log"))
        return values_combine(s->arena, v, values_number(s->arena, 0), logarithm);
    if (!strcmp(node->name, "slope")) {
        struct values *x = evaluate(s, node->b, NULL);
        return x ? values_slope(s->arena, v, x) : NULL;
    }
    struct values *r = values_reduce(s->arena, v, node->name);
    return r ? r : unknown(s, memory_format("no function \"%s\"", node->name));
}

/* NULL with s->why when a name has no value at all. */
static struct values *evaluate(struct scope *s, const struct claim_node *node, const char *compared_with)
{
    if (node->kind == CLAIM_NUMBER)
        return values_number(s->arena, node->number);
    if (node->kind == CLAIM_NAME)
        return look_up(s, node, compared_with);
    if (node->kind == CLAIM_CALL)
        return call(s, node);
    if (is_comparison(node))
        compared_with = flagged_variable(s, node);
    struct values *x = evaluate(s, node->a, compared_with);
    if (node->kind == CLAIM_NEGATE)
        return x ? values_combine(s->arena, values_number(s->arena, 0), x, subtract) : NULL;
    struct values *y = x ? evaluate(s, node->b, compared_with) : NULL;
    struct values *r = y ? values_combine(s->arena, x, y, functions[node->kind]) : NULL;
    return r || s->why ? r : unknown(s, memory_text("too many dimensions meet"));
}

/* ---- what was measured ---- */

/* Whether a side of a comparison is measured, not given. */
static bool varies(const struct scope *s, const struct claim_node *node)
{
    if (!node)
        return false;
    return (node->kind == CLAIM_NAME && file_of(s, node->name)) || varies(s, node->a) || varies(s, node->b);
}

/* The leftmost comparison with a measured side. */
static const struct claim_node *telling(const struct scope *s, const struct claim_node *node)
{
    if (node->kind != CLAIM_AND)
        return is_comparison(node) && varies(s, node) ? node : NULL;
    const struct claim_node *left = telling(s, node->a);
    return left ? left : telling(s, node->b);
}

/* "7 DONE, 1 DIVERGED": how often each word of a flag occurs. */
static void describe_words(const char *words, const struct values *v, struct text *t)
{
    int n = 0, said = 0;
    for (const char *p = words; *p; n++) {
        size_t length = strcspn(p, " "), often = 0;
        for (size_t i = 0; i < v->count; i++)
            often += v->x[i] == n;
        if (often)
            text_add(t, "%s%zu %.*s", said++ ? ", " : "", often, (int)length, p);
        p += length;
        p += strspn(p, " ");
    }
}

static void add_number(struct text *t, double x, int digits)
{
    if (x == floor(x) && fabs(x) < 1e9)
        text_add(t, "%.0f", x);
    else
        text_add(t, "%.*g", digits, x);
}

static void describe_side(struct scope *s, const struct claim_node *side, int digits, struct text *t)
{
    struct values *v = evaluate(s, side, NULL);
    if (!v)
        return;
    const char *flag = side->kind == CLAIM_NAME ? flagged_variable(s, side) : NULL;
    if (flag) {
        describe_words(ncfile_get_attribute(file_of(s, flag), flag, "flag_meanings"), v, t);
        return;
    }
    const struct values *low = values_reduce(s->arena, v, "min"), *high = values_reduce(s->arena, v, "max");
    add_number(t, low->x[0], digits);
    if (v->rank > 0) {
        text_add(t, " .. ");
        add_number(t, high->x[0], digits);
    }
}

/* Runs or pairs that have a value at all. */
static size_t places_with_value(const struct values *v, int run, int other)
{
    size_t others = other < 0 ? 1 : v->length[other], inner = 1, run_stride = 1, other_stride = 1, n = 0;
    for (int d = v->rank - 1; d >= 0; d--) {
        run_stride = d == run ? inner : run_stride;
        other_stride = d == other ? inner : other_stride;
        inner *= v->length[d];
    }
    char *seen = memory_new(v->length[run] * others + 1, 1);
    for (size_t i = 0; i < v->count; i++) {
        size_t at = i / run_stride % v->length[run] * others + (other < 0 ? 0 : i / other_stride % others);
        if (isfinite(v->x[i]) && !seen[at]) {
            seen[at] = 1;
            n++;
        }
    }
    memory_free(seen);
    return n;
}

static size_t failures(const struct values *judged)
{
    size_t n = 0;
    for (size_t i = 0; i < judged->count; i++)
        n += judged->x[i] == 0;
    return n;
}

/* " over 8 runs", " over 6 of 8 runs", " over 84 values of 28 pairs", and ", not in 2" where it fails. */
static void describe_extent(const struct values *judged, struct text *t)
{
    if (judged->rank == 0)
        return;
    int run = values_dimension(judged, "run"), other = values_dimension(judged, "run_other");
    size_t finite = values_finite(judged);
    if (run < 0) {
        text_add(t, " over %zu values", finite);
        goto out;
    }
    size_t n = places_with_value(judged, run, other), all = judged->length[run];
    if (other >= 0)
        all = all * (all - 1) / 2;
    text_add(t, " over ");
    if (judged->rank > (other < 0 ? 1 : 2))
        text_add(t, "%zu values of ", finite);
    text_add(t, "%zu ", n);
    if (n < all)
        text_add(t, "of %zu ", all);
    text_add(t, other < 0 ? "run%s" : "pair%s", all == 1 ? "" : "s");
out:
    if (failures(judged))
        text_add(t, ", not in %zu", failures(judged));
}

static char *describe(struct scope *s, const struct claim *claim, const struct values *judged, enum verdict verdict)
{
    const struct claim_node *node = telling(s, claim->tree);
    struct text t = {0};
    int digits = verdict == CLAIM_HOLDS ? 4 : 6;
    if (!node)
        text_add(&t, "nothing is measured");
    else {
        bool left = varies(s, node->a);
        describe_side(s, left ? node->a : node->b, digits, &t);
        if (left && varies(s, node->b)) {
            text_add(&t, " against ");
            describe_side(s, node->b, digits, &t);
        }
        describe_extent(judged, &t);
    }
    char *text = memory_text(text_string(&t));
    text_free(&t);
    return text;
}

/* ---- verdicts ---- */

static enum verdict verdict_of(const struct values *v)
{
    if (values_finite(v) == 0)
        return CLAIM_UNKNOWN;
    for (size_t i = 0; i < v->count; i++)
        if (v->x[i] == 0)
            return CLAIM_FAILS;
    return CLAIM_HOLDS;
}

/* Which names stand in the claim, for the reason why it has no value. */
static void add_names(const struct claim_node *node, struct text *t)
{
    if (!node)
        return;
    if (node->kind == CLAIM_NAME)
        text_add(t, "%s%s", t->length ? ", " : "", node->name);
    add_names(node->a, t);
    add_names(node->b, t);
}

static char *no_value(const struct claim *claim)
{
    struct text t = {0};
    add_names(claim->tree, &t);
    char *why = memory_format("no finite value of %s", text_string(&t));
    text_free(&t);
    return why;
}

static void judge(struct scope *s, const struct claim *claim, struct judged *j)
{
    s->arena = arena_new();
    s->why = NULL;
    j->claim = claim;
    const struct values *v = evaluate(s, claim->tree, NULL);
    j->verdict = v ? verdict_of(v) : CLAIM_UNKNOWN;
    if (!v)
        j->measured = s->why;
    else
        j->measured = j->verdict == CLAIM_UNKNOWN ? no_value(claim) : describe(s, claim, v, j->verdict);
    arena_free(s->arena);
}

/* cross_run.nc and phase_map.nc are there only where the job has pairs or axes. */
static enum status open_files(const char *dir, struct scope *s)
{
    enum status status = STATUS_OK;
    for (int i = 0; i < FILES && status == STATUS_OK; i++) {
        char *path = memory_format("%s/%s", dir, file_names[i]);
        if (i == 0 || access(path, F_OK) == 0)
            status = ncfile_open(path, &s->file[i]);
        memory_free(path);
    }
    return status;
}

enum status claims_judge(const char *dir, const struct job *job, struct judged *judged)
{
    struct scope s = {.file = {NULL}};
    enum status status = open_files(dir, &s);
    for (int i = 0; i < job->claims && status == STATUS_OK; i++)
        judge(&s, &job->claim[i], &judged[i]);
    for (int i = 0; i < FILES; i++) {
        enum status closed = s.file[i] ? ncfile_close(s.file[i]) : STATUS_OK;
        if (status == STATUS_OK)
            status = closed;
    }
    return status;
}

void claims_clear(struct judged *judged, int n)
{
    for (int i = 0; i < n; i++) {
        memory_free(judged[i].measured);
        judged[i] = (struct judged){0};
    }
}

/* ---- the table ---- */

static const char *const verdict_words[] = {
    [CLAIM_HOLDS] = "holds", [CLAIM_FAILS] = "FAILS", [CLAIM_UNKNOWN] = "unknown"};

/* Characters of a UTF-8 text. */
static int width(const char *s)
{
    int n = 0;
    for (; *s; s++)
        n += (*s & 0xC0) != 0x80;
    return n;
}

static void add_cell(struct text *t, const char *s, int column)
{
    int blanks = column - width(s);
    text_add(t, "%s%*s", s, blanks > 0 ? blanks : 0, "");
}

char *claims_print(const struct judged *judged, int n)
{
    struct text t = {0};
    int claim = width("claim"), holding = 0;
    for (int i = 0; i < n; i++)
        claim = width(judged[i].claim->text) > claim ? width(judged[i].claim->text) : claim;
    if (n > 0) {
        add_cell(&t, "", 9);
        add_cell(&t, "claim", claim + 2);
        text_add(&t, "measured\n");
    }
    for (int i = 0; i < n; i++) {
        add_cell(&t, verdict_words[judged[i].verdict], 9);
        add_cell(&t, judged[i].claim->text, claim + 2);
        text_add(&t, "%s\n", judged[i].measured);
        holding += judged[i].verdict == CLAIM_HOLDS;
    }
    if (n > 0)
        text_add(&t, "%d of %d claim%s hold%s\n", holding, n, n == 1 ? "" : "s", n == 1 ? "s" : "");
    char *table = memory_text(text_string(&t));
    text_free(&t);
    return table;
}
