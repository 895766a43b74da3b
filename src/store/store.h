/* store.h: the output folder of a job. The directory is the ledger; there is no other.
 *
 *     DIR/job.yaml          the effective job of the last launch
 *     DIR/tiles/ID.nc       finished tiles, published whole
 *     DIR/checkpoints/ID.ck unfinished tiles
 *     DIR/training/, DIR/strikes/   what is being trained, and what was when a rank died (strikes.h)
 *     DIR/damaged/          files that were cut short or changed, moved there
 *     DIR/log.txt           what happened; log.K-of-N.txt in part K
 *     DIR/lock              held while a launch trains or gathers; lock.K-of-N by part K of a job (lease.h)
 *     DIR/runs.nc, cross_run.nc, phase_map.nc, report.html, figures/     from gather and report
 */
#ifndef INVAR_STORE_STORE_H
#define INVAR_STORE_STORE_H

#include "base/status.h"
#include "job/job.h"
#include "job/plan.h"
#include "store/lease.h"
#include "store/record.h"

#include <stdbool.h>

struct store;

/* Opens or makes the folder for this job, takes the lock, and lets the log go to DIR/log.txt, too.
 * fails: STATUS_LOCKED (text: host, process, since when), STATUS_JOB when the folder holds runs that this job lacks
 * (text: which keys differ and what to do), STATUS_VERSION, STATUS_IO */
enum status store_open(const char *dir, const struct job *job, struct store **store);
/* The same with the terms of the lease: as a part of the job, waiting for a living holder, another lease time. */
enum status store_open_terms(const char *dir, const struct job *job, const struct lease_terms *terms, struct store **store);
/* Opens an existing folder to read: no lock, nothing is written; *job is the effective job found there (job_free). */
enum status store_open_read(const char *dir, struct store **store, struct job **job);
/* The same for a job that is given: *store is NULL where there is no such folder yet, or none of this program.
 * fails: STATUS_JOB, STATUS_VERSION, STATUS_IO, as store_open would */
enum status store_look(const char *dir, const struct job *job, struct store **store);
void store_close(struct store *s);           /* releases the lock */
const char *store_dir(const struct store *s);

/* Workers of other ranks get the folder without the lock. The folder must exist. */
enum status store_join(const char *dir, const struct job *job, struct store **store);
/* By what the ranks of a launch know that the folder is still theirs. Rank 0 tells the others, which adopt it after
 * store_join; all publish only while it holds: store_put_tile, store_put_checkpoint and store_publish then fail with
 * STATUS_LOCKED. */
struct store_ticket {
    int part, parts;
    char id[LEASE_ID_TEXT];          /* "": publishes without asking */
};
struct store_ticket store_ticket(const struct store *s);
void store_adopt(struct store *s, const struct store_ticket *t);
/* Whether another launch has taken the folder over, as the thread that renews the lease has seen it: cheap, of the owner only. */
bool store_is_lost(const struct store *s);
/* The same by a look at the lease file, now. */
bool store_is_own(const struct store *s);

/* ---- finished runs ---- */

/* What the tiles hold, by job run: outcome[run], or -1. Where two tiles hold a run, one in which it
 * did not fail counts, then the first by name. Files that are damaged or cut short are moved to DIR/damaged/ by the holder
 * of the lock, and only named in the log by others; their runs count as missing. Every file is read and verified.
 * out: outcome[job_runs(job)]; *damaged the number of such files
 * fails: STATUS_IO; STATUS_VERSION when a tile has a format version that this program does not know: it may hold hours
 * of work, so it is neither trained anew nor moved (text: which file and what to do) */
enum status store_scan(struct store *s, const struct job *job, int *outcome, int *damaged);

/* Publishes a finished tile: temporary name, checksum, fsync, rename, fsync of the folder. A tile file of the same
 * name is replaced when all its runs are among the records; otherwise the new one gets a free name beside it.
 * fails: STATUS_IO (disk full, quota, ...): nothing is changed */
enum status store_put_tile(struct store *s, const struct job *job, const struct plan_tile *tile,
                           const struct record *records, int count);

/* After a failure of store_put_tile: whether its cause may pass by itself (no room, a file server that does not answer), so
 * that trying again is worth it. */
bool store_may_pass(void);

/* Tile files that were there at the last look and are gone: somebody removes files. */
size_t store_vanished(const struct store *s);

/* Whether a file of that tile's name is there now; it is not read. */
bool store_has_tile(const struct store *s, const char *tile_id);
/* What the file of that name holds of a run: its outcome, or -1. */
int store_tile_outcome(const struct store *s, const char *tile_id, const char *run_id);

/* Calls `each` for every finished run of the job in job order, with its record (weights and probe data included;
 * freed afterwards); stops at the first status that is not OK and returns it. */
typedef enum status store_each(void *context, size_t run, const struct record *r);
enum status store_read(struct store *s, const struct job *job, store_each *each, void *context);
/* One run's record; STATUS_IO when it is not there. The caller clears it. */
enum status store_read_run(struct store *s, const struct job *job, size_t run, struct record *r);

/* What made a finished run: attributes of its tile. store_origin_clear frees the inside. */
struct store_origin {
    char *revision, *libraries, *instruction_set, *subnormals;
};
/* fails: STATUS_IO when the run is not there */
enum status store_read_origin(struct store *s, const struct job *job, size_t run, struct store_origin *o);
void store_origin_clear(struct store_origin *o);

/* ---- checkpoints: opaque bytes under a tile's id ---- */

enum status store_put_checkpoint(struct store *s, const char *tile_id, const void *bytes, size_t n);
/* out: *bytes (memory_free) and *n; *bytes NULL when there is none or it is damaged (said in the log, moved aside). */
enum status store_get_checkpoint(struct store *s, const char *tile_id, void **bytes, size_t *n);
void store_drop_checkpoint(struct store *s, const char *tile_id);
/* Calls `each` with the tile's id of every checkpoint there is; it may drop it. */
void store_each_checkpoint(struct store *s, void (*each)(void *context, const char *tile_id), void *context);

/* ---- any other file, published whole ---- */

/* A temporary path beside `name` in the folder ("runs.nc", "figures/loss.svg": the subfolder is made), unique to this
 * launch; freed by the caller with memory_free. What a dead launch leaves behind is removed by the next store_open. */
char *store_temporary(struct store *s, const char *name);
/* fsync, rename to DIR/name, fsync of the folder. On failure the temporary file is removed. */
enum status store_publish(struct store *s, const char *temporary, const char *name);

#endif
