/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and orders that change. A step out of order aligns what it hands out as a planned one
 * does, whatever size the declared regions have. An order whose program does not fit the limit is
 * refused as often as it is tried, and the order before it still trains. A reservation that grows
 * for a larger order keeps to the limit to the byte.
 */
#include "../threads.h"

#include <errno.h>
#include <inttypes.h>

#include <zero/zero.h>

#include "try.h"

#define UNITS 3
#define ELEMENTS 65536u /* of a unit; of the last one four times as many */

struct rank {
    int rank, misaligned, refused[2], restored;
    char error[1024], setup[1024];
};

static uint64_t elements(uint32_t unit)
{
    return unit == UNITS - 1 ? 4 * ELEMENTS : ELEMENTS;
}

static int model(struct zero_runtime *rt)
{
    struct zero_buffer_desc region = {.size = sizeof region, .name = "odd", .bytes = 101,
                                      .memory_class = ZERO_CLASS_ACTIVATIONS,
                                      .from_unit = ZERO_WHOLE_STEP, .to_unit = ZERO_WHOLE_STEP};
    static const char *const names[UNITS] = {"a", "b", "large"};
    uint32_t id;
    int err = 0;

    for (uint32_t u = 0; u < UNITS && !err; u++) {
        struct zero_param_desc w = {.size = sizeof w, .name = names[u], .dtype = ZERO_F32,
                                    .n_dims = 1, .dims = {elements(u)}};
        err = zero_unit_add(rt, names[u], &id);
        if (!err)
            err = zero_param_add(rt, u, &w, &id);
    }
    return err ? err : zero_buffer_add(rt, &region, &id);
}

/* A step that uses two units, whatever was declared. */
static int step(struct rank *r, struct zero_runtime *rt, uint32_t first, uint32_t second)
{
    const struct zero_use uses[] = {{first, ZERO_FORWARD}, {second, ZERO_FORWARD},
                                    {second, ZERO_BACKWARD}, {first, ZERO_BACKWARD}};
    int err = zero_begin(rt, ZERO_TRAIN, 1);

    for (int i = 0; i < 4 && !err; i++) {
        uint32_t unit = uses[i].unit;
        err = zero_acquire(rt, unit, uses[i].pass, NULL);
        if (err)
            break;
        float *grad = zero_grad(rt, unit, NULL);
        r->misaligned += (uintptr_t)zero_param(rt, unit) % 256 != 0 || (uintptr_t)grad % 256 != 0;
        for (uint64_t k = 0; grad && k < elements(unit); k++)
            grad[k] = 1;
        err = zero_release(rt, unit, uses[i].pass, NULL);
    }
    return err ? err : zero_update(rt, NULL);
}

static int declare(struct zero_runtime *rt, uint32_t second)
{
    const struct zero_use uses[] = {{0, ZERO_FORWARD}, {second, ZERO_FORWARD},
                                    {second, ZERO_BACKWARD}, {0, ZERO_BACKWARD}};
    return zero_set_order(rt, ZERO_TRAIN, uses, 4);
}

static void *rank_main(void *arg)
{
    static const struct zero_setting settings[] = {
        {"stage", "3"}, {"timeout", "20"}, {"prefetch_bytes", "0"},
        {"memory_limit", "device:4800K"}, {"map", "0"}};
    struct zero_config config = {.size = sizeof config, .settings = settings, .n_settings = 5,
                                 .ranks = 2, .job = "order_memory"};
    struct rank *r = arg;
    struct zero_runtime *rt = NULL;

    config.rank = r->rank;
    if (zero_create(&config, &rt) || model(rt) || declare(rt, 1) || zero_commit(rt) ||
        step(r, rt, 1, 0) || declare(rt, 2)) {
        snprintf(r->setup, sizeof r->setup, "%s", zero_last_error());
    } else {
        for (int i = 0; i < 2; i++)
            r->refused[i] = zero_begin(rt, ZERO_TRAIN, 1);
        snprintf(r->error, sizeof r->error, "%s", zero_last_error());
        r->restored = declare(rt, 1);
        for (int i = 0; i < 2 && !r->restored; i++)
            r->restored = step(r, rt, 0, 1);
    }
    zero_destroy(rt);
    return NULL;
}

/* Bytes that a rank has reserved after a step in each of two orders; 0: that step did not run. */
struct growth {
    int rank;
    char limit[64], error[1024];
    uint64_t reserved[2];
};

static int growth_steps(struct growth *l, struct zero_runtime *rt)
{
    struct rank r = {0};

    TRY(model(rt));
    for (int i = 0; i < 2; i++) {
        struct zero_memory_report report = {.size = sizeof report};
        TRY(declare(rt, i + 1));
        if (!i)
            TRY(zero_commit(rt));
        TRY(step(&r, rt, 0, i + 1));
        TRY(zero_memory_report(rt, &report));
        l->reserved[i] = report.reserved;
    }
    return 0;
}

static void *growth_main(void *arg)
{
    struct growth *l = arg;
    const struct zero_setting settings[] = {{"stage", "3"}, {"timeout", "20"}, {"map", "0"},
                                            {"prefetch_bytes", "0"}, {"memory_limit", l->limit}};
    struct zero_config config = {.size = sizeof config, .settings = settings, .n_settings = 5,
                                 .rank = l->rank, .ranks = 2, .job = "order_growth"};
    struct zero_runtime *rt = NULL;

    if (zero_create(&config, &rt) || growth_steps(l, rt))
        snprintf(l->error, sizeof l->error, "%s", zero_last_error());
    zero_destroy(rt);
    return NULL;
}

/* `more`: by how much the limit of rank 1 is larger. */
static void growth_run(struct growth all[2], uint64_t limit, uint64_t more)
{
    for (int i = 0; i < 2; i++) {
        all[i] = (struct growth){.rank = i};
        snprintf(all[i].limit, sizeof all[i].limit, "device:%" PRIu64, limit + (i ? more : 0));
    }
    in_threads(growth_main, all, 2);
}

static void growth_keeps_to_the_limit(void)
{
    struct growth all[2];

    growth_run(all, 512 << 20, 0);
    is_str(all[0].error, "", "a larger order follows");
    const uint64_t small = all[0].reserved[0], large = all[0].reserved[1];
    ok(large > small, "it reserves more: %" PRIu64 " after %" PRIu64, large, small);
    growth_run(all, large, 0);
    for (int i = 0; i < 2; i++) {
        is_str(all[i].error, "", "rank %d: a limit of just what it reserves is enough", i);
        ok(all[i].reserved[1] == large, "rank %d: and is reserved: %" PRIu64, i,
           all[i].reserved[1]);
    }
    growth_run(all, large - 1, 0);
    for (int i = 0; i < 2; i++) {
        ok(all[i].reserved[0] == small && !all[i].reserved[1],
           "rank %d: a byte less is enough for the first order, and not for the larger one", i);
        has_str(all[i].error, "ZERO_MEMORY_LIMIT", "rank %d: the error names the limit", i);
    }
}

/* What stands above it differs: each rank has its own limit. */
static void one_table_for_a_host(void)
{
    struct growth all[2];

    growth_run(all, 4096, 4096);
    has_str(all[0].error, "has 4.0 KiB", "a limit that nothing fits");
    has_str(all[0].error, "\n  parameters ", "the first rank: with the table");
    has_str(all[1].error, "has 8.0 KiB", "another one");
    has_str(all[1].error, "rank 0 says who needs what", "the same table is not repeated");
}

int main(void)
{
    struct rank ranks[2] = {{.rank = 0}, {.rank = 1}};

    growth_keeps_to_the_limit();
    one_table_for_a_host();
    in_threads(rank_main, ranks, 2);
    for (int i = 0; i < 2; i++) {
        struct rank *r = &ranks[i];
        is_str(r->setup, "", "rank %d trains a step out of order", i);
        is_int(r->misaligned, 0, "rank %d: parameters and gradients are aligned", i);
        is_int(r->refused[0], -ENOMEM, "rank %d: an order that does not fit is refused", i);
        is_int(r->refused[1], -ENOMEM, "rank %d: and refused again", i);
        has_str(r->error, "ZERO_MEMORY_LIMIT", "rank %d: with what is short", i);
        has_str(r->error, i ? "rank 0 says who needs what" : "\n  parameters ",
                i ? "the other: who has the table" : "the first: with the table");
        is_int(r->restored, 0, "rank %d: the order before it still trains", i);
    }
    done();
}
