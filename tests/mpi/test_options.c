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
    CHECK_TEXT(o.target, "run");
    CHECK_OK(PARSE(&o, "doctor"));
    CHECK(!o.target);
    CHECK_NEAR(o.patience_seconds, 30, 0);
    CHECK_OK(PARSE(&o, "doctor", "out", "--patience", "1:00"));
    CHECK_TEXT(o.target, "out");
    CHECK_NEAR(o.patience_seconds, 60, 0);
    CHECK_OK(PARSE(&o, "verify", "out", "12", "--sample", "3", "seed=1"));
    CHECK_TEXT(o.target, "out");
    CHECK_INT(o.words_count, 2);
    CHECK_TEXT(o.words[0], "12");
    CHECK_TEXT(o.words[1], "seed=1");
    CHECK_TEXT(o.sample, "3");
    options_clear(&o);
    CHECK_INT(memory_balance(), 0);
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

TEST(options_of_faults)
{
    struct options o;
    CHECK_OK(PARSE(&o, "train", "x", "--part", "3/8", "--wait", "1:00", "--heartbeat=5", "--max-failures", "7"));
    CHECK_INT(o.part_number, 3);
    CHECK_INT(o.part_count, 8);
    CHECK_NEAR(o.wait_seconds, 60, 0);
    CHECK_NEAR(o.heartbeat_seconds, 5, 0);
    CHECK_INT(o.failures, 7);
    CHECK_OK(PARSE(&o, "run", "x", "--fail-fast", "--retry-quarantined"));
    CHECK_INT(o.failures, 1);
    CHECK_INT(o.part_count, 0);
    CHECK_NEAR(o.heartbeat_seconds, 30, 0);
    CHECK(o.retry_quarantined);
    static const char *const bad[] = {"0/3", "4/3", "1", "1/0", "a/b", "1/3x", "-1/3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REFUSED("--part takes K/N", "train", "x", "--part", (char *)bad[i]);
    REFUSED("--heartbeat takes", "train", "x", "--heartbeat", "0.1");
    REFUSED("--max-failures takes", "train", "x", "--max-failures", "0");
    REFUSED("does not take --part", "run", "x", "--part", "1/2");
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
    REFUSED("takes one DIR, got \"x\" and \"y\"", "doctor", "x", "y");
    REFUSED("needs a folder: invar verify out/markov-cores", "verify");
    REFUSED("--patience", "doctor", "--patience", "long");
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
#define VERB(name, ...) CHECK_HAS(help, #name);
    VERB_TABLE(VERB)
#undef VERB
#define OPTION(field, name, letter, value, verbs, meaning) CHECK_HAS(help, name);
    OPTION_TABLE(OPTION)
#undef OPTION
    memory_free(help);
    CHECK_INT(memory_balance(), 0);
}

/* `invar help VERB`: its own options and no others, its example, and each of its exit codes once. */
TEST(options_help_of_each_verb)
{
    for (int v = 0; v < VERB_COUNT; v++) {
        char *help = options_help_verb((enum verb)v), *start = memory_format("invar %s", options_verb_name((enum verb)v));
        CHECK(!strncmp(help, start, strlen(start)));
        CHECK_HAS(help, "\nExit codes\n  0 ");
        CHECK_HAS(help, "\n  2 ");
        CHECK_HAS(help, "\nExample\n");
        CHECK_INT(strstr(help, "  75 ") != NULL, v == VERB_train || v == VERB_run);
#define OPTION(field, name, letter, value, verbs, meaning) CHECK_INT(strstr(help, " " name " ") != NULL, ((verbs) >> v & 1u) != 0);
        OPTION_TABLE(OPTION)
#undef OPTION
        memory_free(start);
        memory_free(help);
    }
    char *doctor = options_help_verb(VERB_doctor);
    CHECK_HAS(doctor, "a check says WRONG");
    CHECK(!strstr(doctor, "3   environment, input or output"));
    memory_free(doctor);
    enum verb verb;
    CHECK_OK(options_find_verb("verify", &verb));
    CHECK_INT(verb, VERB_verify);
    CHECK_INT(options_find_verb("verfy", &verb), STATUS_USAGE);
    CHECK_HAS(status_text(), "did you mean \"verify\"");
    CHECK_INT(memory_balance(), 0);
}
