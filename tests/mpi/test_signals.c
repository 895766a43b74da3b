/* What the signals do, each in a process of its own. */
#include "check.h"

#include "mpi/signals.h"

/* Runs body in a child; returns its wait status. */
static int in_child(void (*body)(void))
{
    int how = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        body();
        _exit(signals_came() ? 75 : 0);
    }
    waitpid(child, &how, 0);
    return how;
}

static void one(int number)
{
    signals_catch();
    raise(number);
}
static void one_usr1(void) { one(SIGUSR1); }
static void one_term(void) { one(SIGTERM); }
static void one_int(void) { one(SIGINT); }
static void one_cont(void) { one(SIGCONT); }
static void two_usr1(void)
{
    one(SIGUSR1);
    raise(SIGUSR1);
}
static void two_int(void)
{
    one(SIGINT);
    raise(SIGINT);
}

TEST(signals_are_noted)
{
    static void (*const bodies[])(void) = {one_usr1, one_term, one_int, two_usr1};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        int how = in_child(bodies[i]);
        CHECK(WIFEXITED(how));
        CHECK_INT(WEXITSTATUS(how), 75);
    }
}

TEST(signals_cont_means_nothing)
{
    int how = in_child(one_cont);
    CHECK(WIFEXITED(how));
    CHECK_INT(WEXITSTATUS(how), 0);
}

TEST(signals_second_interrupt_ends)
{
    int how = in_child(two_int);
    CHECK(WIFSIGNALED(how));
    CHECK_INT(WTERMSIG(how), SIGINT);
}

static void released(int number)
{
    signals_catch();
    signals_release();
    raise(number);
}
static void released_term(void) { released(SIGTERM); }
static void released_int(void) { released(SIGINT); }
static void released_usr1(void) { released(SIGUSR1); }

TEST(signals_released_end_at_once_but_usr1)
{
    CHECK_INT(WTERMSIG(in_child(released_term)), SIGTERM);
    CHECK_INT(WTERMSIG(in_child(released_int)), SIGINT);
    int how = in_child(released_usr1);
    CHECK(WIFEXITED(how));
    CHECK_INT(WEXITSTATUS(how), 75);
}
