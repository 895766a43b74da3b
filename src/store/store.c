#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/publish.h"
#include "store/store_inside.h"
#include "store/strikes.h"
#include "store/tile.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const folders[] = {"tiles", "checkpoints", "figures", "strikes"};
#define FOLDERS (sizeof folders / sizeof *folders)
enum { FOLDERS_MADE = 2 };           /* the others only when they are needed */

/* ---- opening ---- */

static struct store *new_store(const char *dir, enum store_role role)
{
    struct store *s = memory_new(1, sizeof *s);
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        n--;
    s->dir = memory_format("%.*s", (int)n, dir);
    s->role = role;
    return s;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    lease_release(s->lease);
    plan_free(s->plan);
    ledger_clear(&s->ledger);
    memory_free(s->dir);
    memory_free(s);
}

const char *store_dir(const struct store *s) { return s->dir; }

static enum status make_folders(const struct store *s)
{
    enum status status = publish_folder(s->dir);
    for (size_t i = 0; i < FOLDERS_MADE && status == STATUS_OK; i++) {
        char *path = memory_format("%s/%s", s->dir, folders[i]);
        status = publish_folder(path);
        memory_free(path);
    }
    return status == STATUS_OK ? publish_sync_folder(s->dir) : status;
}

static void add_launch(void *context, const char *name, int part, int parts, const char *id)
{
    (void)name, (void)part, (void)parts;
    text_add((struct text *)context, "%s ", id);
}

/* Temporaries of parts that hold a lease are theirs. */
static void remove_strays(const struct store *s)
{
    struct text launches = {0};
    lease_list(s->dir, add_launch, &launches);
    publish_remove_strays(s->dir, text_string(&launches));
    for (size_t i = 0; i < FOLDERS; i++) {
        char *path = memory_format("%s/%s", s->dir, folders[i]);
        publish_remove_strays(path, text_string(&launches));
        memory_free(path);
    }
    text_free(&launches);
}

static enum status take_lease(struct store *s, const struct lease_terms *terms)
{
    enum status status = lease_take(s->dir, terms, &s->lease);
    if (status != STATUS_OK)
        return status;
    s->ticket = (struct store_ticket){.part = terms->part, .parts = terms->parts};
    memcpy(s->ticket.id, lease_id(s->lease), sizeof s->ticket.id);
    publish_launch(s->ticket.id);
    return STATUS_OK;
}

struct store_ticket store_ticket(const struct store *s) { return s->ticket; }

void store_adopt(struct store *s, const struct store_ticket *t)
{
    s->ticket = *t;
    publish_launch(t->id);
}

bool store_is_lost(const struct store *s) { return s->lease && lease_lost(s->lease); }

bool store_is_own(const struct store *s) { return store_may_write(s) == STATUS_OK; }

enum status store_may_write(const struct store *s)
{
    return s->ticket.id[0] ? lease_check(s->dir, s->ticket.part, s->ticket.parts, s->ticket.id) : STATUS_OK;
}

/* From here on the log goes to the folder, too; a log that cannot be written is no reason to stop. */
static void start_log(const struct store *s)
{
    char suffix[32];
    lease_suffix(suffix, s->ticket.part, s->ticket.parts);
    char *path = memory_format("%s/log%s.txt", s->dir, suffix);
    if (!log_file(path))
        log_line(LOG_WARNING, "%s: cannot be written: %s", path, strerror(errno));
    memory_free(path);
}

static enum status write_job(const struct store *s, const struct job *job)
{
    char *path = memory_format("%s/job.yaml", s->dir), *text = job_print(job);
    enum status status = publish_bytes(path, text, strlen(text));
    memory_free(text);
    memory_free(path);
    return status;
}

enum status store_open(const char *dir, const struct job *job, struct store **store)
{
    return store_open_terms(dir, job, &(struct lease_terms){0}, store);
}

enum status store_open_terms(const char *dir, const struct job *job, const struct lease_terms *terms, struct store **store)
{
    struct store *s = new_store(dir, STORE_OWNER);
    enum status status = make_folders(s);
    if (status == STATUS_OK)
        status = take_lease(s, terms);
    if (status == STATUS_OK) {
        start_log(s);
        remove_strays(s);
        strikes_sweep(s);
        s->plan = plan_new(job);
        status = ledger_read(s);
    }
    if (status == STATUS_OK)
        status = change_check(s, job);
    if (status == STATUS_OK)
        status = write_job(s, job);
    if (status != STATUS_OK) {
        store_close(s);
        return status;
    }
    s->fresh = 1;
    *store = s;
    return STATUS_OK;
}

static enum status must_exist(const struct store *s)
{
    struct stat st;
    if (stat(s->dir, &st))
        return status_fail(STATUS_IO, "%s: cannot be opened: %s", s->dir, strerror(errno));
    return S_ISDIR(st.st_mode) ? STATUS_OK : status_fail(STATUS_IO, "%s: is not a folder", s->dir);
}

enum status store_open_read(const char *dir, struct store **store, struct job **job)
{
    struct store *s = new_store(dir, STORE_READER);
    char *path = memory_format("%s/job.yaml", s->dir);
    enum status status = must_exist(s);
    if (status == STATUS_OK && access(path, F_OK))
        status = status_fail(STATUS_IO, "%s: is no output folder of this program: it has no job.yaml", s->dir);
    if (status == STATUS_OK)
        status = job_read(path, NULL, 0, job);
    memory_free(path);
    if (status == STATUS_OK)
        *store = s;
    else
        store_close(s);
    return status;
}

enum status store_look(const char *dir, const struct job *job, struct store **store)
{
    struct store *s = new_store(dir, STORE_READER);
    char *path = memory_format("%s/job.yaml", s->dir);
    bool there = access(path, F_OK) == 0;
    memory_free(path);
    enum status status = there ? ledger_read(s) : STATUS_OK;
    if (there && status == STATUS_OK)
        status = change_check(s, job);
    s->fresh = there;
    *store = there && status == STATUS_OK ? s : NULL;
    if (!*store)
        store_close(s);
    return status;
}

enum status store_join(const char *dir, const struct job *job, struct store **store)
{
    (void)job;
    struct store *s = new_store(dir, STORE_WORKER);
    enum status status = must_exist(s);
    if (status == STATUS_OK)
        *store = s;
    else
        store_close(s);
    return status;
}

/* ---- finished runs ---- */

/* A look at the folder as it is now; store_open's own serves once. */
static enum status look(struct store *s)
{
    if (!s->fresh)
        return ledger_read(s);
    s->fresh = 0;
    return STATUS_OK;
}

enum status store_scan(struct store *s, const struct job *job, int *outcome, int *damaged)
{
    char id[HASH_TEXT];
    enum status status = look(s);
    if (status != STATUS_OK)
        return status;
    struct job_ids *ids = job_ids_new(job);
    for (size_t i = 0; i < job_runs(job); i++) {
        job_ids_of(ids, i, id);
        const struct ledger_run *r = ledger_find(&s->ledger, id);
        outcome[i] = r ? (int)r->outcome : -1;
    }
    job_ids_free(ids);
    *damaged = s->ledger.damaged;
    return STATUS_OK;
}

/* Whether the file at `path` holds nothing but runs that are among the records. */
static int is_covered(const char *path, const struct record *records, int count)
{
    struct tile *t;
    if (tile_open(path, &t) != STATUS_OK)
        return 0;
    int covered = 1;
    for (int i = 0; i < tile_runs(t) && covered; i++) {
        covered = 0;
        for (int k = 0; k < count && !covered; k++)
            covered = !strcmp(tile_run_id(t, i), records[k].id);
    }
    tile_close(t);
    return covered;
}

/* The name to publish under: the tile's id, with -2, -3, ... behind it where a file of that name holds other runs too.
 * */
static char *tile_name(const struct store *s, const struct plan_tile *tile, const struct record *records, int count)
{
    char *path = memory_format("%s/tiles/%s.nc", s->dir, tile->id);
    for (int i = 2; access(path, F_OK) == 0 && !is_covered(path, records, count); i++) {
        memory_free(path);
        path = memory_format("%s/tiles/%s-%d.nc", s->dir, tile->id, i);
    }
    return path;
}

enum status store_mend_folder(const struct store *s, const char *name)
{
    char *path = memory_format("%s/%s", s->dir, name);
    enum status status = STATUS_OK;
    if (access(path, F_OK) && errno == ENOENT && access(s->dir, F_OK) == 0) {
        log_line(LOG_WARNING, "%s: is gone; it is made again", path);
        status = publish_folder(path);
    }
    memory_free(path);
    return status;
}

bool store_may_pass(void) { return publish_error_may_pass(publish_error()); }

size_t store_vanished(const struct store *s)
{
    size_t n = 0;
    bool *seen = memory_new(s->ledger.files + 1, sizeof *seen);
    for (size_t i = 0; i < s->ledger.runs; i++) {
        size_t file = s->ledger.run[i].file;
        n += !seen[file] && access(s->ledger.file[file], F_OK) && errno == ENOENT;
        seen[file] = true;
    }
    memory_free(seen);
    return n;
}

static enum status publish(const struct store *s, const char *temporary, const char *path)
{
    enum status status = store_may_write(s);
    if (status == STATUS_OK)
        return publish_file(temporary, path);
    unlink(temporary);
    return status;
}

enum status store_put_tile(struct store *s, const struct job *job, const struct plan_tile *tile,
                           const struct record *records, int count)
{
    char *path = tile_name(s, tile, records, count), *temporary = publish_temporary(path), *text = job_print(job);
    publish_error_set(0);
    enum status status = store_may_write(s);
    if (status == STATUS_OK)
        status = store_mend_folder(s, "tiles");
    if (status == STATUS_OK)
        status = tile_write(temporary, tile->id, text, records, count);
    if (status == STATUS_OK)
        status = publish(s, temporary, path);
    s->fresh = 0;
    memory_free(text), memory_free(temporary), memory_free(path);
    return status;
}

bool store_has_tile(const struct store *s, const char *tile_id)
{
    char *path = memory_format("%s/tiles/%s.nc", s->dir, tile_id);
    bool there = access(path, F_OK) == 0;
    memory_free(path);
    return there;
}

int store_tile_outcome(const struct store *s, const char *tile_id, const char *run_id)
{
    char *path = memory_format("%s/tiles/%s.nc", s->dir, tile_id);
    struct tile *t;
    int outcome = -1;
    if (access(path, F_OK) == 0 && tile_open(path, &t) == STATUS_OK) {
        for (int i = 0; i < tile_runs(t); i++)
            if (!strcmp(tile_run_id(t, i), run_id))
                outcome = (int)tile_outcome(t, i);
        tile_close(t);
    }
    memory_free(path);
    return outcome;
}

/* An open tile, kept while neighbouring runs lie in it. */
struct cursor {
    struct tile *tile;
    size_t file;
};

static enum status read_record(const struct store *s, const struct ledger_run *where, struct cursor *c,
                               struct record *r)
{
    if (c->tile && c->file != where->file) {
        tile_close(c->tile);
        c->tile = NULL;
    }
    if (!c->tile) {
        enum status status = tile_open(s->ledger.file[where->file], &c->tile);
        if (status != STATUS_OK)
            return status;
        c->file = where->file;
    }
    if (where->row >= tile_runs(c->tile) || strcmp(tile_run_id(c->tile, where->row), where->id))
        return status_fail(STATUS_IO, "%s: was replaced while it was read: run the same command again",
                           s->ledger.file[where->file]);
    return tile_record(c->tile, where->row, r);
}

enum status store_read(struct store *s, const struct job *job, store_each *each, void *context)
{
    struct cursor c = {0};
    char id[HASH_TEXT];
    enum status status = look(s);
    struct job_ids *ids = job_ids_new(job);
    for (size_t i = 0; status == STATUS_OK && i < job_runs(job); i++) {
        job_ids_of(ids, i, id);
        const struct ledger_run *where = ledger_find(&s->ledger, id);
        if (!where)
            continue;
        struct record r = {0};
        status = read_record(s, where, &c, &r);
        if (status == STATUS_OK)
            status = each(context, i, &r);
        record_clear(&r);
    }
    job_ids_free(ids);
    if (c.tile)
        tile_close(c.tile);
    return status;
}

/* Where a run lies; NULL: nowhere. Other ranks may have put it there since the last look. */
static enum status find_run(struct store *s, const struct job *job, size_t run, const struct ledger_run **where)
{
    char id[HASH_TEXT];
    job_id_of(job, run, id);
    *where = s->looked ? ledger_find(&s->ledger, id) : NULL;
    if (*where)
        return STATUS_OK;
    if (!s->plan)                          /* the listing may lag behind: tiles are found by their names */
        s->plan = plan_new(job);
    enum status status = ledger_read(s);
    if (status != STATUS_OK)
        return status;
    *where = ledger_find(&s->ledger, id);
    return *where ? STATUS_OK : status_fail(STATUS_IO, "%s: has no finished run %s", s->dir, id);
}

enum status store_read_run(struct store *s, const struct job *job, size_t run, struct record *r)
{
    struct cursor c = {0};
    const struct ledger_run *where;
    enum status status = find_run(s, job, run, &where);
    if (status == STATUS_OK)
        status = read_record(s, where, &c, r);
    if (c.tile)
        tile_close(c.tile);
    return status;
}

enum status store_read_origin(struct store *s, const struct job *job, size_t run, struct store_origin *o)
{
    struct tile *t;
    const struct ledger_run *where;
    enum status status = find_run(s, job, run, &where);
    if (status == STATUS_OK)
        status = tile_open(s->ledger.file[where->file], &t);
    if (status != STATUS_OK)
        return status;
    *o = (struct store_origin){.revision = tile_attribute(t, "invar_revision"), .libraries = tile_attribute(t, "libraries"),
                               .instruction_set = tile_attribute(t, "instruction_set"),
                               .subnormals = tile_attribute(t, "subnormals")};
    tile_close(t);
    return STATUS_OK;
}

void store_origin_clear(struct store_origin *o)
{
    memory_free(o->revision);
    memory_free(o->libraries);
    memory_free(o->instruction_set);
    memory_free(o->subnormals);
    *o = (struct store_origin){0};
}

/* ---- any other file ---- */

char *store_temporary(struct store *s, const char *name)
{
    char *target = memory_format("%s/%s", s->dir, name), *temporary = publish_temporary(target);
    char *slash = strrchr(target, '/');
    *slash = '\0';
    if (publish_folder(target) != STATUS_OK)       /* whoever creates the file meets the same error and reports it */
        log_line(LOG_DETAIL, "%s", status_text());
    memory_free(target);
    return temporary;
}

enum status store_publish(struct store *s, const char *temporary, const char *name)
{
    char *target = memory_format("%s/%s", s->dir, name);
    enum status status = publish(s, temporary, target);
    memory_free(target);
    return status;
}
