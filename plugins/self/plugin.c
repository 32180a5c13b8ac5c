/* SPDX-License-Identifier: Apache-2.0 */
/* Entry, contexts, memory and communicators of the plugin `self`; see self.h. */
#include "config.h"

#include "self.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../common/entry.h"
#include "../common/list.h"
#include "../common/memory.h"
#include "../common/reduce.h"
#include "machine/cores.h"
#include "machine/left.h"

#define NAME "self"

static int self_probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    enum zero__isa isa;
    int err = zero__isa_select(host, NAME, &isa);

    if (err)
        return err;
    zero__caps_of_host(caps, ZERO_COMM_ORDERED | ZERO_COMM_ACCUMULATE | ZERO_COMM_FINGERPRINT, 1,
                       SELF_INFLIGHT);
    snprintf(caps->note, sizeof caps->note, "one rank, sums with %s", zero__isa_name(isa));
    return 0;
}

static int self_open(const struct zero_comm_open *params, struct zero_comm_ctx **out)
{
    struct zero__voice voice = {params->host, NAME};
    enum zero__isa isa;
    int err = zero__isa_select(params->host, NAME, &isa);
    struct zero__cores cores;
    struct zero_comm_ctx *ctx;

    if (err)
        return err;
    if (params->oob && params->oob->ranks != 1)
        return zero__say(&voice, -EINVAL,
                         "the comm plugin self is for one rank, but there are %d: use shm",
                         params->oob->ranks);
    if (params->device >= 0)
        return zero__say(&voice, -ENOTSUP, "the comm plugin self works on host memory only");
    ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return zero__say(&voice, -ENOMEM, "no memory for a context");
    ctx->voice = voice;
    ctx->isa = isa;
    zero__cores_here(&cores);
    zero__caches_find(&ctx->caches, &cores, NULL);
    *out = ctx;
    return 0;
}

static void mr_end(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    ZERO__UNLINK(&ctx->mrs, mr);
    if (mr->owned)
        munmap(mr->base, mr->bytes);
    free(mr);
}

static struct zero_mr *mr_add(struct zero_comm_ctx *ctx, void *base, uint64_t bytes, int owned)
{
    struct zero_mr *mr = calloc(1, sizeof *mr);

    if (!mr)
        return NULL;
    mr->base = base;
    mr->bytes = bytes;
    mr->owned = owned;
    mr->next = ctx->mrs;
    ctx->mrs = mr;
    return mr;
}

static int self_comm_close(struct zero_comm *comm)
{
    ZERO__UNLINK(&comm->ctx->comms, comm);
    free(comm);
    return 0;
}

static int self_close(struct zero_comm_ctx *ctx)
{
    while (ctx->comms)
        self_comm_close(ctx->comms);
    while (ctx->mrs)
        mr_end(ctx, ctx->mrs);
    free(ctx);
    return 0;
}

static int self_alloc(struct zero_comm_ctx *ctx, uint64_t bytes, uint32_t mem, void **base,
                      struct zero_mr **mr)
{
    void *p;
    int err;

    if (mem != ZERO_MEM_HOST)
        return zero__say(&ctx->voice, -ENOTSUP, "alloc: memory kind %u, but self has host memory",
                         mem);
    if (bytes == 0 || bytes > INT64_MAX)
        return zero__say(&ctx->voice, -EINVAL, "alloc: cannot allocate %llu bytes",
                         (unsigned long long)bytes);
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
             0);
    if (p == MAP_FAILED)
        return zero__say(&ctx->voice, -ENOMEM,
                         "alloc: no room for %llu bytes of addresses: raise their limit (ulimit "
                         "-v), or train a smaller model",
                         (unsigned long long)bytes);
    err = zero__memory_fill(p, bytes, -1, 0);
    if (err) {
        munmap(p, bytes);
        return zero__say(&ctx->voice, err,
                         "alloc: %llu bytes do not fit: %llu are left on this machine or in its "
                         "control group, and 32 MiB must stay free: make room, or train a smaller "
                         "model",
                         (unsigned long long)bytes, (unsigned long long)zero__memory_left(NULL, 0));
    }
    *mr = mr_add(ctx, p, bytes, 1);
    if (!*mr) {
        munmap(p, bytes);
        return zero__say(&ctx->voice, -ENOMEM, "no memory for a registration");
    }
    *base = p;
    return 0;
}

static int self_reg(struct zero_comm_ctx *ctx, void *base, uint64_t bytes, uint32_t mem,
                    struct zero_mr **mr)
{
    struct zero_mr *new;

    if (!(mem & (ZERO_MEM_HOST | ZERO_MEM_PINNED)))
        return zero__say(&ctx->voice, -ENOTSUP, "reg: memory kind %u, but self takes host memory",
                         mem);
    if (!base)
        return zero__say(&ctx->voice, -EINVAL, "reg: no memory is given");
    new = mr_add(ctx, base, bytes, 0);
    if (!new)
        return zero__say(&ctx->voice, -ENOMEM, "no memory for a registration");
    *mr = new;
    return 0;
}

static int self_unreg(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    mr_end(ctx, mr);
    return 0;
}

static int self_exchange(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    if (mr->exchanged)
        return zero__say(&ctx->voice, -EINVAL, "exchange: this registration was exchanged before");
    mr->exchanged = 1;
    return 0;
}

static int self_wake(struct zero_comm_ctx *ctx)
{
    atomic_store(&ctx->woken, 1);
    zero__bell_ring(&ctx->bell);
    return 0;
}

static int self_abort(struct zero_comm_ctx *ctx)
{
    atomic_store(&ctx->aborted, 1);
    zero__bell_ring(&ctx->bell);
    return 0;
}

static int self_split(struct zero_comm_ctx *ctx, struct zero_comm *parent, int32_t color,
                      int32_t key, struct zero_comm **out)
{
    struct zero_comm *comm;

    (void)parent;
    (void)key;
    if (color < 0) {
        *out = NULL;
        return 0;
    }
    comm = calloc(1, sizeof *comm);
    if (!comm)
        return zero__say(&ctx->voice, -ENOMEM, "no memory for a communicator");
    comm->ctx = ctx;
    comm->next = ctx->comms;
    ctx->comms = comm;
    *out = comm;
    return 0;
}

static int self_error(struct zero_comm *comm)
{
    struct zero_comm_ctx *ctx = comm->ctx;

    return atomic_load(&ctx->aborted)
               ? zero__say(&ctx->voice, -ECANCELED, "the context was aborted")
               : 0;
}

static int self_missing(struct zero_comm *comm, int32_t *ranks, uint32_t max)
{
    (void)comm;
    (void)ranks;
    (void)max;
    return 0;
}

static int self_wire_bytes(struct zero_comm *comm, uint64_t *bytes)
{
    (void)comm;
    *bytes = 0;
    return 0;
}

static const struct zero_comm_ops ops = {
    .size = sizeof(struct zero_comm_ops),
    .probe = self_probe,
    .open = self_open,
    .close = self_close,
    .alloc = self_alloc,
    .free = self_unreg,
    .reg = self_reg,
    .unreg = self_unreg,
    .exchange = self_exchange,
    .progress = zero__self_progress,
    .wake = self_wake,
    .abort = self_abort,
    .split = self_split,
    .post = zero__self_post,
    .error = self_error,
    .missing = self_missing,
    .wire_bytes = self_wire_bytes,
    .comm_close = self_comm_close,
};

ZERO__PLUGIN(NAME, COMM, &ops, __VERSION__)
