/* claims.h: judges the claims of a job by the files that gather wrote. */
#ifndef INVAR_ANALYSIS_CLAIMS_H
#define INVAR_ANALYSIS_CLAIMS_H

#include "base/status.h"
#include "job/job.h"

enum verdict { CLAIM_HOLDS, CLAIM_FAILS, CLAIM_UNKNOWN };     /* UNKNOWN: a variable is not in the files, or has no value */

struct judged {
    const struct claim *claim;
    enum verdict verdict;
    char *measured;          /* "3 .. 3 over 8 runs", "0.9986 .. 0.9999 over 28 pairs", or why it is unknown */
};

/* Reads runs.nc, cross_run.nc and phase_map.nc of the folder.   out: judged[job->claims]; claims_clear frees the inside
 * fails: STATUS_IO when runs.nc is not there */
enum status claims_judge(const char *dir, const struct job *job, struct judged *judged);
void claims_clear(struct judged *judged, int n);
/* The table for a terminal, and how many hold; what each claim says in words is left to the report. memory_free. */
char *claims_print(const struct judged *judged, int n);

#endif
