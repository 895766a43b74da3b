/* trainings.h: a small job, a shell that stops and saves, and records compared bit for bit. */
#ifndef INVAR_TESTS_RUN_TRAININGS_H
#define INVAR_TESTS_RUN_TRAININGS_H

#include "base/memory.h"
#include "check.h"
#include "run/train.h"

/* 8 steps an epoch, 3 epochs; a training takes milliseconds. */
static inline struct spec small_spec(void)
{
    struct spec s;
    key_defaults(&s);
    s.task.sequences = 60;
    s.task.test_sequences = 40;
    s.task.length = 9;
    s.model.d_model = 8;
    s.model.heads = 2;
    s.model.d_mlp = (struct key_list){.count = 1, .value = {12}};
    s.model.max_length = 8;
    s.train.batch = 8;
    s.train.epochs = 3;
    s.train.lr = 1e-2;
    s.store.checkpoint_every = 1e9;
    return s;
}

/* A shell that stops after `stop_at` steps and keeps the last state. */
struct shell {
    uint64_t steps_seen, stop_at;
    char *state;
    size_t n;
    int saves;
    enum status answer;
};

static inline bool should_stop(void *context)
{
    struct shell *s = context;
    return s->steps_seen == s->stop_at;
}

static inline enum status save(void *context, const void *bytes, size_t n)
{
    struct shell *s = context;
    memory_free(s->state);
    s->state = memcpy(memory_new(n, 1), bytes, n);
    s->n = n;
    s->saves++;
    return s->answer == STATUS_OK ? STATUS_OK : status_fail(s->answer, "no room");
}

static inline void progress(void *context, uint64_t step, uint64_t steps)
{
    struct shell *s = context;
    s->steps_seen = step;
    CHECK(step <= steps);
}

static inline struct train_control control_of(struct shell *s)
{
    return (struct train_control){.context = s, .should_stop = should_stop, .save = save, .progress = progress};
}

static inline struct record run_whole(const struct spec *s, uint64_t seed)
{
    struct record r = {0};
    enum train_end end = TRAIN_STOPPED;
    CHECK_OK(train_run(s, seed, NULL, NULL, 0, &r, &end));
    CHECK_INT(end, TRAIN_FINISHED);
    return r;
}

/* Stops after step `stop_at`, from `state`; the shell holds the new state. */
static inline void run_until(const struct spec *s, uint64_t seed, uint64_t stop_at, const void *state, size_t n,
                             struct shell *shell)
{
    struct record r = {0};
    enum train_end end = TRAIN_FINISHED;
    shell->stop_at = stop_at;
    struct train_control control = control_of(shell);
    CHECK_OK(train_run(s, seed, &control, state, n, &r, &end));
    CHECK_INT(end, TRAIN_STOPPED);
    CHECK(shell->state != NULL);
}

static inline struct record run_from(const struct spec *s, uint64_t seed, const void *state, size_t n)
{
    struct record r = {0};
    enum train_end end = TRAIN_STOPPED;
    CHECK_OK(train_run(s, seed, NULL, state, n, &r, &end));
    CHECK_INT(end, TRAIN_FINISHED);
    return r;
}

static inline void check_same_doubles(const char *what, const double *a, const double *b, size_t n)
{
    if ((a == NULL) != (b == NULL) || (a && memcmp(a, b, n * sizeof *a)))
        CHECK_FAIL("%s: the bits differ", what);
}

static inline void check_same_probe(const struct record_probe *a, const struct record_probe *b)
{
    size_t d = (size_t)a->d, rank = (size_t)a->rank, fitted = (size_t)a->operator_rank, n = (size_t)a->samples;
    CHECK_INT(a->step, b->step);
    CHECK_INT(a->d, b->d);
    CHECK_INT(a->rank, b->rank);
    CHECK_INT(a->sufficient, b->sufficient);
    CHECK_INT(a->necessary, b->necessary);
    CHECK_INT(a->core_dim, b->core_dim);
    CHECK_INT(a->operator_rank, b->operator_rank);
    CHECK_INT(a->samples, b->samples);
    check_same_doubles("accuracy", &a->accuracy, &b->accuracy, 1);
    check_same_doubles("accuracy_core_only", &a->accuracy_core_only, &b->accuracy_core_only, 1);
    check_same_doubles("accuracy_core_removed", &a->accuracy_core_removed, &b->accuracy_core_removed, 1);
    check_same_doubles("r2", &a->r2, &b->r2, 1);
    check_same_doubles("r2_oracle_ratio", &a->r2_oracle_ratio, &b->r2_oracle_ratio, 1);
    check_same_doubles("weight", a->weight, b->weight, d);
    check_same_doubles("basis", a->basis, b->basis, d * rank);
    check_same_doubles("mean", a->mean, b->mean, d);
    check_same_doubles("operator_matrix", a->operator_matrix, b->operator_matrix, fitted * fitted);
    check_same_doubles("eigenvalue", a->eigenvalue, b->eigenvalue, 2 * fitted);
    check_same_doubles("eigenvalue_error", a->eigenvalue_error, b->eigenvalue_error, fitted);
    check_same_doubles("coordinates", a->coordinates, b->coordinates, n * rank);
    check_same_doubles("activations", a->activations, b->activations, n * d);
}

/* Everything but times and restarts, bit for bit. */
static inline void check_same(const struct record *a, const struct record *b)
{
    size_t n = (size_t)a->curves.points, elements = 0;
    CHECK_TEXT(a->id, b->id);
    CHECK_INT(a->seed, b->seed);
    CHECK_INT(a->outcome, b->outcome);
    CHECK_INT(a->steps, b->steps);
    CHECK_INT(a->last_finite_step, b->last_finite_step);
    CHECK_INT(a->curves.points, b->curves.points);
    CHECK_INT(a->probes, b->probes);
    CHECK_INT(a->tensors, b->tensors);
    if (check_failures)
        return;
    CHECK_BYTES(a->curves.step, b->curves.step, n * sizeof *a->curves.step);
    check_same_doubles("loss_train", a->curves.loss_train, b->curves.loss_train, n);
    check_same_doubles("loss_test", a->curves.loss_test, b->curves.loss_test, n);
    check_same_doubles("accuracy_train", a->curves.accuracy_train, b->curves.accuracy_train, n);
    check_same_doubles("accuracy_test", a->curves.accuracy_test, b->curves.accuracy_test, n);
    check_same_doubles("last loss", &a->loss_test, &b->loss_test, 1);
    check_same_doubles("last accuracy", &a->accuracy_test, &b->accuracy_test, 1);
    for (int i = 0; i < a->probes; i++)
        check_same_probe(&a->probe[i], &b->probe[i]);
    for (int i = 0; i < a->tensors; i++)
        elements += (size_t)a->tensor[i].rows * (size_t)a->tensor[i].cols;
    CHECK_BYTES(a->weights, b->weights, elements * (size_t)a->element_size);
}

#endif
