#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/publish.h"
#include "store/store_inside.h"
#include "store/tile.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AGAIN_SECONDS 0.02

void ledger_clear(struct ledger *l)
{
    for (size_t i = 0; i < l->files; i++)
        memory_free(l->file[i]);
    memory_free(l->file);
    memory_free(l->run);
    *l = (struct ledger){0};
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int is_tile_name(const char *name)
{
    size_t n = strlen(name);
    return name[0] != '.' && n > 3 && !strcmp(name + n - 3, ".nc");
}

static void add_path(struct ledger *l, char *path)
{
    l->file = memory_grow(l->file, l->files, l->files + 1, sizeof *l->file);
    l->file[l->files++] = path;
}

static int is_listed(const struct ledger *l, size_t listed, char *path)
{
    return listed && bsearch(&path, l->file, listed, sizeof *l->file, by_text) != NULL;
}

/* A file server may hand out an old list of a folder's files, while a file is found by its name. */
static void add_unlisted(const struct store *s, struct ledger *l)
{
    size_t listed = l->files;
    for (size_t t = 0; s->plan && t < s->plan->tiles; t++) {
        char *path = memory_format("%s/tiles/%s.nc", s->dir, s->plan->tile[t].id);
        if (!is_listed(l, listed, path) && access(path, F_OK) == 0)
            add_path(l, path);
        else
            memory_free(path);
    }
    if (l->files > listed)
        qsort(l->file, l->files, sizeof *l->file, by_text);
}

/* Paths of the tiles, sorted by name. A folder that is not there yet has none. */
static enum status list_files(const struct store *store, struct ledger *l)
{
    char *folder = memory_format("%s/tiles", store->dir);
    DIR *d = opendir(folder);
    enum status s = STATUS_OK;
    if (!d && errno != ENOENT)
        s = status_fail(STATUS_IO, "%s: cannot be read: %s", folder, strerror(errno));
    size_t room = 0;
    for (struct dirent *e; d && (errno = 0, e = readdir(d));) {
        if (!is_tile_name(e->d_name))
            continue;
        if (l->files == room) {
            room = 2 * room + 64;
            l->file = memory_grow(l->file, l->files, room, sizeof *l->file);
        }
        l->file[l->files++] = memory_format("%s/%s", folder, e->d_name);
    }
    if (d && errno)
        s = status_fail(STATUS_IO, "%s: cannot be read: %s", folder, strerror(errno));
    if (d)
        closedir(d);
    memory_free(folder);
    if (l->files)
        qsort(l->file, l->files, sizeof *l->file, by_text);
    if (s == STATUS_OK)
        add_unlisted(store, l);
    return s;
}

/* The file is damaged; status_text() says how. */
static enum status set_aside(struct store *s, const char *path, struct ledger *l)
{
    l->damaged++;
    if (s->role != STORE_OWNER) {
        log_line(LOG_WARNING, "%s; its runs count as missing", status_text());
        return STATUS_OK;
    }
    char *folder = memory_format("%s/damaged", s->dir);
    enum status status = publish_move_aside(path, folder, status_text());
    memory_free(folder);
    return status;
}

static enum status add_file(struct store *s, size_t file, size_t *room, struct ledger *l)
{
    struct tile *t;
    enum status status = tile_open(l->file[file], &t);
    if (status == STATUS_CORRUPT) {      /* what a file server shows of a new file may lag behind: a second look decides */
        clock_rest(AGAIN_SECONDS);
        status = tile_open(l->file[file], &t);
    }
    if (status == STATUS_CORRUPT)
        return set_aside(s, l->file[file], l);
    if (status == STATUS_IO && access(l->file[file], F_OK) && errno == ENOENT)
        return STATUS_OK;                /* listed, and gone by now: another part has set it aside */
    if (status != STATUS_OK)
        return status;
    size_t n = (size_t)tile_runs(t);
    if (l->runs + n > *room) {
        *room = 2 * (l->runs + n);
        l->run = memory_grow(l->run, l->runs, *room, sizeof *l->run);
    }
    for (int i = 0; i < (int)n; i++) {
        struct ledger_run *r = &l->run[l->runs++];
        *r = (struct ledger_run){.outcome = tile_outcome(t, i), .file = file, .row = i};
        memcpy(r->id, tile_run_id(t, i), HASH_TEXT);
    }
    tile_close(t);
    return STATUS_OK;
}

/* A run that was trained anew after it had failed counts, wherever it lies. */
static int by_id_then_merit(const void *a, const void *b)
{
    const struct ledger_run *x = a, *y = b;
    int order = strcmp(x->id, y->id), failed = (x->outcome == OUTCOME_FAILED) - (y->outcome == OUTCOME_FAILED);
    if (order || failed)
        return order ? order : failed;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static void sort_and_drop_duplicates(struct ledger *l)
{
    size_t kept = 0;
    if (l->runs)
        qsort(l->run, l->runs, sizeof *l->run, by_id_then_merit);
    for (size_t i = 0; i < l->runs; i++)
        if (!kept || strcmp(l->run[kept - 1].id, l->run[i].id))
            l->run[kept++] = l->run[i];
    l->runs = kept;
}

enum status ledger_read(struct store *s)
{
    struct ledger l = {0};
    size_t room = 0;
    enum status status = list_files(s, &l);
    for (size_t i = 0; i < l.files && status == STATUS_OK; i++)
        status = add_file(s, i, &room, &l);
    if (status != STATUS_OK) {
        ledger_clear(&l);
        return status;
    }
    sort_and_drop_duplicates(&l);
    ledger_clear(&s->ledger);
    s->ledger = l;
    s->looked = 1;
    s->fresh = 0;
    return STATUS_OK;
}

static int compare_id(const void *id, const void *run) { return strcmp(id, ((const struct ledger_run *)run)->id); }

const struct ledger_run *ledger_find(const struct ledger *l, const char *id)
{
    return l->runs ? bsearch(id, l->run, l->runs, sizeof *l->run, compare_id) : NULL;
}
