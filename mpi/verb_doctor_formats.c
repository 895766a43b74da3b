/* Checks of doctor: NetCDF, HDF5 and gnuplot, in the folder in which output shall lie. */
#include "mpi/doctor.h"

#include "analysis/gnuplot.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/ncfile.h"
#include "store/publish.h"

#include <math.h>
#include <netcdf.h>
#include <stdlib.h>
#include <string.h>

/* ---- NetCDF ---- */

enum { POINTS = 5000 };

static double point(size_t i) { return i == 17 ? NAN : sin(0.37 * (double)i) * pow(10, (double)(i % 40) - 20); }

static enum status write_sample(const char *path)
{
    struct ncfile *f;
    enum status status = ncfile_create(path, "known values", &f);
    if (status != STATUS_OK)
        return status;
    double *x = memory_new(POINTS, sizeof *x);
    for (size_t i = 0; i < POINTS; i++)
        x[i] = point(i);
    ncfile_dimension(f, "point", POINTS);
    ncfile_variable(f, "value", NCFILE_DOUBLE, "point", "1", "known values");
    ncfile_put(f, "value", x);
    ncfile_text(f, "words", "known words", "na\xc3\xafve \"words\"\n");
    memory_free(x);
    return ncfile_close(f);
}

/* Values that come back with other bits; -1: not there at all. */
static int compare_sample(const char *path, enum status *status)
{
    struct ncfile *f;
    *status = ncfile_open(path, &f);
    if (*status != STATUS_OK)
        return -1;
    size_t n = 0;
    double *x = ncfile_get(f, "value", &n);
    char *words = ncfile_get_text(f, "words");
    int wrong = !x || n != POINTS || !words || strcmp(words, "na\xc3\xafve \"words\"\n") ? -1 : 0;
    for (size_t i = 0; i < n && wrong >= 0; i++)
        wrong += isnan(point(i)) ? !isnan(x[i]) : x[i] != point(i);
    memory_free(words);
    memory_free(x);
    *status = ncfile_close(f);
    return wrong;
}

void doctor_check_netcdf(struct doctor *d)
{
    if (!doctor_has_scratch(d))
        return;
    char *target = doctor_in_scratch(d, "sample.nc"), *temporary = publish_temporary(target);
    enum status status = write_sample(temporary);
    if (status == STATUS_OK)
        status = publish_file(temporary, target);
    int wrong = status == STATUS_OK ? compare_sample(target, &status) : 0;
    if (status != STATUS_OK)
        doctor_say(d, DOCTOR_WRONG, "%.600s", status_text());
    else if (wrong)
        doctor_say(d, DOCTOR_WRONG, "%d of %d values came back otherwise from a NetCDF file: use another build of NetCDF and HDF5",
                   wrong, POINTS);
    else
        doctor_say(d, DOCTOR_OK, "%d values and a text came back as they were written (netCDF %.40s)", POINTS, nc_inq_libvers());
    memory_free(temporary);
    memory_free(target);
}

/* Readers (ncdump, xarray) let HDF5 open the file itself, which locks it. This program does not. */
void doctor_check_hdf5(struct doctor *d)
{
    if (!doctor_has_scratch(d))
        return;
    char *path = doctor_in_scratch(d, "locking.nc");
    const char *variable = getenv("HDF5_USE_FILE_LOCKING");
    int file, error = nc_create(path, NC_NETCDF4 | NC_CLOBBER, &file);
    if (error == NC_NOERR)
        error = nc_close(file);
    if (error == NC_NOERR)
        error = nc_open(path, NC_NOWRITE, &file);
    if (error == NC_NOERR)
        error = nc_close(file);
    if (error)
        doctor_say(d, DOCTOR_NOTE, "HDF5 cannot open a file there by itself (%s). invar does not need it, but readers such as ncdump "
                   "and xarray do: export HDF5_USE_FILE_LOCKING=FALSE", nc_strerror(error));
    else
        doctor_say(d, DOCTOR_OK, "HDF5 opens files there by itself, as readers do (HDF5_USE_FILE_LOCKING %s)",
                   variable ? variable : "not set");
    memory_free(path);
}

/* ---- gnuplot ---- */

/* Whether the file begins as a picture of its kind does. */
static bool begins_with(const struct doctor *d, const char *name, const char *start)
{
    char *path = doctor_in_scratch(d, name), *s = text_read_file(path, NULL);
    bool does = s && !strncmp(s, start, strlen(start));
    memory_free(s);
    memory_free(path);
    return does;
}

void doctor_check_gnuplot(struct doctor *d)
{
    if (!gnuplot_found())
        doctor_say(d, DOCTOR_NOTE, "there is no gnuplot on the PATH: reports come without pictures. Install gnuplot-nox, or load its "
                   "module");
    else if (!doctor_has_scratch(d))
        return;
    else if (gnuplot_draw(d->scratch, "picture", "", "plot sin(x)\n", 200, 150) != STATUS_OK)
        doctor_say(d, DOCTOR_WRONG, "%.600s", status_text());
    else if (!begins_with(d, "picture.svg", "<?xml") || !begins_with(d, "picture.png", "\x89PNG"))
        doctor_say(d, DOCTOR_WRONG, "gnuplot draws no SVG or no PNG: install gnuplot-nox, or another build");
    else
        doctor_say(d, DOCTOR_OK, "draws SVG and PNG");
}
