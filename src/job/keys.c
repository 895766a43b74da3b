#include "job/keys.h"

#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The default of every key. */
#define UNPACK_LIST(count_, ...) {count_, {__VA_ARGS__}}
#define DEFAULT_INT(name_, default_, ...) .name_ = default_,
#define DEFAULT_REAL(name_, default_, ...) .name_ = default_,
#define DEFAULT_BOOL(name_, default_, ...) .name_ = default_,
#define DEFAULT_CHOICE(name_, type_, LIST_, default_, ...) .name_ = default_,
#define DEFAULT_LIST(name_, default_, ...) .name_ = UNPACK_LIST default_,
#define DEFAULT_TEXT(name_, default_, ...) .name_ = default_,
#define DEFAULT_NAMED(name_, ...) .name_ = {0},
#define DEFAULT_SECTION(path_, cname_, TABLE, is_run_) \
    .cname_ = {TABLE(DEFAULT_INT, DEFAULT_REAL, DEFAULT_BOOL, DEFAULT_CHOICE, DEFAULT_LIST, DEFAULT_TEXT, \
                     DEFAULT_NAMED)},

static const struct spec defaults = {KEY_SECTIONS(DEFAULT_SECTION)};

/* The descriptors of each section stand in a function of their own, where `section` names the section's struct:
 * the tables themselves do not know to which section they belong. Offsets are relative to the section. */
#define PLUS_ONE(...) + 1
#define ROW(name_, ...) {.name = #name_, .offset = offsetof(section, name_), __VA_ARGS__},
#define ROW_INT(name_, default_, min_, max_, unit_, doc_) \
    ROW(name_, .type = KEY_INT, .min = (double)(min_), .max = (double)(max_), .unit = unit_, .doc = doc_)
#define ROW_REAL(name_, default_, min_, max_, unit_, doc_) \
    ROW(name_, .type = KEY_REAL, .min = min_, .max = max_, .unit = unit_, .doc = doc_)
#define ROW_BOOL(name_, default_, doc_) \
    ROW(name_, .type = KEY_BOOL, .max = 1.0, .unit = "1", .doc = doc_)
#define ROW_CHOICE(name_, type_, LIST_, default_, doc_) \
    ROW(name_, .type = KEY_CHOICE, .unit = "1", .doc = doc_, .words_count = 0 LIST_(PLUS_ONE), \
        .max = 0 LIST_(PLUS_ONE) - 1)
#define ROW_LIST(name_, default_, min_, max_, unit_, doc_) \
    ROW(name_, .type = KEY_LIST, .min = (double)(min_), .max = (double)(max_), .unit = unit_, .doc = doc_)
#define ROW_TEXT(name_, default_, doc_) ROW(name_, .type = KEY_STRING, .unit = "1", .doc = doc_)
#define ROW_NAMED(name_, unit_, doc_) ROW(name_, .type = KEY_NAMED, .min = -1e6, .max = 1e6, .unit = unit_, .doc = doc_)
#define ROWS(path_, cname_, TABLE, is_run_) \
    static const struct key *rows_##cname_(size_t *count) \
    { \
        typedef __typeof__(((struct spec *)0)->cname_) section; \
        static const struct key rows[] = {TABLE(ROW_INT, ROW_REAL, ROW_BOOL, ROW_CHOICE, ROW_LIST, ROW_TEXT, ROW_NAMED)}; \
        *count = sizeof rows / sizeof rows[0]; \
        return rows; \
    }
KEY_SECTIONS(ROWS)

/* The words of the choices and what they mean, in the order of the section's keys; NULL where a key is no choice. */
#define WORD(name_, word_, doc_) word_,
#define WORD_DOC(name_, word_, doc_) doc_,
#define NOTHING(...) NULL,
#define WORDS(name_, type_, LIST_, ...) (const char *const[]){LIST_(WORD)},
#define WORD_DOCS(name_, type_, LIST_, ...) (const char *const[]){LIST_(WORD_DOC)},
#define WORD_TABLES(path_, cname_, TABLE, is_run_) \
    static const char *const *const words_##cname_[] = {TABLE(NOTHING, NOTHING, NOTHING, WORDS, NOTHING, NOTHING, NOTHING)}; \
    static const char *const *const docs_##cname_[] = {TABLE(NOTHING, NOTHING, NOTHING, WORD_DOCS, NOTHING, NOTHING, NOTHING)};
KEY_SECTIONS(WORD_TABLES)

#define COUNT(path_, cname_, TABLE, is_run_) TABLE(PLUS_ONE, PLUS_ONE, PLUS_ONE, PLUS_ONE, PLUS_ONE, PLUS_ONE, PLUS_ONE)
enum { KEYS = KEY_SECTIONS(COUNT), PATH_MAX_LENGTH = 64 };

static struct key keys[KEYS];
static char paths[KEYS][PATH_MAX_LENGTH];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void build(void)
{
    int n = 0;
#define BUILD(path_, cname_, TABLE, is_run_) \
    { \
        size_t count; \
        const struct key *row = rows_##cname_(&count); \
        for (size_t i = 0; i < count; i++, n++) { \
            keys[n] = row[i]; \
            keys[n].section = path_; \
            keys[n].offset += offsetof(struct spec, cname_); \
            keys[n].of_run = is_run_; \
            keys[n].words = words_##cname_[i]; \
            keys[n].word_docs = docs_##cname_[i]; \
            snprintf(paths[n], PATH_MAX_LENGTH, "%s.%s", path_, row[i].name); \
            keys[n].path = paths[n]; \
        } \
    }
    KEY_SECTIONS(BUILD)
    assert(n == KEYS);
}

const struct key *key_at(int i)
{
    pthread_once(&once, build);
    return i >= 0 && i < KEYS ? &keys[i] : NULL;
}

const struct key *key_find(const char *path)
{
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++)
        if (!strcmp(k->path, path))
            return k;
    return NULL;
}

const char *key_last_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* The right name in the wrong section is farther away than one typing error in the path, and nearer than two. */
const char *key_nearest(const char *path)
{
    const char *name = key_last_name(path), *best = NULL;
    int least = 1000;
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++) {
        int whole = text_distance(path, k->path), last = text_distance(name, k->name);
        if (whole <= 1 + (int)strlen(k->name) / 3 && 2 * whole < least) {
            least = 2 * whole;
            best = k->path;
        }
        if (last <= (int)strlen(k->name) / 3 && 2 * last + 3 < least) {
            least = 2 * last + 3;
            best = k->path;
        }
    }
    return best;
}

void key_defaults(struct spec *s) { *s = defaults; }

static bool same_list(const struct key_list *a, const struct key_list *b)
{
    return a->count == b->count && !memcmp(a->value, b->value, (size_t)a->count * sizeof a->value[0]);
}

bool key_is_default(const struct spec *s, const struct key *k)
{
    const void *p = (const char *)s + k->offset, *q = (const char *)&defaults + k->offset;
    switch (k->type) {
    case KEY_INT: return *(const int64_t *)p == *(const int64_t *)q;
    case KEY_REAL: return !memcmp(p, q, sizeof(double));
    case KEY_BOOL: return *(const bool *)p == *(const bool *)q;
    case KEY_CHOICE: return *(const int *)p == *(const int *)q;
    case KEY_LIST: return same_list(p, q);
    case KEY_STRING: return !strcmp(p, q);
    case KEY_NAMED: return ((const struct key_named *)p)->count == 0;
    }
    return false;
}

/* ---- names ---- */

const struct key *key_find_named(const char *path, const char **name)
{
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++) {
        size_t n = strlen(k->path);
        if (k->type == KEY_NAMED && !strncmp(k->path, path, n) && path[n] == '.') {
            *name = path + n + 1;
            return k;
        }
    }
    return NULL;
}

bool key_name_is_good(const char *name)
{
    size_t n = strlen(name);
    for (const char *c = name; *c; c++)
        if (!isascii(*c) || (!isalnum((unsigned char)*c) && *c != '_' && *c != '-'))
            return false;
    return n > 0 && n < KEY_NAMED_TEXT;
}

struct key *key_of_name(const struct key *named, const char *name, int slot)
{
    struct key *k = memory_new(1, sizeof *k);
    char *path = memory_format("%s.%s", named->path, name);
    *k = *named;
    k->of = named;
    k->type = KEY_REAL;
    k->doc = "";                             /* the name says it */
    k->section = named->path;
    k->path = path;
    k->name = path + strlen(named->path) + 1;
    k->offset += offsetof(struct key_named, item) + (size_t)slot * sizeof ((struct key_named *)0)->item[0] +
                 offsetof(__typeof__(((struct key_named *)0)->item[0]), value);
    return k;
}

void key_free(const struct key *k)
{
    if (!k || !k->of)
        return;
    memory_free((void *)(uintptr_t)k->path);
    memory_free((void *)(uintptr_t)k);
}

int key_named_find(const struct key_named *n, const char *name)
{
    for (int i = 0; i < n->count; i++)
        if (!strcmp(n->item[i].name, name))
            return i;
    return -1;
}

bool key_named_add(struct key_named *n, const char *name)
{
    if (n->count == KEY_NAMED_MAX)
        return false;
    int at = n->count++;
    for (; at > 0 && strcmp(name, n->item[at - 1].name) < 0; at--)
        n->item[at] = n->item[at - 1];
    memset(&n->item[at], 0, sizeof n->item[at]);
    snprintf(n->item[at].name, KEY_NAMED_TEXT, "%s", name);
    return true;
}

/* ---- numbers ---- */

double key_get(const struct spec *s, const struct key *k)
{
    const char *p = (const char *)s + k->offset;
    switch (k->type) {
    case KEY_INT: return (double)*(const int64_t *)p;
    case KEY_REAL: return *(const double *)p;
    case KEY_BOOL: return *(const bool *)p;
    case KEY_CHOICE: return *(const int *)p;
    default: assert(!"a list or a text has no single value"); return 0.0;
    }
}

void key_set(struct spec *s, const struct key *k, double value)
{
    char *p = (char *)s + k->offset;
    switch (k->type) {
    case KEY_INT: *(int64_t *)p = (int64_t)value; break;
    case KEY_REAL: *(double *)p = value; break;
    case KEY_BOOL: *(bool *)p = value != 0.0; break;
    case KEY_CHOICE: *(int *)p = (int)value; break;
    default: assert(!"a list or a text has no single value");
    }
}
