#include "analysis/grid.h"

#include "analysis/scalapack.h"
#include "mpi/agree.h"

enum status grid_open(MPI_Comm comm, int rows, int cols, struct grid *g)
{
    struct grid new = {.rows = rows, .cols = cols, .row = -1, .col = -1, .context = -1};
    MPI_Comm_rank(comm, &new.rank);
    MPI_Comm_size(comm, &new.size);
    if (rows < 1 || cols < 1 || (long)rows * cols > new.size)
        return status_fail(STATUS_USAGE, "gather.grid is %d x %d and needs %ld ranks, there %s %d: mpirun -n %ld, or "
                           "set gather.grid=[1,1]", rows, cols, (long)rows * cols, new.size == 1 ? "is" : "are", new.size,
                           (long)rows * cols);
    MPI_Comm_dup(comm, &new.comm);
    new.handle = Csys2blacs_handle(new.comm);
    new.context = new.handle;
    Cblacs_gridinit(&new.context, "Row-major", rows, cols);
    int inside = new.rank < rows * cols, got_rows = rows, got_cols = cols, yes = 1;
    if (inside) {
        Cblacs_gridinfo(new.context, &got_rows, &got_cols, &new.row, &new.col);
        Cblacs_set(new.context, BLACS_REPEATABLE, &yes);
        Cblacs_set(new.context, BLACS_COHERENT, &yes);
    } else {
        new.context = -1;
    }
    *g = new;
    int right = got_rows == rows && got_cols == cols &&
                (!inside || (new.row == new.rank / cols && new.col == new.rank % cols));
    enum status s = right ? STATUS_OK : status_fail(STATUS_ENVIRONMENT, "BLACS made a %d x %d grid with rank %d at "
                                                    "(%d, %d); asked for %d x %d in row-major order: invar doctor",
                                                    got_rows, got_cols, new.rank, new.row, new.col, rows, cols);
    s = agree(comm, s);
    if (s != STATUS_OK)
        grid_close(g);
    return s;
}

void grid_close(struct grid *g)
{
    if (g->context >= 0)
        Cblacs_gridexit(g->context);
    Cfree_blacs_system_handle(g->handle);
    MPI_Comm_free(&g->comm);
    g->context = g->row = g->col = -1;
}

int grid_member(const struct grid *g) { return g->context >= 0; }
