/* world.h: the edge to MPI: start, end, and the one communicator that everything else is given. */
#ifndef INVAR_MPI_WORLD_H
#define INVAR_MPI_WORLD_H

#include "base/status.h"

#include <mpi.h>

struct world {
    MPI_Comm comm;           /* a duplicate: libraries and we do not meet each other's messages */
    int rank, size;
    int node_ranks;          /* ranks on this rank's machine, itself included */
};

/* Starts MPI (alone too, without mpirun) and sets BLAS to one thread: ranks are the parallelism.
 * out: *w, closed with world_close
 * collective   fails: STATUS_ENVIRONMENT when MPI lacks threads, or when srun started single programs that do not know of
 *              each other; *w may then still be closed and is a world of its own */
enum status world_open(int *argc, char ***argv, struct world *w);
/* Ends MPI.   collective */
void world_close(struct world *w);

/* Rank that mpirun or srun gave this process, known without MPI; 0 when it was started alone. */
int world_launched_rank(void);
/* Ranks that mpirun started, or tasks of the batch job; 0: unknown. */
int world_launched_size(void);
/* Whether mpirun, or srun with several tasks, started this process. */
int world_launched(void);
/* mpirun of Open MPI itself (it passes on our standard error through a pipe). */
int world_mpirun(void);

#endif
