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
#include "place/placer.h"

static int is_relayed(const struct zero__placer *placer)
{
    return !(placer->site->caps.mem & placer->site->device_mem);
}

static int slab_alloc(struct zero__placer *placer, struct zero__slab *s, uint64_t bytes)
{
    const int relayed = is_relayed(placer), from_comm = !relayed && placer->site->comm_ops.alloc;
    uint32_t mem = placer->site->device_mem;
    void *base;

    *s = (struct zero__slab){.bytes = bytes ? bytes : ZERO_BUFFER_ALIGN, .from_comm = from_comm};
    int err = from_comm
                  ? placer->site->comm_ops.alloc(placer->site->ctx, s->bytes, mem, &base, &s->mr)
                  : placer->site->dev_ops.alloc(placer->site->dev, s->bytes, mem, &base);
    if (err) {
        *s = (struct zero__slab){0};
        return err;
    }
    s->base = base;
    if (relayed)
        s->mr = base; /* nobody's registration: relay.c takes it for an address */
    return s->mr ? 0 : placer->site->comm_ops.reg(placer->site->ctx, base, s->bytes, mem, &s->mr);
}

static void slab_close(struct zero__placer *placer, struct zero__slab *s)
{
    if (s->from_comm) {
        placer->site->comm_ops.free(placer->site->ctx, s->mr);
    } else if (s->base) {
        if (s->mr && !is_relayed(placer))
            placer->site->comm_ops.unreg(placer->site->ctx, s->mr);
        placer->site->dev_ops.release(placer->site->dev, s->base, s->bytes,
                                      placer->site->device_mem);
    }
    *s = (struct zero__slab){0};
}

/* text: a hash of its error's table, whose title has values of the rank; 0: there is none. */
struct verdict {
    int32_t code, host;
    uint64_t text;
};

/* A table that a rank before this one, of the same host, has, too, stands there alone. */
static void shorten(const struct zero__placer *placer, const struct verdict *all, char *text,
                    size_t bytes)
{
    char *table = strchr(text, '\n');
    int i = 0;

    while (i < placer->site->rank && memcmp(&all[i], &all[placer->site->rank], sizeof *all) != 0)
        i++;
    if (table && i < placer->site->rank)
        snprintf(table, bytes - (size_t)(table - text), " rank %d says who needs what", i);
}

/*
 * Every rank's verdict, before anybody allocates: one refusal is everybody's. A rank that refused
 * keeps its own sentence, also when it hears of another's first.
 */
static int verdict(struct zero__placer *placer, int mine)
{
    struct verdict own = {.code = mine, .host = zero__job_host(placer->site->job)}, *all;
    char text[ZERO_ERROR_BYTES];
    const char *table;
    int err, later, refused = 0;

    snprintf(text, sizeof text, "%s", zero__error_text());
    table = strchr(text, '\n');
    own.text = table ? XXH3_64bits(table, strlen(table)) : 0;
    all = zero__ranks_ask(placer->site, &own, sizeof own, &err);
    for (int i = 0; i < placer->site->ranks && all; i++)
        refused |= all[i].code != 0;
    /* Verdicts are exchanged before any rank may end the job. */
    if (refused)
        free(zero__ranks_ask(placer->site, &own, sizeof own, &later));
    for (int i = 0; i < placer->site->ranks && !err && !mine; i++)
        if (all[i].code)
            err = zero__fail(all[i].code,
                             "rank %d has no memory for the plan: its message says why", i);
    if (mine && all)
        shorten(placer, all, text, sizeof text);
    free(all);
    return mine ? zero__fail(mine, "%s", text) : err;
}

static int exchange(void *owner, void *mr)
{
    struct zero__placer *placer = owner;

    return placer->site->comm_ops.exchange(placer->site->ctx, mr);
}

/* Collective. A rank that has no memory says so before the others wait for it in the exchange. */
static int slab_open(struct zero__placer *placer, struct zero__slab *s, uint64_t bytes)
{
    int err = verdict(placer, slab_alloc(placer, s, bytes));
    if (err || is_relayed(placer))
        return err;
    err = zero__inside_call(placer->run, placer->site->comm_name, exchange, placer, s->mr);
    if (zero__runner_is_left(placer->run))
        return err;
    /* Those that it has waited for would be waited for once more. */
    return err == -ETIMEDOUT ? err : verdict(placer, err);
}

/* Collective. */
static int relay_open(struct zero__placer *placer)
{
    int err = verdict(placer, zero__relay_open(placer->run));

    if (err)
        return err;
    err = zero__inside_call(placer->run, placer->site->comm_name, exchange, placer,
                            zero__relay_mr(placer->run));
    return err == -ETIMEDOUT || zero__runner_is_left(placer->run) ? err : verdict(placer, err);
}

int zero__memory_reserve(struct zero__placer *placer)
{
    const uint64_t *states = placer->site->states.bytes,
                   *transients = placer->site->programs[0]->transient_bytes;
    int err = zero__memory_fits(placer, states[ZERO__T_DEVICE] + transients[ZERO__T_DEVICE],
                                states[ZERO__T_CPU] + transients[ZERO__T_CPU]);

    err = verdict(placer, err);

    if (!err)
        err = slab_open(placer, &placer->site->slabs[ZERO__SLAB_STATES], states[ZERO__T_DEVICE]);
    if (!err)
        err = slab_open(placer, &placer->site->slabs[ZERO__SLAB_TRANSIENTS],
                        transients[ZERO__T_DEVICE]);
    if (!err && is_relayed(placer))
        err = relay_open(placer);
    if (!err)
        err = verdict(placer, zero__tiers_open(placer));
    return err ? err : zero__speeds_find(placer);
}

static uint64_t missing(const struct zero__placer *placer, uint32_t tier)
{
    uint64_t have = placer->site->slabs[zero__slab(tier, 1)].bytes;
    uint64_t want = placer->site->programs[0]->transient_bytes[tier];

    return want > have ? want - have : 0;
}

/* Collective. What lies there is not kept. */
static int slab_grow(struct zero__placer *placer, struct zero__slab *s, uint64_t bytes)
{
    int err = -ENOSPC;

    if (is_relayed(placer)) { /* nobody has registered it: it can stay where it is */
        if (placer->site->dev_ops.grow)
            err =
                placer->site->dev_ops.grow(placer->site->dev, s->base, s->bytes, bytes - s->bytes);
        if (!err)
            s->bytes = bytes;
        if (err != -ENOSPC && err != -ENOTSUP)
            return verdict(placer, err);
    }
    slab_close(placer, s);
    /* As long as a rank has it mapped its bytes are not free; what is relayed nobody maps. */
    err = is_relayed(placer) ? 0 : verdict(placer, 0);
    return err ? err : slab_open(placer, s, bytes);
}

/* One thread at a time in the transport. */
static int device_grow(void *owner, void *slab)
{
    struct zero__placer *placer = owner;

    zero__progress_stop(placer->run);
    int err = slab_grow(placer, slab, placer->site->programs[0]->transient_bytes[ZERO__T_DEVICE]);
    return err ? err : zero__progress_start(placer->run);
}

/*
 * What a rank needs of the host's memory and of the disk differs by pages, since its own parts
 * begin at other places of a page: it may be one rank alone that grows, or cannot.
 */
int zero__memory_grow(struct zero__placer *placer)
{
    struct zero__slab *s = &placer->site->slabs[ZERO__SLAB_TRANSIENTS];
    uint64_t more = missing(placer, ZERO__T_DEVICE), more_host = missing(placer, ZERO__T_CPU);
    int err = 0;

    if (more || more_host || missing(placer, ZERO__T_DISK))
        err = zero__memory_fits(placer, more, more_host);
    if (!err) /* where another rank cannot, this one has some room to spare */
        err = zero__disk_grow(placer);
    err = verdict(placer, err);

    if (err || !(more || more_host))
        return err;
    if (more)
        err = zero__inside_call(placer->run, placer->site->comm_name, device_grow, placer, s);
    if (!err && more_host)
        err = zero__cpu_grow(placer, placer->site->programs[0]->transient_bytes[ZERO__T_CPU]);
    if (err) /* the old region is gone */
        zero__run_fail(placer->run, placer->site->rank, err, "growing the reservation",
                       zero__error_text());
    return err;
}

/* Waits for the other ranks, as the exchange does. */
static int segments_map(void *owner, void *arg)
{
    struct zero__placer *placer = owner;

    (void)arg;
    for (uint32_t i = 0; i < placer->site->model.n_segments; i++) {
        const struct zero__segment *s = &placer->site->model.segments[i];
        const struct zero__home *h = &placer->site->states.homes[i];
        void *base;
        if (!h->param_mapped)
            continue;
        int err =
            placer->site->comm_ops.map(placer->site->ctx, placer->site->slabs[ZERO__SLAB_STATES].mr,
                                       placer->site->states.buffers[h->param].offset,
                                       s->shard * zero_dtype_bytes(s->dtype), &base);
        if (err)
            return zero__while(zero__unsaid(err, placer->site->comm_name),
                               "parameters are read where the other ranks have them, and "
                               "ZERO_MAP=0 copies them instead (a process has as many maps as "
                               "vm.max_map_count says, as much room as ulimit -v)");
        placer->site->mapped[i] = base;
    }
    return 0;
}

int zero__memory_map(struct zero__placer *placer)
{
    placer->site->mapped = calloc(placer->site->model.n_segments + 1, sizeof *placer->site->mapped);
    int err =
        verdict(placer, placer->site->mapped ? 0
                                             : zero__fail(-ENOMEM, "no memory to map %u segments",
                                                          placer->site->model.n_segments));
    return err ? err
               : zero__inside_call(placer->run, placer->site->comm_name, segments_map, placer,
                                   NULL);
}

/* Whoever allocated it, memory of a device of its own goes before that does. */
static int is_of_device(const struct zero__placer *placer, const struct zero__slab *s)
{
    return !s->from_comm || !zero__device_is_host(placer->site);
}

void zero__memory_release(struct zero__placer *placer, int of_device)
{
    zero__relay_close(placer->run, of_device); /* first: it may still copy to and from the slabs */
    for (uint32_t i = ZERO__SLAB_STATES; i <= ZERO__SLAB_TRANSIENTS; i++)
        if (is_of_device(placer, &placer->site->slabs[i]) == of_device)
            slab_close(placer, &placer->site->slabs[i]);
    if (of_device) {
        zero__tiers_unpin(placer);
        return;
    }
    zero__tiers_close(placer);
    free(placer->site->mapped); /* the maps went with the states' slab */
    placer->site->mapped = NULL;
}
