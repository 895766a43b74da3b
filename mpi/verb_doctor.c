/* doctor: runs the table of checks in doctor.h, prints a line for each, and keeps the time limits. */
#include "mpi/verbs.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/version.h"
#include "mpi/doctor.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ALL, FIRST };

static const struct check {
    const char *name;
    int who;
    const char *hint;
    void (*run)(struct doctor *d);
} checks[] = {
#define CHECK(name, who, hint) {#name, who, hint, doctor_check_##name},
    DOCTOR_TABLE(CHECK)
#undef CHECK
};
enum { CHECKS = sizeof checks / sizeof *checks };

static const char *const words[] = {"ok", "note", "WRONG"};

static struct doctor doctor;
static int counts[3];
static double began;
static char asked[3][32];

double doctor_seconds(void) { return clock_now() - began; }
const char *doctor_asked_threads(int which) { return asked[which]; }

/* ---- lines ---- */

static void add_line(struct text *t, const char *name, enum doctor_verdict verdict, const char *said)
{
    if (!doctor.options->json) {
        text_add(t, "%-5s %-12s %s\n", words[verdict], name, said);
        return;
    }
    text_add(t, "%s\n  {\"check\": \"%s\", \"verdict\": \"%s\", \"text\": ", counts[0] + counts[1] + counts[2] ? "," : "", name,
             words[verdict]);
    text_add_json(t, said);
    text_add(t, "}");
}

static void add_end(struct text *t, int wrong)
{
    if (doctor.options->json)
        text_add(t, "\n], \"ok\": %s}\n", wrong ? "false" : "true");
    else
        text_add(t, "%d ok, %d note%s, %d WRONG\n", counts[DOCTOR_OK], counts[DOCTOR_NOTE], counts[DOCTOR_NOTE] == 1 ? "" : "s",
                 wrong);
}

static void print(struct text *t)
{
    if (doctor.speaks) {
        fputs(text_string(t), stdout);
        fflush(stdout);
    }
    text_free(t);
}

static void print_head(void)
{
    char host[64] = "";
    struct text t = {0};
    gethostname(host, sizeof host - 1);
    if (doctor.options->json)
        text_add(&t, "{\"program\": \"%s\", \"revision\": \"%s\", \"host\": \"%s\", \"checks\": [", version_program(),
                 version_revision(), host);
    else
        text_add(&t, "invar %s (revision %s) on %s\n", version_program(), version_revision(), host);
    print(&t);
}

void doctor_say(struct doctor *d, enum doctor_verdict verdict, const char *format, ...)
{
    if (verdict < d->verdict)
        return;
    size_t used = verdict == d->verdict ? strlen(d->said) : 0;
    d->verdict = verdict;
    if (used && used + 3 < sizeof d->said) {
        memcpy(d->said + used, "; ", 3);
        used += 2;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(d->said + used, sizeof d->said - used, format, args);
    va_end(args);
}

/* ---- when a check does not end ---- */

/* All that is to be written then, ready before it may come. */
static char last_words[4096];
static size_t last_words_length;

static void give_up(int number)
{
    (void)number;
    for (size_t at = 0; at < last_words_length;) {
        ssize_t n = write(STDOUT_FILENO, last_words + at, last_words_length - at);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    _exit(3);
}

/* Rank 0 speaks first: the others give up a little later. */
static void set_alarm(const struct check *c)
{
    char said[1024];
    struct text t = {0};
    signal(SIGALRM, SIG_IGN);
    snprintf(said, sizeof said, "no answer for %g s: %s", doctor.patience, c->hint);
    add_line(&t, c->name, DOCTOR_WRONG, said);
    add_end(&t, counts[DOCTOR_WRONG] + 1);
    snprintf(last_words, sizeof last_words, "%s", doctor.speaks ? text_string(&t) : "");
    last_words_length = strlen(last_words);
    text_free(&t);
    began = clock_now();
    double limit = doctor.patience + (doctor.speaks ? 0 : 5);
    struct itimerval timer = {.it_value = {.tv_sec = (time_t)limit, .tv_usec = (suseconds_t)(1e6 * (limit - floor(limit)))}};
    signal(SIGALRM, give_up);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void end_alarm(void) { setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL); }

/* ---- checks ---- */

/* The worst of all ranks, with the words of the first rank that says so. */
static void agree_on_worst(struct doctor *d)
{
    const struct world *w = d->w;
    int mine = (int)d->verdict, worst, here, first, many;
    if (w->size == 1)
        return;
    MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, w->comm);
    here = mine == worst ? w->rank : w->size;
    MPI_Allreduce(&here, &first, 1, MPI_INT, MPI_MIN, w->comm);
    here = mine == worst;
    MPI_Allreduce(&here, &many, 1, MPI_INT, MPI_SUM, w->comm);
    char said[sizeof d->said];
    memcpy(said, d->said, sizeof said);
    MPI_Bcast(said, sizeof said, MPI_CHAR, first, w->comm);
    if (worst == DOCTOR_OK || many == w->size)
        memcpy(d->said, said, sizeof said);
    else
        snprintf(d->said, sizeof d->said, "rank %d%s: %.900s", first, many > 1 ? " and others" : "", said);
    d->verdict = (enum doctor_verdict)worst;
}

static void print_check(const struct check *c, enum doctor_verdict verdict, const char *said)
{
    struct text t = {0};
    add_line(&t, c->name, verdict, said);
    print(&t);
    counts[verdict]++;
}

static void run_check(const struct check *c)
{
    struct doctor *d = &doctor;
    d->verdict = DOCTOR_OK;
    d->said[0] = '\0';
    /* The time of MPI's start and end is already running. */
    if (c->run != doctor_check_mpi_start && c->run != doctor_check_mpi_end)
        set_alarm(c);
    c->run(d);
    if (c->who == ALL)
        agree_on_worst(d);
    end_alarm();
    print_check(c, d->verdict, d->said);
}

static void run_checks(int who)
{
    for (int i = 0; i < CHECKS; i++)
        if (checks[i].who == who)
            run_check(&checks[i]);
}

static const struct check *find(void (*run)(struct doctor *d))
{
    int i = 0;
    while (checks[i].run != run)
        i++;
    return &checks[i];
}

/* The end: how many of each.   fails: STATUS_ENVIRONMENT when a check was WRONG */
static enum status conclude(void)
{
    struct text t = {0};
    int wrong = counts[DOCTOR_WRONG];
    add_end(&t, wrong);
    print(&t);
    if (wrong)
        return status_fail(STATUS_ENVIRONMENT, "%d check%s WRONG; each line says what to do", wrong, wrong == 1 ? " says" : "s say");
    return STATUS_OK;
}

enum status doctor_begin(const struct options *o, bool speaks)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"};
    const struct check *start = find(doctor_check_mpi_start);
    for (int i = 0; i < 3; i++)
        snprintf(asked[i], sizeof asked[i], "%s", getenv(names[i]) ? getenv(names[i]) : "");
    doctor = (struct doctor){.options = o, .speaks = speaks, .dir = o->target ? o->target : ".",
                             .patience = o->patience_seconds};
    memset(counts, 0, sizeof counts);
    print_head();
    if (world_check_start() != STATUS_OK) {
        print_check(start, DOCTOR_WRONG, status_text());
        return conclude();
    }
    if (getenv("PMI_FD") && !getenv("PMIX_RANK"))
        log_line(LOG_WARNING, "srun speaks PMI-2, most builds of Open MPI only PMIx: if MPI now ends the program, start with `srun "
                 "--mpi=pmix`");
    set_alarm(start);
    return STATUS_OK;
}

enum status verbs_doctor(struct session *s)
{
    doctor.w = s->world;
    run_checks(ALL);
    if (!doctor.speaks && doctor.w->rank == 0)       /* one of many that srun has started singly */
        doctor_remove_scratch(&doctor);
    if (!doctor.speaks)
        memory_free(doctor.scratch);
    set_alarm(find(doctor_check_mpi_end));
    doctor.w = NULL;
    return STATUS_OK;
}

enum status verbs_doctor_after(struct session *s)
{
    (void)s;
    run_checks(FIRST);
    doctor_remove_scratch(&doctor);
    return conclude();
}

/* ---- processes of our own ---- */

int doctor_child(int (*run)(void *context), void *context)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGALRM, SIG_DFL);
        _exit(run(context));
    }
    return (int)child;
}

bool doctor_lives(int child)
{
    siginfo_t info = {0};
    return child > 0 && waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

int doctor_wait(int child)
{
    int how = 0;
    if (child < 0 || waitpid(child, &how, 0) != child)
        return -1;
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}
