/* schedule.h: what should worker w do next? The coordinator's decisions, pure: no MPI, no clock, no files.
 *
 * The shell (mpi/coordinator.c) tells what happened and when; this says what to do. Every open tile is handed to one
 * worker at a time, longest first. A worker may hold two tiles: the one it trains and the next one, fetched ahead.
 * A tile whose worker is lost is handed out again; one that has lost its worker SCHEDULE_STRIKES times is quarantined.
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

/* Worker `worker` (0..workers-1) asks for work. `seconds_left` until the time limit (INFINITY: none): a tile that
 * cannot end or be checkpointed before is not started. */
enum schedule_answer schedule_next(struct schedule *s, int worker, double seconds_left, size_t *tile);

/* What happened. A late report of a tile that was handed on is accepted once and otherwise ignored. */
void schedule_finished(struct schedule *s, int worker, size_t tile);
void schedule_failed(struct schedule *s, int worker, size_t tile);      /* the worker lives, the tile could not be done */
void schedule_returned(struct schedule *s, int worker, size_t tile);    /* checkpointed and given back unfinished */
void schedule_lost(struct schedule *s, int worker);                     /* the worker died: its tiles are open again */
void schedule_stop(struct schedule *s);                                 /* hand out nothing more */

struct schedule_counts {
    size_t open, running, finished, failed, quarantined;
};
struct schedule_counts schedule_count(const struct schedule *s);
/* Times tile was lost with its worker, and whether it is quarantined. */
int schedule_strikes(const struct schedule *s, size_t tile);
bool schedule_quarantined(const struct schedule *s, size_t tile);

#endif
