/* mpi_check.h: what the MPI tests of this folder share. */
#ifndef INVAR_TESTS_ANALYSIS_MPI_CHECK_H
#define INVAR_TESTS_ANALYSIS_MPI_CHECK_H

#define CHECK_NO_MAIN
#include "check.h"

#include "base/stream.h"

#include <mpi.h>

static inline int mpi_rank(MPI_Comm comm)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    return rank;
}

static inline int mpi_size(MPI_Comm comm)
{
    int size;
    MPI_Comm_size(comm, &size);
    return size;
}

static inline void mpi_start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    alarm(CHECK_SECONDS);                        /* a collective that does not match is a hang */
}

/* One line by rank 0 for all ranks, then the end of MPI; the exit code. */
static inline int mpi_report(const char *name)
{
    int rank = mpi_rank(MPI_COMM_WORLD), failures = 0;
    MPI_Allreduce(&check_failures, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check_failures = failures;
    int code = rank == 0 ? check_report(name) : failures != 0;
    MPI_Finalize();
    return code;
}

/* The first `n` ranks of the world as a communicator of their own; MPI_COMM_NULL on the others. */
static inline MPI_Comm mpi_first(int n)
{
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, mpi_rank(MPI_COMM_WORLD) < n ? 0 : MPI_UNDEFINED, 0, &comm);
    return comm;
}

/* Standard normal numbers, the same everywhere for the same number. */
static inline void fill_normal(uint32_t number, double *x, size_t n)
{
    struct stream s = stream_open(20240, PURPOSE_PROBE, number);
    for (size_t i = 0; i < n; i++)
        x[i] = stream_normal(&s);
}

#endif
