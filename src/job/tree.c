#include "job/tree.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { DEPTH_MAX = 32 };

struct reader {
    yaml_parser_t parser;
    struct arena *arena;
    struct complaints *complaints;
    const char *text;
    size_t length;
    int source;
    bool failed;
    bool aliased;                  /* a value is missing: what it is cannot be judged */
};

static struct place place_of(const struct reader *r, yaml_mark_t m)
{
    return (struct place){r->source, (int)m.line + 1, (int)m.column + 1};
}

/* Whether a tab stands where the line `line` (from 0) is indented. */
static bool tab_indents(const struct reader *r, size_t line)
{
    const char *p = r->text, *end = p + r->length;
    for (size_t i = 0; p && i < line; i++) {
        p = memchr(p, '\n', (size_t)(end - p));
        p = p ? p + 1 : NULL;
    }
    for (; p && p < end && (*p == ' ' || *p == '\t'); p++)
        if (*p == '\t')
            return true;
    return false;
}

static void syntax_error(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    r->failed = true;
    if (p->error == YAML_READER_ERROR) {      /* bytes that are no text: libyaml knows only the offset */
        struct place at = {r->source, 1, 1};
        for (size_t i = 0; i < p->problem_offset && i < r->length; i++) {
            at.column = r->text[i] == '\n' ? 1 : at.column + 1;
            at.line += r->text[i] == '\n';
        }
        complaint_add(r->complaints, at, "not a text in UTF-8: %s", p->problem);
        return;
    }
    struct place at = place_of(r, p->problem_mark);
    if (tab_indents(r, p->problem_mark.line))
        complaint_add(r->complaints, at, "not YAML: a tab indents this line; use blanks");
    else if (p->context && p->context_mark.line != p->problem_mark.line)
        complaint_add(r->complaints, at, "not YAML: %s (%s that begins in line %zu)", p->problem, p->context,
                      p->context_mark.line + 1);
    else if (!strncmp(p->problem, "mapping values", 14))
        complaint_add(r->complaints, at, "not YAML: a colon where none is expected (look at the indentation; a text "
                                         "that holds a colon needs quotes)");
    else
        complaint_add(r->complaints, at, "not YAML: %s (a text that holds any of [ ] { } , : # needs quotes)",
                      p->problem);
}

static bool next(struct reader *r, yaml_event_t *e)
{
    if (r->failed)
        return false;
    if (yaml_parser_parse(&r->parser, e))
        return true;
    syntax_error(r);
    return false;
}

static struct tree *new_node(struct reader *r, enum tree_kind kind, const yaml_event_t *e)
{
    struct tree *t = arena_take(r->arena, 1, sizeof *t);
    t->kind = kind;
    t->place = place_of(r, e->start_mark);
    t->one_line = e->start_mark.line == e->end_mark.line;
    t->text = "";
    return t;
}

static bool is_null(const char *s)
{
    return !*s || !strcmp(s, "~") || !strcmp(s, "null") || !strcmp(s, "Null") || !strcmp(s, "NULL");
}

static void refuse(struct reader *r, const yaml_event_t *e, const char *what)
{
    complaint_add(r->complaints, place_of(r, e->start_mark), "%s are not supported: write the value out", what);
}

static struct tree *scalar(struct reader *r, const yaml_event_t *e)
{
    const char *s = (const char *)e->data.scalar.value;
    bool plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    struct tree *t = new_node(r, plain && is_null(s) ? TREE_NULL : TREE_SCALAR, e);
    t->plain = plain;
    t->text = arena_text(r->arena, s);
    if (strlen(s) != e->data.scalar.length) {
        complaint_add(r->complaints, t->place, "a text must not hold a zero byte");
        t->kind = TREE_NULL;
    }
    if (e->data.scalar.anchor)
        refuse(r, e, "anchors (&)");
    if (e->data.scalar.tag)
        refuse(r, e, "tags (!)");
    return t;
}

/* Items are collected in a growing array on the heap and then moved into the arena. */
struct items {
    struct tree **at;
    size_t count, capacity;
};

static void push(struct items *list, struct tree *t)
{
    if (list->count == list->capacity) {
        size_t capacity = 2 * list->capacity + 8;
        list->at = memory_grow(list->at, list->capacity, capacity, sizeof *list->at);
        list->capacity = capacity;
    }
    list->at[list->count++] = t;
}

static struct tree *node(struct reader *r, const yaml_event_t *e, int depth);

/* Children up to the end event; for a mapping keys and values alternate. */
static struct items children(struct reader *r, yaml_event_type_t end, int depth)
{
    struct items list = {0};
    yaml_event_t e;
    while (next(r, &e)) {
        bool ended = e.type == end;
        if (!ended)
            push(&list, node(r, &e, depth + 1));
        yaml_event_delete(&e);
        if (ended)
            break;
    }
    return list;
}

static struct tree *list_node(struct reader *r, const yaml_event_t *e, int depth)
{
    struct tree *t = new_node(r, TREE_LIST, e);
    if (e->data.sequence_start.anchor)
        refuse(r, e, "anchors (&)");
    if (e->data.sequence_start.tag)
        refuse(r, e, "tags (!)");
    struct items list = children(r, YAML_SEQUENCE_END_EVENT, depth);
    t->count = (int)list.count;
    t->item = arena_take(r->arena, list.count, sizeof *t->item);
    if (list.count)
        memcpy(t->item, list.at, list.count * sizeof *t->item);
    memory_free(list.at);
    return t;
}

static struct tree *map_node(struct reader *r, const yaml_event_t *e, int depth)
{
    struct tree *t = new_node(r, TREE_MAP, e);
    if (e->data.mapping_start.anchor)
        refuse(r, e, "anchors (&)");
    if (e->data.mapping_start.tag)
        refuse(r, e, "tags (!)");
    struct items list = children(r, YAML_MAPPING_END_EVENT, depth);
    t->key = arena_take(r->arena, list.count / 2, sizeof *t->key);
    t->item = arena_take(r->arena, list.count / 2, sizeof *t->item);
    for (size_t i = 0; i + 1 < list.count; i += 2) {
        if (list.at[i]->kind == TREE_NULL && *list.at[i]->text)
            list.at[i]->kind = TREE_SCALAR;            /* as a key it is a word like any other */
        if (list.at[i]->kind != TREE_SCALAR) {
            complaint_add(r->complaints, list.at[i]->place, "expected a key, got %s",
                          tree_describe(r->arena, list.at[i]));
            continue;
        }
        t->key[t->count] = list.at[i];
        t->item[t->count++] = list.at[i + 1];
    }
    memory_free(list.at);
    return t;
}

static struct tree *node(struct reader *r, const yaml_event_t *e, int depth)
{
    if (depth > DEPTH_MAX) {
        complaint_add(r->complaints, place_of(r, e->start_mark), "nested more than %d deep", DEPTH_MAX);
        r->failed = true;
        return new_node(r, TREE_NULL, e);
    }
    switch (e->type) {
    case YAML_SCALAR_EVENT: return scalar(r, e);
    case YAML_SEQUENCE_START_EVENT: return list_node(r, e, depth);
    case YAML_MAPPING_START_EVENT: return map_node(r, e, depth);
    default:
        refuse(r, e, "aliases (*)");
        r->aliased = true;
        return new_node(r, TREE_NULL, e);
    }
}

/* The stream: its start, one document, its end. */
static struct tree *document(struct reader *r)
{
    struct tree *root = NULL;
    yaml_event_t e;
    bool more = true;
    while (more && next(r, &e)) {
        switch (e.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
            break;
        case YAML_STREAM_END_EVENT:
            more = false;
            break;
        case YAML_DOCUMENT_START_EVENT:
            if (root) {
                complaint_add(r->complaints, place_of(r, e.start_mark),
                              "a second document begins here: a job file is one document");
                more = false;
            }
            break;
        default:
            root = node(r, &e, 0);
        }
        yaml_event_delete(&e);
    }
    if (!root && !r->failed)
        complaint_add(r->complaints, (struct place){r->source, 1, 1},
                      r->source ? "expected a value after the ="
                                : "the file is empty: expected keys such as name: my-job");
    return r->failed || r->aliased ? NULL : root;
}

struct tree *tree_parse(struct arena *arena, const char *text, size_t length, int source, struct complaints *c)
{
    struct reader r = {.arena = arena, .complaints = c, .text = text, .length = length, .source = source};
    if (!yaml_parser_initialize(&r.parser)) {
        complaint_add(c, (struct place){source, 1, 1}, "libyaml has no memory");
        return NULL;
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, length);
    struct tree *root = document(&r);
    yaml_parser_delete(&r.parser);
    return root;
}

const char *tree_describe(struct arena *arena, const struct tree *t)
{
    switch (t->kind) {
    case TREE_NULL: return "nothing";
    case TREE_LIST: return "a list";
    case TREE_MAP: return "a mapping";
    default: break;
    }
    const size_t shown = 40;
    size_t n = strcspn(t->text, "\n\r");
    bool cut = n > shown || t->text[n];
    if (n > shown)
        for (n = shown; n > 0 && ((unsigned char)t->text[n] & 0xc0) == 0x80; n--)
            ;                                  /* not inside a character of UTF-8 */
    struct text s = {0};
    text_add(&s, "\"%.*s%s\"", (int)n, t->text, cut ? "..." : "");
    char *out = arena_text(arena, text_string(&s));
    text_free(&s);
    return out;
}
