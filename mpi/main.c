/* main.c: invar VERB. Starts MPI for the verbs that need it, calls the verb, says what went wrong, gives the exit code. */
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "mpi/doctor.h"
#include "mpi/options.h"
#include "mpi/peers.h"
#include "mpi/progress.h"
#include "mpi/signals.h"
#include "mpi/verbs.h"
#include "mpi/world.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

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
    [VERB_bench] = {verbs_bench, NULL},
    [VERB_verify] = {verbs_verify, NULL},
    [VERB_doctor] = {verbs_doctor, verbs_doctor_after},
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

/* mpirun --enable-recovery reports success whatever rank 0 ends with: the code also stands in the log and in progress.json. */
static void note_code(const struct session *s, enum status status, bool broken)
{
    const struct options *o = s->options;
    if (!s->store || (o->verb != VERB_train && o->verb != VERB_run))
        return;
    if (broken)
        log_line(LOG_INFO, "ends with exit code %d", status_exit_code(status));
    if (status != STATUS_LOCKED)
        progress_exit(s->dir, o->part_number, o->part_count, status_exit_code(status));
}

/* out: *broken when ranks are lost: MPI goes on, and the program must not end in an orderly way, which would wait for them.
 * All ranks return the same status; the exit code of a failure is rank 0's, the others end with 0, so that mpirun ends no
 * rank before rank 0 has said why. */
static enum status together(struct session *s, int argc, char **argv, bool *broken)
{
    struct world world;
    enum verb verb = s->options->verb;
    if (verb == VERB_train || verb == VERB_run)
        signals_catch();
    int launched = world_launched_rank();        /* asked first: MPI tells every single program that it is rank 0 */
    enum status status = verb == VERB_doctor ? doctor_begin(s->options, launched == 0) : world_check_start();
    if (status != STATUS_OK) {
        if (launched == 0)
            complain(status);
        return launched == 0 ? status : STATUS_OK;
    }
    status = world_open(&argc, &argv, &world);
    int rank = world.rank ? world.rank : launched;
    s->world = &world;
    set_up_log(s->options, rank);
    peers_guard_start(world.peers);
    if (status == STATUS_OK || verb == VERB_doctor)      /* which says itself what is wrong with this world */
        status = verbs[verb].run(s);
    if (status != STATUS_OK && rank == 0)
        complain(status);
    if (rank == 0 && !(status == STATUS_OK && verbs[verb].after))
        note_code(s, status, world.broken);
    bool after = status == STATUS_OK && verbs[verb].after && rank == 0;
    if (!after)
        verbs_close(s);
    world_close(&world);
    *broken = world.broken;
    s->world = NULL;
    if (after) {
        status = verbs[verb].after(s);
        if (status != STATUS_OK)
            complain(status);
        note_code(s, status, *broken);
        verbs_close(s);
    }
    return rank == 0 || (*broken && status == STATUS_IO) ? status : STATUS_OK;
}

/* Short runs open and close their buffers by the thousand: memory stays with the process instead of going back to the
 * kernel, which would hand it out again page by page. */
static void keep_memory(void)
{
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    mallopt(M_TRIM_THRESHOLD, 16 << 20);
#endif
}

int main(int argc, char **argv)
{
    const double started = clock_now();
    keep_memory();
    signal(SIGXFSZ, SIG_IGN);        /* a file over its limit is an error of write(), not the end of the rank */
    struct options options;
    enum status status = options_parse(argc, argv, &options);
    int rank = world_launched_rank();
    if (status != STATUS_OK) {
        if (rank == 0)
            complain(status);
        return rank == 0 ? status_exit_code(status) : 0;
    }
    struct session s = {.options = &options, .started = started};
    bool broken = false;
    if (options_verb_uses_mpi(options.verb)) {
        status = together(&s, argc, argv, &broken);
    } else if (rank == 0) {
        set_up_log(&options, 0);
        status = alone(&s);
    }
    log_finish();
    options_clear(&options);
    if (broken) {
        fflush(NULL);
        _exit(status_exit_code(status));
    }
    return status_exit_code(status);
}
