#include "store/samples.h"

#include "store/lease.h"

#include <fcntl.h>

#define JOB "name: test\nseeds: 4\n"


TEST(a_second_launch_is_told_who_holds_the_folder)
{
    char *dir = sample_path("held");
    struct job *job = sample_job(JOB);
    struct store *s = NULL, *second = NULL;
    CHECK_OK(store_open(dir, job, &s));
    CHECK_INT(store_open(dir, job, &second), STATUS_LOCKED);
    char host[128] = "", *pid = memory_format("process %d on ", (int)getpid());
    gethostname(host, sizeof host - 1);
    CHECK_HAS(status_text(), dir);
    CHECK_HAS(status_text(), pid);
    CHECK_HAS(status_text(), host);
    CHECK_HAS(status_text(), "test_lease");
    CHECK_HAS(status_text(), "since 2");
    store_close(s);
    CHECK_OK(store_open(dir, job, &second));              /* free again */
    store_close(second);
    memory_free(pid);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

TEST(a_reader_needs_no_lock)
{
    char *dir = sample_path("reader");
    struct job *job = sample_job(JOB), *found = NULL;
    struct store *s = NULL, *reader = NULL;
    CHECK_OK(store_open(dir, job, &s));
    CHECK_OK(store_open_read(dir, &reader, &found));
    store_close(reader);
    job_free(found);
    store_close(s);
    CHECK_OK(store_open_read(dir, &reader, &found));
    CHECK_OK(store_open(dir, job, &s));
    store_close(reader), store_close(s);
    job_free(found), job_free(job);
    sample_remove(dir);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

TEST(the_lock_of_a_killed_holder_is_free)
{
    char *dir = sample_path("killed");
    struct job *job = sample_job(JOB);
    struct store *s = NULL;
    int ready[2];
    CHECK_INT(pipe(ready), 0);
    pid_t holder = fork();
    if (holder == 0) {
        int held = store_open(dir, job, &s) == STATUS_OK;
        if (write(ready[1], held ? "y" : "n", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char answer = 0;
    CHECK_INT(read(ready[0], &answer, 1), 1);
    CHECK_INT(answer, 'y');
    CHECK_INT(store_open(dir, job, &s), STATUS_LOCKED);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    CHECK_OK(store_open(dir, job, &s));
    store_close(s);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
}

/* Eight launchers at the same moment on a folder that is not there yet: one gets it, seven are told. */
static void race(const char *dir, const struct job *job)
{
    enum { LAUNCHERS = 8 };
    int start[2], said[2], won = 0, told = 0;
    CHECK_INT(pipe(start), 0);
    CHECK_INT(pipe(said), 0);
    pid_t child[LAUNCHERS];
    for (int i = 0; i < LAUNCHERS; i++) {
        child[i] = fork();
        if (child[i])
            continue;
        char go, answer = 'x';
        close(start[1]);
        if (read(start[0], &go, 1) != 0)                  /* until the other end closes */
            _exit(2);
        struct store *s = NULL;
        enum status status = store_open(dir, job, &s);
        if (status == STATUS_OK)
            answer = 'w';
        else if (status == STATUS_LOCKED && strstr(status_text(), "process "))
            answer = 't';
        else
            fprintf(stderr, "%s: %s\n", status_name(status), status_text());
        if (write(said[1], &answer, 1) != 1)
            _exit(2);
        for (;;)
            pause();                                      /* the winner holds it until all have tried */
    }
    close(start[0]);
    close(start[1]);
    for (int i = 0; i < LAUNCHERS; i++) {
        char answer = 0;
        CHECK_INT(read(said[0], &answer, 1), 1);
        won += answer == 'w';
        told += answer == 't';
    }
    CHECK_INT(won, 1);
    CHECK_INT(told, LAUNCHERS - 1);
    for (int i = 0; i < LAUNCHERS; i++) {
        kill(child[i], SIGKILL);
        waitpid(child[i], NULL, 0);
    }
    close(said[0]);
    close(said[1]);
}

TEST(of_eight_launchers_exactly_one_wins)
{
    char *dir = sample_path("race");
    struct job *job = sample_job(JOB);
    for (int round = 0; round < 6; round++) {
        race(dir, job);
        race(dir, job);                                   /* the folder is there now, its holder was killed */
        sample_remove(dir);
    }
    job_free(job);
    memory_free(dir);
}

/* Where there are no locks of open file descriptions, the older kind does the same between processes. */
TEST(older_locks_exclude_too)
{
    char *dir = sample_path("older"), *path = memory_format("%s/lock", dir);
    CHECK_INT(mkdir(dir, 0777), 0);
    int fd = open(path, O_RDWR | O_CREAT, 0666);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    CHECK_INT(fcntl(fd, F_SETLK, &whole), 0);
    pid_t child = fork();
    if (child == 0) {
        struct lease *lease;
        _exit(lease_take(dir, &(struct lease_terms){0}, &lease) == STATUS_LOCKED ? 0 : 1);
    }
    int how;
    waitpid(child, &how, 0);
    CHECK_INT(WEXITSTATUS(how), 0);
    close(fd);
    sample_remove(dir);
    memory_free(path), memory_free(dir);
}

/* ---- the judgement ---- */

static enum lease_verdict judge(struct lease_watch *w, double now, uint64_t id, uint64_t counter, bool locked, bool here,
                                bool stopped)
{
    struct lease_look look = {.locked = locked, .here = here, .stopped = stopped, .id = id, .counter = counter};
    return lease_judge(w, &look, now, 10);
}

TEST(within_a_machine_the_kernel_decides_at_once)
{
    struct lease_watch w = {0};
    CHECK_INT(judge(&w, 0, 0, 0, false, false, false), LEASE_FREE);
    CHECK_INT(judge(&w, 0, 7, 3, false, true, false), LEASE_FREE);          /* killed */
    CHECK_INT(judge(&w, 0, 7, 3, true, true, false), LEASE_ALIVE);
    CHECK_INT(judge(&w, 0, 0, 0, true, false, false), LEASE_ALIVE);         /* has not written yet */
}

TEST(between_machines_only_a_counter_that_stands_still_lapses)
{
    for (int locked = 0; locked < 2; locked++) {
        struct lease_watch w = {0};
        double t = 5000;
        for (int i = 0; i < 99; i++, t += 0.1)
            CHECK_INT(judge(&w, t, 7, 3, locked, false, false), LEASE_UNSURE);
        CHECK_INT(judge(&w, t, 7, 4, locked, false, false), LEASE_ALIVE);   /* it moves at the last moment */
        for (int i = 0; i < 99; i++, t += 0.1)
            CHECK_INT(judge(&w, t, 7, 4, locked, false, false), LEASE_UNSURE);
        CHECK_INT(judge(&w, t + 0.3, 7, 4, locked, false, false), LEASE_LAPSED);
    }
}

TEST(another_holder_is_alive)
{
    struct lease_watch w = {0};
    CHECK_INT(judge(&w, 0, 7, 3, false, false, false), LEASE_UNSURE);
    CHECK_INT(judge(&w, 1, 8, 3, false, false, false), LEASE_ALIVE);
}

/* Waiter and holder sleep for an hour and wake together: the waiter has not watched for an hour. */
TEST(a_waiter_that_slept_has_not_watched)
{
    struct lease_watch w = {0};
    CHECK_INT(judge(&w, 0, 7, 3, true, false, false), LEASE_UNSURE);
    CHECK_INT(judge(&w, 3600, 7, 3, true, false, false), LEASE_UNSURE);
    CHECK_INT(judge(&w, 3600.5, 7, 4, true, false, false), LEASE_ALIVE);
    CHECK_INT(judge(&w, 1e-9, 7, 4, true, false, false), LEASE_UNSURE);     /* a clock that goes back */
}

TEST(a_stopped_holder_of_this_machine_lapses)
{
    struct lease_watch w = {0};
    double t = 0;
    for (; t < 9.9; t += 0.5)
        CHECK_INT(judge(&w, t, 7, 3, true, true, true), LEASE_UNSURE);
    CHECK_INT(judge(&w, t + 0.5, 7, 3, true, true, true), LEASE_LAPSED);
}

/* ---- with files ---- */

static struct lease *take(const char *dir, int part, int parts)
{
    struct lease *l = NULL;
    CHECK_OK(lease_take(dir, &(struct lease_terms){.part = part, .parts = parts, .seconds = 1}, &l));
    return l;
}

static void refused(const char *dir, int part, int parts)
{
    struct lease *l;
    CHECK_INT(lease_take(dir, &(struct lease_terms){.part = part, .parts = parts, .seconds = 1}, &l), STATUS_LOCKED);
}

TEST(parts_exclude_the_whole_themselves_and_other_divisions)
{
    char *dir = sample_path("parts");
    CHECK_INT(mkdir(dir, 0777), 0);
    struct lease *first = take(dir, 1, 3), *third = take(dir, 3, 3);
    CHECK_INT(sample_entries(dir, "."), 2);
    refused(dir, 1, 3);
    refused(dir, 0, 0);
    refused(dir, 2, 4);
    lease_release(first);
    first = take(dir, 1, 3);
    lease_release(first);
    lease_release(third);
    struct lease *whole = take(dir, 0, 0);
    refused(dir, 1, 3);
    refused(dir, 0, 0);
    lease_release(whole);
    third = take(dir, 3, 3);
    lease_release(third);
    CHECK_INT(sample_entries(dir, "."), 1);               /* the file of the whole, which is empty */
    sample_remove(dir);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

/* What a launch on a machine that is gone has written: only the counter tells that it is dead. */
static void write_foreign(const char *dir, const char *name)
{
    char *path = memory_format("%s/%s", dir, name);
    const char *text = "00000000000000aa 000000000005 11111111-2222-3333-4444-555555555555 17\nprocess 17 on n9 since then: x\n";
    sample_write(path, text, strlen(text));
    memory_free(path);
}

TEST(a_launch_of_a_dead_machine_lapses)
{
    char *dir = sample_path("lapses"), *path = memory_format("%s/lock", dir);
    CHECK_INT(mkdir(dir, 0777), 0);
    write_foreign(dir, "lock");
    CHECK_OK(lease_check(dir, 0, 0, "00000000000000aa"));
    struct lease *l = take(dir, 0, 0);
    CHECK(lease_is_held(path));
    CHECK_INT(lease_check(dir, 0, 0, "00000000000000aa"), STATUS_LOCKED);     /* the old one finds out */
    CHECK_HAS(status_text(), "taken over by process");
    CHECK_OK(lease_check(dir, 0, 0, lease_id(l)));
    CHECK(!lease_lost(l));
    lease_release(l);
    write_foreign(dir, "lock.2-of-4");
    l = take(dir, 0, 0);
    CHECK_INT(lease_check(dir, 2, 4, "00000000000000aa"), STATUS_LOCKED);
    lease_release(l);
    sample_remove(dir);
    memory_free(path), memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

/* An array of hundreds of parts that all died: none is overlooked. */
TEST(the_whole_outlives_any_number_of_dead_parts)
{
    char *dir = sample_path("hundreds"), *machine = text_read_file("/proc/sys/kernel/random/boot_id", NULL);
    CHECK_INT(mkdir(dir, 0777), 0);
    for (int k = 1; k <= 200; k++) {
        char *path = memory_format("%s/lock.%d-of-200", dir, k);
        char *text = memory_format("%016x %012d %.36s %d\nprocess\n", 100 + k, 5, machine, 17);
        sample_write(path, text, strlen(text));
        memory_free(path), memory_free(text);
    }
    struct lease *l = take(dir, 0, 0);
    CHECK_INT(sample_entries(dir, "."), 1);
    lease_release(l);
    sample_remove(dir);
    memory_free(machine), memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

/* A process that is stopped keeps its record lock for ever; its lease lapses, and it finds out when it goes on. */
TEST(a_stopped_launch_loses_its_lease)
{
    char *dir = sample_path("stopped");
    CHECK_INT(mkdir(dir, 0777), 0);
    int ready[2];
    CHECK_INT(pipe(ready), 0);
    pid_t holder = fork();
    if (holder == 0) {
        struct lease *l = take(dir, 0, 0);
        if (write(ready[1], "y", 1) != 1)
            _exit(1);
        while (!lease_lost(l))
            usleep(10000);
        enum status status = lease_check(dir, 0, 0, lease_id(l));
        lease_release(l);                                 /* touches nothing that is another's */
        _exit(status == STATUS_LOCKED ? 0 : 1);
    }
    char answer;
    CHECK_INT(read(ready[0], &answer, 1), 1);
    kill(holder, SIGSTOP);
    CHECK_INT(waitpid(holder, NULL, WUNTRACED), holder);
    struct lease *l = take(dir, 0, 0);
    kill(holder, SIGCONT);
    int how = -1;
    waitpid(holder, &how, 0);
    CHECK_INT(WEXITSTATUS(how), 0);
    CHECK(WIFEXITED(how));
    CHECK_OK(lease_check(dir, 0, 0, lease_id(l)));
    lease_release(l);
    sample_remove(dir);
    memory_free(dir);
}

TEST(a_store_that_lost_its_lease_publishes_nothing)
{
    char *dir = sample_path("lost"), *lock = memory_format("%s/lock", dir);
    struct job *job = sample_job(JOB);
    struct store *s = NULL;
    CHECK_OK(store_open(dir, job, &s));
    CHECK_OK(store_put_checkpoint(s, "0123", "bytes", 5));
    CHECK_INT(unlink(lock), 0);
    write_foreign(dir, "lock");
    CHECK_INT(store_put_checkpoint(s, "4567", "bytes", 5), STATUS_LOCKED);
    char *temporary = store_temporary(s, "runs.nc");
    sample_write(temporary, "whole", 5);
    CHECK_INT(store_publish(s, temporary, "runs.nc"), STATUS_LOCKED);
    CHECK(access(temporary, F_OK) != 0);
    CHECK_INT(sample_entries(dir, "checkpoints"), 1);
    store_close(s);
    memory_free(temporary), memory_free(lock);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

/* A rank that stood still between its question and its rename: what it would rename is gone. */
TEST(a_launch_that_lost_its_lease_finds_its_temporaries_gone)
{
    char *dir = sample_path("overtaken"), *lock = memory_format("%s/lock", dir);
    struct job *job = sample_job(JOB);
    struct store *old = NULL, *new = NULL;
    CHECK_OK(store_open(dir, job, &old));
    char *temporary = store_temporary(old, "tiles/x.nc");
    sample_write(temporary, "whole", 5);
    CHECK_INT(unlink(lock), 0);
    CHECK_OK(store_open(dir, job, &new));
    CHECK(access(temporary, F_OK) != 0);
    store_close(new);
    store_close(old);
    memory_free(temporary), memory_free(lock);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

/* Parts on several machines work side by side: the temporaries of a living one are left alone. */
TEST(temporaries_of_living_parts_stay)
{
    char *dir = sample_path("beside"), *stray, *living;
    struct job *job = sample_job(JOB);
    struct store *s = NULL;
    CHECK_OK(store_open_terms(dir, job, &(struct lease_terms){.part = 1, .parts = 3}, &s));
    write_foreign(dir, "lock.2-of-3");
    living = memory_format("%s/tiles/.tmp-n9.17.01234567.0.00000000000000aa-x.nc", dir);
    stray = memory_format("%s/tiles/.tmp-n9.17.01234567.0.00000000000000bb-x.nc", dir);
    store_close(s);
    sample_write(living, "half", 4);
    sample_write(stray, "half", 4);
    CHECK_OK(store_open_terms(dir, job, &(struct lease_terms){.part = 1, .parts = 3}, &s));
    CHECK_INT(access(living, F_OK), 0);
    CHECK(access(stray, F_OK) != 0);
    store_close(s);
    memory_free(living), memory_free(stray);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
    CHECK_INT(memory_balance(), 0);
}

TEST(temporaries_of_dead_launches_are_removed_by_the_holder_only)
{
    char *dir = sample_path("strays");
    struct job *job = sample_job(JOB);
    struct store *s = NULL, *worker = NULL;
    CHECK_OK(store_open(dir, job, &s));
    pid_t child = fork();
    if (child == 0) {
        const char *names[] = {"runs.nc", "tiles/x.nc", "checkpoints/x.ck", "figures/x.svg"};
        for (int i = 0; i < 4; i++) {
            char *path = store_temporary(s, names[i]);
            sample_write(path, "half", 4);
        }
        _exit(0);
    }
    waitpid(child, NULL, 0);
    char *mine = store_temporary(s, "runs.nc"), *next = store_temporary(s, "runs.nc");
    CHECK(strcmp(mine, next) != 0);
    sample_write(mine, "half", 4);
    int all = sample_entries(dir, ".");
    CHECK_INT(sample_entries(dir, "tiles"), 1);
    CHECK_OK(store_join(dir, job, &worker));
    CHECK_INT(sample_entries(dir, "tiles"), 1);
    store_close(worker);
    store_close(s);
    CHECK_OK(store_open(dir, job, &s));
    CHECK_INT(sample_entries(dir, "tiles"), 0);
    CHECK_INT(sample_entries(dir, "checkpoints"), 0);
    CHECK_INT(sample_entries(dir, "figures"), 0);
    CHECK_INT(sample_entries(dir, "."), all - 2);         /* the child's and mine, whose launch is over */
    CHECK(access(mine, F_OK) != 0);
    store_close(s);
    memory_free(mine), memory_free(next);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
}
