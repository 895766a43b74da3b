#include "check.h"

#include "base/memory.h"
#include "probe/ace.h"
#include "probe/factor.h"

#include <time.h>

/* The Markov task in the setting of the paper, but with the tenfold learning rate so that a few epochs are enough. */
static void setting(struct spec *s)
{
    key_defaults(s);
    s->model.dropout = 0.1;
    s->train.lr = 1e-3;
    s->train.epochs = 8;
    s->probe_ace.layer = 1;
}

static void train(struct model *m, const struct task *t, const struct spec *s, uint64_t seed)
{
    struct batch b = batch_new((int)task_batch_size(t), task_shape(t).length);
    struct optimizer *o = optimizer_new(m, s);
    model_initialise(m, s, seed);
    for (size_t step = 0; step < task_steps(t); step++) {
        task_train_batch(t, step, &b);
        model_train_pass(m, &b, seed, step);
        optimizer_step(o, m, step + 1);
    }
    optimizer_free(o);
    batch_free(&b);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A single run's own core coordinates, as directions of sample space, come back to a core that passes the same control. */
static void check_own_consensus(struct model *m, const struct task *t, const struct spec *s, const struct ace *a)
{
    size_t n = a->samples, r = (size_t)a->rank;
    double *z = memory_new(n * r, sizeof *z), *g = memory_new(n * r, sizeof *g), triangle[9], keep, removed;
    for (size_t j = 0; j < r; j++) {
        double mean = 0;
        for (size_t i = 0; i < n; i++)
            mean += a->coordinates[i * r + j] / (double)n;
        for (size_t i = 0; i < n; i++)
            z[i * r + j] = a->coordinates[i * r + j] - mean;
    }
    CHECK_OK(factor_qr((int)n, (int)r, z, g, triangle));
    CHECK_OK(ace_consensus(m, t, s, g, n, (int)r, &keep, &removed));
    CHECK_NEAR(keep, a->accuracy, 0.005);
    CHECK_NEAR(removed, 0.25, 0.1);
    memory_free(z);
    memory_free(g);
}

TEST(a_trained_model_has_the_core_of_its_chain)
{
    struct spec s;
    struct task *t;
    struct model *m;
    struct ace a;
    setting(&s);
    CHECK_OK(task_open(&s, 1, &t));
    CHECK_OK(model_open(&s, task_shape(t), &m));
    train(m, t, &s, 1);
    double since = seconds();
    CHECK_OK(ace_extract(m, t, &s, &a));
    fprintf(stderr, "ace_extract took %.2f s\n", seconds() - since);
    CHECK_INT(a.samples, 93000);
    CHECK_INT(a.rank, 3);
    CHECK_INT(a.core_dim, 3);
    CHECK(a.sufficient >= 1 && a.sufficient <= 3);
    CHECK_NEAR(a.accuracy, 0.75, 0.005);
    CHECK_NEAR(a.accuracy_core_only, a.accuracy, 0.001);
    CHECK_NEAR(a.accuracy_core_removed, 0.25, 0.1);
    CHECK_NEAR(a.eigenvalue_error[0], 0, 0.02);
    CHECK_NEAR(a.eigenvalue_error[1], 0, 0.02);
    CHECK_NEAR(a.eigenvalue_error[2], 0, 0.15);
    CHECK_NEAR(a.r2_oracle_ratio, 1, 0.05);
    check_own_consensus(m, t, &s, &a);
    ace_clear(&a);
    model_free(m);
    task_free(t);
    CHECK_INT(memory_balance(), 0);
}
