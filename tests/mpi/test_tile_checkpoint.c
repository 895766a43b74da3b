/* What is written into a tile's checkpoint is read back bit for bit; bytes cut anywhere are refused and leave nothing. */
#include "check.h"

#include "base/memory.h"
#include "base/stream.h"
#include "mpi/tile_checkpoint.h"
#include "store/record_code.h"

static const char tile_id[HASH_TEXT] = "00112233445566778899aabbccddeeff";

static double *numbers(struct stream *s, size_t n)
{
    double *p = memory_new(n, sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = stream_normal(s);
    return p;
}

static void fill_probe(struct record_probe *p, struct stream *s, bool kept)
{
    *p = (struct record_probe){.step = 17, .d = 4, .rank = 2, .sufficient = 1, .necessary = -1, .core_dim = 2,
                               .operator_rank = 2, .samples = 5, .accuracy = 0.75, .accuracy_core_only = 0.5,
                               .accuracy_core_removed = 0.25, .r2 = NAN, .r2_oracle_ratio = -0.0};
    p->weight = numbers(s, 4);
    p->basis = numbers(s, 8);
    p->mean = numbers(s, 4);
    p->operator_matrix = numbers(s, 4);
    p->eigenvalue = numbers(s, 4);
    p->eigenvalue_error = numbers(s, 2);
    p->coordinates = kept ? numbers(s, 10) : NULL;
    p->activations = kept ? numbers(s, 20) : NULL;
}

static struct record full_record(uint64_t seed)
{
    struct stream s = stream_open(seed, PURPOSE_PROBE, 0);
    struct record r = {.seed = seed, .outcome = OUTCOME_DIVERGED, .steps = 99, .last_finite_step = 98, .wall_time = 1.5,
                       .restarts = 2, .loss_train = NAN, .loss_test = 0.5, .accuracy_train = 1, .accuracy_test = 0.25};
    snprintf(r.id, sizeof r.id, "%032llx", (unsigned long long)seed);
    r.curves.points = 3;
    r.curves.step = memory_new(3, sizeof *r.curves.step);
    r.curves.step[2] = INT64_MAX;
    r.curves.loss_train = numbers(&s, 3);
    r.curves.loss_test = numbers(&s, 3);
    r.curves.accuracy_train = numbers(&s, 3);
    r.curves.accuracy_test = numbers(&s, 3);
    r.probes = 2;
    r.probe = memory_new(2, sizeof *r.probe);
    fill_probe(&r.probe[0], &s, false);
    fill_probe(&r.probe[1], &s, true);
    r.tensors = 2;
    r.tensor = memory_new(2, sizeof *r.tensor);
    r.tensor[0] = (struct record_tensor){.name = "token", .rows = 3, .cols = 4};
    r.tensor[1] = (struct record_tensor){.name = "position", .rows = 1, .cols = 5, .offset = 12};
    r.element_size = 8;
    r.weights = numbers(&s, 17);
    return r;
}

static struct record failed_record(void)
{
    struct record r = {.seed = 7, .outcome = OUTCOME_FAILED, .element_size = 4, .error = memory_text("no such layer")};
    snprintf(r.id, sizeof r.id, "%032x", 7);
    return r;
}

static struct text checkpoint_bytes(void)
{
    struct record record[2] = {full_record(3), failed_record()};
    struct tile_checkpoint c = {.finished = 2, .record = record, .current = "ff", .length = 6, .state = "state"};
    struct text t = {0};
    tile_checkpoint_write(&t, tile_id, &c);
    record_clear(&record[0]);
    record_clear(&record[1]);
    return t;
}

TEST(tile_checkpoint_reads_back_every_bit)
{
    struct text t = checkpoint_bytes(), again = {0};
    struct tile_checkpoint c;
    CHECK_OK(tile_checkpoint_read(t.s, t.length, tile_id, &c));
    CHECK_INT(c.finished, 2);
    CHECK_TEXT(c.current, "ff");
    CHECK_INT(c.length, 6);
    CHECK_BYTES(c.state, "state", 6);
    CHECK_TEXT(c.record[1].error, "no such layer");
    CHECK_INT(c.record[0].probe[1].samples, 5);
    CHECK(c.record[0].probe[0].activations == NULL);
    CHECK(isnan(c.record[0].loss_train));
    /* The whole, field by field: what was read writes the same bytes. */
    tile_checkpoint_write(&again, tile_id, &c);
    CHECK_INT(again.length, t.length);
    CHECK_BYTES(again.s, t.s, t.length);
    struct record expected = full_record(3);
    CHECK_BYTES(c.record[0].weights, expected.weights, 17 * sizeof(double));
    CHECK_BYTES(c.record[0].probe[1].activations, expected.probe[1].activations, 20 * sizeof(double));
    CHECK_BYTES(c.record[0].curves.accuracy_test, expected.curves.accuracy_test, 3 * sizeof(double));
    record_clear(&expected);
    tile_checkpoint_clear(&c);
    text_free(&again);
    text_free(&t);
    CHECK_INT(memory_balance(), 0);
}

TEST(tile_checkpoint_cut_anywhere_is_refused)
{
    struct text t = checkpoint_bytes();
    for (size_t n = 0; n < t.length; n++) {
        char *cut = memory_new(n, 1);        /* of its own, so that reading past the end is seen */
        memcpy(cut, t.s, n);
        struct tile_checkpoint c = {.finished = 12345};
        CHECK(tile_checkpoint_read(cut, n, tile_id, &c) != STATUS_OK);
        CHECK_INT(c.finished, 12345);
        memory_free(cut);
    }
    text_free(&t);
    CHECK_INT(memory_balance(), 0);
}

/* Any single byte may be wrong: it is read or refused, but never crashes, leaks or asks for absurd memory. */
TEST(tile_checkpoint_survives_wrong_bytes)
{
    struct text t = checkpoint_bytes();
    static const unsigned char wrong[] = {0x00, 0x7f, 0x80, 0xff};
    for (size_t i = 0; i < t.length; i++)
        for (size_t k = 0; k < sizeof wrong; k++) {
            char kept = t.s[i];
            struct tile_checkpoint c;
            t.s[i] = (char)wrong[k];
            if (tile_checkpoint_read(t.s, t.length, tile_id, &c) == STATUS_OK)
                tile_checkpoint_clear(&c);
            t.s[i] = kept;
        }
    text_free(&t);
    CHECK_INT(memory_balance(), 0);
}

TEST(tile_checkpoint_of_another_tile_or_version_is_refused)
{
    struct text t = checkpoint_bytes();
    struct tile_checkpoint c;
    CHECK_INT(tile_checkpoint_read(t.s, t.length, "ffffffffffffffffffffffffffffffff", &c), STATUS_CORRUPT);
    t.s[8]++;
    CHECK_INT(tile_checkpoint_read(t.s, t.length, tile_id, &c), STATUS_VERSION);
    CHECK_HAS(status_text(), "version 2");
    text_free(&t);
}
