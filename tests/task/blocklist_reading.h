/* blocklist_reading.h: reads a list of blocks as a person would, from its tokens alone. Include after check.h. */
#ifndef INVAR_TESTS_TASK_BLOCKLIST_READING_H
#define INVAR_TESTS_TASK_BLOCKLIST_READING_H

#include "base/memory.h"
#include "task/task.h"

/* One sequence of a batch. */
struct list {
    const struct spec *s;
    int blocks, k, length;
    const int32_t *token, *target, *position;
    double weight;
};

static inline struct spec list_spec(enum pattern pattern)
{
    struct spec s = {0};
    s.task.kind = TASK_BLOCKLIST;
    s.task.pattern = (int)pattern;
    s.task.blocks = 6;
    s.task.hops = 2;
    s.task.chains = 2;
    s.task.order = 2;
    s.task.burstiness = 1;
    s.task.common = 40;
    s.task.rare_tokens = 30;
    s.task.rare = 0.4;
    s.task.variability = 0.25;
    s.task.sequences = 600;
    s.task.test_sequences = 400;
    s.train.batch = 32;
    s.train.epochs = 2;
    return s;
}

static inline struct task *open_list(const struct spec *s)
{
    struct task *t = NULL;
    CHECK_OK(task_open(s, 7, &t));
    if (!t)
        exit(1);
    return t;
}

static inline struct batch all_of(const struct task *t, enum task_set set)
{
    size_t n = task_sequences(t, set);
    struct batch b = batch_new_of((int)n, task_shape(t));
    task_set_batch(t, set, 0, n, &b);
    return b;
}

static inline int block_size(const struct spec *s)
{
    return s->task.pattern == PATTERN_NGRAM ? (int)s->task.order + 1 : s->task.pattern == PATTERN_CONDITIONAL ? 3 : 2;
}

static inline struct list list_at(const struct spec *s, const struct batch *b, int i)
{
    size_t at = (size_t)i * (size_t)b->length;
    return (struct list){s, (int)s->task.blocks, block_size(s), b->length, b->token + at, b->target + at,
                         b->position ? b->position + at : NULL, b->weight ? b->weight[i] : 1.0};
}

/* Token j of block b; block number `blocks` is the one cut short. */
static inline int at(const struct list *l, int b, int j) { return l->token[b * l->k + j]; }
static inline int answer_of(const struct list *l) { return l->target[l->length - 1]; }
static inline int is_common(const struct list *l, int token) { return token < l->s->task.common; }

/* Blocks that begin as the one cut short does, or, with `side` 1, whose second token is the query.   out: the last of them */
static inline int matches(const struct list *l, int side, int *block)
{
    int found = 0;
    for (int b = 0; b < l->blocks; b++) {
        int same = 1;
        for (int j = 0; j < l->k - 1; j++)
            same &= at(l, b, j + side) == at(l, l->blocks, j);
        if (same)
            *block = b;
        found += same;
    }
    return found;
}

static inline int follow(const struct list *l, int hops, int *first)
{
    int now = at(l, l->blocks, 0);
    for (int h = 0; h < hops; h++) {
        int found = 0, next = -1;
        for (int b = 0; b < l->blocks; b++)
            if (at(l, b, 0) == now) {
                found++;
                next = at(l, b, 1);
                *first = h == 0 ? b : *first;
            }
        CHECK_INT(found, 1);
        now = next;
    }
    return now;
}

/* The answer that the list gives; also the (last) block that gives it, or the chain's first. */
static inline int read_answer(const struct list *l, int *block)
{
    int side = 0;
    switch ((enum pattern)l->s->task.pattern) {
    case PATTERN_HOP: return follow(l, (int)l->s->task.hops, block);
    case PATTERN_INVERSION:
        CHECK_INT(matches(l, 1, block), 1);
        return at(l, *block, 0);
    case PATTERN_IOI:
        side = matches(l, 1, block);
        CHECK_INT(side + matches(l, 0, block), 1);
        return at(l, *block, side ? 0 : 1);
    case PATTERN_RECALL:
        CHECK_INT(matches(l, 0, block), l->s->task.burstiness);
        return at(l, *block, 1);
    case PATTERN_NGRAM:
    case PATTERN_CONDITIONAL: break;
    }
    CHECK_INT(matches(l, 0, block), 1);
    return at(l, *block, l->k - 1);
}

/* Pairs of places i < j whose tokens are associated. */
static inline int associations(const struct list *l)
{
    int n = 0;
    for (int j = 0; j < l->length; j++)
        for (int i = 0; i < j; i++)
            n += is_common(l, l->token[i]) && l->token[i] == (l->token[j] ^ 1);
    return n;
}

/* 0 rare, 1 common, 2 common with labels that are not associated (recall only); all tokens must agree. */
static inline int read_class(const struct list *l)
{
    const int common = is_common(l, l->token[0]), recall = l->s->task.pattern == PATTERN_RECALL;
    int paired = 0;
    for (int i = 0; i < l->length; i++)
        CHECK_INT(is_common(l, l->token[i]), common);
    for (int b = 0; b < l->blocks; b++)
        paired += common && at(l, b, 1) == (at(l, b, 0) ^ 1);
    if (!common || !recall || paired == 0) {
        CHECK_INT(associations(l), 0);
        return common ? 1 + recall : 0;
    }
    CHECK_INT(paired, l->blocks);
    return 1;
}

#endif
