#include "mpi/messages.h"

#include "base/memory.h"

#include <pthread.h>

static const char *const names[MESSAGE_COUNT] = {
#define MESSAGE(name, sender, meaning) #name,
    MESSAGE_TABLE(MESSAGE)
#undef MESSAGE
};

/* One tag for all: messages of one sender then arrive in the order in which they were sent. */
enum { TAG = 1 };

const char *messages_name(int kind) { return kind >= 0 && kind < MESSAGE_COUNT ? names[kind] : "?"; }

/* What has not gone yet, in the order of sending. A message to a dead rank stays for ever. */
struct sent {
    struct sent *next;
    MPI_Request request;
    struct message message;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sent *first, **last = &first;

/* Frees what has gone; looks at a few only, so that many to a dead rank cost nothing. */
static void reap(int most)
{
    struct sent **at = &first;
    for (int i = 0; *at && i < most; i++) {
        int gone = 0;
        struct sent *s = *at;
        MPI_Test(&s->request, &gone, MPI_STATUS_IGNORE);
        if (!gone) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        if (last == &s->next)
            last = at;
        memory_free(s);
    }
}

void messages_send(MPI_Comm comm, int to, const struct message *m)
{
    struct sent *s = memory_new(1, sizeof *s);
    s->message = *m;
    pthread_mutex_lock(&lock);
    reap(64);
    MPI_Isend(&s->message, sizeof s->message, MPI_BYTE, to, TAG, comm, &s->request);
    *last = s;
    last = &s->next;
    pthread_mutex_unlock(&lock);
}

bool messages_receive(MPI_Comm comm, struct message *m)
{
    int there = 0;
    MPI_Status status;
    pthread_mutex_lock(&lock);
    MPI_Iprobe(MPI_ANY_SOURCE, TAG, comm, &there, &status);
    if (there)
        MPI_Recv(m, sizeof *m, MPI_BYTE, status.MPI_SOURCE, TAG, comm, MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&lock);
    if (there)
        m->worker = status.MPI_SOURCE;
    return there;
}

bool messages_waiting(MPI_Comm comm)
{
    int there = 0;
    pthread_mutex_lock(&lock);
    MPI_Iprobe(MPI_ANY_SOURCE, TAG, comm, &there, MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&lock);
    return there;
}

void messages_settle(bool give_up)
{
    pthread_mutex_lock(&lock);
    while (first && !give_up) {
        MPI_Wait(&first->request, MPI_STATUS_IGNORE);
        reap(1);
    }
    first = NULL;            /* MPI may still read what was given up */
    last = &first;
    pthread_mutex_unlock(&lock);
}
