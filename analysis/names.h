/* names.h: which names a job's claims may use, known before anything is trained. */
#ifndef INVAR_ANALYSIS_NAMES_H
#define INVAR_ANALYSIS_NAMES_H

#include "base/status.h"
#include "job/job.h"

/* Every name in the job's claims is a variable that gather writes for this job, or a word of a flag.
 * fails: STATUS_JOB, one line per unknown name, with the nearest known one */
enum status names_check(const struct job *job);

/* All variables of runs.nc and cross_run.nc as Markdown, for jobs/FORMAT.md; memory_free. */
char *names_reference(void);

#endif
