/* grid.h: a process grid of ScaLAPACK on a communicator.
 *
 * The first rows x cols ranks make the grid, in row-major order; the others are outside and only take part in what is
 * collective over the communicator. Contexts come from the communicator itself, never from the world.
 *
 * By default BLACS adds what comes from several ranks in the order of arrival, and so the same pdgesvd on the same grid has
 * other last bits from one call to the next. Here its combine operations are told to be repeatable and coherent.
 */
#ifndef INVAR_ANALYSIS_GRID_H
#define INVAR_ANALYSIS_GRID_H

#include "base/status.h"

#include <mpi.h>

struct grid {
    MPI_Comm comm;           /* a copy: BLACS knows a communicator once only, and grids may overlap in time */
    int rank, size;          /* in comm */
    int rows, cols;
    int row, col;            /* of this rank; -1 outside */
    int context;             /* BLACS context; -1 outside */
    int handle;              /* BLACS handle of comm */
};

/* Opens a grid; closed with grid_close.   collective over comm (shape equal on all ranks)
 * fails: STATUS_USAGE when comm has fewer than rows x cols ranks, STATUS_ENVIRONMENT when BLACS lays it out otherwise;
 * on all ranks alike */
enum status grid_open(MPI_Comm comm, int rows, int cols, struct grid *g);
/* collective over the communicator */
void grid_close(struct grid *g);
int grid_member(const struct grid *g);

#endif
