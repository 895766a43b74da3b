#include "mpi/startup_guard.h"

#include "base/clock.h"
#include "base/log.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_SECONDS 0.05
#define PATIENCE_LOOKS 600           /* a rank that has not begun in so many looks (30 s) died before it was seen */

static struct {
    pthread_t thread;
    atomic_bool on;
    int expected;                    /* ranks of this machine */
} guard;

static bool runs_program(long pid, const char *program)
{
    char path[64], exe[4096];
    snprintf(path, sizeof path, "/proc/%ld/exe", pid);
    ssize_t n = readlink(path, exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    return n > 0 && !strcmp(exe, program);
}

/* Children of one thread of the daemon that run the program; *self: this process is among them. */
static int children(long daemon, const char *thread, const char *program, bool *self)
{
    char path[320];
    int count = 0;
    long pid;
    snprintf(path, sizeof path, "/proc/%ld/task/%s/children", daemon, thread);
    FILE *f = fopen(path, "re");
    while (f && fscanf(f, "%ld", &pid) == 1) {
        *self |= pid == getpid();
        count += runs_program(pid, program);
    }
    if (f)
        fclose(f);
    return count;
}

/* Living ranks of this machine; 0 when they cannot be told. */
static int ranks(const char *program)
{
    char path[64];
    long daemon = getppid();
    int count = 0;
    bool self = false;
    snprintf(path, sizeof path, "/proc/%ld/task", daemon);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            count += children(daemon, e->d_name, program, &self);
    if (d)
        closedir(d);
    return self ? count : 0;
}

static void *watch(void *unused)
{
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    int most = 0, missing = 0;
    for (int looks = 0; atomic_load(&guard.on); looks++) {
        int count = ranks(program);
        most = count > most ? count : most;
        missing = count > 0 && (count < most || (looks > PATIENCE_LOOKS && count < guard.expected)) ? missing + 1 : 0;
        if (missing > 1 && atomic_load(&guard.on)) {
            log_line(LOG_ERROR, "a rank of this machine died while MPI started: run the same command again");
            log_finish();
            _exit(3);
        }
        clock_rest(LOOK_SECONDS);
    }
    return unused;
}

void startup_guard_start(int expected)
{
    const char *recovery = getenv("OMPI_MCA_orte_enable_recovery");
    guard.expected = expected;
    if (!recovery || !strcmp(recovery, "0") || guard.expected < 2)
        return;
    atomic_store(&guard.on, true);
    if (pthread_create(&guard.thread, NULL, watch, NULL))
        atomic_store(&guard.on, false);
}

void startup_guard_stop(void)
{
    if (atomic_exchange(&guard.on, false))
        pthread_join(guard.thread, NULL);
}
