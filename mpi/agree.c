#include "mpi/agree.h"

#include <stdio.h>
#include <string.h>

enum status agree(MPI_Comm comm, enum status mine)
{
    int rank, size, first;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int candidate = mine == STATUS_OK ? size : rank;
    MPI_Allreduce(&candidate, &first, 1, MPI_INT, MPI_MIN, comm);
    if (first == size)
        return STATUS_OK;
    struct {
        int status;
        char text[STATUS_TEXT_MAX];
    } worst = {.status = (int)mine};
    if (rank == first)
        snprintf(worst.text, sizeof worst.text, "%s", status_text());
    MPI_Bcast(&worst, sizeof worst, MPI_BYTE, first, comm);
    if (size == 1)
        return status_fail((enum status)worst.status, "%s", worst.text);
    return status_fail((enum status)worst.status, "rank %d: %s", first, worst.text);
}
