/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the device, which is the caller's. Exchanged memory is registered with every
 * communicator, those that come later too; a registration ends with the communicator or the memory,
 * whichever ends first.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "../common/list.h"
#include "nccl.h"

int nccl_reg(struct zero_comm_ctx *ctx, void *base, uint64_t bytes, uint32_t mem,
             struct zero_mr **out)
{
    struct zero_mr *mr;

    if (mem != NCCL_MEMORY)
        return zero__say(&ctx->voice, -ENOTSUP, "reg: memory of kind %u, but NCCL takes a GPU's",
                         mem);
    if (!base || !bytes)
        return zero__say(&ctx->voice, -EINVAL, "reg: %llu bytes at %p are no memory that there "
                         "can be", (unsigned long long)bytes, base);
    mr = calloc(1, sizeof *mr);
    if (!mr)
        return zero__say(&ctx->voice, -ENOMEM, "no memory for a registration");
    mr->base = base;
    mr->bytes = bytes;
    mr->next = ctx->mrs;
    ctx->mrs = mr;
    *out = mr;
    return 0;
}

static int mr_register(struct zero_comm *comm, struct zero_mr *mr)
{
    struct zero_comm_ctx *ctx = comm->ctx;
    struct nccl_handle *h;
    char what[120];
    int r;

    if (!ctx->registers || !ctx->nccl.CommRegister || !ctx->nccl.CommDeregister || !comm->nccl ||
        atomic_load(&comm->err))
        return 0;
    h = calloc(1, sizeof *h);
    if (!h)
        return zero__say(&ctx->voice, -ENOMEM, "no memory for a registration");
    r = ctx->nccl.CommRegister(comm->nccl, mr->base, mr->bytes, &h->handle);
    if (r != NCCL_OK) {
        free(h);
        snprintf(what, sizeof what,
                 "%llu bytes cannot be registered with NCCL (ZERO_NCCL_REGISTER=0 does without)",
                 (unsigned long long)mr->bytes);
        return nccl_fail(ctx, comm->nccl, r, what);
    }
    h->comm = comm;
    h->next = mr->handles;
    mr->handles = h;
    return 0;
}

/* A communicator that ends takes its registrations with it. */
static void handle_end(struct zero_comm_ctx *ctx, struct nccl_handle *h)
{
    struct zero_comm *comm = h->comm;
    bool lives = comm->nccl && !atomic_load(&comm->err) && !comm->launching;
    int r = lives && h->handle ? ctx->nccl.CommDeregister(comm->nccl, h->handle) : NCCL_OK;

    if (r != NCCL_OK)
        zero__tell(&ctx->voice, ZERO_LOG_WARN, "memory stays registered with NCCL: %s",
                   ctx->nccl.GetErrorString(r));
    free(h);
}

int nccl_register_all(struct zero_comm *comm)
{
    int err = 0;

    for (struct zero_mr *mr = comm->ctx->mrs; mr && !err; mr = mr->next)
        if (mr->exchanged)
            err = mr_register(comm, mr);
    return err;
}

void nccl_deregister_all(struct zero_comm *comm)
{
    for (struct zero_mr *mr = comm->ctx->mrs; mr; mr = mr->next)
        for (struct nccl_handle **at = &mr->handles, *h; (h = *at);) {
            if (h->comm != comm) {
                at = &h->next;
                continue;
            }
            *at = h->next;
            handle_end(comm->ctx, h);
        }
}

static void mr_deregister(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    while (mr->handles) {
        struct nccl_handle *h = mr->handles;
        mr->handles = h->next;
        handle_end(ctx, h);
    }
}

static int mr_register_all(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    int err;

    nccl_wait_all(ctx); /* NCCL takes no call about memory while it is at work for another */
    err = nccl_enter(ctx);
    if (err)
        return err;
    for (struct zero_comm *comm = ctx->comms; comm && !err; comm = comm->next)
        err = mr_register(comm, mr);
    if (err)
        mr_deregister(ctx, mr);
    nccl_leave(ctx);
    return err;
}

static int meet_and_register(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    int err = nccl_meet(ctx, "exchange", 0, NULL, 0);

    if (err)
        return err;
    if (mr->exchanged) /* on all ranks: they make the same calls */
        return zero__say(&ctx->voice, -EINVAL, "exchange: this registration was exchanged before");
    err = nccl_meet(ctx, "exchange", mr_register_all(ctx, mr), NULL, 0);
    mr->exchanged = !err;
    return err;
}

int nccl_exchange(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    int err;

    *ctx->said = 0;
    ctx->until = nccl_until(ctx);
    err = meet_and_register(ctx, mr);
    ctx->until = 0;
    return err;
}

int nccl_unreg(struct zero_comm_ctx *ctx, struct zero_mr *mr)
{
    if (mr->handles) {
        ctx->until = nccl_until(ctx);
        nccl_wait_all(ctx);
        ctx->until = 0;
    }
    if (mr->handles && !nccl_enter(ctx)) {
        mr_deregister(ctx, mr);
        nccl_leave(ctx);
    }
    while (mr->handles) { /* NCCL cannot be told: they end with their communicators */
        struct nccl_handle *h = mr->handles;
        mr->handles = h->next;
        free(h);
    }
    ZERO__UNLINK(&ctx->mrs, mr);
    free(mr);
    return 0;
}
