#include "mpi/uplink.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "job/liveness.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define REST_FIRST_SECONDS 50e-6     /* a waiting rank sleeps this long between looks, doubling up to REST_MOST */
#define REST_MOST_SECONDS 2e-3
#define BEAT_SECONDS 0.1             /* between looks at rank 0 and at the clock */
#define PERIOD_MOST_SECONDS 5.0

struct uplink {
    MPI_Comm comm;
    const struct peers *peers;
    double heartbeat;
    pthread_t thread;
    atomic_bool ending, dead, heard;
};

double uplink_period(double heartbeat) { return heartbeat / 6 < PERIOD_MOST_SECONDS ? heartbeat / 6 : PERIOD_MOST_SECONDS; }

/* ---- the line ---- */

static void line_send(void *context, const struct message *m) { messages_send(((struct uplink *)context)->comm, 0, m); }

/* Sleeps between looks: MPI's own waiting would hold a core. */
static bool line_receive(void *context, struct message *m, double seconds)
{
    struct uplink *u = context;
    double until = clock_now() + seconds, pause = REST_FIRST_SECONDS;
    while (!messages_receive(u->comm, m)) {
        if (clock_now() >= until)
            return false;
        clock_rest(pause);
        pause = pause < REST_MOST_SECONDS / 2 ? 2 * pause : REST_MOST_SECONDS;
    }
    atomic_store(&u->heard, true);
    return true;
}

static bool line_dead(void *context) { return atomic_load(&((struct uplink *)context)->dead); }

/* ---- the thread ---- */

/* On rank 0's machine the process itself is looked at; a coordinator that is merely stopped is waited for. Elsewhere its
 * signs of life count, also those that wait to be read during a long step. */
static bool coordinator_died(struct uplink *u, struct liveness *l)
{
    if (peers_is_near(u->peers, 0))
        return peers_is_gone(u->peers, 0);
    liveness_awake(l, clock_now());
    if (atomic_exchange(&u->heard, false) || messages_waiting(u->comm))
        liveness_heard(l, 0);
    return liveness_silent(l, 0);
}

static void *beat(void *context)
{
    struct uplink *u = context;
    struct liveness *l = liveness_new(1, u->heartbeat);
    double said = clock_now();
    while (!atomic_load(&u->ending) && !atomic_load(&u->dead)) {
        clock_rest(BEAT_SECONDS);
        if (coordinator_died(u, l)) {
            atomic_store(&u->dead, true);
        } else if (clock_now() - said >= uplink_period(u->heartbeat)) {
            said = clock_now();
            messages_send(u->comm, 0, &(struct message){.kind = MESSAGE_ALIVE, .tile = -1});
        }
    }
    liveness_free(l);
    return NULL;
}

struct uplink *uplink_open(MPI_Comm comm, const struct peers *peers, double heartbeat, struct line *line)
{
    struct uplink *u = memory_new(1, sizeof *u);
    sigset_t all, before;
    u->comm = comm;
    u->peers = peers;
    u->heartbeat = heartbeat;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);         /* signals are for the thread that trains */
    int error = pthread_create(&u->thread, NULL, beat, u);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        log_line(LOG_ERROR, "a thread cannot be started: too many processes or too little memory");
        abort();
    }
    *line = (struct line){.context = u, .send = line_send, .receive = line_receive, .dead = line_dead};
    return u;
}

void uplink_close(struct uplink *u)
{
    atomic_store(&u->ending, true);
    pthread_join(u->thread, NULL);
    memory_free(u);
}
