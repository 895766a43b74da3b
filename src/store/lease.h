/* lease.h: who may write into an output folder: one launch, or the parts of one job side by side.
 *
 * A lease is a file, DIR/lock for a whole launch and DIR/lock.K-of-N for part K of N. Its holder keeps a record lock of an
 * open file description on it (F_OFD_SETLK), and writes into it
 *
 *     ID COUNTER MACHINE PID\n          a random number of the launch; renewed every few seconds; the running kernel's id
 *     process 123 on n1 since ...: invar train ...\n                                                       for people
 *
 * The kernel drops the lock when the holder dies in whatever way; within one machine its word is final. Between machines it
 * is not: a node may be cut off with its launch still running, or the file system may have no locks. There the counter
 * counts: a holder is dead when a waiter has watched it stand still for the lease time, on the waiter's own monotonic
 * clock. No two clocks are ever compared, so a clock that jumps does no harm. A lease that lapsed is taken over: another
 * id is in the file, or the file is another one. A holder that comes back to life finds that before it publishes anything
 * (lease_check) and ends.
 *
 * A whole launch excludes all parts, a part the whole launch, itself, and the parts of another division.
 */
#ifndef INVAR_STORE_LEASE_H
#define INVAR_STORE_LEASE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define LEASE_SECONDS 30.0           /* the default lease time */
enum { LEASE_ID_TEXT = 17 };         /* 16 hexadecimal digits and the end */

struct lease;

struct lease_terms {
    int part, parts;                 /* part 1..parts; 0, 0: a whole launch */
    double seconds;                  /* the lease time; 0: LEASE_SECONDS */
    double wait;                     /* seconds to wait for a living holder to end */
};

/* Takes the lease on the folder `dir` and keeps it renewed from a thread of its own. Waits the lease time when the holder
 * may be dead and may not, and terms->wait for a living one.
 * out: *lease, released with lease_release
 * fails: STATUS_LOCKED (text: who holds it), STATUS_IO */
enum status lease_take(const char *dir, const struct lease_terms *terms, struct lease **lease);
void lease_release(struct lease *l);

/* The holder's id, LEASE_ID_TEXT - 1 digits; it names the launch. */
const char *lease_id(const struct lease *l);

/* Whether the thread that renews it has found another's id in the file. */
bool lease_lost(const struct lease *l);

/* Whether the lease `id` of `dir` is still the one in the file; for any process of the launch, before it publishes.
 * fails: STATUS_LOCKED (text: who has taken the folder over) */
enum status lease_check(const char *dir, int part, int parts, const char *id);

/* Whether a living launch holds the lease file `path`. Takes nothing and makes no file; takes some seconds where only the
 * counter can tell. */
bool lease_is_held(const char *path);
/* Calls `each` with the name in `dir` of every lease file, its part (0, 0 for the whole) and its id ("" when free). */
typedef void lease_each(void *context, const char *name, int part, int parts, const char *id);
void lease_list(const char *dir, lease_each *each, void *context);

/* "", or ".K-of-N" for part K: the ending of what a part has for itself (lock, log, progress). out: text[32] */
void lease_suffix(char text[32], int part, int parts);

/* ---- the judgement, pure ---- */

/* What a look at a lease file shows. */
struct lease_look {
    bool locked;                     /* somebody holds the record lock */
    bool here;                       /* the holder in the file runs, or ran, under this kernel, which has locks */
    bool stopped;                    /* and it is stopped (SIGSTOP, a suspended job) */
    uint64_t id, counter;            /* id 0: nobody's */
};

/* What a waiter remembers between its looks; starts as zeros. */
struct lease_watch {
    bool looked;
    uint64_t id, counter;
    double last, still;              /* clock at the last look; seconds watched without a move */
};

enum lease_verdict {
    LEASE_FREE,                      /* nobody holds it */
    LEASE_ALIVE,                     /* its holder lives */
    LEASE_UNSURE,                    /* look again */
    LEASE_LAPSED                     /* it stood still for `seconds` */
};

/* To be called several times a second with the waiter's monotonic clock. Of the time between two looks at most a second
 * counts: a waiter that was itself stopped has not watched. */
enum lease_verdict lease_judge(struct lease_watch *w, const struct lease_look *look, double now, double seconds);

#endif
