/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank uses units in another order than the others, units of the same size, so that every
 * collective fits: all ranks hear which units differ, and nothing is updated. With a transport that
 * compares what ranks post, and with one that does not. In stage 3 the ranks may also be found
 * waiting for each other: the odd one drains its gathers, which others have yet to post, while they
 * wait for its reduction.
 */
#include "../tap.h"

#include <errno.h>
#include <stdlib.h>

#include "toy.h"

#define RANKS 3

struct seen {
    int updates[RANKS], evaluated[RANKS];
    char text[RANKS][256];
};

static void stepped(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    struct seen *s = arg;

    (void)rt, (void)info;
    s->updates[rank] = step + 1;
}

static int train(const char *comm, const char *stage, const char *map, uint32_t flags,
                 struct seen *s, struct toy_result *r)
{
    struct zero_setting settings[] = {{"comm", comm}, {"stage", stage}, {"timeout", "2"},
                                      {"map", map}};
    struct toy t = {.ranks = RANKS,
                    .layers = 4,
                    .steps = 4,
                    .dtype = ZERO_F32,
                    .flags = flags,
                    .width = *map == '1' ? 6144 : 600, /* pages */
                    .settings = settings,
                    .n_settings = 4,
                    .seed = 3,
                    .stepped = stepped,
                    .arg = s};

    memset(s, 0, sizeof *s);
    return toy_train(&t, r);
}

/* Step 0 goes in order, step 1 does not; it must not be updated on any rank. */
static void apart(const char *comm, const char *stage)
{
    struct toy_result r;
    struct seen s;
    int err = train(comm, stage, "0", TOY_REORDER | TOY_APART, &s, &r), late = 0;

    for (int i = 0; i < RANKS; i++)
        late |= s.updates[i] > 1;
    bool named = err == -EPROTO && strstr(r.error, "layer") && strstr(r.error, "same order");
    bool waited = err == -ETIMEDOUT && *stage == '3' && strstr(r.error, "layer");
    ok((named || waited) && !late,
       "%s, stage %s: units in another order on one rank are an error", comm, stage);
    diag("%d: %s", err, r.error);
}

/*
 * The forward uses alone, for which nothing is gathered: every collective is that of the others,
 * and one rank alone would compile an order in front of the next step.
 */
static void forward_apart(const char *comm, const char *stage, const char *map)
{
    struct toy_result r;
    struct seen s;
    int err = train(comm, stage, map, TOY_REORDER | TOY_APART | TOY_FORTH, &s, &r), late = 0;

    for (int i = 0; i < RANKS; i++)
        late |= s.updates[i] > 1;
    ok(err == -EPROTO && strstr(r.error, strcmp(comm, "shm") ? "went apart" : "norm: ") &&
           strstr(r.error, "same order") && !late,
       "%s, stage %s%s: forward uses in another order on one rank are an error", comm, stage,
       *map == '1' ? ", mapped" : "");
    diag("%d: %s", err, r.error);
}

/*
 * An evaluation in no rank's usual order, and in another one on rank 1: as many gathers everywhere,
 * so that nobody waits.
 */
static void evaluate_apart(struct zero_runtime *rt, int rank, void *arg)
{
    static const uint32_t orders[2][4] = {{2, 1, 0, 3}, {1, 2, 0, 3}};
    struct seen *s = arg;
    int err = zero_begin(rt, ZERO_EVAL, 0);

    for (int k = 0; k < 4 && !err; k++) {
        err = zero_acquire(rt, orders[rank == 1][k], ZERO_FORWARD, NULL);
        if (!err)
            err = zero_release(rt, orders[rank == 1][k], ZERO_FORWARD, NULL);
    }
    s->evaluated[rank] = err ? err : zero_begin(rt, ZERO_EVAL, 0);
    snprintf(s->text[rank], sizeof s->text[rank], "%s", zero_last_error());
}

static void evaluation(const char *comm)
{
    struct zero_setting settings[] = {{"comm", comm}, {"stage", "3"}, {"timeout", "2"},
                                      {"map", "0"}};
    struct seen s = {.updates = {0}};
    struct toy t = {.ranks = RANKS,
                    .layers = 4,
                    .steps = 2,
                    .dtype = ZERO_F32,
                    .flags = TOY_EVAL,
                    .width = 600,
                    .settings = settings,
                    .n_settings = 4,
                    .seed = 3,
                    .finished = evaluate_apart,
                    .arg = &s};
    struct toy_result r;
    int good = 0;

    toy_train(&t, &r);
    for (int i = 0; i < RANKS; i++)
        good += s.evaluated[i] == -EPROTO && strstr(s.text[i], "layer") != NULL;
    ok(good == RANKS, "%s: an evaluation in another order on one rank is an error", comm);
    diag("%d: %s", s.evaluated[0], s.text[0]);
}

int main(void)
{
    static const char *const stages[] = {"0", "1", "2", "3"};
    struct toy_result shm, blind;
    char path[8192];
    struct seen s;

    snprintf(path, sizeof path, "%s/tests/plugin/.libs:%s", getenv("ZERO_TEST_BUILD"),
             getenv("ZERO_PLUGIN_PATH"));
    setenv("ZERO_PLUGIN_PATH", path, 1);
    for (int i = 0; i < 4; i++) {
        apart("shm", stages[i]);
        apart("blind", stages[i]);
    }
    for (int i = 0; i < 3; i++) {
        forward_apart("shm", stages[i], "0");
        forward_apart("blind", stages[i], "0");
    }
    forward_apart("shm", "3", "1");
    evaluation("blind");
    is_int(train("shm", "3", "0", TOY_REORDER, &s, &shm), 0, "all in another order: shm trains");
    is_int(train("blind", "3", "0", TOY_REORDER, &s, &blind), 0,
           "so does the transport that compares nothing");
    ok(shm.hash == blind.hash, "to the same bits");
    done();
}
