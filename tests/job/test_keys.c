#include "base/memory.h"
#include "base/text.h"
#include "job/keys.h"

#include "check.h"

#include <stdbool.h>

static bool is_single(const struct key *k) { return k->type != KEY_LIST && k->type != KEY_STRING && k->type != KEY_NAMED; }

TEST(every_key_is_found_by_its_path_and_described)
{
    const struct key *k;
    int n = 0;
    for (; (k = key_at(n)); n++) {
        CHECK(key_find(k->path) == k);
        CHECK(!strncmp(k->path, k->section, strlen(k->section)));
        CHECK_TEXT(k->path + strlen(k->section) + 1, k->name);
        CHECK(k->unit && *k->unit);
        CHECK(k->min <= k->max);
        CHECK((k->type == KEY_CHOICE) == (k->words != NULL));
        CHECK(k->type != KEY_CHOICE || (k->words_count >= 1 && k->max == k->words_count - 1));
        for (int i = 0; i < k->words_count; i++)
            CHECK(k->words[i] && k->word_docs[i]);
        if (!*k->doc && k->type != KEY_CHOICE && strcmp(k->name, "weight_decay"))
            CHECK_FAIL("%s has no doc", k->path);
    }
    CHECK(n > 50);
    CHECK(key_at(-1) == NULL);
    CHECK(key_find("train") == NULL);
    CHECK(key_find("") == NULL);
}

TEST(defaults_are_allowed_values)
{
    struct spec s;
    key_defaults(&s);
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++) {
        if (k->type == KEY_LIST) {
            const struct key_list *l = (const struct key_list *)((const char *)&s + k->offset);
            CHECK(l->count >= 0 && l->count <= KEY_LIST_MAX);
            for (int v = 0; v < l->count; v++)
                CHECK((double)l->value[v] >= k->min && (double)l->value[v] <= k->max);
        }
        else if (is_single(k))
            CHECK(key_get(&s, k) >= k->min && key_get(&s, k) <= k->max);
    }
    CHECK_INT(s.model.d_mlp.count, 1);
    CHECK_INT(s.model.d_mlp.value[0], 256);
    CHECK_INT(s.gather.grid.count, 2);
    CHECK_INT(s.train.positions.count, 0);
    CHECK_INT(s.probe.at.value[0], -1);
}

/* The offsets: setting one key changes this key, and no other. */
TEST(set_changes_one_key_only)
{
    struct spec before, after;
    const struct key *k, *other;
    for (int i = 0; (k = key_at(i)); i++) {
        if (!is_single(k))
            continue;
        key_defaults(&before);
        after = before;
        double value = key_get(&before, k) == k->min ? k->max : k->min;
        if (k->max >= 0x1p62 && value == k->max)
            value = 12345.0;
        key_set(&after, k, value);
        CHECK_NEAR(key_get(&after, k), value, 0.0);
        for (int j = 0; (other = key_at(j)); j++)
            if (j != i && is_single(other))
                CHECK_NEAR(key_get(&after, other), key_get(&before, other), 0.0);
    }
    key_defaults(&before);
    key_set(&before, key_find("train.lr"), 0.25);
    CHECK_NEAR(before.train.lr, 0.25, 0.0);
    key_set(&before, key_find("init.scale.attention"), 7.0);
    CHECK_NEAR(before.init_scale.attention, 7.0, 0.0);
    key_set(&before, key_find("train.optimizer"), OPTIMIZER_SGD);
    CHECK_INT(before.train.optimizer, OPTIMIZER_SGD);
}

/* Every neighbouring swap and every left-out letter of every path of some length suggests that path, or one as near. */
TEST(one_typing_error_suggests_the_key)
{
    const struct key *k;
    for (int i = 0; (k = key_at(i)); i++) {
        size_t n = strlen(k->path);
        for (size_t at = 0; at + 1 < n; at++) {
            char swapped[80], cut[80];
            snprintf(swapped, sizeof swapped, "%s", k->path);
            swapped[at] = k->path[at + 1];
            swapped[at + 1] = k->path[at];
            snprintf(cut, sizeof cut, "%.*s%s", (int)at, k->path, k->path + at + 1);
            const char *near[] = {key_nearest(swapped), key_nearest(cut)};
            const char *wrong[] = {swapped, cut};
            for (int v = 0; v < 2; v++)
                if (!near[v] || text_distance(wrong[v], near[v]) > 1)
                    CHECK_FAIL("%s suggests %s, expected %s", wrong[v], near[v] ? near[v] : "nothing", k->path);
        }
    }
}

TEST(right_name_in_the_wrong_section_suggests_the_key)
{
    CHECK_TEXT(key_nearest("train.dropout"), "model.dropout");
    CHECK_TEXT(key_nearest("dropout"), "model.dropout");
    CHECK_TEXT(key_nearest("train.wieght_decay"), "train.weight_decay");
    CHECK_TEXT(key_nearest("model.wieght_decay"), "train.weight_decay");
    CHECK_TEXT(key_nearest("probe.energy"), "probe.ace.energy");
    CHECK(key_nearest("train.zzyzx") == NULL);
    CHECK(key_nearest("") == NULL);
}

TEST(a_number_by_name_is_a_key_of_its_own)
{
    struct spec s;
    key_defaults(&s);
    const char *name = NULL;
    const struct key *all = key_find_named("init.coordinates.beta_12", &name);
    CHECK(all == key_find("init.coordinates"));
    CHECK_TEXT(name, "beta_12");
    CHECK(key_find_named("init.coordinates", &name) == NULL);
    CHECK(key_find_named("init.coordinatesx.a", &name) == NULL);
    CHECK(key_named_add(&s.init.coordinates, "gamma_2") && key_named_add(&s.init.coordinates, "beta_12"));
    CHECK_INT(key_named_find(&s.init.coordinates, "beta_12"), 0);
    CHECK_INT(key_named_find(&s.init.coordinates, "beta_13"), -1);
    struct key *k = key_of_name(all, "gamma_2", 1);
    CHECK_TEXT(k->path, "init.coordinates.gamma_2");
    CHECK_TEXT(k->name, "gamma_2");
    CHECK_INT(k->type, KEY_REAL);
    key_set(&s, k, 0.375);
    CHECK_NEAR(s.init.coordinates.item[1].value, 0.375, 0.0);
    CHECK_NEAR(s.init.coordinates.item[0].value, 0.0, 0.0);
    CHECK_NEAR(key_get(&s, k), 0.375, 0.0);
    key_free(k);
    key_free(all);                           /* nothing happens: it is of the tables */
    CHECK_TEXT(all->path, "init.coordinates");
    CHECK_INT(memory_balance(), 0);
}

TEST(names_are_sorted_and_limited)
{
    struct key_named n = {0};
    for (int i = 0; i < KEY_NAMED_MAX; i++) {
        char name[8];
        snprintf(name, sizeof name, "n%02d", (i * 37) % KEY_NAMED_MAX);
        CHECK(key_named_add(&n, name));
        n.item[key_named_find(&n, name)].value = (i * 37) % KEY_NAMED_MAX;
    }
    CHECK(!key_named_add(&n, "more"));
    for (int i = 0; i < KEY_NAMED_MAX; i++)
        CHECK_NEAR(n.item[i].value, i, 0.0);
    CHECK(key_name_is_good("w1a_0_M-1_0") && !key_name_is_good("") && !key_name_is_good("a b") && !key_name_is_good("a.b"));
    CHECK(key_name_is_good("a23456789012345678901234567890123456789012345678"+1));
    CHECK(!key_name_is_good("a23456789012345678901234567890123456789012345678"));
}
