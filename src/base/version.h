/* version.h: what made a result: this program's revision and the libraries it runs with. */
#ifndef INVAR_BASE_VERSION_H
#define INVAR_BASE_VERSION_H

/* Version of the program, and git revision it was built from ("unknown" outside a checkout). */
const char *version_program(void);
const char *version_revision(void);
/* "gcc 12.2.0; glibc 2.36; OpenBLAS 0.3.21 ... SkylakeX; netCDF 4.9.0 ...; Open MPI v4.1.4": those of this process, asked at
 * run time, so that a library exchanged by the system is seen. Libraries that are not loaded are left out. */
const char *version_libraries(void);

#endif
