// ranks: 1 2 3 7
/* One rank fails, all know: which, with what, and why. */
#include "ranks.h"

#include "mpi/agree.h"

static enum status fail_on(const struct world *w, int rank, enum status s)
{
    return w->rank == rank ? status_fail(s, "it happened on %d", rank) : STATUS_OK;
}

static void expect_text(const struct world *w, int rank)
{
    char text[64];
    if (w->size == 1)
        snprintf(text, sizeof text, "it happened on %d", rank);
    else
        snprintf(text, sizeof text, "rank %d: it happened on %d", rank, rank);
    CHECK_TEXT(status_text(), text);
}

static void exactly_one(const struct world *w)
{
    for (int f = 0; f < w->size; f++)
        for (int s = STATUS_OK + 1; s < STATUS_COUNT; s++) {
            CHECK_INT(agree(w->comm, fail_on(w, f, (enum status)s)), s);
            expect_text(w, f);
        }
    CHECK_INT(agree(w->comm, STATUS_OK), STATUS_OK);
}

static void the_first_of_many(const struct world *w)
{
    int first = w->size / 2;
    enum status mine = w->rank >= first ? fail_on(w, w->rank, w->rank == first ? STATUS_IO : STATUS_JOB) : STATUS_OK;
    CHECK_INT(agree(w->comm, mine), STATUS_IO);
    expect_text(w, first);
}

static void one_for_all(const struct world *w)
{
    for (int root = 0; root < w->size; root++) {
        CHECK_INT(agree_root(w->comm, root, fail_on(w, root, STATUS_LOCKED)), STATUS_LOCKED);
        char text[64];
        snprintf(text, sizeof text, "it happened on %d", root);
        CHECK_TEXT(status_text(), text);
        /* What the others think does not count. */
        CHECK_INT(agree_root(w->comm, root, w->rank == root ? STATUS_OK : STATUS_IO), STATUS_OK);
    }
}

int main(int argc, char **argv)
{
    struct world w;
    CHECK_OK(world_open(&argc, &argv, &w));
    exactly_one(&w);
    int bad = ranks_report(&w, "agree_exactly_one");
    the_first_of_many(&w);
    bad |= ranks_report(&w, "agree_first_of_many");
    one_for_all(&w);
    bad |= ranks_report(&w, "agree_root");
    world_close(&w);
    return bad;
}
