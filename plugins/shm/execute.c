/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This rank's part of a collective, in pieces. Peers' memory is only read. Copies start with the
 * own rank or the next one, so that ranks do not all read the same one at the same time.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "../common/copy.h"
#include "../common/reduce.h"
#include "shm.h"

static const struct shm_op *current(const struct zero_comm *comm)
{
    return &comm->ops[comm->begun % SHM_SLOTS];
}

/* Bytes that peers read from rank p for this collective: of its source, and of its destination. */
static void peer_bytes(const struct zero_comm *comm, const struct zero_coll *c, int32_t p,
                       uint64_t *src, uint64_t *dst)
{
    uint64_t size = zero_dtype_bytes(c->src_dtype);

    *src = *dst = 0;
    if (c->kind == ZERO_ALL_GATHER || c->kind == ZERO_ALL_REDUCE)
        *src = c->count * size;
    else if (c->kind == ZERO_REDUCE_SCATTER)
        *src = c->count * size * (uint64_t)comm->ranks;
    else if (c->kind == ZERO_BROADCAST && p == c->root)
        *src = c->count * size;
    if (c->kind == ZERO_ALL_REDUCE)
        *dst = c->count * zero_dtype_bytes(c->dst_dtype);
}

static int peer_memory(struct zero_comm *comm, const struct zero_coll *c, int32_t p,
                       const struct shm_post *post)
{
    struct shm_part *part = &comm->parts[p];
    int32_t world = comm->world[p];
    uint64_t src, dst;

    peer_bytes(comm, c, p, &src, &dst);
    bool on_device = current(comm)->on_device;
    if ((src && zero__region_is_elsewhere(comm->ctx, post->src_region, on_device)) ||
        (dst && zero__region_is_elsewhere(comm->ctx, post->dst_region, on_device)))
        return zero__comm_fail(comm, -EPROTO,
                               "%s: rank %d posted memory of another kind than rank %d: of a "
                               "device, or of the host",
                               zero_coll_name(c->kind), world, comm->world[comm->rank]);
    part->src =
        src ? zero__region_at(comm->ctx, post->src_region, world, post->src_off, src) : NULL;
    part->dst =
        dst ? zero__region_at(comm->ctx, post->dst_region, world, post->dst_off, dst) : NULL;
    if ((src && (!part->src || (uintptr_t)part->src % zero_dtype_bytes(c->src_dtype))) ||
        (dst && (!part->dst || (uintptr_t)part->dst % zero_dtype_bytes(c->dst_dtype))))
        return zero__comm_fail(comm, -EPROTO,
                               "%s: rank %d posted memory that this rank does not know: it was not "
                               "exchanged, or freed here",
                               zero_coll_name(c->kind), world);
    return 0;
}

static bool differs(struct zero_comm *comm, const struct shm_post *mine, int32_t p,
                    const struct shm_post *theirs)
{
    char why[SHM_WHY];

    if (theirs->print.index != mine->print.index)
        snprintf(why, sizeof why, "rank %d overwrote its slot: %" PRIu64 " instead of %" PRIu64,
                 comm->world[p], theirs->print.index, mine->print.index);
    else if (!zero__fingerprint_differs(comm->world[comm->rank], &mine->print, comm->world[p],
                                        &theirs->print, why, sizeof why))
        return false;
    zero__comm_fail(comm, -EPROTO, "%s", why);
    return true;
}

/* Looks at ranks that have posted meanwhile. */
static bool check_peers(struct zero_comm *comm)
{
    const struct shm_post *mine = &comm->lanes[comm->rank].ring[comm->begun % SHM_SLOTS].post;
    const struct zero_coll *c = &current(comm)->coll;
    bool news = false;

    for (int32_t p = 0; p < comm->ranks && comm->n_checked < comm->ranks; p++) {
        struct shm_lane *lane = &comm->lanes[p];
        if (comm->parts[p].checked || atomic_load(&lane->posted) <= comm->begun)
            continue;
        struct shm_post theirs = lane->ring[comm->begun % SHM_SLOTS].post;
        if (p != comm->rank && differs(comm, mine, p, &theirs))
            return true;
        if (peer_memory(comm, c, p, &theirs))
            return true;
        comm->parts[p].checked = true;
        comm->n_checked++;
        news = true;
    }
    return news;
}

/*
 * An all_reduce in which every rank sums everything for itself. With two ranks as many bytes travel
 * as when each sums a half and copies the other's, but nobody waits in the middle, and nobody reads
 * what a peer's cache has just written. Where both sources do not fit into a core's own cache the
 * halves win: less is read and written altogether. In place the sums would overwrite what the peer
 * still reads. A device has no such caches.
 */
bool zero__shm_sums_all(const struct zero_comm *comm, const struct shm_op *op)
{
    const struct zero_coll *c = &op->coll;

    if (c->kind != ZERO_ALL_REDUCE)
        return false;
    if (c->flags & ZERO_COLL_ACCUMULATE) /* nobody could hand out unrounded sums */
        return true;
    if (comm->ranks != 2 || c->src_dtype != c->dst_dtype || c->flags & ZERO_COLL_INPLACE)
        return false;
    return op->on_device || (!(op->streams & ZERO__STREAM_COPIES) &&
                             c->src.len <= comm->ctx->caches.core / 2);
}

/*
 * The next rank to copy from; -1 when none is ready. What this rank has just written is still in
 * its own caches, and leaves them meanwhile if a peer's comes first.
 */
int32_t zero__shm_next_copy(struct zero_comm *comm, const struct shm_op *op)
{
    const int32_t first = comm->rank + (op->streams & ZERO__STREAM_COPIES ? 1 : 0);

    for (int32_t i = 0; i < comm->ranks; i++) {
        int32_t p = (first + i) % comm->ranks;
        if (comm->parts[p].copied || !comm->parts[p].checked)
            continue;
        if (op->coll.kind != ZERO_ALL_REDUCE ||
            atomic_load(&comm->lanes[p].steps) > 2 * comm->begun)
            return p;
    }
    return -1;
}

/* What is to be copied from rank p, and where to. */
void zero__shm_copy_of(const struct zero_comm *comm, const struct shm_op *op, int32_t p,
                       const char **src, char **dst, uint64_t *bytes)
{
    const struct zero_coll *c = &op->coll;
    const struct shm_part *part = &comm->parts[p];
    bool in_place = (c->flags & ZERO_COLL_INPLACE) && p == comm->rank;
    uint64_t size = zero_dtype_bytes(c->dst_dtype), first, n;

    *src = NULL;
    *dst = NULL;
    *bytes = 0;
    switch (c->kind) {
    case ZERO_ALL_GATHER:
        *bytes = in_place ? 0 : c->count * size;
        if (*bytes) {
            *src = part->src;
            *dst = op->dst + (uint64_t)p * c->count * size;
        }
        break;
    case ZERO_BROADCAST:
        if (p == c->root && p != comm->rank) {
            *src = part->src;
            *dst = op->dst;
            *bytes = c->count * size;
        }
        break;
    case ZERO_ALL_REDUCE:
        zero__coll_part(c->count, p, comm->ranks, &first, &n);
        if (p != comm->rank && n) {
            *src = part->dst + first * size;
            *dst = op->dst + first * size;
            *bytes = n * size;
        }
        break;
    default:
        break;
    }
}

/* Copies from ranks that are ready, as far as the budget goes. */
static bool run_copies(struct zero_comm *comm, uint64_t *budget)
{
    const struct shm_op *op = current(comm);
    const enum zero__copy_way way = op->streams & ZERO__STREAM_COPIES ? ZERO__COPY_STREAM
                                    : op->streams & ZERO__COPIES_STAY ? ZERO__COPY_CACHED
                                                                      : ZERO__COPY_ANY;
    bool news = false;

    while (*budget && comm->n_copied < comm->ranks) {
        uint64_t bytes, n;
        const char *src;
        char *dst;

        if (comm->at < 0)
            comm->at = zero__shm_next_copy(comm, op);
        if (comm->at < 0)
            break;
        zero__shm_copy_of(comm, op, comm->at, &src, &dst, &bytes);
        n = bytes - comm->done < *budget ? bytes - comm->done : *budget;
        if (n)
            zero__copy(comm->ctx->isa, dst + comm->done, src + comm->done, n, way);
        comm->done += n;
        *budget -= n;
        news = true;
        if (comm->done < bytes)
            break;
        comm->parts[comm->at].copied = true;
        comm->n_copied++;
        comm->at = -1;
        comm->done = 0;
    }
    return news;
}

/* A reduce_scatter's destination starts at its first element, an all_reduce's at 0. */
void zero__shm_sum_of(const struct zero_comm *comm, const struct shm_op *op, uint64_t *first,
                      uint64_t *count, uint64_t *to)
{
    const struct zero_coll *c = &op->coll;

    *first = 0;
    *count = c->count;
    if (c->kind == ZERO_REDUCE_SCATTER)
        *first = (uint64_t)comm->rank * c->count;
    else if (!zero__shm_sums_all(comm, op))
        zero__coll_part(c->count, comm->rank, comm->ranks, first, count);
    *to = c->kind == ZERO_REDUCE_SCATTER ? 0 : *first;
}

/* Sums a piece; true when the whole sum is through. */
static bool run_sum(struct zero_comm *comm, uint64_t *budget)
{
    const struct shm_op *op = current(comm);
    const struct zero_coll *c = &op->coll;
    uint64_t size = zero_dtype_bytes(c->src_dtype), first, count, to, n;
    bool accumulate = c->flags & ZERO_COLL_ACCUMULATE;

    zero__shm_sum_of(comm, op, &first, &count, &to);
    n = *budget / (size * (uint64_t)comm->ranks);
    n = (n / 64 + 1) * 64; /* whole cache lines, and never nothing */
    n = n < count - comm->done ? n : count - comm->done;
    if (n) {
        for (int32_t p = 0; p < comm->ranks; p++)
            comm->sources[p] = comm->parts[p].src + (first + comm->done) * size;
        struct zero__reduce r = {
            .dst = op->dst + (to + comm->done) * zero_dtype_bytes(c->dst_dtype),
            .src = comm->sources,
            .n = (uint32_t)comm->ranks,
            .src_dtype = c->src_dtype,
            .dst_dtype = c->dst_dtype,
            .redop = c->redop,
            .scale = c->scale,
            .accumulate = accumulate,
            .stream = (op->streams & ZERO__STREAM_SUMS) && !accumulate,
            .count = n,
        };
        zero__reduce(comm->ctx->isa, &r);
    }
    comm->done += n;
    n *= size * (uint64_t)comm->ranks;
    *budget -= n < *budget ? n : *budget;
    if (comm->done < count)
        return false;
    comm->done = 0;
    return true;
}

void zero__shm_begin_next(struct zero_comm *comm)
{
    for (int32_t p = 0; p < comm->ranks; p++)
        comm->parts[p] = (struct shm_part){0};
    comm->n_checked = comm->n_copied = 0;
    comm->reduced = false;
    comm->begun++;
}

void zero__shm_executed(struct zero_comm *comm)
{
    struct shm_lane *lane = &comm->lanes[comm->rank];
    uint64_t old = atomic_load(&lane->steps);

    comm->executed++;
    atomic_store(&lane->steps, 2 * comm->executed);
    zero__comm_ring(comm, SHM_RING_IF_LAST_STEP, old);
}

void zero__shm_publish_sum(struct zero_comm *comm)
{
    const struct zero_coll *c = &current(comm)->coll;

    comm->reduced = true;
    atomic_store(&comm->lanes[comm->rank].steps, 2 * comm->begun + 1);
    bool eager = c->dst.len / (uint64_t)comm->ranks >= SHM_EAGER;
    zero__comm_ring(comm, eager ? SHM_RING_NOW : SHM_RING_IF_LAST_STEP, 2 * comm->begun);
}

/* What the stream has not reached comes first: counters rise in order. */
static bool look_at_queue(struct zero_comm *comm)
{
    return comm->executed != comm->begun && zero__shm_queue_look(comm);
}

bool zero__shm_execute(struct zero_comm *comm, uint64_t *budget)
{
    bool news = look_at_queue(comm);

    if (comm->begun == comm->posted || comm->err)
        return news;
    const struct zero_coll *c = &current(comm)->coll;
    news |= comm->n_checked < comm->ranks && check_peers(comm);
    if (comm->err)
        return true;
    if (current(comm)->on_device)
        return (*budget && zero__shm_enqueue(comm)) || news;
    if (comm->executed != comm->begun)
        return news;
    if (zero__coll_reduces(c->kind) && !comm->reduced) {
        if (comm->n_checked < comm->ranks || !*budget)
            return news;
        news = true;
        if (!run_sum(comm, budget))
            return news;
        if (c->kind == ZERO_ALL_REDUCE && !zero__shm_sums_all(comm, current(comm)))
            zero__shm_publish_sum(comm);
        comm->reduced = true;
    }
    if (c->kind != ZERO_REDUCE_SCATTER && c->kind != ZERO_BARRIER &&
        !zero__shm_sums_all(comm, current(comm))) {
        news |= run_copies(comm, budget);
        if (comm->n_copied < comm->ranks)
            return news;
    }
    if (comm->n_checked < comm->ranks)
        return news;
    zero__shm_begin_next(comm);
    zero__shm_executed(comm);
    return true;
}
