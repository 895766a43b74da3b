/* rules_names.c: rules about names of coordinates, and about the axes that are refined. */
#include "base/memory.h"
#include "base/status.h"
#include "job/axis.h"
#include "job/kinds.h"
#include "job/manifold.h"
#include "job/rules_private.h"
#include "job/shape.h"

#include <string.h>

/* ---- names of coordinates ---- */

static const char *const manifold_reads[] = {
    "model.coordinates", "model.layers", "model.heads", "model.shifts", "model.rare_identity", "model.kind", "init.scheme",
    "init.coordinates", "task.kind", "task.pattern", "task.order", "task.common", "task.rare_tokens",
    "probe.manifold.coordinates", "probe.manifold.gradient", "probe.manifold.winner", "probe.circuit.budget", NULL};

/* All on which the directions depend: points of the axes that share it have the same names. Compared as bytes: no padding. */
struct signature {
    int64_t needed, at_point, layers, heads, shifts, rare_identity, block, common, rare;
};

static struct signature signature_of(const struct spec *s)
{
    struct signature g = {0};
    struct task_shape shape = shape_of(s);
    g.needed = kinds_on_manifold(s) && s->model.kind != MODEL_DECODER && shape.block > 0;
    if (!g.needed)
        return g;
    g.at_point = s->init.scheme == INIT_COORDINATES;
    g.layers = s->model.layers;
    g.heads = s->model.heads;
    g.shifts = s->model.shifts;
    g.rare_identity = s->model.rare_identity;
    g.block = shape.block;
    g.common = shape.common > 0;
    g.rare = shape.vocabulary > shape.common;
    return g;
}

struct checker {
    const struct rule_scope *scope;
    struct complaints *complaints;
    struct rule_walk walk;
    struct spec *spec;
    int seen, capacity;
    struct signature *signature;
    bool done[KEY_NAMED_MAX * 2], refused;       /* names that were complained about; model.coordinates was */
};

static bool is_new(struct checker *k, struct signature g)
{
    for (int i = 0; i < k->seen; i++)
        if (!memcmp(&k->signature[i], &g, sizeof g))
            return false;
    if (k->seen == k->capacity) {
        int capacity = 2 * k->capacity + 8;
        k->signature = memory_grow(k->signature, (size_t)k->seen, (size_t)capacity, sizeof *k->signature);
        k->capacity = capacity;
    }
    k->signature[k->seen++] = g;
    return true;
}

static int key_number(const char *path) { return (int)(key_find(path) - key_at(0)); }

/* Where the word at `offset` of model.coordinates stands. */
static struct place word_place(const struct checker *k, size_t offset)
{
    int number = key_number("model.coordinates");
    struct place p = k->scope->text[number];
    if (!p.line)
        return rule_place(manifold_reads, k->scope, "model.coordinates");
    p.column += (int)offset;
    return p;
}

static void say_unknown(struct checker *k, const struct manifold *all, struct place where, const char *key, const char *name)
{
    char *why = memory_format("%s: %s is no coordinate of a model of %d layer%s of %d head%s on this task; the nearest is %s",
                              key, name, all->layers, all->layers == 1 ? "" : "s", all->heads, all->heads == 1 ? "" : "s",
                              manifold_nearest(all, name));
    rule_complain(&k->walk, k->spec, where, why, k->complaints);
    memory_free(why);
}

/* Marks what model.coordinates names; false, with complaints, when it is not a list of coordinates. */
static bool mark_words(struct checker *k, const struct manifold *all, bool *wanted)
{
    const char *text = k->spec->model.coordinates, *at = text;
    size_t n;
    bool ok = true, every = !strcmp(text, "all");
    for (int i = 0; i < all->coordinates; i++)
        wanted[i] = every;
    for (; !every && (at = manifold_next_name(at, &n)); at += n) {
        char name[KEY_TEXT];
        memcpy(name, at, n);
        name[n] = '\0';
        struct place where = word_place(k, (size_t)(at - text));
        int found = manifold_find(all, name);
        if (found < 0)
            say_unknown(k, all, where, "model.coordinates", name);
        else if (wanted[found]) {
            char *why = memory_format("model.coordinates names %s twice: leave one out", name);
            rule_complain(&k->walk, k->spec, where, why, k->complaints);
            memory_free(why);
        }
        ok &= found >= 0 && !wanted[found];
        if (found >= 0)
            wanted[found] = true;
    }
    return ok;
}

static void check_init_names(struct checker *k, const struct manifold *all, const bool *wanted)
{
    for (int i = 0; i < k->scope->names && i < 2 * KEY_NAMED_MAX; i++) {
        const struct rule_name *n = &k->scope->name[i];
        int found = manifold_find(all, n->name);
        if (strcmp(n->key->path, "init.coordinates") || k->done[i] || (found >= 0 && wanted[found]))
            continue;
        k->done[i] = true;
        if (found < 0)
            say_unknown(k, all, n->place, n->key->path, n->name);
        else {
            char *why = memory_format("init.coordinates: %s is left out of the model by model.coordinates: add it there",
                                      n->name);
            rule_complain(&k->walk, k->spec, n->place, why, k->complaints);
            memory_free(why);
        }
    }
}

static void check_point(struct checker *k)
{
    struct manifold *all;
    if (manifold_new_all(k->spec, &all) != STATUS_OK) {
        rule_complain(&k->walk, k->spec, rule_place(manifold_reads + 1, k->scope, status_text()), status_text(), k->complaints);
        k->refused = true;
        return;
    }
    bool *wanted = memory_new((size_t)all->coordinates, sizeof *wanted);
    k->refused = !mark_words(k, all, wanted);
    if (!k->refused && k->spec->init.scheme == INIT_COORDINATES)
        check_init_names(k, all, wanted);
    memory_free(wanted);
    manifold_free(all);
}

static bool names_none(const char *text)
{
    size_t n;
    return !manifold_next_name(text, &n);
}

void rules_check_names(const struct rule_scope *scope, struct complaints *c)
{
    struct checker k = {.scope = scope, .complaints = c, .spec = memory_new(1, sizeof *k.spec)};
    *k.spec = *scope->spec;
    bool possible = rule_walk_begin(&k.walk, manifold_reads, scope, k.spec);
    if (possible && names_none(k.spec->model.coordinates)) {
        complaint_add(c, rule_place(manifold_reads, scope, "model.coordinates"),
                      "model.coordinates names none: give names, such as alpha_1 beta_12 gamma_2, or all");
        possible = false;
    }
    while (possible && !k.refused) {
        struct signature g = signature_of(k.spec);
        if (g.needed && is_new(&k, g))
            check_point(&k);
        possible = rule_walk_next(&k.walk, k.spec);
    }
    memory_free(k.signature);
    memory_free(k.spec);
}

/* ---- refinement ---- */

void rules_check_refinement(const struct rule_scope *scope, struct complaints *c)
{
    int levels = (int)scope->spec->refine.levels, refined = 0, number = key_number("refine.levels");
    if (levels == 0 || scope->bad[number])
        return;
    for (int i = 0; i < scope->axes; i++) {
        const struct axis *a = &scope->axis[i];
        if (!axis_is_range(a))
            continue;
        refined++;
        if ((a->count - 1) % (1 << levels))
            complaint_add(c, scope->place[number], "refine.levels %d halves %d times, but axis %s has %d points: it needs a "
                          "multiple of %d and one more, such as %d", levels, levels, a->key->path, a->count, 1 << levels,
                          (((a->count - 1) >> levels) + 1) * (1 << levels) + 1);
    }
    if (!refined)
        complaint_add(c, scope->place[number], "refine.levels %d: there is no axis to refine, a range of more than two numbers",
                      levels);
}
