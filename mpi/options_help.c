/* The texts of `invar help` and `invar help VERB`, from the tables in options.h. */
#include "mpi/options.h"

#include "base/memory.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { LINE = 100 };

static const struct {
    const char *name, *argument, *meaning, *more, *example;
} verbs[VERB_COUNT] = {
#define VERB(name, argument, mpi, meaning, more, example) {#name, argument, meaning, more, example},
    VERB_TABLE(VERB)
#undef VERB
};

static const struct option {
    const char *name, *letter, *value;
    unsigned verbs;
    const char *meaning;
} options[] = {
#define OPTION(field, name, letter, value, verbs, meaning) {name, letter, value, verbs, meaning},
    OPTION_TABLE(OPTION)
#undef OPTION
};
enum { OPTIONS = sizeof options / sizeof *options };

static const struct {
    int code;
    unsigned verbs;
    const char *meaning;
} exits[] = {
#define EXIT(code, verbs, meaning) {code, verbs, meaning},
    EXIT_TABLE(EXIT)
#undef EXIT
};
enum { EXITS = sizeof exits / sizeof *exits };

static void add_option(struct text *t, const struct option *p)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s%s %s", p->letter ? p->letter : "", p->letter ? ", " : "", p->name,
             p->value ? p->value : "");
    text_add(t, "  %-24s %s", name, p->meaning);
}

static void add_takers(struct text *t, unsigned takers)
{
    const char *separator = " (";
    if (takers == ~0u)
        return;
    for (int v = 0; v < VERB_COUNT; v++)
        if (takers & (1u << v)) {
            text_add(t, "%s%s", separator, verbs[v].name);
            separator = ", ";
        }
    text_add(t, ")");
}

char *options_help(void)
{
    struct text t = {0};
    text_add(&t, "invar trains many small transformers, one run per rank, and shows what is invariant across them.\n\n"
                 "  invar VERB [JOB|DIR] [options]                 alone\n"
                 "  mpirun -n 8 invar VERB [JOB|DIR] [options]     on 8 cores; or srun --mpi=pmix\n\nVerbs\n");
    for (int v = 0; v < VERB_COUNT; v++)
        text_add(&t, "  %-8s%-13s%s\n", verbs[v].name, verbs[v].argument, verbs[v].meaning);
    text_add(&t, "\nOptions\n");
    for (int i = 0; i < OPTIONS; i++) {
        add_option(&t, &options[i]);
        add_takers(&t, options[i].verbs);
        text_add(&t, "\n");
    }
    text_add(&t, "\nExit codes\n");
    for (int i = 0; i < EXITS; i++)
        if (i == 0 || exits[i].code != exits[i - 1].code)
            text_add(&t, "  %-3d %s\n", exits[i].code, exits[i].meaning);
    return t.s;
}

/* Words of `s` in lines of at most LINE characters. */
static void add_wrapped(struct text *t, const char *s)
{
    for (size_t at = 0; *s; s += strspn(s, " ")) {
        size_t n = strcspn(s, " ");
        if (at && at + 1 + n > LINE) {
            text_add(t, "\n");
            at = 0;
        }
        text_add(t, "%s%.*s", at ? " " : "", (int)n, s);
        at += n + (at > 0);
        s += n;
    }
    text_add(t, "\n");
}

static void add_exits(struct text *t, unsigned bit)
{
    text_add(t, "\nExit codes\n");
    for (int i = 0; i < EXITS; i++) {
        bool last = exits[i].verbs & bit;
        for (int k = i + 1; k < EXITS && exits[k].code == exits[i].code; k++)
            last = last && !(exits[k].verbs & bit);
        if (last)
            text_add(t, "  %-3d %s\n", exits[i].code, exits[i].meaning);
    }
}

char *options_help_verb(enum verb v)
{
    struct text t = {0};
    text_add(&t, "invar %s%s%s [options]\n\n", verbs[v].name, *verbs[v].argument ? " " : "", verbs[v].argument);
    add_wrapped(&t, verbs[v].meaning);
    if (*verbs[v].more) {
        text_add(&t, "\n");
        add_wrapped(&t, verbs[v].more);
    }
    text_add(&t, "\nOptions\n");
    for (int i = 0; i < OPTIONS; i++)
        if (options[i].verbs & (1u << v)) {
            add_option(&t, &options[i]);
            text_add(&t, "\n");
        }
    add_exits(&t, 1u << v);
    text_add(&t, "\nExample\n  %s\n", verbs[v].example);
    return t.s;
}
