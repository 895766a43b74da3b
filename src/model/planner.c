#include "model/planner.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void planner_add(struct planner_count *c, double flops, const char *format, ...)
{
    c->flops += flops;
    if (c->parts == PLANNER_PARTS) {         /* a deep model: what has no room of its own is added up */
        struct planner_part *rest = &c->part[PLANNER_PARTS - 1];
        snprintf(rest->what, sizeof rest->what, "the rest");
        rest->flops += flops;
        return;
    }
    struct planner_part *part = &c->part[c->parts++];
    va_list args;
    va_start(args, format);
    vsnprintf(part->what, sizeof part->what, format, args);
    va_end(args);
    part->flops = flops;
}

struct planner_candidate *planner_candidate(struct planner *p, const char *name, const char *does)
{
    assert(p->candidates < PLANNER_CANDIDATES);
    struct planner_candidate *c = &p->candidate[p->candidates++];
    c->name = name;
    c->does = does;
    return c;
}

int planner_choose(struct planner *p, int dense)
{
    int best = 0;
    for (int i = 1; i < p->candidates && !dense; i++)
        if (!p->candidate[i].invalid[0] && p->candidate[i].count.flops < p->candidate[best].count.flops)
            best = i;
    return p->chosen = best;
}

void planner_print(const struct planner *p, struct text *out)
{
    for (int i = 0; i < p->candidates; i++) {
        const struct planner_candidate *c = &p->candidate[i];
        text_add(out, "  %s %-10s ", i == p->chosen ? "->" : "  ", c->name);
        if (c->invalid[0])
            text_add(out, "%10s  not here: %s\n", "", c->invalid);
        else
            text_add(out, "%7.3f GF  %s\n", c->count.flops / 1e9, c->does);
    }
    const struct planner_count *count = &p->candidate[p->chosen].count;
    for (int i = 0; i < count->parts; i++)
        text_add(out, "     %8.2f MF %5.1f %%  %s\n", count->part[i].flops / 1e6,
                 count->flops > 0 ? 100.0 * count->part[i].flops / count->flops : 0.0, count->part[i].what);
}
