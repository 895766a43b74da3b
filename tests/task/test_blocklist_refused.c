/* Lists of blocks that cannot be: which key is wrong, and which value would do. */
#include "check.h"
#include "blocklist_reading.h"

#include <stddef.h>

static void check_refused(const struct spec *s, const char *part)
{
    struct task *t = NULL;
    CHECK_INT(task_open(s, 1, &t), STATUS_JOB);
    CHECK(t == NULL);
    CHECK_HAS(status_text(), part);
    CHECK_INT(memory_balance(), 0);
}

/* One key of an otherwise possible task: a value that is refused, its neighbour that is taken, and the reason. */
static const struct refusal {
    enum pattern pattern;
    size_t key;
    int64_t refused, taken;
    const char *why;
} refusals[] = {
#define KEY_OF(name) offsetof(struct spec, task.name)
    {PATTERN_RECALL, KEY_OF(burstiness), 7, 6, "task.burstiness 7 is more than task.blocks 6"},
    {PATTERN_HOP, KEY_OF(chains), 4, 3, "task.chains 4 of task.hops 2 are 8 blocks, but task.blocks is 6"},
    {PATTERN_HOP, KEY_OF(hops), 4, 3, "task.chains 2 of task.hops 4 are 8 blocks, but task.blocks is 6"},
    {PATTERN_CONDITIONAL, KEY_OF(blocks), 5, 6, "task.blocks 5 is odd"},
    {PATTERN_INVERSION, KEY_OF(blocks), 1, 2, "task.blocks 1: a permutation without fixed points needs at least 2"},
    {PATTERN_RECALL, KEY_OF(common), 41, 40, "task.common 41 is odd"},
    {PATTERN_RECALL, KEY_OF(common), 22, 24, "task.common 22 does not suffice: common tokens with labels that are not theirs "
                                             "(task.variability 0.25) need at least 24"},
    {PATTERN_RECALL, KEY_OF(common), 0, 24, "task.common 0 does not suffice: sequences of common tokens (task.rare 0.4) need "
                                            "at least 12"},
    {PATTERN_IOI, KEY_OF(common), 22, 24, "need at least 24"},
    {PATTERN_HOP, KEY_OF(common), 18, 20, "need at least 20"},
    {PATTERN_NGRAM, KEY_OF(common), 24, 26, "need at least 26"},
    {PATTERN_CONDITIONAL, KEY_OF(common), 20, 22, "need at least 22"},
    {PATTERN_INVERSION, KEY_OF(common), 10, 12, "need at least 12"},
    {PATTERN_RECALL, KEY_OF(rare_tokens), 11, 12, "task.rare_tokens 11 does not suffice: sequences of rare tokens (task.rare "
                                                  "0.4) need at least 12"},
    {PATTERN_HOP, KEY_OF(rare_tokens), 9, 10, "need at least 10"},
    {PATTERN_NGRAM, KEY_OF(rare_tokens), 0, 13, "need at least 13"},
    {PATTERN_INVERSION, KEY_OF(rare_tokens), 5, 6, "need at least 6"},
    {PATTERN_RECALL, KEY_OF(period), 12, 13, "task.period 12 is too short: at least 13 positions hold the sequence"},
    {PATTERN_NGRAM, KEY_OF(period), 19, 20, "at least 20 positions hold the sequence"},
};

TEST(each_key_is_refused_up_to_its_limit)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct spec s = list_spec(refusals[i].pattern);
        struct task *t = NULL;
        memcpy((char *)&s + refusals[i].key, &refusals[i].refused, sizeof(int64_t));
        check_refused(&s, refusals[i].why);
        memcpy((char *)&s + refusals[i].key, &refusals[i].taken, sizeof(int64_t));
        CHECK_OK(task_open(&s, 1, &t));
        task_free(t);
    }
}

TEST(short_slots_and_rings_are_refused)
{
    struct spec s = list_spec(PATTERN_NGRAM);
    s.task.layout = LAYOUT_SLOTS;
    s.task.period = 4;
    check_refused(&s, "task.period 4 is too short: at least 5 positions keep the tokens of a block apart");
    s.task.period = 5;
    task_free(open_list(&s));
    s.task.layout = LAYOUT_OFFSETS;
    s.task.period = 2;
    check_refused(&s, "task.period 2 is too short: at least 3 positions hold a block");
    s.task.period = 3;
    task_free(open_list(&s));
}

TEST(enumerations_that_cannot_be_are_refused)
{
    struct spec s = list_spec(PATTERN_RECALL);
    s.task.expectation = EXPECTATION_PATTERNS;
    s.task.layout = LAYOUT_OFFSETS;
    check_refused(&s, "with task.layout offsets blocks meet by chance");
    s = list_spec(PATTERN_HOP);
    s.task.expectation = EXPECTATION_PATTERNS;
    s.task.common = s.task.rare_tokens = 100;
    s.task.chains = 4;
    s.task.blocks = 8;
    task_free(open_list(&s));                                /* 2 * 8! / 3! = 13440 */
    s.task.blocks = 9;
    check_refused(&s, "task.expectation patterns: 1.21e+05 patterns are more than 20000");      /* 2 * 9! / 3! */
    s.task.blocks = 4000;
    s.task.rare_tokens = s.task.common = 65536;
    check_refused(&s, "patterns are more than 20000");
    s = list_spec(PATTERN_NGRAM);
    s.task.expectation = EXPECTATION_PATTERNS;
    s.task.queried = QUERIED_LAST;
    s.task.blocks = 200;
    s.task.common = s.task.rare_tokens = 2000;
    check_refused(&s, "9.055e+58 patterns are more than 20000");     /* 2 * 199! / (100! 99!) */
    s = list_spec(PATTERN_RECALL);
    s.task.expectation = EXPECTATION_COMPLETE;
    check_refused(&s, "sequences are more than 4000000");
}
