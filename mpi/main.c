/* main.c: invar VERB. Starts MPI for the verbs that need it, calls the verb, says what went wrong, gives the exit code. */
#include "base/log.h"
#include "base/memory.h"
#include "mpi/options.h"
#include "mpi/signals.h"
#include "mpi/verbs.h"
#include "mpi/world.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

static const struct {
    enum status (*run)(struct session *s);
    enum status (*after)(struct session *s);     /* on rank 0, when MPI has ended */
} verbs[VERB_COUNT] = {
    [VERB_plan] = {verbs_plan, NULL},
    [VERB_train] = {verbs_train, NULL},
    [VERB_gather] = {verbs_gather, NULL},
    [VERB_report] = {verbs_report, NULL},
    [VERB_run] = {verbs_run, verbs_run_after},
    [VERB_status] = {verbs_status, NULL},
    [VERB_format] = {verbs_format, NULL},
    [VERB_version] = {verbs_version, NULL},
    [VERB_help] = {verbs_help, NULL},
};

/* A job file's faults stand alone, one a line, so that editors find file and line. */
static void complain(enum status status)
{
    if (status == STATUS_JOB)
        fprintf(stderr, "%s\n", status_text());
    else
        log_line(status == STATUS_STOPPED ? LOG_INFO : LOG_ERROR, "%s", status_text());
}

static void set_up_log(const struct options *o, int rank)
{
    enum log_level level = o->verbose ? LOG_DETAIL : o->quiet || rank > 0 ? LOG_WARNING : LOG_INFO;
    char who[32];
    snprintf(who, sizeof who, "rank %d", rank);
    log_threshold(level);
    log_who(rank > 0 ? who : NULL);
}

/* Without MPI rank 0 acts; the others of a launch have nothing to do. */
static enum status alone(struct session *s)
{
    enum status status = verbs[s->options->verb].run(s);
    if (status != STATUS_OK)
        complain(status);
    verbs_close(s);
    return status;
}

/* All ranks return the same status; the exit code of a failure is rank 0's, the others end with 0, so that mpirun ends no
 * rank before rank 0 has said why. */
static enum status together(struct session *s, int argc, char **argv)
{
    struct world world;
    enum verb verb = s->options->verb;
    if (verb == VERB_train || verb == VERB_run)
        signals_catch();
    enum status status = world_open(&argc, &argv, &world);
    int rank = world.rank ? world.rank : world_launched_rank();
    s->world = &world;
    set_up_log(s->options, rank);
    if (status == STATUS_OK)
        status = verbs[verb].run(s);
    if (status != STATUS_OK && rank == 0)
        complain(status);
    bool after = status == STATUS_OK && verbs[verb].after && rank == 0;
    if (!after)
        verbs_close(s);
    world_close(&world);
    s->world = NULL;
    if (after) {
        status = verbs[verb].after(s);
        if (status != STATUS_OK)
            complain(status);
        verbs_close(s);
    }
    return rank == 0 ? status : STATUS_OK;
}

int main(int argc, char **argv)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    signal(SIGXFSZ, SIG_IGN);        /* a file over its limit is an error of write(), not the end of the rank */
    struct options options;
    enum status status = options_parse(argc, argv, &options);
    int rank = world_launched_rank();
    if (status != STATUS_OK) {
        if (rank == 0)
            complain(status);
        return rank == 0 ? status_exit_code(status) : 0;
    }
    struct session s = {.options = &options, .started = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec};
    if (options_verb_uses_mpi(options.verb)) {
        status = together(&s, argc, argv);
    } else if (rank == 0) {
        set_up_log(&options, 0);
        status = alone(&s);
    }
    log_finish();
    options_clear(&options);
    return status_exit_code(status);
}
