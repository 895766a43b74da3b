/* group.h: runs of manifold models trained side by side, one a lane of a straight-line program (model/manifold_tape.h).
 *
 * A run has the same bits alone and in any company: lanes do not see each other. Gradient descent takes all patterns of the task
 * at every step, so there is nothing to draw, and a run takes so little time that it is never checkpointed: when it is stopped
 * it begins anew.
 *
 * The curves have a point at the start, every train.eval_every steps and at the end; 0: at the start and the end alone.
 * train.target_loss is looked at with every point, and where eval_every is 0 every 100 steps.
 */
#ifndef INVAR_RUN_GROUP_H
#define INVAR_RUN_GROUP_H

#include "base/status.h"
#include "job/keys.h"
#include "run/train.h"
#include "store/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a run is trained this way: depends on its keys alone. */
bool group_fits(const struct spec *s);

/* Keeps the program of the last structure, since neighbouring runs share it. */
struct group;
struct group *group_new(void);
void group_free(struct group *g);

struct group_run {
    const struct spec *spec;
    uint64_t seed;
    struct record *record;
    enum { GROUP_OPEN, GROUP_DONE, GROUP_FAILED } state;     /* DONE: *record is filled (record_clear) */
};

/* Trains the runs that are OPEN. Those whose structure has no program become FAILED (status_text() of the last one). `finished`
 * may be NULL; control->should_stop is asked several times a second, the rest of control is not used.
 * out: *end TRAIN_STOPPED when should_stop said so: some runs are still OPEN
 * fails: STATUS_ENVIRONMENT (no kernels for this processor) */
enum status group_train(struct group *g, struct group_run *run, size_t n, const struct train_control *control,
                        void (*finished)(void *context, size_t i), enum train_end *end);

#endif
