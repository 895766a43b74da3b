/* status.h: how a function says what went wrong.
 *
 * Three kinds of trouble get three treatments. A bug of ours aborts (assert). One run that fails is a status:
 * the run is listed and the others go on. A job that cannot go on is one message and one exit code.
 * Divergence of a training is none of them: it is a result (see outcome in src/run/outcome.h).
 *
 * A function that can fail returns `enum status`; the text for the person who reads it is left in this thread's
 * message by status_fail(), so that it is written where the facts are known:
 *
 *     if (fd < 0)
 *         return status_fail(STATUS_IO, "%s: cannot open: %s", path, strerror(errno));
 */
#ifndef INVAR_BASE_STATUS_H
#define INVAR_BASE_STATUS_H

/* STATUS(name, exit code, text) */
#define STATUS_TABLE(STATUS)                                                   \
    STATUS(OK, 0, "done")                                                      \
    STATUS(RUNS_FAILED, 1, "finished, but runs failed or a claim does not hold") \
    STATUS(USAGE, 2, "bad usage")                                              \
    STATUS(JOB, 2, "bad job file")                                             \
    STATUS(ENVIRONMENT, 3, "the environment lacks something")                  \
    STATUS(IO, 3, "input or output failed")                                    \
    STATUS(LOCKED, 3, "the output folder is in use")                           \
    STATUS(CORRUPT, 3, "a file is damaged or not ours")                        \
    STATUS(VERSION, 3, "a file has another format version")                    \
    STATUS(NUMERIC, 3, "a factorisation did not pass its check")               \
    STATUS(STOPPED, 75, "stopped early on purpose: run the same command again")

enum status {
#define STATUS(name, code, text) STATUS_##name,
    STATUS_TABLE(STATUS)
#undef STATUS
    STATUS_COUNT
};

/* Records the message of this thread (at most STATUS_TEXT_MAX - 1 characters) and returns `s`. */
#define STATUS_TEXT_MAX 4096
enum status status_fail(enum status s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "what: " before this thread's message; returns `s`. Used where a caller knows more (which run, which file). */
enum status status_context(enum status s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The message of the last failure in this thread; never NULL. */
const char *status_text(void);

/* The name ("IO"), what it means, and the program's exit code for it. */
const char *status_name(enum status s);
const char *status_meaning(enum status s);
int status_exit_code(enum status s);

#endif
