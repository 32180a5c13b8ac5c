/* SPDX-License-Identifier: Apache-2.0 */
/* The relay's memory, streams and events: opening and closing. */
#include <stdlib.h>

#include "base/checked.h"
#include "base/status.h"
#include "run/relay_types.h"

/* Bytes of a piece, which holds a few elements of every rank. */
static uint64_t room_of(const struct zero__runner *run)
{
    uint64_t least = (uint64_t)(run->site->ranks + 1) * RELAY_LEAST * RELAY_WIDEST;
    uint64_t wanted = zero__option_bytes(run->site->options, ZERO__OPT_RELAY_BYTES);

    return zero__whole_pages(least > wanted ? least : wanted);
}

uint64_t zero__relay_bytes(const struct zero__runner *run)
{
    return run->site->caps.mem & run->site->device_mem ? 0
                                                       : room_of(run) * RELAY_PIECES * RELAY_LANES;
}

static int memory_open(struct zero__runner *run, struct zero__relay *r)
{
    void *base = NULL;
    int err;

    r->room = room_of(run);
    r->bytes = zero__relay_bytes(run);
    if (run->site->comm_ops.alloc) {
        err = run->site->comm_ops.alloc(run->site->ctx, r->bytes, ZERO_MEM_HOST, &base, &r->mr);
        r->from_comm = !err;
        if (!err && run->site->dev_ops.pin &&
            !run->site->dev_ops.pin(run->site->dev, base, r->bytes))
            r->pinned = 1;
        if (!err && !r->pinned)
            zero__log(&run->site->log, ZERO_LOG_WARN, "engine",
                      "what %s exchanges is not pinned, so copies to and from the device are slow: "
                      "%s",
                      run->site->comm_name, zero__error_text());
    } else {
        err = run->site->dev_ops.alloc(run->site->dev, r->bytes, ZERO_MEM_PINNED, &base);
        if (!err)
            err = run->site->comm_ops.reg(run->site->ctx, base, r->bytes, ZERO_MEM_HOST, &r->mr);
    }
    r->base = base;
    return err;
}

static int lane_open(struct zero__runner *run, struct relay_lane *l, uint64_t off)
{
    int err = run->site->dev_ops.stream_create(run->site->dev, "relay-in", &l->in);

    if (!err)
        err = run->site->dev_ops.stream_create(run->site->dev, "relay-out", &l->out);
    for (uint32_t i = 0; i < RELAY_PIECES && !err; i++) {
        l->pieces[i].off = off + i * run->relay->room;
        err = run->site->dev_ops.event_create(run->site->dev, &l->pieces[i].arrived);
        if (!err)
            err = run->site->dev_ops.event_create(run->site->dev, &l->pieces[i].left);
    }
    return err;
}

int zero__relay_open(struct zero__runner *run)
{
    struct zero__relay *r = calloc(1, sizeof *r);
    int err;

    if (!r)
        return zero__fail(-ENOMEM, "no memory for the device's collectives");
    run->relay = r;
    err = memory_open(run, r);
    for (uint32_t i = 0; i < RELAY_LANES && !err; i++)
        err = lane_open(run, &r->lanes[i], i * RELAY_PIECES * r->room);
    run->lanes[ZERO__Q_GATHER].kind = run->lanes[ZERO__Q_REDUCE].kind = &zero__kind_relay;
    return err;
}

struct zero_mr *zero__relay_mr(struct zero__runner *run)
{
    return run->relay->mr;
}

/* 1: all copies have ended. */
static int lane_close(struct zero__runner *run, struct relay_lane *l)
{
    int ended = 1;

    if (l->in)
        ended &= !run->site->dev_ops.stream_sync(run->site->dev, l->in, run->site->timeout_ns);
    if (l->out)
        ended &= !run->site->dev_ops.stream_sync(run->site->dev, l->out, run->site->timeout_ns);
    for (uint32_t i = 0; i < RELAY_PIECES; i++) {
        if (l->pieces[i].arrived)
            run->site->dev_ops.event_destroy(run->site->dev, l->pieces[i].arrived);
        if (l->pieces[i].left)
            run->site->dev_ops.event_destroy(run->site->dev, l->pieces[i].left);
    }
    if (l->in)
        run->site->dev_ops.stream_destroy(run->site->dev, l->in);
    if (l->out)
        run->site->dev_ops.stream_destroy(run->site->dev, l->out);
    return ended;
}

static void device_close(struct zero__runner *run, struct zero__relay *r)
{
    int ended = 1;

    for (uint32_t i = 0; i < RELAY_LANES; i++)
        ended &= lane_close(run, &r->lanes[i]);
    if (!r->from_comm && r->mr)
        run->site->comm_ops.unreg(run->site->ctx, r->mr);
    if (!ended) /* the device knows the memory until it closes */
        return;
    if (r->pinned)
        run->site->dev_ops.unpin(run->site->dev, r->base, r->bytes);
    if (!r->from_comm && r->base)
        run->site->dev_ops.release(run->site->dev, r->base, r->bytes, ZERO_MEM_PINNED);
}

void zero__relay_close(struct zero__runner *run, int of_device)
{
    struct zero__relay *r = run->relay;

    if (!r)
        return;
    if (of_device) {
        device_close(run, r);
        return;
    }
    if (r->from_comm)
        run->site->comm_ops.free(run->site->ctx, r->mr);
    free(r);
    run->relay = NULL;
}

int zero__relay_is_open(const struct zero__runner *run)
{
    return run->relay != NULL;
}
