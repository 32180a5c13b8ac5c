/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that leave the declared order for one whose program does not fit the memory limit: the
 * order is recorded, its program refused, and training goes on out of order, with a warning once
 * per step and the same bits as where there is room. And what ends such steps: a rank that gives
 * up, or whose work on a stream does not end, is named to the other one.
 */
#include "../threads.h"

#include <errno.h>
#include <time.h>

#include <zero/zero.h>

#define UNITS 4
#define ELEMENTS 65536u

struct rank {
    int rank, err, warnings, ends; /* ends: rank 1 aborts before the order is compiled */
    const char *job, *limit;
    uint64_t reserved, hash;
    char error[512];
};

static void log_line(void *arg, int level, const char *line)
{
    struct rank *r = arg;
    r->warnings += level == 2 && strstr(line, "without prefetching") != NULL;
}

static int model(struct zero_runtime *rt)
{
    const struct zero_use two[] = {{0, 0}, {1, 0}, {1, 1}, {0, 1}};
    int err = 0;

    for (uint32_t u = 0; u < UNITS && !err; u++) {
        char name[8];
        uint32_t id;
        snprintf(name, sizeof name, "u%u", u);
        struct zero_param_desc w = {.size = sizeof w, .name = name, .dtype = ZERO_F32, .n_dims = 1,
                                    .dims = {ELEMENTS},
                                    .init = {.kind = ZERO_INIT_NORMAL, .b = 1, .seed = u}};
        err = zero_unit_add(rt, name, &id);
        if (!err)
            err = zero_param_add(rt, u, &w, &id);
    }
    return err ? err : zero_set_order(rt, ZERO_TRAIN, two, 4);
}

/* Uses all units, though two were declared. */
static int step(struct zero_runtime *rt)
{
    int err = zero_begin(rt, ZERO_TRAIN, 1);

    for (uint32_t i = 0; i < 2 * UNITS && !err; i++) {
        uint32_t pass = i < UNITS ? ZERO_FORWARD : ZERO_BACKWARD;
        uint32_t unit = i < UNITS ? i : 2 * UNITS - 1 - i;
        err = zero_acquire(rt, unit, pass, NULL);
        const float *w = err ? NULL : zero_param(rt, unit);
        float *grad = pass == ZERO_BACKWARD && w ? zero_grad(rt, unit, NULL) : NULL;
        for (uint64_t k = 0; grad && k < ELEMENTS; k++)
            grad[k] = w[k] - (float)unit;
        if (!err)
            err = zero_release(rt, unit, pass, NULL);
    }
    return err ? err : zero_update(rt, NULL);
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    const struct zero_setting settings[] = {
        {"stage", "3"}, {"timeout", "20"}, {"memory_limit", r->limit}};
    struct zero_config config = {.size = sizeof config, .settings = settings, .n_settings = 3,
                                 .rank = r->rank, .ranks = 2, .job = r->job, .log = log_line,
                                 .log_arg = r};
    struct zero_memory_report report = {.size = sizeof report};
    struct zero_runtime *rt = NULL;

    r->err = zero_create(&config, &rt) || model(rt) || zero_commit(rt) ||
             zero_memory_report(rt, &report);
    for (int i = 0; i < 3 && !r->err; i++) {
        r->err = step(rt);
        if (r->ends && r->rank == 1 && !r->err) {
            usleep(100000); /* the other one waits for this one's order */
            zero_abort(rt, "the test ends it");
        }
    }
    if (!r->err)
        r->err = zero_weights_hash(rt, &r->hash);
    r->reserved = report.reserved;
    snprintf(r->error, sizeof r->error, "%s", zero_last_error());
    zero_destroy(rt);
    return NULL;
}

/* ---- A use on a stream that does not end ----------------------------------------------------- */

static void dawdle(void *arg)
{
    (void)arg;
    nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
}

/* Forward uses of units that were not declared; rank 1 takes too long in the first one. */
static int stray(const struct rank *r, struct zero_runtime *rt, void *stream)
{
    int err = zero_begin(rt, ZERO_TRAIN, 1);

    for (uint32_t unit = 2; unit < UNITS && !err; unit++) {
        err = zero_acquire(rt, unit, ZERO_FORWARD, stream);
        if (!err && r->rank == 1)
            err = zero_stream_call(rt, stream, dawdle, NULL);
        if (!err)
            err = zero_release(rt, unit, ZERO_FORWARD, stream);
    }
    return err;
}

static void *stray_main(void *arg)
{
    struct rank *r = arg;
    const struct zero_setting settings[] = {
        {"stage", "3"}, {"timeout", r->rank ? "2" : "20"}, {"map", "0"}};
    struct zero_config config = {.size = sizeof config, .settings = settings, .n_settings = 3,
                                 .rank = r->rank, .ranks = 2, .job = r->job, .log = log_line,
                                 .log_arg = r};
    struct zero_runtime *rt = NULL;
    void *stream = NULL;

    r->err = zero_create(&config, &rt);
    if (!r->err)
        r->err = model(rt);
    if (!r->err)
        r->err = zero_commit(rt);
    if (!r->err)
        r->err = zero_stream_create(rt, &stream);
    if (!r->err)
        r->err = stray(r, rt, stream);
    snprintf(r->error, sizeof r->error, "%s", zero_last_error());
    zero_destroy(rt);
    return NULL;
}

static void dawdled(void)
{
    struct rank ranks[2];

    for (int i = 0; i < 2; i++)
        ranks[i] = (struct rank){.rank = i, .job = "order-dawdles"};
    in_threads(stray_main, ranks, 2);
    ok(ranks[1].err == -ETIMEDOUT && strstr(ranks[1].error, "stream application"),
       "a use out of order does not end on its stream: %s", ranks[1].error);
    ok(ranks[0].err == -ETIMEDOUT && strstr(ranks[0].error, "rank 1 failed in release: stream"),
       "which the other rank hears: %s", ranks[0].error);
}

static void run(struct rank *ranks, const char *job, const char *limit, int ends)
{
    for (int i = 0; i < 2; i++)
        ranks[i] = (struct rank){.rank = i, .job = job, .limit = limit, .ends = ends};
    in_threads(rank_main, ranks, 2);
    for (int i = 0; i < 2; i++)
        if (ranks[i].err)
            diag("rank %d: %s", i, ranks[i].error);
}

int main(void)
{
    struct rank roomy[2], tight[2], ended[2];
    char limit[64];

    run(roomy, "order-roomy", "", 0);
    ok(!roomy[0].err && !roomy[1].err, "an order that was not declared trains");
    is_int(roomy[0].warnings, 0, "and is compiled where there is room");
    snprintf(limit, sizeof limit, "device:%" PRIu64, roomy[0].reserved);
    run(tight, "order-tight", limit, 0);
    ok(!tight[0].err && !tight[1].err, "it trains too where its program does not fit");
    ok(tight[0].warnings >= 1 && tight[1].warnings >= 1, "which is said");
    ok(tight[0].hash == roomy[0].hash, "with the same bits");
    run(ended, "order-ended", "", 1);
    ok(ended[0].err && strstr(ended[0].error, "the test ends it"),
       "a rank that gives up before the order is compiled: %s", ended[0].error);
    is_int(ended[0].warnings, 0, "and the order is not said to be at fault");
    dawdled();
    done();
}
