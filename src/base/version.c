#include "base/version.h"

#include "base/text.h"
#include "revision.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

#define PROGRAM_VERSION "0.1.0"

static char libraries[4096];

/* Asks a function that returns a text, when some library of this process has it. */
static void add_asked(struct text *t, const char *label, const char *function)
{
    const char *(*ask)(void);
    *(void **)&ask = dlsym(RTLD_DEFAULT, function);
    if (ask)
        text_add(t, "; %s%s", label, ask());
}

static void add_mpi(struct text *t)
{
    int (*ask)(char *, int *);
    *(void **)&ask = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    char version[8192] = "";
    int length = 0;
    if (ask && ask(version, &length) == 0) {
        version[strcspn(version, ",\n")] = '\0';
        text_add(t, "; %s", version);
    }
}

static void collect(void)
{
    struct text t = {0};
    text_add(&t, "compiler " __VERSION__);
#if defined(__GLIBC__)
    text_add(&t, "; glibc %s", gnu_get_libc_version());
#endif
    add_asked(&t, "", "openblas_get_config");
    add_asked(&t, "netCDF ", "nc_inq_libvers");
    add_mpi(&t);
    strncpy(libraries, text_string(&t), sizeof libraries - 1);
    text_free(&t);
}

const char *version_program(void) { return PROGRAM_VERSION; }
const char *version_revision(void) { return INVAR_REVISION; }

const char *version_libraries(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, collect);
    return libraries;
}
