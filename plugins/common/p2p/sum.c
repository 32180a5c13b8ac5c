/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of a communicator, chunk by chunk. The chunks of all reductions, in order, take the slots in
 * turn; a chunk is granted to the peers when its receives have begun, and added up, in rank order,
 * when all have ended.
 */
#include <errno.h>

#include "../reduce.h"
#include "internal.h"

void zero__p2p_sum_range(const struct zero_coll *c, int32_t p, int32_t ranks, uint64_t *first,
                         uint64_t *count)
{
    *first = 0;
    *count = c->count;
    if (c->kind == ZERO_REDUCE_SCATTER)
        *first = (uint64_t)p * c->count;
    else if (!(c->flags & ZERO_COLL_ACCUMULATE)) /* else nobody could hand out unrounded sums */
        zero__coll_part(c->count, p, ranks, first, count);
}

static uint64_t elements_of(const struct p2p_run *run, uint64_t chunk)
{
    uint64_t left = run->count - chunk * run->chunk;
    return left < run->chunk ? left : run->chunk;
}

static char *buffer_of(const struct zero_comm *comm, const struct p2p_slot *slot, int32_t p)
{
    uint64_t place = slot->place * (uint64_t)comm->ranks + (uint64_t)p;
    return comm->chunks + place * comm->chunk_bytes;
}

/* May the receive from rank p begin? A late one comes after the own chunk of that number. */
static bool may_ask(const struct zero_comm *comm, const struct p2p_slot *slot, int32_t p,
                    uint64_t bytes)
{
    const struct p2p_part *part = &slot->run->parts[p];

    return !zero__p2p_is_late(comm, bytes) || part->refused || part->chunks_sent > slot->chunk ||
           part->chunks_sent == part->chunks;
}

/* Begins receives of the slot `number`; false when one of them had no room. */
static bool slot_ask(struct zero_comm *comm, uint64_t number)
{
    struct p2p_slot *slot = &comm->slots[number % P2P_DEPTH];
    uint64_t bytes =
        elements_of(slot->run, slot->chunk) * zero_dtype_bytes(slot->run->coll->c.src_dtype);

    for (int32_t p = 0; p < comm->ranks && slot->asked < comm->ranks - 1; p++) {
        if (p == comm->rank || slot->ops[p].t || !may_ask(comm, slot, p, bytes))
            continue;
        if (zero__p2p_recv(comm, p,
                           zero__p2p_data_tag(comm, p, slot->run->index, slot->chunk, true),
                           buffer_of(comm, slot, p), bytes, comm->handle, &slot->ops[p])) {
            slot->ops[p].t = NULL;
            return false;
        }
        slot->asked++;
    }
    return true;
}

/* The first whose buffers no slot has: the fewer take turns, the more of them the caches keep. */
static uint32_t free_place(const struct zero_comm *comm)
{
    uint32_t taken = 0;

    for (uint32_t i = 0; i < P2P_DEPTH; i++)
        if (comm->slots[i].run)
            taken |= 1u << comm->slots[i].place;
    return (uint32_t)__builtin_ctz(~taken);
}

/* Takes the next chunk; false when there is none. */
static bool slot_begin(struct zero_comm *comm, struct p2p_slot *slot)
{
    slot->place = free_place(comm); /* this one has none now */
    slot->run = zero__p2p_next(comm, &slot->chunk);
    if (!slot->run)
        return false;
    slot->asked = 0;
    for (int32_t p = 0; p < comm->ranks; p++)
        slot->ops[p].t = NULL;
    return true;
}

void zero__p2p_grant(struct zero_comm *comm)
{
    for (uint64_t i = comm->summed; i < comm->given && !comm->err; i++)
        if (!slot_ask(comm, i))
            return;
    while (comm->given - comm->summed < P2P_DEPTH && !comm->err) {
        struct p2p_slot *slot = &comm->slots[comm->given % P2P_DEPTH];
        if (!slot->run && !slot_begin(comm, slot))
            return;
        if (!slot_ask(comm, comm->given))
            return;
        slot->run->granted = slot->chunk + 1;
        comm->given++;
        comm->stirred = true;
    }
}

static bool slot_ready(struct zero_comm *comm, const struct p2p_slot *slot, uint64_t bytes)
{
    if (slot->asked < comm->ranks - 1)
        return false;
    for (int32_t p = 0; p < comm->ranks; p++)
        if (p != comm->rank && slot->ops[p].busy)
            return false;
    for (int32_t p = 0; p < comm->ranks; p++)
        if (p != comm->rank && !zero__p2p_arrived(comm, p, &slot->ops[p], bytes, "a chunk"))
            return false;
    return true;
}

static void slot_sum(struct zero_comm *comm, const struct p2p_slot *slot, uint64_t n)
{
    struct p2p_run *run = slot->run;
    const struct zero_coll *c = &run->coll->c;
    uint64_t at = slot->chunk * run->chunk, size = zero_dtype_bytes(c->src_dtype);
    bool accumulate = c->flags & ZERO_COLL_ACCUMULATE;
    /* A reduce_scatter's destination starts at its first element, an all_reduce's at 0. */
    uint64_t to = at + (c->kind == ZERO_REDUCE_SCATTER ? 0 : run->first);

    for (int32_t p = 0; p < comm->ranks; p++)
        comm->sources[p] = p == comm->rank ? run->coll->src + (run->first + at) * size
                                           : buffer_of(comm, slot, p);
    struct zero__reduce r = {
        .dst = run->coll->dst + to * zero_dtype_bytes(c->dst_dtype),
        .src = comm->sources,
        .n = (uint32_t)comm->ranks,
        .src_dtype = c->src_dtype,
        .dst_dtype = c->dst_dtype,
        .redop = c->redop,
        .scale = c->scale,
        .accumulate = accumulate,
        .stream = (run->streams & ZERO__STREAM_SUMS) && !accumulate,
        .count = n,
    };
    zero__reduce(comm->ctx->isa, &r);
}

void zero__p2p_sum(struct zero_comm *comm, uint64_t *budget)
{
    while (comm->summed < comm->given && *budget && !comm->err) {
        struct p2p_slot *slot = &comm->slots[comm->summed % P2P_DEPTH];
        uint64_t n = elements_of(slot->run, slot->chunk);
        uint64_t bytes = n * zero_dtype_bytes(slot->run->coll->c.src_dtype), all;

        if (!slot_ready(comm, slot, bytes))
            return;
        slot_sum(comm, slot, n);
        slot->run->summed++;
        slot->run = NULL;
        comm->summed++;
        comm->stirred = true;
        all = bytes * (uint64_t)comm->ranks;
        *budget -= all < *budget ? all : *budget;
    }
}
