// ranks: 1 2 3 7
/* Process grids, the arithmetic of block-cyclic distributions as properties, and long messages in small pieces. */
#include "mpi_check.h"

#include "analysis/block.h"
#include "analysis/exchange.h"
#include "analysis/grid.h"
#include "analysis/scalapack.h"
#include "base/memory.h"
#include "base/status.h"

/* Every index has one owner and one place there; places are filled without gaps; owners' counts are the places. */
static void check_blocks(int64_t n, int64_t block, int processes)
{
    int64_t sum = 0, next[8] = {0};
    for (int p = 0; p < processes; p++)
        sum += block_count(n, block, p, processes);
    CHECK_INT(sum, n);
    for (int64_t i = 0; i < n; i++) {
        int p = block_owner(i, block, processes);
        int64_t local = block_local(i, block, processes);
        CHECK(p >= 0 && p < processes);
        CHECK_INT(local, next[p]);               /* ascending, so consecutive */
        next[p]++;
        CHECK_INT(block_global(local, block, p, processes), i);
    }
    for (int p = 0; p < processes; p++)
        CHECK_INT(block_count(n, block, p, processes), next[p]);
}

static void blocks(void)
{
    for (int64_t n = 1; n <= 40; n += 3)
        for (int64_t block = 1; block <= 45; block = block * 2 + 1)
            for (int processes = 1; processes <= 7; processes++)
                check_blocks(n, block, processes);
    CHECK_INT(block_count(10, 4, 0, 2), 6);      /* 0-3 and 8-9 */
    CHECK_INT(block_count(10, 4, 1, 2), 4);
    CHECK_INT(block_count((int64_t)1 << 40, 32, 3, 7), 4908534053 * 32);   /* 2^35 blocks = 7 x 4908534052 + 4 */
}

/* Every shape that fits: the grid's ranks know their place, the others are outside, and grids can be had one after
 * another. */
static void shapes(MPI_Comm comm)
{
    int size = mpi_size(comm), rank = mpi_rank(comm);
    for (int rows = 1; rows <= size; rows++)
        for (int cols = 1; rows * cols <= size; cols++) {
            struct grid g;
            CHECK_OK(grid_open(comm, rows, cols, &g));
            CHECK_INT(grid_member(&g), rank < rows * cols);
            if (grid_member(&g)) {
                CHECK_INT(g.row, rank / cols);
                CHECK_INT(g.col, rank % cols);
            }
            grid_close(&g);
            CHECK_INT(grid_member(&g), 0);
        }
}

/* Two grids at once on one communicator; the first one lives on when the second is closed. */
static void overlapping(MPI_Comm comm)
{
    struct grid one, two;
    int rows = 0, cols = 0, row, col;
    CHECK_OK(grid_open(comm, mpi_size(comm), 1, &one));
    CHECK_OK(grid_open(comm, 1, mpi_size(comm), &two));
    CHECK(one.handle != two.handle);
    grid_close(&two);
    Cblacs_gridinfo(one.context, &rows, &cols, &row, &col);
    CHECK_INT(rows, mpi_size(comm));
    CHECK_INT(row, mpi_rank(comm));
    grid_close(&one);
}

static void too_few_ranks(MPI_Comm comm)
{
    struct grid g;
    CHECK_INT(grid_open(comm, 2, mpi_size(comm), &g), STATUS_USAGE);
    char expected[100];
    snprintf(expected, sizeof expected, "gather.grid is 2 x %d and needs %d ranks", mpi_size(comm), 2 * mpi_size(comm));
    CHECK_HAS(status_text(), expected);
    CHECK_HAS(status_text(), "set gather.grid=[1,1]");
}

/* Rank p sends p + q + 1 numbers to rank q. */
static void all_to_all(MPI_Comm comm)
{
    int size = mpi_size(comm), rank = mpi_rank(comm);
    size_t count[8], total = 0;
    double send[100], receive[100];
    for (int q = 0; q < size; q++) {
        count[q] = (size_t)(rank + q + 1);
        for (size_t i = 0; i < count[q]; i++)
            send[total++] = 1000.0 * rank + 100.0 * q + (double)i;
    }
    exchange_all(comm, send, count, receive, count);
    size_t at = 0;
    for (int q = 0; q < size; q++)
        for (size_t i = 0; i < count[q]; i++)
            CHECK_NEAR(receive[at++], 1000.0 * q + 100.0 * rank + (double)i, 0.0);
}

/* 13 numbers and 3 odd bytes; -0.0 and a NaN's payload come through. */
static void share(MPI_Comm comm)
{
    enum { BYTES = 13 * 8 + 3 };
    int size = mpi_size(comm), rank = mpi_rank(comm);
    union { double number[14]; unsigned char byte[14 * 8]; } mine = {{0}}, expected = {{0}};
    for (int i = 0; i < 13; i++) {
        expected.number[i] = i == 4 ? -0.0 : i == 7 ? nan("12345") : i + 0.5;
        if (i % size == rank)
            mine.number[i] = expected.number[i];
    }
    for (int i = 13 * 8; i < BYTES; i++) {
        expected.byte[i] = (unsigned char)i;
        if (i % size == rank)
            mine.byte[i] = expected.byte[i];
    }
    exchange_share(comm, &mine, BYTES);
    CHECK_BYTES(&mine, &expected, BYTES);
}

int main(int argc, char **argv)
{
    mpi_start(&argc, &argv);
    blocks();
    for (int n = 1; n <= mpi_size(MPI_COMM_WORLD); n++) {
        MPI_Comm comm = mpi_first(n);
        if (comm == MPI_COMM_NULL)
            continue;
        shapes(comm);
        overlapping(comm);
        too_few_ranks(comm);
        for (size_t cap = 1; cap <= 4096; cap = cap * 5 + 3) {      /* 8 bytes is the least: one number a piece */
            exchange_cap(cap);
            all_to_all(comm);
            share(comm);
        }
        MPI_Comm_free(&comm);
    }
    CHECK_INT(memory_balance(), 0);
    return mpi_report("grid");
}
