/* evaluate.h: points of the learning curves. */
#ifndef INVAR_RUN_EVALUATE_H
#define INVAR_RUN_EVALUATE_H

#include "run/training.h"

/* Room for evaluation batches; freed with batch_free(&t->view). */
void evaluate_open(struct training *t);
/* Appends a point at the present step: loss and accuracy of both sets, of train.eval_sequences each or, when
 * complete, of all. Where a loss is not finite, it and its accuracy are NaN. */
void evaluate_point(struct training *t, bool complete);
/* Replaces the last point by one over the complete sets. */
void evaluate_complete(struct training *t);
/* Whether the last point looked at all sequences; whether its losses are finite and at most train.diverged_above. */
bool evaluate_was_complete(const struct training *t);
bool evaluate_is_bounded(const struct training *t);

#endif
