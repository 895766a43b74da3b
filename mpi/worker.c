#include "mpi/worker.h"

#include "mpi/signals.h"

#include <stdio.h>
#include <time.h>

/* A tile is fetched when the current one will end within this time: late enough that a fast rank does not sit on a tile
 * which an idle one could train, early enough for an answer. */
#define FETCH_AHEAD_SECONDS 0.05
#define POLL_SECONDS 0.002           /* between looks at the line while training */
#define PROGRESS_SECONDS 0.5         /* between PROGRESS messages */
#define REST_FIRST_SECONDS 50e-6     /* a waiting rank sleeps this long between looks, doubling up to REST_MOST */
#define REST_MOST_SECONDS 2e-3

enum { NO_TILE = -1 };

struct worker {
    const struct line *line;
    int64_t tile, next;      /* being trained; fetched ahead */
    bool asked;              /* a READY is unanswered */
    bool stop;               /* checkpoint, give back */
    bool leave;              /* DRAINED or STOP has come: nothing more will */
    double began, polled, said;
    char failed[MESSAGE_TEXT];
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void mpi_send(void *context, const struct message *m) { messages_send(*(MPI_Comm *)context, 0, m); }

/* Sleeps between looks: MPI's own waiting would hold a core. */
static bool mpi_receive(void *context, struct message *m, double seconds)
{
    double until = now() + seconds, rest = REST_FIRST_SECONDS;
    while (!messages_receive(*(MPI_Comm *)context, m)) {
        if (now() >= until)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * rest)}, NULL);
        rest = rest < REST_MOST_SECONDS / 2 ? 2 * rest : REST_MOST_SECONDS;
    }
    return true;
}

struct line worker_line(MPI_Comm *comm)
{
    return (struct line){.context = comm, .send = mpi_send, .receive = mpi_receive};
}

static void send(struct worker *w, enum message_kind kind, int64_t tile)
{
    struct message m = {.kind = kind, .tile = tile};
    if (kind == MESSAGE_FAILED)
        snprintf(m.text, sizeof m.text, "%s", w->failed);
    w->line->send(w->line->context, &m);
}

/* Takes what has come, waiting up to `seconds` for the first, and looks for a signal. */
static void listen(struct worker *w, double seconds)
{
    struct message m;
    while (!w->leave && w->line->receive(w->line->context, &m, seconds)) {
        seconds = 0;
        if (m.kind == MESSAGE_ASSIGN) {
            w->next = m.tile;
            w->asked = false;
        } else {
            w->leave = true;
            w->stop = m.kind == MESSAGE_STOP;
        }
    }
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
    double t = now();
    if (t - w->polled >= POLL_SECONDS || signals_came()) {
        w->polled = t;
        listen(w, 0);
    }
    return w->stop;
}

void worker_progress(struct worker *w, size_t done, size_t runs, double fraction)
{
    double t = now(), share = ((double)done + fraction) / (double)(runs ? runs : 1);
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
    w->began = w->said = now();
    return true;
}

void worker_run(const struct line *line, const struct work *work)
{
    static const enum message_kind report[] = {[WORK_FINISHED] = MESSAGE_FINISHED, [WORK_FAILED] = MESSAGE_FAILED,
                                               [WORK_RETURNED] = MESSAGE_RETURNED};
    struct worker w = {.line = line, .tile = NO_TILE, .next = NO_TILE};
    while (fetch(&w))
        send(&w, report[work->tile(work->context, (size_t)w.tile, &w)], w.tile);
    while (!w.leave)
        listen(&w, 0.1);
    if (w.next != NO_TILE)
        send(&w, MESSAGE_RETURNED, w.next);
    send(&w, MESSAGE_LEFT, NO_TILE);
}
