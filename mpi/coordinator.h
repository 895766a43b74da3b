/* coordinator.h: rank 0's second thread while all ranks train: it hands out tiles, counts, shows progress, and ends it.
 *
 * It alone speaks MPI on rank 0 meanwhile (MPI_THREAD_SERIALIZED); rank 0's own worker reaches it through mailboxes. It
 * sleeps between looks. What to hand out is decided by job/schedule; here are only messages and the clock.
 *
 * A rank that died or gave no sign of life for `heartbeat` seconds is lost: its tile goes on elsewhere from its checkpoint.
 * One that was only stopped and wakes may keep its tile if nobody has it by then, else it is told to drop it. What both
 * of two ranks finish has the same bits.
 */
#ifndef INVAR_MPI_COORDINATOR_H
#define INVAR_MPI_COORDINATOR_H

#include "job/outcome.h"
#include "mpi/peers.h"
#include "mpi/progress.h"
#include "mpi/worker.h"

#include <mpi.h>

struct coordinator_tile {
    const char *id;
    double seconds;          /* estimated, of the runs that are missing */
    size_t runs;             /* that are missing */
    int strikes;             /* of earlier launches */
};

/* What the coordinator's decisions touch outside. Any may be NULL. */
struct coordinator_hooks {
    void *context;
    bool (*evicted)(void *context);           /* another launch has taken the folder over */
    /* Worker `worker` is lost while it trained `tile` (number among the open ones). Returns the strikes that the tile has. */
    int (*lost)(void *context, size_t tile, int worker, const char *why);
};

struct coordinator_setup {
    MPI_Comm comm;           /* every rank of it runs one worker */
    size_t tiles;            /* >= 1 open tiles, in the order in which they are to be handed out */
    const struct coordinator_tile *tile;      /* [tiles]; must live until coordinator_end */
    double seconds_left;     /* until the time limit, from now; INFINITY: none */
    const struct peers *peers;       /* NULL: no rank is ever lost */
    double heartbeat;        /* a rank that is silent for so many seconds is lost */
    int max_failures;        /* stops after so many failed runs and tiles; 0: never */
    struct coordinator_hooks hooks;
    struct progress *progress;
};

struct coordinator;

/* Starts the thread.   out: *own, the line for rank 0's worker; freed by coordinator_end */
struct coordinator *coordinator_start(const struct coordinator_setup *setup, struct line *own);

struct coordinator_result {
    size_t finished, failed, open;            /* tiles; open: not finished because the launch was stopped */
    size_t quarantined;                       /* tiles that are left out because they lost their ranks */
    size_t outcome[OUTCOME_COUNT];            /* of the runs in finished tiles */
    int lost;                                 /* ranks; if any, nobody may make a call of all ranks any more */
    bool evicted;                             /* stopped since another launch has taken the folder over */
    bool too_many_failures;
    char failed_text[MESSAGE_TEXT];           /* why the first failed tile did */
};

/* Waits until every worker has left or is lost; frees.   in: the worker of rank 0 has returned */
struct coordinator_result coordinator_end(struct coordinator *c);

#endif
