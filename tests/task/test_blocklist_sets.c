/* Lists of blocks that are enumerated: patterns of relations and complete sets against what is drawn, against each other,
 * and against numbers counted by hand. */
#include "check.h"
#include "binomial.h"
#include "blocklist_reading.h"

enum { PATTERNS = PATTERN_INVERSION + 1, KEY = 80 };

/* All relations of a list: equal tokens (the answer among them), associated tokens, class. */
struct relations {
    signed char of[KEY];
    double weight;
};

static struct relations relations_of(const struct list *l)
{
    struct relations r = {.weight = l->weight};
    int n = l->length + 1, token[KEY / 2] = {0};
    if (2 * n + 1 > KEY)
        abort();
    for (int i = 0; i < n; i++)
        token[i] = i < l->length ? l->token[i] : answer_of(l);
    for (int i = 0; i < n; i++) {
        int same = 0, partner = 0;
        while (token[same] != token[i])
            same++;
        while (partner < n && token[partner] != (token[i] ^ 1))
            partner++;
        r.of[2 * i] = (signed char)same;
        r.of[2 * i + 1] = (signed char)(is_common(l, token[i]) && partner < n ? partner : -1);
    }
    r.of[2 * n] = (signed char)is_common(l, token[0]);
    return r;
}

static int by_relations(const void *a, const void *b) { return memcmp(a, b, KEY); }

/* Relations of all lists of a set, sorted, each once, their weights added.   out: how many. Freed by the caller */
static struct relations *collect(const struct spec *s, int *count)
{
    struct task *t = open_list(s);
    struct batch b = all_of(t, TASK_TRAIN);
    struct relations *all = memory_new((size_t)b.sequences, sizeof *all);
    for (int i = 0; i < b.sequences; i++) {
        struct list l = list_at(s, &b, i);
        all[i] = relations_of(&l);
    }
    qsort(all, (size_t)b.sequences, sizeof *all, by_relations);
    *count = 0;
    for (int i = 0; i < b.sequences; i++)
        if (*count && !by_relations(&all[*count - 1], &all[i]))
            all[*count - 1].weight += all[i].weight;
        else
            all[(*count)++] = all[i];
    batch_free(&b);
    task_free(t);
    return all;
}

static double sum_of_weights(const struct batch *b)
{
    double sum = 0.0;
    for (int i = 0; i < b->sequences; i++)
        sum += b->weight[i];
    return sum;
}

/* ---- how many ---- */

/* Patterns of one class, counted by hand: n blocks, parameters a and b (see list_of). */
static const struct count {
    enum pattern pattern;
    int blocks, a, b;
    enum queried queried;
    double patterns;
} counts[] = {
    {PATTERN_RECALL, 6, 1, 0, QUERIED_ANY, 6}, {PATTERN_RECALL, 6, 2, 0, QUERIED_ANY, 15},
    {PATTERN_RECALL, 6, 6, 0, QUERIED_ANY, 1}, {PATTERN_RECALL, 6, 2, 0, QUERIED_LAST, 1},
    {PATTERN_IOI, 5, 0, 0, QUERIED_ANY, 10}, {PATTERN_IOI, 5, 0, 0, QUERIED_LAST, 2},
    /* two blocks of the chain among 3: ordered places 3 * 2 */
    {PATTERN_HOP, 3, 2, 1, QUERIED_ANY, 6}, {PATTERN_HOP, 3, 2, 1, QUERIED_LAST, 1},
    /* 4! orders: the asked chain is known by the query */
    {PATTERN_HOP, 4, 2, 2, QUERIED_ANY, 24}, {PATTERN_HOP, 4, 2, 2, QUERIED_LAST, 2},
    /* 6! orders, the two other chains alike */
    {PATTERN_HOP, 6, 2, 3, QUERIED_ANY, 360}, {PATTERN_HOP, 6, 2, 3, QUERIED_LAST, 12},
    {PATTERN_HOP, 5, 1, 3, QUERIED_ANY, 5}, {PATTERN_HOP, 5, 1, 3, QUERIED_LAST, 1},
    {PATTERN_HOP, 6, 6, 1, QUERIED_ANY, 720},
    /* distractors of two kinds, 3 and 2 of them: 6! / (3! 2!) */
    {PATTERN_NGRAM, 6, 2, 0, QUERIED_ANY, 60}, {PATTERN_NGRAM, 6, 2, 0, QUERIED_LAST, 10},
    {PATTERN_NGRAM, 6, 1, 0, QUERIED_ANY, 6}, {PATTERN_NGRAM, 3, 8, 0, QUERIED_ANY, 6},
    {PATTERN_NGRAM, 1, 3, 0, QUERIED_ANY, 1},
    /* 4! orders, one other item; 6! / 2 with two */
    {PATTERN_CONDITIONAL, 4, 0, 0, QUERIED_ANY, 24}, {PATTERN_CONDITIONAL, 6, 0, 0, QUERIED_ANY, 360},
    {PATTERN_CONDITIONAL, 6, 0, 0, QUERIED_LAST, 60}, {PATTERN_CONDITIONAL, 2, 0, 0, QUERIED_ANY, 2},
    /* 1, 2, 9, 44 permutations without fixed points */
    {PATTERN_INVERSION, 2, 0, 0, QUERIED_ANY, 2}, {PATTERN_INVERSION, 3, 0, 0, QUERIED_ANY, 6},
    {PATTERN_INVERSION, 4, 0, 0, QUERIED_ANY, 36}, {PATTERN_INVERSION, 5, 0, 0, QUERIED_LAST, 44},
};
enum { COUNTS = sizeof counts / sizeof counts[0] };

static struct spec list_of(const struct count *c)
{
    struct spec s = list_spec(c->pattern);
    s.task.expectation = EXPECTATION_PATTERNS;
    s.task.blocks = c->blocks;
    s.task.queried = (int)c->queried;
    s.task.common = 100;
    s.task.rare_tokens = 50;
    if (c->pattern == PATTERN_RECALL)
        s.task.burstiness = c->a;
    if (c->pattern == PATTERN_HOP) {
        s.task.hops = c->a;
        s.task.chains = c->b;
    }
    if (c->pattern == PATTERN_NGRAM)
        s.task.order = c->a;
    return s;
}

/* Each pattern once, as many as were counted, each a list that is right, at the first places. */
TEST(patterns_are_as_many_as_counted_by_hand)
{
    for (int i = 0; i < COUNTS; i++) {
        struct spec s = list_of(&counts[i]);
        const int classes = counts[i].pattern == PATTERN_RECALL ? 3 : 2;
        CHECK_NEAR(shape_sequences(&s, false), classes * counts[i].patterns, 0.0);
        struct task *t = open_list(&s);
        struct batch b = all_of(t, TASK_TRAIN);
        int different, block = -1;
        memory_free(collect(&s, &different));
        CHECK_INT(different, b.sequences);
        CHECK_INT(b.sequences, classes * counts[i].patterns);
        CHECK_NEAR(sum_of_weights(&b), 1.0, 1e-13);          /* measured: at most 1.2e-14 */
        for (int k = 0; k < b.sequences; k++) {
            struct list l = list_at(&s, &b, k);
            CHECK_INT(answer_of(&l), read_answer(&l, &block));
            read_class(&l);
            for (int p = 0; p < l.length; p++)
                CHECK_INT(l.position[p], p);
        }
        batch_free(&b);
        task_free(t);
    }
    CHECK_INT(memory_balance(), 0);
}

/* Beyond 170! and back: formulas that only their quotients keep in range. */
TEST(large_lists_are_counted_too)
{
    static const struct count large[] = {
        {PATTERN_RECALL, 1500, 1, 0, QUERIED_ANY, 1500}, {PATTERN_RECALL, 1500, 1499, 0, QUERIED_ANY, 1500},
        {PATTERN_RECALL, 1500, 2, 0, QUERIED_ANY, 1124250}, {PATTERN_RECALL, 1500, 1500, 0, QUERIED_ANY, 1},
        {PATTERN_NGRAM, 300, 1, 0, QUERIED_ANY, 300}, {PATTERN_HOP, 300, 1, 1, QUERIED_ANY, 300},
        {PATTERN_HOP, 1200, 2, 1, QUERIED_ANY, 1438800}, {PATTERN_HOP, 1200, 2, 1, QUERIED_LAST, 1},
    };
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        struct spec s = list_of(&large[i]);
        s.task.rare = 1.0;
        s.task.common = 0;
        s.task.rare_tokens = 65536;
        CHECK_NEAR(shape_sequences(&s, false), large[i].patterns, 0.0);
    }
    struct spec s = list_of(&counts[16]);
    s.task.common = 0;
    s.task.blocks = 200;
    /* 199! / (100! 99!) */
    CHECK_NEAR(shape_sequences(&s, false), 0.0, 0.0);        /* 50 rare tokens: of no class are there enough */
    s.task.rare_tokens = 1000;
    CHECK_NEAR(log(shape_sequences(&s, false)), lgamma(200) - lgamma(101) - lgamma(100), 1e-10);
}

TEST(a_pattern_of_300_is_enumerated)
{
    struct spec s = list_spec(PATTERN_HOP);
    s.task.expectation = EXPECTATION_PATTERNS;
    s.task.hops = s.task.chains = 1;
    s.task.blocks = 300;
    s.task.common = 0;
    s.task.rare = 1.0;
    s.task.rare_tokens = 600;
    struct task *t = open_list(&s);
    CHECK_INT(task_sequences(t, TASK_TRAIN), 300);
    task_free(t);
}

/* ---- patterns against what is drawn ---- */

static const struct relations *find(const struct relations *all, int n, const struct relations *one)
{
    return bsearch(one, all, (size_t)n, sizeof *all, by_relations);
}

/* Each pattern is drawn as often as its weight says, and no other is. */
TEST(patterns_weigh_what_is_drawn)
{
    for (int i = 0; i < COUNTS; i++) {
        struct spec s = list_of(&counts[i]), drawn;
        drawn = s;
        drawn.task.expectation = EXPECTATION_SAMPLED;
        drawn.task.sequences = 40000;
        int n, seen, found = 0;
        struct relations *all = collect(&s, &n), *some = collect(&drawn, &seen);
        for (int k = 0; k < n; k++) {
            const struct relations *r = find(some, seen, &all[k]);
            found += r != NULL;
            check_binomial("pattern", 40000, r ? lround(r->weight) : 0, all[k].weight);
        }
        CHECK_INT(found, seen);
        memory_free(all);
        memory_free(some);
    }
}

/* Shares of classes: points of a grid that differ in them have the same sequences. */
TEST(weights_follow_the_shares_of_the_classes)
{
    for (int i = 0; i <= 4; i++)
        for (int j = 0; j <= 4; j++) {
            struct spec s = list_of(&counts[0]);
            s.task.rare = i / 4.0;
            s.task.variability = j / 4.0;
            struct task *t = open_list(&s);
            struct batch b = all_of(t, TASK_TRAIN);
            double of[3] = {0};
            CHECK_INT(b.sequences, 18);
            for (int k = 0; k < b.sequences; k++) {
                struct list l = list_at(&s, &b, k);
                of[read_class(&l)] += l.weight;
            }
            CHECK_NEAR(of[0], i / 4.0, 1e-15);
            CHECK_NEAR(of[1], (1.0 - i / 4.0) * (1.0 - j / 4.0), 1e-15);
            CHECK_NEAR(of[2], (1.0 - i / 4.0) * j / 4.0, 1e-15);
            batch_free(&b);
            task_free(t);
        }
}

TEST(patterns_stand_in_their_slots_in_order)
{
    struct spec s = list_of(&counts[15]);
    s.task.layout = LAYOUT_SLOTS;
    struct task *t = open_list(&s);
    struct batch b = all_of(t, TASK_TEST);
    CHECK_INT(task_shape(t).period, 5);
    CHECK_INT(task_shape(t).positions, 35);
    for (int k = 0; k < b.sequences * b.length; k++)
        CHECK_INT(b.position[k], k % b.length / 3 * 5 + k % b.length % 3);
    batch_free(&b);
    task_free(t);
}

/* Every step takes all, in their order, with their weights; training and test set are the same. */
TEST(every_step_takes_all_patterns)
{
    struct spec s = list_of(&counts[1]);
    struct task *t = open_list(&s);
    CHECK_INT(task_batch_size(t), 45);
    CHECK_INT(task_epoch_steps(t), 1);
    CHECK_INT(task_steps(t), 2);
    struct batch all = all_of(t, TASK_TRAIN), test = all_of(t, TASK_TEST), b = batch_new_of(45, task_shape(t));
    for (size_t step = 0; step < 3; step++) {
        task_train_batch(t, step, &b);
        CHECK_INT(b.sequences, 45);
        CHECK_BYTES(b.token, all.token, 45 * 13 * sizeof(int32_t));
        CHECK_BYTES(b.token, test.token, 45 * 13 * sizeof(int32_t));
        CHECK_BYTES(b.position, all.position, 45 * 13 * sizeof(int32_t));
        CHECK_BYTES(b.weight, all.weight, 45 * sizeof(double));
        CHECK_BYTES(b.weight, test.weight, 45 * sizeof(double));
    }
    batch_free(&all);
    batch_free(&test);
    batch_free(&b);
    task_free(t);
    CHECK_INT(memory_balance(), 0);
}

/* ---- complete sets ---- */

/* Small tasks; sequences counted by hand: for each class patterns * namings * places. */
static const struct whole {
    enum pattern pattern;
    int blocks, common, rare, layout, period;
    double sequences;
} wholes[] = {
    /* 2 patterns, 5 * 4 * 3 * 2 names; contiguous */
    {PATTERN_RECALL, 2, 0, 5, LAYOUT_CONTIGUOUS, 0, 2 * 120},
    /* rare 2 * 24; common pairs 2 * (8 * 6); varied 2 * (8 * 6 * 4 * 2) */
    {PATTERN_RECALL, 2, 8, 4, LAYOUT_CONTIGUOUS, 0, 48 + 96 + 768},
    /* no varied: 6 tokens are too few; 3! slots, 3^3 offsets */
    {PATTERN_RECALL, 2, 6, 4, LAYOUT_SLOTS, 0, (48 + 2 * 6 * 4) * 6 * 27},
    {PATTERN_RECALL, 2, 0, 4, LAYOUT_OFFSETS, 0, 48 * 125},
    {PATTERN_RECALL, 2, 0, 4, LAYOUT_OFFSETS, 3, 48 * 27},
    {PATTERN_HOP, 2, 0, 4, LAYOUT_CONTIGUOUS, 0, 2 * 24},
    {PATTERN_HOP, 3, 10, 5, LAYOUT_CONTIGUOUS, 0, 6 * (120 + 10 * 8 * 6 * 4 * 2)},
    {PATTERN_NGRAM, 2, 0, 5, LAYOUT_SLOTS, 0, 2 * 120 * 6 * 125},
    {PATTERN_IOI, 2, 8, 0, LAYOUT_OFFSETS, 4, 4 * 384 * 64},
    {PATTERN_CONDITIONAL, 2, 10, 5, LAYOUT_CONTIGUOUS, 0, 2 * (120 + 3840)},
    {PATTERN_INVERSION, 3, 6, 4, LAYOUT_CONTIGUOUS, 0, 6 * (24 + 48)},
};
enum { WHOLES = sizeof wholes / sizeof wholes[0] };

static struct spec whole_of(const struct whole *w)
{
    struct spec s = list_spec(w->pattern);
    s.task.expectation = EXPECTATION_COMPLETE;
    s.task.blocks = w->blocks;
    s.task.chains = 1;
    s.task.common = w->common;
    s.task.rare_tokens = w->rare;
    s.task.rare = w->common == 0 ? 1.0 : w->rare == 0 ? 0.0 : 0.375;
    s.task.variability = w->common == 8 ? 0.25 : 0.0;
    s.task.layout = w->layout;
    s.task.period = w->period;
    return s;
}

static size_t row_numbers;

static int by_numbers(const void *a, const void *b) { return memcmp(a, b, row_numbers * sizeof(int32_t)); }

/* Sequences that occur more than once. */
static int repeated(const struct batch *b)
{
    const size_t n = (size_t)b->length;
    row_numbers = 2 * n + 1;
    int32_t *all = memory_new((size_t)b->sequences, row_numbers * sizeof *all);
    for (size_t i = 0; i < (size_t)b->sequences; i++) {
        memcpy(all + i * row_numbers, b->token + i * n, n * sizeof *all);
        memcpy(all + i * row_numbers + n, b->position + i * n, n * sizeof *all);
        all[i * row_numbers + 2 * n] = b->target[(i + 1) * n - 1];
    }
    qsort(all, (size_t)b->sequences, row_numbers * sizeof *all, by_numbers);
    int same = 0;
    for (size_t i = 1; i < (size_t)b->sequences; i++)
        same += by_numbers(all + (i - 1) * row_numbers, all + i * row_numbers) == 0;
    memory_free(all);
    return same;
}

TEST(complete_sets_have_every_sequence_once)
{
    for (int i = 0; i < WHOLES; i++) {
        struct spec s = whole_of(&wholes[i]);
        CHECK_NEAR(shape_sequences(&s, false), wholes[i].sequences, 0.0);
        struct task *t = open_list(&s);
        struct batch b = all_of(t, TASK_TRAIN);
        CHECK_INT(b.sequences, wholes[i].sequences);
        CHECK_INT(repeated(&b), 0);
        CHECK_NEAR(sum_of_weights(&b), 1.0, 1e-11);          /* measured: at most 2.6e-12, of 180000 terms */
        for (int k = 0; k < b.sequences; k += 1 + 10 * CHECK_SANITIZED) {
            struct list l = list_at(&s, &b, k);
            int block = -1;
            CHECK_INT(answer_of(&l), read_answer(&l, &block));
            read_class(&l);
        }
        batch_free(&b);
        task_free(t);
    }
    CHECK_INT(memory_balance(), 0);
}

/* The relations of all sequences together are those of the patterns. */
TEST(complete_sets_have_the_relations_of_the_patterns)
{
    for (int i = 0; i < WHOLES; i++) {
        struct spec s = whole_of(&wholes[i]), patterns;
        patterns = s;
        patterns.task.expectation = EXPECTATION_PATTERNS;
        patterns.task.layout = LAYOUT_CONTIGUOUS;
        patterns.task.period = 0;
        int n, m;
        struct relations *all = collect(&s, &n), *few = collect(&patterns, &m);
        CHECK_INT(n, m);
        for (int k = 0; k < n && k < m; k++) {
            CHECK_INT(by_relations(&all[k], &few[k]), 0);
            CHECK_NEAR(all[k].weight, few[k].weight, 1e-11);     /* measured: at most 7.1e-13 */
        }
        memory_free(all);
        memory_free(few);
    }
}

/* What is drawn is in the complete set, each sequence with its weight. */
TEST(complete_sets_weigh_what_is_drawn)
{
    struct spec s = whole_of(&wholes[1]);
    struct task *t = open_list(&s), *d;
    struct batch b = all_of(t, TASK_TRAIN);
    s.task.expectation = EXPECTATION_SAMPLED;
    s.task.sequences = 60000;
    d = open_list(&s);
    struct batch some = all_of(d, TASK_TRAIN);
    for (int k = 0; k < b.sequences; k++) {
        long count = 0;
        for (int i = 0; i < some.sequences; i++)
            count += !memcmp(b.token + 5 * k, some.token + 5 * i, 5 * sizeof(int32_t));
        check_binomial("sequence", some.sequences, count, b.weight[k]);
    }
    batch_free(&b);
    batch_free(&some);
    task_free(t);
    task_free(d);
}
