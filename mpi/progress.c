#include "mpi/progress.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "mpi/world.h"
#include "store/lease.h"
#include "store/publish.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static char *path_of(const char *dir, int part, int parts)
{
    char suffix[32];
    lease_suffix(suffix, part, parts);
    return memory_format("%s/progress%s.json", dir, suffix);
}

/* Replaced by rename, under a temporary name of this process. Without fsync: after a crash of the machine it is worthless
 * anyway. A file that cannot be written is no reason to stop. */
static void replace_file(const char *path, const struct text *t)
{
    char *temporary = publish_temporary(path);
    FILE *f = fopen(temporary, "w");
    if (f) {
        bool whole = fwrite(t->s, 1, t->length, f) == t->length;
        if (fclose(f) || !whole || rename(temporary, path))
            unlink(temporary);
    }
    memory_free(temporary);
}

void progress_exit(const char *dir, int part, int parts, int code)
{
    char *path = path_of(dir, part, parts), *s = text_read_file(path, NULL), *end = s ? strrchr(s, ']') : NULL;
    if (end) {
        struct text t = {0};
        end[1] = '\0';
        text_add(&t, "%s, \"exit_code\": %d}\n", s, code);
        replace_file(path, &t);
        text_free(&t);
    }
    memory_free(s);
    memory_free(path);
}

static void write_file(struct progress *p, const struct progress_now *now)
{
    if (!p->setup.dir || (p->setup.store && !store_is_own(p->setup.store)))
        return;
    struct text t = {0};
    text_add(&t, "{");
    add_number(&t, "runs_per_second", rate(p));
    add_number(&t, "seconds_left", seconds_left(p));
    text_add(&t, "\"quarantined\": %zu, \"tiles\": [", now->quarantined);
    for (size_t i = 0; i < now->tiles; i++)
        text_add(&t, "%s\"%s\"", i ? ", " : "", now->id[i]);
    text_add(&t, "]}\n");
    char *path = path_of(p->setup.dir, p->setup.part, p->setup.parts);
    replace_file(path, &t);
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

void progress_correct(struct progress *p, enum outcome outcome, int n, double seconds)
{
    p->outcome[outcome] = (size_t)((long)p->outcome[outcome] + n);
    p->work += n * seconds;
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

/* One file, of a launch that holds its lease or not. */
static bool read_file(const char *dir, const char *name, struct progress_file *out)
{
    char *path = memory_format("%s/%s", dir, name), *s = text_read_file(path, NULL);
    memory_free(path);
    const char *suffix = name + strlen("progress");
    char *lock = memory_format("%s/lock%.*s", dir, (int)(strlen(suffix) - strlen(".json")), suffix);
    const char *tiles = s ? strstr(s, "\"tiles\": [") : NULL;
    if (tiles) {
        double quarantined = read_number(s, "quarantined");
        *out = (struct progress_file){.launches = lease_is_held(lock), .runs_per_second = read_number(s, "runs_per_second"),
                                      .seconds_left = read_number(s, "seconds_left"),
                                      .quarantined = quarantined > 0 ? (size_t)quarantined : 0};
        out->ids = memory_text(out->launches ? tiles : "");
    }
    memory_free(lock);
    memory_free(s);
    return tiles;
}

/* fmax and addition that pass over what is unknown. */
static double most(double a, double b) { return isnan(a) ? b : isnan(b) ? a : fmax(a, b); }
static double sum(double a, double b) { return isnan(a) ? b : isnan(b) ? a : a + b; }

/* A living launch counts before dead ones. */
static void add_file(struct progress_file *all, struct progress_file *one)
{
    if (one->launches == 0 && all->launches > 0) {
        memory_free(one->ids);
        return;
    }
    if (one->launches > 0 && all->launches == 0) {
        memory_free(all->ids);
        *all = *one;
        return;
    }
    char *ids = memory_format("%s%s", all->ids, one->ids);
    memory_free(all->ids);
    memory_free(one->ids);
    *all = (struct progress_file){.launches = all->launches + one->launches,
                                  .runs_per_second = sum(all->runs_per_second, one->runs_per_second),
                                  .seconds_left = most(all->seconds_left, one->seconds_left),
                                  .quarantined = all->quarantined + one->quarantined, .ids = ids};
}

static bool is_ours(const char *name)
{
    int used = 0;
    return !strcmp(name, "progress.json") || (sscanf(name, "progress.%*d-of-%*d.json%n", &used) == 0 && used && !name[used]);
}

bool progress_read(const char *dir, struct progress_file *out)
{
    bool any = false;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct progress_file one;
        if (!is_ours(e->d_name) || !read_file(dir, e->d_name, &one))
            continue;
        if (any)
            add_file(out, &one);
        else
            *out = one;
        any = true;
    }
    if (d)
        closedir(d);
    return any;
}
