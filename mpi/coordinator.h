/* coordinator.h: rank 0's second thread while all ranks train: it hands out tiles, counts, shows progress, and ends it.
 *
 * It alone speaks MPI on rank 0 meanwhile (MPI_THREAD_SERIALIZED); rank 0's own worker reaches it through mailboxes. It
 * sleeps between looks. What to hand out is decided by job/schedule; here are only messages and the clock.
 */
#ifndef INVAR_MPI_COORDINATOR_H
#define INVAR_MPI_COORDINATOR_H

#include "job/outcome.h"
#include "mpi/progress.h"
#include "mpi/worker.h"

#include <mpi.h>

struct coordinator_tile {
    const char *id;
    double seconds;          /* estimated, of the runs that are missing */
    size_t runs;             /* that are missing */
};

struct coordinator_setup {
    MPI_Comm comm;           /* every rank of it runs one worker */
    size_t tiles;            /* >= 1 open tiles, in the order in which they are to be handed out */
    const struct coordinator_tile *tile;      /* [tiles]; must live until coordinator_end */
    double seconds_left;     /* until the time limit, from now; INFINITY: none */
    struct progress *progress;
};

struct coordinator;

/* Starts the thread.   out: *own, the line for rank 0's worker; freed by coordinator_end */
struct coordinator *coordinator_start(const struct coordinator_setup *setup, struct line *own);

struct coordinator_result {
    size_t finished, failed, open;            /* tiles; open: not finished because the launch was stopped */
    size_t quarantined;                       /* tiles that are left out because they lost their ranks */
    size_t outcome[OUTCOME_COUNT];            /* of the runs in finished tiles */
    char failed_text[MESSAGE_TEXT];           /* why the first failed tile did */
};

/* Waits until every worker has left; frees.   in: the worker of rank 0 has returned */
struct coordinator_result coordinator_end(struct coordinator *c);

#endif
