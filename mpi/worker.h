/* worker.h: what every rank does while training: fetch a tile, work on it, say what became of it, until told to leave.
 *
 * The work itself is a function pointer (mpi/trainer.c is the real one), so that fetching, handing back and stopping are
 * tested without a model. The coordinator is reached over a line: MPI from other ranks, a mailbox on rank 0.
 */
#ifndef INVAR_MPI_WORKER_H
#define INVAR_MPI_WORKER_H

#include "job/outcome.h"
#include "mpi/messages.h"

#include <stddef.h>

struct worker;

/* A line to the coordinator: mpi/uplink.h, or rank 0's mailboxes. receive waits up to `seconds` (0: not at all) and says
 * whether there was a message. dead: the coordinator is gone (NULL: it never is). */
struct line {
    void *context;
    void (*send)(void *context, const struct message *m);
    bool (*receive)(void *context, struct message *m, double seconds);
    bool (*dead)(void *context);
};

enum work_end {
    WORK_FINISHED,           /* the tile is in the store */
    WORK_FAILED,             /* it cannot be finished or stored; worker_failed_text was called */
    WORK_RETURNED            /* worker_should_stop said so; the tile is checkpointed as far as possible */
};

struct work {
    void *context;
    /* Works on open tile `tile`, asking worker_should_stop between steps. */
    enum work_end (*tile)(void *context, size_t tile, struct worker *w);
};

enum worker_end {
    WORKER_TOGETHER,         /* all ranks are there */
    WORKER_ALONE,            /* some are lost: no call of all ranks from now on */
    WORKER_ORPHANED          /* the coordinator is lost */
};

/* Works until the coordinator says that there is nothing more, or to stop, and all ranks have left. Rank 0's own worker does
 * not wait for that. */
enum worker_end worker_run(const struct line *line, const struct work *work);

/* ---- for the work ---- */

/* Whether the tile is to be checkpointed and left now. Cheap enough for every step. */
bool worker_should_stop(struct worker *w);
/* Whether it is to be left without a checkpoint: another rank has it. */
bool worker_should_drop(const struct worker *w);
/* `done` of `runs` runs of the tile are finished and the current one has come to share `fraction`. */
void worker_progress(struct worker *w, size_t done, size_t runs, double fraction);
/* `restored`: it was finished in an earlier launch and lay in the tile's checkpoint. `text`: of a FAILED run, which and why;
 * else NULL. */
void worker_run_ended(struct worker *w, enum outcome outcome, bool restored, const char *text);
/* Why the tile fails. */
void worker_failed_text(struct worker *w, const char *text);

#endif
