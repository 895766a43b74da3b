#include "analysis/report.h"

#include "analysis/claims.h"
#include "analysis/figures.h"
#include "analysis/gnuplot.h"
#include "analysis/html.h"
#include "analysis/results.h"
#include "analysis/variables.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "job/plan.h"
#include "job/schedule.h"
#include "store/strikes.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A larger SVG (maps of thousands of points) makes the page slow: its PNG is taken instead. */
#define SVG_BYTES 1500000

/* Runs that went wrong are listed up to this many. */
#define RUNS_LISTED 50

/* ---- what was run ---- */

static void add_outcomes(struct text *t, const struct results *r)
{
    size_t count[OUTCOME_COUNT] = {0}, present = 0;
    for (size_t i = 0; i < r->n; i++)
        if (r->outcome[i] >= 0 && r->outcome[i] < OUTCOME_COUNT) {
            count[(int)r->outcome[i]]++;
            present++;
        }
    for (int o = 0, said = 0; o < OUTCOME_COUNT; o++)
        if (count[o])
            text_add(t, "%s%zu %s", said++ ? ", " : "", count[o], outcome_name((enum outcome)o));
    if (present < r->n)
        text_add(t, "%s%zu missing", present ? ", " : "", r->n - present);
}

static void add_seconds(struct text *t, double s)
{
    if (s < 60)
        text_add(t, "%.3g s", s);
    else if (s < 3600)
        text_add(t, "%.0f min %02.0f s", floor(s / 60), floor(fmod(s, 60)));
    else
        text_add(t, "%.0f h %02.0f min", floor(s / 3600), floor(fmod(s, 3600) / 60));
}

static void add_axis_row(struct text *t, const struct axis *axis)
{
    struct text values = {0};
    for (int i = 0; i < axis->count; i++) {
        const char *word = variables_axis_word(axis, axis->value[i]);
        text_add(&values, "%s", i ? ", " : "");
        if (word)
            text_add(&values, "%s", word);
        else
            text_add(&values, "%.6g", axis->value[i]);
    }
    char *heading = memory_format("axis %s", axis->key->path);
    html_row(t, heading, "%s", text_string(&values));
    memory_free(heading);
    text_free(&values);
}

static void add_seeds_row(struct text *t, const struct job *job)
{
    struct text seeds = {0};
    for (int i = 0; i < job->seeds && i < 40; i++)
        text_add(&seeds, "%s%llu", i ? ", " : "", (unsigned long long)job->seed[i]);
    if (job->seeds > 40)
        text_add(&seeds, ", ... (%d of them)", job->seeds);
    html_row(t, "seeds", "%s", text_string(&seeds));
    text_free(&seeds);
}

static void add_time_rows(struct text *t, const struct results *r)
{
    double *time = results_get(r->runs, "wall_time"), sum = 0;
    struct range range = results_range(time, time ? r->n : 0);
    for (size_t i = 0; time && i < r->n; i++)
        sum += isfinite(time[i]) ? time[i] : 0;
    if (range.n > 0) {
        struct text s = {0};
        add_seconds(&s, sum);
        text_add(&s, " of training on one core each, ");
        figures_add_range(&s, range);
        text_add(&s, " s a run");
        html_row(t, "time", "%s", text_string(&s));
        text_free(&s);
    }
    memory_free(time);
}

/* A row from a global attribute of runs.nc, where it has one. */
static void add_attribute_row(struct text *t, const struct results *r, const char *heading, const char *attribute)
{
    const char *value = ncfile_get_attribute(r->runs, NULL, attribute);
    if (*value)
        html_row(t, heading, "%s", value);
}

static void add_job(struct text *t, const struct results *r)
{
    const struct job *job = r->job;
    struct text outcomes = {0};
    add_outcomes(&outcomes, r);
    text_add(t, "<h2>What was run</h2>\n<table>\n");
    html_row(t, "runs", "%zu: %s", r->n, text_string(&outcomes));
    for (int a = 0; a < job->axes; a++)
        add_axis_row(t, &job->axis[a]);
    add_seeds_row(t, job);
    add_time_rows(t, r);
    add_attribute_row(t, r, "instruction set", "instruction_set");
    add_attribute_row(t, r, "trained by revision", "training_revision");
    add_attribute_row(t, r, "gathered by revision", "invar_revision");
    add_attribute_row(t, r, "libraries", "libraries");
    add_attribute_row(t, r, "gathered", "history");
    text_add(t, "</table>\n<details><summary>the effective job, all defaults filled in</summary><pre>");
    char *effective = job_print(job);
    html_add(t, effective);
    memory_free(effective);
    text_add(t, "</pre></details>\n");
    text_free(&outcomes);
}

/* ---- claims ---- */

static const struct { const char *class, *word; } verdicts[] = {
    [CLAIM_HOLDS] = {"holds", "holds"}, [CLAIM_FAILS] = {"fails", "fails"}, [CLAIM_UNKNOWN] = {"unknown", "unknown"}};

static void add_cell(struct text *t, const char *open, const char *s, const char *close)
{
    text_add(t, "%s", open);
    html_add(t, s ? s : "");
    text_add(t, "%s", close);
}

static void add_claims(struct text *t, const struct judged *judged, int n)
{
    text_add(t, "<h2>Claims</h2>\n");
    if (n == 0) {
        text_add(t, "<p>The job has no claims.</p>\n");
        return;
    }
    text_add(t, "<table>\n<tr><th></th><th>claim</th><th>measured</th><th>says</th><th>source</th></tr>\n");
    for (int i = 0; i < n; i++) {
        const struct claim *c = judged[i].claim;
        text_add(t, "<tr><td class=\"verdict %s\">%s</td>", verdicts[judged[i].verdict].class,
                 verdicts[judged[i].verdict].word);
        add_cell(t, "<td><code>", c->text, "</code></td>");
        add_cell(t, "<td class=\"number\">", judged[i].measured, "</td>");
        add_cell(t, "<td>", c->says, "</td>");
        add_cell(t, "<td>", c->source, "</td></tr>\n");
    }
    text_add(t, "</table>\n");
}

/* ---- runs that went wrong ---- */

static char **get_texts(const struct results *r, const char *name, size_t *n)
{
    *n = 0;
    return ncfile_has(r->runs, name) ? ncfile_get_texts(r->runs, name, n) : NULL;
}

static void add_grid_point(struct text *t, const struct results *r, size_t run)
{
    int position[JOB_AXES_MAX], seed;
    job_locate(r->job, run, position, &seed);
    for (int a = 0; a < r->job->axes; a++) {
        const struct axis *axis = &r->job->axis[a];
        const char *word = variables_axis_word(axis, axis->value[position[a]]);
        text_add(t, "<td class=\"number\">");
        if (word)
            html_add(t, word);
        else
            text_add(t, "%.6g", axis->value[position[a]]);
        text_add(t, "</td>");
    }
    text_add(t, "<td class=\"number\">%llu</td>", (unsigned long long)r->job->seed[seed]);
}

static void add_wrong_run(struct text *t, const struct results *r, size_t run, double last, const char *error)
{
    text_add(t, "<tr><td class=\"number\">%zu</td>", run);
    add_grid_point(t, r, run);
    text_add(t, "<td>%s</td>", outcome_name((enum outcome)r->outcome[run]));
    if (isfinite(last))
        text_add(t, "<td class=\"number\">%.0f</td>", last);
    else
        text_add(t, "<td></td>");
    add_cell(t, "<td>", error, "</td></tr>\n");
}

static void add_wrong_runs(struct text *t, const struct results *r)
{
    size_t wrong = 0, errors;
    for (size_t i = 0; i < r->n; i++)
        wrong += r->outcome[i] == OUTCOME_FAILED || r->outcome[i] == OUTCOME_DIVERGED;
    if (wrong == 0)
        return;
    double *last = results_get(r->runs, "last_finite_step");
    char **error = get_texts(r, "error", &errors);
    text_add(t, "<h2>Runs that failed or diverged</h2>\n<table>\n<tr><th>run</th>");
    for (int a = 0; a < r->job->axes; a++)
        add_cell(t, "<th>", r->job->axis[a].key->path, "</th>");
    text_add(t, "<th>seed</th><th>outcome</th><th>last finite step</th><th>why</th></tr>\n");
    size_t listed = 0;
    for (size_t i = 0; i < r->n && listed < RUNS_LISTED; i++)
        if (r->outcome[i] == OUTCOME_FAILED || r->outcome[i] == OUTCOME_DIVERGED) {
            add_wrong_run(t, r, i, last ? last[i] : (double)NAN, i < errors ? error[i] : "");
            listed++;
        }
    text_add(t, "</table>\n");
    if (wrong > listed)
        text_add(t, "<p>The first %zu of %zu; all are in runs.nc.</p>\n", listed, wrong);
    for (size_t i = 0; i < errors; i++)
        memory_free(error[i]);
    memory_free(error);
    memory_free(last);
}

/* Tiles whose rank died while it trained them, with what their last strike says. */
static void add_strikes(struct text *t, const char *dir, const struct job *job)
{
    struct plan *p = plan_new(job);
    bool any = false;
    for (size_t i = 0; i < p->tiles; i++) {
        int strikes = strikes_count(dir, p->tile[i].id);
        if (strikes == 0)
            continue;
        if (!any)
            text_add(t, "<h2>Tiles that lost their ranks</h2>\n");
        any = true;
        char *last = strikes_text(dir, p->tile[i].id, strikes);
        text_add(t, "<p>Tile %s (%zu runs from run %zu on): %d time%s%s. The last time:</p>\n<pre>", p->tile[i].id,
                 p->tile[i].count, p->tile[i].first, strikes, strikes == 1 ? "" : "s",
                 strikes >= SCHEDULE_STRIKES ? "; it is quarantined until a launch with --retry-quarantined" : "");
        html_add(t, last ? last : "");
        text_add(t, "</pre>\n");
        memory_free(last);
    }
    plan_free(p);
}

static void warn_of_missing(const struct results *r)
{
    size_t missing = 0;
    for (size_t i = 0; i < r->n; i++)
        missing += isnan(r->outcome[i]) ? 1 : 0;
    if (missing)
        log_line(LOG_WARNING, "%zu of %zu runs are missing from runs.nc: the report is about the others", missing, r->n);
}

/* ---- figures ---- */

/* The picture as SVG, or as PNG where the SVG has too many points; 0 when it is not there. */
static int add_picture(struct text *t, const char *folder, const struct figure *g)
{
    char *svg_path = memory_format("%s/%s.svg", folder, g->name), *png_path = memory_format("%s/%s.png", folder, g->name);
    size_t svg_length = 0, png_length = 0;
    char *svg = text_read_file(svg_path, &svg_length);
    char *png = svg_length > SVG_BYTES ? text_read_file(png_path, &png_length) : NULL;
    if (png)
        html_add_png(t, png, png_length);
    else if (svg)
        html_add_svg(t, svg, g->name);
    int there = svg || png;
    memory_free(svg);
    memory_free(png);
    memory_free(svg_path);
    memory_free(png_path);
    return there;
}

static void add_figure(struct text *t, const char *folder, const struct figure *g)
{
    text_add(t, "<figure id=\"%s\"%s>\n", g->name, g->width > 700 ? " class=\"wide\"" : "");
    if (g->fault || !add_picture(t, folder, g))
        add_cell(t, "<p class=\"fault\">Not drawn: ", g->fault ? g->fault : "the picture is not there", "</p>\n");
    add_cell(t, "<figcaption><b>", g->title, ".</b> ");
    add_cell(t, "", text_string(&g->caption), "</figcaption>\n</figure>\n");
}

static void add_figures(struct text *t, const char *folder, const struct figures *f, int drawn)
{
    text_add(t, "<h2>Figures</h2>\n");
    if (!drawn)
        text_add(t, "<p class=\"fault\">gnuplot is not installed: there are no pictures. Install it and run "
                    "<code>invar report</code> again.</p>\n");
    else if (f->count == 0)
        text_add(t, "<p>No run has anything to draw.</p>\n");
    text_add(t, "<div class=\"figures\">\n");
    for (int i = 0; drawn && i < f->count; i++)
        add_figure(t, folder, &f->figure[i]);
    text_add(t, "</div>\n");
}

/* Every figure is tried; the first fault is returned. */
static enum status draw(const char *folder, struct figures *f)
{
    enum status first = STATUS_OK;
    char *said = NULL;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return status_fail(STATUS_IO, "%s: cannot be made: %s", folder, strerror(errno));
    for (int i = 0; i < f->count; i++) {
        struct figure *g = &f->figure[i];
        enum status s = gnuplot_draw(folder, g->name, text_string(&g->data), text_string(&g->plot), g->width,
                                     g->height);
        if (s == STATUS_OK)
            continue;
        g->fault = memory_text(status_text());
        log_line(LOG_WARNING, "figure %s: %s", g->name, g->fault);
        if (first == STATUS_OK) {
            first = s;
            said = memory_text(g->fault);
        }
    }
    if (first != STATUS_OK)
        status_fail(first, "%s", said);
    memory_free(said);
    return first;
}

/* ---- the page ---- */

static enum status publish(struct store *store, const struct text *t)
{
    char *path = store_temporary(store, "report.html");
    FILE *f = fopen(path, "w");
    enum status s = STATUS_OK;
    if (!f || fwrite(text_string(t), 1, t->length, f) != t->length)
        s = status_fail(STATUS_IO, "%s: cannot be written: %s", path, strerror(errno));
    if (f && fclose(f) != 0 && s == STATUS_OK)
        s = status_fail(STATUS_IO, "%s: cannot be written: %s", path, strerror(errno));
    if (s == STATUS_OK)
        s = store_publish(store, path, "report.html");
    else
        remove(path);
    memory_free(path);
    return s;
}

static void add_lead(struct text *t, const struct results *r, const struct judged *judged, int claims)
{
    int hold = 0;
    struct text outcomes = {0};
    for (int i = 0; i < claims; i++)
        hold += judged[i].verdict == CLAIM_HOLDS;
    add_outcomes(&outcomes, r);
    text_add(t, "<h1>");
    html_add(t, r->job->name);
    text_add(t, "</h1>\n<p class=\"lead\">%zu run%s: %s.", r->n, r->n == 1 ? "" : "s", text_string(&outcomes));
    if (claims > 0)
        text_add(t, " %d of %d claim%s hold%s.", hold, claims, claims == 1 ? "" : "s", claims == 1 ? "s" : "");
    text_add(t, "</p>\n");
    text_free(&outcomes);
}

static enum status write_page(struct store *store, const struct results *r, const struct judged *judged)
{
    char *folder = memory_format("%s/figures", store_dir(store));
    struct figures figures = figures_make(r);
    struct text t = {0};
    int can_draw = gnuplot_found();
    enum status drawn = can_draw ? draw(folder, &figures) : STATUS_OK;
    char *fault = memory_text(drawn == STATUS_OK ? "" : status_text());
    if (!can_draw)
        log_line(LOG_WARNING, "gnuplot is not installed: the report has no pictures");
    html_begin(&t, r->job->name);
    add_lead(&t, r, judged, r->job->claims);
    add_claims(&t, judged, r->job->claims);
    add_figures(&t, folder, &figures, can_draw);
    add_wrong_runs(&t, r);
    add_strikes(&t, store_dir(store), r->job);
    add_job(&t, r);
    html_end(&t);
    enum status s = publish(store, &t);
    if (s == STATUS_OK && drawn != STATUS_OK)
        s = status_fail(drawn, "%s", fault);
    memory_free(fault);
    text_free(&t);
    figures_free(&figures);
    memory_free(folder);
    return s;
}

enum status report_write(struct store *store, const struct job *job, int *claims_failed)
{
    struct judged *judged = memory_new((size_t)job->claims, sizeof *judged);
    struct results r;
    enum status s = claims_judge(store_dir(store), job, judged);
    if (s == STATUS_OK) {
        s = results_open(store_dir(store), job, &r);
        if (s == STATUS_OK) {
            warn_of_missing(&r);
            s = write_page(store, &r, judged);
        }
        enum status closed = results_close(&r);
        if (s == STATUS_OK)
            s = closed;
    }
    *claims_failed = 0;
    for (int i = 0; i < job->claims; i++)
        *claims_failed += judged[i].verdict != CLAIM_HOLDS;
    claims_clear(judged, job->claims);
    memory_free(judged);
    return s;
}
