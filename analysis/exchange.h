/* exchange.h: the two ways in which the ranks of the gather stage swap data.
 *
 * Counts are 64 bits wide; MPI's are int, so long messages go in pieces of at most exchange_cap bytes.
 */
#ifndef INVAR_ANALYSIS_EXCHANGE_H
#define INVAR_ANALYSIS_EXCHANGE_H

#include <mpi.h>
#include <stddef.h>

/* Largest piece of a message in bytes, at least 8 (default 1 GiB). Tests lower it to reach the path of long messages.
 * Must be the same on all ranks. */
void exchange_cap(size_t bytes);

/* Every rank sends send_count[q] doubles to rank q and receives receive_count[q] from it; the parts lie one after the
 * other in rank order. Both sides know the counts.   collective over comm */
void exchange_all(MPI_Comm comm, const double *send, const size_t *send_count, double *receive,
                  const size_t *receive_count);

/* One array, of which each byte was filled by at most one rank and is zero on the others, becomes whole on all ranks.
 * Bits are ored, not added: -0.0 and NaN come through as they are, whatever the number of ranks.
 * collective over comm (bytes equal on all ranks) */
void exchange_share(MPI_Comm comm, void *array, size_t bytes);

#endif
