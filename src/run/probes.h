/* probes.h: the probes that a job asks for, at the steps it asks for. */
#ifndef INVAR_RUN_PROBES_H
#define INVAR_RUN_PROBES_H

#include "base/status.h"
#include "run/training.h"

/* Whether the probe keys fit the model and the training.   fails: STATUS_JOB */
enum status probes_check(const struct training *t);
/* Whether the job wants a look now (t->over says whether this is the end). */
bool probes_due(const struct training *t);
/* Looks, and appends what was seen to t->record.   fails: STATUS_NUMERIC */
enum status probes_look(struct training *t);

#endif
