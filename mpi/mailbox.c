#include "mpi/mailbox.h"

#include "base/clock.h"
#include "base/memory.h"

#include <pthread.h>
#include <time.h>

struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct message *queue;       /* a ring of `capacity`, `count` of them from `first` on */
    size_t first, count, capacity;
};

struct mailbox *mailbox_new(void)
{
    struct mailbox *b = memory_new(1, sizeof *b);
    pthread_condattr_t attribute;
    pthread_condattr_init(&attribute);
    pthread_condattr_setclock(&attribute, CLOCK_MONOTONIC);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->filled, &attribute);
    pthread_condattr_destroy(&attribute);
    b->capacity = 16;
    b->queue = memory_new(b->capacity, sizeof *b->queue);
    return b;
}

void mailbox_free(struct mailbox *b)
{
    if (!b)
        return;
    pthread_cond_destroy(&b->filled);
    pthread_mutex_destroy(&b->lock);
    memory_free(b->queue);
    memory_free(b);
}

static void grow(struct mailbox *b)
{
    struct message *larger = memory_new(2 * b->capacity, sizeof *larger);
    for (size_t i = 0; i < b->count; i++)
        larger[i] = b->queue[(b->first + i) % b->capacity];
    memory_free(b->queue);
    b->queue = larger;
    b->first = 0;
    b->capacity *= 2;
}

void mailbox_put(struct mailbox *b, const struct message *m)
{
    pthread_mutex_lock(&b->lock);
    if (b->count == b->capacity)
        grow(b);
    b->queue[(b->first + b->count++) % b->capacity] = *m;
    pthread_cond_signal(&b->filled);
    pthread_mutex_unlock(&b->lock);
}

/* With the lock held: waits until there is a message or the time is over. */
static void wait_filled(struct mailbox *b, double seconds)
{
    const struct timespec until = clock_in(seconds);
    while (b->count == 0)
        if (pthread_cond_timedwait(&b->filled, &b->lock, &until))
            break;
}

bool mailbox_take(struct mailbox *b, struct message *m, double seconds)
{
    pthread_mutex_lock(&b->lock);
    if (b->count == 0 && seconds > 0)
        wait_filled(b, seconds);
    bool there = b->count > 0;
    if (there) {
        *m = b->queue[b->first];
        b->first = (b->first + 1) % b->capacity;
        b->count--;
    }
    pthread_mutex_unlock(&b->lock);
    return there;
}

void mailbox_wait(struct mailbox *b, double seconds)
{
    pthread_mutex_lock(&b->lock);
    if (b->count == 0)
        wait_filled(b, seconds);
    pthread_mutex_unlock(&b->lock);
}
