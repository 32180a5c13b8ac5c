/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives in the device's streams: each comes after what is before it in its stream and before
 * what follows, also where two streams meet by events, and gives no completion.
 */
#include <string.h>

#include "rank.h"
#include "tools/common/values.h"

#define SLAB (UINT64_C(1) << 20)
#define COUNT 3000u
#define ROUNDS 20u

struct streams {
    struct check_comm c;
    const struct zero_device_ops *ops;
    struct zero_device *dev;
    void *first, *second, *event;
    char *from, *to; /* memory beside the region, ROUNDS pieces each */
};

static bool begin(struct check_rank *r, struct streams *s)
{
    uint64_t from = (uint64_t)ROUNDS * COUNT * 4, to = from * (uint64_t)r->ranks;
    void *a = NULL, *b = NULL;

    s->ops = r->device_ops;
    s->dev = r->device;
    if (!want(r,
              !s->ops->alloc(s->dev, from, ZERO_MEM_PINNED, &a) &&
                  !s->ops->alloc(s->dev, to, ZERO_MEM_PINNED, &b),
              "memory: %s", check_error()))
        return false;
    s->from = a;
    s->to = b;
    return want(r,
                !s->ops->stream_create(s->dev, "first", &s->first) &&
                    !s->ops->stream_create(s->dev, "second", &s->second) &&
                    !s->ops->event_create(s->dev, &s->event),
                "streams: %s", check_error());
}

static void end(struct check_rank *r, struct streams *s)
{
    uint64_t from = (uint64_t)ROUNDS * COUNT * 4;

    if (s->event)
        s->ops->event_destroy(s->dev, s->event);
    if (s->first)
        s->ops->stream_destroy(s->dev, s->first);
    if (s->second)
        s->ops->stream_destroy(s->dev, s->second);
    if (s->from)
        s->ops->release(s->dev, s->from, from, ZERO_MEM_PINNED);
    if (s->to)
        s->ops->release(s->dev, s->to, from * (uint64_t)r->ranks, ZERO_MEM_PINNED);
}

/* What is in a stream gives no completion. */
static void idle(struct check_comm *c)
{
    struct zero_cqe cqe;
    int n = c->ops->progress(c->ctx, &cqe, 1, 1000000);

    want(c->r, n == 0, "progress gives %s where all is in streams, want 0: %s",
         check_value(c->r, n), n < 0 ? check_error() : "a completion");
}

/* The same batch again until there is room. */
static int post(struct streams *s, const struct zero_coll *q, void *stream)
{
    int64_t until = check_now_ms() + CHECK_WAIT_NS / 1000000;
    struct check_comm *c = &s->c;
    int err;

    while ((err = c->ops->post(c->world, q, 1, stream)) == -EAGAIN && check_now_ms() < until)
        idle(c);
    return err;
}

/* The source is written by the stream just before, and overwritten in the next round. */
static bool round_trip(struct streams *s, unsigned k)
{
    uint64_t bytes = COUNT * 4u, all = bytes * (uint64_t)s->c.r->ranks;
    struct check_comm *c = &s->c;
    struct zero_coll q = check_gather(c, COUNT);
    void *in = k % 3 ? s->first : s->second, *out = k % 2 ? s->first : s->second;
    int err = s->ops->copy(s->dev, c->memory, s->from + k * bytes, bytes, in);

    if (!err)
        err = post(s, &q, in);
    if (!err)
        err = s->ops->event_record(s->dev, s->event, in);
    if (!err)
        err = s->ops->stream_wait(s->dev, out, s->event);
    if (!err)
        err = s->ops->copy(s->dev, s->to + k * all, c->memory + c->bytes / 2, all, out);
    if (!err)
        err = s->ops->event_record(s->dev, s->event, out); /* before the next one overwrites it */
    if (!err)
        err = s->ops->stream_wait(s->dev, s->first, s->event);
    if (!err)
        err = s->ops->stream_wait(s->dev, s->second, s->event);
    return want(c->r, !err, "round %u: %s", k, check_error());
}

/* Streams go on by themselves, or while progress() is called. */
static bool drain(struct streams *s, void *stream)
{
    int64_t until = check_now_ms() + CHECK_WAIT_NS / 1000000;
    struct check_comm *c = &s->c;
    int err;

    if (!want(c->r, !s->ops->event_record(s->dev, s->event, stream), "event: %s", check_error()))
        return false;
    while ((err = s->ops->event_query(s->dev, s->event)) == -EINPROGRESS && check_now_ms() < until)
        idle(c);
    return want(c->r, !err, "the stream does not end: %s", check_value(c->r, err));
}

static void compare(struct streams *s)
{
    struct check_rank *r = s->c.r;

    for (uint64_t k = 0; k < ROUNDS; k++)
        for (uint64_t p = 0; p < (uint64_t)r->ranks; p++)
            for (uint64_t i = 0; i < COUNT; i++) {
                uint64_t got =
                    value_load(ZERO_I32, s->to, (k * (uint64_t)r->ranks + p) * COUNT + i);
                uint32_t due = (uint32_t)mix(r->seed + k, p, i);
                if (!want(r, got == due,
                          "round %" PRIu64 ": element %" PRIu64 " of rank %" PRIu64 " is 0x%" PRIx64
                          ", want 0x%" PRIx32,
                          k, i, p, got, due))
                    return;
            }
}

/* Whatever the plugin needs on the way is not shared by streams that do not wait for each other. */
static void sum_in_two(struct check_rank *r, struct streams *s)
{
    uint64_t half = s->c.bytes / 2, n = half / 2 / ROUNDS / 4 / 64 * 64;
    struct zero_coll q = {.kind = ZERO_ALL_REDUCE,
                          .src_dtype = ZERO_BF16,
                          .dst_dtype = ZERO_F32,
                          .scale = 1,
                          .count = n};
    char *to = s->c.memory + half;

    if (!check_can(r, &q))
        return;
    for (uint64_t k = 0; k < ROUNDS; k++)
        for (uint64_t i = 0; i < n; i++) /* sums of these are exact */
            value_store(ZERO_BF16, s->c.memory, k * n + i,
                        zero_bf16_from_float((float)((k + i + (uint64_t)r->rank) % 16)));
    for (uint64_t k = 0; k < ROUNDS; k++) {
        q.src = check_slice(&s->c, k * n * 2, n * 2);
        q.dst = check_slice(&s->c, half + k * n * 4, n * 4);
        if (!want(r, !post(s, &q, k % 2 ? s->first : s->second), "sum: %s", check_error()))
            return;
    }
    if (!drain(s, s->first) || !drain(s, s->second))
        return;
    for (uint64_t k = 0; k < ROUNDS; k++)
        for (uint64_t i = 0; i < n; i++) {
            float sum = 0, got;
            for (uint64_t p = 0; p < (uint64_t)r->ranks; p++)
                sum += (float)((k + i + p) % 16);
            got = zero_float_of_bits((uint32_t)value_load(ZERO_F32, to, k * n + i));
            if (!want(r, got == sum, "sum %" PRIu64 ": element %" PRIu64 " is %g, want %g", k, i,
                      (double)got, (double)sum))
                return;
        }
}

static void run(struct check_rank *r, struct streams *s)
{
    uint64_t before = 0, after = 0, due = ROUNDS * COUNT * UINT64_C(4) * ((uint64_t)r->ranks - 1);
    bool good = true;

    for (uint64_t k = 0; k < ROUNDS; k++)
        for (uint64_t i = 0; i < COUNT; i++)
            value_store(ZERO_I32, s->from, k * COUNT + i,
                        (uint32_t)mix(r->seed + k, (uint64_t)r->rank, i));
    s->c.ops->wire_bytes(s->c.world, &before);
    for (unsigned k = 0; k < ROUNDS && good; k++)
        good = round_trip(s, k);
    s->c.ops->wire_bytes(s->c.world, &after);
    want(r, after - before == due, "wire bytes %" PRIu64 ", want %" PRIu64, after - before, due);
    if (drain(s, s->first) && drain(s, s->second))
        compare(s);
    sum_in_two(r, s);
    want(r, s->c.ops->error(s->c.world) == 0, "error: %s", check_error());
    want(r, check_meet(&s->c, s->c.world) == 0, "meeting without a stream: %s", r->ended);
}

void check_case_streams(struct check_rank *r)
{
    struct streams s = {.ops = r->device_ops};

    if (!want(r, r->device_ops != NULL, "there is no device"))
        return;
    if (check_open(r, &s.c, SLAB) && begin(r, &s)) {
        run(r, &s);
        want(r, !s.c.ops->comm_close(s.c.world), "comm_close: %s", check_error());
    }
    end(r, &s);
    check_close(&s.c);
}
