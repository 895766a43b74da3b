/* world.h: the edge to MPI: start, end, and the one communicator that everything else is given. */
#ifndef INVAR_MPI_WORLD_H
#define INVAR_MPI_WORLD_H

#include "base/status.h"

#include <mpi.h>
#include <stdbool.h>

struct world {
    MPI_Comm comm;           /* a duplicate: libraries and we do not meet each other's messages */
    int rank, size;
    int node_ranks;          /* ranks on this rank's machine, itself included */
    struct peers *peers;
    bool broken;             /* ranks are lost; comm is this rank alone, and MPI is not ended */
};

/* To be asked before: whether MPI can be started at all. Tasks of srun without any PMI would be ended inside MPI_Init by
 * Open MPI, with another exit code and no word of ours.   fails: STATUS_ENVIRONMENT */
enum status world_check_start(void);
/* Starts MPI (alone too, without mpirun) and sets BLAS to one thread: ranks are the parallelism.
 * out: *w, closed with world_close
 * collective   fails: STATUS_ENVIRONMENT when MPI lacks threads, or when srun started single programs that do not know of
 *              each other; *w may then still be closed and is a world of its own */
enum status world_open(int *argc, char ***argv, struct world *w);
/* After ranks were lost: this rank is a world of its own from now on. Not collective. */
void world_break(struct world *w);
/* Ends MPI, unless the world is broken: that would wait for the lost ranks.   collective */
void world_close(struct world *w);

/* Rank that mpirun or srun gave this process, known without MPI; 0 when it was started alone. */
int world_launched_rank(void);
/* Threads a rank that the environment asked for when the program was started (it gets one); 0: it did not say. */
int world_threads_asked(void);
/* Ranks that mpirun started, or tasks of the batch job; 0: unknown. */
int world_launched_size(void);
/* Whether mpirun, or srun with several tasks, started this process. */
int world_launched(void);
/* mpirun of Open MPI itself (it passes on our standard error through a pipe). */
int world_mpirun(void);

#endif
