#include "base/log.h"

#include "base/memory.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

/* Repeats are counted in a small table by hash of the text; when it is full the oldest entry makes room. */
enum { REMEMBERED = 256, LINE_MAX_BYTES = 4200 };

static struct {
    pthread_mutex_t lock;
    enum log_level threshold;
    char who[32];
    FILE *file;
    void (*before)(void);
    struct { uint64_t hash; long count; char start[80]; } seen[REMEMBERED];
    int next;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .threshold = LOG_INFO};

static const char *const level_name[] = {"", "", "warning: ", "error: "};

void log_threshold(enum log_level level) { state.threshold = level; }
void log_who(const char *who) { snprintf(state.who, sizeof state.who, "%s", who ? who : ""); }
void log_before_line(void (*hook)(void)) { state.before = hook; }

int log_file(const char *path)
{
    pthread_mutex_lock(&state.lock);
    if (state.file)
        fclose(state.file);
    state.file = path ? fopen(path, "a") : NULL;
    if (state.file)
        setvbuf(state.file, NULL, _IOLBF, 0);
    int ok = !path || state.file;
    pthread_mutex_unlock(&state.lock);
    return ok;
}

/* How often this text has come before, this time included. */
static long times_seen(const char *text)
{
    uint64_t h = XXH3_64bits(text, strlen(text));
    for (int i = 0; i < REMEMBERED; i++)
        if (state.seen[i].count && state.seen[i].hash == h)
            return ++state.seen[i].count;
    int i = state.next;
    state.next = (state.next + 1) % REMEMBERED;
    state.seen[i].hash = h;
    state.seen[i].count = 1;
    snprintf(state.seen[i].start, sizeof state.seen[i].start, "%.*s", (int)sizeof state.seen[i].start - 1, text);
    return 1;
}

static void to_file(enum log_level level, const char *text)
{
    char stamp[32];
    time_t now = time(NULL);
    struct tm tm;
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    fprintf(state.file, "%s %s%s%s%s\n", stamp, state.who, state.who[0] ? ": " : "", level_name[level], text);
}

void log_line(enum log_level level, const char *format, ...)
{
    char text[LINE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&state.lock);
    long n = times_seen(text);
    if (n <= LOG_REPEATS) {
        const char *more = n == LOG_REPEATS ? " (said 5 times; not again)" : "";
        if (level >= state.threshold) {
            if (state.before)
                state.before();
            fprintf(stderr, "invar: %s%s%s%s%s\n", state.who, state.who[0] ? ": " : "", level_name[level], text, more);
        }
        if (state.file && level > LOG_DETAIL)
            to_file(level, text);
    }
    pthread_mutex_unlock(&state.lock);
}

void log_finish(void)
{
    pthread_mutex_lock(&state.lock);
    for (int i = 0; i < REMEMBERED; i++)
        if (state.seen[i].count > LOG_REPEATS && state.file)
            fprintf(state.file, "(%ld times) %s\n", state.seen[i].count, state.seen[i].start);
    if (state.file)
        fclose(state.file);
    state.file = NULL;
    pthread_mutex_unlock(&state.lock);
}
