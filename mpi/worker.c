#include "mpi/worker.h"

#include "base/clock.h"
#include "base/log.h"
#include "mpi/signals.h"

#include <stdio.h>
#include <string.h>

/* A tile is fetched when the current one will end within this time: late enough that a fast rank does not sit on a tile
 * which an idle one could train, early enough for an answer. */
#define FETCH_AHEAD_SECONDS 0.05
#define POLL_SECONDS 0.002           /* between looks at the line while training */
#define PROGRESS_SECONDS 0.5         /* between PROGRESS messages */

enum { NO_TILE = -1 };

struct worker {
    const struct line *line;
    int64_t tile, next;      /* being trained; fetched ahead */
    bool asked;              /* a READY is unanswered */
    bool stop;               /* checkpoint, give back */
    bool leave;              /* DRAINED or STOP has come: nothing more to do */
    bool drop;               /* the current tile is another rank's by now */
    bool orphaned;
    int64_t lost;            /* of GOODBYE; -1 before it */
    int32_t ended[OUTCOME_COUNT];    /* runs of the current tile */
    double began, polled, said;
    char failed[MESSAGE_TEXT];
};

static void send(struct worker *w, enum message_kind kind, int64_t tile)
{
    struct message m = {.kind = kind, .tile = tile};
    if (kind == MESSAGE_FAILED)
        snprintf(m.text, sizeof m.text, "%s", w->failed);
    if (kind == MESSAGE_FINISHED)
        memcpy(m.ended, w->ended, sizeof m.ended);
    w->line->send(w->line->context, &m);
}

static void take(struct worker *w, const struct message *m)
{
    switch ((enum message_kind)m->kind) {
    case MESSAGE_ASSIGN:
        w->next = m->tile;
        w->asked = false;
        break;
    case MESSAGE_DROP:
        w->drop |= m->tile == w->tile;
        break;
    case MESSAGE_GOODBYE:
        w->lost = m->tile;
        break;
    case MESSAGE_DRAINED:
    case MESSAGE_STOP:
        w->leave = true;
        w->stop = m->kind == MESSAGE_STOP;
        break;
    default:
        break;
    }
}

/* Without a coordinator: what there is is checkpointed and left. */
static void look_for_coordinator(struct worker *w)
{
    if (w->orphaned || !w->line->dead || !w->line->dead(w->line->context))
        return;
    log_line(LOG_WARNING, "rank 0 is gone: leaving");
    w->orphaned = w->stop = w->leave = true;
}

/* Takes what has come, waiting up to `seconds` for the first, and looks for a signal. */
static void listen(struct worker *w, double seconds)
{
    struct message m;
    while (w->lost < 0 && w->line->receive(w->line->context, &m, seconds)) {
        seconds = 0;
        take(w, &m);
    }
    look_for_coordinator(w);
    if (!w->stop && !w->leave && signals_came()) {
        w->stop = true;
        send(w, MESSAGE_SIGNAL, NO_TILE);
    }
}

static void ask(struct worker *w)
{
    if (w->asked || w->next != NO_TILE || w->stop || w->leave)
        return;
    w->asked = true;
    send(w, MESSAGE_READY, NO_TILE);
}

bool worker_should_stop(struct worker *w)
{
    double t = clock_now();
    if (t - w->polled >= POLL_SECONDS || signals_came()) {
        w->polled = t;
        listen(w, 0);
    }
    return w->stop || w->drop;
}

bool worker_should_drop(const struct worker *w) { return w->drop; }

void worker_progress(struct worker *w, size_t done, size_t runs, double fraction)
{
    double t = clock_now(), share = ((double)done + fraction) / (double)(runs ? runs : 1);
    if (share > 0 && (t - w->began) * (1 - share) / share < FETCH_AHEAD_SECONDS)
        ask(w);
    if (t - w->said < PROGRESS_SECONDS)
        return;
    w->said = t;
    struct message m = {.kind = MESSAGE_PROGRESS, .tile = w->tile, .fraction = fraction};
    w->line->send(w->line->context, &m);
}

void worker_run_ended(struct worker *w, enum outcome outcome, bool restored, const char *text)
{
    struct message m = {.kind = MESSAGE_RUN_ENDED, .tile = w->tile, .outcome = (int32_t)outcome, .restored = restored};
    snprintf(m.text, sizeof m.text, "%s", text ? text : "");
    w->ended[outcome]++;
    w->line->send(w->line->context, &m);
}

void worker_failed_text(struct worker *w, const char *text) { snprintf(w->failed, sizeof w->failed, "%s", text); }

/* Waits for a tile to start; false when it is time to leave. */
static bool fetch(struct worker *w)
{
    listen(w, 0);
    ask(w);
    while (w->next == NO_TILE && !w->stop && !w->leave)
        listen(w, 0.1);
    if (w->next == NO_TILE || w->stop)
        return false;
    w->tile = w->next;
    w->next = NO_TILE;
    w->began = clock_now();
    w->drop = false;
    memset(w->ended, 0, sizeof w->ended);
    return true;
}

enum worker_end worker_run(const struct line *line, const struct work *work)
{
    static const enum message_kind report[] = {[WORK_FINISHED] = MESSAGE_FINISHED, [WORK_FAILED] = MESSAGE_FAILED,
                                               [WORK_RETURNED] = MESSAGE_RETURNED};
    struct worker w = {.line = line, .tile = NO_TILE, .next = NO_TILE, .lost = -1};
    while (fetch(&w))
        send(&w, report[work->tile(work->context, (size_t)w.tile, &w)], w.tile);
    while (!w.leave)
        listen(&w, 0.1);
    if (w.next != NO_TILE)
        send(&w, MESSAGE_RETURNED, w.next);
    send(&w, MESSAGE_LEFT, NO_TILE);
    while (line->dead && w.lost < 0 && !w.orphaned)
        listen(&w, 0.1);
    if (w.orphaned)
        return WORKER_ORPHANED;
    return w.lost > 0 ? WORKER_ALONE : WORKER_TOGETHER;
}
