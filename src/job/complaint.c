#include "job/complaint.h"

#include <stdlib.h>

void complaint_add(struct complaints *c, struct place where, const char *format, ...)
{
    if (c->count == c->capacity) {
        int capacity = 2 * c->capacity + 8;
        c->list = memory_grow(c->list, (size_t)c->capacity, (size_t)capacity, sizeof *c->list);
        c->capacity = capacity;
    }
    struct text t = {0};
    va_list args;
    va_start(args, format);
    text_add_list(&t, format, args);
    va_end(args);
    c->list[c->count++] = (struct complaint){where, arena_text(c->arena, text_string(&t))};
    text_free(&t);
}

/* By place; insertion sort, because it is stable and the list is short and nearly sorted. */
static int after(struct place a, struct place b)
{
    if (a.source != b.source)
        return a.source > b.source;
    return a.line != b.line ? a.line > b.line : a.column > b.column;
}

static void sort(struct complaints *c)
{
    for (int i = 1; i < c->count; i++) {
        struct complaint moving = c->list[i];
        int k = i;
        for (; k > 0 && after(c->list[k - 1].place, moving.place); k--)
            c->list[k] = c->list[k - 1];
        c->list[k] = moving;
    }
}

void complaint_print(struct complaints *c, size_t limit, struct text *out)
{
    const size_t room_for_count = 40;
    sort(c);
    for (int i = 0; i < c->count; i++) {
        const struct complaint *x = &c->list[i];
        struct text line = {0};
        if (x->place.source == 0)
            text_add(&line, "%s:%d:%d: %s", c->path, x->place.line, x->place.column, x->message);
        else
            text_add(&line, "--set %s: %s", c->overrides[x->place.source - 1], x->message);
        int fits = out->length + line.length + 1 + room_for_count <= limit;
        if (fits)
            text_add(out, "%s%s", i ? "\n" : "", text_string(&line));
        text_free(&line);
        if (!fits) {
            text_add(out, "%sand %d more", i ? "\n" : "", c->count - i);
            return;
        }
    }
}

void complaint_clear(struct complaints *c)
{
    memory_free(c->list);
    c->list = NULL;
    c->count = c->capacity = 0;
}
