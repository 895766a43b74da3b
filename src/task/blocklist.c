/* blocklist.c: lists of blocks of tokens, the last one cut short (Musat et al., arXiv 2607.11875; see the keys of task): names
 * for the symbols of a pattern, places for its blocks. */
#include "task/blocklist.h"

#include "base/memory.h"
#include "task/kind.h"

#include <string.h>

/* A pattern while it gets names and places. */
struct work {
    const struct spec *spec;
    struct task_shape shape;
    struct block_pattern pattern;
    int blocks;              /* the one cut short included */
    int *name;               /* [symbols] tokens */
    int *slot, *offset;      /* [blocks] */
};

static void open_work(struct work *w, const struct spec *s)
{
    *w = (struct work){.spec = s, .shape = shape_of(s), .blocks = (int)s->task.blocks + 1};
    w->name = memory_new((size_t)w->shape.length + 1, sizeof *w->name);
    w->slot = memory_new((size_t)w->blocks, sizeof *w->slot);
    w->offset = memory_new((size_t)w->blocks, sizeof *w->offset);
}

static void close_work(struct work *w)
{
    memory_free(w->name);
    memory_free(w->slot);
    memory_free(w->offset);
}

/* ---- names ---- */

static int first_token(const struct work *w) { return w->pattern.class == CLASS_RARE ? w->shape.common : 0; }
static int tokens(const struct work *w)
{
    return w->pattern.class == CLASS_RARE ? w->shape.vocabulary - w->shape.common : w->shape.common;
}

/* Whether a symbol may have this name, the ones before it having theirs: names differ, and no two are associated but those
 * that the pattern associates. */
static bool is_free(const struct work *w, int symbol, int token)
{
    for (int i = 0; i < symbol; i++)
        if (w->name[i] == token || (w->pattern.class != CLASS_RARE && w->name[i] == (token ^ 1)))
            return false;
    return true;
}

/* The name that its partner's leaves to a symbol; -1: it is free to have any. */
static int implied(const struct work *w, int symbol)
{
    int partner = w->pattern.partner[symbol];
    return partner >= 0 && partner < symbol ? w->name[partner] ^ 1 : -1;
}

static void draw_names(struct work *w, struct stream *stream)
{
    for (int i = 0; i < w->pattern.symbols; i++) {
        w->name[i] = implied(w, i);
        while (w->name[i] < 0) {
            int token = first_token(w) + (int)stream_below(stream, (uint32_t)tokens(w));
            w->name[i] = is_free(w, i, token) ? token : -1;
        }
    }
}

static void first_names(struct work *w)
{
    const int apart = w->pattern.class == CLASS_RARE ? 1 : 2;
    for (int i = 0, next = first_token(w); i < w->pattern.symbols; i++) {
        w->name[i] = implied(w, i);
        if (w->name[i] < 0) {
            w->name[i] = next;
            next += apart;
        }
    }
}

/* ---- places ---- */

static void draw_places(struct work *w, struct stream *stream)
{
    if (w->spec->task.layout == LAYOUT_CONTIGUOUS)
        return;
    if (w->spec->task.layout == LAYOUT_SLOTS)
        stream_permutation(stream, (uint32_t *)w->slot, (uint32_t)w->blocks);
    for (int b = 0; b < w->blocks; b++)
        w->offset[b] = (int)stream_below(stream, (uint32_t)w->shape.period);
}

/* Slots in order, no offsets. */
static void first_places(struct work *w)
{
    for (int b = 0; b < w->blocks; b++) {
        w->slot[b] = w->spec->task.layout == LAYOUT_SLOTS ? b : 0;
        w->offset[b] = 0;
    }
}

static int place_of(const struct work *w, int i)
{
    if (w->spec->task.layout == LAYOUT_CONTIGUOUS)
        return i;
    int b = i / w->shape.block, within = i % w->shape.block;
    return w->slot[b] * w->shape.period + (w->offset[b] + within) % w->shape.period;
}

/* ---- sequences ---- */

static void write(const struct work *w, struct task_sequence *q)
{
    for (int i = 0; i < w->shape.length; i++) {
        q->token[i] = w->name[w->pattern.symbol[i]];
        q->target[i] = -1;
        q->position[i] = place_of(w, i);
    }
    q->target[w->shape.length - 1] = w->name[w->pattern.answer];
}

static void draw(const struct spec *s, struct stream *stream, struct task_sequence *q)
{
    struct work w;
    open_work(&w, s);
    w.pattern = pattern_new(s);
    pattern_draw(s, stream, &w.pattern);
    draw_names(&w, stream);
    draw_places(&w, stream);
    write(&w, q);
    pattern_free(&w.pattern);
    close_work(&w);
}

/* ---- all sequences ---- */

struct enumeration {
    struct work work;
    struct task_sequence sequence;
    task_each *each;
    void *context;
    double namings, places;          /* of the pattern at hand */
    bool counting;
};

static void pass_on(struct enumeration *e)
{
    write(&e->work, &e->sequence);
    e->each(e->context, &e->sequence);
}

static void all_offsets(struct enumeration *e, int block)
{
    if (block == e->work.blocks) {
        pass_on(e);
        return;
    }
    for (e->work.offset[block] = 0; e->work.offset[block] < e->work.shape.period; e->work.offset[block]++)
        all_offsets(e, block + 1);
}

static void all_slots(struct enumeration *e, int block)
{
    if (block == e->work.blocks) {
        all_offsets(e, 0);
        return;
    }
    for (int slot = 0; slot < e->work.blocks; slot++) {
        bool taken = false;
        for (int b = 0; b < block; b++)
            taken |= e->work.slot[b] == slot;
        e->work.slot[block] = slot;
        if (!taken)
            all_slots(e, block + 1);
    }
}

static void all_places(struct enumeration *e)
{
    first_places(&e->work);
    if (e->work.spec->task.layout == LAYOUT_CONTIGUOUS)
        pass_on(e);
    else if (e->work.spec->task.layout == LAYOUT_SLOTS)
        all_slots(e, 0);
    else
        all_offsets(e, 0);
}

/* Counts the namings, or passes each on with all places. */
static void all_names(struct enumeration *e, int symbol)
{
    struct work *w = &e->work;
    if (symbol == w->pattern.symbols) {
        if (e->counting)
            e->namings++;
        else
            all_places(e);
        return;
    }
    int only = implied(w, symbol), first = only < 0 ? first_token(w) : only;
    int end = only < 0 ? first_token(w) + tokens(w) : only + 1;
    for (int token = first; token < end; token++)
        if (only >= 0 || is_free(w, symbol, token)) {
            w->name[symbol] = token;
            all_names(e, symbol + 1);
        }
}

static double count_places(const struct work *w)
{
    double n = 1.0;
    for (int b = 1; b <= w->blocks && w->spec->task.layout != LAYOUT_CONTIGUOUS; b++)
        n *= w->shape.period * (w->spec->task.layout == LAYOUT_SLOTS ? b : 1);
    return n;
}

static void each_pattern(void *context, const struct block_pattern *p)
{
    struct enumeration *e = context;
    e->work.pattern = *p;
    e->sequence.weight = p->weight;
    if (e->work.spec->task.expectation == EXPECTATION_PATTERNS) {
        first_names(&e->work);
        first_places(&e->work);
        pass_on(e);
        return;
    }
    e->namings = 0;
    e->counting = true;
    all_names(e, 0);
    e->counting = false;
    e->sequence.weight = p->weight / (e->namings * count_places(&e->work));
    all_names(e, 0);
}

static void enumerate(const struct spec *s, task_each *each, void *context)
{
    struct enumeration e = {.each = each, .context = context};
    open_work(&e.work, s);
    const size_t n = (size_t)e.work.shape.length;
    e.sequence.token = memory_new(n, sizeof *e.sequence.token);
    e.sequence.target = memory_new(n, sizeof *e.sequence.target);
    e.sequence.position = memory_new(n, sizeof *e.sequence.position);
    pattern_all(s, each_pattern, &e);
    memory_free(e.sequence.token);
    memory_free(e.sequence.target);
    memory_free(e.sequence.position);
    close_work(&e.work);
}

/* The context decides; a guess takes any token. */
static void truth(const struct spec *s, struct task_truth *t)
{
    t->accuracy_best = 1.0;
    t->accuracy_chance = 1.0 / (double)shape_of(s).vocabulary;
}

const struct task_ops blocklist_ops = {draw, enumerate, truth};
