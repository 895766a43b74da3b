/* liveness.h: which worker has given no sign of life for too long? Pure: the caller brings the clock.
 *
 * Silence is measured in time during which the watcher itself was awake: when all processes of a machine were stopped for an
 * hour (a suspended job, a laptop that slept), nobody is lost.
 */
#ifndef INVAR_JOB_LIVENESS_H
#define INVAR_JOB_LIVENESS_H

#include <stdbool.h>

struct liveness;

/* `seconds` of silence are too long. All workers were heard at the first liveness_awake. */
struct liveness *liveness_new(int workers, double seconds);
void liveness_free(struct liveness *l);

/* To be called often: of the time between two calls at most an eighth of the allowed silence counts.
 * now: any clock that does not go backwards */
void liveness_awake(struct liveness *l, double now);
void liveness_heard(struct liveness *l, int worker);
bool liveness_silent(const struct liveness *l, int worker);

#endif
