/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of the plugin nccl: what takes longer than it may. */
#ifndef ZERO_TESTS_RANK_NCCL_LATE_H
#define ZERO_TESTS_RANK_NCCL_LATE_H

#include "cases.h"

static struct zero_comm_open opens(const struct check_rank *k, int64_t timeout_ns)
{
    return (struct zero_comm_open){.size = sizeof(struct zero_comm_open),
                                   .host = k->host,
                                   .oob = k->oob,
                                   .device = -1,
                                   .timeout_ns = timeout_ns,
                                   .device_ops = k->device_ops,
                                   .device_handle = k->device};
}

/*
 * A launch that does not end, as where NCCL connects in it and a peer does not come: it is given up
 * two seconds after whoever posted something else, who can name that, would have.
 */
static void launch_stays(struct check_rank *k)
{
    const struct zero_comm_open open = opens(k, 500000000);
    struct zero_comm_ctx *ctx = NULL;
    struct zero_comm *world = NULL;
    struct zero_coll q = {.kind = ZERO_BARRIER, .scale = 1};
    void *stream = NULL;

    if (!check_want(k, !k->ops->open(&open, &ctx), __FILE__, __LINE__, "open: %s", check_error()))
        return;
    int err = k->ops->split(ctx, NULL, 0, 0, &world);
    if (!err)
        err = k->device_ops->stream_create(k->device, "stays", &stream);
    if (!err) {
        err = k->ops->post(world, &q, 1, stream);
        check_want(k, err == -EAGAIN, __FILE__, __LINE__, "post: %d: %s", err, check_error());
        const int64_t posted_ms = check_now_ms();
        check_sleep_ms(700);
        err = k->ops->error(world);
        check_want(k, !err || check_now_ms() - posted_ms > 2400, __FILE__, __LINE__,
                   "too early: %s", check_error());
        check_sleep_ms(2000);
        err = k->ops->error(world);
        k->device_ops->stream_destroy(k->device, stream);
    }
    check_want(k, err == -ETIMEDOUT && strstr(check_error(), "after 0.5 s (ZERO_TIMEOUT)"),
               __FILE__, __LINE__, "%d: %s", err, check_error());
    check_want(k, !k->ops->close(ctx), __FILE__, __LINE__, "close: %s", check_error());
}

/* Rank 1 says everything late from then on. */
static const struct zero_oob *prompt;
static atomic_int dawdles;

static int late_post(void *ctx, const void *src, uint32_t len)
{
    if (atomic_load(&dawdles))
        check_sleep_ms(700);
    return prompt->post(ctx, src, len);
}

/* Each of the ranks' meetings is in time, and all together are not. */
static void entry_late(struct check_rank *k, bool exchange)
{
    struct zero_comm_open open = opens(k, 1000000000);
    struct zero_oob late = *k->oob;
    struct zero_comm_ctx *ctx = NULL;
    struct zero_comm *world = NULL;
    struct zero_mr *mr = NULL;
    static char memory[2][4096];

    late.post = late_post;
    if (k->rank == 1) {
        prompt = k->oob;
        open.oob = &late;
        atomic_store(&dawdles, 0);
    }
    if (!check_want(k, !k->ops->open(&open, &ctx), __FILE__, __LINE__, "open: %s", check_error()))
        return;
    check_want(k, !k->ops->reg(ctx, memory[k->rank], 4096, ZERO_MEM_HOST, &mr), __FILE__, __LINE__,
               "reg: %s", check_error());
    if (k->rank == 1)
        atomic_store(&dawdles, 1);
    int64_t began = check_now_ms();
    int err = exchange ? k->ops->exchange(ctx, mr) : k->ops->split(ctx, NULL, 0, 0, &world);
    int64_t took = check_now_ms() - began;
    check_want(k, k->rank == 1 || (err == -ETIMEDOUT && took < 2000), __FILE__, __LINE__,
               "%d after %d ms", err, (int)took);
    check_want(k, !k->ops->close(ctx), __FILE__, __LINE__, "close: %s", check_error());
}

static void split_late(struct check_rank *k)
{
    entry_late(k, false);
}

static void exchange_late(struct check_rank *k)
{
    entry_late(k, true);
}

#endif
