/* progress.h: what a launch shows while it trains, and what it leaves for `invar status`.
 *
 * On a terminal one line with a bar; else a plain line at the start, every 30 s and at the end. Every few seconds the
 * same figures go to DIR/progress.json, replaced as a whole:
 *
 *     {"runs_per_second": 0.25, "seconds_left": 120, "quarantined": 0, "tiles": ["<tile id>", ...]}
 *
 * tiles are those being trained. The file is a hint, not a ledger: it means something only while the launch holds the lock
 * of the folder (its rate outlives it).
 */
#ifndef INVAR_MPI_PROGRESS_H
#define INVAR_MPI_PROGRESS_H

#include "base/text.h"
#include "job/outcome.h"

#include <stdbool.h>
#include <stddef.h>

struct progress;

struct progress_setup {
    const char *dir;         /* of the store; NULL: no file is written */
    bool quiet;              /* nothing is shown */
    size_t runs;             /* of the job */
    size_t outcome[OUTCOME_COUNT];    /* runs that the store holds, by outcome */
    double seconds;          /* estimated work of all others: only ratios matter */
};

struct progress *progress_new(const struct progress_setup *setup);
/* Says the last line and writes the file a last time. */
void progress_free(struct progress *p);

/* A run ended; it was `seconds` of the estimated work. `restored`: by an earlier launch. */
void progress_run(struct progress *p, enum outcome outcome, double seconds, bool restored);

/* What is going on now. */
struct progress_now {
    double seconds;          /* estimated work done of runs that are not finished */
    size_t quarantined;      /* runs in quarantined tiles */
    size_t tiles;            /* being trained, with their ids */
    const char *const *id;
};
/* Whether progress_tick would show or write something. */
bool progress_due(const struct progress *p);
void progress_tick(struct progress *p, const struct progress_now *now);

/* ---- the file, read by status ---- */

struct progress_file {
    double runs_per_second, seconds_left;     /* NAN when unknown */
    size_t quarantined;
    char *ids;               /* all tile ids, one after the other; memory_free */
};
/* fails (returns false): there is none, or it is not ours */
bool progress_read(const char *dir, struct progress_file *out);

/* "0:07", "12:00", "3:05:00", "2d 03:05:00"; "?" for what is not finite. */
void progress_add_time(struct text *t, double seconds);

#endif
