#include "store/strikes.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/publish.h"
#include "store/store_inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOG_LINES = 5, LOG_BYTES = 2000 };

/* The mark of this process. The line of the run has a fixed width and is overwritten in place. */
static struct {
    int fd;
    off_t run_at;
} own = {.fd = -1};

#define RUN_LINE "run %-32.32s\n"

static char *mark_path(const struct store *s, const char *tile_id, int rank)
{
    return memory_format("%s/training/%s.%s.%d", s->dir, tile_id, s->ticket.id, rank);
}

static char *strike_path(const char *dir, const char *tile_id, int n)
{
    return memory_format("%s/strikes/%s.%d", dir, tile_id, n);
}

/* ---- the rank that trains ---- */

static int open_mark(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    char *folder = memory_format("%.*s", (int)(strrchr(path, '/') - path), path);
    if (publish_folder(folder) == STATUS_OK)
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    memory_free(folder);
    return fd;
}

void strikes_begin(struct store *s, const char *tile_id, int rank)
{
    if (!s->ticket.id[0])
        return;
    char *path = mark_path(s, tile_id, rank), host[64] = "";
    gethostname(host, sizeof host - 1);
    own.fd = open_mark(path);
    if (own.fd >= 0) {
        char *line = memory_format("rank %d, process %ld on %s\n", rank, (long)getpid(), host);
        own.run_at = write(own.fd, line, strlen(line));
        memory_free(line);
        strikes_run("");
    }
    memory_free(path);
}

void strikes_run(const char *run_id)
{
    char line[64];
    int n = snprintf(line, sizeof line, RUN_LINE, run_id);
    if (own.fd >= 0 && own.run_at > 0 && pwrite(own.fd, line, (size_t)n, own.run_at) < 0)
        errno = 0;
}

void strikes_signal(int number)
{
    char text[] = "signal 00\n";
    text[7] = (char)('0' + number / 10 % 10);
    text[8] = (char)('0' + number % 10);
    if (own.fd >= 0 && lseek(own.fd, 0, SEEK_END) >= 0 && write(own.fd, text, sizeof text - 1) < 0)
        errno = 0;
}

void strikes_clear(struct store *s, const char *tile_id)
{
    bool any = true;
    for (int n = 1; any; n++) {
        char *path = strike_path(s->dir, tile_id, n);
        any = unlink(path) == 0;
        memory_free(path);
    }
}

void strikes_end(struct store *s, const char *tile_id, int rank)
{
    if (!s->ticket.id[0])
        return;
    char *path = mark_path(s, tile_id, rank);
    if (own.fd >= 0)
        close(own.fd);
    own.fd = -1;
    unlink(path);
    memory_free(path);
}

/* ---- the owner ---- */

/* The last lines of the log of this part. */
static void add_log(const struct store *s, struct text *t)
{
    char suffix[32], tail[LOG_BYTES + 1];
    lease_suffix(suffix, s->ticket.part, s->ticket.parts);
    char *path = memory_format("%s/log%s.txt", s->dir, suffix);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    memory_free(path);
    if (fd < 0)
        return;
    off_t end = lseek(fd, 0, SEEK_END);
    ssize_t n = pread(fd, tail, LOG_BYTES, end > LOG_BYTES ? end - LOG_BYTES : 0);
    close(fd);
    tail[n > 0 ? n : 0] = '\0';
    const char *from = tail + strlen(tail);
    for (int lines = 0; from > tail && lines <= LOG_LINES;)
        if (*--from == '\n' && from[1])
            lines++;
    text_add(t, "%s", *from == '\n' ? from + 1 : from);
}

/* Makes a strike of the mark at `path`. */
static void strike(const struct store *s, const char *path, const char *tile_id, const char *why)
{
    struct text t = {0};
    char *mark = text_read_file(path, NULL);
    if (!mark)                           /* it was not in training any more, or not yet */
        return;
    text_add(&t, "%s%s\n", mark, why);
    add_log(s, &t);
    int n = strikes_count(s->dir, tile_id) + 1;
    char *target = strike_path(s->dir, tile_id, n), *folder = memory_format("%s/strikes", s->dir);
    if (publish_folder(folder) == STATUS_OK && publish_bytes(target, text_string(&t), t.length) == STATUS_OK)
        unlink(path);
    memory_free(folder);
    memory_free(target);
    memory_free(mark);
    text_free(&t);
}

void strikes_lost(struct store *s, const char *tile_id, int rank, const char *why)
{
    char *path = mark_path(s, tile_id, rank);
    strike(s, path, tile_id, why);
    memory_free(path);
}

static void add_launch(void *context, const char *name, int part, int parts, const char *id)
{
    (void)name, (void)part, (void)parts;
    text_add((struct text *)context, "%s ", id);
}

/* A mark of the own launch's id cannot be there before it begins; with every other one that holds a lease it is alive. */
void strikes_sweep(struct store *s)
{
    struct text launches = {0};
    char *folder = memory_format("%s/training", s->dir);
    DIR *d = opendir(folder);
    lease_list(s->dir, add_launch, &launches);
    for (struct dirent *e; d && (e = readdir(d));) {
        char tile[HASH_TEXT], launch[LEASE_ID_TEXT];
        int rank, used = 0;
        if (sscanf(e->d_name, "%32[0-9a-f].%16[0-9a-f].%d%n", tile, launch, &rank, &used) != 3 || e->d_name[used] ||
            strstr(text_string(&launches), launch))
            continue;
        char *path = memory_format("%s/%s", folder, e->d_name);
        strike(s, path, tile, "the launch ended without a word");
        memory_free(path);
    }
    if (d)
        closedir(d);
    memory_free(folder);
    text_free(&launches);
}

void strikes_each(struct store *s, void (*each)(void *context, const char *tile_id), void *context)
{
    char *folder = memory_format("%s/strikes", s->dir);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char tile[HASH_TEXT];
        int n, used = 0;
        if (sscanf(e->d_name, "%32[0-9a-f].%d%n", tile, &n, &used) == 2 && !e->d_name[used])
            each(context, tile);
    }
    if (d)
        closedir(d);
    memory_free(folder);
}

void strikes_tidy(struct store *s)
{
    static const char *const folders[] = {"training", "strikes"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *path = memory_format("%s/%s", s->dir, folders[i]);
        rmdir(path);
        memory_free(path);
    }
}

/* ---- reading ---- */

int strikes_count(const char *dir, const char *tile_id)
{
    for (int n = 1;; n++) {
        char *path = strike_path(dir, tile_id, n);
        bool there = access(path, F_OK) == 0;
        memory_free(path);
        if (!there)
            return n - 1;
    }
}

char *strikes_text(const char *dir, const char *tile_id, int n)
{
    char *path = strike_path(dir, tile_id, n), *text = text_read_file(path, NULL);
    memory_free(path);
    return text;
}
