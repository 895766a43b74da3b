/* uplink.h: the line of ranks other than 0 to the coordinator on rank 0, over MPI.
 *
 * A thread says every few seconds that this rank lives, however long a step takes, and looks whether rank 0 does. Both
 * threads call MPI through messages.h, one at a time.
 */
#ifndef INVAR_MPI_UPLINK_H
#define INVAR_MPI_UPLINK_H

#include "mpi/peers.h"
#include "mpi/worker.h"

struct uplink;

/* `heartbeat`: seconds of silence after which a side gives the other up.   out: *line; all freed with uplink_close */
struct uplink *uplink_open(MPI_Comm comm, const struct peers *peers, double heartbeat, struct line *line);
void uplink_close(struct uplink *u);

/* Signs of life come this often. */
double uplink_period(double heartbeat);

#endif
