/* verbs.h: what the program does for each verb. */
#ifndef INVAR_MPI_VERBS_H
#define INVAR_MPI_VERBS_H

#include "base/status.h"
#include "job/job.h"
#include "mpi/launch.h"
#include "mpi/options.h"
#include "mpi/world.h"
#include "store/store.h"

/* One call of the program, on one rank. */
struct session {
    const struct options *options;
    struct world *world;             /* NULL for verbs without MPI: those run on one rank only */
    double started;                  /* clock (CLOCK_MONOTONIC) at the start of the program */
    struct job *job;
    char *dir;                       /* the output folder */
    struct store *store;             /* rank 0: locked, others: joined */
    struct launch_result trained;    /* rank 0, after the training stage */
};

/* With MPI: collective over world->comm; the status is the same on all ranks. Everything durable is on disk when they
 * return. */
enum status verbs_train(struct session *s);
enum status verbs_gather(struct session *s);
enum status verbs_run(struct session *s);
/* What `run` still has to do when MPI has ended, on rank 0: report and claims. */
enum status verbs_run_after(struct session *s);

/* Trains finished runs anew and compares (verb_verify.c).   fails: STATUS_RUNS_FAILED when one differs */
enum status verbs_verify(struct session *s);
/* Known-answer checks (doctor.h): first those of all ranks; afterwards, on rank 0 and without MPI, those of the folder.
 * fails: STATUS_ENVIRONMENT when a check says WRONG */
enum status verbs_doctor(struct session *s);
enum status verbs_doctor_after(struct session *s);

enum status verbs_plan(struct session *s);
enum status verbs_report(struct session *s);
enum status verbs_status(struct session *s);
enum status verbs_bench(struct session *s);
enum status verbs_format(struct session *s);
enum status verbs_version(struct session *s);
enum status verbs_help(struct session *s);

/* Frees what the verbs have opened; releases the lock. */
void verbs_close(struct session *s);

/* ---- shared by the verbs ---- */

/* Reads the job file of the command line with its --set, and names the output folder. One rank only.
 * out: s->job, s->dir */
enum status verbs_read_job(struct session *s);
/* Opens the output folder of the command line to read; a file in its place gets a fitting complaint. One rank only.
 * out: s->job, s->dir, s->store */
enum status verbs_read_folder(struct session *s);
/* The other ranks get the effective job and the folder from rank 0, and join its store.
 * collective   out, on ranks above 0: s->job, s->dir, s->store */
enum status verbs_join(struct session *s);

#endif
