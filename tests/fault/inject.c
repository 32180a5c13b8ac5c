/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a fault happens, and those that happen on the spot. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "fault.h"

/* Is it this rank's, and can it befall the collective? */
static bool concerns(const struct fault *f, const struct zero_comm_ctx *ctx,
                     const struct zero_comm *comm, const struct zero_coll *coll)
{
    struct zero_coll trial;

    if (f->rank != FAULT_ALL_RANKS && f->rank != ctx->rank)
        return false;
    if (!coll)
        return true;
    if ((f->comm && f->comm != comm->number) || coll->kind > ZERO_BARRIER ||
        !(f->kinds & 1u << coll->kind))
        return false;
    trial = *coll;
    return f->action == FAULT_SIZE    ? zero__fault_resize(&trial)
           : f->action == FAULT_DTYPE ? zero__fault_retype(&trial)
                                      : true;
}

static bool is_due(const struct fault *f, uint64_t number)
{
    return number >= f->first && number - f->first < f->times;
}

bool zero__fault_hits(const struct fault *f, const struct zero_comm_ctx *ctx,
                      const struct zero_comm *comm, const struct zero_coll *coll, uint64_t ahead,
                      bool *fits)
{
    *fits = concerns(f, ctx, comm, coll);
    return *fits && is_due(f, f->seen + ahead + 1);
}

void zero__fault_note(struct zero_comm_ctx *ctx, struct fault *f, uint64_t number,
                      const struct zero_coll *coll)
{
    if (number <= f->fired)
        return;
    f->fired = number;
    if (coll)
        zero__tell(&ctx->voice, ZERO_LOG_WARN,
                   "%s, at %s number %" PRIu64 ": %s of %" PRIu64 " %s to %s", f->text,
                   zero__fault_place_name(f->place), number, zero_coll_name(coll->kind),
                   coll->count, zero_dtype_name(coll->src_dtype), zero_dtype_name(coll->dst_dtype));
    else
        zero__tell(&ctx->voice, ZERO_LOG_WARN, "%s, at %s number %" PRIu64, f->text,
                   zero__fault_place_name(f->place), number);
}

/* Delays the call itself: who calls is held up, as by a machine that has other things to do. */
static void delay(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    while (nanosleep(&t, &t) && errno == EINTR)
        ;
}

int zero__fault_happen(struct zero_comm_ctx *ctx, const struct fault *f)
{
    switch (f->action) {
    case FAULT_DELAY:
        delay(f->delay_ns);
        return 0;
    case FAULT_KILL: /* to this thread: others would stop at once, and this one a little later */
        raise(SIGKILL);
        return 0;
    case FAULT_STOP:
        raise(SIGSTOP);
        return 0;
    case FAULT_ERROR:
        errno = -f->err;
        return zero__say(&ctx->voice, f->err, "%s fails on rank %d, as ZERO_FAULT wants: %m",
                         zero__fault_place_name(f->place), ctx->rank);
    default:
        return 0;
    }
}

int zero__fault_act(struct zero_comm_ctx *ctx, enum fault_place place, const struct zero_comm *comm,
                    const struct zero_coll *coll)
{
    struct fault_set *set = ctx->own;
    int err = 0;

    for (uint32_t i = 0; i < set->n && !err; i++) {
        struct fault *f = &set->faults[i];
        bool fits = false,
             hits = f->place == place && zero__fault_hits(f, ctx, comm, coll, 0, &fits);
        f->seen += fits;
        if (hits) {
            zero__fault_note(ctx, f, f->seen, coll);
            err = zero__fault_happen(ctx, f);
        }
    }
    return err;
}
