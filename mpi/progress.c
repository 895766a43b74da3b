#include "mpi/progress.h"

#include "base/log.h"
#include "base/memory.h"
#include "mpi/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_SECONDS 30.0            /* between plain lines */
#define BAR_SECONDS 0.25             /* between pictures of the bar */
#define FILE_SECONDS 2.0             /* between writes of progress.json */
enum { BAR_WIDTH = 24 };

struct progress {
    struct progress_setup setup;
    struct progress_now now;         /* its ids are not kept */
    size_t outcome[OUTCOME_COUNT];
    size_t trained;                  /* runs that ended in this launch */
    double work, restored;           /* estimated seconds of ended runs; of these, restored ones */
    double began, shown, written;
    bool terminal;
};

static double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Standard error is a terminal, or is passed on to one by mpirun, which starts its ranks with a pipe. */
static bool is_terminal(void)
{
    if (isatty(STDERR_FILENO))
        return true;
    if (!world_mpirun())
        return false;
    char path[64], target[128];
    snprintf(path, sizeof path, "/proc/%ld/fd/2", (long)getppid());
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return false;
    target[n] = '\0';
    return !strncmp(target, "/dev/pts/", 9) || !strncmp(target, "/dev/tty", 8);
}

static bool bar_is_up;

static void clear_bar(void)
{
    if (bar_is_up)
        fputs("\r\033[K", stderr);
    bar_is_up = false;
}

void progress_add_time(struct text *t, double seconds)
{
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e9) {
        text_add(t, "?");
        return;
    }
    long s = lround(seconds), days = s / 86400, hours = s / 3600 % 24, minutes = s / 60 % 60;
    if (days)
        text_add(t, "%ldd %02ld:%02ld:%02ld", days, hours, minutes, s % 60);
    else if (hours)
        text_add(t, "%ld:%02ld:%02ld", hours, minutes, s % 60);
    else
        text_add(t, "%ld:%02ld", minutes, s % 60);
}

static size_t ended(const struct progress *p)
{
    size_t n = 0;
    for (int o = 0; o < OUTCOME_COUNT; o++)
        n += p->outcome[o];
    return n;
}

static double rate(const struct progress *p)
{
    return p->trained ? (double)p->trained / (clock_now() - p->began) : NAN;
}

/* From the work that is done and the time it took; unknown before anything is. */
static double seconds_left(const struct progress *p)
{
    double done = p->work + p->now.seconds, here = done - p->restored, left = p->setup.seconds - done;
    if (ended(p) == p->setup.runs)
        return 0;
    if (here <= 0 || left < 0)
        return NAN;
    return left * (clock_now() - p->began) / here;
}

static void describe(const struct progress *p, struct text *t)
{
    text_add(t, "%zu of %zu runs", ended(p), p->setup.runs);
    if (isfinite(rate(p)))
        text_add(t, ", %.3g runs/s", rate(p));
    if (ended(p) < p->setup.runs && isfinite(seconds_left(p))) {
        text_add(t, ", ");
        progress_add_time(t, seconds_left(p));
        text_add(t, " left");
    }
    if (p->outcome[OUTCOME_DIVERGED])
        text_add(t, ", %zu diverged", p->outcome[OUTCOME_DIVERGED]);
    if (p->outcome[OUTCOME_FAILED])
        text_add(t, ", %zu FAILED", p->outcome[OUTCOME_FAILED]);
}

static void show_bar(struct progress *p)
{
    double open = p->setup.seconds > 0 ? (p->work + p->now.seconds) / p->setup.seconds : 1;
    int full = (int)(BAR_WIDTH * fmin(fmax(open, 0), 1));
    struct text t = {0};
    text_add(&t, "\r\033[K[");
    for (int i = 0; i < BAR_WIDTH; i++)
        text_add(&t, i < full ? "#" : "-");
    text_add(&t, "] ");
    describe(p, &t);
    fputs(text_string(&t), stderr);
    fflush(stderr);
    bar_is_up = true;
    text_free(&t);
}

static void show_line(const struct progress *p)
{
    struct text t = {0};
    describe(p, &t);
    log_line(LOG_INFO, "%s", text_string(&t));
    text_free(&t);
}

static void add_number(struct text *t, const char *key, double value)
{
    text_add(t, "\"%s\": ", key);
    if (isfinite(value))
        text_add(t, "%.6g", value);
    else
        text_add(t, "null");
    text_add(t, ", ");
}

/* Replaced by rename, under a temporary name of this process. Without fsync: after a crash of the machine it is worthless
 * anyway. A file that cannot be written is no reason to stop. */
static void write_file(struct progress *p, const struct progress_now *now)
{
    if (!p->setup.dir)
        return;
    struct text t = {0};
    text_add(&t, "{");
    add_number(&t, "runs_per_second", rate(p));
    add_number(&t, "seconds_left", seconds_left(p));
    text_add(&t, "\"quarantined\": %zu, \"tiles\": [", now->quarantined);
    for (size_t i = 0; i < now->tiles; i++)
        text_add(&t, "%s\"%s\"", i ? ", " : "", now->id[i]);
    text_add(&t, "]}\n");
    char *path = memory_format("%s/progress.json", p->setup.dir);
    char *temporary = memory_format("%s.%ld", path, (long)getpid());
    FILE *f = fopen(temporary, "w");
    if (f) {
        bool whole = fwrite(t.s, 1, t.length, f) == t.length;
        if (fclose(f) || !whole || rename(temporary, path))
            unlink(temporary);
    }
    memory_free(temporary);
    memory_free(path);
    text_free(&t);
}

struct progress *progress_new(const struct progress_setup *setup)
{
    struct progress *p = memory_new(1, sizeof *p);
    p->setup = *setup;
    memcpy(p->outcome, setup->outcome, sizeof p->outcome);
    p->began = p->shown = p->written = clock_now();
    p->terminal = !setup->quiet && is_terminal();
    if (p->terminal)
        log_before_line(clear_bar);
    else if (!setup->quiet)
        show_line(p);
    write_file(p, &p->now);
    return p;
}

void progress_free(struct progress *p)
{
    p->now = (struct progress_now){.seconds = p->now.seconds, .quarantined = p->now.quarantined};
    write_file(p, &p->now);
    clear_bar();
    log_before_line(NULL);
    if (!p->setup.quiet)
        show_line(p);
    memory_free(p);
}

void progress_run(struct progress *p, enum outcome outcome, double seconds, bool restored)
{
    p->outcome[outcome]++;
    p->work += seconds;
    p->trained += !restored;
    if (restored)
        p->restored += seconds;
}

static double show_every(const struct progress *p) { return p->terminal ? BAR_SECONDS : LINE_SECONDS; }

bool progress_due(const struct progress *p)
{
    double t = clock_now();
    return t - p->written >= FILE_SECONDS || (!p->setup.quiet && t - p->shown >= show_every(p));
}

void progress_tick(struct progress *p, const struct progress_now *now)
{
    double t = clock_now();
    p->now = *now;
    p->now.id = NULL;
    if (t - p->written >= FILE_SECONDS) {
        p->written = t;
        write_file(p, now);
    }
    if (!p->setup.quiet && t - p->shown >= show_every(p)) {
        p->shown = t;
        if (p->terminal)
            show_bar(p);
        else
            show_line(p);
    }
}

static double read_number(const char *s, const char *key)
{
    const char *at = strstr(s, key);
    double v = NAN;
    if (at && sscanf(at + strlen(key), "\": %lf", &v) != 1)
        v = NAN;
    return v;
}

bool progress_read(const char *dir, struct progress_file *out)
{
    char *path = memory_format("%s/progress.json", dir);
    char *s = text_read_file(path, NULL);
    memory_free(path);
    char *tiles = s ? strstr(s, "\"tiles\": [") : NULL;
    if (!tiles) {
        memory_free(s);
        return false;
    }
    double quarantined = read_number(s, "quarantined");
    *out = (struct progress_file){.runs_per_second = read_number(s, "runs_per_second"),
                                  .seconds_left = read_number(s, "seconds_left"),
                                  .quarantined = quarantined > 0 ? (size_t)quarantined : 0,
                                  .ids = memory_text(tiles)};
    memory_free(s);
    return true;
}
