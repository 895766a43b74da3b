/* The command line: what is understood, and what is said about the rest. */
#include "check.h"

#include "base/memory.h"
#include "mpi/options.h"

#define PARSE(o, ...)                                                                    \
    ({                                                                                   \
        char *argv[] = {"invar", __VA_ARGS__, NULL};                                     \
        options_parse((int)(sizeof argv / sizeof *argv) - 1, argv, (o));                 \
    })

#define REFUSED(part, ...)                                                               \
    do {                                                                                 \
        struct options refused;                                                          \
        CHECK_INT(PARSE(&refused, __VA_ARGS__), STATUS_USAGE);                           \
        CHECK_HAS(status_text(), part);                                                  \
        CHECK_INT(memory_balance(), 0);                                                  \
    } while (0)

TEST(options_of_a_run)
{
    struct options o;
    CHECK_OK(PARSE(&o, "run", "--quiet", "x.yaml", "-o", "out/y", "--set", "train.lr=1", "--set=seeds=3", "--time=1:30"));
    CHECK_INT(o.verb, VERB_run);
    CHECK_TEXT(o.target, "x.yaml");
    CHECK_TEXT(o.dir, "out/y");
    CHECK_INT(o.sets_count, 2);
    CHECK_TEXT(o.sets[0], "train.lr=1");
    CHECK_TEXT(o.sets[1], "seeds=3");
    CHECK(o.quiet && !o.verbose && !o.json);
    CHECK_NEAR(o.seconds, 90, 0);
    options_clear(&o);
    CHECK_INT(memory_balance(), 0);
}

TEST(options_forms)
{
    struct options o;
    CHECK_OK(PARSE(&o, "train", "-oout/z", "--", "-job.yaml"));
    CHECK_TEXT(o.dir, "out/z");
    CHECK_TEXT(o.target, "-job.yaml");
    CHECK(isinf(o.seconds));
    CHECK_OK(PARSE(&o, "status", "out", "--json", "--missing", "--failed"));
    CHECK(o.json && o.missing && o.failed);
    CHECK_OK(PARSE(&o, "--help"));
    CHECK_INT(o.verb, VERB_help);
    CHECK_OK(PARSE(&o, "run", "--help"));
    CHECK_INT(o.verb, VERB_help);
    CHECK_OK(PARSE(&o, "--version"));
    CHECK_INT(o.verb, VERB_version);
}

TEST(options_times)
{
    static const struct { const char *text; double seconds; } good[] = {
        {"90", 90}, {"2.5", 2.5}, {"1:30", 90}, {"01:00:00", 3600}, {"1-00:00:01", 86401}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct options o;
        CHECK_OK(PARSE(&o, "train", "x", "--time", (char *)good[i].text));
        CHECK_NEAR(o.seconds, good[i].seconds, 0);
    }
    static const char *const bad[] = {"0", "-5", "1:99", "1:2:3:4", "soon", "10s", "nan", "inf", "1-5", "", ":30"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REFUSED("--time", "train", "x", "--time", (char *)bad[i]);
}

TEST(options_say_what_was_meant)
{
    REFUSED("did you mean \"gather\"", "gahter", "out");
    REFUSED("did you mean \"status\"", "state", "out");
    REFUSED("did you mean \"--quiet\"", "run", "x", "--quite");
    REFUSED("did you mean \"--retry-failed\"", "run", "x", "--retry_failed");
    REFUSED("unknown verb \"frobnicate\"; see", "frobnicate");
    REFUSED("unknown option \"-x\"", "run", "x", "-x");
    REFUSED("does not take --json", "run", "x", "--json");
    REFUSED("--json takes no value", "status", "x", "--json=1");
    REFUSED("--out needs a value", "run", "x", "-o");
    REFUSED("KEY=VALUE", "run", "x", "--set", "lr");
    REFUSED("takes one JOB", "run", "x", "y");
    REFUSED("takes no argument", "format", "y");
    REFUSED("needs a job file", "run");
    REFUSED("needs a folder", "gather");
    struct options o;
    char *argv[] = {"invar", NULL};
    CHECK_INT(options_parse(1, argv, &o), STATUS_USAGE);
    CHECK_HAS(status_text(), "a verb is needed");
}

TEST(options_help_names_everything)
{
    char *help = options_help();
#define VERB(name, argument, mpi, meaning) CHECK_HAS(help, #name);
    VERB_TABLE(VERB)
#undef VERB
#define OPTION(field, name, letter, value, verbs, meaning) CHECK_HAS(help, name);
    OPTION_TABLE(OPTION)
#undef OPTION
    memory_free(help);
    CHECK_INT(memory_balance(), 0);
}
