#include "base/stream.h"

#include <Random123/philox.h>
#include <math.h>
#include <string.h>

void stream_philox(uint64_t seed, uint64_t block, uint32_t index, uint32_t purpose, uint32_t out[4])
{
    philox4x32_ctr_t c = {{(uint32_t)block, (uint32_t)(block >> 32), index, purpose}};
    philox4x32_key_t k = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    philox4x32_ctr_t r = philox4x32(c, k);
    for (int i = 0; i < 4; i++)
        out[i] = r.v[i];
}

struct stream stream_open(uint64_t seed, enum purpose purpose, uint32_t index)
{
    struct stream s = {.seed = seed, .purpose = (uint32_t)purpose, .index = index};
    return s;
}

uint32_t stream_u32(struct stream *s)
{
    if (s->left == 0) {
        stream_philox(s->seed, s->block++, s->index, s->purpose, s->word);
        s->left = 4;
    }
    return s->word[4 - s->left--];
}

uint64_t stream_u64(struct stream *s)
{
    uint64_t low = stream_u32(s);
    return low | (uint64_t)stream_u32(s) << 32;
}

double stream_uniform(struct stream *s) { return (double)(stream_u64(s) >> 11) * 0x1p-53; }

uint32_t stream_below(struct stream *s, uint32_t n)
{
    uint32_t limit = UINT32_MAX - UINT32_MAX % n;   /* the largest multiple of n that fits */
    uint32_t u;
    do
        u = stream_u32(s);
    while (u >= limit);
    return u % n;
}

double stream_log(double x)
{
    /* x = m 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(z), z = (m-1)/(m+1), |z| < 0.1716. */
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double z = (m - 1.0) / (m + 1.0), z2 = z * z, sum = 0.0;
    for (int k = 23; k >= 3; k -= 2)
        sum = (sum + 1.0 / k) * z2;
    double high = e * 6.93147180369123816490e-01, low = e * 1.90821492927058770002e-10;   /* ln 2 in two parts */
    return high + (2.0 * z + (2.0 * z * sum + low));
}

double stream_normal(struct stream *s)
{
    if (s->has_normal) {
        s->has_normal = 0;
        return s->normal;
    }
    double u, v, q;
    do {
        u = 2.0 * stream_uniform(s) - 1.0;
        v = 2.0 * stream_uniform(s) - 1.0;
        q = u * u + v * v;
    } while (q >= 1.0 || q == 0.0);
    double f = sqrt(-2.0 * stream_log(q) / q);
    s->normal = v * f;
    s->has_normal = 1;
    return u * f;
}

void stream_permutation(struct stream *s, uint32_t *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        p[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = stream_below(s, i), t = p[j];
        p[j] = p[i - 1];
        p[i - 1] = t;
    }
}
