/* SPDX-License-Identifier: Apache-2.0 */
/* The relay's memory, streams and events: opening and closing. */
#include <stdlib.h>

#include "base/checked.h"
#include "base/status.h"
#include "engine/relay_types.h"

/* Of a piece, which holds a few elements of every rank. */
static uint64_t room_of(const struct zero_runtime *rt)
{
    uint64_t least = (uint64_t)(rt->ranks + 1) * RELAY_LEAST * RELAY_WIDEST;
    uint64_t wanted = zero__option_bytes(rt->options, ZERO__OPT_RELAY_BYTES);

    return zero__whole_pages(least > wanted ? least : wanted);
}

uint64_t zero__relay_bytes(const struct zero_runtime *rt)
{
    return rt->caps.mem & rt->device_mem ? 0 : room_of(rt) * RELAY_PIECES * RELAY_LANES;
}

static int memory_open(struct zero_runtime *rt, struct zero__relay *r)
{
    void *base = NULL;
    int err;

    r->room = room_of(rt);
    r->bytes = zero__relay_bytes(rt);
    if (rt->comm_ops.alloc) {
        err = rt->comm_ops.alloc(rt->ctx, r->bytes, ZERO_MEM_HOST, &base, &r->mr);
        r->from_comm = !err;
        if (!err && rt->dev_ops.pin && !rt->dev_ops.pin(rt->dev, base, r->bytes))
            r->pinned = 1;
        if (!err && !r->pinned)
            zero__log(&rt->log, ZERO_LOG_WARN, "engine",
                      "what %s exchanges is not pinned, so copies to and from the device are slow: "
                      "%s",
                      rt->comm_name, zero__error_text());
    } else {
        err = rt->dev_ops.alloc(rt->dev, r->bytes, ZERO_MEM_PINNED, &base);
        if (!err)
            err = rt->comm_ops.reg(rt->ctx, base, r->bytes, ZERO_MEM_HOST, &r->mr);
    }
    r->base = base;
    return err;
}

static int lane_open(struct zero_runtime *rt, struct relay_lane *l, uint64_t off)
{
    int err = rt->dev_ops.stream_create(rt->dev, "relay-in", &l->in);

    if (!err)
        err = rt->dev_ops.stream_create(rt->dev, "relay-out", &l->out);
    for (uint32_t i = 0; i < RELAY_PIECES && !err; i++) {
        l->pieces[i].off = off + i * rt->relay->room;
        err = rt->dev_ops.event_create(rt->dev, &l->pieces[i].arrived);
        if (!err)
            err = rt->dev_ops.event_create(rt->dev, &l->pieces[i].left);
    }
    return err;
}

int zero__relay_open(struct zero_runtime *rt)
{
    struct zero__relay *r = calloc(1, sizeof *r);
    int err;

    if (!r)
        return zero__fail(-ENOMEM, "no memory for the device's collectives");
    rt->relay = r;
    err = memory_open(rt, r);
    for (uint32_t i = 0; i < RELAY_LANES && !err; i++)
        err = lane_open(rt, &r->lanes[i], i * RELAY_PIECES * r->room);
    return err;
}

struct zero_mr *zero__relay_mr(struct zero_runtime *rt)
{
    return rt->relay->mr;
}

/* 1: all copies have ended. */
static int lane_close(struct zero_runtime *rt, struct relay_lane *l)
{
    int ended = 1;

    if (l->in)
        ended &= !rt->dev_ops.stream_sync(rt->dev, l->in, rt->timeout_ns);
    if (l->out)
        ended &= !rt->dev_ops.stream_sync(rt->dev, l->out, rt->timeout_ns);
    for (uint32_t i = 0; i < RELAY_PIECES; i++) {
        if (l->pieces[i].arrived)
            rt->dev_ops.event_destroy(rt->dev, l->pieces[i].arrived);
        if (l->pieces[i].left)
            rt->dev_ops.event_destroy(rt->dev, l->pieces[i].left);
    }
    if (l->in)
        rt->dev_ops.stream_destroy(rt->dev, l->in);
    if (l->out)
        rt->dev_ops.stream_destroy(rt->dev, l->out);
    return ended;
}

static void device_close(struct zero_runtime *rt, struct zero__relay *r)
{
    int ended = 1;

    for (uint32_t i = 0; i < RELAY_LANES; i++)
        ended &= lane_close(rt, &r->lanes[i]);
    if (!r->from_comm && r->mr)
        rt->comm_ops.unreg(rt->ctx, r->mr);
    if (!ended) /* the device knows the memory until it closes */
        return;
    if (r->pinned)
        rt->dev_ops.unpin(rt->dev, r->base, r->bytes);
    if (!r->from_comm && r->base)
        rt->dev_ops.release(rt->dev, r->base, r->bytes, ZERO_MEM_PINNED);
}

void zero__relay_close(struct zero_runtime *rt, int of_device)
{
    struct zero__relay *r = rt->relay;

    if (!r)
        return;
    if (of_device) {
        device_close(rt, r);
        return;
    }
    if (r->from_comm)
        rt->comm_ops.free(rt->ctx, r->mr);
    free(r);
    rt->relay = NULL;
}
