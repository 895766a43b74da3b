/* Checks of doctor: MPI and how it was started. */
#include "mpi/doctor.h"

#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/version.h"
#include "mpi/limits.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void doctor_check_mpi_start(struct doctor *d)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    doctor_say(d, DOCTOR_OK, "%.100s, started in %.0f ms", version, 1e3 * doctor_seconds());
}

void doctor_check_mpi_end(struct doctor *d) { doctor_say(d, DOCTOR_OK, "MPI ended in %.0f ms", 1e3 * doctor_seconds()); }

static int count_nodes(const struct world *w)
{
    MPI_Comm node;
    int rank, first, nodes;
    MPI_Comm_split_type(w->comm, MPI_COMM_TYPE_SHARED, w->rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_free(&node);
    first = rank == 0;
    MPI_Allreduce(&first, &nodes, 1, MPI_INT, MPI_SUM, w->comm);
    return nodes;
}

/* srun without a PMI that this MPI speaks starts programs that know nothing of each other. */
void doctor_check_launch(struct doctor *d)
{
    const struct world *w = d->w;
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    int asked = tasks ? atoi(tasks) : 0, nodes = count_nodes(w);
    const char *how = world_mpirun() ? "by mpirun" : asked > 0 && world_launched() ? "by srun" : world_launched() ? "with PMIx" :
                      "alone, without mpirun or srun";
    if (!world_mpirun() && asked > 1 && w->size != asked)
        doctor_say(d, DOCTOR_WRONG, "srun started %d tasks, but MPI sees %d: start with `srun --mpi=pmix` (`srun --mpi=list` "
                   "shows what is there) or with mpirun inside the allocation", asked, w->size);
    else if (world_mpirun() && world_launched_size() != w->size)
        doctor_say(d, DOCTOR_WRONG, "mpirun started %d ranks, but MPI sees %d: is mpirun of another MPI than this program's? Load "
                   "one MPI only", world_launched_size(), w->size);
    else
        doctor_say(d, DOCTOR_OK, "%d rank%s on %d node%s, started %s", w->size, w->size == 1 ? "" : "s", nodes,
                   nodes == 1 ? "" : "s", how);
}

/* Every rank must be the same program with the same libraries, or their bits differ. */
void doctor_check_program(struct doctor *d)
{
    struct text t = {0};
    char host[64] = "", mine[HASH_TEXT], first[HASH_TEXT];
    gethostname(host, sizeof host - 1);
    text_add(&t, "%s %s %s", version_program(), version_revision(), version_libraries());
    hash_print(hash_bytes(t.s, t.length), mine);
    memcpy(first, mine, sizeof first);
    MPI_Bcast(first, sizeof first, MPI_CHAR, 0, d->w->comm);
    if (strcmp(mine, first))
        doctor_say(d, DOCTOR_WRONG, "on %s runs another program or another set of libraries than on rank 0: install or load the "
                   "same on all nodes (%.300s)", host, t.s);
    else
        doctor_say(d, DOCTOR_OK, "the same program and libraries on all ranks (%.500s)", version_libraries());
    text_free(&t);
}

void doctor_check_mpi_threads(struct doctor *d)
{
    static const struct { int level; const char *name; } names[] = {
        {MPI_THREAD_SINGLE, "single"}, {MPI_THREAD_FUNNELED, "funneled"}, {MPI_THREAD_SERIALIZED, "serialized"},
        {MPI_THREAD_MULTIPLE, "multiple"}};
    int level = MPI_THREAD_SINGLE;
    const char *name = "?";
    MPI_Query_thread(&level);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].level == level)
            name = names[i].name;
    if (level < MPI_THREAD_SERIALIZED)
        doctor_say(d, d->w->size > 1 ? DOCTOR_WRONG : DOCTOR_NOTE, "MPI gives thread level %s; rank 0 trains and coordinates at "
                   "once and needs MPI_THREAD_SERIALIZED: use a build of MPI with threads", name);
    else
        doctor_say(d, DOCTOR_OK, "thread level %s", name);
}

void doctor_check_mpi_sum(struct doctor *d)
{
    const struct world *w = d->w;
    double mine[3] = {w->rank + 1, 0.5 * w->rank, -1}, sum[3];
    int64_t number = w->rank + 1, product = (int64_t)w->size * (w->size + 1) / 2, total = 0;
    MPI_Allreduce(mine, sum, 3, MPI_DOUBLE, MPI_SUM, w->comm);
    MPI_Allreduce(&number, &total, 1, MPI_INT64_T, MPI_SUM, w->comm);
    double n = w->size;
    if (total != product || sum[0] != n * (n + 1) / 2 || sum[1] != 0.25 * n * (n - 1) || sum[2] != -n)
        doctor_say(d, DOCTOR_WRONG, "MPI_Allreduce adds 1 to %d up to %.17g, not %lld: this MPI cannot be trusted, use another",
                   w->size, sum[0], (long long)product);
    else
        doctor_say(d, DOCTOR_OK, "1 + ... + %d = %lld over all ranks", w->size, (long long)total);
}

/* What rank `from` sends to rank `to`. */
static int64_t letter(int from, int to) { return (int64_t)from * 1000003 + to * 31 + 7; }

static bool exchange(const struct world *w, int distance)
{
    int to = (w->rank + distance) % w->size, from = (w->rank + w->size - distance) % w->size;
    int64_t out = letter(w->rank, to), in = 0;
    MPI_Sendrecv(&out, 1, MPI_INT64_T, to, 1, &in, 1, MPI_INT64_T, from, 1, w->comm, MPI_STATUS_IGNORE);
    return in == letter(from, w->rank);
}

/* Every ordered pair of ranks; of many ranks, each with those at distances 1, 2, 4, ... in both directions. */
void doctor_check_mpi_pairs(struct doctor *d)
{
    const struct world *w = d->w;
    int pairs = 0, wrong = 0;
    for (int distance = 1; distance < w->size; distance = w->size <= 64 ? distance + 1 : 2 * distance) {
        wrong += !exchange(w, distance);
        wrong += w->size > 64 && !exchange(w, w->size - distance);
        pairs += w->size > 64 ? 2 : 1;
    }
    if (wrong)
        doctor_say(d, DOCTOR_WRONG, "%d messages from other ranks were wrong: this MPI or the network cannot be trusted", wrong);
    else if (w->size == 1)
        doctor_say(d, DOCTOR_OK, "one rank: nobody to talk to");
    else
        doctor_say(d, DOCTOR_OK, "%d messages between pairs of ranks, in both directions", pairs * w->size);
}

void doctor_check_mpi_large(struct doctor *d)
{
    enum { WORDS = 1 << 20 };        /* 4 MB: above every eager limit */
    const struct world *w = d->w;
    int to = (w->rank + 1) % w->size, from = (w->rank + w->size - 1) % w->size;
    uint32_t *out = memory_new(WORDS, sizeof *out), *in = memory_new(WORDS, sizeof *in);
    for (uint32_t i = 0; i < WORDS; i++)
        out[i] = i * 2654435761u + (uint32_t)w->rank;
    double start = doctor_seconds();
    MPI_Sendrecv(out, WORDS, MPI_UINT32_T, to, 2, in, WORDS, MPI_UINT32_T, from, 2, w->comm, MPI_STATUS_IGNORE);
    double seconds = doctor_seconds() - start;
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < WORDS; i++)
        wrong += in[i] != i * 2654435761u + (uint32_t)from;
    if (wrong)
        doctor_say(d, DOCTOR_WRONG, "%u of %d words of a large message from rank %d were wrong: this MPI or the network cannot be "
                   "trusted", wrong, WORDS, from);
    else
        doctor_say(d, DOCTOR_OK, "4 MB from rank to rank in %.1f ms", 1e3 * seconds);
    memory_free(in);
    memory_free(out);
}

/* ---- cores ---- */

/* Cores that this process would be allowed if nobody had bound it. */
static int cores_allowed(void)
{
    cpu_set_t now, all;
    if (sched_getaffinity(0, sizeof now, &now))
        return 0;
    memset(&all, 0xff, sizeof all);
    int allowed = CPU_COUNT(&now);
    if (sched_setaffinity(0, sizeof all, &all) == 0) {
        if (sched_getaffinity(0, sizeof all, &all) == 0)
            allowed = CPU_COUNT(&all);
        sched_setaffinity(0, sizeof now, &now);
    }
    return allowed;
}

/* Cores that some rank of this node may use.   collective */
static int cores_of_node(const struct world *w, int *own)
{
    cpu_set_t mine, node;
    CPU_ZERO(&mine);
    sched_getaffinity(0, sizeof mine, &mine);
    *own = CPU_COUNT(&mine);
    MPI_Comm comm;
    MPI_Comm_split_type(w->comm, MPI_COMM_TYPE_SHARED, w->rank, MPI_INFO_NULL, &comm);
    MPI_Allreduce(&mine, &node, sizeof mine, MPI_BYTE, MPI_BOR, comm);
    MPI_Comm_free(&comm);
    return CPU_COUNT(&node);
}

static double barrier_seconds(const struct world *w)
{
    enum { TIMES = 20 };
    MPI_Barrier(w->comm);
    double start = doctor_seconds();
    for (int i = 0; i < TIMES; i++)
        MPI_Barrier(w->comm);
    return (doctor_seconds() - start) / TIMES;
}

void doctor_check_cores(struct doctor *d)
{
    const struct world *w = d->w;
    int own, used = cores_of_node(w, &own), allowed = cores_allowed();
    double barrier = barrier_seconds(w);
    if (w->node_ranks > used && used < allowed)
        doctor_say(d, DOCTOR_WRONG, "%d ranks of this node are bound to %d core%s although %d are there: each gets a share of one. "
                   "mpirun --bind-to core (or none), srun --cpu-bind=cores; or taskset has done it", w->node_ranks, used,
                   used == 1 ? "" : "s", allowed);
    else if (w->node_ranks > used)
        doctor_say(d, DOCTOR_NOTE, "%d ranks on the %d core%s of this node: not faster than %d rank%s, and more memory. Start one "
                   "rank a core", w->node_ranks, used, used == 1 ? "" : "s", used, used == 1 ? "" : "s");
    else
        doctor_say(d, DOCTOR_OK, "%d rank%s on %d cores of this node, %s", w->node_ranks, w->node_ranks == 1 ? "" : "s", used,
                   own < allowed ? "bound" : "not bound");
    double share = limits_cores();
    if (share > 0 && w->node_ranks > share + 0.01 && w->node_ranks <= used)
        doctor_say(d, DOCTOR_NOTE, "%d ranks on this node, but its control group gives them the time of %.3g cores: not faster than "
                   "fewer ranks", w->node_ranks, share);
    if (w->size > 1 && barrier > 1e-3)
        doctor_say(d, DOCTOR_NOTE, "a barrier takes %.1f ms: is the node busy with other work? With more ranks than cores export "
                   "OMPI_MCA_mpi_yield_when_idle=1", 1e3 * barrier);
}
