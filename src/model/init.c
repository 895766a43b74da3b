/* init.c: initial weights, tensor by tensor, each from a stream of its own; or a point of the invariant manifold, and such
 * numbers added to it. */
#include "model/model.h"

#include "base/memory.h"
#include "base/stream.h"
#include "model/manifold_basis.h"
#include "model/model_private.h"

#include <math.h>
#include <string.h>

/* Product of the factors that apply to a tensor group. */
static double init_factor(const struct spec *s, enum tensor_group group)
{
    switch (group) {
    case GROUP_TOKEN: return s->init_scale.all * s->init_scale.token;
    case GROUP_POSITION: return s->init_scale.all * s->init_scale.position;
    case GROUP_QUERY_KEY: return s->init_scale.all * s->init_scale.attention * s->init_scale.query_key;
    case GROUP_VALUE_OUTPUT: return s->init_scale.all * s->init_scale.attention * s->init_scale.value_output;
    case GROUP_MLP: return s->init_scale.all * s->init_scale.mlp;
    case GROUP_UNEMBEDDING: return s->init_scale.all * s->init_scale.unembedding;
    case GROUP_NORM:
    case GROUP_COUNT: break;
    }
    return 1.0;
}

static int name_ends(const struct tensor *t, const char *end)
{
    size_t n = strlen(t->name), k = strlen(end);
    return n >= k && !strcmp(t->name + n - k, end);
}

/* Where a tensor's values come from: a constant, or a uniform or normal distribution of this scale. */
struct draw {
    enum { DRAW_CONSTANT, DRAW_UNIFORM, DRAW_NORMAL } kind;
    double scale;
};

/* `fan_in` of a bias is that of the matrix before it in the table. */
static struct draw draw_pytorch(const struct tensor *t, int d_model, int fan_in)
{
    int bias = name_ends(t, ".bias");
    switch (t->group) {
    case GROUP_TOKEN:
    case GROUP_POSITION: return (struct draw){DRAW_NORMAL, 1.0};
    case GROUP_QUERY_KEY:
    case GROUP_VALUE_OUTPUT:
        if (bias)
            return (struct draw){DRAW_CONSTANT, 0.0};
        return (struct draw){DRAW_UNIFORM, name_ends(t, "output.weight") ? 1.0 / sqrt(d_model)
                                                                         : sqrt(6.0 / (4.0 * d_model))};
    default: return (struct draw){DRAW_UNIFORM, 1.0 / sqrt(fan_in)};
    }
}

static struct draw draw_of(const struct spec *s, const struct tensor *t, int d_model, int fan_in)
{
    if (t->group == GROUP_NORM)
        return (struct draw){DRAW_CONSTANT, name_ends(t, ".gain") ? 1.0 : 0.0};
    if (s->init.scheme == INIT_PYTORCH)
        return draw_pytorch(t, d_model, fan_in);
    if (name_ends(t, ".bias"))
        return (struct draw){DRAW_CONSTANT, 0.0};
    if (s->init.scheme == INIT_COORDINATES)
        return (struct draw){DRAW_NORMAL, s->init.noise};
    return (struct draw){DRAW_NORMAL, s->init.scheme == INIT_NORMAL ? s->init.std : s->init.std / sqrt(d_model)};
}

static double draw_next(struct draw d, struct stream *stream)
{
    switch (d.kind) {
    case DRAW_UNIFORM: return d.scale * (2.0 * stream_uniform(stream) - 1.0);
    case DRAW_NORMAL: return d.scale * stream_normal(stream);
    case DRAW_CONSTANT: break;
    }
    return d.scale;
}

/* ---- points of the invariant manifold ---- */

static double coordinate_at(const struct spec *s, const char *name)
{
    int i = key_named_find(&s->init.coordinates, name);
    return i < 0 ? s->init.others : s->init.coordinates.item[i].value;
}

/* Weights of the point that init.coordinates and init.others name, before noise and factors.   out: flat, zero before
 * fails: as manifold_new and manifold_basis_open */
static enum status point_of(const struct model *m, const struct spec *s, double *flat)
{
    struct manifold *manifold;
    struct manifold_basis *basis = NULL;
    enum status status = manifold_new(s, &manifold);
    if (status != STATUS_OK)
        return status;
    const int n = manifold->coordinates;
    double *own = memory_new((size_t)n, sizeof *own), *coordinate = s->model.kind == MODEL_MANIFOLD ? flat : own;
    for (int i = 0; i < n; i++)
        coordinate[i] = coordinate_at(s, manifold->coordinate[i].name);
    if (s->model.kind == MODEL_ATTENTION_ONLY)
        status = manifold_basis_open(s, shape_of(s), manifold, m->tensor, m->tensors, &basis);
    if (basis)
        manifold_basis_add(basis, own, flat);
    manifold_basis_free(basis);
    manifold_free(manifold);
    memory_free(own);
    return status;
}

/* Where the point cannot be, the weights are not finite, and the run ends as diverged; the job's rules see to it before. */
static void start_at_point(const struct model *m, const struct spec *s, double *flat)
{
    if (s->init.scheme != INIT_COORDINATES || point_of(m, s, flat) == STATUS_OK)
        return;
    for (size_t i = 0; i < m->length; i++)
        flat[i] = NAN;
}

void model_initialise(struct model *m, const struct spec *s, uint64_t seed)
{
    double *flat = memory_new(m->length, sizeof *flat);
    int fan_in = m->width;
    start_at_point(m, s, flat);
    const int own_width = s->model.kind == MODEL_ATTENTION_ONLY;       /* the stream grows: each matrix has its own d */
    for (int i = 0; i < m->tensors; i++) {
        const struct tensor *t = &m->tensor[i];
        if (!name_ends(t, ".bias"))
            fan_in = t->rows;
        const int width = own_width ? t->rows : m->width;
        if (t->group == GROUP_UNEMBEDDING)
            fan_in = width;                       /* also where it is tied and only its bias stands here */
        struct draw d = draw_of(s, t, width, fan_in);
        struct stream stream = stream_open(seed, PURPOSE_INIT, (uint32_t)i);
        double factor = init_factor(s, t->group);
        for (size_t k = 0; k < (size_t)t->rows * (size_t)t->cols; k++)
            flat[t->offset + k] = factor * (flat[t->offset + k] + draw_next(d, &stream));
    }
    model_weights_set(m, flat);
    memory_free(flat);
}
