/* options.h: the command line: verbs and options, one table each; help is printed from them. */
#ifndef INVAR_MPI_OPTIONS_H
#define INVAR_MPI_OPTIONS_H

#include "base/status.h"

#include <stdbool.h>

/* VERB(name, argument, MPI is started, meaning, what `invar help VERB` says more, example). An argument in brackets may be
 * left out; RUN... are further words. */
#define VERB_TABLE(VERB) \
    VERB(plan, "JOB", false, "what would run: runs, tiles, core-hours, memory, disk, files", \
         "Nothing is started and nothing is written. A job that does not fit into the memory or onto the disk of this machine " \
         "(of this allocation, under SLURM) is said so, with exit code 3.", \
         "invar plan jobs/markov-cores.yaml --set seeds=32") \
    VERB(train, "JOB", true, "trains every run that the output folder lacks; the same command goes on after a stop", \
         "Each rank trains one run at a time on one core. Finished runs are never trained twice; unfinished ones go on from " \
         "their checkpoint, with the same bits as an unbroken run. SIGUSR1, SIGTERM and SIGINT checkpoint and end with 75.", \
         "mpirun -n 8 invar train jobs/markov-cores.yaml --time 2:00:00") \
    VERB(gather, "DIR", true, "cross-run analysis and maps of what is there: runs.nc, cross_run.nc, phase_map.nc", \
         "Runs that are missing are counted and left out. gather.grid of the job says how many ranks ScaLAPACK gets.", \
         "mpirun -n 4 invar gather out/markov-cores --set 'gather.grid=[2, 2]'") \
    VERB(report, "DIR", false, "figures and report.html, with the claims table", \
         "Needs what `invar gather` has written. Without gnuplot the report comes without pictures.", \
         "invar report out/markov-cores") \
    VERB(run, "JOB", true, "train, gather and report in one go", \
         "As the three verbs one after the other; what is finished is not done again.", \
         "mpirun -n 8 invar run jobs/markov-cores.yaml") \
    VERB(status, "DIR", false, "done, running, failed and missing runs, rate, time left; works while a launch runs", \
         "Reads only. With --json the keys are those of the man page, and stay. With --watch the figures are drawn anew every " \
         "few seconds until the launch has ended; into a pipe goes a line whenever they have changed.", \
         "invar status out/markov-cores --watch") \
    VERB(verify, "DIR [RUN...]", true, "trains finished runs anew, from nothing, and compares every bit with their records", \
         "RUN is a run's id, the first digits of it, its number in the job, or seed=VALUE or AXIS=VALUE (several of them: runs " \
         "for which all hold). Without RUN: all finished runs. Weights, learning curves, probe results and outcome are compared; " \
         "the time taken and the number of restarts are not. Reads the folder only. Under mpirun the ranks share the runs.", \
         "mpirun -n 8 invar verify out/markov-cores --sample 3") \
    VERB(doctor, "[DIR]", true, "checks machine, MPI, libraries and folder by known answers; says what to do", \
         "A line for each check: ok, note (works, could be better) or WRONG, with what to do. DIR is where output shall lie, by " \
         "default this folder; files are made in a folder of their own there, and removed. Start it as the job will be " \
         "started: under mpirun or srun, with as many ranks and nodes.", \
         "srun --mpi=pmix invar doctor out") \
    VERB(bench, "[WHAT]", false, "speed of the engine here: M1, M2, M3, M4, gemm, peak, or a job file; all models without", \
         "Median time of a training step in the planned and in the textbook order, their FLOPs, the share of the peak of fused " \
         "multiply-adds that is measured between the steps, and the shares of optimiser, data, dropout and evaluation. Of a job " \
         "its first run is timed. gemm compares matrix products with OpenBLAS, peak also measures the memory. Pin it to a core.", \
         "taskset -c 1 invar bench M1") \
    VERB(format, "", false, "the reference of all job keys, as Markdown", "", "invar format > FORMAT.md") \
    VERB(version, "", false, "this program and the libraries it runs with", "", "invar version") \
    VERB(help, "[VERB]", false, "this text, or all about one verb", "", "invar help run")

enum verb {
#define VERB(name, ...) VERB_##name,
    VERB_TABLE(VERB)
#undef VERB
    VERB_COUNT
};

#define OPTION_BIT(verb) (1u << VERB_##verb)
#define OPTION_JOB (OPTION_BIT(plan) | OPTION_BIT(train) | OPTION_BIT(run))
#define OPTION_LAUNCH (OPTION_BIT(train) | OPTION_BIT(run))
#define OPTION_WRITES (OPTION_LAUNCH | OPTION_BIT(gather) | OPTION_BIT(report))

/* OPTION(field, long name, short name or NULL, value or NULL, verbs that take it, meaning). A field with a value is a
 * `const char *`, else a bool. --set may be repeated and is kept in a list. */
#define OPTION_TABLE(OPTION) \
    OPTION(dir, "--out", "-o", "DIR", OPTION_JOB, "the output folder; default out/NAME, NAME as in the job file") \
    OPTION(set, "--set", NULL, "KEY=VALUE", OPTION_JOB | OPTION_BIT(gather) | OPTION_BIT(bench), \
           "overrides a key of the job; may be repeated") \
    OPTION(time, "--time", NULL, "TIME", OPTION_LAUNCH | OPTION_BIT(bench), \
           "bench: how long a line is measured; else stop in time: seconds, mm:ss, hh:mm:ss or d-hh:mm:ss from now; SLURM's limit is known without") \
    OPTION(patience, "--patience", NULL, "TIME", OPTION_BIT(doctor), "how long a check may take; default 30") \
    OPTION(sample, "--sample", NULL, "N", OPTION_BIT(verify), "verifies N of the runs, drawn at random; the seed is printed") \
    OPTION(seed, "--seed", NULL, "S", OPTION_BIT(verify), "draws the same runs again") \
    OPTION(retry_failed, "--retry-failed", NULL, NULL, OPTION_LAUNCH, "trains FAILED runs anew") \
    OPTION(retry_quarantined, "--retry-quarantined", NULL, NULL, OPTION_LAUNCH, \
           "trains tiles again that lost their ranks again and again") \
    OPTION(part, "--part", NULL, "K/N", OPTION_BIT(train), \
           "trains part K of N of the tiles; the parts may run at the same time, as separate launches") \
    OPTION(max_failures, "--max-failures", NULL, "N", OPTION_LAUNCH, \
           "stops after N runs that FAILED or tiles that could not be finished") \
    OPTION(fail_fast, "--fail-fast", NULL, NULL, OPTION_LAUNCH, "the same as --max-failures 1") \
    OPTION(wait, "--wait", NULL, "TIME", OPTION_WRITES, "waits so long for another launch in the same folder to end") \
    OPTION(heartbeat, "--heartbeat", NULL, "SECONDS", OPTION_WRITES, \
           "gives up a rank, or a launch that holds the folder, which gives no sign of life for so long; default 30") \
    OPTION(json, "--json", NULL, NULL, OPTION_BIT(status) | OPTION_BIT(doctor) | OPTION_BIT(bench), "for programs") \
    OPTION(dump, "--dump", NULL, "FILE", OPTION_BIT(bench), \
           "writes batches, initial weights and the losses of 20 steps instead, for other programs") \
    OPTION(missing, "--missing", NULL, NULL, OPTION_BIT(status), "lists the runs that are missing") \
    OPTION(failed, "--failed", NULL, NULL, OPTION_BIT(status), "lists the runs that FAILED, and why") \
    OPTION(quarantined, "--quarantined", NULL, NULL, OPTION_BIT(status), \
           "lists the runs of tiles that lost their ranks again and again, with the last words") \
    OPTION(watch, "--watch", NULL, NULL, OPTION_BIT(status), "goes on until the launch has ended") \
    OPTION(quiet, "--quiet", "-q", NULL, ~0u, "no progress, only warnings and errors") \
    OPTION(verbose, "--verbose", "-v", NULL, ~0u, "more detail")

/* EXIT(code, verbs, meaning): what an exit code says. The first of a code is its general meaning; of those that a verb has,
 * the last one is the verb's own. */
#define EXIT_TABLE(EXIT) \
    EXIT(0, ~0u, "all done (diverged runs are results)") \
    EXIT(0, OPTION_BIT(verify), "all runs have the bits of their records") \
    EXIT(0, OPTION_BIT(doctor), "no check says WRONG; notes are allowed") \
    EXIT(1, OPTION_LAUNCH | OPTION_BIT(report), "finished, but runs FAILED or a claim does not hold") \
    EXIT(1, OPTION_BIT(verify), "finished, but a run differs from its record, or a tile file is damaged") \
    EXIT(2, ~0u, "bad usage or job file") \
    EXIT(2, OPTION_BIT(verify), "bad usage, or no such finished run") \
    EXIT(3, ~(OPTION_BIT(format) | OPTION_BIT(version) | OPTION_BIT(help)), "environment, input or output") \
    EXIT(3, OPTION_BIT(doctor), "the environment lacks something: a check says WRONG") \
    EXIT(75, OPTION_LAUNCH, "stopped early on purpose (time limit, signal): run the same command again")

struct options {
    enum verb verb;
    const char *target;              /* JOB, DIR, or the VERB of help; NULL where there is none */
    const char **words;              /* what stands behind it, for verify */
    int words_count;
    const char *dir, *time, *dump, *part, *wait, *heartbeat, *max_failures, *sample, *seed, *patience;
    const char *set;                 /* the last one; all are in sets */
    const char **sets;
    int sets_count;
    bool retry_failed, retry_quarantined, fail_fast, json, missing, failed, quarantined, watch, quiet, verbose;
    double seconds;                  /* of --time; INFINITY without */
    double patience_seconds;         /* of --patience */
    int part_number, part_count;     /* of --part; 0, 0 without */
    double wait_seconds, heartbeat_seconds;
    int failures;                    /* to stop after; 0: never */
};

/* out: *o, whose strings are those of argv; options_clear frees the inside
 * fails: STATUS_USAGE (text says what is wrong and what was probably meant) */
enum status options_parse(int argc, char **argv, struct options *o);
void options_clear(struct options *o);

const char *options_verb_name(enum verb v);
bool options_verb_uses_mpi(enum verb v);

/* The text of `invar help`, and of `invar help VERB`; memory_free. */
char *options_help(void);
char *options_help_verb(enum verb v);
/* The verb of this name.   fails: STATUS_USAGE (text: what was probably meant) */
enum status options_find_verb(const char *word, enum verb *v);

#endif
