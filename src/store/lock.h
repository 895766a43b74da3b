/* lock.h: one launch at a time in an output folder.
 *
 * The lock is a record lock of an open file description (F_OFD_SETLK) on DIR/lock: the kernel, or the file server,
 * drops it when the holder dies in whatever way, so nothing is ever left to be cleaned up. Who holds it is written
 * into the file, for people; the text is not the lock.
 */
#ifndef INVAR_STORE_LOCK_H
#define INVAR_STORE_LOCK_H

#include "base/status.h"

struct lock;

/* Takes the lock on the file `path`, made when missing, without waiting.   out: *lock, released with lock_release
 * fails: STATUS_LOCKED (text: who holds it), STATUS_IO */
enum status lock_take(const char *path, struct lock **lock);
void lock_release(struct lock *lock);

/* Whether some process holds the lock on `path` now; takes nothing and makes no file. */
int lock_is_held(const char *path);

#endif
