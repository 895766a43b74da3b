/* ensemble.h: the runs of a job that are compared with each other, and this rank's share of their data.
 *
 * Runs can be compared when they are DONE, kept the core coordinates of their last probe, contain finite numbers only,
 * and were probed on the same inputs. What the others lack is listed, not hidden. The data of a run are on one rank,
 * its owner; runs are dealt over the ranks in turn. Which rank that is changes no result.
 */
#ifndef INVAR_ANALYSIS_ENSEMBLE_H
#define INVAR_ANALYSIS_ENSEMBLE_H

#include "base/hash.h"
#include "job/job.h"
#include "store/store.h"

#include <mpi.h>

/* EXCLUSION(name, word in the file, what the log says); the order is that of the file's flag values */
#define EXCLUSION_TABLE(EXCLUSION) \
    EXCLUSION(NONE, "included", "compared") \
    EXCLUSION(MISSING, "missing", "not in the store") \
    EXCLUSION(DIVERGED, "diverged", "DIVERGED") \
    EXCLUSION(UNFINISHED, "unfinished", "UNFINISHED") \
    EXCLUSION(FAILED, "failed", "FAILED") \
    EXCLUSION(NO_COORDINATES, "no_coordinates", "no core coordinates were kept: probe.ace.layer, probe.ace.store") \
    EXCLUSION(NOT_FINITE, "not_finite", "its coordinates or weights are not all finite") \
    EXCLUSION(NO_VARIANCE, "no_variance", "its core coordinates do not vary") \
    EXCLUSION(OTHER_INPUTS, "other_inputs", "probed on other inputs than the first run: other task keys")

enum exclusion {
#define EXCLUSION(name, word, text) EXCLUDED_##name,
    EXCLUSION_TABLE(EXCLUSION)
#undef EXCLUSION
    EXCLUSION_COUNT
};

/* What all ranks know of a run. */
struct member {
    size_t run;              /* its number in the job */
    uint64_t seed;
    int owner;               /* rank that has its data */
    int columns;             /* r: core coordinates per input */
    int width;               /* d of the probed layer */
    int64_t samples;         /* N: probe inputs */
    int64_t parameters;      /* weights */
    struct hash layout;      /* of names and shapes of its tensors */
    double noise;            /* singular values of the centred coordinates below this are rounding */
};

struct ensemble {
    MPI_Comm comm;           /* not owned */
    int rank, size;
    size_t job_runs;
    int32_t *exclusion;      /* [job_runs] enum exclusion */
    int runs;                /* K, those compared, in job order */
    struct member *member;   /* [runs] */
    int64_t samples;         /* N, of all of them */
    double **coordinates;    /* [runs] centred [columns][samples] on the owner, else NULL */
    double **weights;        /* [runs] [parameters] on the owner, else NULL */
    double **basis;          /* [runs] core basis Q [width][columns], on all ranks */
};

/* Reads them. `store` as for gather.   collective over comm   out: *e, ensemble_clear
 * fails: STATUS_IO, ...; on all ranks alike */
enum status ensemble_read(MPI_Comm comm, struct store *store, const struct job *job, struct ensemble *e);
void ensemble_clear(struct ensemble *e);

/* "not_finite" */
const char *ensemble_word(enum exclusion why);
/* Names the runs that are left out, and why, in the log. One rank. */
void ensemble_log(const struct ensemble *e);

#endif
