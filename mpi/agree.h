/* agree.h: "if one rank cannot, all must know", before any of them leaves a collective path. */
#ifndef INVAR_MPI_AGREE_H
#define INVAR_MPI_AGREE_H

#include "base/status.h"

#include <mpi.h>

/* The first failure by rank: its status is returned on every rank, with its text ("rank 3: ...") as every rank's
 * message; STATUS_OK when all are fine.   collective over comm */
enum status agree(MPI_Comm comm, enum status mine);

/* The status of rank `root`, returned on every rank with its text as every rank's message: for what one rank does for
 * all. The others' `mine` does not count.   collective over comm, root equal on all */
enum status agree_root(MPI_Comm comm, int root, enum status mine);

#endif
