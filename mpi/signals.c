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
