/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reservation: two slabs in the device tier, one for the states and one for everything
 * transient, from the communication context where it allocates (peers can then reach them), else
 * from the device. The second grows or is replaced when a new program needs more, between steps.
 * Slabs of a device that the context does not take are the device's own, and a relay is opened.
 *
 * All ranks decide together, before any of them touches memory, whether the plan fits (fits.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/checked.h"
#include "base/status.h"
#include "engine/inside.h"
#include "engine/relay.h"
#include "engine/places.h"
#include "engine/runtime.h"

static int is_relayed(const struct zero_runtime *rt)
{
    return !(rt->caps.mem & rt->device_mem);
}

static int slab_alloc(struct zero_runtime *rt, struct slab *s, uint64_t bytes)
{
    const int relayed = is_relayed(rt), from_comm = !relayed && rt->comm_ops.alloc;
    uint32_t mem = rt->device_mem;
    void *base;

    *s = (struct slab){.bytes = bytes ? bytes : ZERO_BUFFER_ALIGN, .from_comm = from_comm};
    int err = from_comm ? rt->comm_ops.alloc(rt->ctx, s->bytes, mem, &base, &s->mr)
                        : rt->dev_ops.alloc(rt->dev, s->bytes, mem, &base);
    if (err) {
        *s = (struct slab){0};
        return err;
    }
    s->base = base;
    if (relayed)
        s->mr = base; /* nobody's registration: relay.c takes it for an address */
    return s->mr ? 0 : rt->comm_ops.reg(rt->ctx, base, s->bytes, mem, &s->mr);
}

static void slab_close(struct zero_runtime *rt, struct slab *s)
{
    if (s->from_comm) {
        rt->comm_ops.free(rt->ctx, s->mr);
    } else if (s->base) {
        if (s->mr && !is_relayed(rt))
            rt->comm_ops.unreg(rt->ctx, s->mr);
        rt->dev_ops.release(rt->dev, s->base, s->bytes, rt->device_mem);
    }
    *s = (struct slab){0};
}

/* text: a hash of its error's table, whose title has values of the rank; 0: there is none. */
struct verdict {
    int32_t code, host;
    uint64_t text;
};

/* A table that a rank before this one, of the same host, has, too, stands there alone. */
static void shorten(const struct zero_runtime *rt, const struct verdict *all, char *text,
                    size_t bytes)
{
    char *table = strchr(text, '\n');
    int i = 0;

    while (i < rt->rank && memcmp(&all[i], &all[rt->rank], sizeof *all) != 0)
        i++;
    if (table && i < rt->rank)
        snprintf(table, bytes - (size_t)(table - text), " rank %d says who needs what", i);
}

/*
 * Every rank's verdict, before anybody allocates: one refusal is everybody's. A rank that refused
 * keeps its own sentence, also when it hears of another's first.
 */
static int verdict(struct zero_runtime *rt, int mine)
{
    struct verdict own = {.code = mine, .host = zero__job_host(rt->job)}, *all;
    char text[ZERO_ERROR_BYTES];
    const char *table;
    int err, later, refused = 0;

    snprintf(text, sizeof text, "%s", zero__error_text());
    table = strchr(text, '\n');
    own.text = table ? XXH3_64bits(table, strlen(table)) : 0;
    all = zero__ranks_ask(rt, &own, sizeof own, &err);
    for (int i = 0; i < rt->ranks && all; i++)
        refused |= all[i].code != 0;
    /* Who ends the job could reach a rank before the verdicts do: all have them first. */
    if (refused)
        free(zero__ranks_ask(rt, &own, sizeof own, &later));
    for (int i = 0; i < rt->ranks && !err && !mine; i++)
        if (all[i].code)
            err = zero__fail(all[i].code,
                             "rank %d has no memory for the plan: its message says why", i);
    if (mine && all)
        shorten(rt, all, text, sizeof text);
    free(all);
    return mine ? zero__fail(mine, "%s", text) : err;
}

static int exchange(struct zero_runtime *rt, void *mr)
{
    return rt->comm_ops.exchange(rt->ctx, mr);
}

/* Collective. A rank that has no memory says so before the others wait for it in the exchange. */
static int slab_open(struct zero_runtime *rt, struct slab *s, uint64_t bytes)
{
    int err = verdict(rt, slab_alloc(rt, s, bytes));
    if (err || is_relayed(rt))
        return err;
    err = zero__inside_call(rt, rt->comm_name, exchange, s->mr);
    if (rt->left)
        return err;
    /* Those that it has waited for would be waited for once more. */
    return err == -ETIMEDOUT ? err : verdict(rt, err);
}

/* What the paged region may take: as much as the limit allows beside the slabs. */
static uint64_t pages_room(const struct zero_runtime *rt)
{
    uint64_t taken = rt->slabs[SLAB_STATES].bytes + rt->slabs[SLAB_TRANSIENTS].bytes;
    uint64_t limit = rt->limit.device_bytes;

    return zero__least(zero__option_bytes(rt->options, ZERO__OPT_DYNAMIC_BYTES),
                       limit > taken ? limit - taken : 0);
}

static int pages_open(struct zero_runtime *rt)
{
    struct zero__pages_backing backing;
    uint64_t room = pages_room(rt);

    if (room < ZERO__PAGE_BYTES || !zero__device_is_host(rt))
        return 0;
    int err = zero__pages_host(room, &backing);
    return err ? err : zero__pages_create(&backing, room, &rt->pages);
}

/* Collective. */
static int relay_open(struct zero_runtime *rt)
{
    int err = verdict(rt, zero__relay_open(rt));

    if (err)
        return err;
    err = zero__inside_call(rt, rt->comm_name, exchange, zero__relay_mr(rt));
    return err == -ETIMEDOUT || rt->left ? err : verdict(rt, err);
}

int zero__memory_reserve(struct zero_runtime *rt)
{
    const uint64_t *states = rt->states.bytes, *transients = rt->programs[0]->transient_bytes;
    int err = zero__memory_fits(rt, states[ZERO__T_DEVICE] + transients[ZERO__T_DEVICE],
                                states[ZERO__T_CPU] + transients[ZERO__T_CPU]);

    err = verdict(rt, err);

    if (!err)
        err = slab_open(rt, &rt->slabs[SLAB_STATES], states[ZERO__T_DEVICE]);
    if (!err)
        err = slab_open(rt, &rt->slabs[SLAB_TRANSIENTS], transients[ZERO__T_DEVICE]);
    if (!err && is_relayed(rt))
        err = relay_open(rt);
    if (!err)
        err = verdict(rt, zero__tiers_open(rt));
    if (!err)
        err = zero__speeds_find(rt);
    return err ? err : pages_open(rt);
}

static uint64_t missing(const struct zero_runtime *rt, uint32_t tier)
{
    uint64_t have = rt->slabs[zero__slab(tier, 1)].bytes;
    uint64_t want = rt->programs[0]->transient_bytes[tier];

    return want > have ? want - have : 0;
}

/* Collective. What lies there is not kept. */
static int slab_grow(struct zero_runtime *rt, struct slab *s, uint64_t bytes)
{
    int err = -ENOSPC;

    if (is_relayed(rt)) { /* nobody has registered it: it can stay where it is */
        if (rt->dev_ops.grow)
            err = rt->dev_ops.grow(rt->dev, s->base, s->bytes, bytes - s->bytes);
        if (!err)
            s->bytes = bytes;
        if (err != -ENOSPC && err != -ENOTSUP)
            return verdict(rt, err);
    }
    slab_close(rt, s);
    /* As long as a rank has it mapped its bytes are not free; what is relayed nobody maps. */
    err = is_relayed(rt) ? 0 : verdict(rt, 0);
    return err ? err : slab_open(rt, s, bytes);
}

/* One thread at a time in the transport. */
static int device_grow(struct zero_runtime *rt, void *slab)
{
    zero__progress_stop(rt);
    int err = slab_grow(rt, slab, rt->programs[0]->transient_bytes[ZERO__T_DEVICE]);
    return err ? err : zero__progress_start(rt);
}

/*
 * What a rank needs of the host's memory and of the disk differs by pages, since its own parts
 * begin at other places of a page: it may be one rank alone that grows, or cannot.
 */
int zero__memory_grow(struct zero_runtime *rt)
{
    struct slab *s = &rt->slabs[SLAB_TRANSIENTS];
    uint64_t more = missing(rt, ZERO__T_DEVICE), more_host = missing(rt, ZERO__T_CPU);
    int err = 0;

    if (more || more_host || missing(rt, ZERO__T_DISK))
        err = zero__memory_fits(rt, more, more_host);
    if (!err) /* where another rank cannot, this one has some room to spare */
        err = zero__disk_grow(rt);
    err = verdict(rt, err);

    if (err || !(more || more_host))
        return err;
    if (more)
        err = zero__inside_call(rt, rt->comm_name, device_grow, s);
    if (!err && more && rt->pages)
        zero__pages_limit(rt->pages, pages_room(rt));
    if (!err && more_host)
        err = zero__cpu_grow(rt, rt->programs[0]->transient_bytes[ZERO__T_CPU]);
    if (err) /* the old region is gone */
        zero__runtime_fail(rt, rt->rank, err, "growing the reservation", zero__error_text());
    return err;
}

/* Waits for the other ranks, as the exchange does. */
static int segments_map(struct zero_runtime *rt, void *arg)
{
    (void)arg;
    for (uint32_t i = 0; i < rt->model.n_segments; i++) {
        const struct zero__segment *s = &rt->model.segments[i];
        const struct zero__home *h = &rt->states.homes[i];
        void *base;
        if (!h->param_mapped)
            continue;
        int err = rt->comm_ops.map(rt->ctx, rt->slabs[SLAB_STATES].mr,
                                   rt->states.buffers[h->param].offset,
                                   s->shard * zero_dtype_bytes(s->dtype), &base);
        if (err)
            return zero__while(zero__unsaid(err, rt->comm_name),
                               "parameters are read where the other ranks have them, and "
                               "ZERO_MAP=0 copies them instead (a process has as many maps as "
                               "vm.max_map_count says, as much room as ulimit -v)");
        rt->mapped[i] = base;
    }
    return 0;
}

int zero__memory_map(struct zero_runtime *rt)
{
    rt->mapped = calloc(rt->model.n_segments + 1, sizeof *rt->mapped);
    int err = verdict(rt, rt->mapped ? 0
                                     : zero__fail(-ENOMEM, "no memory to map %u segments",
                                                  rt->model.n_segments));
    return err ? err : zero__inside_call(rt, rt->comm_name, segments_map, NULL);
}

/* Whoever allocated it, memory of a device of its own goes before that does. */
static int is_of_device(const struct zero_runtime *rt, const struct slab *s)
{
    return !s->from_comm || !zero__device_is_host(rt);
}

void zero__memory_release(struct zero_runtime *rt, int of_device)
{
    zero__relay_close(rt, of_device); /* first: it may still copy to and from the slabs */
    for (uint32_t i = SLAB_STATES; i <= SLAB_TRANSIENTS; i++)
        if (is_of_device(rt, &rt->slabs[i]) == of_device)
            slab_close(rt, &rt->slabs[i]);
    if (of_device) {
        zero__tiers_unpin(rt);
        return;
    }
    zero__tiers_close(rt);
    zero__pages_destroy(rt->pages);
    rt->pages = NULL;
    free(rt->mapped); /* the maps went with the states' slab */
    rt->mapped = NULL;
}
