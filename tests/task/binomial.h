/* binomial.h: counts that a right program shows with a probability above 1e-9 on either side. Include after check.h. */
#ifndef INVAR_TESTS_TASK_BINOMIAL_H
#define INVAR_TESTS_TASK_BINOMIAL_H

/* log of P(X <= k) or, with upper, P(X >= k) for X ~ Binomial(n, p), summed term by term. */
static double log_tail(long n, long k, double p, int upper)
{
    double sum = 0.0, first = 0.0;
    for (long i = k; upper ? i <= n : i >= 0; i += upper ? 1 : -1) {
        double term = lgamma((double)n + 1) - lgamma((double)i + 1) - lgamma((double)(n - i) + 1) +
                      (double)i * log(p) + (double)(n - i) * log1p(-p);
        if (i == k)
            first = term;
        double share = exp(term - first);
        sum += share;
        if (share < 1e-17)
            break;
    }
    return first + log(sum);
}

static void check_binomial(const char *what, long n, long k, double p)
{
    double bound = log(1e-9);
    if (p <= 0.0 || p >= 1.0) {
        if (k != (p > 0.5 ? n : 0))
            CHECK_FAIL("%s: %ld of %ld, expected a share of %g", what, k, n, p);
    } else if (log_tail(n, k, p, 0) < bound || log_tail(n, k, p, 1) < bound) {
        CHECK_FAIL("%s: %ld of %ld, expected a share of %.6f", what, k, n, p);
    }
}

#endif
