/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "wrap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "below.h"
#include "list.h"
#include "machine/clock.h"

const char *zero__wrap_call_name(enum zero__wrap_call call)
{
    static const char *const names[ZERO__N_CALLS] = {
        "open", "close", "alloc", "free", "reg", "unreg", "exchange", "map", "split", "comm_close"};

    return names[call];
}

/* ---- What is below --------------------------------------------------------------------------- */

static int below_load(const struct zero__wrapper *w, const struct zero_host *host,
                      struct zero_comm_ops *ops)
{
    const struct zero__voice v = {host, w->name};

    ops->size = sizeof *ops;
    return zero__below(&v, ZERO_IFACE_COMM, w->option, ops);
}

int zero__wrap_shape(const struct zero__wrapper *w, const struct zero_host *host, unsigned *shape)
{
    struct zero_comm_ops ops;
    int err = below_load(w, host, &ops);

    if (!err)
        *shape = (ops.alloc && ops.free ? 1 : 0) | (ops.map ? 2 : 0) | (ops.missing ? 4 : 0);
    return err;
}

/*
 * Streams are not declared: a collective in a stream has no completion that a wrapper could see. A
 * library that has a stream waits for it and then posts without one.
 */
int zero__wrap_probe(const struct zero__wrapper *w, const struct zero_host *host,
                     struct zero_comm_caps *caps)
{
    const struct zero__voice v = {host, w->name};
    struct zero_comm_ops ops;
    char note[sizeof caps->note];
    int err = below_load(w, host, &ops);

    if (!err)
        err = ops.probe(host, caps);
    if (err)
        return err;
    caps->flags &= ~(uint32_t)ZERO_COMM_STREAM;
    if (caps->max_inflight > ZERO__WRAP_INFLIGHT || caps->max_inflight == 0)
        caps->max_inflight = ZERO__WRAP_INFLIGHT;
    memcpy(note, caps->note, sizeof note);
    note[sizeof note - 1] = 0;
    snprintf(caps->note, sizeof caps->note, "over %.40s: %.80s",
             zero__below_name(&v, ZERO_IFACE_COMM, w->option), note);
    return 0;
}

/* ---- Contexts -------------------------------------------------------------------------------- */

static int before(struct zero_comm_ctx *ctx, enum zero__wrap_call call)
{
    return ctx->wrapper->before ? ctx->wrapper->before(ctx, call) : 0;
}

static int after(struct zero_comm_ctx *ctx, enum zero__wrap_call call, int err, uint64_t bytes,
                 int64_t start_ns)
{
    if (ctx->wrapper->after)
        ctx->wrapper->after(ctx, call, err, bytes, start_ns);
    return err;
}

/* What `below` is, which is evaluated unless before() keeps the call from being made. */
#define PASS_ON(ctx, call, bytes, below)                              \
    ({                                                                \
        int err_ = before((ctx), (call));                             \
        int64_t start_ = zero__now_ns();                              \
        err_ ? err_ : after((ctx), (call), (below), (bytes), start_); \
    })

int zero__wrap_open(const struct zero__wrapper *w, const struct zero_comm_open *params,
                    struct zero_comm_ctx **out)
{
    const struct zero__voice v = {params->host, w->name};
    struct zero_comm_caps caps = {.size = sizeof caps};
    struct zero_comm_ctx *ctx = calloc(1, sizeof *ctx);
    int err;

    if (!ctx)
        return zero__say(&v, -ENOMEM, "no memory for a context");
    ctx->wrapper = w;
    ctx->voice = v;
    ctx->rank = params->oob ? params->oob->rank : 0;
    ctx->ranks = params->oob ? params->oob->ranks : 1;
    ctx->below_name = zero__below_name(&v, ZERO_IFACE_COMM, w->option);
    err = below_load(w, params->host, &ctx->below);
    if (!err)
        err = zero__wrap_probe(w, params->host, &caps);
    ctx->inflight = caps.max_inflight;
    ctx->mem = caps.mem;
    if (!err)
        err = w->begin(ctx);
    if (err) {
        free(ctx);
        return err;
    }
    err = PASS_ON(ctx, ZERO__CALL_OPEN, 0, ctx->below.open(params, &ctx->inner));
    if (err) {
        w->end(ctx);
        free(ctx);
        return err;
    }
    *out = ctx;
    return 0;
}

static void comm_free(struct zero_comm *comm)
{
    free(comm->records);
    free(comm->batch);
    free(comm);
}

int zero__wrap_close(struct zero_comm_ctx *ctx)
{
    int refused = before(ctx, ZERO__CALL_CLOSE), err;
    int64_t start = zero__now_ns();

    err = after(ctx, ZERO__CALL_CLOSE, ctx->below.close(ctx->inner), 0, start);
    while (ctx->comms) { /* below, they went with the context */
        struct zero_comm *comm = ctx->comms;
        ctx->comms = comm->next;
        comm_free(comm);
    }
    ctx->wrapper->end(ctx);
    free(ctx);
    return refused ? refused : err;
}

int zero__wrap_wake(struct zero_comm_ctx *ctx)
{
    return ctx->below.wake(ctx->inner);
}

int zero__wrap_abort(struct zero_comm_ctx *ctx)
{
    return ctx->below.abort(ctx->inner);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

int zero__wrap_alloc(struct zero_comm_ctx *ctx, uint64_t bytes, uint32_t mem, void **base,
                     struct zero_mr **mr)
{
    return PASS_ON(ctx, ZERO__CALL_ALLOC, bytes,
                   ctx->below.alloc(ctx->inner, bytes, mem, base, mr));
}

int zero__wrap_free(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    return PASS_ON(ctx, ZERO__CALL_FREE, 0, ctx->below.free(ctx->inner, mr));
}

int zero__wrap_reg(struct zero_comm_ctx *ctx, void *base, uint64_t bytes, uint32_t mem,
                   struct zero_mr **mr)
{
    return PASS_ON(ctx, ZERO__CALL_REG, bytes, ctx->below.reg(ctx->inner, base, bytes, mem, mr));
}

int zero__wrap_unreg(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    return PASS_ON(ctx, ZERO__CALL_UNREG, 0, ctx->below.unreg(ctx->inner, mr));
}

int zero__wrap_exchange(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    return PASS_ON(ctx, ZERO__CALL_EXCHANGE, 0, ctx->below.exchange(ctx->inner, mr));
}

int zero__wrap_map(struct zero_comm_ctx *ctx, struct zero_mr *mr, uint64_t off, uint64_t len,
                   void **base)
{
    return PASS_ON(ctx, ZERO__CALL_MAP, len, ctx->below.map(ctx->inner, mr, off, len, base));
}

/* Where nobody below says more, that is what the probe said: so every shape has this entry. */
int zero__wrap_memory(struct zero_comm_ctx *ctx, uint32_t *mem)
{
    if (ctx->below.memory)
        return ctx->below.memory(ctx->inner, mem);
    *mem = ctx->mem;
    return 0;
}

/* ---- Communicators --------------------------------------------------------------------------- */

static struct zero_comm *comm_new(struct zero_comm_ctx *ctx)
{
    struct zero_comm *comm = calloc(1, sizeof *comm);

    if (!comm)
        return NULL;
    comm->ctx = ctx;
    comm->records = calloc(ctx->inflight, sizeof *comm->records);
    comm->batch = calloc(ctx->inflight, sizeof *comm->batch);
    if (!comm->records || !comm->batch) {
        comm_free(comm);
        return NULL;
    }
    for (uint32_t i = 0; i < ctx->inflight; i++) {
        comm->records[i].comm = comm;
        comm->records[i].next = comm->free;
        comm->free = &comm->records[i];
    }
    comm->n_free = ctx->inflight;
    return comm;
}

int zero__wrap_split(struct zero_comm_ctx *ctx, struct zero_comm *parent, int32_t color,
                     int32_t key, struct zero_comm **out)
{
    struct zero_comm *above = parent ? parent->inner : NULL, *comm = comm_new(ctx);
    int err;

    if (!comm)
        return zero__say(&ctx->voice, -ENOMEM, "no memory for a communicator");
    err = PASS_ON(ctx, ZERO__CALL_SPLIT, 0,
                  ctx->below.split(ctx->inner, above, color, key, &comm->inner));
    if (err || !comm->inner) {
        comm_free(comm);
        comm = NULL;
    } else {
        comm->number = ++ctx->n_comms;
        comm->next = ctx->comms;
        ctx->comms = comm;
    }
    if (!err)
        *out = comm;
    return err;
}

int zero__wrap_error(struct zero_comm *comm)
{
    if (comm->err)
        return zero__say(&comm->ctx->voice, comm->err, "%s", comm->why);
    return comm->ctx->below.error(comm->inner);
}

int zero__wrap_missing(struct zero_comm *comm, int32_t *ranks, uint32_t max)
{
    if (comm->held && max > 0 && comm->posted - comm->completed == 1) {
        ranks[0] = comm->ctx->rank; /* the plugin below knows nothing of it yet */
        return 1;
    }
    return comm->ctx->below.missing(comm->inner, ranks, max);
}

int zero__wrap_wire_bytes(struct zero_comm *comm, uint64_t *bytes)
{
    return comm->ctx->below.wire_bytes(comm->inner, bytes);
}

int zero__wrap_comm_close(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    int err = before(ctx, ZERO__CALL_COMM_CLOSE);
    int64_t start = zero__now_ns();

    if (err)
        return err;
    err = after(ctx, ZERO__CALL_COMM_CLOSE, ctx->below.comm_close(comm->inner), 0, start);
    ZERO__UNLINK(&ctx->comms, comm);
    comm_free(comm);
    return err;
}

/* ---- Collectives ----------------------------------------------------------------------------- */

#define COMMS (UINT64_C(1) << 22) /* that have tags of their own */

/* Of which record, of which communicator, for which of its collectives. */
static uint64_t tag_of(const struct zero__wrap_record *r)
{
    uint64_t at = (uint64_t)(r - r->comm->records);

    return ((r->place + 1) * COMMS + r->comm->number % COMMS) * ZERO__WRAP_INFLIGHT + at;
}

struct zero__wrap_record *zero__wrap_ended(struct zero_comm_ctx *ctx, uint64_t tag)
{
    uint64_t at = tag % ZERO__WRAP_INFLIGHT, number = tag / ZERO__WRAP_INFLIGHT % COMMS;

    for (struct zero_comm *comm = ctx->comms; comm && tag && at < ctx->inflight; comm = comm->next)
        if (comm->number % COMMS == number && comm->records[at].tag == tag)
            return &comm->records[at];
    zero__below_strange(&ctx->voice, ZERO_IFACE_COMM, ctx->below_name, tag);
    return NULL;
}

int zero__wrap_take(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n)
{
    int err = zero__coll_check_batch(&comm->ctx->voice, n, comm->ctx->inflight, comm->n_free, NULL);

    if (err)
        return err;
    for (uint32_t i = 0; i < n; i++) {
        struct zero__wrap_record *r = comm->free;
        comm->free = r->next;
        r->next = NULL;
        r->coll = colls[i];
        r->place = comm->posted + i;
        r->tag = tag_of(r);
        r->start_ns = zero__now_ns();
        comm->batch[i] = colls[i];
        comm->batch[i].user = r->tag;
    }
    comm->n_free -= n;
    return 0;
}

static void record_give(struct zero__wrap_record *r)
{
    r->tag = 0;
    r->next = r->comm->free;
    r->comm->free = r;
    r->comm->n_free++;
}

void zero__wrap_give_batch(struct zero_comm *comm, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        record_give(zero__wrap_taken(comm, comm->batch[i].user));
}

struct zero_cqe zero__wrap_complete(struct zero__wrap_record *r, int64_t res)
{
    struct zero_cqe cqe = {r->coll.user, res};

    r->comm->completed++;
    record_give(r);
    return cqe;
}
