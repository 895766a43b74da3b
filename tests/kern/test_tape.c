/* Straight-line programs: against the same operations one by one in long double, on all instruction sets, lane by lane. */
#include "kern_test.h"

#define LANES KERN_TAPE_LANES
enum { INPUTS = 5, OPS = 400, TERMS_MAX = 6, SLOTS = INPUTS + OPS };

/* A random program in which every operation writes a slot of its own. Slots stay in a range in which all operations are safe:
 * sums are followed by what brings them back. */
struct program {
    struct kern_tape tape;
    struct kern_tape_op op[OPS];
    struct kern_tape_term term[OPS * TERMS_MAX];
    size_t terms;
};

static void add_op(struct program *p, int32_t code, int32_t terms, double constant)
{
    const int32_t i = (int32_t)p->tape.ops++;
    p->op[i] = (struct kern_tape_op){.code = code, .to = INPUTS + i, .first = (int32_t)p->terms, .terms = terms,
                                     .constant = constant};
    p->terms += (size_t)terms;
}

static void add_one(struct program *p, int32_t code, int32_t x)
{
    add_op(p, code, 1, 0.0);
    p->term[p->terms - 1] = (struct kern_tape_term){1.0, x, -1};
}

static void add_sum(struct program *p, struct stream *s)
{
    const int32_t made = INPUTS + (int32_t)p->tape.ops, terms = 1 + (int32_t)random_below(s, TERMS_MAX);
    add_op(p, KERN_TAPE_LINEAR, terms, stream_uniform(s) < 0.5 ? 0.0 : stream_uniform(s) - 0.5);
    for (int32_t k = 0; k < terms; k++) {
        struct kern_tape_term *t = &p->term[p->terms - (size_t)terms + (size_t)k];
        *t = (struct kern_tape_term){2 * stream_uniform(s) - 1, (int32_t)random_below(s, (size_t)made), -1};
        if (stream_uniform(s) < 0.5)
            *t = (struct kern_tape_term){t->coefficient < 0 ? -1 : 1, t->x, (int32_t)random_below(s, (size_t)made)};
    }
}

/* exp of something <= 0: of the smaller of a number and 0, less the largest, is what a softmax asks for. */
static void add_group(struct program *p, struct stream *s)
{
    const int32_t made = INPUTS + (int32_t)p->tape.ops, x = (int32_t)random_below(s, (size_t)made);
    const int32_t y = (int32_t)random_below(s, (size_t)made);
    add_op(p, KERN_TAPE_LARGEST, 2, 0.0);
    p->term[p->terms - 2] = (struct kern_tape_term){1.0, x, -1};
    p->term[p->terms - 1] = (struct kern_tape_term){1.0, y, -1};
    add_op(p, KERN_TAPE_LINEAR, 2, 0.0);
    p->term[p->terms - 2] = (struct kern_tape_term){1.0, x, -1};
    p->term[p->terms - 1] = (struct kern_tape_term){-1.0, made, -1};
    add_one(p, KERN_TAPE_EXP, made + 1);
    add_op(p, KERN_TAPE_LINEAR, 1, 1.0);
    p->term[p->terms - 1] = (struct kern_tape_term){1.0, made + 2, -1};
    add_one(p, KERN_TAPE_RECIPROCAL, made + 3);
    add_one(p, KERN_TAPE_LOG, made + 3);
}

static void make_program(struct program *p, uint32_t number)
{
    struct stream s = stream_open(7, PURPOSE_PROBE, number);
    memset(p, 0, sizeof *p);
    while (p->tape.ops + 8 < OPS) {
        add_sum(p, &s);
        add_group(p, &s);
    }
    p->tape.slots = SLOTS;
    p->tape.op = p->op;
    p->tape.term = p->term;
}

/* One point. */
static void evaluate(const struct program *p, long double *x)
{
    for (size_t i = 0; i < p->tape.ops; i++) {
        const struct kern_tape_op *o = &p->op[i];
        const struct kern_tape_term *t = p->term + o->first;
        long double sum = o->constant;
        switch ((enum kern_tape_code)o->code) {
        case KERN_TAPE_LINEAR:
            for (int k = 0; k < o->terms; k++)
                sum += (long double)t[k].coefficient * x[t[k].x] * (t[k].y < 0 ? 1 : x[t[k].y]);
            break;
        case KERN_TAPE_EXP: sum = expl(x[t->x]); break;
        case KERN_TAPE_LOG: sum = logl(x[t->x]); break;
        case KERN_TAPE_RECIPROCAL: sum = 1 / x[t->x]; break;
        case KERN_TAPE_LARGEST: sum = fmaxl(x[t[0].x], x[t[1].x]); break;
        }
        x[o->to] = sum;
    }
}

#define CASES(P, real) \
    static void fill_##P(real *slot, uint32_t number) \
    { \
        struct stream s = stream_open(8, PURPOSE_PROBE, number); \
        for (int i = 0; i < INPUTS * LANES; i++) \
            slot[i] = (real)(1.6 * stream_uniform(&s) - 0.8); \
    } \
    static double against_long_double_##P(const struct kern_##P *kern, uint32_t number) \
    { \
        static struct program p; \
        static real slot[SLOTS * LANES]; \
        static long double x[SLOTS]; \
        double worst = 0; \
        make_program(&p, number); \
        fill_##P(slot, number); \
        kern->tape_run(&p.tape, slot); \
        for (int lane = 0; lane < LANES; lane++) { \
            for (int i = 0; i < INPUTS; i++) \
                x[i] = slot[i * LANES + lane]; \
            for (size_t i = 0; i < p.tape.ops; i++) {            /* each operation from the kernel's own operands */ \
                struct program one = {.tape = {.ops = 1}, .op = {p.op[i]}}; \
                memcpy(one.term, p.term + p.op[i].first, (size_t)p.op[i].terms * sizeof *p.term); \
                one.op[0].first = 0; \
                evaluate(&one, x); \
                real got = slot[p.op[i].to * LANES + lane]; \
                double error = (double)(fabsl(got - x[p.op[i].to]) / fmaxl(1, fabsl(x[p.op[i].to]))); \
                if (!isnan(worst) && !(error <= worst)) \
                    worst = error; \
                x[p.op[i].to] = got; \
            } \
        } \
        return worst; \
    } \
    static uint64_t hash_##P(const struct kern_##P *kern) \
    { \
        static struct program p; \
        static real slot[SLOTS * LANES]; \
        uint64_t h = 0; \
        for (uint32_t number = 0; number < 8; number++) { \
            make_program(&p, number); \
            fill_##P(slot, number); \
            kern->tape_run(&p.tape, slot); \
            h = h * 31 + bits_hash(slot, p.tape.slots * LANES * sizeof *slot); \
        } \
        return h; \
    } \
    /* Lane `to` of the second run has the inputs of lane `from` of the first, its neighbours have others, one of them NaN. */ \
    static void move_lane_##P(const struct kern_##P *kern, int from, int to) \
    { \
        static struct program p; \
        static real a[SLOTS * LANES], b[SLOTS * LANES]; \
        make_program(&p, 1); \
        fill_##P(a, 1); \
        fill_##P(b, 2); \
        for (int i = 0; i < INPUTS; i++) { \
            b[i * LANES + (to + 1) % LANES] = (real)NAN; \
            b[i * LANES + to] = a[i * LANES + from]; \
        } \
        kern->tape_run(&p.tape, a); \
        kern->tape_run(&p.tape, b); \
        int differ = 0; \
        for (size_t i = 0; i < p.tape.slots; i++) \
            differ += memcmp(&a[i * LANES + (size_t)from], &b[i * LANES + (size_t)to], sizeof *a) != 0; \
        CHECK_INT(differ, 0); \
    } \
    static double worst_log_##P(const struct kern_##P *kern, double low, double high, int mantissa) \
    { \
        struct kern_tape_op op = {.code = KERN_TAPE_LOG, .to = 1, .terms = 1}; \
        struct kern_tape_term term = {1.0, 0, -1}; \
        struct kern_tape t = {.ops = 1, .slots = 2, .op = &op, .term = &term}; \
        struct stream s = stream_open(3, PURPOSE_PROBE, 3); \
        real slot[2 * LANES]; \
        double worst = 0; \
        for (int round = 0; round < 20000; round++) { \
            for (int i = 0; i < LANES; i++) \
                slot[i] = (real)exp(low + (high - low) * stream_uniform(&s)); \
            kern->tape_run(&t, slot); \
            for (int i = 0; i < LANES; i++) { \
                int e; \
                long double exact = logl(slot[i]); \
                frexpl(exact, &e); \
                double u = (double)(fabsl(slot[LANES + i] - exact) / ldexpl(1, e - mantissa)); \
                if (slot[i] != 1 && !isnan(worst) && !(u <= worst)) \
                    worst = u; \
            } \
        } \
        return worst; \
    }
CASES(f32, float)
CASES(f64, double)

/* The larger one; NaN stays. */
static double larger(double a, double b) { return isnan(b) || a <= b ? b : a; }

static void best(const struct kern_f32 **f32, const struct kern_f64 **f64) { CHECK_OK(kern_get(f32, f64)); }

TEST(each_operation_is_rounded_once_or_nearly)
{
    const struct kern_f32 *f32;
    const struct kern_f64 *f64;
    double single = 0, twice = 0;
    best(&f32, &f64);
    for (uint32_t number = 0; number < 4; number++) {
        single = larger(single, against_long_double_f32(f32, number));
        twice = larger(twice, against_long_double_f64(f64, number));
    }
    fprintf(stderr, "# largest error of an operation %.3g (float), %.3g (double)\n", single, twice);
    CHECK(single <= 5e-7);       /* 2.3e-7, sums of up to six terms */
    CHECK(twice <= 1e-15);       /* 4.3e-16 */
}

TEST(the_logarithm_is_within_one_ulp)
{
    const struct kern_f32 *f32;
    const struct kern_f64 *f64;
    best(&f32, &f64);
    double single = larger(worst_log_f32(f32, -80, 80, 24), worst_log_f32(f32, -0.5, 0.5, 24));
    double twice = larger(worst_log_f64(f64, -700, 700, 53), worst_log_f64(f64, -0.5, 0.5, 53));
    fprintf(stderr, "# log: largest error %.3f ulp (float), %.3f ulp (double)\n", single, twice);
    CHECK(single <= 1.0);        /* 0.81 */
    CHECK(twice <= 1.0);         /* 0.80 */
}

TEST(the_logarithm_of_what_is_not_finite_is_not_a_number)
{
    const struct kern_f64 *f64;
    struct kern_tape_op op = {.code = KERN_TAPE_LOG, .to = 1, .terms = 1};
    struct kern_tape_term term = {1.0, 0, -1};
    struct kern_tape t = {.ops = 1, .slots = 2, .op = &op, .term = &term};
    double slot[2 * LANES] = {NAN, INFINITY, 1.0};
    for (int i = 3; i < LANES; i++)
        slot[i] = 2.0;
    CHECK_OK(kern_get(NULL, &f64));
    f64->tape_run(&t, slot);
    CHECK(isnan(slot[LANES]));
    CHECK(isnan(slot[LANES + 1]));
    CHECK(slot[LANES + 2] == 0.0);
}

TEST(all_instruction_sets_have_the_same_bits)
{
    uint64_t single = 0, twice = 0;
    for (int i = 0; kern_isa_at(i); i++) {
        const struct kern_f32 *f32;
        const struct kern_f64 *f64;
        if (!kernels_of(kern_isa_at(i), &f32, &f64))
            continue;
        uint64_t own_single = hash_f32(f32), own_twice = hash_f64(f64);
        if (single || twice) {
            CHECK_INT(own_single, single);
            CHECK_INT(own_twice, twice);
        }
        single = own_single;
        twice = own_twice;
    }
    CHECK(single != 0);
    kern_pin(NULL);
}

TEST(lanes_do_not_see_each_other)
{
    const struct kern_f32 *f32;
    const struct kern_f64 *f64;
    best(&f32, &f64);
    for (int from = 0; from < LANES; from += 5)
        for (int to = 0; to < LANES; to += 7) {
            move_lane_f32(f32, from, to);
            move_lane_f64(f64, from, to);
        }
}
