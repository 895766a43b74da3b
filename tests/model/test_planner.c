/* The planner counts what the textbook says, takes the cheapest order that is valid, and obeys train.plan: dense. */
#include "check.h"

#include "model/model.h"
#include "model/planner.h"

#include <string.h>

static struct planner plan_of(const struct spec *s, struct task_shape shape)
{
    struct model *m = NULL;
    CHECK_INT(model_open(s, shape, &m), STATUS_OK);
    struct planner p = *model_plan(m);
    model_free(m);
    return p;
}

static struct spec decoder(int layers, int d, int heads, int64_t mlp, enum norm norm)
{
    struct spec s;
    key_defaults(&s);
    s.model.layers = layers;
    s.model.d_model = d;
    s.model.heads = heads;
    s.model.d_mlp = (struct key_list){1, {mlp}};
    s.model.norm = norm;
    s.model.max_length = 64;
    return s;
}

/* Forward multiply-adds of the textbook order for one sequence; a step is forward and twice as much backward. */
static double textbook(double layers, double d, double mlp, double length, double looked, double classes)
{
    double projections = 4 * d * d * length, attention = 2 * d * length * (length + 1) / 2, hidden = 2 * d * mlp * length;
    return layers * (projections + attention + hidden) + looked * d * classes;
}

TEST(dense_is_the_textbook_count)
{
    for (int layers = 1; layers <= 5; layers++)
        for (int norm = 0; norm < 3; norm++) {
            struct spec s = decoder(layers, 48, 3, 100, (enum norm)norm);
            struct task_shape shape = {.vocabulary = 7, .classes = 5, .length = 21, .looked = 2, .batch = 30};
            struct planner p = plan_of(&s, shape);
            double expected = 6 * 30 * textbook(layers, 48, 100, 21, 2, 5);
            CHECK_NEAR(p.candidate[0].count.flops, expected, 1e-9 * expected);
            CHECK(!strcmp(p.candidate[0].name, "dense"));
        }
}

/* Also of more blocks than the parts have room for. */
TEST(parts_add_up_to_the_total)
{
    for (int layers = 1; layers <= 64; layers += 21) {
        struct spec s = decoder(layers, 32, 4, 64, NORM_NONE);
        struct task_shape shape = {.vocabulary = 9, .classes = 9, .length = 12, .looked = 1, .batch = 100};
        struct planner p = plan_of(&s, shape);
        for (int i = 0; i < p.candidates; i++) {
            double sum = 0;
            for (int k = 0; k < p.candidate[i].count.parts; k++)
                sum += p.candidate[i].count.part[k].flops;
            CHECK_NEAR(p.candidate[i].count.flops, sum, 1e-9 * sum);
        }
    }
}

TEST(the_cheapest_valid_order_is_chosen)
{
    for (int looked = 1; looked <= 20; looked += 19)
        for (int layers = 1; layers <= 5; layers++)
            for (int norm = 0; norm < 3; norm++)
                for (int dropout = 0; dropout < 2; dropout++) {
                    struct spec s = decoder(layers, 32, 2, 64, (enum norm)norm);
                    s.model.dropout = 0.1 * dropout;
                    struct planner p = plan_of(&s, (struct task_shape){.vocabulary = 6, .classes = 6, .length = 20,
                                                                       .looked = looked, .batch = 64});
                    const struct planner_candidate *chosen = &p.candidate[p.chosen];
                    CHECK(!chosen->invalid[0]);
                    for (int i = 0; i < p.candidates; i++)
                        CHECK(p.candidate[i].invalid[0] || chosen->count.flops <= p.candidate[i].count.flops);
                    if (looked == 1)
                        CHECK(chosen->count.flops < p.candidate[0].count.flops);
                }
}

TEST(invalid_orders_are_never_chosen)
{
    static struct planner p;
    planner_add(&planner_candidate(&p, "dense", "")->count, 100, "all");
    struct planner_candidate *out = planner_candidate(&p, "wrong", "");
    planner_add(&out->count, 1, "little");
    strcpy(out->invalid, "it would be wrong");
    planner_add(&planner_candidate(&p, "right", "")->count, 50, "less");
    planner_add(&planner_candidate(&p, "same", "")->count, 50, "as much");
    CHECK_INT(planner_choose(&p, 0), 2);
    CHECK_INT(planner_choose(&p, 1), 0);
}

TEST(dense_is_obeyed)
{
    struct spec s = decoder(2, 32, 2, 64, NORM_NONE);
    s.train.plan = PLAN_DENSE;
    struct planner p = plan_of(&s, (struct task_shape){.vocabulary = 6, .classes = 6, .length = 20, .looked = 1, .batch = 64});
    CHECK_INT(p.chosen, 0);
}
