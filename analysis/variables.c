#include "analysis/variables.h"

#include "base/memory.h"
#include "base/text.h"
#include "store/record_sets.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SCALAR_ROW(name, units, type, map, long_name, value) {#name, units, long_name, type, map, 0},
#define PROBE_ROW(name, units, type, map, long_name, value) {#name, units, long_name, type, map, 1},
static const struct run_variable table[] = {RUN_SCALARS(SCALAR_ROW) RUN_PROBES(PROBE_ROW)};
enum { COUNT = sizeof table / sizeof table[0] };

const struct run_variable *variables_scalar(int i) { return i >= 0 && i < COUNT ? &table[i] : NULL; }
int variables_scalars(void) { return COUNT; }

static double dimension(int d) { return d < 0 ? (double)NAN : (double)d; }

void variables_values(const struct record *r, const struct record_probe *p, double *value)
{
    int i = 0;
#define SCALAR_VALUE(name, units, type, map, long_name, expression) value[i++] = expression;
#define PROBE_VALUE(name, units, type, map, long_name, expression) value[i++] = p ? expression : NAN;
    RUN_SCALARS(SCALAR_VALUE)
    RUN_PROBES(PROBE_VALUE)
}

#define ROW(name, dims, units, long_name) text_add(&t, "| `%s` | %s | %s | %s |\n", name, dims, units, long_name);
#define CURVE_ROW(name, units, long_name, pointer) ROW(#name, "run, step", units, long_name)
#define COMPONENTS_ROW(name, units, long_name, parts, count, pointer)                                                  \
    ROW(#name, parts == 1 ? "run, component" : "run, component, part", units, long_name)
#define TRUTH_ROW(name, long_name, value) ROW(#name, "run", "1", long_name)

/* Those of the manifold and the circuit probe (runs_manifold.c), which jobs without these probes do not have. */
static void add_sets(struct text *t)
{
    static const char *const inner[] = {"manifold_step", "manifold_coordinates", "manifold_layers", "manifold_circuits",
                                        "circuit_step", "circuit_coordinates"};
    for (int k = 0; k < RECORD_SETS; k++)
        for (int i = 0; i < record_sets[k].fields; i++) {
            const struct set_field *f = &record_sets[k].field[i];
            const char *name = strcmp(f->name, "manifold_winner") ? f->name : "winner";
            bool shown = true;
            for (size_t j = 0; j < sizeof inner / sizeof *inner; j++)
                shown = shown && strcmp(name, inner[j]);
            if (shown)
                text_add(t, "| `%s` | run%s%s | 1 | %s |\n", name, f->extent == SET_ONE ? "" : ", ",
                         record_set_dimension(f->extent), f->long_name);
        }
    text_add(t, "| `emergence_step` | run | 1 | first step with a training loss below probe.manifold.emerged_below |\n");
    text_add(t, "| `coordinate_step` | run, direction | 1 | time at which the coordinate first reached probe.manifold.level |\n");
}

char *variables_reference(void)
{
    struct text t = {0};
    text_add(&t, "| variable | dimensions | unit | what it is |\n|---|---|---|---|\n");
    ROW("outcome", "run", "1", "what became of the run: DONE, DIVERGED, UNFINISHED or FAILED")
    for (int i = 0; i < COUNT; i++)
        ROW(table[i].name, "run", table[i].units, table[i].long_name)
    RUN_CURVES(CURVE_ROW)
    RUN_COMPONENTS(COMPONENTS_ROW)
    RUN_TRUTHS(TRUTH_ROW)
    ROW(RUN_TRUE_EIGENVALUE, "run, component, part", "1", RUN_TRUE_EIGENVALUE_SAYS)
    add_sets(&t);
    char *reference = memory_text(text_string(&t));
    text_free(&t);
    return reference;
}

char *variables_axis_name(const struct axis *axis)
{
    char *name = memory_text(axis->key->path);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c))
            *c = '_';
    return name;
}

static const char *const bool_words[] = {"false", "true"};

const char *variables_axis_word(const struct axis *axis, double v)
{
    int i = (int)v;
    if (axis->key->type == KEY_BOOL)
        return bool_words[i != 0];
    if (axis->key->type == KEY_CHOICE && i >= 0 && i < axis->key->words_count)
        return axis->key->words[i];
    return NULL;
}

void variables_axis_define(struct ncfile *f, const struct axis *axis, const char *name, const char *dim)
{
    const struct key *k = axis->key;
    enum nc_type_name type = k->type == KEY_REAL ? NCFILE_DOUBLE : k->type == KEY_INT ? NCFILE_INT64 : NCFILE_INT;
    ncfile_variable(f, name, type, dim, k->unit && *k->unit ? k->unit : "1", k->doc && *k->doc ? k->doc : k->path);
    ncfile_attribute(f, name, "key", k->path);
    if (k->type == KEY_BOOL)
        ncfile_flags(f, name, 2, bool_words);
    if (k->type == KEY_CHOICE)
        ncfile_flags(f, name, k->words_count, k->words);
}

void variables_axis_order(const struct axis *axis, int *order)
{
    for (int i = 0; i < axis->count; i++) {
        int k = i;
        for (; k > 0 && axis->value[order[k - 1]] > axis->value[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
}
