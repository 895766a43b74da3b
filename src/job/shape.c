#include "job/shape.h"

#include <math.h>
#include <stdio.h>

/* ---- block lists ---- */

static int block_tokens(const struct spec *s)
{
    switch ((enum pattern)s->task.pattern) {
    case PATTERN_NGRAM: return (int)s->task.order + 1;
    case PATTERN_CONDITIONAL: return 3;
    case PATTERN_RECALL:
    case PATTERN_HOP:
    case PATTERN_IOI:
    case PATTERN_INVERSION: break;
    }
    return 2;
}

static void place(const struct spec *s, struct task_shape *shape)
{
    const int k = shape->block, period = (int)s->task.period;
    switch ((enum layout)s->task.layout) {
    case LAYOUT_CONTIGUOUS:                    /* so many that no shift within a block meets the other end */
        shape->positions = shape->period = period ? period : shape->length + k - 1;
        return;
    case LAYOUT_SLOTS:
        shape->period = period ? period : 2 * k - 1;
        shape->positions = ((int)s->task.blocks + 1) * shape->period;
        return;
    case LAYOUT_OFFSETS:
        shape->positions = shape->period = period ? period : shape->length;
    }
}

static struct task_shape blocklist_shape(const struct spec *s)
{
    struct task_shape shape = {.block = block_tokens(s), .common = (int)s->task.common, .looked = 1};
    shape.vocabulary = shape.classes = shape.common + (int)s->task.rare_tokens;
    shape.length = (int)s->task.blocks * shape.block + shape.block - 1;
    place(s, &shape);
    return shape;
}

/* ---- all ---- */

static int batch_of(const struct spec *s)
{
    double all = shape_sequences(s, false), wanted = (double)s->train.batch;
    bool drawn = s->task.kind == TASK_MARKOV || s->task.expectation == EXPECTATION_SAMPLED;
    double batch = !drawn || wanted == 0.0 || (s->task.sequences && wanted > all) ? all : wanted;
    return batch < 2e9 ? (int)batch : 0;
}

struct task_shape shape_of(const struct spec *s)
{
    struct task_shape shape;
    if (s->task.kind == TASK_BLOCKLIST) {
        shape = blocklist_shape(s);
    } else {
        int states = (int)s->task.states, length = (int)s->task.length - 1;
        shape = (struct task_shape){.vocabulary = states, .classes = states, .length = length, .looked = length};
        if (s->train.positions.count)
            shape.looked = s->train.positions.count;
    }
    shape.batch = batch_of(s);
    return shape;
}

/* ---- classes of tokens ---- */

int shape_symbols(const struct spec *s)
{
    const int n = (int)s->task.blocks, order = (int)s->task.order;
    switch ((enum pattern)s->task.pattern) {
    case PATTERN_RECALL: return 2 * (n - (int)s->task.burstiness + 1);
    case PATTERN_HOP: return 2 * n - (int)s->task.chains * ((int)s->task.hops - 1);
    case PATTERN_NGRAM: return order == 1 ? 2 * n : n * order + 1;     /* a distractor shares one token */
    case PATTERN_IOI: return 2 * n;
    case PATTERN_CONDITIONAL: return n + n / 2 + 2;
    case PATTERN_INVERSION: break;
    }
    return n;
}

/* A recalled pair of common tokens is one of the pairs; else no two of the sequence's tokens are associated. */
static int tokens_needed(const struct spec *s, enum token_class class)
{
    bool paired = class == CLASS_COMMON && s->task.pattern == PATTERN_RECALL;
    return shape_symbols(s) * (class == CLASS_RARE || paired ? 1 : 2);
}

bool shape_has_class(const struct spec *s, enum token_class class)
{
    int64_t there = class == CLASS_RARE ? s->task.rare_tokens : s->task.common;
    return (class != CLASS_VARIED || s->task.pattern == PATTERN_RECALL) && there >= tokens_needed(s, class);
}

double shape_class_share(const struct spec *s, enum token_class class)
{
    double varied = s->task.pattern == PATTERN_RECALL ? s->task.variability : 0.0, common = 1.0 - s->task.rare;
    return class == CLASS_RARE ? s->task.rare : class == CLASS_COMMON ? common * (1.0 - varied) : common * varied;
}

/* ---- how many sequences there are ---- */

static double factorial(double n)
{
    double f = 1.0;
    for (double i = 2.0; i <= n && f < 1e300; i++)
        f *= i;
    return f;
}

/* By the shorter of both ways, so that the products only grow. */
static double choose(double n, double k)
{
    const double least = k > n - k ? n - k : k;
    double c = least < 0.0 ? 0.0 : 1.0;
    for (double i = 1.0; i <= least && c < 1e300; i++)
        c *= (n - least + i) / i;
    return floor(c + 0.5);
}

/* Factorials leave the range of numbers from 171! on, their quotients need not. */
static double log_factorial(double n) { return n > 1.0 ? lgamma(n + 1.0) : 0.0; }

/* Permutations without a fixed point. */
static double derangements(int64_t n)
{
    double before = 1.0, now = 0.0;
    for (int64_t i = 2; i <= n && now < 1e300; i++) {
        double next = (double)(i - 1) * (now + before);
        before = now;
        now = next;
    }
    return now;
}

/* Patterns of one class. */
static double arrangements(const struct spec *s)
{
    const double n = (double)s->task.blocks, b = (double)s->task.burstiness;
    const double chains = s->task.hops == 1 ? 1.0 : (double)s->task.chains;      /* chains of one block are distractors */
    const double hops = (double)s->task.hops, order = (double)s->task.order;
    const bool last = s->task.queried == QUERIED_LAST;
    const double orders = n - (last ? s->task.pattern == PATTERN_HOP ? hops : 1.0 : 0.0);       /* blocks that change places */
    double same = 0.0;                                       /* logarithm of how many of their orders are one pattern */
    switch ((enum pattern)s->task.pattern) {
    case PATTERN_RECALL: return last ? 1.0 : choose(n, b);
    case PATTERN_IOI: return last ? 2.0 : 2.0 * n;
    case PATTERN_HOP: same = log_factorial(n - chains * hops) + log_factorial(chains - 1.0); break;
    case PATTERN_NGRAM:
        for (double m = 0.0; m < order; m++)
            same += log_factorial(floor((n - 2.0 - m) / order) + 1.0);
        break;
    case PATTERN_CONDITIONAL: same = log_factorial(n / 2.0 - 1.0); break;
    case PATTERN_INVERSION: return derangements(s->task.blocks) * (last ? 1.0 : n);
    }
    return floor(exp(log_factorial(orders) - same) + 0.5);
}

static double patterns(const struct spec *s)
{
    int classes = 0;
    for (int c = 0; c < CLASSES; c++)
        classes += shape_has_class(s, (enum token_class)c);
    return classes * arrangements(s);
}

/* Ways to give names to the symbols of a pattern. */
static double namings(const struct spec *s, enum token_class class)
{
    const int symbols = shape_symbols(s);
    const bool paired = class == CLASS_COMMON && s->task.pattern == PATTERN_RECALL;
    double names = 1.0, tokens = class == CLASS_RARE ? (double)s->task.rare_tokens : (double)s->task.common;
    for (int i = 0; i < symbols; i += paired ? 2 : 1, tokens -= class == CLASS_RARE ? 1.0 : 2.0)
        names *= tokens;
    return names;
}

static double places(const struct spec *s)
{
    double blocks = (double)s->task.blocks + 1.0;
    if (s->task.layout == LAYOUT_CONTIGUOUS)
        return 1.0;
    return pow(blocklist_shape(s).period, blocks) * (s->task.layout == LAYOUT_SLOTS ? factorial(blocks) : 1.0);
}

static double complete(const struct spec *s)
{
    double n = 0.0;
    for (int c = 0; c < CLASSES; c++)
        if (shape_has_class(s, (enum token_class)c))
            n += namings(s, (enum token_class)c);
    return n * arrangements(s) * places(s);
}

double shape_sequences(const struct spec *s, bool test)
{
    int64_t n = test || s->task.sequences == 0 ? s->task.test_sequences : s->task.sequences;
    if (s->task.kind == TASK_MARKOV || s->task.expectation == EXPECTATION_SAMPLED)
        return (double)n;
    return s->task.expectation == EXPECTATION_PATTERNS ? patterns(s) : complete(s);
}

/* ---- contradictions ---- */

static bool structure_fits(const struct spec *s, struct text *why)
{
    const long long n = s->task.blocks;
    if (s->task.pattern == PATTERN_RECALL && s->task.burstiness > n)
        text_add(why, "task.burstiness %lld is more than task.blocks %lld", (long long)s->task.burstiness, n);
    else if (s->task.pattern == PATTERN_HOP && s->task.chains * s->task.hops > n)
        text_add(why, "task.chains %lld of task.hops %lld are %lld blocks, but task.blocks is %lld", (long long)s->task.chains,
                 (long long)s->task.hops, (long long)(s->task.chains * s->task.hops), n);
    else if (s->task.pattern == PATTERN_CONDITIONAL && n % 2)
        text_add(why, "task.blocks %lld is odd: conditional retrieval has each item under two conditions", n);
    else if (s->task.pattern == PATTERN_INVERSION && n < 2)
        text_add(why, "task.blocks %lld: a permutation without fixed points needs at least 2", n);
    else
        return true;
    return false;
}

static bool tokens_suffice(const struct spec *s, struct text *why)
{
    static const char *const say[CLASSES] = {"sequences of rare tokens (task.rare %g)",
                                             "sequences of common tokens (task.rare %g)",
                                             "common tokens with labels that are not theirs (task.variability %g)"};
    if (s->task.common % 2) {
        text_add(why, "task.common %lld is odd: common tokens are associated in pairs", (long long)s->task.common);
        return false;
    }
    if (s->task.common + s->task.rare_tokens < 2) {
        text_add(why, "task.common and task.rare_tokens are both 0: there are no tokens");
        return false;
    }
    for (int c = 0; c < CLASSES; c++) {
        if (shape_class_share(s, (enum token_class)c) == 0.0 || shape_has_class(s, (enum token_class)c))
            continue;
        char what[96];
        snprintf(what, sizeof what, say[c], c == CLASS_VARIED ? s->task.variability : s->task.rare);
        text_add(why, "%s %lld does not suffice: %s need at least %d", c == CLASS_RARE ? "task.rare_tokens" : "task.common",
                 (long long)(c == CLASS_RARE ? s->task.rare_tokens : s->task.common), what,
                 tokens_needed(s, (enum token_class)c));
        return false;
    }
    return true;
}

static bool period_fits(const struct spec *s, struct text *why)
{
    struct task_shape shape = shape_of(s);
    int least = s->task.layout == LAYOUT_SLOTS        ? 2 * shape.block - 1
                : s->task.layout == LAYOUT_CONTIGUOUS ? shape.length
                                                      : shape.block;
    if (shape.period >= least)
        return true;
    text_add(why, "task.period %lld is too short: at least %d positions %s", (long long)s->task.period, least,
             s->task.layout == LAYOUT_SLOTS        ? "keep the tokens of a block apart from both sides of a slot"
             : s->task.layout == LAYOUT_CONTIGUOUS ? "hold the sequence"
                                                   : "hold a block");
    return false;
}

static bool enumeration_fits(const struct spec *s, struct text *why)
{
    double n = shape_sequences(s, false);
    if (s->task.expectation == EXPECTATION_PATTERNS && s->task.layout == LAYOUT_OFFSETS) {
        text_add(why, "task.expectation patterns: with task.layout offsets blocks meet by chance, which patterns of relations "
                 "leave out; use sampled, or slots");
        return false;
    }
    if (s->task.expectation == EXPECTATION_PATTERNS && n > SHAPE_PATTERNS_MAX)
        text_add(why, "task.expectation patterns: %.4g patterns are more than %d; fewer task.blocks, task.queried last, "
                 "or sampled", n, SHAPE_PATTERNS_MAX);
    else if (s->task.expectation == EXPECTATION_COMPLETE && n > SHAPE_COMPLETE_MAX)
        text_add(why, "task.expectation complete: %.4g sequences are more than %d; fewer tokens, blocks or positions, or "
                 "sampled", n, SHAPE_COMPLETE_MAX);
    else
        return true;
    return false;
}

bool shape_possible(const struct spec *s, struct text *why)
{
    return structure_fits(s, why) && tokens_suffice(s, why) && period_fits(s, why) && enumeration_fits(s, why);
}
