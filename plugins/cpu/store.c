/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store and its requests: copies, made by whoever polls. A library that maps the store copies for
 * itself and asks for none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/list.h"
#include "../common/open.h"
#include "cpu.h"

#define PIECE (UINT64_C(1) << 20) /* copied between two looks at the clock */

int zero__cpu_open(const struct zero_store_open *params, struct zero_store **out)
{
    const struct zero__voice voice = {params->host, CPU_NAME};
    struct zero_store *store = calloc(1, sizeof *store);
    const char *pci = zero__open_pci(params);
    int err;

    if (!store)
        return zero__say(&voice, -ENOMEM, "no memory for a store");
    store->voice = voice;
    store->wish.ranks = zero__open_local_ranks(params);
    if (pci)
        snprintf(store->wish.pci, sizeof store->wish.pci, "%s", pci);
    store->wish.warns = params->local_rank > 0 ? ZERO_LOG_INFO : ZERO_LOG_WARN;
    err = zero__cpu_lock(&voice, &store->wish.lock);
    if (!err)
        err = zero__cpu_memory_take(&voice, params->bytes, &store->wish, &store->memory);
    if (err) {
        free(store);
        return err;
    }
    store->bytes = params->bytes;
    *out = store;
    return 0;
}

int zero__cpu_close(struct zero_store *store)
{
    while (store->mrs) {
        struct zero_mr *mr = store->mrs;
        store->mrs = mr->next;
        free(mr);
    }
    zero__cpu_memory_give(&store->memory);
    free(store);
    return 0;
}

int zero__cpu_resize(struct zero_store *store, uint64_t bytes)
{
    int err = zero__cpu_memory_resize(&store->voice, bytes, &store->wish, &store->memory);

    if (!err)
        store->bytes = bytes;
    return err;
}

void zero__cpu_describe(struct zero_store_info *info)
{
    info->flags = ZERO_STORE_MAPPED;
    info->mem = ZERO_MEM_HOST | ZERO_MEM_PINNED;
    info->offset_align = info->buffer_align = 1;
    info->max_io = INT64_MAX;
    info->best_io = CPU_BEST_IO;
    info->depth = CPU_DEPTH;
}

int zero__cpu_info(struct zero_store *store, struct zero_store_info *info)
{
    struct zero_store_info full = {.capacity = store->bytes,
                                   .bytes_read = store->bytes_read,
                                   .bytes_written = store->bytes_written};

    zero__cpu_describe(&full);
    snprintf(full.note, sizeof full.note, "host memory, %slocked%s",
             store->memory.locked ? "" : "not ", store->memory.where);
    zero__store_info_give(&full, info);
    return 0;
}

int zero__cpu_map(struct zero_store *store, void **base)
{
    *base = store->memory.base;
    return 0;
}

int zero__cpu_reg(struct zero_store *store, void *base, uint64_t bytes, uint32_t mem,
                  struct zero_mr **out)
{
    struct zero_mr *mr;

    if (mem != ZERO_MEM_HOST && mem != ZERO_MEM_PINNED)
        return zero__say(&store->voice, -ENOTSUP, "reg: memory kind %u; cpu copies host memory",
                         mem);
    mr = calloc(1, sizeof *mr);
    if (!mr)
        return zero__say(&store->voice, -ENOMEM, "no memory for a registration");
    *mr = (struct zero_mr){{store, base, bytes}, store->mrs};
    store->mrs = mr;
    *out = mr;
    return 0;
}

int zero__cpu_unreg(struct zero_store *store, struct zero_mr *mr)
{
    ZERO__UNLINK(&store->mrs, mr);
    free(mr);
    return 0;
}

int zero__cpu_submit(struct zero_store *store, const struct zero_io *ios, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n && store->submitted - store->ended < CPU_REQUESTS; i++) {
        int err = zero__io_check(&store->voice, &ios[i], store, store->bytes, 1, 1);
        if (err && !i)
            return err;
        if (err)
            break; /* said again when it comes first */
        store->queue[store->submitted++ % CPU_REQUESTS] = ios[i];
    }
    return (int)i;
}

/* A piece of the oldest request; true: it was the last one. */
static bool copy_piece(struct zero_store *store, const struct zero_io *io)
{
    uint64_t left = io->op == ZERO_IO_SYNC ? 0 : io->buf.len - store->done;
    uint64_t n = left < PIECE ? left : PIECE;

    if (n) {
        char *here = store->memory.base + io->store_off + store->done;
        char *there = io->buf.mr->region.base + io->buf.off + store->done;
        bool reads = io->op == ZERO_IO_READ;
        memcpy(reads ? there : here, reads ? here : there, n);
        store->done += n;
        *(reads ? &store->bytes_read : &store->bytes_written) += n;
    }
    return n == left;
}

int zero__cpu_poll(struct zero_store *store, struct zero_cqe *cqes, uint32_t max,
                   int64_t timeout_ns)
{
    int64_t until = timeout_ns > 0 ? zero__deadline_ns(timeout_ns) : 0;
    uint32_t n = 0;

    while (n < max && store->ended != store->submitted) {
        const struct zero_io *io = &store->queue[store->ended % CPU_REQUESTS];
        if (copy_piece(store, io)) {
            cqes[n++] = (struct zero_cqe){io->user, (int64_t)store->done};
            store->ended++;
            store->done = 0;
        }
        if (n || zero__now_ns() >= until) /* one at a time: the caller has other things to do */
            return (int)n;
    }
    while (timeout_ns > 0 && zero__now_ns() < until) {
        uint32_t seen = zero__bell_announce(&store->bell);
        if (atomic_exchange(&store->woken, false))
            break;
        zero__bell_sleep(&store->bell, seen, until);
    }
    zero__bell_leave(&store->bell);
    return 0;
}

int zero__cpu_wake(struct zero_store *store)
{
    atomic_store(&store->woken, true);
    zero__bell_ring(&store->bell);
    return 0;
}
