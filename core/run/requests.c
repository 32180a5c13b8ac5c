/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes of the disk's store: an op becomes requests, in whole pages, as many at a time as a tag can
 * tell apart.
 */
#include <errno.h>

#include "base/checked.h"
#include "base/status.h"
#include "machine/clock.h"
#include "run/runner.h"

_Static_assert(ZERO__MOST_IOS <= 16, "a tag has four bits for the request");

static uint64_t place_on_disk(const struct zero__runner *run, const struct zero__buffer *f)
{
    return f->offset + (f->transient ? run->site->slabs[zero__slab(ZERO__T_DISK, 0)].bytes : 0);
}

/* How many pairs of accesses of an op are moved: it has nothing to do where nothing was summed. */
static uint32_t pairs(const struct zero__slot *s)
{
    const struct zero__op *op = s->body ? &s->body->ops[s->op] : NULL;

    return !op ? 1 : op->flags & ZERO__OP_SUMS && !s->accumulate ? 0 : op->n_accesses / 2;
}

/*
 * All that one of them moves. Buffers begin at multiples of pages, and no two share one at a time:
 * whole pages are transferred, as disks want it, and whoever had them before was waited for; see
 * zero__access_whole().
 */
static struct zero_io pair_io(const struct zero__runner *run, const struct zero__slot *s,
                              uint32_t i)
{
    if (!s->body)
        return s->own.io;
    const struct zero__op *op = &s->body->ops[s->op];
    const struct zero__access *disk = zero__disk_access(s->body, op, i);
    int reads = op->kind == ZERO__FETCH;
    const struct zero__access *memory = reads ? disk + 1 : disk - 1;
    const struct zero__buffer *d = zero__buffer_of(&run->site->states, s->body, disk->buffer);
    const struct zero__buffer *m = zero__buffer_of(&run->site->states, s->body, memory->buffer);

    return (struct zero_io){.op = reads ? ZERO_IO_READ : ZERO_IO_WRITE,
                            .store_off = place_on_disk(run, d) + disk->off,
                            .buf = {run->site->tiers[ZERO__T_DISK].mr,
                                    zero__registered_offset(run->site, m) + memory->off,
                                    zero__access_whole(op, disk).bytes}};
}

/* Requests that so many bytes take, of at most `most` bytes each. */
static uint32_t parts(uint64_t bytes, uint64_t most)
{
    return (uint32_t)(bytes / most + (bytes % most != 0));
}

/* Requests of an op; lock held. */
static uint32_t ios_count(const struct zero__runner *run, const struct zero__slot *s)
{
    const uint64_t most = zero__io_most(&run->site->tiers[ZERO__T_DISK].info);
    uint32_t n = 0;

    for (uint32_t i = 0; i < pairs(s); i++)
        n += parts(pair_io(run, s, i).buf.len, most);
    return n;
}

/* The one of that number, from 0 on; lock held. */
static struct zero_io io_of(const struct zero__runner *run, const struct zero__slot *s,
                            uint32_t number)
{
    const uint64_t most = zero__io_most(&run->site->tiers[ZERO__T_DISK].info);
    uint32_t i = 0;
    struct zero_io io = pair_io(run, s, 0);

    while (number >= parts(io.buf.len, most)) {
        number -= parts(io.buf.len, most);
        io = pair_io(run, s, ++i);
    }
    io.store_off += number * most;
    io.buf.off += number * most;
    io.buf.len = zero__least(io.buf.len - number * most, most);
    return io;
}

/* A tag knows so many places: a request takes that of an earlier one, which has ended. */
static uint32_t place_of(uint32_t number)
{
    return number % ZERO__MOST_IOS;
}

/* Number of the request that had the place last. */
static uint32_t number_at(const struct zero__slot *s, uint32_t place)
{
    return s->n_posted - 1 - (s->n_posted - 1 - place) % ZERO__MOST_IOS;
}

/* The next requests of an op of n that have a place; lock held. */
static uint32_t ios_fill(const struct zero__runner *run, const struct zero__slot *s, uint32_t n,
                         struct zero_io ios[ZERO__MOST_IOS])
{
    uint32_t k = 0;

    for (; k < ZERO__MOST_IOS && k < n - s->n_posted; k++) {
        if (s->in_store >> place_of(s->n_posted + k) & 1)
            break;
        ios[k] = io_of(run, s, s->n_posted + k);
    }
    return k;
}

/* The first requests of an op are about to be submitted, n in all. */
static void op_begin(struct zero__runner *run, uint32_t queue, struct zero__slot *s, uint32_t n)
{
    s->start_ns = zero__now_ns();
    s->deadline_ns = zero__deadline_ns(run->site->timeout_ns);
    s->pending = n;
    zero__track_start(run, queue, s, run->lanes[queue].started + 1);
}

/* Submits what it can of an op; the lock is released while the store takes requests. */
static int start(struct zero__runner *run, uint32_t queue, struct zero__slot *s)
{
    struct zero_io ios[ZERO__MOST_IOS];
    const uint32_t n = ios_count(run, s); /* 0: nothing has been summed yet */

    if (!s->start_ns)
        op_begin(run, queue, s, n);
    while (s->n_posted < n) {
        const uint32_t ready = ios_fill(run, s, n, ios);
        if (!ready) /* the end of an earlier request lets it go on */
            return -EINPROGRESS;
        for (uint32_t i = 0; i < ready; i++)
            ios[i].user =
                zero__user(queue, run->lanes[queue].started + 1, place_of(s->n_posted + i));
        pthread_mutex_unlock(&run->lock);
        int k = zero__store_submit(run, &run->site->tiers[ZERO__T_DISK], ios, ready);
        pthread_mutex_lock(&run->lock);
        if (k <= 0)
            return k ? k : -EBUSY;
        for (int i = 0; i < k; i++)
            s->in_store |= UINT32_C(1) << place_of(s->n_posted++);
    }
    return 0;
}

/*
 * An update goes by what has ended: a request that ends twice, for another one, or in part would
 * let it read what is not there yet.
 */
static int complete(struct zero__runner *run, uint32_t q, const struct zero_cqe *c)
{
    const uint64_t ordinal = zero__user_ordinal(c->user);
    struct zero__lane *l = &run->lanes[q];
    const char *name = run->site->tiers[ZERO__T_DISK].name;
    uint32_t place = zero__user_piece(c->user);

    if (ordinal > l->started + 1 || place >= zero__lane_slot(l, ordinal)->n_posted)
        return zero__storage_kind.stray(run, c);
    struct zero__slot *s = zero__lane_slot(l, ordinal);
    uint32_t number = number_at(s, place);
    if (!(s->in_store >> place & 1))
        return zero__fail(-EPROTO,
                          "%s ended request %u of %u of the %s of %s twice: try it with "
                          "zero check offload",
                          name, number + 1, ios_count(run, s), zero__queue_name(q),
                          zero__slot_subject(run, s));
    if (c->res < 0)
        return zero__while(zero__unsaid((int)c->res, name), "%s of %s", zero__queue_name(q),
                           zero__slot_subject(run, s));
    uint64_t bytes = io_of(run, s, number).buf.len;
    if ((uint64_t)c->res != bytes)
        return zero__fail(-EPROTO,
                          "%s ended request %u of %u of the %s of %s after %lld bytes of "
                          "%llu, without an error: try it with zero check offload",
                          name, number + 1, ios_count(run, s), zero__queue_name(q),
                          zero__slot_subject(run, s), (long long)c->res, (unsigned long long)bytes);
    s->in_store &= ~(UINT32_C(1) << place);
    s->pending--;
    zero__lane_settle(run, q);
    return 0;
}

const struct zero__lane_kind zero__kind_store = {
    .server = ZERO__STORAGE, .start = start, .complete = complete};
