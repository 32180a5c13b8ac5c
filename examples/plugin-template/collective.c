/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This rank's part of its collectives, in rounds of at most STAGE bytes: fill, wait for all, read,
 * wait for all. Every function does one bounded piece of work and returns; nothing waits but
 * template_progress(), and that only while there is nothing to do.
 */
#define _GNU_SOURCE
#include "comm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Errors of a communicator ---------------------------------------------------------------- */

void comm_ring(struct zero_comm *comm)
{
    for (int32_t p = 0; p < comm->group.ranks; p++)
        if (p != comm->group.rank)
            seat_ring(comm->ctx, comm->group.world[p]);
}

/* Ends the communicator, here and for the peers. The first error stays. */
__attribute__((format(printf, 3, 4))) static void comm_fail(struct zero_comm *comm, int err,
                                                            const char *fmt, ...)
{
    struct lane *own = &comm->lanes[comm->group.rank];
    va_list ap;

    if (comm->err)
        return;
    va_start(ap, fmt);
    vsnprintf(comm->why, sizeof comm->why, fmt, ap);
    va_end(ap);
    comm->err = err;
    memcpy(own->why, comm->why, sizeof own->why);
    atomic_store(&own->failed, err); /* after the sentence: who sees one may read the other */
    comm_ring(comm);
    say(comm->ctx->host, err, "%s", comm->why);
}

/* Has this rank aborted, or a peer, or has one ended the communicator? */
static void comm_look(struct zero_comm *comm)
{
    const struct group *g = &comm->group;
    char why[WHY];

    if (atomic_load(&comm->ctx->aborted))
        comm_fail(comm, -ECANCELED, "the context was aborted");
    for (int32_t p = 0; p < g->ranks && !comm->err; p++) {
        int32_t failed = atomic_load(&comm->lanes[p].failed);
        if (p == g->rank)
            continue;
        if (atomic_load(&comm->ctx->seats[g->world[p]].aborted))
            comm_fail(comm, -ECANCELED, "rank %d aborted", g->world[p]);
        else if (failed) {
            memcpy(why, comm->lanes[p].why, sizeof why);
            why[sizeof why - 1] = 0; /* what a peer writes is not trusted */
            comm_fail(comm, failed < 0 ? failed : -EPROTO, "%s", why);
        }
    }
}

int template_error(struct zero_comm *comm)
{
    comm_look(comm);
    return comm->err ? say(comm->ctx->host, comm->err, "%s", comm->why) : 0;
}

/* ---- Agreement ------------------------------------------------------------------------------- */

static void describe(const struct print *f, char *text, size_t room)
{
    snprintf(text, room,
             "%s of %" PRIu64 " %s to %s, reduction %u, scale %.9g, root %d, group %u epoch %u "
             "sequence %" PRIu64 " flags 0x%x",
             zero_coll_name(f->kind), f->count, zero_dtype_name(f->src_dtype),
             zero_dtype_name(f->dst_dtype), f->redop, (double)zero_float_of_bits(f->scale_bits),
             f->root, f->group, f->epoch, f->sequence, f->flags);
}

/* Names both sides, the lower rank first: the same sentence whoever finds the difference. */
static void comm_differs(struct zero_comm *comm, int32_t p, const struct print *mine,
                         const struct print *theirs)
{
    int32_t x = comm->group.world[comm->group.rank], y = comm->group.world[p];
    char one[WHY * 2 / 5], two[WHY * 2 / 5];

    describe(x < y ? mine : theirs, one, sizeof one);
    describe(x < y ? theirs : mine, two, sizeof two);
    comm_fail(comm, -EPROTO, "ranks %d and %d posted different collectives: rank %d %s; rank %d %s",
              x < y ? x : y, x < y ? y : x, x < y ? x : y, one, x < y ? y : x, two);
}

/*
 * All have posted, and all posted the same: from here on every rank cuts the collective into the
 * same rounds. That is checked before any byte of it moves, so nothing can complete that differs.
 */
static bool agree(struct zero_comm *comm)
{
    uint64_t s = comm->executed;
    const struct print mine = comm->lanes[comm->group.rank].ring[s % SLOTS];

    for (int32_t p = 0; p < comm->group.ranks; p++)
        if (atomic_load(&comm->lanes[p].posted) <= s)
            return false;
    for (int32_t p = 0; p < comm->group.ranks; p++) {
        const struct print theirs = comm->lanes[p].ring[s % SLOTS];
        if (memcmp(&mine, &theirs, sizeof mine)) {
            comm_differs(comm, p, &mine, &theirs);
            return false;
        }
    }
    comm->agreed = true;
    return true;
}

/* ---- How a collective is cut ----------------------------------------------------------------- */

static bool reduces(const struct zero_coll *c)
{
    return c->kind == ZERO_REDUCE_SCATTER || c->kind == ZERO_ALL_REDUCE;
}

/* Elements of each rank's share in one round of a reduction. */
static uint64_t share_most(const struct zero_comm *comm, const struct zero_coll *c)
{
    uint64_t s = zero_dtype_bytes(c->src_dtype), d = zero_dtype_bytes(c->dst_dtype);

    return STAGE / ((s > d ? s : d) * (uint64_t)comm->group.ranks) / 16 * 16;
}

/* The share of rank p in `block` elements, cut evenly; what is left over falls to the first. */
static uint64_t share(const struct zero_comm *comm, uint64_t block, int32_t p, uint64_t *first)
{
    uint64_t n = (uint64_t)comm->group.ranks, each = (block + n - 1) / n;

    *first = (uint64_t)p * each < block ? (uint64_t)p * each : block;
    return block - *first < each ? block - *first : each;
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static uint64_t rounds_of(const struct zero_comm *comm, const struct zero_coll *c)
{
    uint64_t most, n = (uint64_t)comm->group.ranks;

    if (c->kind == ZERO_BARRIER) /* its types mean nothing, and may have no size */
        return 0;
    most = share_most(comm, c);
    if (c->kind == ZERO_REDUCE_SCATTER)
        return divide_up(c->count, most);
    if (c->kind == ZERO_ALL_REDUCE) /* sources, then sums */
        return divide_up(c->count, most * n) * (c->flags & ZERO_COLL_ACCUMULATE ? 1 : 2);
    return divide_up(c->count * zero_dtype_bytes(c->src_dtype), STAGE);
}

/*
 * Payload that the other ranks read from this one, as comm.h counts it. An all_reduce: its source
 * without its own share, and its share of the sums to everybody else.
 */
static uint64_t wire_of(const struct zero_comm *comm, const struct zero_coll *c)
{
    uint64_t others = (uint64_t)comm->group.ranks - 1, bytes, block, own, first;

    if (c->kind == ZERO_BARRIER)
        return 0;
    bytes = c->count * zero_dtype_bytes(c->src_dtype);
    if (c->kind == ZERO_BROADCAST)
        return comm->group.rank == c->root ? bytes * others : 0;
    if (c->kind != ZERO_ALL_REDUCE || (c->flags & ZERO_COLL_ACCUMULATE))
        return bytes * others;
    block = share_most(comm, c) * (uint64_t)comm->group.ranks;
    own = c->count / block * share_most(comm, c) +
          share(comm, c->count % block, comm->group.rank, &first);
    return (c->count - own) * zero_dtype_bytes(c->src_dtype) +
           own * zero_dtype_bytes(c->dst_dtype) * others;
}

/* ---- Adding -----------------------------------------------------------------------------------
 *
 * The numbers are a contract: ranks in the order 0 … N-1, in fp32, one multiplication, one rounding
 * (types.h), no fused multiply-add (hence -ffp-contract=off in the Makefile). Then a training run
 * ends in the same bits whichever transport it used.
 */

/* b beside a in a maximum: a NaN wins. */
static float larger(float a, float b)
{
    return a == a && (b != b || b > a) ? b : a;
}

static float element(const void *from, uint32_t dtype, uint64_t i)
{
    if (dtype == ZERO_F32)
        return ((const float *)from)[i];
    if (dtype == ZERO_BF16)
        return zero_float_from_bf16(((const uint16_t *)from)[i]);
    return zero_float_from_fp16(((const uint16_t *)from)[i]);
}

/* One rank's elements into the sums; the first rank's are taken, not added to 0, so that -0 stays.
 */
static void add_floats(const struct zero_coll *c, float *sums, const void *from, uint64_t n,
                       bool is_first)
{
    for (uint64_t i = 0; i < n; i++) {
        float x = element(from, c->src_dtype, i);
        sums[i] = is_first ? x : c->redop == ZERO_SUM ? sums[i] + x : larger(sums[i], x);
    }
}

static void add_ints(const struct zero_coll *c, int32_t *sums, const int32_t *from, uint64_t n,
                     bool is_first)
{
    for (uint64_t i = 0; i < n; i++)
        if (is_first)
            sums[i] = from[i];
        else if (c->redop == ZERO_SUM)
            sums[i] = (int32_t)((uint32_t)sums[i] + (uint32_t)from[i]); /* wraps around */
        else
            sums[i] = from[i] > sums[i] ? from[i] : sums[i];
}

static void store_floats(const struct zero_coll *c, void *to, const float *sums, uint64_t n)
{
    bool accumulate = c->flags & ZERO_COLL_ACCUMULATE;
    uint16_t *h = to;
    float *f = to;

    for (uint64_t i = 0; i < n; i++) {
        float x = sums[i] * c->scale;
        if (accumulate)
            x = f[i] + x;
        if (x != x) /* which NaN an addition keeps depends on the machine */
            x = zero_float_of_bits(0x7fc00000u);
        if (c->dst_dtype == ZERO_F32)
            f[i] = x;
        else
            h[i] = c->dst_dtype == ZERO_BF16 ? zero_bf16_from_float(x) : zero_fp16_from_float(x);
    }
}

/* Reduces n elements at byte `off` of all stages, and puts the result to `to`. */
static void add_stages(struct zero_comm *comm, const struct zero_coll *c, uint64_t off, uint64_t n,
                       void *to)
{
    bool ints = c->src_dtype == ZERO_I32;

    for (int32_t p = 0; p < comm->group.ranks; p++) {
        const void *from = comm->lanes[p].stage + off;
        if (ints)
            add_ints(c, comm->ctx->sums.i, from, n, p == 0);
        else
            add_floats(c, comm->ctx->sums.f, from, n, p == 0);
    }
    if (ints)
        memcpy(to, comm->ctx->sums.i, n * sizeof comm->ctx->sums.i[0]);
    else
        store_floats(c, to, comm->ctx->sums.f, n);
}

/* ---- One round of each kind -------------------------------------------------------------------
 *
 * `fill` puts what the others need into this rank's stage, else what they put there is used. With
 * INPLACE an element is staged in an earlier step than it is overwritten in, so nothing is lost.
 */

static void run_movement(struct zero_comm *comm, const struct op *op, bool fill)
{
    const struct zero_coll *c = &op->c;
    uint64_t bytes = c->count * zero_dtype_bytes(c->src_dtype), at = comm->round * STAGE;
    uint64_t n = bytes - at < STAGE ? bytes - at : STAGE;
    int32_t me = comm->group.rank;

    if (fill && op->src)
        memcpy(comm->lanes[me].stage, op->src + at, n);
    for (int32_t p = 0; p < comm->group.ranks && !fill && op->dst; p++) {
        if (c->kind == ZERO_BROADCAST && p == c->root)
            memcpy(op->dst + at, comm->lanes[p].stage, n);
        if (c->kind == ZERO_ALL_GATHER && (p != me || !(c->flags & ZERO_COLL_INPLACE)))
            memcpy(op->dst + (uint64_t)p * bytes + at, comm->lanes[p].stage, n);
    }
}

/* A stage holds a piece of every rank's share, side by side. */
static void run_reduce_scatter(struct zero_comm *comm, const struct op *op, bool fill)
{
    const struct zero_coll *c = &op->c;
    uint64_t s = zero_dtype_bytes(c->src_dtype), most = share_most(comm, c);
    uint64_t at = comm->round * most, n = c->count - at < most ? c->count - at : most;
    int32_t me = comm->group.rank;

    for (int32_t p = 0; p < comm->group.ranks && fill; p++)
        memcpy(comm->lanes[me].stage + (uint64_t)p * most * s,
               op->src + ((uint64_t)p * c->count + at) * s, n * s);
    if (!fill)
        add_stages(comm, c, (uint64_t)me * most * s, n,
                   op->dst + at * zero_dtype_bytes(c->dst_dtype));
}

/* Even rounds: sources of a block, of which each rank adds its share. Odd rounds: the sums. */
static void run_all_reduce(struct zero_comm *comm, const struct op *op, bool fill)
{
    const struct zero_coll *c = &op->c;
    uint64_t s = zero_dtype_bytes(c->src_dtype), d = zero_dtype_bytes(c->dst_dtype);
    bool whole = c->flags & ZERO_COLL_ACCUMULATE; /* unrounded sums cannot be handed out */
    uint64_t most = share_most(comm, c) * (uint64_t)comm->group.ranks, first, n;
    uint64_t at = (whole ? comm->round : comm->round / 2) * most;
    uint64_t block = c->count - at < most ? c->count - at : most;
    int32_t me = comm->group.rank;

    n = share(comm, block, me, &first);
    if (whole || comm->round % 2 == 0) {
        if (fill)
            memcpy(comm->lanes[me].stage, op->src + at * s, block * s);
        else if (whole)
            add_stages(comm, c, 0, block, op->dst + at * d);
        else
            add_stages(comm, c, first * s, n, op->dst + (at + first) * d);
    } else if (fill) {
        memcpy(comm->lanes[me].stage, op->dst + (at + first) * d, n * d);
    } else {
        for (int32_t p = 0; p < comm->group.ranks; p++) {
            n = share(comm, block, p, &first);
            if (p != me)
                memcpy(op->dst + (at + first) * d, comm->lanes[p].stage, n * d);
        }
    }
}

static void run_round(struct zero_comm *comm, const struct op *op, bool fill)
{
    if (op->c.kind == ZERO_REDUCE_SCATTER)
        run_reduce_scatter(comm, op, fill);
    else if (reduces(&op->c))
        run_all_reduce(comm, op, fill);
    else
        run_movement(comm, op, fill);
}

/* ---- The state machine ----------------------------------------------------------------------- */

static bool all_reached(const struct zero_comm *comm, bool filled, uint64_t rounds)
{
    for (int32_t p = 0; p < comm->group.ranks; p++) {
        const struct lane *lane = &comm->lanes[p];
        if ((filled ? atomic_load(&lane->filled) : atomic_load(&lane->drained)) < rounds)
            return false;
    }
    return true;
}

/* One step of the oldest collective that is not through; false when it has to wait for others. */
static bool step(struct zero_comm *comm)
{
    struct lane *own = &comm->lanes[comm->group.rank];
    const struct op *op = &comm->ops[comm->executed % SLOTS];

    if (comm->executed == comm->posted || comm->err)
        return false;
    if (!comm->agreed) {
        comm->round = 0;
        comm->rounds = rounds_of(comm, &op->c);
        return agree(comm);
    }
    if (comm->round == comm->rounds) {
        comm->agreed = false;
        atomic_store(&own->done, ++comm->executed);
    } else if (!comm->is_filled) {
        if (!all_reached(comm, false, comm->total_rounds))
            return false;
        run_round(comm, op, true);
        comm->is_filled = true;
        atomic_store(&own->filled, comm->total_rounds + 1);
    } else {
        if (!all_reached(comm, true, comm->total_rounds + 1))
            return false;
        run_round(comm, op, false);
        comm->is_filled = false;
        comm->round++;
        atomic_store(&own->drained, ++comm->total_rounds);
    }
    comm_ring(comm);
    return true;
}

static bool is_complete(const struct zero_comm *comm)
{
    for (int32_t p = 0; p < comm->group.ranks; p++)
        if (atomic_load(&comm->lanes[p].done) <= comm->completed)
            return false;
    return true;
}

/*
 * Completions in the order of the posts. After an error, of which comm_fail() has said why,
 * everything that is left ends with it.
 */
static uint32_t collect(struct zero_comm *comm, struct zero_cqe *cqes, uint32_t max)
{
    uint32_t n = 0;

    while (n < max && comm->completed != comm->posted) {
        const struct zero_coll *c = &comm->ops[comm->completed % SLOTS].c;
        bool good = is_complete(comm);

        if (!good && !comm->err)
            break;
        cqes[n++] = (struct zero_cqe){c->user, good ? (int64_t)c->dst.len : comm->err};
        if (good)
            comm->wire += wire_of(comm, c);
        comm->completed++;
    }
    return n;
}

int template_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                      int64_t timeout_ns)
{
    struct seat *seat = &ctx->seats[ctx->all.rank];
    int64_t until = deadline_ns(timeout_ns);
    bool moved;

    do {
        uint32_t n = 0, seen = atomic_load(&seat->events); /* before looking: see seat_ring() */
        bool aborted = atomic_load(&ctx->aborted); /* before looking, which ends what is left */
        moved = false;
        for (struct zero_comm *comm = ctx->comms; comm; comm = comm->next) {
            if (comm->completed == comm->posted)
                continue;
            moved |= step(comm);
            comm_look(comm);
            n += collect(comm, cqes + n, max - n);
        }
        if (n)
            return (int)n;
        if (aborted)
            return say(ctx->host, -ECANCELED, "the context was aborted");
        if (timeout_ns <= 0 || atomic_exchange(&ctx->woken, 0))
            return 0;
        if (!moved)
            seat_sleep(seat, seen, until);
    } while (clock_ns() < until || moved);
    return 0;
}
