/* startup_guard.h: a rank that dies while MPI starts.
 *
 * Under `mpirun --enable-recovery` nobody ends the others then: they wait in MPI_Init for ever. Until the ranks know each
 * other (peers.h) those of this machine are known as the children of the same daemon that run the same program. A thread
 * counts them and ends this process, with code 3 and a message, when one is gone. Without --enable-recovery mpirun does it,
 * and no thread is started.
 */
#ifndef INVAR_MPI_STARTUP_GUARD_H
#define INVAR_MPI_STARTUP_GUARD_H

/* expected: ranks of this machine; 0: unknown. */
void startup_guard_start(int expected);
void startup_guard_stop(void);

#endif
