#include "analysis/exchange.h"

#include <stdint.h>
#include <string.h>

static size_t cap = (size_t)1 << 30;

void exchange_cap(size_t bytes) { cap = bytes < 8 ? 8 : bytes; }

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Piece number k of what goes to `to` meets piece number k of what comes at the other side, so no rank waits in
 * vain. */
static void swap(MPI_Comm comm, const double *send, size_t sends, int to, double *receive, size_t receives, int from)
{
    size_t piece = cap / sizeof(double);
    for (size_t at = 0; at < sends || at < receives; at += piece) {
        int out = at < sends ? (int)least(piece, sends - at) : 0;
        int in = at < receives ? (int)least(piece, receives - at) : 0;
        MPI_Sendrecv(out ? send + at : NULL, out, MPI_DOUBLE, out ? to : MPI_PROC_NULL, 0, in ? receive + at : NULL, in,
                     MPI_DOUBLE, in ? from : MPI_PROC_NULL, 0, comm, MPI_STATUS_IGNORE);
    }
}

static size_t before(const size_t *count, int q)
{
    size_t sum = 0;
    for (int i = 0; i < q; i++)
        sum += count[i];
    return sum;
}

void exchange_all(MPI_Comm comm, const double *send, const size_t *send_count, double *receive,
                  const size_t *receive_count)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (send_count[rank])
        memcpy(receive + before(receive_count, rank), send + before(send_count, rank),
               send_count[rank] * sizeof(double));
    for (int step = 1; step < size; step++) {
        int to = (rank + step) % size, from = (rank - step + size) % size;
        swap(comm, send + before(send_count, to), send_count[to], to, receive + before(receive_count, from),
             receive_count[from], from);
    }
}

void exchange_share(MPI_Comm comm, void *array, size_t bytes)
{
    size_t words = bytes / 8, piece = cap / 8;
    uint64_t *word = array;
    for (size_t at = 0; at < words; at += piece)
        MPI_Allreduce(MPI_IN_PLACE, word + at, (int)least(piece, words - at), MPI_UINT64_T, MPI_BOR, comm);
    if (bytes % 8)
        MPI_Allreduce(MPI_IN_PLACE, (unsigned char *)array + 8 * words, (int)(bytes % 8), MPI_UNSIGNED_CHAR, MPI_BOR,
                      comm);
}
