/* Lists of blocks that are drawn: read as a person would, each against its definition; frequencies; refusals. */
#include "check.h"
#include "binomial.h"
#include "blocklist_reading.h"
#include "job/plan.h"

enum { PATTERNS = PATTERN_INVERSION + 1 };

/* ---- each list says what its pattern promises ---- */

static int different_tokens(const struct list *l)
{
    int n = 0;
    for (int i = 0; i < l->length; i++) {
        int new = 1;
        for (int j = 0; j < i; j++)
            new &= l->token[j] != l->token[i];
        n += new;
    }
    return n;
}

/* Distractors share exactly one token with the context, the one of their turn; their answers are others. */
static void check_ngram(const struct list *l, int asked)
{
    const int order = (int)l->s->task.order;
    int turn[16] = {0};
    for (int b = 0; b < l->blocks; b++) {
        int shared = 0;
        for (int j = 0; j < order && b != asked; j++)
            if (at(l, b, j) == at(l, asked, j)) {
                shared++;
                turn[j]++;
            }
        if (b != asked)
            CHECK_INT(shared, order > 1);
        CHECK(b == asked || at(l, b, order) != answer_of(l));
    }
    for (int j = 0; j < order && order > 1; j++)
        CHECK_INT(turn[j], (l->blocks - 1 + order - 1 - j) / order);
    CHECK_INT(different_tokens(l), order == 1 ? 2 * l->blocks : l->blocks * order + 1);
}

/* Two conditions, each item under both of them. */
static void check_conditional(const struct list *l)
{
    for (int b = 0; b < l->blocks; b++) {
        int same_item = 0, same_condition = 0;
        for (int c = 0; c < l->blocks; c++) {
            same_item += at(l, c, 1) == at(l, b, 1);
            same_condition += at(l, c, 0) == at(l, b, 0);
            CHECK(c == b || at(l, c, 1) != at(l, b, 1) || at(l, c, 0) != at(l, b, 0));
        }
        CHECK_INT(same_item, 2);
        CHECK_INT(same_condition, l->blocks / 2);
    }
    CHECK_INT(different_tokens(l), 2 + l->blocks / 2 + l->blocks);
}

/* Every token once first and once second, never both in a block. */
static void check_inversion(const struct list *l)
{
    for (int b = 0; b < l->blocks; b++) {
        int first = 0, second = 0;
        for (int c = 0; c < l->blocks; c++) {
            first += at(l, c, 0) == at(l, b, 0);
            second += at(l, c, 1) == at(l, b, 0);
        }
        CHECK_INT(first, 1);
        CHECK_INT(second, 1);
        CHECK(at(l, b, 0) != at(l, b, 1));
    }
    CHECK_INT(different_tokens(l), l->blocks);
}

static void check_hop(const struct list *l, int first)
{
    const int hops = (int)l->s->task.hops, chains = (int)l->s->task.chains;
    int links = 0;
    for (int b = 0; b < l->blocks; b++)
        for (int c = 0; c < l->blocks; c++)
            links += at(l, b, 1) == at(l, c, 0);
    CHECK_INT(links, chains * (hops - 1));
    for (int b = 0; b < l->blocks; b++)
        CHECK(at(l, b, 1) != at(l, l->blocks, 0));       /* the query is the beginning of a chain */
    CHECK_INT(different_tokens(l), 2 * l->blocks - chains * (hops - 1));
    if (l->s->task.queried == QUERIED_LAST)
        for (int h = 0; h < hops; h++)
            CHECK(first == l->blocks - hops && (h == 0 || at(l, first + h, 0) == at(l, first + h - 1, 1)));
}

static void check_copies(const struct list *l)
{
    const int b = (int)l->s->task.burstiness;
    CHECK_INT(different_tokens(l), 2 * (l->blocks - b + 1));
    for (int i = l->blocks - b; i < l->blocks && l->s->task.queried == QUERIED_LAST; i++)
        CHECK_INT(at(l, i, 0), at(l, l->blocks, 0));
}

static void check_places(const struct list *l)
{
    struct task_shape shape = shape_of(l->s);
    int taken[64] = {0};
    for (int i = 0; i < l->length; i++) {
        int p = l->position[i], begin = l->position[i / l->k * l->k], group = p / shape.period;
        CHECK(p >= 0 && p < shape.positions);
        if (l->s->task.layout == LAYOUT_CONTIGUOUS) {
            CHECK_INT(p, i);
            continue;
        }
        CHECK_INT(group, begin / shape.period);
        CHECK_INT(p % shape.period, (begin + i % l->k) % shape.period);
        if (l->s->task.layout == LAYOUT_SLOTS && i % l->k == 0)
            CHECK_INT(taken[group]++, 0);
    }
}

static void check_list(const struct list *l)
{
    int block = -1, want = read_answer(l, &block);
    CHECK_INT(answer_of(l), want);
    for (int i = 0; i < l->length - 1; i++)
        CHECK_INT(l->target[i], -1);
    read_class(l);
    switch ((enum pattern)l->s->task.pattern) {
    case PATTERN_RECALL: check_copies(l); break;
    case PATTERN_HOP: check_hop(l, block); break;
    case PATTERN_NGRAM: check_ngram(l, block); break;
    case PATTERN_IOI: CHECK_INT(different_tokens(l), 2 * l->blocks); break;
    case PATTERN_CONDITIONAL: check_conditional(l); break;
    case PATTERN_INVERSION: check_inversion(l); break;
    }
    if (l->s->task.queried == QUERIED_LAST && l->s->task.pattern != PATTERN_HOP)
        CHECK_INT(block, l->blocks - 1);
    check_places(l);
}

static void check_lists(const struct spec *s)
{
    struct task *t = open_list(s);
    for (int set = 0; set < 2; set++) {
        struct batch b = all_of(t, (enum task_set)set);
        CHECK_INT(b.length, s->task.blocks * block_size(s) + block_size(s) - 1);
        for (int i = 0; i < b.sequences; i++) {
            struct list l = list_at(s, &b, i);
            check_list(&l);
            CHECK_NEAR(l.weight, 1.0, 0.0);
        }
        batch_free(&b);
    }
    task_free(t);
    CHECK_INT(memory_balance(), 0);
}

TEST(every_pattern_in_every_layout_by_reading)
{
    for (int pattern = 0; pattern < PATTERNS; pattern++)
        for (int layout = 0; layout < 3; layout++)
            for (int queried = 0; queried < 2; queried++) {
                struct spec s = list_spec((enum pattern)pattern);
                s.task.layout = layout;
                s.task.queried = queried;
                check_lists(&s);
                s.task.period = 40;
                check_lists(&s);
            }
}

TEST(other_sizes_by_reading)
{
    struct spec s = list_spec(PATTERN_RECALL);
    for (s.task.burstiness = 1; s.task.burstiness <= 6; s.task.burstiness++)
        check_lists(&s);
    s = list_spec(PATTERN_HOP);
    s.task.common = 60;
    for (s.task.hops = 1; s.task.hops <= 6; s.task.hops++)
        for (s.task.chains = 1; s.task.chains * s.task.hops <= 6; s.task.chains++)
            check_lists(&s);
    s = list_spec(PATTERN_NGRAM);
    s.task.common = s.task.rare_tokens = 200;
    for (s.task.order = 1; s.task.order <= 8; s.task.order++)
        check_lists(&s);
    for (int64_t blocks = 1; blocks <= 8; blocks++)
        for (int pattern = 0; pattern < PATTERNS; pattern++) {
            s = list_spec((enum pattern)pattern);
            s.task.blocks = blocks;
            s.task.chains = s.task.hops = 1;
            if ((pattern != PATTERN_CONDITIONAL || blocks % 2 == 0) && (pattern != PATTERN_INVERSION || blocks > 1))
                check_lists(&s);
        }
}

/* The reader itself: it must see a list that lies. */
TEST(the_reader_sees_wrong_lists)
{
    struct spec s = list_spec(PATTERN_RECALL);
    s.task.blocks = 2;
    int32_t token[] = {40, 41, 42, 43, 42}, target[] = {-1, -1, -1, -1, 43}, position[] = {0, 1, 2, 3, 4};
    struct list l = {&s, 2, 2, 5, token, target, position, 1.0};
    check_list(&l);
    CHECK_INT(check_failures, 0);
    target[4] = 41;
    fprintf(stderr, "the following complaints are expected:\n");
    check_list(&l);
    int wrong_answer = check_failures;
    target[4] = 43;
    position[2] = 3;
    check_list(&l);
    int wrong_place = check_failures - wrong_answer;
    position[2] = 2;
    token[1] = 43;
    check_list(&l);
    int twice = check_failures - wrong_answer - wrong_place;
    check_failures = 0;
    CHECK_INT(wrong_answer, 1);
    CHECK_INT(wrong_place, 1);
    CHECK_INT(twice, 1);
}

/* ---- frequencies ---- */

static struct batch many(const struct spec *s)
{
    struct task *t = open_list(s);
    struct batch b = all_of(t, TASK_TRAIN);
    task_free(t);
    return b;
}

TEST(classes_have_their_shares)
{
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        struct spec s = list_spec((enum pattern)pattern);
        s.task.sequences = 20000;
        struct batch b = many(&s);
        long of[3] = {0};
        for (int i = 0; i < b.sequences; i++) {
            struct list l = list_at(&s, &b, i);
            of[read_class(&l)]++;
        }
        double varied = pattern == PATTERN_RECALL ? 0.6 * 0.25 : 0.0;
        check_binomial("rare", b.sequences, of[0], 0.4);
        check_binomial("common", b.sequences, of[1], 0.6 - varied);
        check_binomial("varied", b.sequences, of[2], varied);
        batch_free(&b);
    }
}

/* Queried blocks at each place equally often; with `last`, see check_list. */
TEST(every_place_is_asked_equally_often)
{
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        struct spec s = list_spec((enum pattern)pattern);
        s.task.sequences = 20000;
        struct batch b = many(&s);
        long place[6] = {0}, second = 0;
        for (int i = 0; i < b.sequences; i++) {
            struct list l = list_at(&s, &b, i);
            int block = -1;
            read_answer(&l, &block);
            place[block]++;
            second += at(&l, block, 1) == at(&l, 6, 0);
        }
        for (int p = 0; p < 6; p++)
            check_binomial("queried place", b.sequences, place[p], 1.0 / 6.0);
        check_binomial("queried side", b.sequences, second, pattern == PATTERN_IOI ? 0.5 : pattern == PATTERN_INVERSION);
        batch_free(&b);
    }
}

/* Each token is first, the answer, and (of associated ones) the item as often as any other. */
TEST(tokens_are_drawn_uniformly)
{
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        struct spec s = list_spec((enum pattern)pattern);
        s.task.sequences = 20000;
        struct batch b = many(&s);
        long first[70] = {0}, answer[70] = {0};
        for (int i = 0; i < b.sequences; i++) {
            struct list l = list_at(&s, &b, i);
            first[l.token[0]]++;
            answer[answer_of(&l)]++;
        }
        for (int token = 0; token < 70; token++) {
            check_binomial("first token", b.sequences, first[token], token < 40 ? 0.6 / 40 : 0.4 / 30);
            check_binomial("answer", b.sequences, answer[token], token < 40 ? 0.6 / 40 : 0.4 / 30);
        }
        batch_free(&b);
    }
}

/* Offsets of each block uniform and of two blocks independent; each block in each slot equally often. */
TEST(places_are_drawn_uniformly)
{
    for (int layout = LAYOUT_SLOTS; layout <= LAYOUT_OFFSETS; layout++) {
        struct spec s = list_spec(PATTERN_RECALL);
        s.task.layout = layout;
        s.task.sequences = 20000;
        s.task.period = 5;
        struct batch b = many(&s);
        long offset[7][5] = {{0}}, pair[5][5] = {{0}}, slot[7][7] = {{0}}, neighbours = 0;
        for (int i = 0; i < b.sequences; i++) {
            struct list l = list_at(&s, &b, i);
            for (int k = 0; k < 7; k++) {
                offset[k][l.position[2 * k] % 5]++;
                slot[k][l.position[2 * k] / 5]++;
            }
            pair[l.position[0] % 5][l.position[12] % 5]++;
            neighbours += l.position[2] / 5 == l.position[0] / 5 + 1;
        }
        for (int k = 0; k < 7; k++)
            for (int o = 0; o < 5; o++)
                check_binomial("offset", b.sequences, offset[k][o], 0.2);
        for (int k = 0; k < 25; k++)
            check_binomial("two offsets", b.sequences, pair[k / 5][k % 5], 0.04);
        for (int k = 0; k < 49; k++)
            check_binomial("slot", b.sequences, slot[k / 7][k % 7], layout == LAYOUT_SLOTS ? 1.0 / 7.0 : k % 7 == 0);
        check_binomial("next slot", b.sequences, neighbours, layout == LAYOUT_SLOTS ? 6.0 / 42.0 : 0.0);
        batch_free(&b);
    }
}

/* ---- batches ---- */

static void check_same(const struct batch *a, const struct batch *b)
{
    CHECK_INT(a->sequences, b->sequences);
    size_t bytes = (size_t)a->sequences * (size_t)a->length * sizeof(int32_t);
    CHECK_BYTES(a->token, b->token, bytes);
    CHECK_BYTES(a->target, b->target, bytes);
    CHECK_BYTES(a->position, b->position, bytes);
    CHECK_BYTES(a->weight, b->weight, (size_t)a->sequences * sizeof *a->weight);
}

/* Which of `all` is list i of `b`. */
static int number_of(const struct batch *all, const struct batch *b, int i)
{
    size_t bytes = (size_t)all->length * sizeof(int32_t), row = (size_t)all->length;
    for (int j = 0; j < all->sequences; j++)
        if (!memcmp(all->token + row * (size_t)j, b->token + row * (size_t)i, bytes) &&
            !memcmp(all->position + row * (size_t)j, b->position + row * (size_t)i, bytes))
            return j;
    return -1;
}

/* A step is the same out of turn, for every run's seed where nothing is shuffled, and a list does not depend on how many
 * others a batch has. */
TEST(new_lists_are_a_pure_function_of_seed_and_step)
{
    struct spec s = list_spec(PATTERN_RECALL), wide, other;
    s.task.layout = LAYOUT_SLOTS;
    s.task.sequences = 0;
    wide = other = s;
    wide.train.batch = 64;
    other.task.seed = 1;
    struct task *t = open_list(&s), *w = open_list(&wide), *o = open_list(&other), *r = NULL;
    CHECK_OK(task_open(&s, 8, &r));
    CHECK_INT(task_sequences(t, TASK_TRAIN), 400);
    struct batch a = batch_new_of(32, task_shape(t)), b = batch_new_of(64, task_shape(t));
    struct batch last = batch_new_of(32, task_shape(t));
    size_t bytes = 32 * 13 * sizeof(int32_t);
    for (size_t step = 0; step < 20; step++) {
        task_train_batch(t, step * 7 % 20, &a);
        CHECK_INT(a.sequences, 32);
        for (int i = 0; i < 32; i++) {
            struct list l = list_at(&s, &a, i);
            check_list(&l);
            CHECK_NEAR(l.weight, 1.0, 0.0);
            CHECK_INT(number_of(&a, &a, i), i);              /* no two are the same */
        }
        task_train_batch(r, step * 7 % 20, &b);
        check_same(&a, &b);
        task_train_batch(w, step * 7 % 20, &b);
        CHECK_BYTES(a.token, b.token, bytes);
        CHECK_BYTES(a.position, b.position, bytes);
        task_train_batch(o, step * 7 % 20, &b);
        CHECK(memcmp(a.token, b.token, bytes));
        CHECK(memcmp(a.token, last.token, bytes));
        memcpy(last.token, a.token, bytes);
    }
    task_set_batch(t, TASK_TRAIN, 0, 32, &a);
    task_set_batch(t, TASK_TEST, 0, 32, &b);
    CHECK(memcmp(a.token, b.token, bytes));
    batch_free(&a);
    batch_free(&b);
    batch_free(&last);
    task_free(t);
    task_free(w);
    task_free(o);
    task_free(r);
    CHECK_INT(memory_balance(), 0);
}

/* Fixed sets: each list once an epoch, its positions with it; a short last batch; other orders for other runs. */
TEST(fixed_sets_are_reshuffled_with_their_positions)
{
    struct spec s = list_spec(PATTERN_IOI);
    s.task.layout = LAYOUT_OFFSETS;
    struct task *t = open_list(&s);
    struct batch all = all_of(t, TASK_TRAIN), b = batch_new_of(32, task_shape(t));
    CHECK_INT(task_epoch_steps(t), 19);
    CHECK_INT(task_steps(t), 38);
    for (size_t epoch = 0; epoch < 2; epoch++) {
        int seen[600] = {0};
        for (size_t step = 0; step < 19; step++) {
            task_train_batch(t, 19 * epoch + step, &b);
            CHECK_INT(b.sequences, step < 18 ? 32 : 24);
            for (int i = 0; i < b.sequences; i++)
                seen[number_of(&all, &b, i)]++;
        }
        for (int i = 0; i < 600; i++)
            CHECK_INT(seen[i], 1);
    }
    batch_free(&all);
    batch_free(&b);
    task_free(t);
}

/* Sets too large to be stored, and tokens beyond one byte. */
TEST(unstored_lists_are_the_same)
{
    struct spec s = list_spec(PATTERN_RECALL), large;
    s.task.layout = LAYOUT_SLOTS;
    s.task.rare_tokens = 1000;
    large = s;
    large.task.sequences = 3000000;
    struct task *t = open_list(&s), *l = open_list(&large);
    struct batch a = batch_new_of(50, task_shape(t)), b = batch_new_of(50, task_shape(t));
    for (int set = 0; set < 2; set++) {
        task_set_batch(t, (enum task_set)set, 300, 50, &a);
        task_set_batch(l, (enum task_set)set, 300, 50, &b);
        check_same(&a, &b);
    }
    batch_free(&a);
    batch_free(&b);
    task_free(t);
    task_free(l);
}

/* Steps and epochs as the plan of the job counts them. */
TEST(steps_are_those_of_the_plan)
{
    for (int expectation = 0; expectation < 2; expectation++)
        for (int64_t sequences = 0; sequences <= 600; sequences += 300)
            for (int64_t batch = 0; batch <= 64; batch += 32) {
                struct spec s = list_spec(PATTERN_RECALL);
                s.task.expectation = expectation;
                s.task.sequences = sequences;
                s.train.batch = batch;
                struct task *t = open_list(&s);
                CHECK_INT(task_epoch_steps(t), plan_epoch_steps(&s));
                CHECK_INT(task_steps(t), plan_steps(&s));
                task_free(t);
            }
}

TEST(only_the_last_position_is_asked)
{
    struct spec s = list_spec(PATTERN_NGRAM);
    struct task *t = open_list(&s);
    int position[32];
    CHECK_INT(task_positions(t, position), 1);
    CHECK_INT(position[0], 19);
    CHECK_INT(task_shape(t).looked, 1);
    CHECK_NEAR(task_truth(t).accuracy_best, 1.0, 0.0);
    CHECK_NEAR(task_truth(t).accuracy_chance, 1.0 / 70.0, 0.0);
    task_free(t);
}
