#include "base/memory.h"
#include "base/status.h"
#include "base/stream.h"
#include "base/text.h"
#include "job/claim.h"

#include "check.h"

#include <stdbool.h>

/* ---- an evaluator over three variables, against values computed while the text is made ---- */

static double variable(const char *name, int index)
{
    double base = !strcmp(name, "x") ? 0.5 : !strcmp(name, "core_dim") ? 3.0 : 0.25;
    return index < 0 ? base : base + index;
}

static double evaluate(const struct claim_node *n)
{
    switch (n->kind) {
    case CLAIM_NUMBER: return n->number;
    case CLAIM_NAME: return variable(n->name, n->index);
    case CLAIM_NEGATE: return -evaluate(n->a);
    case CLAIM_ADD: return evaluate(n->a) + evaluate(n->b);
    case CLAIM_SUBTRACT: return evaluate(n->a) - evaluate(n->b);
    case CLAIM_MULTIPLY: return evaluate(n->a) * evaluate(n->b);
    case CLAIM_DIVIDE: return evaluate(n->a) / evaluate(n->b);
    case CLAIM_CALL: return !strcmp(n->name, "abs") ? fabs(evaluate(n->a)) : evaluate(n->a);
    case CLAIM_EQ: return evaluate(n->a) == evaluate(n->b);
    case CLAIM_NE: return evaluate(n->a) != evaluate(n->b);
    case CLAIM_LT: return evaluate(n->a) < evaluate(n->b);
    case CLAIM_LE: return evaluate(n->a) <= evaluate(n->b);
    case CLAIM_GT: return evaluate(n->a) > evaluate(n->b);
    case CLAIM_GE: return evaluate(n->a) >= evaluate(n->b);
    case CLAIM_AND: return evaluate(n->a) != 0.0 && evaluate(n->b) != 0.0;
    }
    return NAN;
}

static const char *blank(struct stream *r) { return stream_below(r, 3) ? "" : "  "; }

static double make_sum(struct stream *r, struct text *t, int depth);

static double make_factor(struct stream *r, struct text *t, int depth)
{
    static const char *const names[] = {"x", "core_dim", "accuracy_core_only"};
    uint32_t which = stream_below(r, depth > 0 ? 6 : 3);
    text_add(t, "%s", blank(r));
    if (which == 0) {
        double v = stream_below(r, 100) / 8.0;
        text_add_double(t, v);
        return v;
    }
    if (which <= 2) {
        const char *name = names[stream_below(r, 3)];
        int index = which == 1 ? -1 : (int)stream_below(r, 12);
        text_add(t, "%s", name);
        if (index >= 0)
            text_add(t, "%s[%s%d]", blank(r), blank(r), index);
        return variable(name, index);
    }
    if (which == 3) {
        text_add(t, "-");
        return -make_factor(r, t, depth - 1);
    }
    const char *function = which == 4 ? "" : stream_below(r, 2) ? "abs" : "mean";
    text_add(t, "%s(", function);
    double v = make_sum(r, t, depth - 1);
    text_add(t, "%s)", blank(r));
    return *function == 'a' ? fabs(v) : v;
}

static double make_product(struct stream *r, struct text *t, int depth)
{
    double v = make_factor(r, t, depth);
    for (uint32_t n = stream_below(r, 3); n > 0; n--) {
        bool times = stream_below(r, 2) == 1;
        text_add(t, "%s%c", blank(r), times ? '*' : '/');
        double w = make_factor(r, t, depth - 1);
        v = times ? v * w : v / w;
    }
    return v;
}

static double make_sum(struct stream *r, struct text *t, int depth)
{
    double v = make_product(r, t, depth);
    for (uint32_t n = stream_below(r, 3); n > 0; n--) {
        bool plus = stream_below(r, 2) == 1;
        text_add(t, "%s%c", blank(r), plus ? '+' : '-');
        double w = make_product(r, t, depth - 1);
        v = plus ? v + w : v - w;
    }
    return v;
}

static bool make_comparison(struct stream *r, struct text *t)
{
    static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
    double left = make_sum(r, t, 3);
    bool all = true;
    for (uint32_t n = 1 + stream_below(r, 3); n > 0; n--) {
        uint32_t s = stream_below(r, 6);
        text_add(t, "%s%s", blank(r), signs[s]);
        double right = make_sum(r, t, 3);
        bool holds[] = {left == right, left != right, left < right, left <= right, left > right, left >= right};
        all &= holds[s];
        left = right;
    }
    return all;
}

TEST(random_claims_mean_what_they_say)
{
    int parsed = 0, true_ones = 0;
    for (uint32_t i = 0; i < 5000; i++) {
        struct stream r = stream_open(11, PURPOSE_PROBE, i);
        struct text t = {0};
        bool expected = make_comparison(&r, &t);
        if (t.length > 2000) {
            text_free(&t);
            continue;
        }
        struct claim c = {0};
        int column = 0;
        if (claim_parse(t.s, &c, &column) != STATUS_OK)
            CHECK_FAIL("%s: column %d: %s", t.s, column, status_text());
        else {
            parsed++;
            true_ones += expected;
            if ((evaluate(c.tree) != 0.0) != expected)
                CHECK_FAIL("%s is %d, expected %d", t.s, !expected, expected);
            CHECK_TEXT(c.text, t.s);
        }
        claim_clear(&c);
        text_free(&t);
    }
    CHECK(parsed > 4500);
    CHECK(true_ones > 500 && true_ones < parsed - 500);
    CHECK_INT(memory_balance(), 0);
}

TEST(chains_are_conjunctions_of_neighbours)
{
    struct claim c = {0};
    int column;
    CHECK_OK(claim_parse("0.02 <= projector_overlap <= 0.04", &c, &column));
    CHECK_INT(c.tree->kind, CLAIM_AND);
    CHECK_INT(c.tree->a->kind, CLAIM_LE);
    CHECK_INT(c.tree->b->kind, CLAIM_LE);
    CHECK_TEXT(c.tree->a->b->name, "projector_overlap");
    CHECK_TEXT(c.tree->b->a->name, "projector_overlap");
    CHECK_NEAR(c.tree->a->a->number, 0.02, 0.0);
    CHECK_NEAR(c.tree->b->b->number, 0.04, 0.0);
    claim_clear(&c);
    CHECK_INT(memory_balance(), 0);
}

TEST(a_comparison_may_stand_in_share)
{
    struct claim c = {0};
    int column;
    CHECK_OK(claim_parse("share(outcome == DONE) >= 0.5", &c, &column));
    CHECK_INT(c.tree->kind, CLAIM_GE);
    CHECK_INT(c.tree->a->kind, CLAIM_CALL);
    CHECK_TEXT(c.tree->a->name, "share");
    CHECK_INT(c.tree->a->a->kind, CLAIM_EQ);
    CHECK_TEXT(c.tree->a->a->b->name, "DONE");
    CHECK_INT(c.tree->a->a->b->index, -1);
    claim_clear(&c);
}

TEST(components_have_numbers_or_names_and_a_slope_has_two_arguments)
{
    struct claim c = {0};
    int column;
    CHECK_OK(claim_parse("slope(log(time[w2_0_M-1_1]), log(n)) == x[3]", &c, &column));
    const struct claim_node *slope = c.tree->a;
    CHECK_TEXT(slope->name, "slope");
    CHECK_TEXT(slope->a->name, "log");
    CHECK_TEXT(slope->a->a->label, "w2_0_M-1_1");
    CHECK_INT(slope->a->a->index, -1);
    CHECK_TEXT(slope->b->a->name, "n");
    CHECK_INT(c.tree->b->index, 3);
    CHECK(c.tree->b->label == NULL);
    claim_clear(&c);
    CHECK_INT(memory_balance(), 0);
}

TEST(mistakes_are_named_with_their_column)
{
    static const struct { const char *text; int column; const char *message; } bad[] = {
        {"", 1, "expected a number, a variable or a function, got the end"},
        {"core_dim", 9, "expected a comparison (==, !=, <, <=, >, >=), got the end"},
        {"core_dim = 3", 10, "expected ==, got ="},
        {"core_dim == ", 13, "expected a number, a variable or a function, got the end"},
        {"== 3", 1, "expected a number, a variable or a function, got \"=\""},
        {"core_dim == 3 4", 15, "expected an operator or the end, got \"4\""},
        {"core_dim => 3", 10, "expected ==, got ="},
        {"mni(x) > 1", 1, "unknown function mni (did you mean \"min\"?)"},
        {"1 < meen(x)", 5, "unknown function meen (did you mean \"mean\"?)"},
        {"fourier(x) > 1", 1, "unknown function fourier: known are min, max, mean, median, std, count, share, abs, log, slope"},
        {"min > 1", 5, "expected \"(\" after the function min"},
        {"(1 + x > 2", 8, "expected \")\" for the \"(\" in column 1, got \">\""},
        {"min(x == 1) > 2", 7, "expected \")\" for the \"(\" in column 4, got \"=\""},
        {"x[=] > 2", 3, "expected the number of a component (from 0) or its name, got \"=\""},
        {"slope(x) > 2", 8, "expected \",\" for the \"slope(y, x)\" in column 6, got \")\""},
        {"x[1 > 2", 5, "expected \"]\" for the \"[\" in column 2, got \">\""},
        {"x[-1] > 2", 3, "expected the number of a component (from 0) or its name, got \"-\""},
        {"x > 1e999", 5, "the number is too large"},
        {"x > 0x10", 5, "expected a number, got \"0x10\""},
        {"x > 1.2.3", 5, "expected a number, got \"1.2.3\""},
        {"x > 1 and y > 2", 7, "expected an operator or the end, got \"and\""},
        {"x > \xc3\xa4", 5, "expected a number, a variable or a function, got \"\xc3\xa4\""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct claim c = {0};
        int column = 0;
        CHECK_TEXT(status_name(claim_parse(bad[i].text, &c, &column)), "JOB");
        CHECK_TEXT(status_text(), bad[i].message);
        CHECK_INT(column, bad[i].column);
        CHECK(c.tree == NULL && c.text == NULL);
    }
    CHECK_INT(memory_balance(), 0);
}

TEST(deep_and_long_claims_are_refused_not_followed)
{
    char text[6000];
    struct claim c = {0};
    int column;
    memset(text, '(', 1500);
    text[1500] = '\0';
    CHECK_TEXT(status_name(claim_parse(text, &c, &column)), "JOB");
    CHECK_TEXT(status_text(), "nested more than 64 deep");
    memset(text, '-', 1500);
    CHECK_TEXT(status_name(claim_parse(text, &c, &column)), "JOB");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    CHECK_TEXT(status_name(claim_parse(text, &c, &column)), "JOB");
    CHECK_TEXT(status_text(), "a claim has at most 2000 characters");
    CHECK_INT(memory_balance(), 0);
}
