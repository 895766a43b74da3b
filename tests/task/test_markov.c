/* The Markov task: its law against exact bounds, its batches as pure functions, its closed forms. */
#include "base/memory.h"
#include "base/stream.h"
#include "check.h"
#include "task/task.h"
#include "binomial.h"

#include <complex.h>

static struct spec markov_spec(void)
{
    struct spec s = {0};
    s.task.kind = TASK_MARKOV;
    s.task.states = 4;
    s.task.stay = 0.75;
    s.task.sequences = 500;
    s.task.test_sequences = 300;
    s.task.length = 32;
    s.train.batch = 64;
    s.train.epochs = 3;
    return s;
}

static struct task *open_task(const struct spec *s, uint64_t seed)
{
    struct task *t = NULL;
    CHECK_OK(task_open(s, seed, &t));
    if (!t)
        exit(1);
    return t;
}

static struct batch all_of(const struct task *t, enum task_set set)
{
    size_t n = task_sequences(t, set);
    struct batch b = batch_new((int)n, task_shape(t).length);
    task_set_batch(t, set, 0, n, &b);
    return b;
}

TEST(markov_shape_and_input_target_shift)
{
    struct spec s = markov_spec();
    struct task *t = open_task(&s, 1);
    struct task_shape shape = task_shape(t);
    CHECK_INT(shape.vocabulary, 4);
    CHECK_INT(shape.classes, 4);
    CHECK_INT(shape.length, 31);
    struct batch b = all_of(t, TASK_TEST);
    CHECK_INT(b.sequences, 300);
    for (int i = 0; i < b.sequences; i++)
        for (int p = 0; p < 31; p++) {
            int32_t now = b.token[31 * i + p], next = b.target[31 * i + p];
            CHECK(now >= 0 && now < 4 && (next == now || next == (now + 1) % 4));
            if (p < 30)
                CHECK_INT(b.token[31 * i + p + 1], next);
        }
    batch_free(&b);
    task_free(t);
    CHECK_INT(memory_balance(), 0);
}

/* All stays together are binomial exactly. Those of one state only nearly, for how often it is visited depends on
 * them; the bound of 1e-9 has room for that. */
static void check_law(const struct spec *s, enum task_set set)
{
    struct task *t = open_task(s, 1);
    int n = task_shape(t).vocabulary, length = task_shape(t).length;
    struct batch b = all_of(t, set);
    long transitions = (long)b.sequences * length, stays = 0;
    for (int state = 0; state < n; state++) {
        long first = 0, last = 0, from = 0, kept = 0;
        for (int i = 0; i < b.sequences; i++) {
            first += b.token[i * length] == state;
            last += b.target[(i + 1) * length - 1] == state;
        }
        for (long k = 0; k < transitions; k++) {
            from += b.token[k] == state;
            kept += b.token[k] == state && b.target[k] == state;
        }
        check_binomial("first state", b.sequences, first, 1.0 / n);
        check_binomial("last state", b.sequences, last, 1.0 / n);
        check_binomial("stays of a state", from, kept, s->task.stay);
        stays += kept;
    }
    check_binomial("stays", transitions, stays, s->task.stay);
    batch_free(&b);
    task_free(t);
}

TEST(markov_law_within_binomial_bounds)
{
    struct spec s = markov_spec();
    s.task.sequences = s.task.test_sequences = 3000;
    check_law(&s, TASK_TRAIN);
    check_law(&s, TASK_TEST);
    s.task.states = 7;
    s.task.stay = 0.2;
    check_law(&s, TASK_TRAIN);
}

/* What the bounds are worth: a chain that stays 2 % too often must not pass. */
TEST(binomial_bounds_see_a_two_percent_error)
{
    CHECK(log_tail(93000, 71145, 0.75, 1) < log(1e-9));
    CHECK_NEAR(exp(log_tail(10, 3, 0.5, 0)), 176.0 / 1024.0, 1e-14);
    CHECK_NEAR(exp(log_tail(10, 3, 0.5, 1)), 968.0 / 1024.0, 1e-14);
}

TEST(deterministic_chains)
{
    struct spec s = markov_spec();
    for (int stays = 0; stays < 2; stays++) {
        s.task.stay = stays;
        struct task *t = open_task(&s, 1);
        struct batch b = all_of(t, TASK_TRAIN);
        for (int k = 0; k < b.sequences * b.length; k++)
            CHECK_INT(b.target[k], stays ? b.token[k] : (b.token[k] + 1) % 4);
        batch_free(&b);
        task_free(t);
    }
}

TEST(a_sequence_depends_on_its_number_only)
{
    struct spec few = markov_spec(), many = markov_spec();
    few.task.sequences = 10;
    few.task.test_sequences = 10;
    struct task *a = open_task(&few, 1), *b = open_task(&many, 2);
    for (int set = 0; set < 2; set++) {
        struct batch x = batch_new(10, 31), y = batch_new(10, 31);
        task_set_batch(a, set, 0, 10, &x);
        for (size_t i = 10; i-- > 0;) {
            struct batch one = batch_new(1, 31);
            task_set_batch(b, set, i, 1, &one);
            CHECK_BYTES(one.token, x.token + 31 * i, 31 * sizeof(int32_t));
            CHECK_BYTES(one.target, x.target + 31 * i, 31 * sizeof(int32_t));
            batch_free(&one);
        }
        task_set_batch(b, set, 0, 10, &y);
        CHECK_BYTES(x.token, y.token, 310 * sizeof(int32_t));
        batch_free(&x);
        batch_free(&y);
    }
    task_free(a);
    task_free(b);
}

TEST(train_and_test_sets_and_seeds_differ)
{
    struct spec s = markov_spec(), other = markov_spec();
    other.task.seed = 1;
    struct task *t = open_task(&s, 1), *o = open_task(&other, 1);
    struct batch train = batch_new(300, 31), test = all_of(t, TASK_TEST), third = all_of(o, TASK_TEST);
    task_set_batch(t, TASK_TRAIN, 0, 300, &train);
    long same = 0, same_seed = 0, n = 300 * 31;
    for (long k = 0; k < n; k++) {
        same += train.token[k] == test.token[k];
        same_seed += third.token[k] == test.token[k];
    }
    /* Equal by chance in a quarter of the places; neighbouring places go together, hence the coarse bound. */
    CHECK(same < n / 3);
    CHECK(same_seed < n / 3);
    batch_free(&train);
    batch_free(&test);
    batch_free(&third);
    task_free(t);
    task_free(o);
}

/* Sets too large to be stored are made on the fly: the same sequences, whichever way. */
TEST(unstored_sets_are_the_same_sequences)
{
    struct spec small = markov_spec(), large = markov_spec();
    large.task.sequences = 2000000;
    large.task.test_sequences = 2000000;
    struct task *a = open_task(&small, 3), *b = open_task(&large, 3);
    struct batch x = batch_new(64, 31), y = batch_new(64, 31);
    task_set_batch(a, TASK_TRAIN, 100, 64, &x);
    task_set_batch(b, TASK_TRAIN, 100, 64, &y);
    CHECK_BYTES(x.token, y.token, 64 * 31 * sizeof(int32_t));
    CHECK_BYTES(x.target, y.target, 64 * 31 * sizeof(int32_t));
    task_train_batch(b, 7, &y);
    CHECK_INT(y.sequences, 64);
    batch_free(&x);
    batch_free(&y);
    task_free(a);
    task_free(b);
}

/* Many states: tokens above the range of one byte survive the narrow storage. */
TEST(wide_vocabularies_keep_their_tokens)
{
    struct spec s = markov_spec();
    s.task.states = 4096;
    s.task.length = 200;
    struct task *t = open_task(&s, 1);
    struct batch b = all_of(t, TASK_TRAIN);
    int most = 0;
    for (int k = 0; k < b.sequences * b.length; k++) {
        CHECK(b.token[k] >= 0 && b.token[k] < 4096 && (b.target[k] - b.token[k] + 4096) % 4096 <= 1);
        most = b.token[k] > most ? b.token[k] : most;
    }
    CHECK(most > 4000);
    batch_free(&b);
    task_free(t);
}

TEST(epoch_is_a_permutation_with_a_short_last_batch)
{
    struct spec s = markov_spec();
    s.task.states = 4096;        /* so many that hardly any two sequences are equal */
    struct task *t = open_task(&s, 5);
    CHECK_INT(task_batch_size(t), 64);
    CHECK_INT(task_epoch_steps(t), 8);
    CHECK_INT(task_steps(t), 24);
    struct batch all = all_of(t, TASK_TRAIN), b = batch_new(64, 31);
    for (int epoch = 0; epoch < 2; epoch++) {
        int seen[500] = {0}, total = 0;
        for (size_t k = 0; k < 8; k++) {
            task_train_batch(t, (size_t)epoch * 8 + k, &b);
            CHECK_INT(b.sequences, k < 7 ? 64 : 500 - 7 * 64);
            for (int i = 0; i < b.sequences; i++, total++)
                for (int j = 0; j < 500; j++)
                    if (!seen[j] && !memcmp(b.token + 31 * i, all.token + 31 * j, 31 * sizeof(int32_t))) {
                        seen[j] = 1;
                        break;
                    }
        }
        int found = 0;
        for (int j = 0; j < 500; j++)
            found += seen[j];
        CHECK_INT(total, 500);
        CHECK_INT(found, 500);
    }
    batch_free(&all);
    batch_free(&b);
    task_free(t);
}

TEST(a_batch_is_a_pure_function_of_the_step)
{
    struct spec s = markov_spec();
    struct task *t = open_task(&s, 9), *same = open_task(&s, 9), *other = open_task(&s, 10);
    size_t steps = task_steps(t), n = 64 * 31 * sizeof(int32_t);
    struct batch *in_turn = memory_new(steps, sizeof *in_turn);
    for (size_t k = 0; k < steps; k++) {
        in_turn[k] = batch_new(64, 31);
        task_train_batch(t, k, &in_turn[k]);
    }
    struct batch alone = batch_new(64, 31);
    int differ = 0;
    for (size_t k = 0; k < steps; k++) {
        size_t step = k * 17 % steps;            /* 17 and 24 have no common factor: every step, out of turn */
        task_train_batch(same, step, &alone);
        CHECK_INT(alone.sequences, in_turn[step].sequences);
        CHECK_BYTES(alone.token, in_turn[step].token, n * (size_t)alone.sequences / 64);
        CHECK_BYTES(alone.target, in_turn[step].target, n * (size_t)alone.sequences / 64);
        task_train_batch(other, step, &alone);
        differ += memcmp(alone.token, in_turn[step].token, n * (size_t)alone.sequences / 64) != 0;
    }
    CHECK_INT(differ, steps);
    for (size_t k = 0; k < 8; k++)               /* reshuffled: the second epoch has other batches */
        CHECK(memcmp(in_turn[k].token, in_turn[k + 8].token, n / 2));
    for (size_t k = 0; k < steps; k++)
        batch_free(&in_turn[k]);
    memory_free(in_turn);
    batch_free(&alone);
    task_free(t);
    task_free(same);
    task_free(other);
    CHECK_INT(memory_balance(), 0);
}

TEST(batch_zero_is_the_whole_set_and_steps_win_over_epochs)
{
    struct spec s = markov_spec();
    s.train.batch = 0;
    s.train.steps = 17;
    struct task *t = open_task(&s, 1);
    CHECK_INT(task_batch_size(t), 500);
    CHECK_INT(task_epoch_steps(t), 1);
    CHECK_INT(task_steps(t), 17);
    task_free(t);
    s.train.batch = 100000;
    t = open_task(&s, 1);
    CHECK_INT(task_batch_size(t), 500);
    task_free(t);
}

TEST(positions_restrict_the_targets)
{
    struct spec s = markov_spec();
    s.train.positions = (struct key_list){.count = 3, .value = {-1, 0, 5}};
    struct task *t = open_task(&s, 1), *full;
    s.train.positions.count = 0;
    full = open_task(&s, 1);
    int position[31];
    CHECK_INT(task_positions(full, position), 31);
    CHECK_INT(task_positions(t, position), 3);
    CHECK_INT(position[0], 0);
    CHECK_INT(position[1], 5);
    CHECK_INT(position[2], 30);
    struct batch a = all_of(t, TASK_TEST), b = all_of(full, TASK_TEST);
    for (int k = 0; k < 300 * 31; k++) {
        int p = k % 31;
        CHECK_INT(a.target[k], p == 0 || p == 5 || p == 30 ? b.target[k] : -1);
        CHECK_INT(a.token[k], b.token[k]);
    }
    batch_free(&a);
    batch_free(&b);
    task_free(t);
    task_free(full);
}

static void check_refused(const struct spec *s, const char *part)
{
    struct task *t = NULL;
    CHECK_INT(task_open(s, 1, &t), STATUS_JOB);
    CHECK(t == NULL);
    CHECK_HAS(status_text(), part);
    CHECK_INT(memory_balance(), 0);
}

TEST(contradicting_keys_are_refused_with_advice)
{
    struct spec s = markov_spec();
    s.train.positions = (struct key_list){.count = 1, .value = {31}};
    check_refused(&s, "train.positions: 31 is outside the 31 input positions: use 0 .. 30, or -1 .. -31 from the end");
    s.train.positions = (struct key_list){.count = 1, .value = {-32}};
    check_refused(&s, "-32 is outside");
    s.train.positions = (struct key_list){.count = 2, .value = {30, -1}};
    check_refused(&s, "-1 names position 30 a second time");
    s.train.positions.count = 0;
    s.train.steps = 5000000000;
    check_refused(&s, "train.steps: 5000000000 steps");
    s.train.steps = 0;
    s.train.epochs = 100000000;
    s.train.batch = 1;
    check_refused(&s, "train.epochs: 50000000000 steps are more than the 4294967295 that random streams can number: "
                      "train fewer, or in larger batches");
}

/* New sequences at every step: a pure function of task.seed and the step, whatever the run's seed, an epoch a step. */
TEST(no_stored_sequences_means_new_ones_at_every_step)
{
    struct spec s = markov_spec();
    s.task.states = 4096;
    s.task.sequences = 0;
    s.train.batch = 8;
    struct task *t = open_task(&s, 1), *same = open_task(&s, 2);
    CHECK_INT(task_epoch_steps(t), 1);
    CHECK_INT(task_steps(t), 3);
    CHECK_INT(task_sequences(t, TASK_TRAIN), 300);
    struct batch a = batch_new(8, 31), b = batch_new(8, 31);
    task_train_batch(t, 5, &a);
    task_train_batch(same, 4, &b);
    CHECK(memcmp(a.token, b.token, 8 * 31 * sizeof(int32_t)));
    task_train_batch(same, 5, &b);
    CHECK_INT(b.sequences, 8);
    CHECK_BYTES(a.token, b.token, 8 * 31 * sizeof(int32_t));
    CHECK_BYTES(a.target, b.target, 8 * 31 * sizeof(int32_t));
    for (int i = 1; i < 8; i++)
        CHECK(memcmp(a.token, a.token + 31 * i, 31 * sizeof(int32_t)));
    batch_free(&a);
    batch_free(&b);
    task_free(t);
    task_free(same);
    CHECK_INT(memory_balance(), 0);
}

/* The transition matrix T[i][j] of the chain. */
static double transition(int i, int j, int n, double stay)
{
    return (i == j ? stay : 0.0) + ((i + 1) % n == j ? 1.0 - stay : 0.0);
}

TEST(oracle_r2_by_its_definition)
{
    struct spec s = markov_spec();
    struct task *t = open_task(&s, 1);
    CHECK(task_truth(t).operator_r2 == 0.5);
    task_free(t);
    for (int n = 2; n <= 9; n++)
        for (int k = 0; k <= 10; k++) {
            s.task.states = n;
            s.task.stay = k / 10.0;
            double mean = 0.0, pi = 1.0 / n;
            for (int j = 0; j < n; j++)
                for (int i = 0; i < n; i++) {
                    double p = transition(i, j, n, s.task.stay);
                    mean += pi * p * (1.0 - p) / (pi * (1.0 - pi)) / n;
                }
            t = open_task(&s, 1);
            CHECK_NEAR(task_truth(t).operator_r2, 1.0 - mean, 1e-14);
            CHECK_NEAR(task_truth(t).accuracy_best, fmax(s.task.stay, 1.0 - s.task.stay), 0.0);
            CHECK_NEAR(task_truth(t).accuracy_chance, pi, 0.0);
            task_free(t);
        }
}

/* det(T - x) of the cyclic chain is (stay - x)^n - (-(1 - stay))^n: the listed values are its roots, with the
 * trivial root 1 left out, all different, in order, and their sum is trace(T) - 1. */
TEST(eigenvalues_solve_the_characteristic_equation)
{
    struct spec s = markov_spec();
    for (int n = 2; n <= 65; n++)
        for (int k = 0; k <= 4; k++) {
            s.task.states = n;
            s.task.stay = k / 4.0;
            struct task *t = open_task(&s, 1);
            struct task_truth truth = task_truth(t);
            CHECK_INT(truth.eigenvalues, n - 1);
            double complex sum = 0.0;
            for (int i = 0; i < truth.eigenvalues; i++) {
                double complex x = truth.eigenvalue[i][0] + I * truth.eigenvalue[i][1];
                double complex residual = cpow(x - s.task.stay, n) - pow(1.0 - s.task.stay, n);
                CHECK_NEAR(cabs(residual), 0.0, 1e-13);
                CHECK(s.task.stay == 1.0 || cabs(x - 1.0) > 1e-4);
                for (int j = 0; j < i && s.task.stay < 1.0; j++)
                    CHECK(cabs(x - truth.eigenvalue[j][0] - I * truth.eigenvalue[j][1]) > 1e-4);
                if (i > 0) {
                    const double *e = truth.eigenvalue[i - 1];
                    double before = hypot(e[0], e[1]), now = cabs(x);
                    CHECK(before > now - 1e-15);
                    CHECK(before > now + 1e-12 || e[1] >= cimag(x));
                }
                sum += x;
            }
            CHECK_NEAR(creal(sum), n * s.task.stay - 1.0, 1e-12);
            CHECK_NEAR(cimag(sum), 0.0, 1e-12);
            task_free(t);
        }
}

TEST(eigenvalues_of_the_four_state_chain)
{
    struct spec s = markov_spec();
    struct task *t = open_task(&s, 1);
    struct task_truth truth = task_truth(t);
    const double expected[3][2] = {{0.75, 0.25}, {0.75, -0.25}, {0.5, 0.0}};
    CHECK_INT(truth.eigenvalues, 3);
    for (int i = 0; i < 3; i++)
        for (int part = 0; part < 2; part++)
            CHECK_NEAR(truth.eigenvalue[i][part], expected[i][part], 1e-16);
    task_free(t);
    s.task.states = 4096;
    t = open_task(&s, 1);
    CHECK_INT(task_truth(t).eigenvalues, 64);
    task_free(t);
}
