/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of a transport that cannot take the device's memory: they go through memory of the
 * host, which the transport has registered and the device has pinned. Each is cut into pieces of
 * the same elements on all ranks; a piece is copied to the host, posted, and what came is copied to
 * its place. Pieces of an op overlap; ops of a lane follow each other. How an op is cut depends on
 * its shape and the number of ranks alone, so that all ranks post the same; and as every element is
 * summed by itself, no bit depends on it.
 *
 * Everything here runs in the progress thread under the lock.
 */
#include <errno.h>

#include "base/checked.h"
#include "base/status.h"
#include "machine/clock.h"
#include "run/relay_types.h"

static struct relay_lane *lane_of(struct zero__runner *run, uint32_t queue)
{
    return &run->relay->lanes[queue == ZERO__Q_GATHER ? 0 : 1];
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* Copies of the source, one behind the other, that a rank hands in, and of the result. */
static uint64_t parts_in(const struct zero__runner *run, const struct zero_coll *c)
{
    return c->kind == ZERO_REDUCE_SCATTER ? (uint64_t)run->site->ranks : 1;
}

static uint64_t parts_out(const struct zero__runner *run, const struct zero_coll *c)
{
    return c->kind == ZERO_ALL_GATHER ? (uint64_t)run->site->ranks : 1;
}

/* Elements of a piece: alike on all ranks, a root and others. */
static uint64_t piece_elements(const struct zero__runner *run, const struct zero_coll *c)
{
    uint64_t src = zero_dtype_bytes(c->src_dtype), dst = zero_dtype_bytes(c->dst_dtype);
    uint64_t each = c->kind == ZERO_ALL_GATHER       ? parts_out(run, c) * dst
                    : c->kind == ZERO_REDUCE_SCATTER ? parts_in(run, c) * src + dst
                                                     : src;
    uint64_t n = (run->relay->room - RELAY_LEAST * RELAY_WIDEST) / (each ? each : 1) / RELAY_LEAST *
                 RELAY_LEAST;

    return n > RELAY_LEAST ? n : RELAY_LEAST;
}

static uint32_t pieces_of(const struct zero__runner *run, const struct zero_coll *c)
{
    uint64_t n = piece_elements(run, c);
    uint64_t pieces = c->kind == ZERO_BARRIER ? 1 : (c->count + n - 1) / n;

    return pieces ? (uint32_t)pieces : 1; /* a collective of nothing is posted, too */
}

/* In the room of a piece: its source, its result. */
static uint64_t src_off(const struct zero__runner *run, const struct zero_coll *c,
                        const struct piece *p)
{
    return c->kind == ZERO_ALL_GATHER
               ? p->off + (uint64_t)run->site->rank * p->n * zero_dtype_bytes(c->src_dtype)
               : p->off;
}

static uint64_t dst_off(const struct zero__runner *run, const struct zero_coll *c,
                        const struct piece *p)
{
    uint64_t src = parts_in(run, c) * p->n * zero_dtype_bytes(c->src_dtype);

    return c->kind == ZERO_REDUCE_SCATTER
               ? p->off + (src + RELAY_WIDEST - 1) / RELAY_WIDEST * RELAY_WIDEST
               : p->off;
}

/* On the device: a slice of its memory has its slab's address as registration. */
static uint8_t *device_at(const struct zero_slice *x, uint64_t part, const struct zero_coll *c,
                          const struct piece *p, uint32_t dtype)
{
    uint8_t *first = (uint8_t *)(void *)x->mr + x->off;

    return first + (part * c->count + p->first) * zero_dtype_bytes(dtype);
}

/* ---- The way of a piece ---------------------------------------------------------------------- */

static int arrive(struct zero__runner *run, struct relay_lane *l, struct piece *p)
{
    const struct zero_coll *c = &l->colls[p->coll];
    uint64_t src = p->n * zero_dtype_bytes(c->src_dtype),
             dst = p->n * zero_dtype_bytes(c->dst_dtype);
    int err = 0;

    for (uint64_t i = 0; i < parts_in(run, c) && c->src.len && src && !err; i++)
        err =
            run->site->dev_ops.copy(run->site->dev, run->relay->base + src_off(run, c, p) + i * src,
                                    device_at(&c->src, i, c, p, c->src_dtype), src, l->in);
    if (!err && c->flags & ZERO_COLL_ACCUMULATE && dst)
        err = run->site->dev_ops.copy(run->site->dev, run->relay->base + dst_off(run, c, p),
                                      device_at(&c->dst, 0, c, p, c->dst_dtype), dst, l->in);
    if (!err)
        err = run->site->dev_ops.event_record(run->site->dev, p->arrived, l->in);
    p->state = ARRIVES;
    return err;
}

/* Begins the next piece, if there is one and room for it. */
static int begin(struct zero__runner *run, struct relay_lane *l, int *moved)
{
    struct piece *p = &l->pieces[l->begun % RELAY_PIECES];

    if (l->coll == l->n_colls || l->begun - l->ended == RELAY_PIECES)
        return 0;
    const struct zero_coll *c = &l->colls[l->coll];
    p->coll = l->coll;
    p->first = l->first;
    p->n = zero__least(piece_elements(run, c), c->count - l->first);
    l->first += p->n;
    if (l->first == c->count || c->kind == ZERO_BARRIER) {
        l->coll++;
        l->first = 0;
    }
    l->begun++;
    *moved = 1;
    return arrive(run, l, p);
}

static int post(struct zero__runner *run, uint32_t queue, struct piece *p)
{
    struct relay_lane *l = lane_of(run, queue);
    struct zero__lane *lane = &run->lanes[queue];
    struct zero_coll c = l->colls[p->coll];
    uint64_t src = parts_in(run, &c) * p->n * zero_dtype_bytes(c.src_dtype);
    uint64_t dst = parts_out(run, &c) * p->n * zero_dtype_bytes(c.dst_dtype);

    c.src = (struct zero_slice){run->relay->mr, src_off(run, &c, p), c.src.len ? src : 0};
    c.dst = (struct zero_slice){run->relay->mr, dst_off(run, &c, p), c.dst.len ? dst : 0};
    c.count = p->n;
    c.flags &= ~(uint32_t)ZERO_COLL_INPLACE;
    if (c.kind == ZERO_ALL_GATHER)
        c.flags |= ZERO_COLL_INPLACE;
    c.group |= queue;
    c.sequence = lane->sequence + 1;
    c.user = zero__user(queue, l->ordinal, (uint32_t)(p - l->pieces));
    int err = run->site->comm_ops.post(lane->comm, &c, 1, NULL);
    if (err)
        return err;
    zero__posted(run, queue, &c);
    lane->sequence++;
    p->state = POSTED;
    return 0;
}

static int leave(struct zero__runner *run, struct relay_lane *l, struct piece *p)
{
    const struct zero_coll *c = &l->colls[p->coll];
    uint64_t bytes = p->n * zero_dtype_bytes(c->dst_dtype);
    int err = 0;

    for (uint64_t i = 0; i < parts_out(run, c) && c->dst.len && bytes && !err; i++) {
        if (c->kind == ZERO_ALL_GATHER && c->flags & ZERO_COLL_INPLACE &&
            i == (uint64_t)run->site->rank)
            continue; /* it lies there */
        err = run->site->dev_ops.copy(run->site->dev, device_at(&c->dst, i, c, p, c->dst_dtype),
                                      run->relay->base + dst_off(run, c, p) + i * bytes, bytes,
                                      l->out);
    }
    if (!err)
        err = run->site->dev_ops.event_record(run->site->dev, p->left, l->out);
    p->state = LEAVES;
    return err;
}

/* One event of a piece: -EINPROGRESS is no news. */
static int reached(struct zero__runner *run, struct piece *p, void *event, enum piece_state next,
                   int *moved)
{
    int err = run->site->dev_ops.event_query(run->site->dev, event);

    if (err == -EINPROGRESS)
        return 0;
    if (!err) {
        p->state = next;
        *moved = 1;
    }
    return err;
}

/* Pieces are posted in order. */
static int pieces_post(struct zero__runner *run, uint32_t queue, int *moved)
{
    struct relay_lane *l = lane_of(run, queue);

    while (l->posted < l->begun && l->pieces[l->posted % RELAY_PIECES].state == AT_HOST) {
        int err = post(run, queue, &l->pieces[l->posted % RELAY_PIECES]);
        if (err)
            return err == -EAGAIN ? 0 : zero__collective_failed(run, l->s, err);
        l->posted++;
        *moved = 1;
    }
    return 0;
}

static void pieces_end(struct zero__runner *run, uint32_t queue)
{
    struct relay_lane *l = lane_of(run, queue);

    while (l->ended < l->begun && l->pieces[l->ended % RELAY_PIECES].state == FREE) {
        l->ended++;
        l->s->pending--;
        l->s->deadline_ns = zero__deadline_ns(run->site->timeout_ns);
    }
    if (!l->s->pending)
        l->s = NULL;
}

static int lane_turn(struct zero__runner *run, uint32_t queue, int *moved)
{
    struct relay_lane *l = lane_of(run, queue);
    int err = 0;

    for (uint32_t i = 0; i < RELAY_PIECES && !err; i++)
        err = begin(run, l, moved);
    for (uint64_t k = l->ended; k < l->begun && !err; k++) {
        struct piece *p = &l->pieces[k % RELAY_PIECES];
        if (p->state == CAME) {
            err = leave(run, l, p);
            *moved = 1;
        }
        if (!err && p->state == ARRIVES)
            err = reached(run, p, p->arrived, AT_HOST, moved);
        if (!err && p->state == LEAVES)
            err = reached(run, p, p->left, FREE, moved);
    }
    if (!err)
        err = pieces_post(run, queue, moved);
    if (!err)
        pieces_end(run, queue);
    return err;
}

/* ---- For the lanes --------------------------------------------------------------------------- */

static int relay_start(struct zero__runner *run, uint32_t queue, struct zero__slot *s)
{
    struct relay_lane *l = lane_of(run, queue);

    if (l->s)
        return -EAGAIN;
    int err = zero__op_begin(run, queue, s);
    if (err)
        return err;
    l->n_colls = zero__collectives(run, s, l->colls);
    l->s = s;
    l->ordinal = run->lanes[queue].started + 1;
    l->coll = 0;
    l->first = l->source_bytes = 0;
    s->pending = 0;
    s->n_colls = l->n_colls;
    s->sequence = run->lanes[queue].sequence + 1;
    s->deadline_ns = zero__deadline_ns(run->site->timeout_ns);
    for (uint32_t i = 0; i < l->n_colls; i++) {
        s->pending += pieces_of(run, &l->colls[i]);
        l->source_bytes += l->colls[i].src.len;
    }
    return 0;
}

static int relay_poll(struct zero__runner *run, uint32_t queue)
{
    int moved = 0;
    int err = run->relay && lane_of(run, queue)->s ? lane_turn(run, queue, &moved) : 0;

    if (err)
        return err;
    if (moved)
        zero__lane_settle(run, queue);
    return moved;
}

/* The transport has completed a piece. */
static int relay_complete(struct zero__runner *run, uint32_t queue, const struct zero_cqe *c)
{
    struct relay_lane *l = lane_of(run, queue);
    const uint32_t piece = zero__user_piece(c->user);
    struct piece *p = piece < RELAY_PIECES ? &l->pieces[piece] : NULL;

    if (c->res < 0 && l->s)
        return zero__collective_failed(run, l->s, (int)c->res);
    if (!l->s || zero__user_ordinal(c->user) != l->ordinal)
        return zero__progress_kind.stray(run, c);
    if (!p || p->state != POSTED)
        return zero__fail(-EPROTO,
                          "%s reported a completion twice, tag %llu: try it with zero "
                          "check comm %s",
                          run->site->comm_name, (unsigned long long)c->user, run->site->comm_name);
    p->state = CAME;
    const struct zero_coll *x = &l->colls[p->coll];
    l->source_bytes -= x->src.len ? parts_in(run, x) * p->n * zero_dtype_bytes(x->src_dtype) : 0;
    return 0;
}

static uint64_t relay_unsent(const struct zero__runner *run, const struct zero__slot *s)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < RELAY_LANES; i++)
        bytes += run->relay->lanes[i].s == s ? run->relay->lanes[i].source_bytes : 0;
    return bytes;
}

const struct zero__lane_kind zero__kind_relay = {.server = ZERO__PROGRESS,
                                                 .collective = 1,
                                                 .in_pieces = 1,
                                                 .start = relay_start,
                                                 .poll = relay_poll,
                                                 .complete = relay_complete,
                                                 .unsent = relay_unsent};
