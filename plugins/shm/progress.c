/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One turn gives every communicator a bounded piece of work and collects completions. A caller that
 * waits takes turns, lets others run after a few empty ones, and sleeps at its bell at last: a rank
 * without a core of its own must not keep one from the rank that it waits for.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../common/list.h"
#include "machine/heard.h"
#include "machine/text.h"
#include "shm.h"

/* The communicator is over, for the reason in `why`; what peers are told may be another error. */
static void end(struct zero_comm *comm, int err, int told)
{
    struct shm_lane *lane = &comm->lanes[comm->rank];

    comm->err = err;
    memcpy(lane->why, comm->why, sizeof lane->why);
    atomic_store(&lane->failed, told);
    zero__comm_ring(comm, SHM_RING_NOW, 0);
}

int zero__comm_fail(struct zero_comm *comm, int err, const char *fmt, ...)
{
    va_list ap;

    if (comm->err)
        return comm->err;
    va_start(ap, fmt);
    vsnprintf(comm->why, sizeof comm->why, fmt, ap);
    va_end(ap);
    end(comm, err, err);
    return zero__say(&comm->ctx->voice, err, "%s", comm->why);
}

void zero__comm_fail_device(struct zero_comm *comm, int err)
{
    if (comm->err)
        return;
    snprintf(comm->why, sizeof comm->why, "the device of rank %d failed in a collective",
             comm->world[comm->rank]);
    end(comm, err, -ECANCELED);
}

/*
 * Has every rank left `old` behind? Of ranks that do so at the same time, at least the last one
 * sees all the others. How far beyond each of them went does not matter: who raises a counter by
 * several may be the one that a rank waits for at the first of them.
 */
static bool is_last(struct zero_comm *comm, enum shm_ring when, uint64_t old)
{
    for (int32_t p = 0; p < comm->ranks; p++) {
        const struct shm_lane *lane = &comm->lanes[p];
        if (atomic_load(when == SHM_RING_IF_LAST_POST ? &lane->posted : &lane->steps) <= old)
            return false;
    }
    return true;
}

void zero__comm_ring(struct zero_comm *comm, enum shm_ring when, uint64_t old)
{
    if (when != SHM_RING_NOW && !is_last(comm, when, old))
        return;
    for (int32_t p = 0; p < comm->ranks; p++)
        if (p != comm->rank)
            zero__bell_ring(&comm->ctx->seats[comm->world[p]].bell);
}

/* A peer has ended the communicator: what this rank sees itself says more, else the peer's words.
 */
static void fail_after(struct zero_comm *comm, int32_t p, int32_t failed)
{
    char why[SHM_WHY];
    uint64_t budget = 0;

    zero__shm_execute(comm, &budget);
    memcpy(why, comm->lanes[p].why, sizeof why);
    zero__text_clean(why, sizeof why);
    zero__comm_fail(comm, zero__errno_heard(failed, -EPROTO), "%s", why);
}

void zero__comm_look(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;

    if (comm->err)
        return;
    if (atomic_load(&ctx->aborted)) {
        zero__comm_fail(comm, -ECANCELED, "the context was aborted");
        return;
    }
    for (int32_t p = 0; p < comm->ranks; p++) {
        int32_t failed = atomic_load(&comm->lanes[p].failed);
        if (p == comm->rank)
            continue;
        if (atomic_load(&ctx->seats[comm->world[p]].aborted))
            zero__comm_fail(comm, -ECANCELED, "rank %d aborted", comm->world[p]);
        else if (failed)
            fail_after(comm, p, failed);
    }
}

/* Has every rank executed the oldest collective? */
static bool is_complete(struct zero_comm *comm)
{
    if (comm->completed >= comm->executed) /* beyond: after an error */
        return false;
    for (int32_t p = 0; p < comm->ranks; p++)
        if (atomic_load(&comm->lanes[p].steps) < 2 * comm->completed + 2)
            return false;
    return true;
}

static uint32_t collect(struct zero_comm *comm, struct zero_cqe *cqes, uint32_t max)
{
    uint32_t n = 0;

    while (n < max && comm->completed != comm->posted) {
        const struct zero_coll *c = &comm->ops[comm->completed % SHM_SLOTS].coll;
        bool done = is_complete(comm);

        if (!done && !comm->err)
            break;
        cqes[n++] = (struct zero_cqe){c->user, done ? (int64_t)c->dst.len : comm->err};
        if (done)
            comm->wire += zero__coll_wire(c, comm->rank, comm->ranks);
        comm->completed++;
    }
    return n;
}

/* One round over the communicators. *news: something moved. Returns the number of completions. */
static uint32_t take_turn(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                          bool *news)
{
    uint64_t budget = SHM_PIECE;
    uint32_t n = 0;

    *news = false;
    for (struct zero_comm *comm = ctx->comms; comm; comm = comm->next) {
        if (comm->completed == comm->posted)
            continue;
        while (zero__shm_execute(comm, &budget)) {
            *news = true;
            if (!budget || comm->err)
                break;
        }
        zero__comm_look(comm);
        n += collect(comm, cqes + n, max - n);
    }
    if (!budget && ctx->comms) /* who had the first turn has the last one next time */
        ZERO__ROTATE(&ctx->comms);
    return n;
}

/* Sleeps until the bell rings, unless there is news; then *n and *news are those of a turn. */
static void sleep_at_bell(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                          int64_t until, uint32_t *n, bool *news)
{
    struct zero__bell *bell = &ctx->seats[ctx->rank].bell;
    uint32_t seen = zero__bell_announce(bell);

    *n = take_turn(ctx, cqes, max, news);
    if (!*n && !*news && !atomic_load(&ctx->woken) && !atomic_load(&ctx->aborted))
        zero__bell_sleep(bell, seen, until);
    zero__bell_leave(bell);
}

int zero__shm_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                       int64_t timeout_ns)
{
    int64_t until = timeout_ns > 0 ? zero__deadline_ns(timeout_ns) : 0;
    bool news, sleeps = false;
    uint32_t n;

    zero__idle_begin(&ctx->idle);
    for (;;) {
        /* Before the turn: what it finds aborted it ends, and only then nothing is left to tell. */
        bool aborted = atomic_load(&ctx->aborted) != 0;
        if (sleeps)
            sleep_at_bell(ctx, cqes, max, until, &n, &news);
        else
            n = take_turn(ctx, cqes, max, &news);
        if (n)
            return (int)n;
        if (aborted)
            return zero__say(&ctx->voice, -ECANCELED, "the context was aborted");
        if (timeout_ns <= 0 || atomic_exchange(&ctx->woken, 0))
            return 0;
        sleeps = false;
        if (zero__idle_spins(&ctx->idle, news))
            continue;
        int64_t now = zero__now_ns();
        if (now >= until)
            return 0;
        sleeps = zero__idle_sleeps(&ctx->idle, now, !ZERO__ALL_COMPLETED(ctx->comms));
    }
}
