#include "mpi/signals.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t came, interrupted;

static void note(int number)
{
    came = 1;
    if (number != SIGINT)
        return;
    if (interrupted) {
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);         /* delivered when this handler returns */
    }
    interrupted = 1;
}

static void handle(int number)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void signals_catch(void)
{
    handle(SIGUSR1);
    handle(SIGTERM);
    handle(SIGINT);
}

bool signals_came(void) { return came; }

void signals_release(void)
{
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
}

/* ---- crashes ---- */

static const int crash[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { CRASHES = sizeof crash / sizeof *crash };
static struct sigaction before[CRASHES];
static void (*crash_note)(int number);

/* The old handler is put back and gets the same signal again, from the instruction that faulted or from here. */
static void crashed(int number, siginfo_t *info, void *context)
{
    (void)context;
    crash_note(number);
    for (int i = 0; i < CRASHES; i++)
        sigaction(crash[i], &before[i], NULL);
    if (info->si_code <= 0)
        raise(number);
}

void signals_catch_crashes(void (*tell)(int number))
{
    bool first = !crash_note;
    struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    crash_note = tell;
    for (int i = 0; i < CRASHES && first; i++)
        sigaction(crash[i], &action, &before[i]);
}
