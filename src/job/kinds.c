#include "job/kinds.h"

#include <math.h>
#include <string.h>

/* Keys that one kind of model does not read. */
static const struct foreign {
    enum model_kind kind;
    const char *path;
} foreign[] = {
    {MODEL_DECODER, "model.embedding"},
    {MODEL_DECODER, "model.self_attention"},
    {MODEL_ATTENTION_ONLY, "model.d_model"},
    {MODEL_ATTENTION_ONLY, "model.d_head"},
    {MODEL_ATTENTION_ONLY, "model.d_mlp"},
    {MODEL_ATTENTION_ONLY, "model.norm"},
    {MODEL_ATTENTION_ONLY, "model.bias"},
    {MODEL_ATTENTION_ONLY, "model.activation"},
    {MODEL_ATTENTION_ONLY, "model.dropout"},
    {MODEL_ATTENTION_ONLY, "model.tied"},
    {MODEL_ATTENTION_ONLY, "init.scale.token"},
    {MODEL_ATTENTION_ONLY, "init.scale.position"},
    {MODEL_ATTENTION_ONLY, "init.scale.value_output"},
    {MODEL_ATTENTION_ONLY, "init.scale.mlp"},
};

static bool kind_reads(int kind, const struct key *k)
{
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if ((int)foreign[i].kind == kind && !strcmp(foreign[i].path, k->path))
            return false;
    return true;
}

bool kinds_reads(const struct spec *s, const struct key *k) { return kind_reads(s->model.kind, k); }

bool kinds_any_reads(const struct spec *s, const struct axis *axis, int axes, const struct key *k)
{
    for (int i = 0; i < axes; i++)
        if (!strcmp(axis[i].key->path, "model.kind")) {
            for (int v = 0; v < axis[i].count; v++)
                if (kind_reads((int)axis[i].value[v], k))
                    return true;
            return false;
        }
    return kinds_reads(s, k);
}

double kinds_width(const struct spec *s, double vocabulary, int64_t layer)
{
    if (s->model.kind == MODEL_DECODER)
        return (double)s->model.d_model;
    return (vocabulary + (double)s->model.max_length) * pow(1.0 + (double)s->model.heads, (double)layer);
}
