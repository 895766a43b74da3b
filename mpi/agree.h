/* agree.h: "if one rank cannot, all must know", before any of them leaves a collective path. */
#ifndef INVAR_MPI_AGREE_H
#define INVAR_MPI_AGREE_H

#include "base/status.h"

#include <mpi.h>

/* The first failure by rank: its status is returned on every rank, with its text ("rank 3: ...") as every rank's
 * message; STATUS_OK when all are fine.   collective over comm */
enum status agree(MPI_Comm comm, enum status mine);

#endif
