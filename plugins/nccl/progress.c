/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completions of what has no stream of the caller's; and NCCL's own errors, which it must be asked
 * for. Who posts in streams hears of them from error().
 */
#include <errno.h>
#include <time.h>

#include "nccl.h"

#define NAP_NS 50000
#define ASK_NS 10000000

/* What a look at all communicators found. */
struct look {
    bool waits;   /* for NCCL's thread, or for an event */
    bool stirred; /* something else can be done now, or has failed */
};

/* Why nothing of it completes any more, 0: it does. An aborted one ends when its streams are free.
 */
static int end_of(struct zero_comm *comm)
{
    const struct nccl_end *end = comm->end;
    int err = atomic_load(&comm->err);

    if (comm->nccl || (!end->over && zero__now_ns() < end->until))
        return 0;
    return err ? err : -ECANCELED;
}

static int entry_state(struct zero_comm *comm, int end, int64_t *res)
{
    const struct nccl_entry *e = &comm->ring[comm->completed % NCCL_INFLIGHT];
    struct zero_comm_ctx *ctx = comm->ctx;
    int err = end;

    if (!end)
        err = comm->nccl && comm->completed != comm->begun && !atomic_load(&comm->err)
                  ? ctx->ops->event_query(ctx->dev, e->event)
                  : -EINPROGRESS;
    if (err == -EINPROGRESS)
        return err;
    if (err && !end) { /* the stream has failed, and all that would follow */
        nccl_comm_fail(comm, err, "a stream of the device has ended early");
        return -EINPROGRESS;
    }
    *res = err ? err : (int64_t)e->coll.dst.len;
    return 0;
}

static uint32_t collect(struct zero_comm *comm, struct zero_cqe *cqes, uint32_t max)
{
    int end = end_of(comm);
    uint32_t n = 0;
    int64_t res;

    while (n < max && comm->completed != comm->posted && !entry_state(comm, end, &res)) {
        const struct zero_coll *c = &comm->ring[comm->completed % NCCL_INFLIGHT].coll;
        cqes[n++] = (struct zero_cqe){c->user, res};
        comm->completed++;
        if (res >= 0)
            comm->wire += zero__coll_wire(c, comm->rank, comm->ranks);
    }
    if (n && end) /* another thread may have found the error, and this one has said nothing yet */
        nccl_settle(comm);
    return n;
}

static void look_at(struct zero_comm *comm, struct look *look)
{
    const struct nccl_work *w = &comm->work;
    bool failed = atomic_load(&comm->err) != 0;
    int err = failed || !comm->nccl ? 0 : nccl_settle(comm);
    bool held = !err && !failed && comm->nccl && (w->active || comm->begun != comm->posted) &&
                (!nccl_turn(comm) || nccl_room(comm) == -EAGAIN);

    /* Whose batch it is posts it again, whoever saw first that NCCL is through: error() may. */
    err = held ? -EAGAIN : err;
    look->stirred |= !err && !failed && comm->nccl && w->active && w->stream != comm->stream;
    if (!err && comm->nccl && !failed)
        nccl_begin(comm);
    look->stirred |= !failed && atomic_load(&comm->err);
    look->waits |= held || (comm->nccl && comm->launching) || comm->completed != comm->posted;
}

/* One pass: completions, and what else there is. */
static int pass(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max, struct look *look)
{
    uint32_t n = 0;
    int err = nccl_enter(ctx);

    if (err)
        return err;
    for (struct zero_comm *comm = ctx->comms; comm; comm = comm->next) {
        look_at(comm, look);
        n += collect(comm, cqes + n, max - n);
    }
    nccl_leave(ctx);
    return (int)n;
}

static void rest(struct zero_comm_ctx *ctx, const struct look *look, int64_t until)
{
    const struct timespec nap = {0, NAP_NS};
    uint32_t seen;

    if (look->waits) {
        nanosleep(&nap, NULL);
        return;
    }
    seen = zero__bell_announce(&ctx->bell);
    if (!atomic_load(&ctx->woken) && !atomic_load(&ctx->aborted)) {
        int64_t ask = zero__deadline_ns(ASK_NS);
        zero__bell_sleep(&ctx->bell, seen, ask < until ? ask : until);
    }
    zero__bell_leave(&ctx->bell);
}

int nccl_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                  int64_t timeout_ns)
{
    int64_t until = zero__deadline_ns(timeout_ns);

    for (;;) {
        bool aborted = atomic_load(&ctx->aborted) != 0;
        struct look look = {0};
        int n = pass(ctx, cqes, max, &look);
        if (n)
            return n;
        if (aborted && !look.waits)
            return zero__say(&ctx->voice, -ECANCELED, "the collectives of this rank were aborted");
        if (atomic_exchange(&ctx->woken, 0) || look.stirred || zero__now_ns() >= until)
            return 0;
        rest(ctx, &look, until);
    }
}
