#include "base/memory.h"
#include "base/status.h"
#include "job/kinds.h"

#include "check.h"

static bool reads(const struct spec *s, const char *path)
{
    const struct key *k = key_find(path);
    if (!k)
        CHECK_FAIL("%s is no key", path);
    return k && kinds_reads(s, k);
}

/* All kinds: every key is read by some, what is not read has a reason that decides, and the keys that decide the model and the
 * task are read by all. */
TEST(every_key_is_read_by_some_kind)
{
    const struct key *k;
    struct spec s;
    for (int i = 0; (k = key_at(i)); i++) {
        int readers = 0, kinds = 0;
        for (int task = 0; task < 2; task++)
            for (int pattern = 0; pattern < 6; pattern++)
                for (int expectation = 0; expectation < 3; expectation++)
                    for (int model = 0; model < 3; model++)
                        for (int scheme = 0; scheme < 4; scheme++, kinds++) {
                            key_defaults(&s);
                            s.task.kind = task;
                            s.task.pattern = pattern;
                            s.task.expectation = expectation;
                            s.model.kind = model;
                            s.init.scheme = scheme;
                            const struct key *by = kinds_decided_by(&s, k);
                            CHECK(kinds_reads(&s, k) == !by);
                            CHECK(!by || kinds_decides(by));
                            readers += !by;
                        }
        if (readers == 0)
            CHECK_FAIL("nobody reads %s", k->path);
        if (!strcmp(k->name, "kind") || !strcmp(k->name, "scheme"))
            CHECK_INT(readers, kinds);
    }
}

TEST(a_manifold_model_reads_what_makes_its_manifold_and_no_weights)
{
    static const char *const yes[] = {"model.layers", "model.heads", "model.embedding", "model.self_attention", "model.shifts",
                                      "model.rare_identity", "model.coordinates", "model.precision", "init.coordinates",
                                      "init.others", "init.noise", "train.metric", "train.lr", "probe.manifold.winner",
                                      "probe.circuit.budget", "probe.at", "task.blocks", "task.variability"};
    static const char *const no[] = {"model.d_model", "model.max_length", "model.d_mlp", "model.norm", "model.dropout",
                                     "init.std", "init.scale.query_key", "probe.ace.layer", "train.positions", "task.states",
                                     "task.sequences", "train.batch", "train.eval_sequences", "task.hops", "task.order"};
    struct spec s;
    key_defaults(&s);
    s.model.kind = MODEL_MANIFOLD;
    s.task.kind = TASK_BLOCKLIST;
    s.task.expectation = EXPECTATION_PATTERNS;
    s.init.scheme = INIT_COORDINATES;
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        if (!reads(&s, yes[i]))
            CHECK_FAIL("%s is not read", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (reads(&s, no[i]))
            CHECK_FAIL("%s is read", no[i]);
}

/* A chain's expectation is not enumerated, whatever the key says that it does not read. */
TEST(enumeration_concerns_block_lists_only)
{
    struct spec s;
    key_defaults(&s);
    s.task.expectation = EXPECTATION_COMPLETE;
    CHECK(reads(&s, "train.batch") && reads(&s, "task.sequences") && kinds_draws(&s));
    s.task.kind = TASK_BLOCKLIST;
    CHECK(!reads(&s, "train.batch") && !reads(&s, "task.sequences") && !kinds_draws(&s));
}

TEST(an_attention_only_model_reads_max_length_where_the_task_has_no_positions)
{
    struct spec s;
    key_defaults(&s);
    s.model.kind = MODEL_ATTENTION_ONLY;
    CHECK(reads(&s, "model.max_length"));
    s.task.kind = TASK_BLOCKLIST;
    CHECK(!reads(&s, "model.max_length"));
    CHECK_NEAR(kinds_width(&s, 64.0, 0), 64.0 + 14.0, 0.0);          /* 6 blocks of 2, one cut short, and one position more */
    s.model.kind = MODEL_DECODER;
    CHECK(reads(&s, "model.max_length"));
    CHECK_NEAR(kinds_width(&s, 64.0, 3), 64.0, 0.0);
}

/* With axes over two keys that decide, a key is read when any pair reads it. */
TEST(axes_over_kinds_read_what_any_of_them_reads)
{
    struct job *job = NULL;
    CHECK_OK(job_parse("name: x\ntask: {kind: blocklist, blocks: 4, hops: 1, order: 2}\nmodel: {d_model: 32, heads: 1}\n"
                       "axes: {task.pattern: [hop, ngram], model.kind: [decoder, attention_only]}\n", "x.yaml", NULL, 0, &job));
    CHECK_INT(job_runs(job), 4);
    job_free(job);
    CHECK(job_parse("name: x\ntask: {kind: blocklist, burstiness: 1}\n"
                    "axes: {task.pattern: [hop, ngram], model.kind: [decoder, attention_only]}\n", "x.yaml", NULL, 0, &job) ==
          STATUS_JOB);
    CHECK_HAS(status_text(), "x.yaml:2:37: task.burstiness is not read where task.pattern is hop: leave it out");
    CHECK_INT(memory_balance(), 0);
}

TEST(what_needs_the_manifold)
{
    struct spec s;
    key_defaults(&s);
    s.task.kind = TASK_BLOCKLIST;
    s.model.kind = MODEL_ATTENTION_ONLY;
    CHECK(!kinds_on_manifold(&s));
    s.probe_manifold.coordinates = true;
    CHECK(kinds_on_manifold(&s));
    s.task.kind = TASK_MARKOV;
    CHECK(!kinds_on_manifold(&s));
    s.task.kind = TASK_BLOCKLIST;
    s.model.kind = MODEL_DECODER;
    CHECK(!kinds_on_manifold(&s));
    s.probe_manifold.coordinates = false;
    s.model.kind = MODEL_ATTENTION_ONLY;
    s.init.scheme = INIT_COORDINATES;
    CHECK(kinds_on_manifold(&s));
    s.init.scheme = INIT_NORMAL;
    s.model.kind = MODEL_MANIFOLD;
    CHECK(kinds_on_manifold(&s));
}
