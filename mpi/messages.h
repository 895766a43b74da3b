/* messages.h: what the coordinator and its workers say to each other while training: small, of one size, of one type.
 *
 * One conversation, in order:
 *
 *     worker                         coordinator
 *     READY                  ->
 *                            <-      ASSIGN tile         (or nothing yet: tiles may still come back)
 *     PROGRESS, RUN_ENDED .. ->
 *     READY (ahead)          ->                          shortly before the tile ends
 *                            <-      ASSIGN tile
 *     FINISHED tile          ->                          or FAILED, or RETURNED
 *     ...
 *                            <-      DRAINED or STOP     exactly one of them
 *     RETURNED ..            ->                          after STOP: what it still holds
 *     LEFT                   ->                          the last message of this worker
 *                            <-      GOODBYE             when all have left or are lost
 *
 * A worker that gets a signal says SIGNAL, returns its tiles and waits for the STOP that all get.
 */
#ifndef INVAR_MPI_MESSAGES_H
#define INVAR_MPI_MESSAGES_H

#include "job/outcome.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* MESSAGE(name, sent by, meaning) */
#define MESSAGE_TABLE(MESSAGE) \
    MESSAGE(READY, "worker", "has no next tile and asks for one") \
    MESSAGE(ASSIGN, "coordinator", "train `tile`") \
    MESSAGE(RUN_ENDED, "worker", "a run of `tile` ended with `outcome`; when it FAILED, `text` says which and why") \
    MESSAGE(PROGRESS, "worker", "share `fraction` of the current run of `tile` is done") \
    MESSAGE(FINISHED, "worker", "`tile` is published") \
    MESSAGE(FAILED, "worker", "`tile` could not be finished; `text` says why") \
    MESSAGE(RETURNED, "worker", "`tile` is checkpointed and given back") \
    MESSAGE(SIGNAL, "worker", "was asked to end by a signal") \
    MESSAGE(DRAINED, "coordinator", "nothing more to do: leave") \
    MESSAGE(STOP, "coordinator", "checkpoint, give back, leave") \
    MESSAGE(DROP, "coordinator", "give `tile` back without a checkpoint: this rank was taken for dead, another has it") \
    MESSAGE(LEFT, "worker", "has left; it waits for GOODBYE") \
    MESSAGE(GOODBYE, "coordinator", "all have left; `tile` of them are lost, and if any, nobody may call all ranks") \
    MESSAGE(ALIVE, "both", "a sign of life")

enum message_kind {
#define MESSAGE(name, sender, meaning) MESSAGE_##name,
    MESSAGE_TABLE(MESSAGE)
#undef MESSAGE
    MESSAGE_COUNT
};

#define MESSAGE_TEXT 400

struct message {
    int32_t kind;            /* enum message_kind */
    int32_t worker;          /* who sent it; set by the one who receives */
    int32_t outcome;         /* enum outcome */
    int32_t restored;        /* RUN_ENDED: read back from a checkpoint, not trained in this launch */
    int64_t tile;            /* number among the open tiles */
    double fraction;
    int32_t ended[OUTCOME_COUNT];     /* FINISHED: runs of the tile by outcome, without those that the store held */
    char text[MESSAGE_TEXT];
};

const char *messages_name(int kind);

/* The calls below may come from two threads of a rank at once.
 *
 * Sends to rank `to`; never waits, though the other side may train, or be dead: MPI_Send of this size waits on shared memory
 * until the other side looks. The message is kept until it has gone. */
void messages_send(MPI_Comm comm, int to, const struct message *m);
/* Takes the next message of any rank, if there is one; never waits. */
bool messages_receive(MPI_Comm comm, struct message *m);
/* Whether there is one; leaves it there. */
bool messages_waiting(MPI_Comm comm);
/* Waits until all that was sent has gone, before calls of all ranks; or, with `give_up`, forgets it: the other side may be
 * dead. */
void messages_settle(bool give_up);

#endif
