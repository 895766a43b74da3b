#include "mpi/coordinator.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "job/liveness.h"
#include "job/schedule.h"
#include "mpi/mailbox.h"
#include "mpi/signals.h"
#include "mpi/uplink.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The pause between looks doubles from the first to the most while nothing comes: below a millisecond while messages
 * flow, a few hundred wake-ups a second when all ranks train long tiles. */
#define PAUSE_FIRST_SECONDS 100e-6
#define PAUSE_MOST_SECONDS 5e-3
#define PAUSE_ALONE_SECONDS 0.1      /* without other ranks the mailbox wakes the thread */
#define LOOK_SECONDS 0.25            /* between looks at the ranks' processes */

enum { NO_TILE = -1 };

struct peer {
    int64_t tile, next;      /* that it trains; that it fetched ahead */
    double fraction;         /* of its current run */
    bool waits;              /* its READY is unanswered */
    bool told;               /* DRAINED or STOP was sent */
    bool left;
    bool lost, gone;         /* given up; and its process is no longer there */
};

struct coordinator {
    struct coordinator_setup setup;
    pthread_t thread;
    struct mailbox *in, *out;        /* from and to rank 0's own worker */
    struct schedule *schedule;
    int workers;
    struct liveness *liveness;
    double looked, said_alive;       /* clock when the ranks were last looked at; when they last heard from here */
    struct peer *peer;
    int32_t (*tally)[OUTCOME_COUNT]; /* [tiles] runs that ended and are in the progress shown */
    int failures;
    double limit;                    /* clock at the time limit */
    bool stopping, changed;
    struct coordinator_result result;
};

static void own_send(void *context, const struct message *m) { mailbox_put(((struct coordinator *)context)->in, m); }

static bool own_receive(void *context, struct message *m, double seconds)
{
    return mailbox_take(((struct coordinator *)context)->out, m, seconds);
}

static void tell(struct coordinator *c, int worker, enum message_kind kind, int64_t tile)
{
    struct message m = {.kind = kind, .tile = tile};
    if (worker == 0)
        mailbox_put(c->out, &m);
    else
        messages_send(c->setup.comm, worker, &m);
}

/* Stops the launch: nothing more is handed out, everyone checkpoints and leaves. */
static void stop(struct coordinator *c)
{
    if (c->stopping)
        return;
    c->stopping = true;
    schedule_stop(c->schedule);
    for (int w = 0; w < c->workers; w++)
        if (!c->peer[w].told && !c->peer[w].gone) {
            c->peer[w].told = true;
            tell(c, w, MESSAGE_STOP, NO_TILE);
        }
}

static void count_failure(struct coordinator *c)
{
    if (++c->failures != c->setup.max_failures)
        return;
    c->result.too_many_failures = true;
    stop(c);
}

/* Answers worker w's READY, if there is an answer. */
static void answer(struct coordinator *c, int w)
{
    struct peer *p = &c->peer[w];
    size_t tile;
    if (p->told || p->lost)
        return;
    switch (schedule_next(c->schedule, w, c->limit - clock_now(), &tile)) {
    case SCHEDULE_TRAIN:
        p->waits = false;
        *(p->tile == NO_TILE ? &p->tile : &p->next) = (int64_t)tile;
        tell(c, w, MESSAGE_ASSIGN, (int64_t)tile);
        log_line(LOG_DETAIL, "tile %s goes to rank %d", c->setup.tile[tile].id, w);
        break;
    case SCHEDULE_WAIT:
        break;
    case SCHEDULE_FINISHED:
        if (p->tile == NO_TILE) {
            p->told = true;
            tell(c, w, MESSAGE_DRAINED, NO_TILE);
        }
        break;
    }
}

/* Worker p no longer holds `tile`. */
static void let_go(struct coordinator *c, struct peer *p, int64_t tile)
{
    if (p->next == tile)
        p->next = NO_TILE;
    else if (p->tile == tile) {
        p->tile = p->next;
        p->next = NO_TILE;
    }
    p->fraction = 0;
    c->changed = true;
}

/* Brings the progress shown to these numbers of ended runs. */
static void settle(struct coordinator *c, size_t tile, const int32_t *ended)
{
    const struct coordinator_tile *t = &c->setup.tile[tile];
    for (int o = 0; o < OUTCOME_COUNT; o++) {
        progress_correct(c->setup.progress, (enum outcome)o, ended[o] - c->tally[tile][o], t->seconds / (double)t->runs);
        c->tally[tile][o] = ended[o];
    }
}

static void tile_finished(struct coordinator *c, size_t tile, const struct message *m)
{
    if (schedule_is_finished(c->schedule, tile))         /* a rank that was taken for dead has finished it, too */
        return;
    log_line(LOG_DETAIL, "tile %s is finished by rank %d", c->setup.tile[tile].id, m->worker);
    int holder = schedule_holder(c->schedule, tile);
    if (holder >= 0 && holder != m->worker)
        tell(c, holder, MESSAGE_DROP, (int64_t)tile);
    settle(c, tile, m->ended);
    c->result.finished++;
    for (int o = 0; o < OUTCOME_COUNT; o++)
        c->result.outcome[o] += (size_t)m->ended[o];
}

static void tile_failed(struct coordinator *c, size_t tile, const char *why)
{
    if (c->result.failed++ == 0)
        memcpy(c->result.failed_text, why, sizeof c->result.failed_text);
    log_line(LOG_ERROR, "tile %s could not be finished: %s", c->setup.tile[tile].id, why);
    count_failure(c);
}

static void run_ended(struct coordinator *c, const struct message *m)
{
    const struct coordinator_tile *t = &c->setup.tile[m->tile];
    if (schedule_holder(c->schedule, (size_t)m->tile) != m->worker)
        return;
    c->tally[m->tile][m->outcome]++;
    c->peer[m->worker].fraction = 0;
    progress_run(c->setup.progress, (enum outcome)m->outcome, t->seconds / (double)t->runs, m->restored);
    if (m->outcome == OUTCOME_FAILED)
        log_line(LOG_WARNING, "%s", m->text);
    if (m->outcome == OUTCOME_FAILED && !m->restored)
        count_failure(c);
}

/* ---- ranks that are lost ---- */

static void lose(struct coordinator *c, int w, bool gone)
{
    static const int32_t none[OUTCOME_COUNT];
    struct peer *p = &c->peer[w];
    char why[160];
    snprintf(why, sizeof why, "rank %d (process %ld on %s) %s", w, peers_pid(c->setup.peers, w), peers_host(c->setup.peers, w),
             gone ? "died" : "gives no sign of life");
    p->gone = gone;
    if (p->lost)
        return;
    p->lost = true;
    log_line(LOG_WARNING, "%s%s%s", why, p->tile == NO_TILE ? "" : "; another goes on with tile ",
             p->tile == NO_TILE ? "" : c->setup.tile[p->tile].id);
    size_t tile = (size_t)p->tile;
    if (p->tile != NO_TILE && schedule_holder(c->schedule, tile) == w) {
        settle(c, tile, none);
        if (c->setup.hooks.lost)         /* one of them is this one, which the schedule adds */
            schedule_strikes_set(c->schedule, tile, c->setup.hooks.lost(c->setup.hooks.context, tile, w, why) - 1);
    }
    schedule_lost(c->schedule, w);
    if (p->tile != NO_TILE && schedule_quarantined(c->schedule, tile))
        log_line(LOG_ERROR, "tile %s lost its rank %d times and is left out from now on", c->setup.tile[tile].id,
                 schedule_strikes(c->schedule, tile));
    p->tile = p->next = NO_TILE;
    c->changed = true;
}

static bool receive(struct coordinator *c);

/* Every rank now and then: is its process there, has it been heard? */
static void look_at_ranks(struct coordinator *c)
{
    double t = clock_now();
    if (!c->setup.peers || c->workers == 1 || t - c->looked < LOOK_SECONDS)
        return;
    c->looked = t;
    bool speak = t - c->said_alive >= uplink_period(c->setup.heartbeat);
    if (speak)
        c->said_alive = t;
    for (int w = 1; w < c->workers; w++) {
        struct peer *p = &c->peer[w];
        if (p->left || p->gone)
            continue;
        bool gone = peers_is_gone(c->setup.peers, w);
        if (gone)
            receive(c);                  /* its last words */
        if (gone || (!p->lost && liveness_silent(c->liveness, w)))
            lose(c, w, gone);
        else if (speak && !p->lost && !peers_is_near(c->setup.peers, w))
            tell(c, w, MESSAGE_ALIVE, NO_TILE);
    }
}

static void heard(struct coordinator *c, int w)
{
    liveness_heard(c->liveness, w);
    if (!c->peer[w].lost || c->peer[w].gone)
        return;
    c->peer[w].lost = false;
    c->changed = true;                   /* its READY from before may still be unanswered */
    log_line(LOG_WARNING, "rank %d is back", w);
}

/* The worker trains a tile that it was not given, or that it was thought to have lost: it keeps it if nobody else has it. */
static void reconcile(struct coordinator *c, int w, int64_t tile)
{
    size_t t = (size_t)tile;
    schedule_holds(c->schedule, w, &t, 1);
    if (schedule_holder(c->schedule, t) == w) {
        c->peer[w].tile = tile;
        c->peer[w].next = NO_TILE;
    } else if (!schedule_quarantined(c->schedule, t))
        tell(c, w, MESSAGE_DROP, tile);
}

static void handle(struct coordinator *c, const struct message *m)
{
    struct peer *p = &c->peer[m->worker];
    assert(m->tile < (int64_t)c->setup.tiles);
    heard(c, m->worker);
    switch ((enum message_kind)m->kind) {
    case MESSAGE_READY:
        p->waits = true;
        answer(c, m->worker);
        break;
    case MESSAGE_RUN_ENDED:
        run_ended(c, m);
        break;
    case MESSAGE_PROGRESS:
        p->fraction = m->fraction;
        if (p->tile != m->tile)
            reconcile(c, m->worker, m->tile);
        break;
    case MESSAGE_FINISHED:
        tile_finished(c, (size_t)m->tile, m);
        schedule_finished(c->schedule, m->worker, (size_t)m->tile);
        let_go(c, p, m->tile);
        break;
    case MESSAGE_FAILED:
        schedule_failed(c->schedule, m->worker, (size_t)m->tile);
        let_go(c, p, m->tile);
        tile_failed(c, (size_t)m->tile, m->text);
        break;
    case MESSAGE_RETURNED:
        schedule_returned(c->schedule, m->worker, (size_t)m->tile);
        let_go(c, p, m->tile);
        break;
    case MESSAGE_SIGNAL:
        stop(c);
        break;
    case MESSAGE_LEFT:
        p->left = true;
        break;
    case MESSAGE_ALIVE:
        break;
    case MESSAGE_ASSIGN:
    case MESSAGE_DRAINED:
    case MESSAGE_STOP:
    case MESSAGE_DROP:
    case MESSAGE_GOODBYE:
    case MESSAGE_COUNT:
        assert(!"a worker does not send this");
    }
}

static bool receive(struct coordinator *c)
{
    struct message m;
    bool any = false;
    while (mailbox_take(c->in, &m, 0)) {
        m.worker = 0;
        handle(c, &m);
        any = true;
    }
    while (c->workers > 1 && messages_receive(c->setup.comm, &m)) {
        handle(c, &m);
        any = true;
    }
    return any;
}

/* Work done of unfinished runs, the tiles being trained, and those given up. */
static void show(struct coordinator *c)
{
    if (!progress_due(c->setup.progress))
        return;
    const char **ids = memory_new((size_t)c->workers, sizeof *ids);
    struct progress_now now = {.id = ids};
    for (int w = 0; w < c->workers; w++) {
        if (c->peer[w].tile == NO_TILE)
            continue;
        const struct coordinator_tile *t = &c->setup.tile[c->peer[w].tile];
        now.seconds += c->peer[w].fraction * t->seconds / (double)t->runs;
        ids[now.tiles++] = t->id;
    }
    for (size_t i = 0; i < c->setup.tiles; i++)
        now.quarantined += schedule_quarantined(c->schedule, i) ? c->setup.tile[i].runs : 0;
    progress_tick(c->setup.progress, &now);
    memory_free(ids);
}

/* Workers that have neither left nor are lost. */
static int at_work(const struct coordinator *c)
{
    int n = 0;
    for (int w = 0; w < c->workers; w++)
        n += !c->peer[w].left && !c->peer[w].lost;
    return n;
}

static void look_around(struct coordinator *c)
{
    liveness_awake(c->liveness, clock_now());
    look_at_ranks(c);
    if (!c->result.evicted && c->setup.hooks.evicted && c->setup.hooks.evicted(c->setup.hooks.context)) {
        c->result.evicted = true;
        stop(c);
    }
    if (signals_came() || clock_now() >= c->limit)
        stop(c);
}

/* All have left or are lost: the living learn whether calls of all ranks may follow. */
static void part(struct coordinator *c)
{
    for (int w = 0; w < c->workers; w++)
        c->result.lost += c->peer[w].lost || c->peer[w].gone;
    for (int w = 1; w < c->workers; w++)
        if (!c->peer[w].gone)
            tell(c, w, MESSAGE_GOODBYE, c->result.lost);
}

static void *run(void *context)
{
    struct coordinator *c = context;
    double most = c->workers > 1 ? PAUSE_MOST_SECONDS : PAUSE_ALONE_SECONDS, pause = PAUSE_FIRST_SECONDS;
    while (at_work(c)) {
        bool any = receive(c);
        look_around(c);
        if (c->changed) {
            c->changed = false;
            for (int w = 0; w < c->workers; w++)
                if (c->peer[w].waits)
                    answer(c, w);
        }
        show(c);
        pause = any ? PAUSE_FIRST_SECONDS : fmin(2 * pause, most);
        mailbox_wait(c->in, pause);
    }
    part(c);
    return NULL;
}

struct coordinator *coordinator_start(const struct coordinator_setup *setup, struct line *own)
{
    struct coordinator *c = memory_new(1, sizeof *c);
    c->setup = *setup;
    c->in = mailbox_new();
    c->out = mailbox_new();
    MPI_Comm_size(setup->comm, &c->workers);
    double *seconds = memory_new(setup->tiles + 1, sizeof *seconds);
    for (size_t i = 0; i < setup->tiles; i++)
        seconds[i] = setup->tile[i].seconds;
    c->schedule = schedule_new(setup->tiles, seconds, c->workers);
    memory_free(seconds);
    for (size_t i = 0; i < setup->tiles; i++)
        schedule_strikes_set(c->schedule, i, setup->tile[i].strikes);
    c->liveness = liveness_new(c->workers, setup->heartbeat > 0 ? setup->heartbeat : 1e9);
    c->peer = memory_new((size_t)c->workers, sizeof *c->peer);
    for (int w = 0; w < c->workers; w++)
        c->peer[w].tile = c->peer[w].next = NO_TILE;
    c->tally = memory_new(setup->tiles + 1, sizeof *c->tally);
    c->limit = clock_now() + setup->seconds_left;
    *own = (struct line){.context = c, .send = own_send, .receive = own_receive};
    if (pthread_create(&c->thread, NULL, run, c)) {
        log_line(LOG_ERROR, "the coordinator's thread cannot be started: too many processes or too little memory");
        abort();
    }
    return c;
}

struct coordinator_result coordinator_end(struct coordinator *c)
{
    pthread_join(c->thread, NULL);
    struct schedule_counts n = schedule_count(c->schedule);
    c->result.open = n.open + n.running;
    c->result.quarantined = n.quarantined;
    struct coordinator_result result = c->result;
    messages_settle(result.lost > 0);
    schedule_free(c->schedule);
    liveness_free(c->liveness);
    mailbox_free(c->in);
    mailbox_free(c->out);
    memory_free(c->peer);
    memory_free(c->tally);
    memory_free(c);
    return result;
}
