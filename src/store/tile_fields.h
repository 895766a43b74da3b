/* tile_fields.h: every member of a record with its NetCDF variable, once; for tile.c (writing) and tile_read.c alone.
 * */
#ifndef INVAR_STORE_TILE_FIELDS_H
#define INVAR_STORE_TILE_FIELDS_H

#include "store/ncfile.h"
#include "store/record.h"

#define TILE_FORMAT "invar tile"
#define TILE_VERSION "2"
#define TILE_OLDER "1"               /* read, too */

/* Lengths that differ from record to record; a dimension of the file is as long as the longest of the tile. */
enum tile_extent { TILE_POINT, TILE_PROBE, TILE_FEATURE, TILE_CORE, TILE_OPERATOR, TILE_PART, TILE_SAMPLE, TILE_ONE };

/* One variable: a scalar of the struct (a and b TILE_ONE), or an array [a][b] that the struct points to. */
struct tile_field {
    const char *name, *dims, *units, *long_name;      /* dims: those after "run" or "run probe" */
    enum nc_type_name type;
    size_t offset;                                    /* of the member in its struct */
    enum tile_extent a, b;
};

#define TILE_FIELDS_MAX 32     /* of any table */

/* Of struct record: (run). */
extern const struct tile_field tile_run_fields[];
extern const int tile_run_fields_count;
/* Of struct record_curves: arrays (run, point). */
extern const struct tile_field tile_curve_fields[];
extern const int tile_curve_fields_count;
/* Of struct record_probe: scalars (run, probe). */
extern const struct tile_field tile_probe_fields[];
extern const int tile_probe_fields_count;
/* Of struct record_probe: arrays (run, probe, ..). Field k is there when bit k of probe_arrays(run, probe) is set. */
extern const struct tile_field tile_array_fields[];
extern const int tile_array_fields_count;

size_t tile_type_size(enum nc_type_name type);
/* Length of an extent in one probe. */
size_t tile_probe_extent(const struct record_probe *p, enum tile_extent e);

#endif
