/* publish.h: a file appears whole or not at all: temporary name, fsync, rename, fsync of the folder.
 *
 * A temporary is named FOLDER/.tmp-HOST.PID.TOKEN.COUNTER.LAUNCH-NAME. TOKEN is drawn once per process, so that two
 * launches never share a name, not even where an old instance of a requeued job goes on running, or hosts and processes
 * are numbered alike. LAUNCH is the id of the launch's lease (0 when it has none).
 */
#ifndef INVAR_STORE_PUBLISH_H
#define INVAR_STORE_PUBLISH_H

#include "base/status.h"

#include <stddef.h>

/* The launch that this process belongs to, for the names of its temporaries. */
void publish_launch(const char *id);
/* A temporary path in the folder of `target`, unique; the caller frees it. */
char *publish_temporary(const char *target);
/* Makes `temporary` durable under the name `target` of the same folder, replacing what is there.
 * fails: STATUS_IO; the temporary is removed and `target` is as it was */
enum status publish_file(const char *temporary, const char *target);
/* Writes `n` bytes as a file under the name `target`, published. */
enum status publish_bytes(const char *target, const void *bytes, size_t n);

/* errno of the last write, fsync or rename that failed in this thread, in publish.c and seal.c; and whether it may pass by
 * itself: no room, a quota, a file server that does not answer or has lost a file. */
int publish_error(void);
void publish_error_set(int error);
int publish_error_may_pass(int error);

/* Creates a folder and those above it where they are missing.   fails: STATUS_IO */
enum status publish_folder(const char *path);
/* Makes the entries of a folder durable.   fails: STATUS_IO */
enum status publish_sync_folder(const char *path);

/* Removes the temporaries in `folder` that belong to no launch named in `launches` and to no living process of this
 * host. Only the holder of a lease on the store may. */
void publish_remove_strays(const char *folder, const char *launches);
/* Moves `path` to `folder` (made when missing) under its own name, or with .1, .2, ... behind it when that is taken,
 * and says so in the log with `why`.   fails: STATUS_IO */
enum status publish_move_aside(const char *path, const char *folder, const char *why);

#endif
