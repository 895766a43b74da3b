/* A training that is stopped and resumed equals the unbroken one bit for bit; checkpoints, damaged and foreign ones. */
#include "base/log.h"
#include "base/text.h"
#include "run/trainings.h"

/* Stops after each of the given steps, resumes, and compares with the unbroken run. */
static void check_resume(const struct spec *s, const uint64_t *stop, int stops)
{
    struct record whole = run_whole(s, 7);
    for (int i = 0; i < stops; i++) {
        struct shell shell = {0};
        run_until(s, 7, stop[i], NULL, 0, &shell);
        struct record r = run_from(s, 7, shell.state, shell.n);
        CHECK_INT(r.restarts, 1);
        CHECK(r.wall_time > 0.0);
        check_same(&whole, &r);
        record_clear(&r);
        memory_free(shell.state);
    }
    CHECK_INT(whole.restarts, 0);
    record_clear(&whole);
    CHECK_INT(memory_balance(), 0);
}

TEST(resume_is_bitwise_at_any_step)
{
    struct spec s = small_spec();
    check_resume(&s, (const uint64_t[]){0, 1, 5, 8, 9, 16, 23}, 7);
}

TEST(resume_is_bitwise_with_dropout_and_two_layers)
{
    struct spec s = small_spec();
    s.model.dropout = 0.2;
    s.model.layers = 2;
    s.train.eval_every = 5;
    check_resume(&s, (const uint64_t[]){1, 5, 11, 22}, 4);
}

TEST(resume_is_bitwise_in_double_with_momentum)
{
    struct spec s = small_spec();
    s.model.precision = PRECISION_FLOAT64;
    s.model.dropout = 0.1;
    s.train.optimizer = OPTIMIZER_SGD;
    s.train.momentum = 0.9;
    s.train.weight_decay = 0.01;
    check_resume(&s, (const uint64_t[]){3, 13}, 2);
}

TEST(resume_is_bitwise_for_attention_only)
{
    for (int layers = 2; layers <= 3; layers++) {
        struct spec s = small_spec();
        s.model.kind = MODEL_ATTENTION_ONLY;
        s.model.layers = layers;
        s.model.heads = 1;
        s.train.positions = (struct key_list){.count = layers == 2, .value = {-1}};
        s.probe_ace.layer = 1;
        s.probe.at = (struct key_list){.count = 2, .value = {6, -1}};
        check_resume(&s, (const uint64_t[]){3, 13}, 2);
    }
}

TEST(resume_keeps_probes_already_taken)
{
    struct spec s = small_spec();
    s.probe_ace.layer = 1;
    s.probe_ace.store = STORE_ACTIVATIONS;
    s.probe.at = (struct key_list){.count = 3, .value = {0, 6, -1}};
    struct record r = run_whole(&s, 7);
    CHECK_INT(r.probes, 3);
    CHECK_INT(r.probe[0].step, 0);
    CHECK_INT(r.probe[1].step, 6);
    CHECK_INT(r.probe[2].step, 24);
    record_clear(&r);
    check_resume(&s, (const uint64_t[]){2, 6, 7, 20}, 4);
}

TEST(a_training_that_is_stopped_after_every_step_is_the_same)
{
    struct spec s = small_spec();
    s.model.dropout = 0.1;
    struct record whole = run_whole(&s, 3);
    struct shell shell = {0};
    run_until(&s, 3, 0, NULL, 0, &shell);
    for (uint64_t step = 1; step < 24; step++) {
        struct shell next = {0};
        run_until(&s, 3, step, shell.state, shell.n, &next);
        memory_free(shell.state);
        shell = next;
    }
    struct record r = run_from(&s, 3, shell.state, shell.n);
    CHECK_INT(r.restarts, 24);
    check_same(&whole, &r);
    memory_free(shell.state);
    record_clear(&r);
    record_clear(&whole);
    CHECK_INT(memory_balance(), 0);
}

/* A state that cannot be used is said in the log, and the run from its start gives the same result. */
static void check_starts_anew(const struct spec *s, const void *state, size_t n, const struct record *whole)
{
    struct record r = run_from(s, 7, state, n);
    CHECK_INT(r.restarts, 0);
    check_same(whole, &r);
    record_clear(&r);
}

TEST(damaged_and_foreign_states_start_anew)
{
    struct spec s = small_spec(), other = small_spec();
    s.train.epochs = 1;
    other.train.epochs = 1;
    other.train.lr = 2e-2;
    char *path = memory_format("%s/invar-train-log-%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
    CHECK(log_file(path));
    log_threshold(LOG_ERROR);
    struct record whole = run_whole(&s, 7);
    struct shell shell = {0}, foreign = {0};
    run_until(&s, 7, 5, NULL, 0, &shell);
    run_until(&other, 7, 5, NULL, 0, &foreign);
    for (size_t k = 0; k < 40; k++) {
        size_t at = k < 20 ? k * 5 : k * shell.n / 40;
        shell.state[at] = (char)(shell.state[at] ^ 0x10);
        check_starts_anew(&s, shell.state, shell.n, &whole);
        shell.state[at] = (char)(shell.state[at] ^ 0x10);
    }
    for (size_t k = 0; k < 10; k++)
        check_starts_anew(&s, shell.state, k * shell.n / 10, &whole);
    check_starts_anew(&s, shell.state, shell.n - 1, &whole);
    check_starts_anew(&s, foreign.state, foreign.n, &whole);
    struct record r = run_from(&s, 7, shell.state, shell.n);      /* whole again: it is used */
    CHECK_INT(r.restarts, 1);
    check_same(&whole, &r);
    record_clear(&r);
    log_finish();
    char *said = text_read_file(path, NULL);
    CHECK_HAS(said, whole.id);
    CHECK_HAS(said, "starts anew: the state is damaged: its checksum does not fit");
    CHECK_HAS(said, "no state of a training");
    CHECK_HAS(said, "the state has format");
    CHECK_HAS(said, "the state belongs to run");
    remove(path);
    memory_free(said);
    memory_free(path);
    memory_free(shell.state);
    memory_free(foreign.state);
    record_clear(&whole);
    CHECK_INT(memory_balance(), 0);
}

/* ---- the shell around it ---- */

TEST(checkpoints_come_after_every_evaluation_when_asked)
{
    struct spec s = small_spec();
    s.store.checkpoint_every = 0.0;
    struct shell shell = {.stop_at = UINT64_MAX};
    struct train_control control = control_of(&shell);
    struct record r = {0};
    enum train_end end;
    CHECK_OK(train_run(&s, 1, &control, NULL, 0, &r, &end));
    CHECK_INT(shell.saves, 3);           /* after steps 0, 8 and 16; after 24 the record is there */
    CHECK_INT(shell.steps_seen, 24);
    struct record again = run_from(&s, 1, shell.state, shell.n);
    check_same(&r, &again);
    record_clear(&r);
    record_clear(&again);
    memory_free(shell.state);
}

TEST(checkpoints_come_by_the_clock)
{
    struct spec s = small_spec();
    s.store.checkpoint_every = 1e-9;     /* has passed at every step */
    struct shell shell = {.stop_at = UINT64_MAX};
    struct train_control control = control_of(&shell);
    struct record r = {0};
    enum train_end end;
    CHECK_OK(train_run(&s, 1, &control, NULL, 0, &r, &end));
    CHECK_INT(shell.saves, 24);
    record_clear(&r);
    memory_free(shell.state);
}

TEST(a_save_that_fails_is_told)
{
    struct spec s = small_spec();
    struct shell shell = {.stop_at = 3, .answer = STATUS_IO};
    struct train_control control = control_of(&shell);
    struct record r = {0};
    enum train_end end;
    CHECK_INT(train_run(&s, 1, &control, NULL, 0, &r, &end), STATUS_IO);
    CHECK_HAS(status_text(), "no room");
    memory_free(shell.state);
    CHECK_INT(memory_balance(), 0);
}
