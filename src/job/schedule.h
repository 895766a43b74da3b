/* schedule.h: what should worker w do next? The coordinator's decisions, pure: no MPI, no clock, no files.
 *
 * The shell (mpi/coordinator.c) tells what happened and when; this says what to do. Every open tile is handed to one
 * worker at a time, longest first. A tile whose worker is lost is handed out again; one that was in training on
 * SCHEDULE_STRIKES lost workers is quarantined.
 *
 * A worker may hold two tiles: the one it trains, which is the one it got first, and the next one, fetched ahead (which is
 * not to blame when the worker is lost). Only short tiles are fetched ahead, and none once fewer are open than there are
 * workers: a tile that waits for its worker to end a long one is kept from an idle worker, and for a long tile the time
 * of one message does not matter. A worker that is told to wait asks again when its tile has ended.
 *
 * Tested by simulation with thousands of workers, failures and lost messages.
 */
#ifndef INVAR_JOB_SCHEDULE_H
#define INVAR_JOB_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>

#define SCHEDULE_STRIKES 3

struct schedule;

/* `tiles` open tiles, in the order in which they should be handed out, with estimated seconds[tiles].
 * `workers` >= 1. The caller frees with schedule_free. */
struct schedule *schedule_new(size_t tiles, const double *seconds, int workers);
void schedule_free(struct schedule *s);

enum schedule_answer {
    SCHEDULE_TRAIN,      /* train tile *tile */
    SCHEDULE_WAIT,       /* nothing now: tiles may come back from lost workers */
    SCHEDULE_FINISHED    /* nothing ever again: all tiles finished, failed or quarantined, or schedule_stop was called */
};

/* Longer tiles (by estimate) are not fetched ahead. */
#define SCHEDULE_AHEAD_SECONDS 10.0

/* A tile that is stopped after this many seconds has made progress worth its checkpoint: little, since otherwise a job
 * whose launches are all shorter would never go on. */
#define SCHEDULE_USEFUL_SECONDS 2.0

/* Worker `worker` (0..workers-1) asks for work. `seconds_left` until the time limit (INFINITY: none): tiles that end
 * before it come first, then any tile while at least SCHEDULE_USEFUL_SECONDS are left, then none. A worker that holds
 * two tiles waits. A worker that was lost and asks again is alive. */
enum schedule_answer schedule_next(struct schedule *s, int worker, double seconds_left, size_t *tile);

/* The worker says which tiles it holds (n <= 2 of them, the one in training first). Tiles that were handed to it but
 * are not among them never arrived: they are open again, without a strike. Open tiles among them are its own again.
 * For transports that may lose an answer; with MPI, which does not, it need not be called. */
void schedule_holds(struct schedule *s, int worker, const size_t *tile, int n);

/* What happened. Late and double reports are harmless: a finished tile is finished whoever reports it and whatever was
 * thought of it before; a failure counts unless another worker has the tile by now. */
void schedule_finished(struct schedule *s, int worker, size_t tile);
void schedule_failed(struct schedule *s, int worker, size_t tile);      /* the worker lives, the tile could not be done */
void schedule_returned(struct schedule *s, int worker, size_t tile);    /* checkpointed and given back unfinished */
void schedule_lost(struct schedule *s, int worker);                     /* the worker died: its tiles are open again */
void schedule_stop(struct schedule *s);                                 /* hand out nothing more */

struct schedule_counts {
    size_t open, running, finished, failed, quarantined;
};
struct schedule_counts schedule_count(const struct schedule *s);
/* Who trains the tile; -1: nobody.  Whether it is finished. */
int schedule_holder(const struct schedule *s, size_t tile);
bool schedule_is_finished(const struct schedule *s, size_t tile);
/* Strikes of a tile from earlier launches, or after it has gained something; SCHEDULE_STRIKES of them quarantine it. */
void schedule_strikes_set(struct schedule *s, size_t tile, int strikes);
/* Times tile was lost with its worker, and whether it is quarantined. */
int schedule_strikes(const struct schedule *s, size_t tile);
bool schedule_quarantined(const struct schedule *s, size_t tile);

#endif
