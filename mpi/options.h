/* options.h: the command line: verbs and options, one table each; help is printed from them. */
#ifndef INVAR_MPI_OPTIONS_H
#define INVAR_MPI_OPTIONS_H

#include "base/status.h"

#include <stdbool.h>

/* VERB(name, argument, MPI is started, meaning) */
#define VERB_TABLE(VERB) \
    VERB(plan, "JOB", false, "what would run: runs, tiles, core-hours, memory, disk, files") \
    VERB(train, "JOB", true, "trains every run that the output folder lacks; the same command goes on after a stop") \
    VERB(gather, "DIR", true, "cross-run analysis and maps of what is there: runs.nc, cross_run.nc, phase_map.nc") \
    VERB(report, "DIR", false, "figures and report.html, with the claims table") \
    VERB(run, "JOB", true, "train, gather and report in one go") \
    VERB(status, "DIR", false, "done, running, failed and missing runs, rate, time left; works while a launch runs") \
    VERB(format, "", false, "the reference of all job keys, as Markdown") \
    VERB(version, "", false, "this program and the libraries it runs with") \
    VERB(help, "", false, "this text")

enum verb {
#define VERB(name, argument, mpi, meaning) VERB_##name,
    VERB_TABLE(VERB)
#undef VERB
    VERB_COUNT
};

#define OPTION_BIT(verb) (1u << VERB_##verb)
#define OPTION_JOB (OPTION_BIT(plan) | OPTION_BIT(train) | OPTION_BIT(run))
#define OPTION_LAUNCH (OPTION_BIT(train) | OPTION_BIT(run))

/* OPTION(field, long name, short name or NULL, value or NULL, verbs that take it, meaning). A field with a value is a
 * `const char *`, else a bool. --set may be repeated and is kept in a list. */
#define OPTION_TABLE(OPTION) \
    OPTION(dir, "--out", "-o", "DIR", OPTION_JOB, "the output folder; default out/NAME, NAME as in the job file") \
    OPTION(set, "--set", NULL, "KEY=VALUE", OPTION_JOB | OPTION_BIT(gather), "overrides a key of the job; may be repeated") \
    OPTION(time, "--time", NULL, "TIME", OPTION_LAUNCH, \
           "stop in time: seconds, mm:ss, hh:mm:ss or d-hh:mm:ss from now; SLURM's limit is known without") \
    OPTION(retry_failed, "--retry-failed", NULL, NULL, OPTION_LAUNCH, "trains FAILED runs anew") \
    OPTION(json, "--json", NULL, NULL, OPTION_BIT(status), "for programs") \
    OPTION(missing, "--missing", NULL, NULL, OPTION_BIT(status), "lists the runs that are missing") \
    OPTION(failed, "--failed", NULL, NULL, OPTION_BIT(status), "lists the runs that FAILED, and why") \
    OPTION(quiet, "--quiet", "-q", NULL, ~0u, "no progress, only warnings and errors") \
    OPTION(verbose, "--verbose", "-v", NULL, ~0u, "more detail")

struct options {
    enum verb verb;
    const char *target;              /* JOB or DIR; NULL where the verb takes none */
    const char *dir, *time;
    const char *set;                 /* the last one; all are in sets */
    const char **sets;
    int sets_count;
    bool retry_failed, json, missing, failed, quiet, verbose;
    double seconds;                  /* of --time; INFINITY without */
};

/* out: *o, whose strings are those of argv; options_clear frees the inside
 * fails: STATUS_USAGE (text says what is wrong and what was probably meant) */
enum status options_parse(int argc, char **argv, struct options *o);
void options_clear(struct options *o);

const char *options_verb_name(enum verb v);
bool options_verb_uses_mpi(enum verb v);

/* The text of `invar help`; memory_free. */
char *options_help(void);

#endif
