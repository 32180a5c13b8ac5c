/* SPDX-License-Identifier: Apache-2.0 */
/* The store that is measured, and memory for what is on its way; see tier.h. */
#include "config.h"

#include "tier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* Bytes under way at most, of reads as of writes; a store is filled with 32 MiB at a time. */
static uint64_t in_flight_bytes(const struct offload_options *o)
{
    uint64_t most = OFFLOAD_FILL_BLOCK * OFFLOAD_FILL_DEPTH;

    for (unsigned i = 0; i < o->n_sizes; i++)
        for (unsigned k = 0; k < o->n_depths; k++)
            if (o->sizes[i] * o->depths[k] > most)
                most = o->sizes[i] * o->depths[k];
    return most;
}

uint64_t offload_memory_bytes(const struct offload_options *o)
{
    return 2 * in_flight_bytes(o) + o->bytes / OFFLOAD_PAGE * (sizeof(uint64_t) + sizeof(bool));
}

static int load(struct offload_tier *t, const struct zero_setting *setting)
{
    static const struct zero__log silent;
    struct zero__plugin *plugin;
    int err = zero__options_load(setting, setting != NULL, &t->options);

    if (!err) {
        zero__option_levels(t->options, &t->log);
        err = zero__loader_create(t->options, &t->log, NULL, 0, &t->loader);
    }
    if (!err)
        err = zero__loader_load(t->loader, ZERO_IFACE_OFFLOAD, t->o->tier, &plugin);
    if (err)
        return err;
    t->timeout_ns = zero__option_ns(t->options, ZERO__OPT_TIMEOUT);
    t->name = zero__plugin_name(plugin);
    t->ops = zero__plugin_offload(plugin);
    struct zero_store_info caps = {.size = sizeof caps};
    err = t->ops->probe(zero__loader_host(t->loader), &caps);
    if (!err && setting) /* a name that nobody knows is an error, variables may be for others */
        err = zero__options_finish(t->options, &silent, true, NULL);
    if (err)
        return zero__while(err, "offload plugin %s", t->o->tier);
    return offload_pages_choose(t->o, &t->pages);
}

/* Random bytes, other ones on every page. */
static void fill_memory(char *at, uint64_t bytes)
{
    uint64_t x = 1;

    for (uint64_t i = 0; i < bytes; i += sizeof x) {
        offload_random(&x);
        memcpy(at + i, &x, sizeof x);
    }
}

static int memory_take(struct offload_tier *t)
{
    uint64_t half = in_flight_bytes(t->o), pages = t->o->bytes / OFFLOAD_PAGE;

    t->memory_bytes = 2 * half;
    t->memory = bench_memory(t->memory_bytes);
    t->written = calloc(pages, sizeof *t->written);
    t->busy = calloc(pages, sizeof *t->busy);
    t->slots = calloc(OFFLOAD_MOST_DEPTH, sizeof *t->slots);
    if (!t->memory || !t->written || !t->busy || !t->slots)
        return zero__fail(-ENOMEM, "no memory for %llu bytes on their way",
                          (unsigned long long)t->memory_bytes);
    fill_memory(t->memory, half);
    t->memory_pages = offload_pages_of(t->memory);
    return 0;
}

int offload_open(struct offload_tier *t, const struct offload_options *o,
                 const struct zero_setting *setting)
{
    int err;

    *t = (struct offload_tier){.o = o, .log = {.rank = -1}, .random = 1};
    err = load(t, setting);
    if (!err)
        err = memory_take(t);
    if (err)
        return err;
    struct zero_store_open params = {.size = sizeof params,
                                     .host = zero__loader_host(t->loader),
                                     .bytes = o->bytes,
                                     .device = -1,
                                     .timeout_ns = t->timeout_ns};
    err = t->ops->open(&params, &t->store);
    t->info.size = sizeof t->info;
    if (!err)
        err = t->ops->info(t->store, &t->info);
    if (!err && (t->info.offset_align > OFFLOAD_PAGE || t->info.buffer_align > OFFLOAD_PAGE))
        err =
            zero__fail(-ENOTSUP, "%s wants multiples of more than %u bytes", t->name, OFFLOAD_PAGE);
    if (!err)
        err = t->ops->reg(t->store, t->memory, t->memory_bytes, ZERO_MEM_HOST, &t->mr);
    if (!err && t->info.flags & ZERO_STORE_MAPPED && t->ops->map)
        err = t->ops->map(t->store, &t->map);
    return err ? err : offload_fill(t);
}

void offload_close(struct offload_tier *t)
{
    if (t->store && t->ops->close(t->store))
        fprintf(stderr, "zero bench offload: %s\n", zero__error_text());
    else /* else the system may still write to it */
        bench_memory_free(t->memory, t->memory_bytes);
    free(t->written);
    free(t->busy);
    free(t->slots);
    zero__loader_free(t->loader);
    zero__options_free(t->options);
}
