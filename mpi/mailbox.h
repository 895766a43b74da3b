/* mailbox.h: a queue of messages between two threads of one process. */
#ifndef INVAR_MPI_MAILBOX_H
#define INVAR_MPI_MAILBOX_H

#include "mpi/messages.h"

struct mailbox;

struct mailbox *mailbox_new(void);
void mailbox_free(struct mailbox *b);
void mailbox_put(struct mailbox *b, const struct message *m);
/* Takes the oldest message; waits for it up to `seconds` (0: not at all). Returns whether there was one. */
bool mailbox_take(struct mailbox *b, struct message *m, double seconds);
/* Waits up to `seconds` for a message and leaves it there. */
void mailbox_wait(struct mailbox *b, double seconds);

#endif
