/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and orders that change. A step out of order aligns what it hands out as a planned one
 * does, whatever size the declared regions have. An order whose program does not fit the limit is
 * refused as often as it is tried, and the order before it still trains.
 */
#include "../tap.h"

#include <errno.h>
#include <pthread.h>

#include <zero/zero.h>

#define UNITS 3
#define ELEMENTS 65536u /* of a unit; of the last one four times as many */

struct rank {
    pthread_t thread;
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

int main(void)
{
    struct rank ranks[2] = {{.rank = 0}, {.rank = 1}};

    for (int i = 0; i < 2; i++)
        pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < 2; i++) {
        struct rank *r = &ranks[i];
        is_str(r->setup, "", "rank %d trains a step out of order", i);
        is_int(r->misaligned, 0, "rank %d: parameters and gradients are aligned", i);
        is_int(r->refused[0], -ENOMEM, "rank %d: an order that does not fit is refused", i);
        is_int(r->refused[1], -ENOMEM, "rank %d: and refused again", i);
        has_str(r->error, "ZERO_MEMORY_LIMIT", "rank %d: with the table", i);
        is_int(r->restored, 0, "rank %d: the order before it still trains", i);
    }
    done();
}
