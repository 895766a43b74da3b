/* Checks of doctor: signals, clock, memory and limits, SLURM's variables. */
#include "mpi/doctor.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "mpi/limits.h"
#include "mpi/signals.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- signals ---- */

static bool is_mpirun(long process)
{
    static const char *const names[] = {"mpirun", "mpiexec", "orterun", "prterun"};
    char *path = memory_format("/proc/%ld/comm", process), *name = text_read_file(path, NULL);
    bool is = false;
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        is = is || (!strncmp(name, names[i], strlen(names[i])) && name[strlen(names[i])] == '\n');
    memory_free(name);
    memory_free(path);
    return is;
}

static void check_masks(struct doctor *d)
{
    static const struct { int number; const char *name; } asked[] = {
        {SIGUSR1, "SIGUSR1"}, {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}};
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        if (sigismember(&blocked, asked[i].number))
            doctor_say(d, DOCTOR_WRONG, "%s is blocked by what started this program: it can never ask for a checkpoint. Start it "
                       "in another way", asked[i].name);
}

/* As a batch system does it: to mpirun where there is one, which must pass it on to all ranks. */
void doctor_check_signals(struct doctor *d)
{
    const struct world *w = d->w;
    int to_mpirun = w->rank == 0 && world_mpirun() && is_mpirun(getppid());
    check_masks(d);
    signals_catch();
    MPI_Bcast(&to_mpirun, 1, MPI_INT, 0, w->comm);      /* all handlers are there when rank 0 goes on: */
    MPI_Barrier(w->comm);
    if (!to_mpirun)
        raise(SIGUSR1);
    else if (w->rank == 0)
        kill(getppid(), SIGUSR1);
    double start = doctor_seconds();
    while (!signals_came() && doctor_seconds() - start < d->patience / 3 && d->verdict == DOCTOR_OK)
        clock_rest(0.001);
    double seconds = doctor_seconds() - start;
    signals_release();
    if (!signals_came())
        doctor_say(d, DOCTOR_WRONG, "SIGUSR1 %s does not reach the program: before a time limit nothing would be checkpointed. Send "
                   "it to the ranks themselves (srun, scancel --signal)", to_mpirun ? "to mpirun" : "to the process");
    else
        doctor_say(d, DOCTOR_OK, "SIGUSR1 %s, after %.0f ms", to_mpirun ? "to mpirun reaches every rank" : "is noticed", 1e3 * seconds);
}

/* ---- clock ---- */

static double read_clock(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void doctor_check_clock(struct doctor *d)
{
    const struct world *w = d->w;
    double last = read_clock(CLOCK_MONOTONIC), longest = 0;
    int back = 0;
    for (int i = 0; i < 20000; i++) {
        double now = read_clock(CLOCK_MONOTONIC);
        back += now < last;
        longest = fmax(longest, now - last);
        last = now;
    }
    MPI_Barrier(w->comm);
    double wall = read_clock(CLOCK_REALTIME), low, high;
    MPI_Allreduce(&wall, &low, 1, MPI_DOUBLE, MPI_MIN, w->comm);
    MPI_Allreduce(&wall, &high, 1, MPI_DOUBLE, MPI_MAX, w->comm);
    if (back)
        doctor_say(d, DOCTOR_WRONG, "the monotonic clock ran backwards %d times: time limits and rates cannot be trusted", back);
    if (high - low > 5)
        doctor_say(d, DOCTOR_NOTE, "the clocks of the nodes differ by %.0f s: time stamps in logs do, too, and SLURM's time limit is "
                   "judged by rank 0's", high - low);
    if (low < 1.6e9)
        doctor_say(d, DOCTOR_NOTE, "the wall clock stands before 2020: time stamps will be wrong");
    doctor_say(d, DOCTOR_OK, "never runs back; ranks agree within %.3f s", high - low);
}

/* ---- memory and limits ---- */

static void check_limits(struct doctor *d)
{
    static const struct { int which; double least; enum doctor_verdict verdict; const char *what, *flag; } limits[] = {
        {RLIMIT_FSIZE, 1e9, DOCTOR_WRONG, "the size of files (in bytes)", "-f"},
        {RLIMIT_CPU, INFINITY, DOCTOR_NOTE, "processor time (in s)", "-t"},
        {RLIMIT_NOFILE, 256, DOCTOR_NOTE, "the number of open files", "-n"},
        {RLIMIT_STACK, 1 << 20, DOCTOR_NOTE, "the stack (in bytes)", "-s"}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit limit;
        bool limited = getrlimit(limits[i].which, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
        if (limited && (double)limit.rlim_cur < limits[i].least)
            doctor_say(d, limits[i].verdict, "%s is limited to %llu: `ulimit %s unlimited` before the start, or a limit of at "
                       "least what jobs need", limits[i].what, (unsigned long long)limit.rlim_cur, limits[i].flag);
    }
}

void doctor_check_memory(struct doctor *d)
{
    double there = limits_memory(), share = there / d->w->node_ranks;
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY && (double)space.rlim_cur < share)
        share = (double)space.rlim_cur;
    check_limits(d);
    if (there > 0 && share < 256e6)
        doctor_say(d, DOCTOR_WRONG, "%.0f MB are free on this node, %.0f MB for each of %d ranks: ask for more memory (SLURM: "
                   "--mem-per-cpu) or start fewer ranks", there / 1e6, share / 1e6, d->w->node_ranks);
    doctor_say(d, DOCTOR_OK, "%.1f GB free on this node (its control group counted), %.1f GB a rank; `invar plan` says what a job "
               "takes", there / 1e9, share / 1e9);
}

/* ---- SLURM ---- */

static long number(const char *name)
{
    long long v;
    const char *s = getenv(name);
    return s && text_to_int(s, &v) ? (long)v : 0;
}

static void check_end_time(struct doctor *d)
{
    double left = difftime((time_t)number("SLURM_JOB_END_TIME"), time(NULL));
    if (!getenv("SLURM_JOB_END_TIME"))
        doctor_say(d, DOCTOR_NOTE, "this SLURM does not say when the job ends (SLURM_JOB_END_TIME): pass --time, a little less than "
                   "the job's limit, or submit with slurm/submit");
    else if (left < 0)
        doctor_say(d, DOCTOR_WRONG, "SLURM_JOB_END_TIME is %.0f s in the past: training would stop at once. unset it, or mend the "
                   "clock", -left);
}

/* In a batch step SLURM_NTASKS speaks of the allocation; in an srun step of that step. */
static void check_tasks(struct doctor *d)
{
    long tasks = number("SLURM_NTASKS"), step = number("SLURM_STEP_NUM_TASKS"), cpus = number("SLURM_CPUS_PER_TASK");
    if (tasks > 1 && d->w->size == 1 && step <= 1)
        doctor_say(d, DOCTOR_NOTE, "the job has %ld tasks, this is one program alone: start it with `srun --mpi=pmix` or mpirun", tasks);
    else if (tasks > 0 && tasks != d->w->size && step <= 1)
        doctor_say(d, DOCTOR_NOTE, "the job has %ld tasks, there are %d ranks: mpirun without -n takes all of them", tasks, d->w->size);
    if (cpus > 1)
        doctor_say(d, DOCTOR_NOTE, "SLURM_CPUS_PER_TASK=%ld: a rank uses one core, the others idle; ask for --cpus-per-task=1", cpus);
}

void doctor_check_slurm(struct doctor *d)
{
    const char *job = getenv("SLURM_JOB_ID");
    if (!job) {
        doctor_say(d, DOCTOR_OK, "not in a job of SLURM");
        return;
    }
    check_end_time(d);
    check_tasks(d);
    doctor_say(d, DOCTOR_OK, "job %s, %ld tasks on %ld nodes, restart %ld, %.0f minutes left", job, number("SLURM_NTASKS"),
               number("SLURM_JOB_NUM_NODES"), number("SLURM_RESTART_COUNT"),
               difftime((time_t)number("SLURM_JOB_END_TIME"), time(NULL)) / 60);
}
