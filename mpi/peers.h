/* peers.h: the processes behind the ranks. Those of this machine can be looked at without their help.
 *
 * Under `mpirun --enable-recovery` a rank may die while the others go on. What they may then still do is point to point:
 * a collective call would wait for the dead rank for ever.
 */
#ifndef INVAR_MPI_PEERS_H
#define INVAR_MPI_PEERS_H

#include <mpi.h>
#include <stdbool.h>

struct peers;

/* collective over comm; freed with peers_free */
struct peers *peers_new(MPI_Comm comm);
void peers_free(struct peers *p);

/* Whether the rank's process can be seen from here (same kernel, same process numbers). */
bool peers_is_near(const struct peers *p, int rank);
/* Whether it is near and no longer there. */
bool peers_is_gone(const struct peers *p, int rank);
/* Process number, and the name of the machine, for messages. */
long peers_pid(const struct peers *p, int rank);
const char *peers_host(const struct peers *p, int rank);

/* While collective calls are made under --enable-recovery: ends this program with code 3 and a message when a near rank dies,
 * instead of waiting for it for ever. Without --enable-recovery mpirun does that, and no thread is started. */
void peers_guard_start(const struct peers *p);
void peers_guard_stop(void);

#endif
