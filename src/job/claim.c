#include "job/claim.h"

#include "base/memory.h"
#include "base/text.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Recursive descent, one function per line of the grammar. After the first fault every function returns NULL and the
 * fault stands. */
enum { DEPTH_MAX = 64, LENGTH_MAX = 2000 };

struct parser {
    const char *text, *at;
    int depth;
    bool failed;
    int column;
};

static const char *const functions[] = {"min", "max", "mean", "median", "std", "count", "share", "abs", "log", "slope"};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

static void free_tree(struct claim_node *n)
{
    if (!n)
        return;
    free_tree(n->a);
    free_tree(n->b);
    memory_free(n->name);
    memory_free(n->label);
    memory_free(n);
}

static struct claim_node *new_node(enum claim_kind kind, struct claim_node *a, struct claim_node *b)
{
    struct claim_node *n = memory_new(1, sizeof *n);
    n->kind = kind;
    n->index = -1;
    n->a = a;
    n->b = b;
    return n;
}

static struct claim_node *copy_tree(const struct claim_node *n)
{
    if (!n)
        return NULL;
    struct claim_node *c = new_node(n->kind, copy_tree(n->a), copy_tree(n->b));
    c->number = n->number;
    c->index = n->index;
    c->name = n->name ? memory_text(n->name) : NULL;
    c->label = n->label ? memory_text(n->label) : NULL;
    return c;
}

__attribute__((format(printf, 3, 4)))
static struct claim_node *fail(struct parser *p, const char *where, const char *format, ...)
{
    if (p->failed)
        return NULL;
    struct text t = {0};
    va_list args;
    va_start(args, format);
    text_add_list(&t, format, args);
    va_end(args);
    p->failed = true;
    p->column = (int)(where - p->text) + 1;
    status_fail(STATUS_JOB, "%s", text_string(&t));
    text_free(&t);
    return NULL;
}

static void blanks(struct parser *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
}

/* What stands at the place of a fault: "abc", a sign, or the end. */
static const char *here(struct parser *p, char out[24])
{
    if (!*p->at)
        return strcpy(out, "the end");
    size_t n = 0;
    while (n < 16 && (isalnum((unsigned char)p->at[n]) || p->at[n] == '_'))
        n++;
    if (n == 0)
        for (n = 1; ((unsigned char)p->at[n] & 0xc0) == 0x80 && n < 4; n++)
            ;
    out[0] = '"';
    memcpy(out + 1, p->at, n);
    strcpy(out + 1 + n, "\"");
    return out;
}

static bool take(struct parser *p, char c)
{
    blanks(p);
    if (p->failed || *p->at != c)
        return false;
    p->at++;
    return true;
}

static bool expect(struct parser *p, char c, const char *opened, const char *open_at)
{
    char found[24];
    if (take(p, c))
        return true;
    fail(p, p->at, "expected \"%c\" for the \"%s\" in column %d, got %s", c, opened, (int)(open_at - p->text) + 1,
         here(p, found));
    return false;
}

static size_t number_length(const char *s)
{
    size_t whole = strspn(s, "0123456789"), n = whole, part = 0;
    if (s[n] == '.') {
        part = strspn(s + n + 1, "0123456789");
        n += 1 + part;
    }
    if (whole + part == 0)
        return 0;
    if (s[n] == 'e' || s[n] == 'E') {
        size_t sign = s[n + 1] == '-' || s[n + 1] == '+', digits = strspn(s + n + 1 + sign, "0123456789");
        if (digits)
            n += 1 + sign + digits;
    }
    return n;
}

static struct claim_node *number(struct parser *p, size_t n)
{
    char *copy = memory_format("%.*s", (int)n, p->at);
    double v;
    bool ok = text_to_double(copy, &v);
    memory_free(copy);
    if (!ok)
        return fail(p, p->at, "the number is too large");
    if (isalnum((unsigned char)p->at[n]) || p->at[n] == '_' || p->at[n] == '.')
        return fail(p, p->at, "expected a number, got \"%.*s\"", (int)(n + strcspn(p->at + n, " \t()[]<>=!+-*/")),
                    p->at);
    p->at += n;
    struct claim_node *c = new_node(CLAIM_NUMBER, NULL, NULL);
    c->number = v;
    return c;
}

static struct claim_node *sum(struct parser *p);
static struct claim_node *comparison(struct parser *p, bool needed);

static struct claim_node *call(struct parser *p, const char *name, const char *name_at)
{
    int which = 0, nearest = 0;
    while (which < FUNCTIONS && strcmp(functions[which], name))
        which++;
    if (which == FUNCTIONS) {
        for (int i = 1; i < FUNCTIONS; i++)
            if (text_distance(name, functions[i]) < text_distance(name, functions[nearest]))
                nearest = i;
        if (text_distance(name, functions[nearest]) <= 2)
            return fail(p, name_at, "unknown function %s (did you mean \"%s\"?)", name, functions[nearest]);
        return fail(p, name_at, "unknown function %s: known are min, max, mean, median, std, count, share, abs, log, slope", name);
    }
    const char *open_at = p->at - 1;
    struct claim_node *inner = strcmp(name, "share") ? sum(p) : comparison(p, false), *second = NULL;
    bool good = inner != NULL;
    if (good && !strcmp(name, "slope"))
        good = expect(p, ',', "slope(y, x)", open_at) && (second = sum(p));
    if (!good || !expect(p, ')', "(", open_at)) {
        free_tree(inner);
        free_tree(second);
        return NULL;
    }
    struct claim_node *c = new_node(CLAIM_CALL, inner, second);
    c->name = memory_text(name);
    return c;
}

/* A number, or a name of letters, digits, "_" and "-".   out: *index, or *label (memory_free) */
static bool index_of(struct parser *p, int *index, char **label)
{
    if (!take(p, '['))
        return true;
    const char *open_at = p->at - 1;
    char found[24];
    blanks(p);
    size_t n = strspn(p->at, "0123456789");
    if (n == 0 && isalpha((unsigned char)*p->at)) {
        while (isalnum((unsigned char)p->at[n]) || p->at[n] == '_' || p->at[n] == '-')
            n++;
        *label = memory_format("%.*s", (int)n, p->at);
    } else if (n == 0 || n > 6) {
        fail(p, p->at, "expected the number of a component (from 0) or its name, got %s", here(p, found));
        return false;
    } else {
        *index = atoi(p->at);
    }
    p->at += n;
    return expect(p, ']', "[", open_at);
}

static struct claim_node *name(struct parser *p)
{
    const char *start = p->at;
    while (isalnum((unsigned char)*p->at) || *p->at == '_')
        p->at++;
    char *word = memory_format("%.*s", (int)(p->at - start), start);
    struct claim_node *c = NULL;
    int index = -1;
    char *label = NULL;
    if (take(p, '('))
        c = call(p, word, start);
    else if (index_of(p, &index, &label)) {
        bool function = false;
        for (int i = 0; i < FUNCTIONS; i++)
            function |= !strcmp(word, functions[i]);
        if (function)
            fail(p, p->at, "expected \"(\" after the function %s", word);
        else {
            c = new_node(CLAIM_NAME, NULL, NULL);
            c->name = memory_text(word);
            c->index = index;
            c->label = label;
            label = NULL;
        }
    }
    memory_free(label);
    memory_free(word);
    return c;
}

static struct claim_node *factor(struct parser *p)
{
    blanks(p);
    if (p->depth >= DEPTH_MAX)
        return fail(p, p->at, "nested more than %d deep", DEPTH_MAX);
    p->depth++;
    struct claim_node *c = NULL;
    size_t digits = number_length(p->at);
    char found[24];
    if (digits)
        c = number(p, digits);
    else if (isalpha((unsigned char)*p->at) || *p->at == '_')
        c = name(p);
    else if (take(p, '-')) {
        c = factor(p);
        c = c ? new_node(CLAIM_NEGATE, c, NULL) : NULL;
    }
    else if (take(p, '(')) {
        const char *open_at = p->at - 1;
        c = sum(p);
        if (c && !expect(p, ')', "(", open_at)) {
            free_tree(c);
            c = NULL;
        }
    }
    else
        fail(p, p->at, "expected a number, a variable or a function, got %s", here(p, found));
    p->depth--;
    return c;
}

/* Operands joined by one of two operators, grouped from the left. */
static struct claim_node *chain(struct parser *p, struct claim_node *(*operand)(struct parser *), const char signs[2],
                                const enum claim_kind kinds[2])
{
    struct claim_node *left = operand(p);
    while (left) {
        int which = take(p, signs[0]) ? 0 : take(p, signs[1]) ? 1 : -1;
        if (which < 0)
            break;
        struct claim_node *right = operand(p);
        if (!right) {
            free_tree(left);
            return NULL;
        }
        left = new_node(kinds[which], left, right);
    }
    return left;
}

static struct claim_node *product(struct parser *p)
{
    return chain(p, factor, "*/", (const enum claim_kind[]){CLAIM_MULTIPLY, CLAIM_DIVIDE});
}

static struct claim_node *sum(struct parser *p)
{
    return chain(p, product, "+-", (const enum claim_kind[]){CLAIM_ADD, CLAIM_SUBTRACT});
}

/* Takes a comparison sign; CLAIM_NUMBER when there is none. */
static enum claim_kind comparison_sign(struct parser *p)
{
    static const struct { const char *sign; enum claim_kind kind; } signs[] = {
        {"==", CLAIM_EQ}, {"!=", CLAIM_NE}, {"<=", CLAIM_LE}, {">=", CLAIM_GE}, {"<", CLAIM_LT}, {">", CLAIM_GT},
    };
    blanks(p);
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        size_t n = strlen(signs[i].sign);
        if (!strncmp(p->at, signs[i].sign, n)) {
            p->at += n;
            return signs[i].kind;
        }
    }
    if (*p->at == '=')
        fail(p, p->at, "expected ==, got =");
    return CLAIM_NUMBER;
}

/* a < b <= c is (a < b) and (b <= c): the tree holds a copy of b. */
static struct claim_node *comparison(struct parser *p, bool needed)
{
    struct claim_node *left = sum(p), *all = NULL;
    char found[24];
    while (left) {
        enum claim_kind kind = comparison_sign(p);
        if (kind == CLAIM_NUMBER)
            break;
        struct claim_node *right = sum(p);
        if (!right)
            break;
        struct claim_node *next = copy_tree(right), *one = new_node(kind, left, right);
        all = all ? new_node(CLAIM_AND, all, one) : one;
        left = next;
    }
    if (!p->failed && !all && needed)
        fail(p, p->at, "expected a comparison (==, !=, <, <=, >, >=), got %s", here(p, found));
    if (p->failed || all) {
        free_tree(left);
        left = NULL;
    }
    if (p->failed) {
        free_tree(all);
        return NULL;
    }
    return all ? all : left;
}

enum status claim_parse(const char *text, struct claim *out, int *column)
{
    struct parser p = {.text = text, .at = text};
    char found[24];
    if (strlen(text) > LENGTH_MAX)
        fail(&p, text, "a claim has at most %d characters", LENGTH_MAX);
    struct claim_node *tree = p.failed ? NULL : comparison(&p, true);
    blanks(&p);
    if (tree && *p.at)
        fail(&p, p.at, "expected an operator or the end, got %s", here(&p, found));
    if (p.failed) {
        free_tree(tree);
        *column = p.column;
        return STATUS_JOB;
    }
    *out = (struct claim){.text = memory_text(text), .tree = tree};
    return STATUS_OK;
}

void claim_clear(struct claim *c)
{
    memory_free(c->text);
    memory_free(c->says);
    memory_free(c->source);
    free_tree(c->tree);
    *c = (struct claim){0};
}
