#include "job/outcome.h"

static const char *const names[OUTCOME_COUNT] = {
#define OUTCOME(name, number, meaning) [number] = #name,
    OUTCOME_TABLE(OUTCOME)
#undef OUTCOME
};

const char *outcome_name(enum outcome o) { return o >= 0 && o < OUTCOME_COUNT ? names[o] : "?"; }

static const enum outcome by_severity[OUTCOME_COUNT] = {OUTCOME_DONE, OUTCOME_UNFINISHED, OUTCOME_DIVERGED,
                                                        OUTCOME_FAILED};

int outcome_most(const size_t *count, size_t *often)
{
    int most = -1;
    *often = 0;
    for (int i = 0; i < OUTCOME_COUNT; i++)
        if (count[by_severity[i]] > 0 && count[by_severity[i]] >= *often) {
            most = by_severity[i];
            *often = count[most];
        }
    return most;
}
