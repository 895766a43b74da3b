/* ncfile_inside.h: what ncfile.c (writing) and ncread.c (reading) share; for them alone. */
#ifndef INVAR_STORE_NCFILE_INSIDE_H
#define INVAR_STORE_NCFILE_INSIDE_H

#include "base/memory.h"
#include "store/ncfile.h"

#include <netcdf.h>

struct ncfile {
    int id;
    int writing;
    char *path;
    char *note;              /* writing: goes into the seal; NULL: none */
    void *image;             /* reading: the file's bytes, which the library looks into until it is closed */
    enum status status;      /* the first failure, and its message */
    char *message;
    struct arena *arena;     /* names and attributes handed out to the caller */
};

/* One variable as the library knows it. */
struct ncfile_layout {
    int id, rank;
    nc_type type;
    int dimension[NC_MAX_VAR_DIMS];
    size_t length[NC_MAX_VAR_DIMS];
    size_t count;            /* product of the lengths; 1 for a scalar */
};

/* Reads a file that seal_read has verified; owns `content` from now on, also on failure. */
enum status ncfile_open_content(const char *path, void *content, size_t n, struct ncfile **f);

/* Keeps the first failure. `variable` may be NULL. Returns whether the file is still good, that is `code` is NC_NOERR.
 * */
int ncfile_keep(struct ncfile *f, int code, const char *variable, const char *what);
void ncfile_fail(struct ncfile *f, enum status s, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* 0 when the file has failed or has no such variable (then it fails). */
int ncfile_find(struct ncfile *f, const char *variable, struct ncfile_layout *v);
/* Bytes of an element of this type; 0 for a type that these files do not have. */
size_t ncfile_type_size(nc_type type);

#endif
