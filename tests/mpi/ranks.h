/* ranks.h: the end of an MPI test: one line for all ranks, by rank 0. */
#ifndef INVAR_TESTS_MPI_RANKS_H
#define INVAR_TESTS_MPI_RANKS_H

#define CHECK_NO_MAIN
#include "check.h"

#include "mpi/world.h"

/* Says how the checks of all ranks went since the last call; returns whether one failed. collective */
static inline int ranks_report(const struct world *w, const char *name)
{
    int failures = check_failures, all;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, w->comm);
    check_failures = 0;
    if (w->rank == 0) {
        printf("%s %s@%d\n", all ? "not ok" : "ok", name, w->size);
        fflush(stdout);
    }
    return all != 0;
}

#endif
