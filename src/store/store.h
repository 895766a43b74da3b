/* store.h: the output folder of a job. The directory is the ledger; there is no other.
 *
 *     DIR/job.yaml          the effective job of the last launch
 *     DIR/tiles/ID.nc       finished tiles, published whole
 *     DIR/checkpoints/ID.ck unfinished tiles
 *     DIR/log.txt           what happened
 *     DIR/lock              held while a launch trains or gathers
 *     DIR/runs.nc, cross_run.nc, phase_map.nc, report.html, figures/     from gather and report
 */
#ifndef INVAR_STORE_STORE_H
#define INVAR_STORE_STORE_H

#include "base/status.h"
#include "job/job.h"
#include "job/plan.h"
#include "store/record.h"

struct store;

/* Opens or makes the folder for this job and takes the lock.
 * fails: STATUS_LOCKED (text: host, process, since when), STATUS_JOB when the folder holds runs that this job lacks
 * (text: which keys differ and what to do), STATUS_IO */
enum status store_open(const char *dir, const struct job *job, struct store **store);
/* Opens an existing folder to read: no lock, nothing is written; *job is the effective job found there (job_free). */
enum status store_open_read(const char *dir, struct store **store, struct job **job);
void store_close(struct store *s);           /* releases the lock */
const char *store_dir(const struct store *s);

/* Workers of other ranks get the folder without the lock. The folder must exist. */
enum status store_join(const char *dir, const struct job *job, struct store **store);

/* ---- finished runs ---- */

/* What the tiles hold, by job run: done[run] = outcome or -1. Files that are damaged, cut short or of another version
 * are moved aside to DIR/damaged/ (in read mode only listed) and their runs count as missing.
 * out: outcome[job_runs(job)]; *damaged the number of such files */
enum status store_scan(struct store *s, const struct job *job, int *outcome, int *damaged);

/* Publishes a finished tile: temporary name, checksum, fsync, rename, fsync of the folder.
 * fails: STATUS_IO (disk full, quota, ...): nothing is changed */
enum status store_put_tile(struct store *s, const struct job *job, const struct plan_tile *tile,
                           const struct record *records, int count);

/* Calls `each` for every finished run of the job in job order, with its record (weights and probe data included;
 * freed afterwards); stops at the first status that is not OK and returns it. */
typedef enum status store_each(void *context, size_t run, const struct record *r);
enum status store_read(struct store *s, const struct job *job, store_each *each, void *context);
/* One run's record; STATUS_IO when it is not there. The caller clears it. */
enum status store_read_run(struct store *s, const struct job *job, size_t run, struct record *r);

/* ---- checkpoints: opaque bytes under a tile's id ---- */

enum status store_put_checkpoint(struct store *s, const char *tile_id, const void *bytes, size_t n);
/* out: *bytes (memory_free) and *n; *bytes NULL when there is none or it is damaged (said in the log, moved aside). */
enum status store_get_checkpoint(struct store *s, const char *tile_id, void **bytes, size_t *n);
void store_drop_checkpoint(struct store *s, const char *tile_id);

/* ---- any other file, published whole ---- */

/* A temporary path beside `name` in the folder, unique to this launch; freed by the caller. */
char *store_temporary(struct store *s, const char *name);
/* fsync, rename to DIR/name, fsync of the folder. On failure the temporary file is removed. */
enum status store_publish(struct store *s, const char *temporary, const char *name);

#endif
