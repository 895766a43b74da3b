#include "mpi/messages.h"

static const char *const names[MESSAGE_COUNT] = {
#define MESSAGE(name, sender, meaning) #name,
    MESSAGE_TABLE(MESSAGE)
#undef MESSAGE
};

/* One tag for all: messages of one sender then arrive in the order in which they were sent. */
enum { TAG = 1 };

const char *messages_name(int kind) { return kind >= 0 && kind < MESSAGE_COUNT ? names[kind] : "?"; }

void messages_send(MPI_Comm comm, int to, const struct message *m)
{
    MPI_Send(m, sizeof *m, MPI_BYTE, to, TAG, comm);
}

bool messages_receive(MPI_Comm comm, struct message *m)
{
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, TAG, comm, &there, &status);
    if (!there)
        return false;
    MPI_Recv(m, sizeof *m, MPI_BYTE, status.MPI_SOURCE, TAG, comm, MPI_STATUS_IGNORE);
    m->worker = status.MPI_SOURCE;
    return true;
}
