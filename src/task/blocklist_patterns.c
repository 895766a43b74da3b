/* blocklist_patterns.c: which tokens of a list of blocks are the same.
 *
 * The blocks of a list carry labels; equal labels are interchangeable. A deck holds the labels, the asked block's (or, of a
 * chain, blocks') last. Drawing shuffles the deck, enumerating walks through its distinct orders. From the order of labels
 * follow the symbols. Label 0 is the asked block, or the first block of the asked chain.
 */
#include "base/memory.h"
#include "task/blocklist.h"

#include <stdlib.h>
#include <string.h>

struct deck {
    int blocks, asked;       /* the last so many labels are the asked block's, its copies', or its chain's */
    int *label;              /* [blocks] */
};

/* What is drawn beside the order of the blocks. */
struct choice {
    int side;                /* ioi: which of the two is asked about */
    int *permutation;        /* inversion: [blocks] without fixed points */
    int place;               /* inversion: the block whose second token is asked about */
};

static int chains_of(const struct spec *s) { return s->task.hops == 1 ? 1 : (int)s->task.chains; }

/* ---- decks ---- */

static void fill_chains(const struct spec *s, struct deck *d)
{
    const int hops = (int)s->task.hops, chains = chains_of(s);
    int n = 0;
    while (n < d->blocks - chains * hops)
        d->label[n++] = chains * hops;
    for (int c = chains - 1; c >= 0; c--)
        for (int h = 0; h < hops; h++)
            d->label[n++] = c * hops + h;
    d->asked = hops;
}

static void fill(const struct spec *s, struct deck *d)
{
    d->asked = s->task.pattern == PATTERN_RECALL ? (int)s->task.burstiness : 1;
    for (int i = 0; i < d->blocks; i++)
        switch ((enum pattern)s->task.pattern) {
        case PATTERN_NGRAM: d->label[i] = i == d->blocks - 1 ? 0 : 1 + i % (int)s->task.order; break;
        case PATTERN_CONDITIONAL: d->label[i] = d->blocks - 1 - i; break;
        case PATTERN_INVERSION: d->label[i] = 0; break;
        case PATTERN_HOP:
        case PATTERN_RECALL:
        case PATTERN_IOI: d->label[i] = i < d->blocks - d->asked; break;
        }
    if (s->task.pattern == PATTERN_HOP)
        fill_chains(s, d);
}

static struct deck deck_new(const struct spec *s)
{
    struct deck d = {.blocks = (int)s->task.blocks};
    d.label = memory_new((size_t)d.blocks, sizeof *d.label);
    fill(s, &d);
    return d;
}

/* How many of the first labels change places. */
static int movable(const struct spec *s, const struct deck *d)
{
    return s->task.queried == QUERIED_LAST ? d->blocks - d->asked : d->blocks;
}

static void shuffle(struct stream *stream, int n, int *label)
{
    for (int i = n - 1; i > 0; i--) {
        int k = (int)stream_below(stream, (uint32_t)i + 1), was = label[i];
        label[i] = label[k];
        label[k] = was;
    }
}

/* The next order by size, or false after the last (Knuth, TAOCP 7.2.1.2, algorithm L). */
static bool next_order(int n, int *label)
{
    int j = n - 2, l = n - 1;
    while (j >= 0 && label[j] >= label[j + 1])
        j--;
    if (j < 0)
        return false;
    while (label[j] >= label[l])
        l--;
    int was = label[j];
    label[j] = label[l];
    label[l] = was;
    for (int a = j + 1, b = n - 1; a < b; a++, b--) {
        was = label[a];
        label[a] = label[b];
        label[b] = was;
    }
    return true;
}

/* ---- from labels to symbols ---- */

/* Block number `count`, from 0, among those of its label. */
static void lay_block(const struct spec *s, int label, int count, int *symbol)
{
    const int order = (int)s->task.order, hops = (int)s->task.hops, chains = chains_of(s);
    const int fresh = 1000000 + 1000 * label + 20 * count;      /* beyond all others; renumbered later */
    switch ((enum pattern)s->task.pattern) {
    case PATTERN_RECALL:
    case PATTERN_IOI:
        symbol[0] = label ? 100 + 2 * count : 0;
        symbol[1] = symbol[0] + 1;
        return;
    case PATTERN_HOP:
        symbol[0] = label < chains * hops ? label / hops * (hops + 1) + label % hops : 1000000 + 2 * count;
        symbol[1] = symbol[0] + 1;
        return;
    case PATTERN_NGRAM:
        for (int i = 0; i <= order; i++)
            symbol[i] = label == 0 || (order > 1 && i == label - 1) ? i : 1000 + (label * 100000 + count) * 16 + i;
        return;
    case PATTERN_CONDITIONAL:
        symbol[0] = label % 2;
        symbol[1] = 2 + label / 2;
        symbol[2] = 1000000 + label;
        return;
    case PATTERN_INVERSION: break;
    }
    symbol[0] = fresh;
    symbol[1] = fresh + 1;
}

static void lay_permutation(const struct choice *c, int blocks, struct block_pattern *p)
{
    for (int i = 0; i < blocks; i++) {
        p->symbol[2 * i] = i;
        p->symbol[2 * i + 1] = c->permutation[i];
    }
    p->symbol[2 * blocks] = c->permutation[c->place];
    p->answer = c->place;
}

static void lay_query(const struct spec *s, const struct choice *c, int k, struct block_pattern *p)
{
    int *query = p->symbol + p->length - (k - 1);
    for (int i = 0; i < k - 1; i++)
        query[i] = i;
    p->answer = k - 1;
    switch ((enum pattern)s->task.pattern) {
    case PATTERN_HOP: p->answer = (int)s->task.hops; return;
    case PATTERN_IOI:
        query[0] = c->side;
        p->answer = 1 - c->side;
        return;
    case PATTERN_CONDITIONAL:
        query[1] = 2;
        p->answer = 1000000;
        return;
    default: return;
    }
}

/* Symbols by first occurrence; the answer is one that occurs. */
static void renumber(struct block_pattern *p)
{
    int *old = memory_new((size_t)p->length + 1, sizeof *old);
    p->symbols = 0;
    for (int i = 0; i <= p->length; i++) {
        int *at = i < p->length ? &p->symbol[i] : &p->answer, k = 0;
        while (k < p->symbols && old[k] != *at)
            k++;
        if (k == p->symbols)
            old[p->symbols++] = *at;
        *at = k;
    }
    memory_free(old);
}

static void pair_up(const struct spec *s, struct block_pattern *p)
{
    for (int i = 0; i < p->symbols; i++)
        p->partner[i] = -1;
    if (p->class != CLASS_COMMON || s->task.pattern != PATTERN_RECALL)
        return;
    for (int i = 0; i + 1 < p->length; i += 2) {
        p->partner[p->symbol[i]] = p->symbol[i + 1];
        p->partner[p->symbol[i + 1]] = p->symbol[i];
    }
}

static void lay(const struct spec *s, const struct deck *d, const struct choice *c, struct block_pattern *p)
{
    const int k = shape_of(s).block;
    int *count = memory_new((size_t)d->blocks + 2, sizeof *count);
    for (int i = 0; i < d->blocks; i++)
        lay_block(s, d->label[i], count[d->label[i]]++ * (d->label[i] > 0 || s->task.pattern != PATTERN_RECALL),
                  p->symbol + i * k);
    memory_free(count);
    if (s->task.pattern == PATTERN_INVERSION)
        lay_permutation(c, d->blocks, p);
    else
        lay_query(s, c, k, p);
    renumber(p);
    pair_up(s, p);
}

/* ---- patterns ---- */

struct block_pattern pattern_new(const struct spec *s)
{
    struct block_pattern p = {.length = shape_of(s).length};
    p.symbol = memory_new((size_t)p.length, sizeof *p.symbol);
    p.partner = memory_new((size_t)p.length + 1, sizeof *p.partner);
    return p;
}

void pattern_free(struct block_pattern *p)
{
    memory_free(p->symbol);
    memory_free(p->partner);
}

static enum token_class draw_class(const struct spec *s, struct stream *stream)
{
    double u = stream_uniform(stream), rare = shape_class_share(s, CLASS_RARE);
    return u < rare ? CLASS_RARE : u < rare + shape_class_share(s, CLASS_VARIED) ? CLASS_VARIED : CLASS_COMMON;
}

static bool has_fixed_point(int n, const int *p)
{
    for (int i = 0; i < n; i++)
        if (p[i] == i)
            return true;
    return false;
}

/* By rejection: 1/e of all permutations have no fixed point. */
static void draw_permutation(const struct spec *s, struct stream *stream, struct choice *c)
{
    const int n = (int)s->task.blocks;
    do {
        for (int i = 0; i < n; i++)
            c->permutation[i] = i;
        shuffle(stream, n, c->permutation);
    } while (has_fixed_point(n, c->permutation));
    c->place = s->task.queried == QUERIED_LAST ? n - 1 : (int)stream_below(stream, (uint32_t)n);
}

void pattern_draw(const struct spec *s, struct stream *stream, struct block_pattern *p)
{
    struct deck d = deck_new(s);
    struct choice c = {.permutation = memory_new((size_t)d.blocks, sizeof *c.permutation)};
    p->class = draw_class(s, stream);
    p->weight = 1.0;
    if (s->task.pattern == PATTERN_INVERSION)
        draw_permutation(s, stream, &c);
    else
        shuffle(stream, movable(s, &d), d.label);
    if (s->task.pattern == PATTERN_IOI)
        c.side = (int)stream_below(stream, 2);
    lay(s, &d, &c, p);
    memory_free(c.permutation);
    memory_free(d.label);
}

/* ---- all patterns of one class, those that renaming makes equal once ---- */

struct all {
    const struct spec *spec;
    struct deck deck;
    struct choice choice;
    size_t patterns, room, numbers;       /* numbers of a pattern: its symbols and its answer */
    int *number;
};

static void keep(struct all *a, const struct block_pattern *p)
{
    if (a->patterns == a->room) {
        size_t room = 2 * a->room + 64;
        a->number = memory_grow(a->number, a->room * a->numbers, room * a->numbers, sizeof *a->number);
        a->room = room;
    }
    int *to = a->number + a->patterns++ * a->numbers;
    memcpy(to, p->symbol, (a->numbers - 1) * sizeof *to);
    to[a->numbers - 1] = p->answer;
}

static void find_permutations(struct all *a, struct block_pattern *p)
{
    const int n = a->deck.blocks;
    bool last = a->spec->task.queried == QUERIED_LAST;
    for (int i = 0; i < n; i++)
        a->choice.permutation[i] = i;
    do {
        if (has_fixed_point(n, a->choice.permutation))
            continue;
        for (a->choice.place = last ? n - 1 : 0; a->choice.place < n; a->choice.place++) {
            lay(a->spec, &a->deck, &a->choice, p);
            keep(a, p);
        }
    } while (next_order(n, a->choice.permutation));
}

static int by_size(const void *x, const void *y)
{
    int a = *(const int *)x, b = *(const int *)y;
    return (a > b) - (a < b);
}

static void find_orders(struct all *a, struct block_pattern *p)
{
    const int n = movable(a->spec, &a->deck), sides = a->spec->task.pattern == PATTERN_IOI ? 2 : 1;
    qsort(a->deck.label, (size_t)n, sizeof *a->deck.label, by_size);
    do
        for (a->choice.side = 0; a->choice.side < sides; a->choice.side++) {
            lay(a->spec, &a->deck, &a->choice, p);
            keep(a, p);
        }
    while (next_order(n, a->deck.label));
}

static int compare(const void *x, const void *y, void *numbers)
{
    const int *a = x, *b = y;
    for (size_t i = 0; i < *(const size_t *)numbers; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

/* Other chains are interchangeable, other items too: each order of theirs was found. */
static void merge(struct all *a)
{
    const size_t bytes = a->numbers * sizeof *a->number;
    size_t kept = 0;
    qsort_r(a->number, a->patterns, bytes, compare, &a->numbers);
    for (size_t i = 0; i < a->patterns; i++)
        if (i == 0 || memcmp(a->number + i * a->numbers, a->number + (kept - 1) * a->numbers, bytes))
            memmove(a->number + kept++ * a->numbers, a->number + i * a->numbers, bytes);
    a->patterns = kept;
}

static void pass_on(const struct all *a, struct block_pattern *p, pattern_each *each, void *context)
{
    for (int c = 0; c < CLASSES; c++) {
        p->class = (enum token_class)c;
        if (!shape_has_class(a->spec, p->class))
            continue;
        p->weight = shape_class_share(a->spec, p->class) / (double)a->patterns;
        for (size_t i = 0; i < a->patterns; i++) {
            const int *from = a->number + i * a->numbers;
            memcpy(p->symbol, from, (a->numbers - 1) * sizeof *from);
            p->answer = from[a->numbers - 1];
            renumber(p);
            pair_up(a->spec, p);
            each(context, p);
        }
    }
}

void pattern_all(const struct spec *s, pattern_each *each, void *context)
{
    struct block_pattern p = pattern_new(s);
    struct all a = {.spec = s, .deck = deck_new(s), .numbers = (size_t)p.length + 1};
    a.choice.permutation = memory_new((size_t)a.deck.blocks, sizeof *a.choice.permutation);
    if (s->task.pattern == PATTERN_INVERSION)
        find_permutations(&a, &p);
    else
        find_orders(&a, &p);
    merge(&a);
    pass_on(&a, &p, each, context);
    memory_free(a.number);
    memory_free(a.choice.permutation);
    memory_free(a.deck.label);
    pattern_free(&p);
}
