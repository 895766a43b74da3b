#include "mpi/peers.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define LOOK_SECONDS 0.2

struct peer {
    uint64_t machine;        /* hash of the running kernel's id and of the space of process numbers */
    int64_t pid;
    char host[64];
};

struct peers {
    int self, size;
    struct peer *peer;       /* [size] */
};

static uint64_t this_machine(void)
{
    char space[128] = "";
    size_t n = 0;
    char *kernel = text_read_file("/proc/sys/kernel/random/boot_id", &n);
    ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    uint64_t h = XXH3_64bits_withSeed(space, length > 0 ? (size_t)length : 0, kernel ? XXH3_64bits(kernel, n) : 0);
    memory_free(kernel);
    return h;
}

struct peers *peers_new(MPI_Comm comm)
{
    struct peers *p = calloc(1, sizeof *p);      /* lives as long as MPI: no memory of a stage, which memory_balance counts */
    if (!p)
        abort();
    struct peer own = {.machine = this_machine(), .pid = getpid()};
    gethostname(own.host, sizeof own.host - 1);
    MPI_Comm_rank(comm, &p->self);
    MPI_Comm_size(comm, &p->size);
    p->peer = calloc((size_t)p->size, sizeof *p->peer);
    if (!p->peer)
        abort();
    MPI_Allgather(&own, sizeof own, MPI_BYTE, p->peer, sizeof own, MPI_BYTE, comm);
    return p;
}

void peers_free(struct peers *p)
{
    if (!p)
        return;
    free(p->peer);
    free(p);
}

bool peers_is_near(const struct peers *p, int rank) { return p->peer[rank].machine == p->peer[p->self].machine; }
long peers_pid(const struct peers *p, int rank) { return (long)p->peer[rank].pid; }
const char *peers_host(const struct peers *p, int rank) { return p->peer[rank].host; }

/* A zombie is gone, too: its parent has not looked yet. */
bool peers_is_gone(const struct peers *p, int rank)
{
    char path[64], line[256] = "";
    if (!peers_is_near(p, rank))
        return false;
    snprintf(path, sizeof path, "/proc/%ld/stat", peers_pid(p, rank));
    FILE *f = fopen(path, "re");
    if (!f)
        return kill((pid_t)p->peer[rank].pid, 0) != 0;
    bool read = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    const char *state = strrchr(line, ')');
    return !read || (state && (state[2] == 'Z' || state[2] == 'X'));
}

/* ---- the guard of collective calls ---- */

static struct {
    const struct peers *peers;
    pthread_t thread;
    atomic_bool on;
} guard;

static void *watch(void *unused)
{
    (void)unused;
    while (atomic_load(&guard.on)) {
        clock_rest(LOOK_SECONDS);
        for (int rank = 0; rank < guard.peers->size && atomic_load(&guard.on); rank++)
            if (peers_is_gone(guard.peers, rank)) {
                log_line(LOG_ERROR, "rank %d (process %ld) died in a stage that needs all ranks; what is finished stays: run "
                         "the same command again", rank, peers_pid(guard.peers, rank));
                log_finish();
                _exit(3);
            }
    }
    return NULL;
}

void peers_guard_start(const struct peers *p)
{
    const char *recovery = getenv("OMPI_MCA_orte_enable_recovery");
    if (atomic_load(&guard.on) || p->size == 1 || !recovery || !strcmp(recovery, "0"))
        return;
    guard.peers = p;
    atomic_store(&guard.on, true);
    if (pthread_create(&guard.thread, NULL, watch, NULL))
        atomic_store(&guard.on, false);
}

void peers_guard_stop(void)
{
    if (!atomic_exchange(&guard.on, false))
        return;
    pthread_join(guard.thread, NULL);
}
