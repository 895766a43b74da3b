/* Initial weights: the laws of the schemes, the factors of the groups, seeds. */
#include "check.h"
#include "job/keys.h"
#include "model/cases.h"

static struct spec init_spec(void)
{
    struct spec s;
    key_defaults(&s);
    s.model.layers = 2;
    s.model.d_mlp = (struct key_list){.count = 1, .value = {256}};
    s.model.precision = PRECISION_FLOAT64;
    return s;
}

static const struct task_shape shape = {.vocabulary = 50, .classes = 40, .length = 31};

static struct model *open_model(const struct spec *s)
{
    struct model *m = NULL;
    CHECK_OK(model_open(s, shape, &m));
    if (!m)
        exit(1);
    return m;
}

/* Initial weights of a model of these keys.   out: *m (model_free); memory_free the result */
static double *weights_of(const struct spec *s, uint64_t seed, struct model **m)
{
    *m = open_model(s);
    model_initialise(*m, s, seed);
    double *flat = memory_new(model_flat_length(*m), sizeof *flat);
    model_weights_get(*m, flat);
    return flat;
}

static int is_bias(const struct tensor *t) { return strstr(t->name, ".bias") != NULL; }

static void check_constant(const struct tensor *t, const double *x, double value)
{
    for (int k = 0; k < t->rows * t->cols; k++)
        if (x[k] != value)
            CHECK_FAIL("%s[%d] is %g, expected %g", t->name, k, x[k], value);
}

/* Mean and mean square within six standard deviations, by the second and fourth moment of the law. */
static void check_moments(const struct tensor *t, const double *x, double second, double fourth)
{
    double n = (double)t->rows * t->cols, sum = 0.0, squares = 0.0;
    for (int k = 0; k < t->rows * t->cols; k++) {
        sum += x[k];
        squares += x[k] * x[k];
    }
    if (!(fabs(sum / n) <= 6.0 * sqrt(second / n)))
        CHECK_FAIL("%s: mean %g of %g values", t->name, sum / n, n);
    if (!(fabs(squares / n - second) <= 6.0 * sqrt((fourth - second * second) / n)))
        CHECK_FAIL("%s: mean square %g of %g values, expected %g", t->name, squares / n, n, second);
}

/* U(-bound, bound): moments bound^2 / 3 and bound^4 / 5; no value outside. Of n values the largest is below 0.9
 * bound with probability 0.9^n. */
static void check_uniform(const struct tensor *t, const double *x, double bound)
{
    double most = 0.0;
    for (int k = 0; k < t->rows * t->cols; k++)
        most = fmax(most, fabs(x[k]));
    if (!(most <= bound) || (t->rows * t->cols > 200 && most < 0.9 * bound))
        CHECK_FAIL("%s: largest value %g, expected up to %g", t->name, most, bound);
    check_moments(t, x, bound * bound / 3.0, pow(bound, 4) / 5.0);
}

static void check_normal(const struct tensor *t, const double *x, double std)
{
    double most = 0.0;
    for (int k = 0; k < t->rows * t->cols; k++)
        most = fmax(most, fabs(x[k]));
    if (std > 0.0 && t->rows * t->cols > 2000 && !(most > 2.5 * std && most < 7.0 * std))
        CHECK_FAIL("%s: largest value %g at std %g", t->name, most, std);
    check_moments(t, x, std * std, 3.0 * pow(std, 4));
}

/* ---- schemes ---- */

/* Fan-in of a bias is that of its matrix, the tensor before it. */
static void check_pytorch(const struct tensor *table, int i, const double *x, double d)
{
    const struct tensor *t = &table[i];
    switch (t->group) {
    case GROUP_TOKEN:
    case GROUP_POSITION:
        check_normal(t, x, 1.0);
        break;
    case GROUP_QUERY_KEY:
    case GROUP_VALUE_OUTPUT:
        if (is_bias(t))
            check_constant(t, x, 0.0);
        else if (strstr(t->name, "output"))
            check_uniform(t, x, 1.0 / sqrt(d));
        else
            check_uniform(t, x, sqrt(6.0 / (4.0 * d)));
        break;
    case GROUP_MLP:
    case GROUP_UNEMBEDDING:
        check_uniform(t, x, 1.0 / sqrt((double)(is_bias(t) ? table[i - 1].rows : t->rows)));
        break;
    default:
        check_constant(t, x, strstr(t->name, "gain") ? 1.0 : 0.0);
    }
}

TEST(pytorch_scheme_has_its_laws)
{
    struct spec s = init_spec();
    struct model *m;
    double *flat = weights_of(&s, 1, &m);
    const struct tensor *table;
    int n = model_tensors(m, &table), groups[GROUP_COUNT] = {0};
    for (int i = 0; i < n; i++) {
        check_pytorch(table, i, flat + table[i].offset, 64.0);
        groups[table[i].group]++;
    }
    for (int g = 0; g < GROUP_COUNT; g++)
        CHECK(groups[g] > 0);
    memory_free(flat);
    model_free(m);
}

TEST(normal_schemes_have_their_laws)
{
    for (int scheme = INIT_NORMAL; scheme <= INIT_NORMAL_SQRT_D; scheme++) {
        struct spec s = init_spec();
        s.init.scheme = scheme;
        s.init.std = 0.05;
        struct model *m;
        double *flat = weights_of(&s, 2, &m), std = scheme == INIT_NORMAL ? 0.05 : 0.05 / 8.0;
        const struct tensor *table;
        int n = model_tensors(m, &table);
        for (int i = 0; i < n; i++)
            if (table[i].group == GROUP_NORM)
                check_constant(&table[i], flat + table[i].offset, strstr(table[i].name, "gain") ? 1.0 : 0.0);
            else if (is_bias(&table[i]))
                check_constant(&table[i], flat + table[i].offset, 0.0);
            else
                check_normal(&table[i], flat + table[i].offset, std);
        memory_free(flat);
        model_free(m);
    }
}

/* Tensors come from streams of their own: no two are alike or correlated. */
TEST(tensors_are_independent)
{
    struct spec s = init_spec();
    struct model *m;
    double *flat = weights_of(&s, 1, &m);
    const struct tensor *table;
    int n = model_tensors(m, &table);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
            int count = table[i].rows * table[i].cols, other = table[j].rows * table[j].cols;
            double dot = 0.0, a = 0.0, b = 0.0;
            if (table[i].group == GROUP_NORM || table[j].group == GROUP_NORM)
                continue;
            count = count < other ? count : other;
            for (int k = 0; k < count; k++) {
                double x = flat[table[i].offset + (size_t)k], y = flat[table[j].offset + (size_t)k];
                dot += x * y;
                a += x * x;
                b += y * y;
            }
            if (!(fabs(dot) <= 6.0 * sqrt(a * b / count)))
                CHECK_FAIL("%s and %s: correlation %g over %d values", table[i].name, table[j].name, dot / sqrt(a * b),
                           count);
        }
    memory_free(flat);
    model_free(m);
}

/* ---- factors ---- */

/* Which groups a factor touches. */
static int touches(const char *key, enum tensor_group g)
{
    if (g == GROUP_NORM)
        return 0;
    static const char *const own[] = {"token", "position", "query_key", "value_output", "mlp", "unembedding"};
    return !strcmp(key, "all") || !strcmp(key, own[g]) ||
           (!strcmp(key, "attention") && (g == GROUP_QUERY_KEY || g == GROUP_VALUE_OUTPUT));
}

/* Powers of two scale without rounding, so the comparison is exact. */
static void check_factor(const char *key, double factor, int precision, int scheme)
{
    struct spec s = init_spec();
    s.model.precision = precision;
    s.init.scheme = scheme;
    struct model *m, *scaled_model;
    double *plain = weights_of(&s, 4, &m);
    char path[64];
    snprintf(path, sizeof path, "init.scale.%s", key);
    key_set(&s, key_find(path), factor);
    double *scaled = weights_of(&s, 4, &scaled_model);
    const struct tensor *table;
    int n = model_tensors(m, &table);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < table[i].rows * table[i].cols; k++) {
            size_t at = table[i].offset + (size_t)k;
            double expected = plain[at] * (touches(key, table[i].group) ? factor : 1.0);
            if (scaled[at] != expected)
                CHECK_FAIL("%s = %g: %s[%d] is %.17g, expected %.17g", path, factor, table[i].name, k, scaled[at],
                           expected);
        }
    memory_free(plain);
    memory_free(scaled);
    model_free(m);
    model_free(scaled_model);
}

TEST(each_factor_scales_exactly_its_group)
{
    static const char *const keys[] = {"all", "token", "position", "attention", "query_key", "value_output", "mlp",
                                       "unembedding"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        for (int precision = 0; precision < 2; precision++) {
            check_factor(keys[i], 4.0, precision, INIT_PYTORCH);
            check_factor(keys[i], 0.0, precision, INIT_PYTORCH);
            check_factor(keys[i], 0.125, precision, INIT_NORMAL);
        }
    CHECK_INT(memory_balance(), 0);
}

TEST(factors_multiply)
{
    struct spec s = init_spec();
    struct model *m, *other;
    double *plain = weights_of(&s, 4, &m);
    s.init_scale.all = 2.0;
    s.init_scale.attention = 4.0;
    s.init_scale.query_key = 0.5;
    s.init_scale.value_output = 8.0;
    double *scaled = weights_of(&s, 4, &other);
    const struct tensor *table;
    int n = model_tensors(m, &table);
    for (int i = 0; i < n; i++) {
        enum tensor_group g = table[i].group;
        double factor = g == GROUP_NORM ? 1.0 : g == GROUP_QUERY_KEY ? 4.0 : g == GROUP_VALUE_OUTPUT ? 64.0 : 2.0;
        for (int k = 0; k < table[i].rows * table[i].cols; k++) {
            size_t at = table[i].offset + (size_t)k;
            CHECK(scaled[at] == factor * plain[at]);
        }
    }
    memory_free(plain);
    memory_free(scaled);
    model_free(m);
    model_free(other);
}

/* ---- seeds, padding ---- */

TEST(initial_weights_depend_on_the_seed_only)
{
    struct spec s = init_spec(), other = init_spec();
    other.train.lr = 0.5;
    other.train.weight_decay = 2.0;
    other.model.dropout = 0.4;
    struct model *m[4];
    double *a = weights_of(&s, 1, &m[0]), *b = weights_of(&other, 1, &m[1]), *c = weights_of(&s, 2, &m[2]);
    size_t n = model_flat_length(m[0]);
    CHECK_BYTES(a, b, n * sizeof *a);
    CHECK(memcmp(a, c, n * sizeof *a));
    s.model.precision = PRECISION_FLOAT32;
    double *single = weights_of(&s, 1, &m[3]);
    CHECK_INT(model_element_size(m[3]), 4);
    for (int i = 0; i < 4; i++)
        model_free(m[i]);
    memory_free(a);
    memory_free(b);
    memory_free(c);
    memory_free(single);
    CHECK_INT(memory_balance(), 0);
}

TEST(tensors_do_not_overlap_and_padding_is_zero)
{
    struct spec s = init_spec();
    s.model.d_model = 9;
    s.model.heads = 3;
    struct model *m;
    double *flat = weights_of(&s, 1, &m);
    const struct tensor *table;
    int n = model_tensors(m, &table);
    size_t length = model_flat_length(m), parameters = 0;
    unsigned char *used = memory_new(length, 1);
    for (int i = 0; i < n; i++) {
        CHECK(table[i].rows > 0 && table[i].cols > 0);
        for (size_t k = 0; k < (size_t)table[i].rows * (size_t)table[i].cols; k++, parameters++) {
            CHECK(table[i].offset + k < length && !used[table[i].offset + k]);
            used[table[i].offset + k] = 1;
        }
        for (int j = 0; j < i; j++)
            CHECK(strcmp(table[i].name, table[j].name));
    }
    CHECK_INT(model_parameters(m), parameters);
    for (size_t k = 0; k < length; k++)
        CHECK(used[k] || flat[k] == 0.0);
    memory_free(used);
    memory_free(flat);
    model_free(m);
}

/* ---- keys that do not fit ---- */

static void check_refused(const struct spec *s, const char *key)
{
    struct model *m = NULL;
    CHECK_INT(model_open(s, shape, &m), STATUS_JOB);
    CHECK(!m);
    CHECK_HAS(status_text(), key);
    CHECK_INT(memory_balance(), 0);
}

TEST(contradicting_keys_are_refused)
{
    struct spec s = init_spec();
    s.model.max_length = 30;
    check_refused(&s, "max_length");
    s = init_spec();
    s.model.heads = 5;                  /* 64 is no multiple of 5, and d_head is not given */
    check_refused(&s, "heads");
    s = init_spec();
    s.model.d_mlp = (struct key_list){.count = 3, .value = {1, 2, 3}};
    check_refused(&s, "d_mlp");
    s = init_spec();
    s.model.tied = true;                /* 50 tokens, 40 classes */
    check_refused(&s, "tied");
}

/* Every parameter is counted as the formulas say. */
TEST(parameters_are_counted)
{
    struct spec s = init_spec();
    struct model *m = open_model(&s);
    size_t d = 64, h = 256, block = 4 * (d * d + d) + d * h + h + h * d + d + 4 * d;
    CHECK_INT(model_parameters(m), 50 * d + 64 * d + 2 * block + 40 * d + 40);
    CHECK_INT(model_width(m), 64);
    CHECK_INT(model_layers(m), 2);
    model_free(m);
}
