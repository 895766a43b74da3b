#include "job/outcome.h"

static const char *const names[OUTCOME_COUNT] = {
#define OUTCOME(name, number, meaning) [number] = #name,
    OUTCOME_TABLE(OUTCOME)
#undef OUTCOME
};

const char *outcome_name(enum outcome o) { return o >= 0 && o < OUTCOME_COUNT ? names[o] : "?"; }
