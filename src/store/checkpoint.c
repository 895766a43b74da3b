/* The checkpoint file DIR/checkpoints/ID.ck: a sealed file (seal.h) whose content is the line
 *
 *     invar checkpoint VERSION ID\n
 *
 * and the caller's bytes. It is valid when its seal holds and the line is that of this version and this tile. */
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/publish.h"
#include "store/seal.h"
#include "store/store_inside.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define VERSION 1

static char *path_of(const struct store *s, const char *tile_id)
{
    return memory_format("%s/checkpoints/%s.ck", s->dir, tile_id);
}

static char *first_line(const char *tile_id) { return memory_format("invar checkpoint %d %s\n", VERSION, tile_id); }

enum status store_put_checkpoint(struct store *s, const char *tile_id, const void *bytes, size_t n)
{
    char *path = path_of(s, tile_id), *temporary = publish_temporary(path), *line = first_line(tile_id);
    struct text content = {0};
    text_add_bytes(&content, line, strlen(line));
    text_add_bytes(&content, bytes, n);
    enum status status = store_may_write(s);
    if (status == STATUS_OK)
        status = store_mend_folder(s, "checkpoints");
    if (status == STATUS_OK)
        status = seal_write(temporary, content.s, content.length, "");
    if (status == STATUS_OK)
        status = publish_file(temporary, path);
    text_free(&content);
    memory_free(line), memory_free(temporary), memory_free(path);
    return status;
}

/* Splits the content behind its first line off into *bytes.   fails: STATUS_VERSION, STATUS_CORRUPT */
static enum status take_bytes(const char *path, const char *tile_id, const char *content, size_t length, void **bytes,
                              size_t *n)
{
    static const char start[] = "invar checkpoint ";
    char *line = first_line(tile_id);
    size_t lead = strlen(line);
    enum status s = STATUS_OK;
    if (length < sizeof start || memcmp(content, start, sizeof start - 1))
        s = status_fail(STATUS_CORRUPT, "%s: is no checkpoint", path);
    else if (length < lead || memcmp(content, line, strcspn(line + sizeof start - 1, " ") + sizeof start))
        s = status_fail(STATUS_VERSION, "%s: has another format version than %d", path, VERSION);
    else if (memcmp(content, line, lead))
        s = status_fail(STATUS_CORRUPT, "%s: belongs to another tile", path);
    memory_free(line);
    if (s != STATUS_OK)
        return s;
    *n = length - lead;
    *bytes = memory_new(*n, 1);
    memcpy(*bytes, content + lead, *n);
    return STATUS_OK;
}

static enum status set_aside(const struct store *s, const char *path)
{
    if (s->role == STORE_READER) {
        log_line(LOG_WARNING, "%s; it counts as missing", status_text());
        return STATUS_OK;
    }
    char *folder = memory_format("%s/damaged", s->dir);
    enum status status = publish_move_aside(path, folder, status_text());
    memory_free(folder);
    return status;
}

enum status store_get_checkpoint(struct store *s, const char *tile_id, void **bytes, size_t *n)
{
    char *path = path_of(s, tile_id);
    struct sealed file = {0};
    *bytes = NULL;
    *n = 0;
    enum status status = STATUS_OK;
    if (access(path, F_OK) == 0 || errno != ENOENT) {
        status = seal_read(path, &file);
        if (status == STATUS_OK)
            status = take_bytes(path, tile_id, file.content, file.length, bytes, n);
    }
    if (status == STATUS_CORRUPT || status == STATUS_VERSION)
        status = set_aside(s, path);
    memory_free(file.content);
    memory_free(path);
    return status;
}

void store_drop_checkpoint(struct store *s, const char *tile_id)
{
    char *path = path_of(s, tile_id);
    if (unlink(path) && errno != ENOENT)
        log_line(LOG_WARNING, "%s: cannot be removed: %s", path, strerror(errno));
    memory_free(path);
}

void store_each_checkpoint(struct store *s, void (*each)(void *context, const char *tile_id), void *context)
{
    char *folder = memory_format("%s/checkpoints", s->dir);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char id[HASH_TEXT];
        int used = 0;
        if (sscanf(e->d_name, "%32[0-9a-f].ck%n", id, &used) == 1 && used && !e->d_name[used])
            each(context, id);
    }
    if (d)
        closedir(d);
    memory_free(folder);
}
