/* markov.c: next-state prediction on a cyclic Markov chain (Schiffman, arXiv 2602.22600): from state i the chain
 * stays with probability `stay` and otherwise goes on to i + 1 mod n. The first state is uniform, which is the
 * stationary distribution, so every position has the same law.
 */
#include "base/memory.h"
#include "base/stream.h"
#include "task/kind.h"

#include <math.h>
#include <stdlib.h>

static void draw(const struct spec *s, struct stream *stream, struct task_sequence *q)
{
    int32_t states = (int32_t)s->task.states, length = (int32_t)s->task.length - 1;
    int32_t state = (int32_t)stream_below(stream, (uint32_t)states);
    for (int32_t t = 0; t < length; t++) {
        q->token[t] = state;
        if (stream_uniform(stream) >= s->task.stay)
            state = (state + 1) % states;
        q->target[t] = state;
    }
}

/* Eigenvalue k of the chain is stay + (1 - stay) exp(2 pi i k / n). Its modulus falls with k's distance from 0 on
 * the circle, unless the chain is deterministic; so ties are found in whole numbers, not among rounded moduli. */
struct eigenvalue {
    int distance;
    double re, im;
};

static int order(const void *a, const void *b)
{
    const struct eigenvalue *x = a, *y = b;
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    if (x->im != y->im)
        return x->im > y->im ? -1 : 1;
    return (x->re < y->re) - (x->re > y->re);
}

static struct eigenvalue eigenvalue(int k, int n, double stay)
{
    int distance = k < n - k ? k : n - k;
    double go = 1.0 - stay, angle = 2.0 * M_PI * distance / n;
    struct eigenvalue e = {.distance = stay > 0.0 && stay < 1.0 ? distance : 0};
    e.re = stay + go * cos(angle);
    e.im = 2 * distance == n ? 0.0 : go * sin(angle) * (k == distance ? 1.0 : -1.0);
    return e;
}

static void truth(const struct spec *s, struct task_truth *t)
{
    int n = (int)s->task.states, room = (int)(sizeof t->eigenvalue / sizeof t->eigenvalue[0]);
    double stay = s->task.stay, share = 1.0 / n;
    t->accuracy_best = fmax(stay, 1.0 - stay);
    t->accuracy_chance = share;
    /* The residual variance of state j given the one before is pi_i T_ij (1 - T_ij) summed over i = j and i = j - 1. */
    t->operator_r2 = 1.0 - 2.0 * share * stay * (1.0 - stay) / (share * (1.0 - share));
    struct eigenvalue *all = memory_new((size_t)n - 1, sizeof *all);
    for (int k = 1; k < n; k++)
        all[k - 1] = eigenvalue(k, n, stay);
    qsort(all, (size_t)n - 1, sizeof all[0], order);
    t->eigenvalues = n - 1 < room ? n - 1 : room;
    for (int i = 0; i < t->eigenvalues; i++) {
        t->eigenvalue[i][0] = all[i].re;
        t->eigenvalue[i][1] = all[i].im;
    }
    memory_free(all);
}

const struct task_ops markov_ops = {draw, NULL, truth};
