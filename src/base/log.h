/* log.h: what the program says while it works.
 *
 * One line an event, to standard error and, once log_file() was called, with a time stamp to the output folder's
 * log. The same text is written at most LOG_REPEATS times; after that it is only counted, and the count is said
 * at the end: a log that nobody watches over night must not fill the disk.
 */
#ifndef INVAR_BASE_LOG_H
#define INVAR_BASE_LOG_H

#define LOG_REPEATS 5

enum log_level { LOG_DETAIL, LOG_INFO, LOG_WARNING, LOG_ERROR };

/* Lines below `level` are not printed on standard error (the file takes all but LOG_DETAIL). Default LOG_INFO. */
void log_threshold(enum log_level level);
/* `who` stands before each line ("rank 3"); may be NULL. Copied. */
void log_who(const char *who);
/* Appends to this file from now on (NULL: no more); returns 0 when it cannot be opened (errno says why). */
int log_file(const char *path);
/* Thread-safe. A newline is added. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A hook that clears a progress bar before a line is printed on a terminal; may be NULL. */
void log_before_line(void (*hook)(void));
/* Says how often suppressed lines came; closes the file. */
void log_finish(void);

#endif
