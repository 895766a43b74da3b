#include "job/found.h"

#include <limits.h>
#include <string.h>

#define LIST_FIRST 8

static const char *const section_path[] = {
#define PATH(path_, ...) path_,
    KEY_SECTIONS(PATH)
#undef PATH
};
enum { SECTIONS = sizeof section_path / sizeof section_path[0] };

static const char *const top_names[] = {"name", "seeds", "axes", "claims"};

/* ---- unknown keys ---- */

/* The section, top name or key that was probably meant. */
static const char *nearest_name(const char *path)
{
    const char *best = NULL;
    int least = INT_MAX;
    for (int i = 0; i < SECTIONS + 4; i++) {
        const char *name = i < SECTIONS ? section_path[i] : top_names[i - SECTIONS];
        int d = text_distance(path, name);
        if (d < least && d <= 1 + (int)strlen(name) / 4) {
            least = d;
            best = name;
        }
    }
    const char *key = key_nearest(path);
    if (best && least <= 1 && !strchr(path, '.'))
        return best;                     /* seed: seeds rather than task.seed */
    if (key && !strcmp(key_last_name(key), key_last_name(path)))
        return key;
    return best && (!key || least <= text_distance(path, key)) ? best : key;
}

/* `prefix` is the section that the key was written in: the suggestion repeats it only where it differs. */
static void unknown_key(struct found_keys *f, const struct tree *key, const char *prefix, const char *path)
{
    const char *near = nearest_name(path);
    size_t n = strlen(prefix);
    if (near && n && !strncmp(near, prefix, n) && near[n] == '.')
        near += n + 1;
    if (near)
        complaint_add(f->complaints, key->place, "unknown key %s (did you mean \"%s\"?)", path, near);
    else
        complaint_add(f->complaints, key->place, "unknown key %s", path);
}

/* ---- finding the keys ---- */

static void note(struct found_keys *f, struct found *slot, const struct tree *key, const struct tree *item,
                 const char *path)
{
    if (slot->key && slot->key->place.source == key->place.source)
        complaint_add(f->complaints, key->place, "duplicate key %s (first in line %d)", path, slot->key->place.line);
    else
        *slot = (struct found){key, item};
}

static const char *join(struct found_keys *f, const char *prefix, const char *name)
{
    char *s = memory_format("%s%s%s", prefix, *prefix ? "." : "", name);
    char *kept = arena_text(f->arena, s);
    memory_free(s);
    return kept;
}

static int section_number(const char *path)
{
    for (int i = 0; i < SECTIONS; i++)
        if (!strcmp(section_path[i], path))
            return i;
    return -1;
}

static const char *first_key_of(const char *section)
{
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++)
        if (!strcmp(k->section, section))
            return k->name;
    return "";
}

static void not_a_section(struct found_keys *f, const struct tree *item, const char *path)
{
    if (item->kind == TREE_NULL)
        complaint_add(f->complaints, item->place, "%s is empty: give it keys, or remove it", path);
    else
        complaint_add(f->complaints, item->place, "%s is a section: expected keys such as {%s: ...}, got %s", path,
                      first_key_of(path), tree_describe(f->arena, item));
}

/* ---- numbers by name ---- */

static struct found *find_name(const struct found_keys *f, const struct key *k, const char *name)
{
    for (int i = 0; i < f->names; i++)
        if (f->name_of[i].key == k && !strcmp(f->name_of[i].name, name))
            return &f->name_of[i].at;
    return NULL;
}

const struct found *found_name_at(const struct found_keys *f, const struct key *k, const char *name)
{
    return find_name(f, k, name);
}

static bool accept_name(struct found_keys *f, const struct key *k, const struct tree *key, const char *name)
{
    if (key_name_is_good(name))
        return true;
    complaint_add(f->complaints, key->place, "%s: \"%s\" cannot be a name: expected up to %d letters, digits, _ and -", k->path,
                  name, KEY_NAMED_TEXT - 1);
    return false;
}

static void add_name(struct found_keys *f, const struct key *k, const char *name, const struct tree *key,
                     const struct tree *item)
{
    if (!accept_name(f, k, key, name))
        return;
    struct found *known = find_name(f, k, name);
    if (known) {
        note(f, known, key, item, join(f, k->path, name));
        return;
    }
    if (f->names == f->names_capacity) {
        int capacity = 2 * f->names_capacity + LIST_FIRST;
        f->name_of = memory_grow(f->name_of, (size_t)f->names, (size_t)capacity, sizeof *f->name_of);
        f->names_capacity = capacity;
    }
    f->name_of[f->names++] = (struct found_name){k, arena_text(f->arena, name), {key, item}};
}

/* --set init.coordinates={...} replaces all of them. */
static void forget_names(struct found_keys *f, const struct key *k)
{
    int kept = 0;
    for (int i = 0; i < f->names; i++)
        if (f->name_of[i].key != k)
            f->name_of[kept++] = f->name_of[i];
    f->names = kept;
}

static void find_names(struct found_keys *f, const struct key *k, const struct tree *key, const struct tree *item)
{
    note(f, &f->key[k - key_at(0)], key, item, k->path);
    if (key->place.source > 0)
        forget_names(f, k);
    for (int i = 0; i < item->count && item->kind == TREE_MAP; i++)
        add_name(f, k, item->key[i]->text, item->key[i], item->item[i]);
}

/* ---- all keys ---- */

static void find_keys(struct found_keys *f, const struct tree *map, const char *prefix);

static void find_key(struct found_keys *f, const struct tree *key, const struct tree *item, const char *prefix)
{
    const char *path = join(f, prefix, key->text);
    const char *name;
    const struct key *k = key_find(path), *named = key_find_named(path, &name);
    int section = section_number(path);
    if (k && k->type == KEY_NAMED)
        find_names(f, k, key, item);
    else if (named)
        add_name(f, named, name, key, item);
    else if (k)
        note(f, &f->key[k - key_at(0)], key, item, path);
    else if (section < 0)
        unknown_key(f, key, prefix, path);
    else {
        note(f, &f->section[section], key, item, path);
        if (item->kind == TREE_MAP)
            find_keys(f, item, path);
        else
            not_a_section(f, item, path);
    }
}

static void find_keys(struct found_keys *f, const struct tree *map, const char *prefix)
{
    for (int i = 0; i < map->count; i++)
        find_key(f, map->key[i], map->item[i], prefix);
}

static bool can_be_axis(struct found_keys *f, const struct key *k, const char *name, const struct tree *key)
{
    if (!name && (k->type == KEY_LIST || k->type == KEY_STRING))
        complaint_add(f->complaints, key->place, "axis %s: only keys with a single value can be axes", k->path);
    else if (!name && k->type == KEY_NAMED)
        complaint_add(f->complaints, key->place, "axis %s: an axis is one number of it: %s.NAME: [...]", k->path, k->path);
    else if (!k->of_run)
        complaint_add(f->complaints, key->place, "axis %s: the key belongs to the job as a whole; no run depends on it",
                      k->path);
    else
        return !name || accept_name(f, k, key, name);
    return false;
}

/* `name`: of a NAMED key's number, else NULL. */
static void add_axis(struct found_keys *f, const struct key *k, const char *name, struct found at)
{
    if (!can_be_axis(f, k, name, at.key))
        return;
    for (int i = 0; i < f->axes; i++)
        if (f->axis[i].key == k && (!name || !strcmp(f->axis[i].name, name))) {
            const char *path = name ? join(f, k->path, name) : k->path;
            note(f, &f->axis[i].at, at.key, at.item, join(f, "axes", path));
            return;
        }
    if (f->axes == f->axes_capacity) {
        int capacity = 2 * f->axes_capacity + LIST_FIRST;
        f->axis = memory_grow(f->axis, (size_t)f->axes, (size_t)capacity, sizeof *f->axis);
        f->axes_capacity = capacity;
    }
    f->axis[f->axes++] = (struct found_axis){k, name ? arena_text(f->arena, name) : NULL, at};
}

static void find_axis(struct found_keys *f, const struct tree *key, const struct tree *item, const char *prefix)
{
    const char *path = join(f, prefix, key->text), *name = NULL;
    const struct key *k = key_find(path), *named = key_find_named(path, &name);
    bool around = section_number(path) >= 0 || (k && k->type == KEY_NAMED);
    if (around && item->kind == TREE_MAP)
        for (int i = 0; i < item->count; i++)
            find_axis(f, item->key[i], item->item[i], path);
    else if (named)
        add_axis(f, named, name, (struct found){key, item});
    else if (k)
        add_axis(f, k, NULL, (struct found){key, item});
    else if (around)
        not_a_section(f, item, path);
    else
        unknown_key(f, key, prefix, path);
}

static void find_axes(struct found_keys *f, const struct tree *key, const struct tree *item)
{
    note(f, &f->all_axes, key, item, "axes");
    if (key->place.source > 0)
        f->axes = 0;                     /* --set axes={...} replaces all of them */
    if (item->kind == TREE_MAP)
        for (int i = 0; i < item->count; i++)
            find_axis(f, item->key[i], item->item[i], "");
    else if (item->kind == TREE_NULL)
        complaint_add(f->complaints, item->place, "axes is empty: give it keys, or write axes: {}");
    else
        complaint_add(f->complaints, item->place, "axes: expected a mapping such as {train.lr: [1e-4, 1e-3]}, got %s",
                      tree_describe(f->arena, item));
}

static void find_top(struct found_keys *f, const struct tree *key, const struct tree *item)
{
    if (!strcmp(key->text, "name"))
        note(f, &f->name, key, item, "name");
    else if (!strcmp(key->text, "seeds"))
        note(f, &f->seeds, key, item, "seeds");
    else if (!strcmp(key->text, "claims"))
        note(f, &f->claims, key, item, "claims");
    else if (!strcmp(key->text, "axes"))
        find_axes(f, key, item);
    else if (!strncmp(key->text, "axes.", 5)) {
        struct tree *inner = arena_take(f->arena, 1, sizeof *inner);
        *inner = *key;
        inner->text = key->text + 5;
        find_axis(f, inner, item, "");
    }
    else
        find_key(f, key, item, "");
}

void found_in_override(struct found_keys *f, const char *override, int source)
{
    const char *equals = strchr(override, '=');
    struct place here = {source, 1, 1};
    if (!equals || equals == override) {
        complaint_add(f->complaints, here, "expected KEY=VALUE, such as train.lr=1e-3");
        return;
    }
    struct tree *key = arena_take(f->arena, 1, sizeof *key);
    char *path = arena_take(f->arena, (size_t)(equals - override) + 1, 1);
    memcpy(path, override, (size_t)(equals - override));
    *key = (struct tree){.kind = TREE_SCALAR, .place = here, .plain = true, .one_line = true, .text = path};
    struct tree *item = tree_parse(f->arena, equals + 1, strlen(equals + 1), source, f->complaints);
    if (item)
        find_top(f, key, item);
}

void found_in_file(struct found_keys *f, const struct tree *root)
{
    for (int i = 0; i < root->count; i++)
        find_top(f, root->key[i], root->item[i]);
}

struct found_keys found_new(struct arena *arena, struct complaints *c)
{
    struct found_keys f = {.arena = arena, .complaints = c};
    while (key_at(f.keys))
        f.keys++;
    f.key = arena_take(arena, (size_t)f.keys, sizeof *f.key);
    f.section = arena_take(arena, SECTIONS, sizeof *f.section);
    return f;
}

void found_clear(struct found_keys *f)
{
    memory_free(f->name_of);
    memory_free(f->axis);
    *f = (struct found_keys){0};
}
