/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm plugin for tests that takes streams, without a GPU: another plugin that takes none (shm,
 * or what ZERO_STREAMED_PLUGIN names), and the device's streams. A collective in a stream is a
 * function in it, which says that the stream is there, and a wait for a flag; progress() posts
 * below what streams have reached, in the communicator's order, and writes the flag when it is
 * complete. Flags are written, too, when a collective fails or is given up, after the failure has
 * been noted: so goes NCCL.
 *
 * Two things are stricter than comm.h. What is posted with streams is numbered over all
 * communicators, and the plugin below compares the numbers: ranks whose orders differ fail. And
 * fingerprints are not declared, so the library compares by itself. ZERO_STREAMED_BUSY=SEED has
 * room at random, on every rank at other times. ZERO_STREAMED_FAILS=N: rank 1 gives its N-th batch
 * in a stream up, as when a connection is lost.
 */
#include <zero/comm.h>
#include <zero/device.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../plugins/common/below.h"
#include "../../plugins/common/coll.h"
#include "../../plugins/common/open.h"

#define NAME "streamed"
#define BATCHES 128u /* in streams, of a communicator; a power of two */
#define MOST 64u     /* collectives of a batch */
#define RECORDS 4096u

/* Collectives that were posted together with a stream. */
struct batch {
    struct zero_comm *comm;
    _Atomic int there; /* the stream is */
    uint32_t n, left;
    struct zero_coll colls[MOST];
};

/* A collective below. */
struct record {
    struct record *next;
    struct batch *batch; /* NULL: of no stream */
    struct zero_comm *comm;
    uint64_t user, wire;
};

struct zero_comm_ctx {
    struct zero__voice voice;
    struct zero_comm_ops below;
    struct zero_comm_ctx *inner;
    const struct zero_device_ops *device;
    struct zero_device *dev;
    int32_t rank, ranks;
    uint64_t n_ordered, random; /* random 0: there is always room */
    uint64_t fails, n_fed;      /* fails 0: none does */
    struct record records[RECORDS], *free;
    pthread_mutex_t lock; /* of the list, for abort() */
    struct zero_comm *comms;
};

struct zero_comm {
    struct zero_comm_ctx *ctx;
    struct zero_comm *inner, *next;
    bool is_world; /* of all ranks, in their order: only such take streams here */
    struct batch *batches;
    uint64_t posted, fed;      /* batches: in streams, given to what is below */
    _Alignas(8) uint64_t done; /* streams wait for it */
    uint64_t wire_ahead;       /* bytes of what is not complete */
    _Atomic int err;
};

static int below_load(const struct zero_host *host, struct zero_comm_ops *ops)
{
    const struct zero__voice v = {host, NAME};

    ops->size = sizeof *ops;
    return zero__below(&v, ZERO_IFACE_COMM, "streamed_plugin", ops);
}

static int streamed_probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    struct zero_comm_ops below;
    int err = below_load(host, &below);

    if (!err)
        err = below.probe(host, caps);
    caps->flags = (caps->flags | ZERO_COMM_STREAM) & ~(uint32_t)ZERO_COMM_FINGERPRINT;
    return err;
}

static int streamed_open(const struct zero_comm_open *params, struct zero_comm_ctx **out)
{
    const struct zero__voice v = {params->host, NAME};
    struct zero_comm_ctx *ctx = calloc(1, sizeof *ctx);
    int err;

    if (!ctx)
        return zero__say(&v, -ENOMEM, "no memory for a context");
    ctx->voice = v;
    ctx->device = zero__open_device(params, &ctx->dev);
    ctx->rank = params->oob ? params->oob->rank : 0;
    ctx->ranks = params->oob ? params->oob->ranks : 1;
    ctx->random = strtoull(v.host->param(v.host->ctx, NAME, "streamed_busy", "0", "Seed"), NULL, 0);
    ctx->random *= (uint64_t)ctx->rank + 1;
    ctx->fails =
        strtoull(v.host->param(v.host->ctx, NAME, "streamed_fails", "0", "Batch"), NULL, 0);
    err = below_load(params->host, &ctx->below);
    if (!err)
        err = ctx->below.open(params, &ctx->inner);
    if (err) {
        free(ctx);
        return err;
    }
    for (uint32_t i = 0; i < RECORDS; i++) {
        ctx->records[i].next = ctx->free;
        ctx->free = &ctx->records[i];
    }
    pthread_mutex_init(&ctx->lock, NULL);
    *out = ctx;
    return 0;
}

/* ---- Ends ------------------------------------------------------------------------------------ */

/* The error first, then whoever waits. */
static void give_up(struct zero_comm *comm, int err)
{
    int none = 0;

    atomic_compare_exchange_strong(&comm->err, &none, err);
    __atomic_store_n(&comm->done, UINT64_MAX, __ATOMIC_RELEASE);
}

static int streamed_abort(struct zero_comm_ctx *ctx)
{
    int err = ctx->below.abort(ctx->inner);

    pthread_mutex_lock(&ctx->lock);
    for (struct zero_comm *comm = ctx->comms; comm; comm = comm->next)
        give_up(comm, -ECANCELED);
    pthread_mutex_unlock(&ctx->lock);
    return err;
}

static int streamed_wake(struct zero_comm_ctx *ctx)
{
    return ctx->below.wake(ctx->inner);
}

static void comm_forget(struct zero_comm *comm)
{
    struct zero_comm **at = &comm->ctx->comms;

    pthread_mutex_lock(&comm->ctx->lock);
    while (*at != comm)
        at = &(*at)->next;
    *at = comm->next;
    pthread_mutex_unlock(&comm->ctx->lock);
    free(comm->batches);
    free(comm);
}

static int streamed_comm_close(struct zero_comm *comm)
{
    int err = comm->ctx->below.comm_close(comm->inner);

    comm_forget(comm);
    return err;
}

static int streamed_close(struct zero_comm_ctx *ctx)
{
    int err = ctx->below.close(ctx->inner);

    while (ctx->comms)
        comm_forget(ctx->comms);
    pthread_mutex_destroy(&ctx->lock);
    free(ctx);
    return err;
}

/* 0, or why nothing more will happen; the sentence is recorded. */
static int streamed_error(struct zero_comm *comm)
{
    int err = comm->ctx->below.error(comm->inner);

    if (err)
        give_up(comm, err);
    else if (atomic_load(&comm->err))
        err = zero__say(&comm->ctx->voice, atomic_load(&comm->err), "the communicator has failed");
    return err;
}

/* ---- Posting --------------------------------------------------------------------------------- */

static struct record *record_take(struct zero_comm *comm, struct batch *b, uint64_t user)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    struct record *r = ctx->free;

    if (r) {
        ctx->free = r->next;
        *r = (struct record){.batch = b, .comm = comm, .user = user};
    }
    return r;
}

static void record_give(struct record *r)
{
    struct zero_comm_ctx *ctx = r->comm->ctx;

    r->next = ctx->free;
    ctx->free = r;
}

/* Posts below, with records for tags. */
static int pass(struct zero_comm *comm, struct batch *b, const struct zero_coll *colls, uint32_t n)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    struct zero_coll own[MOST];
    uint32_t made = 0;
    int err = 0;

    for (; made < n && !err; made++) {
        struct record *r = record_take(comm, b, colls[made].user);
        if (!r) {
            err = -EAGAIN;
            break;
        }
        r->wire = zero__coll_wire(&colls[made], ctx->rank, ctx->ranks);
        own[made] = colls[made];
        own[made].user = (uint64_t)(uintptr_t)r;
    }
    if (!err)
        err = ctx->below.post(comm->inner, own, n, NULL);
    while (err && made)
        record_give((struct record *)(uintptr_t)own[--made].user);
    return err;
}

static void arrive(void *arg)
{
    struct batch *b = arg;

    atomic_store(&b->there, 1);
    b->comm->ctx->below.wake(b->comm->ctx->inner);
}

/* Two times of three there is room. */
static bool is_busy(struct zero_comm_ctx *ctx)
{
    if (!ctx->random)
        return false;
    ctx->random = ctx->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (ctx->random >> 33) % 3 == 0 && !ctx->below.wake(ctx->inner);
}

static int post_in(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n, void *stream)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    struct batch *b = &comm->batches[comm->posted % BATCHES];
    int err = 0;

    if (!ctx->device || !ctx->device->wait_value || !comm->is_world)
        return zero__say(&ctx->voice, -ENOTSUP, "no device was given whose streams would be known");
    if (comm->posted - __atomic_load_n(&comm->done, __ATOMIC_ACQUIRE) >= BATCHES || is_busy(ctx))
        return -EAGAIN;
    for (uint32_t i = 0; i < n && !err; i++)
        err = zero__coll_check(&ctx->voice, &colls[i], ctx->rank, ctx->ranks);
    if (err)
        return err;
    b->n = b->left = n;
    atomic_store(&b->there, 0);
    memcpy(b->colls, colls, n * sizeof *colls);
    for (uint32_t i = 0; i < n; i++)
        b->colls[i].sequence = ctx->n_ordered + i;
    err = ctx->device->call(ctx->dev, arrive, b, stream);
    if (!err)
        err = ctx->device->wait_value(ctx->dev, stream, &comm->done, comm->posted + 1);
    if (err)
        return err;
    for (uint32_t i = 0; i < n; i++)
        comm->wire_ahead += zero__coll_wire(&colls[i], ctx->rank, ctx->ranks);
    ctx->n_ordered += n;
    comm->posted++;
    return 0;
}

static int streamed_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n,
                         void *stream)
{
    int err = streamed_error(comm);

    if (err)
        return err;
    if (n > MOST)
        return zero__say(&comm->ctx->voice, -EINVAL, "a batch of %u is larger than %u", n, MOST);
    if (stream)
        return post_in(comm, colls, n, stream);
    if (comm->fed != comm->posted) /* what is in streams comes first */
        return -EAGAIN;
    return pass(comm, NULL, colls, n);
}

/* ---- Progress -------------------------------------------------------------------------------- */

/* Gives what is below all that streams have reached. */
static void feed(struct zero_comm_ctx *ctx)
{
    for (struct zero_comm *comm = ctx->comms; comm; comm = comm->next)
        while (comm->fed != comm->posted && !streamed_error(comm)) {
            struct batch *b = &comm->batches[comm->fed % BATCHES];
            int err = atomic_load(&b->there) ? pass(comm, b, b->colls, b->n) : -EAGAIN;
            if (err == -EAGAIN)
                break;
            if (ctx->rank == 1 && ++ctx->n_fed == ctx->fails)
                err = -EIO;
            if (err) {
                give_up(comm, err);
                usleep(20000); /* streams are past it when the library hears of it */
            } else {
                comm->fed++;
            }
        }
}

/* One of a batch is complete; the last one lets the stream go on. */
static void count(struct record *r, int64_t res)
{
    struct zero_comm *comm = r->comm;

    if (res < 0) {
        give_up(comm, (int)res);
        return;
    }
    comm->wire_ahead -= r->wire;
    uint64_t done = __atomic_load_n(&comm->done, __ATOMIC_ACQUIRE);
    if (--r->batch->left == 0 && done != UINT64_MAX) /* or another thread gives up just now */
        __atomic_compare_exchange_n(&comm->done, &done, done + 1, false, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED);
}

static int streamed_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                             int64_t timeout_ns)
{
    struct zero_cqe got[64];
    uint32_t n = 0;

    feed(ctx);
    int k = ctx->below.progress(ctx->inner, got, max < 64 ? max : 64, timeout_ns);
    for (int i = 0; i < k; i++) {
        struct record *r = (struct record *)(uintptr_t)got[i].user;
        if (r->batch)
            count(r, got[i].res);
        else
            cqes[n++] = (struct zero_cqe){r->user, got[i].res};
        record_give(r);
    }
    return k < 0 ? k : (int)n;
}

/* ---- What is passed on ----------------------------------------------------------------------- */

static int streamed_split(struct zero_comm_ctx *ctx, struct zero_comm *parent, int32_t color,
                          int32_t key, struct zero_comm **out)
{
    struct zero_comm *comm = calloc(1, sizeof *comm);
    int err;

    if (comm)
        comm->batches = calloc(BATCHES, sizeof *comm->batches);
    if (!comm || !comm->batches) {
        free(comm);
        return zero__say(&ctx->voice, -ENOMEM, "no memory for a communicator");
    }
    for (uint32_t i = 0; i < BATCHES; i++)
        comm->batches[i].comm = comm;
    comm->ctx = ctx;
    comm->is_world = !parent && color == 0 && (key == 0 || key == ctx->rank);
    err = ctx->below.split(ctx->inner, parent ? parent->inner : NULL, color, key, &comm->inner);
    if (err || !comm->inner) {
        free(comm->batches);
        free(comm);
        *out = err ? *out : NULL;
        return err;
    }
    pthread_mutex_lock(&ctx->lock);
    comm->next = ctx->comms;
    ctx->comms = comm;
    pthread_mutex_unlock(&ctx->lock);
    *out = comm;
    return 0;
}

static int streamed_alloc(struct zero_comm_ctx *ctx, uint64_t bytes, uint32_t mem, void **base,
                          struct zero_mr **mr)
{
    return ctx->below.alloc(ctx->inner, bytes, mem, base, mr);
}

static int streamed_free(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    return ctx->below.free(ctx->inner, mr);
}

static int streamed_reg(struct zero_comm_ctx *ctx, void *base, uint64_t bytes, uint32_t mem,
                        struct zero_mr **mr)
{
    return ctx->below.reg(ctx->inner, base, bytes, mem, mr);
}

static int streamed_unreg(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    return ctx->below.unreg(ctx->inner, mr);
}

static int streamed_exchange(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    return ctx->below.exchange(ctx->inner, mr);
}

static int streamed_map(struct zero_comm_ctx *ctx, struct zero_mr *mr, uint64_t off, uint64_t len,
                        void **base)
{
    return ctx->below.map(ctx->inner, mr, off, len, base);
}

static int streamed_missing(struct zero_comm *comm, int32_t *ranks, uint32_t max)
{
    return comm->ctx->below.missing(comm->inner, ranks, max);
}

static int streamed_wire_bytes(struct zero_comm *comm, uint64_t *bytes)
{
    int err = comm->ctx->below.wire_bytes(comm->inner, bytes);

    *bytes += err ? 0 : comm->wire_ahead;
    return err;
}

static const struct zero_comm_ops ops = {.size = sizeof ops,
                                         .probe = streamed_probe,
                                         .open = streamed_open,
                                         .close = streamed_close,
                                         .alloc = streamed_alloc,
                                         .free = streamed_free,
                                         .reg = streamed_reg,
                                         .unreg = streamed_unreg,
                                         .exchange = streamed_exchange,
                                         .map = streamed_map,
                                         .progress = streamed_progress,
                                         .wake = streamed_wake,
                                         .abort = streamed_abort,
                                         .split = streamed_split,
                                         .post = streamed_post,
                                         .error = streamed_error,
                                         .missing = streamed_missing,
                                         .wire_bytes = streamed_wire_bytes,
                                         .comm_close = streamed_comm_close};

ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host,
                                      const struct zero_plugin **plugin)
{
    static const struct zero_iface iface = {
        .kind = ZERO_IFACE_COMM, .major = ZERO_COMM_MAJOR, .minor = ZERO_COMM_MINOR, .ops = &ops};
    static const struct zero_plugin me = {.size = sizeof me,
                                          .name = NAME,
                                          .version = "1",
                                          .build = "test",
                                          .ifaces = &iface,
                                          .n_ifaces = 1};

    (void)host;
    *plugin = &me;
    return 0;
}
