/* complaint.h: everything that is wrong with a job, collected, to be said at once.
 *
 * A complaint has a place: the job file (source 0) or the n-th --set (source n, from 1), with line and column there.
 * They are printed in that order, one line each:
 *     x.yaml:7:12: unknown key train.wieght_decay (did you mean "weight_decay"?)
 *     --set train.lr=abc: train.lr: expected a number, got "abc"
 */
#ifndef INVAR_JOB_COMPLAINT_H
#define INVAR_JOB_COMPLAINT_H

#include "base/memory.h"
#include "base/text.h"

struct place {
    int source, line, column;      /* line and column from 1 */
};

struct complaint {
    struct place place;
    char *message;
};

struct complaints {
    struct arena *arena;           /* holds the messages */
    const char *path;              /* of the job file */
    const char *const *overrides;  /* text of each --set */
    int count, capacity;
    struct complaint *list;        /* freed by complaint_clear */
};

void complaint_add(struct complaints *c, struct place where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* All complaints in order, separated by newlines, at most `limit` bytes; a last line counts those that do not fit. */
void complaint_print(struct complaints *c, size_t limit, struct text *out);
void complaint_clear(struct complaints *c);

#endif
