/* The judgement of a lease (lease_judge) among launches on machines that share nothing but a file: no locks, views of the
 * file that are late, clocks that agree on nothing, launches that die, stand still and wake up.
 *
 * The launches follow the rules of store/lease.c: a waiter looks ten times a second; it claims by writing its id and holds
 * when it still reads it a moment later; a holder renews its counter and asks before it publishes. Then two publish for no
 * longer than the file's views are late, a holder that lives is never overtaken, and a dead one is followed.
 */
#include "base/stream.h"
#include "store/lease.h"

#include "check.h"

#define STEP 0.05
#define LOOK 0.1             /* between looks of a waiter */
#define CLAIM 0.2            /* between writing an id and reading it again */
enum { LAUNCHES = 4, STEPS = 12000, PAST = 400 };

enum doing { WAITS, CLAIMS, HOLDS, ENDED };

struct content {
    uint64_t id, counter;
};

struct launch {
    enum doing doing;
    double offset;               /* of its monotonic clock */
    double stopped, next, born;  /* stopped until then; next look or renewal; begins then */
    struct lease_watch watch;
    uint64_t id, counter;
    int wrote;                   /* step of its last write: it never sees the file as it was before */
    double overtaken;            /* another has claimed since then; INFINITY: none */
};

struct world {
    double lease, late;          /* lease time; views are up to so late */
    double stop_rate, death_rate;      /* of a holder, 1/s */
    double longest_stop;
    struct stream random;
    struct content past[PAST];   /* the file's content at the last steps, the newest at step % PAST */
    struct launch launch[LAUNCHES];
    int step, taken, ended, lost;
    double worst;                /* longest time a launch published after it was overtaken */
    double slowest;              /* longest time the folder had no living holder while someone waited */
};

static double now(const struct world *w) { return STEP * w->step; }
static struct content *current(struct world *w) { return &w->past[w->step % PAST]; }
static bool chance(struct world *w, double p) { return stream_uniform(&w->random) < p; }

/* The file as a launch sees it: as it was some time ago. */
static struct content view(struct world *w, const struct launch *l)
{
    int back = (int)(w->late * stream_uniform(&w->random) / STEP), most = w->step - l->wrote;
    return w->past[(w->step - (back < most ? back : most)) % PAST];
}

static void write_file(struct world *w, struct launch *l)
{
    bool claims = current(w)->id != l->id;
    *current(w) = (struct content){l->id, l->counter};
    l->wrote = w->step;
    for (int i = 0; claims && i < LAUNCHES; i++)
        if (&w->launch[i] != l && w->launch[i].doing == HOLDS && w->launch[i].overtaken > now(w))
            w->launch[i].overtaken = now(w);
}

static void wait_more(struct world *w, struct launch *l)
{
    struct content c = view(w, l);
    struct lease_look look = {.locked = false, .here = false, .id = c.id, .counter = c.counter};
    enum lease_verdict verdict = lease_judge(&l->watch, &look, now(w) + l->offset, w->lease);
    l->next = now(w) + LOOK;
    if (verdict != LEASE_FREE && verdict != LEASE_LAPSED)
        return;
    write_file(w, l);
    l->doing = CLAIMS;
    l->next = now(w) + CLAIM;
}

static void claim(struct world *w, struct launch *l)
{
    bool won = view(w, l).id == l->id;
    l->doing = won ? HOLDS : WAITS;
    l->watch = (struct lease_watch){0};
    l->overtaken = current(w)->id == l->id ? INFINITY : now(w);
    l->next = now(w) + w->lease / 5;
    w->taken += won;
}

/* The counter alone is rewritten, in place: whoever's id is there stays. */
static void renew(struct world *w, struct launch *l)
{
    current(w)->counter = l->counter;
    l->wrote = current(w)->id == l->id ? w->step : l->wrote;
}

/* A holder publishes whenever it is awake, after it has asked. */
static void hold(struct world *w, struct launch *l)
{
    if (view(w, l).id != l->id) {
        l->doing = ENDED;
        w->lost++;
        return;
    }
    if (l->overtaken <= now(w))
        w->worst = fmax(w->worst, now(w) - l->overtaken);
    if (now(w) >= l->next) {
        l->counter++;
        renew(w, l);
        l->next = now(w) + w->lease / 5;
    }
    if (chance(w, w->stop_rate * STEP))
        l->stopped = now(w) + w->longest_stop * stream_uniform(&w->random);
    if (chance(w, w->death_rate * STEP)) {
        l->doing = ENDED;
        w->ended++;
    }
}

static void one_step(struct world *w)
{
    bool held = false, waits = false;
    struct content before = w->past[(w->step + PAST - 1) % PAST];
    *current(w) = w->step ? before : (struct content){0};
    for (int i = 0; i < LAUNCHES; i++) {
        struct launch *l = &w->launch[i];
        if (l->doing == ENDED && l->born <= now(w)) {         /* the user starts another one, with a clock of its own */
            *l = (struct launch){.doing = WAITS, .born = now(w) + 20 * stream_uniform(&w->random), .overtaken = INFINITY,
                                 .offset = 1e6 * stream_uniform(&w->random), .id = stream_u64(&w->random) | 1,
                                 .wrote = w->step};
            l->next = l->born;
        }
        if (l->stopped > now(w) || l->born > now(w))
            continue;
        if (l->doing == HOLDS)
            hold(w, l);
        else if (now(w) >= l->next)
            (l->doing == WAITS ? wait_more : claim)(w, l);
        held |= l->doing == HOLDS;
        waits |= l->doing != ENDED;
    }
    w->slowest = held || !waits ? 0 : w->slowest + STEP;
}

static struct world new_world(uint64_t seed, double lease, double late)
{
    struct world w = {.lease = lease, .late = late, .random = stream_open(seed, PURPOSE_PROBE, 1)};
    for (int i = 0; i < LAUNCHES; i++)
        w.launch[i].doing = ENDED;
    return w;
}

TEST(two_never_publish_for_longer_than_views_are_late)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct world w = new_world(seed, 5.0, 0.5 * (double)(seed % 4));
        w.stop_rate = 0.05, w.death_rate = 0.02, w.longest_stop = 20.0;
        for (w.step = 0; w.step < STEPS; w.step++) {
            one_step(&w);
            if (w.worst > w.late + 2 * STEP)
                CHECK_FAIL("seed %llu: a launch publishes %.2f s after another has taken over, views are up to %.2f s late",
                           (unsigned long long)seed, w.worst, w.late);
            if (w.slowest > w.lease + 3 * w.late + 4 * LOOK + 2 * CLAIM + 20.0)
                CHECK_FAIL("seed %llu: nobody gets the folder for %.1f s", (unsigned long long)seed, w.slowest);
        }
        CHECK(w.taken > 10 && w.ended > 0 && w.lost > 0);
    }
}

TEST(a_living_holder_is_never_overtaken)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world w = new_world(100 + seed, 5.0, 0.5 * (double)(seed % 4));
        w.death_rate = 0.02;
        for (w.step = 0; w.step < STEPS; w.step++)
            one_step(&w);
        if (w.worst > w.late + 2 * STEP)
            CHECK_FAIL("seed %llu: two publish for %.2f s", (unsigned long long)seed, w.worst);
        if (w.late == 0.0)
            CHECK_INT(w.lost, 0);
        CHECK(w.ended > 3);
    }
}

TEST(a_waiter_that_stood_still_has_not_watched)
{
    struct lease_watch watch = {0};
    struct lease_look look = {.id = 7, .counter = 1};
    CHECK_INT(lease_judge(&watch, &look, 100.0, 5.0), LEASE_UNSURE);
    CHECK_INT(lease_judge(&watch, &look, 100.1, 5.0), LEASE_UNSURE);
    CHECK_INT(lease_judge(&watch, &look, 5000.0, 5.0), LEASE_UNSURE);       /* it slept: the holder may have, too */
    CHECK_INT(lease_judge(&watch, &look, 1.0, 5.0), LEASE_UNSURE);          /* not a monotonic clock: no harm either */
    look.counter++;
    CHECK_INT(lease_judge(&watch, &look, 1.1, 5.0), LEASE_ALIVE);
    double clock = 1.1;
    int looks = 0;
    while (lease_judge(&watch, &look, clock += 0.1, 5.0) == LEASE_UNSURE)
        looks++;
    CHECK(looks >= 49 && looks <= 51);
}
