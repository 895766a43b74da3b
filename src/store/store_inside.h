/* store_inside.h: what store.c, ledger.c, checkpoint.c and change.c share; for them alone. */
#ifndef INVAR_STORE_STORE_INSIDE_H
#define INVAR_STORE_STORE_INSIDE_H

#include "base/hash.h"
#include "store/store.h"

/* One finished run in the folder. */
struct ledger_run {
    char id[HASH_TEXT];
    enum outcome outcome;
    size_t file;                 /* number of its tile in ledger.file */
    int row;                     /* and its place there */
};

/* What the tiles hold, sorted by run id, each run once: where two tiles hold a run, one in which it
 * did not fail counts, then the first by name. */
struct ledger {
    size_t files, runs;
    char **file;                 /* paths, sorted */
    struct ledger_run *run;
    int damaged;
};

struct store {
    char *dir;
    enum store_role { STORE_OWNER, STORE_WORKER, STORE_READER } role;     /* only the owner holds the lock */
    struct lease *lease;         /* of the owner */
    struct store_ticket ticket;
    struct plan *plan;           /* the tiles whose names are known: the owner's job's; of others when they miss a run */
    struct ledger ledger;        /* of the last look at the folder */
    int looked;                  /* there was one */
    int fresh;                   /* it was store_open's, and nobody has used it yet */
};

/* Makes DIR/name again if somebody has removed it.   fails: STATUS_IO */
enum status store_mend_folder(const struct store *s, const char *name);

/* Whether this launch may still publish; see struct store_ticket.   fails: STATUS_LOCKED */
enum status store_may_write(const struct store *s);

/* Reads every tile of the folder, verifying each. The owner moves damaged ones aside, others only name them in the log.
 * fails: STATUS_IO, STATUS_VERSION (a tile of another format version; text: which); the old ledger is then kept */
enum status ledger_read(struct store *s);
void ledger_clear(struct ledger *l);
const struct ledger_run *ledger_find(const struct ledger *l, const char *id);

/* Whether every run of the ledger is a run of `job`.   fails: STATUS_JOB (text: which keys differ, and what to do) */
enum status change_check(const struct store *s, const struct job *job);

#endif
