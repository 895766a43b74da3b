/* limits.h: what this machine can give: memory and disk, for plan and for the check before a training. */
#ifndef INVAR_MPI_LIMITS_H
#define INVAR_MPI_LIMITS_H

#include "base/status.h"
#include "job/plan.h"
#include "mpi/world.h"

/* Bytes of memory that programs can still take on this machine, or in its control group when that allows less; 0: unknown. */
double limits_memory(void);
/* The tightest memory limit of the control groups (both versions) named in `groups`, a text like /proc/self/cgroup, and of
 * those above them, below the mount `root` ("/sys/fs/cgroup"); 0: none. */
double limits_group_memory(const char *root, const char *groups);
/* Cores' worth of time that the control group allows; 0: as much as there is. */
double limits_cores(void);
/* Bytes free for us in the file system of `path`, or of the nearest folder above it that exists; 0: unknown. */
double limits_disk(const char *path);

/* Whether all ranks of every machine can train this job at once. A disk that looks too small is only a warning: outputs are
 * estimated uncompressed.
 * collective   fails, on all ranks alike: STATUS_ENVIRONMENT */
enum status limits_check(const struct world *w, const struct plan *plan, const char *dir);

#endif
