/* job.h: a job file, read, checked and expanded into runs.
 *
 * A job is a task, a model, training, probes and a gather stage, with axes (keys that take several values) and
 * seeds. The runs are the product of the axes, in the order in which the job file names them (the last axis
 * varies fastest), times the seeds, which vary slowest: adding seeds appends runs and leaves the others in place.
 * The runs of a refined map (refine.h) come level by level instead.
 */
#ifndef INVAR_JOB_JOB_H
#define INVAR_JOB_JOB_H

#include "base/hash.h"
#include "base/status.h"
#include "job/claim.h"
#include "job/keys.h"

#include <stddef.h>

#define JOB_AXES_MAX 8

struct axis {
    const struct key *key;   /* of the tables, or a number of a NAMED key, which the axis owns (key->of) */
    int count;
    double *value;        /* count numbers; a choice is its index, a bool 0 or 1 */
    bool log_scale;       /* asked for as {from, to, points, scale: log} */
};

struct job {
    char *path;           /* of the job file, for messages */
    char *name;
    struct spec spec;     /* the values that no axis changes */
    int axes;
    struct axis axis[JOB_AXES_MAX];
    int seeds;
    uint64_t *seed;
    int claims;
    struct claim *claim;
    struct refine_order *order;      /* of the grid's points, where the map is refined (refine.h); else NULL */
};

/* Reads a job file and the overrides "key=value" (n of them; they count as written in the file, after it).
 * Every fault of the file is reported at once, one line each: "file:line:column: message".
 * out: *job, to be freed with job_free; untouched on failure.   fails: STATUS_JOB, STATUS_IO */
enum status job_read(const char *path, const char *const *overrides, int n, struct job **job);
/* The same from text in memory; `path` only for messages. */
enum status job_parse(const char *text, const char *path, const char *const *overrides, int n, struct job **job);
void job_free(struct job *job);

/* The effective job as YAML: every key with its value, axes, seeds, claims. Reading it gives the same job.
 * The caller frees the text with memory_free. */
char *job_print(const struct job *job);

/* Number of runs, and the parts of run r: its axis positions position[0..axes) and the number of its seed. */
size_t job_runs(const struct job *job);
void job_locate(const struct job *job, size_t run, int *position, int *seed_index);
/* The run's keys with the axes put in, and its seed. */
void job_run(const struct job *job, size_t run, struct spec *spec, uint64_t *seed);

/* A run's id: the hash of its canonical text, as 32 hexadecimal digits. A run is known by this id everywhere. The text names
 * every key that is part of a run and has another value than its default, and the seed, in the order of the tables. So a key
 * that is added to them later leaves the ids of earlier runs as they are, as long as its default means what was done before;
 * a new default is another run, and must come with a key of another name. */
void job_run_id(const struct spec *spec, uint64_t seed, char id[HASH_TEXT]);
/* The same for run r of the job. */
void job_id_of(const struct job *job, size_t run, char id[HASH_TEXT]);
/* And for many of its runs, some ten times faster. The job must outlive it. */
struct job_ids;
struct job_ids *job_ids_new(const struct job *job);
void job_ids_of(struct job_ids *ids, size_t run, char id[HASH_TEXT]);
void job_ids_free(struct job_ids *ids);

/* The reference of all keys as Markdown, for jobs/FORMAT.md; the caller frees it. */
char *job_format_reference(void);

#endif
