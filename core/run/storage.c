/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage thread: the only one that calls the store of the tier disk once training has begun.
 * It starts fetches and writebacks when what they wait for is done, and notes their ends, as the
 * progress thread does for collectives; it has a thread of its own because a store waits in its own
 * poll(), and checksums take time.
 */
#include <errno.h>

#include "base/checked.h"
#include "base/status.h"
#include "machine/clock.h"
#include "machine/thread.h"
#include "run/runner.h"

#define N_CQES 16
_Static_assert(ZERO__MOST_IOS <= 16, "a tag has four bits for the request");

static const uint32_t queues[] = {ZERO__Q_FETCH, ZERO__Q_WRITEBACK};
#define N_QUEUES (sizeof queues / sizeof *queues)

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

/* What is more than the store moves in one request comes in several. */
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

/* Of the request that had the place last. */
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

void zero__storage_count(struct zero__runner *run, const struct zero__issuing *now)
{
    struct zero__disk_bytes *d = &run->work.disk;

    if (now->kind == ZERO__EVALUATION || !run->site->tiers[ZERO__T_DISK].store)
        return; /* the first is of no step */
    for (uint32_t i = 0; i < now->body->n_ops; i++) {
        const struct zero__op *op = &now->body->ops[i];
        if (op->flags & ZERO__OP_SUMS && !now->contributed[op->unit])
            continue;
        *(op->kind == ZERO__FETCH ? &d->read : &d->written) += zero__op_disk_bytes(now->body, op);
    }
}

enum start { NOTHING_STARTS, STARTED, NO_ROOM };

/* Submits what it can of a lane's next op: what came of it, or an error. */
static int lane_start(struct zero__runner *run, uint32_t q)
{
    struct zero_io ios[ZERO__MOST_IOS];
    struct zero__lane *l = &run->lanes[q];
    uint32_t n, ready;

    pthread_mutex_lock(&run->lock);
    struct zero__slot *s = l->started < l->issued ? zero__lane_slot(l, l->started + 1) : NULL;
    if (!s || zero__is_over(run) || !zero__lanes_reached(run, s->waits)) {
        if (s && !zero__is_over(run))
            atomic_store(&run->storage_waits, 1); /* whoever it waits for wakes us */
        pthread_mutex_unlock(&run->lock);
        return NOTHING_STARTS;
    }
    n = ios_count(run, s);
    ready = ios_fill(run, s, n, ios);
    for (uint32_t i = 0; i < ready; i++)
        ios[i].user = zero__user(q, l->started + 1, place_of(s->n_posted + i));
    if (!s->start_ns) {
        s->start_ns = zero__now_ns();
        s->deadline_ns = zero__deadline_ns(run->site->timeout_ns);
        s->pending = n;
        zero__track_start(run, q, s, l->started + 1);
    }
    if (n == 0) { /* nothing has been summed yet */
        l->started++;
        zero__lane_settle(run, q);
        pthread_cond_broadcast(&run->moved);
    }
    pthread_mutex_unlock(&run->lock);
    if (n == 0) {
        zero__progress_wake(run);
        return STARTED;
    }
    if (!ready) /* the end of one of them is heard of in poll() */
        return NOTHING_STARTS;

    int k = zero__store_submit(run, &run->site->tiers[ZERO__T_DISK], ios, ready);
    if (k <= 0)
        return k ? k : NO_ROOM;
    pthread_mutex_lock(&run->lock);
    for (int i = 0; i < k; i++)
        s->in_store |= UINT32_C(1) << place_of(s->n_posted++);
    if (s->n_posted == n)
        l->started++;
    pthread_mutex_unlock(&run->lock);
    return STARTED;
}

/*
 * Lock held. An update goes by what has ended: a request that ends twice, for another one, or in
 * part would let it read what is not there yet.
 */
static int completion(struct zero__runner *run, const struct zero_cqe *c)
{
    uint64_t q = zero__user_queue(c->user), ordinal = zero__user_ordinal(c->user);
    struct zero__lane *l = zero__queue_is_disk((uint32_t)q) ? &run->lanes[q] : NULL;
    const char *name = run->site->tiers[ZERO__T_DISK].name;
    uint32_t place = zero__user_piece(c->user);

    if (!l || ordinal <= l->done || ordinal > l->started + 1 || ordinal > l->issued ||
        place >= zero__lane_slot(l, ordinal)->n_posted)
        return zero__fail(-EPROTO,
                          "%s ended a request that is not under way, tag %llu: try it "
                          "with zero check offload",
                          name, (unsigned long long)c->user);
    struct zero__slot *s = zero__lane_slot(l, ordinal);
    uint32_t number = number_at(s, place);
    if (!(s->in_store >> place & 1))
        return zero__fail(-EPROTO,
                          "%s ended request %u of %u of the %s of %s twice: try it with "
                          "zero check offload",
                          name, number + 1, ios_count(run, s), zero__queue_name((uint32_t)q),
                          zero__slot_subject(run, s));
    if (c->res < 0)
        return zero__while(zero__unsaid((int)c->res, name), "%s of %s",
                           zero__queue_name((uint32_t)q), zero__slot_subject(run, s));
    uint64_t bytes = io_of(run, s, number).buf.len;
    if ((uint64_t)c->res != bytes)
        return zero__fail(-EPROTO,
                          "%s ended request %u of %u of the %s of %s after %lld bytes of "
                          "%llu, without an error: try it with zero check offload",
                          name, number + 1, ios_count(run, s), zero__queue_name((uint32_t)q),
                          zero__slot_subject(run, s), (long long)c->res, (unsigned long long)bytes);
    s->in_store &= ~(UINT32_C(1) << place);
    s->pending--;
    zero__lane_settle(run, (uint32_t)q);
    return 0;
}

/* Of what has been moved; n: completions that have come. What `info` says of itself now. */
static void moves_note(struct zero__runner *run, struct zero_store_info *info, int n)
{
    const struct zero__tier_store *t = &run->site->tiers[ZERO__T_DISK];
    int told = !t->ops.info(t->store, info);

    if (!told)
        info->note[0] = 0;
    pthread_mutex_lock(&run->lock);
    uint64_t before = run->disk.read + run->disk.written;
    if (told) {
        run->disk.read = run->disk.tried_read + info->bytes_read;
        run->disk.written = run->disk.tried_written + info->bytes_written;
        run->disk.flags = info->flags;
    }
    if (n || run->disk.read + run->disk.written > before) {
        run->disk.at_ns = zero__now_ns();
        zero__job_worked(run->site->job);
    }
    pthread_mutex_unlock(&run->lock);
}

/*
 * Ops that were submitted together are served one after another by a slow disk: none of them has
 * waited too long as long as it ends any, or goes on with a large one.
 */
static int deadlines_check(struct zero__runner *run)
{
    struct zero_store_info info = {.size = sizeof info};
    const struct zero__tier_store *t = &run->site->tiers[ZERO__T_DISK];
    int err = 0;

    moves_note(run, &info, 0);
    pthread_mutex_lock(&run->lock);
    int64_t now = zero__now_ns();
    int moves = now < zero__deadline_after(run->disk.at_ns, run->site->timeout_ns);
    for (uint32_t i = 0; i < N_QUEUES && !err && !moves; i++) {
        struct zero__lane *l = &run->lanes[queues[i]];
        struct zero__slot *s = l->done < l->issued ? zero__lane_slot(l, l->done + 1) : NULL;
        if (!s || !s->start_ns || now < s->deadline_ns)
            continue;
        err = zero__fail(-ETIMEDOUT,
                         "%s of %s waited %g s (ZERO_TIMEOUT) for %s, which has not ended it: is "
                         "the disk alive? A slow one needs a larger ZERO_TIMEOUT (%s)",
                         zero__queue_name(queues[i]), zero__slot_subject(run, s),
                         (double)run->site->timeout_ns / 1e9, t->name, info.note);
    }
    pthread_mutex_unlock(&run->lock);
    return err;
}

static int turn(struct zero__runner *run)
{
    struct zero_cqe cqes[N_CQES];
    int64_t wait_ns = ZERO__STORE_POLL_NS;
    int err = 0, n;

    atomic_store(&run->storage_waits, 0);
    for (uint32_t i = 0; i < N_QUEUES; i++)
        do {
            n = lane_start(run, queues[i]);
            if (n < 0)
                return n;
            if (n == STARTED)
                wait_ns = 0;
            else if (n == NO_ROOM && wait_ns)
                wait_ns = ZERO__STORE_FULL_NS;
        } while (n == STARTED);
    n = zero__store_poll(run, &run->site->tiers[ZERO__T_DISK], cqes, N_CQES, wait_ns);
    if (n < 0)
        return n;
    if (n == 0)
        return deadlines_check(run);
    struct zero_store_info info = {.size = sizeof info};
    moves_note(run, &info, n);
    pthread_mutex_lock(&run->lock);
    for (int i = 0; i < n && !err; i++)
        err = completion(run, &cqes[i]);
    pthread_cond_broadcast(&run->moved);
    pthread_mutex_unlock(&run->lock);
    zero__progress_wake(run);
    return err;
}

static void *storage_main(void *arg)
{
    struct zero__runner *run = arg;

    zero__unsay();
    for (;;) {
        pthread_mutex_lock(&run->lock);
        while (!run->storage_stop && run->err) /* nothing more to do than to be joined */
            pthread_cond_wait(&run->moved, &run->lock);
        int stop = run->storage_stop;
        pthread_mutex_unlock(&run->lock);
        if (stop)
            return NULL;
        int err = turn(run);
        if (err) {
            zero__unsaid(err, run->site->tiers[ZERO__T_DISK].name);
            zero__run_fail(run, run->site->rank, err, "", zero__error_text());
        }
    }
}

void zero__storage_totals(struct zero__runner *run, struct zero__storage_totals *out)
{
    pthread_mutex_lock(&run->lock);
    *out = (struct zero__storage_totals){run->disk.read, run->disk.written, run->disk.flags};
    pthread_mutex_unlock(&run->lock);
}

void zero__storage_tried(struct zero__runner *run, uint64_t read, uint64_t written)
{
    run->disk.read = run->disk.tried_read = read;
    run->disk.written = run->disk.tried_written = written;
}

int zero__storage_start(struct zero__runner *run)
{
    if (!run->site->tiers[ZERO__T_DISK].store)
        return 0;
    run->storage_stop = 0;
    int err = zero__thread_create(&run->storage, NULL, storage_main, run);
    if (err)
        return zero__fail(-err, "cannot start the storage thread: %s" ZERO__THREAD_LIMITS,
                          strerror(err));
    run->storage_runs = 1;
    return 0;
}

void zero__storage_wake(struct zero__runner *run)
{
    const struct zero__tier_store *t = &run->site->tiers[ZERO__T_DISK];

    if (run->storage_runs && atomic_exchange(&run->storage_waits, 0))
        t->ops.wake(t->store);
}

void zero__storage_stop(struct zero__runner *run)
{
    if (!run->storage_runs)
        return;
    pthread_mutex_lock(&run->lock);
    run->storage_stop = 1;
    pthread_cond_broadcast(&run->moved);
    pthread_mutex_unlock(&run->lock);
    run->site->tiers[ZERO__T_DISK].ops.wake(run->site->tiers[ZERO__T_DISK].store);
    pthread_join(run->storage, NULL);
    run->storage_runs = 0;
}
