/* signals.h: SIGUSR1, SIGTERM and SIGINT ask for an end at the next step: checkpoint, give back, exit 75.
 *
 * The handler only sets a flag. A second SIGINT ends the program at once. SIGCONT has no handler: mpirun sends it to all
 * ranks before SIGTERM, and a scheduler after every suspension.
 */
#ifndef INVAR_MPI_SIGNALS_H
#define INVAR_MPI_SIGNALS_H

#include <stdbool.h>

/* Installs the handlers. */
void signals_catch(void);
/* Whether a signal has asked for the end. */
bool signals_came(void);
/* Calls `tell` when the program crashes (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT), before what would happen without. `tell`
 * may do what a signal handler may. */
void signals_catch_crashes(void (*tell)(int number));
/* For stages that are simply done again: SIGTERM and SIGINT end the program at once from now on. SIGUSR1 (the checkpoint
 * signal) is still only noted. */
void signals_release(void);

#endif
