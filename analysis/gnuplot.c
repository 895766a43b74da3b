#include "analysis/gnuplot.h"

#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A picture takes a tenth of a second; a gnuplot that waits for something is ended. */
#define SECONDS 60

static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
                                      "#8C6D31"};

const char *gnuplot_colour(int i) { return colours[i % 8]; }

static const char style[] =
    "set encoding utf8\n"
    "set format '%g'\n"
    "set border 3 lc rgb '#444444'\n"
    "set tics nomirror out scale 0.6 textcolor rgb '#222222'\n"
    "set grid lc rgb '#e4e4e4' lt 1 lw 0.7\n"
    "set style fill solid 1.0 noborder\n"
    "set palette defined (0 '#440154', 1 '#482878', 2 '#3e4989', 3 '#31688e', 4 '#26828e', 5 '#1f9e89', 6 '#35b779', "
    "7 '#6ece58', 8 '#b5de2b', 9 '#fde725')\n";

int gnuplot_found(void)
{
    const char *path = getenv("PATH");
    int found = 0;
    for (const char *p = path; p && *p && !found;) {
        size_t n = strcspn(p, ":");
        char *file = memory_format("%.*s/gnuplot", (int)n, p);
        found = n > 0 && access(file, X_OK) == 0;
        memory_free(file);
        p += n + (p[n] == ':');
    }
    return found;
}

/* The variable `small` is the font of numbers in cells: SVG counts in pixels, PNG in points.
 * `reset` keeps terminal, output and datablocks: both pictures start from the same settings. */
static void add_script(struct text *t, const char *name, const char *data, const char *plot, int width, int height)
{
    text_add(t, "# gnuplot %s.gp draws %s.svg and %s.png\n%s", name, name, name, data);
    text_add(t, "\nset terminal svg size %d,%d font 'sans-serif,13' background '#ffffff'\nset output '%s.svg'\n", width,
             height, name);
    for (int i = 0; i < 8; i++)
        text_add(t, "set linetype %d lc rgb '%s'\n", i + 1, colours[i]);
    text_add(t, "set linetype cycle 8\nsmall = ',10'\nreset\n%s%sunset output\n", style, plot);
    int w = width * 3 / 2, h = height * 3 / 2;
    text_add(t, "\nif (strstrt(GPVAL_TERMINALS, 'pngcairo')) {\n"
                "    set terminal pngcairo size %d,%d font 'sans,10' fontscale 1.5 linewidth 1.5 background '#ffffff'\n"
                "} else {\n    set terminal png truecolor size %d,%d\n}\n", w, h, w, h);
    text_add(t, "set output '%s.png'\nsmall = ',7.5'\nreset\n%s%sunset output\n", name, style, plot);
}

static enum status write_script(const char *path, const struct text *t)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return status_fail(STATUS_IO, "%s: cannot be written: %s", path, strerror(errno));
    int bad = fwrite(text_string(t), 1, t->length, f) != t->length;
    bad |= fclose(f) != 0;
    return bad ? status_fail(STATUS_IO, "%s: cannot be written: %s", path, strerror(errno)) : STATUS_OK;
}

static _Noreturn void become_gnuplot(const char *dir, const char *file, int say)
{
    dup2(say, STDERR_FILENO);
    dup2(say, STDOUT_FILENO);
    setenv("LC_ALL", "C.UTF-8", 1);     /* in a locale that is not UTF-8 "set encoding utf8" brings warnings */
    if (chdir(dir) == 0)
        execlp("gnuplot", "gnuplot", file, (char *)NULL);
    dprintf(STDERR_FILENO, "cannot be started: %s", strerror(errno));
    _exit(127);
}

/* What the child says, until it closes its end or the time is over. */
static void listen_to(int from, struct text *said, pid_t child)
{
    struct pollfd p = {.fd = from, .events = POLLIN};
    char buffer[4096];
    ssize_t n;
    while (poll(&p, 1, SECONDS * 1000) > 0 && (n = read(from, buffer, sizeof buffer)) > 0)
        text_add_bytes(said, buffer, (size_t)n);
    if (p.revents == 0) {
        kill(child, SIGKILL);
        text_add(said, "gave no answer for %d s", SECONDS);
    }
}

static enum status run(const char *dir, const char *file)
{
    int ends[2], how = 0;
    if (pipe(ends) != 0)
        return status_fail(STATUS_IO, "no pipe to gnuplot: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0) {
        close(ends[0]);
        close(ends[1]);
        return status_fail(STATUS_ENVIRONMENT, "gnuplot cannot be started: %s", strerror(errno));
    }
    if (child == 0)
        become_gnuplot(dir, file, ends[1]);
    close(ends[1]);
    struct text said = {0};
    listen_to(ends[0], &said, child);
    close(ends[0]);
    while (waitpid(child, &how, 0) < 0 && errno == EINTR)
        continue;
    while (said.length && strchr(" \n", said.s[said.length - 1]))
        said.s[--said.length] = '\0';
    enum status s = STATUS_OK;
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0 || said.length > 0)
        s = status_fail(STATUS_ENVIRONMENT, "gnuplot %s/%s: %s", dir, file,
                        said.length ? said.s : "ended without a word");
    text_free(&said);
    return s;
}

enum status gnuplot_draw(const char *dir, const char *name, const char *data, const char *plot, int width, int height)
{
    struct text script = {0};
    add_script(&script, name, data, plot, width, height);
    char *path = memory_format("%s/%s.gp", dir, name), *file = memory_format("%s.gp", name);
    enum status s = write_script(path, &script);
    if (s == STATUS_OK)
        s = run(dir, file);
    text_free(&script);
    memory_free(path);
    memory_free(file);
    return s;
}
