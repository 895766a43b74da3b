#include "mpi/agree.h"

#include <stdio.h>

/* What travels: fixed size, so that one broadcast does. */
struct verdict {
    int status;
    char text[STATUS_TEXT_MAX];
};

static struct verdict spread(MPI_Comm comm, int root, enum status mine)
{
    struct verdict v = {.status = (int)mine};
    if (mine != STATUS_OK)
        snprintf(v.text, sizeof v.text, "%s", status_text());
    MPI_Bcast(&v, sizeof v, MPI_BYTE, root, comm);
    return v;
}

enum status agree_root(MPI_Comm comm, int root, enum status mine)
{
    struct verdict v = spread(comm, root, mine);
    if (v.status == STATUS_OK)
        return STATUS_OK;
    return status_fail((enum status)v.status, "%s", v.text);
}

enum status agree(MPI_Comm comm, enum status mine)
{
    int rank, size, first;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int candidate = mine == STATUS_OK ? size : rank;
    MPI_Allreduce(&candidate, &first, 1, MPI_INT, MPI_MIN, comm);
    if (first == size)
        return STATUS_OK;
    struct verdict worst = spread(comm, first, mine);
    if (size == 1)
        return status_fail((enum status)worst.status, "%s", worst.text);
    return status_fail((enum status)worst.status, "rank %d: %s", first, worst.text);
}
