/* strikes.h: which tiles were in training when their rank died, over all launches.
 *
 *     DIR/training/TILE.LAUNCH.RANK     exists while that rank trains the tile: who, which run, the signal of a crash
 *     DIR/strikes/TILE.N                the same of a rank that died (N = 1, 2, ..), with why and the log's last lines
 *
 * A mark whose launch holds no lease any more is a strike: the next launch finds it. What a tile has gained since (a
 * finished run, a checkpoint) takes its strikes back, so that a tile which is merely killed often is not blamed; a tile with
 * SCHEDULE_STRIKES strikes is quarantined.
 */
#ifndef INVAR_STORE_STRIKES_H
#define INVAR_STORE_STRIKES_H

#include "store/store.h"

/* This process (rank `rank`) begins to train the tile. One tile at a time. A mark that cannot be written is only missed when
 * the rank dies: nothing fails. */
void strikes_begin(struct store *s, const char *tile_id, int rank);
/* Which run of it is being trained. */
void strikes_run(const char *run_id);
/* It has gained something durable. */
void strikes_clear(struct store *s, const char *tile_id);
/* This process leaves the tile in order. */
void strikes_end(struct store *s, const char *tile_id, int rank);
/* Notes a signal that ends this process; for a signal handler. */
void strikes_signal(int number);

/* The rank of this launch that trained the tile is lost, and why. By the owner of the store. */
void strikes_lost(struct store *s, const char *tile_id, int rank, const char *why);
/* Makes strikes of the marks that dead launches left; store_open does it. */
void strikes_sweep(struct store *s);
/* Calls `each` with the id of every tile that has strikes, once a strike; it may clear them. */
void strikes_each(struct store *s, void (*each)(void *context, const char *tile_id), void *context);
/* Removes the folders where they are empty. */
void strikes_tidy(struct store *s);

/* Strikes of the tile. */
int strikes_count(const char *dir, const char *tile_id);
/* What strike n (1..) says, lines; NULL when there is none; memory_free. */
char *strikes_text(const char *dir, const char *tile_id, int n);

#endif
