/* progress.h: what a launch shows while it trains, and what it leaves for `invar status`.
 *
 * On a terminal one line with a bar; else a plain line at the start, every 30 s and at the end. Every few seconds the
 * same figures go to DIR/progress.json, replaced as a whole:
 *
 *     {"runs_per_second": 0.25, "seconds_left": 120, "quarantined": 0, "tiles": ["<tile id>", ...], "exit_code": 0}
 *
 * exit_code stands there when the launch has ended by itself.
 * tiles are those being trained. The file is a hint, not a ledger: it means something only while the launch holds the lock
 * of the folder (its rate outlives it). Part K of N has progress.K-of-N.json.
 */
#ifndef INVAR_MPI_PROGRESS_H
#define INVAR_MPI_PROGRESS_H

#include "base/text.h"
#include "job/outcome.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>

struct progress;

struct progress_setup {
    const char *dir;         /* of the store; NULL: no file is written */
    int part, parts;         /* of the job, whose file is progress.K-of-N.json; 0, 0: a whole launch */
    const struct store *store;   /* the file is written while the folder is still this launch's; NULL: always */
    bool quiet;              /* nothing is shown */
    size_t runs;             /* of the job; of a part: those there, and its own missing ones */
    size_t outcome[OUTCOME_COUNT];    /* runs that the store holds, by outcome */
    double seconds;          /* estimated work of all others: only ratios matter */
};

struct progress *progress_new(const struct progress_setup *setup);
/* Says the last line and writes the file a last time. */
void progress_free(struct progress *p);

/* Adds the exit code of the launch to its file: {..., "exit_code": 0}. */
void progress_exit(const char *dir, int part, int parts, int code);

/* A run ended; it was `seconds` of the estimated work. `restored`: by an earlier launch. */
void progress_run(struct progress *p, enum outcome outcome, double seconds, bool restored);

/* Adds `n` ended runs (or takes -n back) that were counted wrongly, since two ranks had their tile. */
void progress_correct(struct progress *p, enum outcome outcome, int n, double seconds);

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
    int launches;            /* that are at work in the folder now: one, or several parts */
    double runs_per_second, seconds_left;     /* of these together, or of all that ever were; NAN when unknown */
    size_t quarantined;
    char *ids;               /* ids of the tiles that they train, one after the other; memory_free */
};
/* All files of the folder in one. Only launches that hold their lease train tiles.
 * fails (returns false): there is none, or it is not ours */
bool progress_read(const char *dir, struct progress_file *out);

/* "0:07", "12:00", "3:05:00", "2d 03:05:00"; "?" for what is not finite. */
void progress_add_time(struct text *t, double seconds);

#endif
