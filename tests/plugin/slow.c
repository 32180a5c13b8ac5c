/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm plugin for tests: another one, that of ZERO_SLOW_PLUGIN, whose completions of gathers and
 * reductions come no sooner than ZERO_SLOW_US after their post, as on a slow wire. (The sums of
 * squares of a step's norm, 8 bytes of fp64, are neither.) With ZERO_SLOW_REVERSE those that are
 * due at once come in reverse order. ZERO_SLOW_ROOM and ZERO_SLOW_SUMS are what it says of itself
 * instead of the other one: how many collectives it takes at once, and the mask of the types that
 * it sums.
 */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "../../plugins/common/param.h"
#include "../../plugins/common/wrap.h"
#include "machine/clock.h"

#define NAME "slow"
#define ENDED 1024u /* at one time; then nothing is asked for below */
#define BATCH 32u

/* What has ended below and was not told yet. */
struct ended {
    struct zero__wrap_record *record;
    int64_t res;
};

struct slow {
    int64_t delay_ns;
    bool reverse;
    uint32_t n;
    struct ended ended[ENDED];
};

/* Collectives at once; "": as many as below. */
static const char *room(const struct zero__voice *v)
{
    return zero__param_text(v, "slow_room", "", "Collectives at once");
}

static int slow_begin(struct zero_comm_ctx *ctx)
{
    struct slow *s = calloc(1, sizeof *s);
    uint32_t most = (uint32_t)atoi(room(&ctx->voice));

    if (!s)
        return zero__say(&ctx->voice, -ENOMEM, "no memory for a context");
    s->delay_ns = 1000 * atoll(zero__param_text(&ctx->voice, "slow_us", "0", "Delay"));
    s->reverse = atoi(zero__param_text(&ctx->voice, "slow_reverse", "0", "Order"));
    ctx->own = s;
    if (most && most < ctx->inflight)
        ctx->inflight = most;
    return 0;
}

static void slow_end(struct zero_comm_ctx *ctx)
{
    free(ctx->own);
}

static const struct zero__wrapper wrapper = {
    .name = NAME, .option = "slow_plugin", .begin = slow_begin, .end = slow_end};

static int slow_probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    const struct zero__voice v = {host, NAME};
    const char *sums = zero__param_text(&v, "slow_sums", "", "Mask of types");
    int err = zero__wrap_probe(&wrapper, host, caps);

    if (err)
        return err;
    caps->flags &= ~(uint32_t)ZERO_COMM_MAP;
    if (*room(&v))
        caps->max_inflight = (uint32_t)atoi(room(&v));
    if (*sums)
        caps->dtypes = (uint32_t)atoi(sums);
    return 0;
}

static int slow_open(const struct zero_comm_open *params, struct zero_comm_ctx **ctx)
{
    return zero__wrap_open(&wrapper, params, ctx);
}

static int slow_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n,
                     void *stream)
{
    int err = zero__wrap_take(comm, colls, n);

    if (err)
        return err;
    err = comm->ctx->below.post(comm->inner, comm->batch, n, stream);
    if (err)
        zero__wrap_give_batch(comm, n);
    else
        comm->posted += n;
    return err;
}

static bool is_later(const struct zero__wrap_record *a, const struct zero__wrap_record *b)
{
    return a->start_ns != b->start_ns ? a->start_ns > b->start_ns : a->place > b->place;
}

/*
 * The next to be told: the oldest or the youngest of those that are due; NULL: none. Their
 * communicators are there: whoever closes one asks for no completion any more.
 */
static struct ended *due(struct slow *s, int64_t now, int64_t *next_ns)
{
    struct ended *best = NULL;

    for (struct ended *e = s->ended; e < s->ended + s->n; e++) {
        bool norm = e->record->coll.src_dtype == ZERO_F64;
        int64_t start_ns = e->record->start_ns, due_ns = start_ns + (norm ? 0 : s->delay_ns);
        if (due_ns > now)
            *next_ns = due_ns < *next_ns ? due_ns : *next_ns;
        else if (!best || is_later(e->record, best->record) == s->reverse)
            best = e;
    }
    return best;
}

static int deliver(struct slow *s, struct zero_cqe *cqes, uint32_t max, int64_t *next_ns)
{
    int64_t now = zero__now_ns();
    struct ended *e;
    uint32_t n = 0;

    while (n < max && (e = due(s, now, next_ns))) {
        cqes[n++] = zero__wrap_complete(e->record, e->res);
        *e = s->ended[--s->n];
    }
    return (int)n;
}

static int slow_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                         int64_t timeout_ns)
{
    struct slow *s = ctx->own;
    int64_t next_ns = INT64_MAX;
    struct zero_cqe got[BATCH];
    int n = deliver(s, cqes, max, &next_ns);

    if (n)
        return n;
    if (next_ns != INT64_MAX && timeout_ns > next_ns - zero__now_ns())
        timeout_ns = next_ns - zero__now_ns() > 0 ? next_ns - zero__now_ns() : 0;
    n = ctx->below.progress(ctx->inner, got, ENDED - s->n < BATCH ? ENDED - s->n : BATCH,
                            timeout_ns);
    for (int i = 0; i < n; i++) {
        struct zero__wrap_record *r = zero__wrap_ended(ctx, got[i].user);
        if (!r)
            return -EPROTO;
        s->ended[s->n++] = (struct ended){r, got[i].res};
    }
    return n < 0 ? n : deliver(s, cqes, max, &next_ns);
}

ZERO__WRAP_PLUGIN(NAME, &wrapper, slow_probe, slow_open, slow_post, slow_progress)
