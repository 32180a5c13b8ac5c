/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The boards carry the few words that ranks must agree on outside of collectives: sizes, places,
 * colors. They exist per context and per communicator, so that a part of the ranks can use theirs.
 * Waiting here is for set-up only: it sleeps in short naps instead of being woken.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "machine/heard.h"
#include "shm.h"

_Static_assert(sizeof(struct shm_notice) <= SHM_NOTICE_BYTES, "a notice fits on a board");

#define YIELDS 200
#define NAP_NS 100000

static const char *call_name(uint32_t call)
{
    switch (call) {
    case SHM_CALL_OPEN:
        return "open";
    case SHM_CALL_EXCHANGE:
        return "exchange";
    case SHM_CALL_MAP:
        return "map";
    case SHM_CALL_SPLIT:
        return "split";
    default:
        return "something unknown";
    }
}

static struct shm_board *board_of(const struct shm_table *t, int32_t p)
{
    return (struct shm_board *)(t->first + (size_t)p * t->stride);
}

static int32_t world_rank(const struct shm_table *t, int32_t p)
{
    return t->world ? t->world[p] : p;
}

/* Waits until rank p has written notice number `turn`. */
static int board_wait(struct zero_comm_ctx *ctx, struct shm_table *t, int32_t p, uint32_t call,
                      int64_t until)
{
    struct timespec nap = {0, NAP_NS};

    for (unsigned i = 0; atomic_load(&board_of(t, p)->turn) < t->turn; i++) {
        if (atomic_load(&ctx->aborted))
            return zero__say(&ctx->voice, -ECANCELED, "%s: aborted", call_name(call));
        if (atomic_load(&ctx->seats[world_rank(t, p)].aborted))
            return zero__say(&ctx->voice, -ECANCELED, "%s: rank %d aborted", call_name(call),
                             world_rank(t, p));
        if (i < YIELDS) {
            sched_yield();
            continue;
        }
        if (zero__now_ns() >= until)
            return zero__say(&ctx->voice, -ETIMEDOUT,
                             "%s: rank %d did not take part within %g s (ZERO_TIMEOUT): look at "
                             "its output; who is only slow needs a larger ZERO_TIMEOUT",
                             call_name(call), world_rank(t, p), (double)ctx->timeout_ns / 1e9);
        nanosleep(&nap, NULL);
    }
    return 0;
}

int zero__notices_check(struct zero_comm_ctx *ctx, const struct shm_table *t,
                        const struct shm_notice *all, const char *doing)
{
    for (int32_t p = 0; p < t->ranks; p++)
        if (all[p].call != all[0].call)
            return zero__say(&ctx->voice, -EPROTO,
                             "ranks %d and %d call different things: %s and %s; every rank must "
                             "make the same calls in the same order",
                             world_rank(t, 0), world_rank(t, p), call_name(all[0].call),
                             call_name(all[p].call));
    for (int32_t p = 0; p < t->ranks; p++)
        if (all[p].status && p != t->rank) {
            int err = zero__errno_heard(all[p].status, -EPROTO);
            errno = -err;
            return zero__say(&ctx->voice, err, "%s failed on rank %d: %m", doing,
                             world_rank(t, p));
        }
    return all[t->rank].status; /* said where it failed */
}

int zero__board_gather(struct zero_comm_ctx *ctx, struct shm_table *t,
                       const struct shm_notice *mine, struct shm_notice *all)
{
    int64_t until = zero__deadline_ns(ctx->timeout_ns);
    struct shm_board *own = board_of(t, t->rank);
    uint32_t half = (uint32_t)(t->turn % 2);
    int err;

    memcpy(own->notice[half], mine, sizeof *mine);
    atomic_store(&own->turn, ++t->turn);
    for (int32_t p = 0; p < t->ranks; p++) {
        err = board_wait(ctx, t, p, mine->call, until);
        if (err)
            return err;
        memcpy(&all[p], board_of(t, p)->notice[half], sizeof all[p]);
    }
    return zero__notices_check(ctx, t, all, call_name(mine->call));
}
