/* ncfile.h: one writer's NetCDF-4 file, by CF-1.10.
 *
 * Errors stick: after the first one every call does nothing and ncfile_close returns it, so that a file is written as
 * a straight list of statements. The library's own text, the file and the variable stand in the message.
 *
 * Kept for all files: NetCDF-4, shuffle and deflate 1 on arrays of 4 KiB and more, fletcher32 off (the whole
 * file has a checksum, see below), `_FillValue` of the variable's own type on every data variable and none on
 * coordinate variables (a variable named as its only dimension), units and long_name on every variable, no strings or
 * VLENs in user types: texts are char arrays. NaN in a double or float variable is written as its _FillValue.
 *
 * A file lies in memory until it is closed, and again when it is opened: every error of the disk is then one of
 * write(2) or read(2), and no HDF5 file locks are needed. Files are sealed (seal.h): ncfile_open refuses one that is
 * cut or damaged. Readers list the variables by name, whatever the order in which they were defined.
 * Not thread-safe, as HDF5 is not: one thread of a process at a time.
 */
#ifndef INVAR_STORE_NCFILE_H
#define INVAR_STORE_NCFILE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct ncfile;

enum nc_type_name { NCFILE_DOUBLE, NCFILE_FLOAT, NCFILE_INT, NCFILE_INT64, NCFILE_BYTE, NCFILE_CHAR };

/* Fill values: NaN is never stored. */
#define NCFILE_FILL_DOUBLE 9.969209968386869e+36
#define NCFILE_FILL_INT (-2147483647)

/* ---- writing ---- */

/* A new file at `path` (a store_temporary), with title, history, Conventions, the program's revision and library
 * versions. SOURCE_DATE_EPOCH (seconds) in the environment pins the time stamp in history. */
enum status ncfile_create(const char *path, const char *title, struct ncfile **f);
/* A length of 0 is stored as an unlimited dimension that stays empty. */
void ncfile_dimension(struct ncfile *f, const char *name, size_t length);
/* dims: names separated by blanks, slowest first ("run component"); "" is a scalar. */
void ncfile_variable(struct ncfile *f, const char *name, enum nc_type_name type, const char *dims, const char *units,
                     const char *long_name);
void ncfile_attribute(struct ncfile *f, const char *variable, const char *name, const char *text);
void ncfile_attribute_double(struct ncfile *f, const char *variable, const char *name, double value);
/* CF flags: values 0..n-1 with these words. */
void ncfile_flags(struct ncfile *f, const char *variable, int n, const char *const *words);
/* The coordinates attribute, for auxiliary coordinates of a data variable. */
void ncfile_coordinates(struct ncfile *f, const char *variable, const char *names);
/* Whole variables. Element counts follow from the dimensions. For NCFILE_FLOAT variables put takes double too. */
void ncfile_put(struct ncfile *f, const char *variable, const double *values);
void ncfile_put_float(struct ncfile *f, const char *variable, const float *values);
void ncfile_put_int(struct ncfile *f, const char *variable, const int64_t *values);
/* The whole variable in its own C type (double, float, int32_t, int64_t, signed char, char), bits as they are: NaN
 * stays NaN. */
void ncfile_put_raw(struct ncfile *f, const char *variable, const void *values);
void ncfile_put_raw_slab(struct ncfile *f, const char *variable, size_t first, size_t count, const void *values);
/* One slab: index `first` of the slowest dimension, `count` of them. */
void ncfile_put_slab(struct ncfile *f, const char *variable, size_t first, size_t count, const double *values);
/* A char variable [.., length], its length a dimension NAME_length: one text (scalar of dims "length") or many rows. */
void ncfile_text(struct ncfile *f, const char *name, const char *long_name, const char *text);     /* own dimension */
void ncfile_texts(struct ncfile *f, const char *name, const char *dim, const char *long_name, size_t n,
                  const char *const *texts);
/* A text for the seal's note: readers of the program get it without opening the NetCDF part. */
void ncfile_note(struct ncfile *f, const char *text);
/* Closes; returns the first error. A file that was being written is on the disk (not yet durable: store_publish), or
 * after an error not there at all. */
enum status ncfile_close(struct ncfile *f);

/* ---- reading ---- */

/* fails: STATUS_IO, STATUS_CORRUPT (cut short, damaged, not ours) */
enum status ncfile_open(const char *path, struct ncfile **f);
int ncfile_has(struct ncfile *f, const char *variable);
size_t ncfile_length(struct ncfile *f, const char *dimension);        /* 0 when it is not there */
int ncfile_rank(struct ncfile *f, const char *variable);
/* Dimension i of a variable: its name (owned by f) and length. */
const char *ncfile_variable_dimension(struct ncfile *f, const char *variable, int i, size_t *length);
/* The whole variable as double, fill values as NaN; memory_free. NULL and a sticky error when it is not there. */
double *ncfile_get(struct ncfile *f, const char *variable, size_t *count);
double *ncfile_get_slab(struct ncfile *f, const char *variable, size_t first, size_t count, size_t *values);
/* The whole variable in its own C type, bits as they are; memory_free. NULL and a sticky error when it has another
 * type. */
void *ncfile_get_raw(struct ncfile *f, const char *variable, enum nc_type_name type, size_t *count);
void *ncfile_get_raw_slab(struct ncfile *f, const char *variable, enum nc_type_name type, size_t first, size_t count,
                          size_t *values);
char *ncfile_get_text(struct ncfile *f, const char *variable);
char **ncfile_get_texts(struct ncfile *f, const char *variable, size_t *count);   /* each and the list memory_free'd */
/* "" when absent; owned by f. */
const char *ncfile_get_attribute(struct ncfile *f, const char *variable, const char *name);
/* Number of variables and the name of number i (owned by f). */
int ncfile_variables(struct ncfile *f);
const char *ncfile_variable_name(struct ncfile *f, int i);

#endif
