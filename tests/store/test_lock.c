#include "store/samples.h"

#include "store/lock.h"

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
    CHECK_HAS(status_text(), "test_lock");
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
    char *path = sample_path("older");
    int fd = open(path, O_RDWR | O_CREAT, 0666);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    CHECK_INT(fcntl(fd, F_SETLK, &whole), 0);
    pid_t child = fork();
    if (child == 0) {
        struct lock *lock;
        _exit(lock_take(path, &lock) == STATUS_LOCKED ? 0 : 1);
    }
    int how;
    waitpid(child, &how, 0);
    CHECK_INT(WEXITSTATUS(how), 0);
    close(fd);
    unlink(path);
    memory_free(path);
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
    CHECK_INT(sample_entries(dir, "."), all - 1);         /* the child's; mine is in use */
    CHECK_INT(access(mine, F_OK), 0);
    store_close(s);
    memory_free(mine), memory_free(next);
    job_free(job);
    sample_remove(dir);
    memory_free(dir);
}
