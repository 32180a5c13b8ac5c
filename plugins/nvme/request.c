/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests, and the transfers that they are made of. A request waits until all of its transfers
 * have begun, oldest first, as transfers are free: memory is fixed, and a store that is asked too
 * much of takes its time instead of failing.
 *
 * What the end of a transfer means, result.c says: it goes on, or is through, or has failed. One
 * that failed ends its request when the others of that request have ended, since the system may
 * still write to their memory.
 *
 * Checksums take a processor a tenth of the disk's time or more, so nothing waits for them that the
 * disk could do meanwhile: what is written is summed when the system has been told to write it, and
 * what was read after others have been started in its place; and poll() hands out what it has
 * rather than verify the next megabytes first.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/wake.h"
#include "machine/clock.h"
#include "nvme.h"

#define STRIPE (UINT64_C(1) << 20)         /* on one of several paths, then the next */
#define VERIFIED_BYTES (UINT64_C(1) << 20) /* in one go */
#define PAUSE_NS (INT64_C(1) << 20) /* before what the system refused for now is tried again */

int zero__nvme_requests_make(struct zero_store *store)
{
    store->transfers = calloc(store->depth, sizeof *store->transfers);
    if (!store->transfers)
        return zero__say(&store->voice, -ENOMEM, "no memory for %u transfers",
                         store->depth);
    for (uint32_t i = 0; i < store->depth; i++) {
        store->transfers[i].next = store->free_transfers;
        store->free_transfers = &store->transfers[i];
    }
    for (uint32_t i = 0; i < NVME_REQUESTS; i++) {
        store->requests[i].next = store->free_requests;
        store->free_requests = &store->requests[i];
    }
    store->waiting_end = &store->waiting;
    store->finished_end = &store->finished;
    return 0;
}

uint64_t zero__nvme_file_bytes(const struct zero_store *store, int file, uint64_t bytes)
{
    uint64_t n = (uint64_t)store->n_files, stripes = (bytes + STRIPE - 1) / STRIPE;
    uint64_t place = (uint64_t)(file + store->n_files - store->first_file) % n;

    return n == 1 ? bytes : (stripes + n - 1 - place) / n * STRIPE;
}

/* Where byte `off` lies, and how many follow it there. */
static uint64_t locate(const struct zero_store *store, uint64_t off, int *file, uint64_t *file_off)
{
    uint64_t n = (uint64_t)store->n_files, stripe = off / STRIPE;

    *file = (int)((stripe + (uint64_t)store->first_file) % n);
    *file_off = n == 1 ? off : stripe / n * STRIPE + off % STRIPE;
    return n == 1 ? UINT64_MAX : STRIPE - off % STRIPE;
}

/* Files end with whole stripes: what lies behind the end in the last one is zeros when it grows. */
int zero__nvme_cut(struct zero_store *store, uint64_t bytes)
{
    uint64_t file_off;
    int file;

    if (bytes % STRIPE == 0)
        return 0;
    locate(store, bytes, &file, &file_off);
    return ftruncate(store->files[file].fd, (off_t)file_off)
               ? zero__say(&store->voice, -errno, "the file in %s cannot be cut: %s",
                           store->files[file].folder, strerror(errno))
               : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The next transfer of a request; true: it was the last. */
static bool begin(struct zero_store *store, struct nvme_request *r)
{
    struct nvme_transfer *t = store->free_transfers;
    const struct zero_mr *mr = r->io.buf.mr;
    bool last;

    store->free_transfers = t->next;
    *t = (struct nvme_transfer){.request = r, .op = r->io.op, .registered = -1};
    if (t->op == ZERO_IO_SYNC) {
        t->file = (int)r->begun++;
        last = r->begun == (uint64_t)store->n_files;
    } else {
        uint64_t in_mr = r->io.buf.off + r->begun, bytes = r->io.buf.len - r->begun;
        t->store_off = r->io.store_off + r->begun;
        bytes = least(bytes, locate(store, t->store_off, &t->file, &t->file_off));
        bytes = least(bytes, NVME_TRANSFER);
        uint64_t piece = in_mr / NVME_REG_BYTES;
        if (mr->n_buffers)
            bytes = least(bytes, NVME_REG_BYTES - in_mr % NVME_REG_BYTES);
        if (mr->n_buffers && piece >= mr->first_piece)
            t->registered = mr->first_buffer + (int)(piece - mr->first_piece);
        t->buffer = mr->region.base + in_mr;
        t->bytes = (uint32_t)bytes;
        if (t->op == ZERO_IO_WRITE) {
            t->next_unsummed = store->unsummed;
            store->unsummed = t;
        }
        r->begun += bytes;
        last = r->begun == r->io.buf.len;
    }
    r->running++;
    store->running++;
    store->engine->start(store, t);
    return last;
}

static void finish(struct zero_store *store, struct nvme_request *r)
{
    r->next = NULL;
    *store->finished_end = r;
    store->finished_end = &r->next;
}

static void leave_waiting(struct zero_store *store, struct nvme_request *r)
{
    struct nvme_request **at = &store->waiting;

    while (*at && *at != r)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = r->next;
    if (!*at)
        store->waiting_end = at;
}

static int say_broken(const struct zero_store *store)
{
    return zero__say(&store->voice, store->broken, "%s; in %s", store->broken_why,
                     store->files[0].folder);
}

/* Hands to the system what was started; it may have no room for some of it, for a while. */
static void flush(struct zero_store *store)
{
    int err = store->engine->flush(store);

    store->stalled = err == -EAGAIN;
    if (!store->stalled)
        store->stalled_ns = 0;
    else if (!store->stalled_ns)
        store->stalled_ns = zero__now_ns();
    if (store->broken || !err)
        return;
    if (!store->stalled) {
        store->broken = err;
        snprintf(store->broken_why, sizeof store->broken_why, "%s is broken: %s",
                 store->engine->name, strerror(-err));
    } else if (zero__now_ns() - store->stalled_ns > store->patience_ns) {
        store->broken = -ETIMEDOUT;
        snprintf(store->broken_why, sizeof store->broken_why,
                 "%s has taken no transfers for %.1f s and ended none (ZERO_TIMEOUT: a disk that "
                 "is only slow needs a larger one)",
                 store->engine->name, (double)store->patience_ns / ZERO_SECOND);
    }
}

static void start_more(struct zero_store *store)
{
    bool is_due = store->again && zero__now_ns() >= store->again_ns;

    while (is_due && store->again) {
        struct nvme_transfer *t = store->again;
        store->again = t->next;
        store->engine->start(store, t);
    }
    while (store->waiting && store->free_transfers && !store->broken) {
        struct nvme_request *r = store->waiting;
        if (begin(store, r))
            leave_waiting(store, r);
    }
    flush(store);
    for (; store->unsummed; store->unsummed = store->unsummed->next_unsummed)
        zero__nvme_sums_write(store, store->unsummed->store_off, store->unsummed->buffer,
                              store->unsummed->bytes);
}

/*
 * A system that refuses at once would be asked as fast as a processor can, and nobody would sleep:
 * what is refused waits for a moment, and is then started with what was refused meanwhile.
 */
static void start_later(struct zero_store *store, struct nvme_transfer *t)
{
    if (!store->again)
        store->again_ns = zero__deadline_ns(PAUSE_NS);
    t->next = store->again;
    store->again = t;
}

/* The first error of a request is its result; what has not begun of it does not begin. */
static void give_up(struct zero_store *store, struct nvme_request *r, int err)
{
    if (r->err)
        return;
    r->err = err;
    leave_waiting(store, r);
}

/*
 * Takes in what has ended, up to VERIFIED_BYTES. start_more() is to follow: where there is nothing
 * to be verified first, others are started in the places of all of them by one call of the system.
 */
static void take_ended(struct zero_store *store)
{
    uint64_t bytes = 0;
    struct nvme_transfer *ended;
    int64_t result;

    while (bytes < VERIFIED_BYTES && (ended = store->engine->ended(store, &result))) {
        struct nvme_transfer t = *ended;
        struct nvme_request *r = t.request;
        bool again;
        int err = zero__nvme_judge(store, &t, result, &again);
        store->n_refused -= ended->refused_ns != 0;
        if (again && store->closing)
            give_up(store, r, -ECANCELED);
        store->n_refused += again && !r->err && t.refused_ns != 0;
        if (again && !r->err) {
            ended->done = t.done;
            ended->n_stuck = t.n_stuck;
            ended->refused_ns = t.refused_ns;
            if (result > 0) /* it goes on where it has come to */
                store->engine->start(store, ended);
            else
                start_later(store, ended);
            continue;
        }
        if (err)
            give_up(store, r, err);
        ended->next = store->free_transfers;
        store->free_transfers = ended;
        store->running--;
        if (store->sums && !r->err && t.op == ZERO_IO_READ) {
            start_more(store); /* in its place, before it is verified */
            err = zero__nvme_verify(store, &t);
            if (err)
                give_up(store, r, err);
            bytes += t.bytes;
        }
        bool whole = r->err || (r->io.op == ZERO_IO_SYNC ? r->begun == (uint64_t)store->n_files
                                                         : r->begun == r->io.buf.len);
        if (!--r->running && whole)
            finish(store, r);
    }
}

int zero__nvme_submit(struct zero_store *store, const struct zero_io *ios, uint32_t n)
{
    uint32_t i;

    if (store->broken)
        return say_broken(store);
    for (i = 0; i < n && store->free_requests; i++) {
        int err = zero__io_check(&store->voice, &ios[i], store, store->bytes, NVME_BLOCK,
                                 NVME_BLOCK);
        if (err && !i)
            return err;
        if (err)
            break; /* said again when it comes first */
        struct nvme_request *r = store->free_requests;
        store->free_requests = r->next;
        *r = (struct nvme_request){.io = ios[i]};
        *store->waiting_end = r;
        store->waiting_end = &r->next;
    }
    start_more(store);
    return (int)i;
}

/* One that failed is the last: there is one sentence for all. */
static uint32_t hand_out(struct zero_store *store, struct zero_cqe *cqes, uint32_t max)
{
    uint32_t n = 0;
    int err = 0;

    while (n < max && !err && store->finished) {
        struct nvme_request *r = store->finished;
        store->finished = r->next;
        if (!r->next)
            store->finished_end = &store->finished;
        cqes[n] =
            (struct zero_cqe){r->io.user, r->err                     ? r->err
                                          : r->io.op == ZERO_IO_SYNC ? 0
                                                                     : (int64_t)r->io.buf.len};
        NVME_TELL(&cqes[n]);
        n++;
        err = r->err ? zero__say(&store->voice, r->err, "%s", r->why) : 0;
        r->next = store->free_requests;
        store->free_requests = r;
    }
    return n;
}

int zero__nvme_poll(struct zero_store *store, struct zero_cqe *cqes, uint32_t max,
                    int64_t timeout_ns)
{
    int64_t until = timeout_ns > 0 ? zero__deadline_ns(timeout_ns) : 0;

    for (;;) {
        take_ended(store);
        start_more(store);
        bool later = store->again || store->stalled;
        uint32_t n = hand_out(store, cqes, max);
        if (n)
            return (int)n;
        if (store->broken)
            return say_broken(store);
        if (!max)
            return 0;
        int64_t left = timeout_ns > 0 ? until - zero__now_ns() : 0;
        if (left <= 0)
            return 0;
        if (later && left > PAUSE_NS)
            left = PAUSE_NS;
        if (zero__wake_sleep(store->wake_fd, store->engine->fd(store), left))
            return 0;
    }
}

int zero__nvme_wake(struct zero_store *store)
{
    zero__wake_ring(store->wake_fd);
    return 0;
}
