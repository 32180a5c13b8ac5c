/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job reserves in the tiers beside the device: a store each, whose slabs of states and of
 * transients lie side by side. The host's is memory, pinned where the device is not the host; the
 * disk's is read and written by way of it. A new order of units may make the transients grow.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/status.h"
#include "machine/pages.h"
#include "place/placer.h"

#define SMALL_TOLD (UINT64_C(16) << 20) /* for a disk, in small pages: less is not worth a word */

/*
 * Kernels and copies of a device use it, which not every device can where it is not pinned. Both
 * slabs are one piece.
 */
static int cpu_pin(struct zero__placer *placer)
{
    struct zero__slab *s = &placer->site->slabs[zero__slab(ZERO__T_CPU, 0)];

    if (zero__device_is_host(placer->site))
        return 0;
    if (!placer->site->dev_ops.pin)
        return zero__fail(-ENOTSUP,
                          "device %s cannot use memory of the host, which ZERO_OFFLOAD needs: "
                          "leave that out",
                          placer->site->device_name);
    int err = placer->site->dev_ops.pin(placer->site->dev, s[0].base, s[0].bytes + s[1].bytes);
    s->pinned = !err;
    return err;
}

void zero__tiers_unpin(struct zero__placer *placer)
{
    struct zero__slab *s = &placer->site->slabs[zero__slab(ZERO__T_CPU, 0)];

    if (s->pinned)
        placer->site->dev_ops.unpin(placer->site->dev, s[0].base, s[0].bytes + s[1].bytes);
    s->pinned = 0;
}

static int cpu_open(struct zero__placer *placer)
{
    uint64_t states = zero__whole_pages(placer->site->states.bytes[ZERO__T_CPU]);
    uint64_t transients =
        zero__whole_pages(placer->site->programs[0]->transient_bytes[ZERO__T_CPU]);
    void *base = NULL;

    if (!placer->site->tiers[ZERO__T_CPU].name || !(states + transients))
        return 0;
    int err = zero__store_open(placer, &placer->site->tiers[ZERO__T_CPU], states + transients, 0);
    if (!err)
        err =
            placer->site->tiers[ZERO__T_CPU].ops.map(placer->site->tiers[ZERO__T_CPU].store, &base);
    if (err)
        return err;
    placer->site->slabs[zero__slab(ZERO__T_CPU, 0)] =
        (struct zero__slab){.base = base, .bytes = states};
    placer->site->slabs[zero__slab(ZERO__T_CPU, 1)] =
        (struct zero__slab){.base = (uint8_t *)base + states, .bytes = transients};
    return cpu_pin(placer);
}

/* Addresses that nothing lies at, by which the race detector knows the disk's bytes. */
static int addresses_take(const struct zero__placer *placer, uint64_t bytes, void **base)
{
    void *at = zero__track_is_on(placer->run) ? zero__addresses_take(bytes) : NULL;

    if (zero__track_is_on(placer->run) && !at)
        return zero__fail(-errno, "no addresses for %llu bytes on the disk: %s",
                          (unsigned long long)bytes, strerror(errno));
    *base = at;
    return 0;
}

/*
 * What requests move is transients, and the bounce buffer, which is the last of the states: those
 * that stay in the host's memory need no part of what may be locked.
 */
static int disk_register(struct zero__placer *placer)
{
    const struct zero__slab *host = &placer->site->slabs[zero__slab(ZERO__T_CPU, 0)];
    struct zero__tier_store *t = &placer->site->tiers[ZERO__T_DISK];

    t->mr_first = placer->site->states.bounce == ZERO_NONE
                      ? host->bytes
                      : placer->site->states.buffers[placer->site->states.bounce].offset;
    uint64_t bytes = host[0].bytes + host[1].bytes - t->mr_first;
    return t->ops.reg(t->store, host->base + t->mr_first, bytes, ZERO_MEM_HOST, &t->mr);
}

static void small_pages_tell(const struct zero__placer *placer)
{
    const struct zero__slab *host = &placer->site->slabs[zero__slab(ZERO__T_CPU, 0)];
    const struct zero__tier_store *t = &placer->site->tiers[ZERO__T_DISK];
    uint64_t bytes = host[0].bytes + host[1].bytes - t->mr_first;
    const char *file = zero__pages_refused_by();

    if (bytes >= SMALL_TOLD && file && zero__job_local_rank(placer->site->job) == 0)
        zero__log(&placer->site->log, ZERO_LOG_WARN, "engine",
                  "this system gives programs no huge pages: the %.0f MiB by which %s is read and "
                  "written lie in small ones, with which it may have half of its speed; "
                  "echo madvise > %s (root) changes that",
                  (double)bytes / (1 << 20), t->name, file);
}

static int disk_open(struct zero__placer *placer)
{
    uint64_t states = placer->site->states.bytes[ZERO__T_DISK];
    uint64_t bytes =
        states + zero__whole_pages(placer->site->programs[0]->transient_bytes[ZERO__T_DISK]);
    struct zero__tier_store *t = &placer->site->tiers[ZERO__T_DISK];

    if (!t->name || !bytes)
        return 0;
    int err = zero__store_open(placer, t, bytes, 0);
    if (!err)
        err = disk_register(placer);
    if (err)
        return err;
    small_pages_tell(placer);
    void *base = NULL;
    err = addresses_take(placer, bytes, &base);
    if (err)
        return err;
    placer->site->slabs[zero__slab(ZERO__T_DISK, 0)] =
        (struct zero__slab){.base = base, .bytes = states};
    placer->site->slabs[zero__slab(ZERO__T_DISK, 1)] = (struct zero__slab){
        .base = base ? (uint8_t *)base + states : NULL, .bytes = bytes - states};
    return 0;
}

/* The transients lie behind the states, which stay where they are. */
static int disk_resize(struct zero__placer *placer, uint64_t transients)
{
    struct zero__slab *disk = &placer->site->slabs[zero__slab(ZERO__T_DISK, 0)];
    struct zero__tier_store *t = &placer->site->tiers[ZERO__T_DISK];
    void *base = NULL;
    int err = addresses_take(placer, disk->bytes + transients, &base);

    if (!err)
        err = zero__store_resize(placer->run, t, disk->bytes + transients);
    if (err) {
        if (base)
            munmap(base, disk->bytes + transients);
        return zero__while(err, "a new order of units, which has more in tier %s", t->name);
    }
    if (disk->base)
        munmap(disk->base, disk[0].bytes + disk[1].bytes);
    disk[0].base = base;
    disk[1] = (struct zero__slab){.base = base ? (uint8_t *)base + disk->bytes : NULL,
                                  .bytes = transients};
    return 0;
}

int zero__disk_grow(struct zero__placer *placer)
{
    uint64_t wanted = zero__whole_pages(placer->site->programs[0]->transient_bytes[ZERO__T_DISK]);
    struct zero__tier_store *t = &placer->site->tiers[ZERO__T_DISK];

    if (wanted <= placer->site->slabs[zero__slab(ZERO__T_DISK, 1)].bytes)
        return 0;
    if (!t->store)
        return zero__fail(-ENOMEM,
                          "the new order needs %llu bytes in tier %s, which was not needed at "
                          "commit: declare an order that keeps activations before zero_commit()",
                          (unsigned long long)wanted, t->name);
    zero__storage_stop(placer->run); /* one thread at a time in a store */
    int err = disk_resize(placer, wanted);
    int lost = zero__runner_is_left(placer->run) ? err : zero__storage_start(placer->run);
    if (lost) /* all that is fetched from now on would be waited for */
        zero__run_fail(placer->run, placer->site->rank, lost, "growing the reservation",
                       zero__error_text());
    return lost ? lost : err;
}

/* The store keeps its bytes, and may move them. */
static int cpu_resize(struct zero__placer *placer, uint64_t transients)
{
    struct zero__slab *states = &placer->site->slabs[zero__slab(ZERO__T_CPU, 0)];
    struct zero__tier_store *t = &placer->site->tiers[ZERO__T_CPU],
                            *disk = &placer->site->tiers[ZERO__T_DISK];
    void *base;
    int err = 0;

    if (disk->mr)
        err = disk->ops.unreg(disk->store, disk->mr);
    disk->mr = NULL;
    if (err)
        return err;
    zero__tiers_unpin(placer);
    /* Nothing lay there so far, or it grows. */
    if (t->store)
        err = t->ops.resize(t->store, states->bytes + transients);
    else
        err = zero__store_open(placer, t, states->bytes + transients, 0);
    if (!t->store)
        return err;
    int lost = t->ops.map(t->store, &base); /* also where it did not grow: it may have moved */
    if (lost)
        return err ? err : lost;
    *states = (struct zero__slab){.base = base, .bytes = states->bytes};
    placer->site->slabs[zero__slab(ZERO__T_CPU, 1)].base = states->base + states->bytes;
    if (err)
        return err;
    placer->site->slabs[zero__slab(ZERO__T_CPU, 1)] =
        (struct zero__slab){.base = states->base + states->bytes, .bytes = transients};
    err = cpu_pin(placer);
    if (err)
        return err;
    return disk->store ? disk_register(placer) : 0;
}

int zero__cpu_grow(struct zero__placer *placer, uint64_t transient_bytes)
{
    uint64_t bytes = zero__whole_pages(transient_bytes);

    if (bytes <= placer->site->slabs[zero__slab(ZERO__T_CPU, 1)].bytes)
        return 0;
    zero__storage_stop(placer->run); /* one thread at a time in a store */
    int err = cpu_resize(placer, bytes);
    return err ? err : zero__storage_start(placer->run);
}

int zero__tiers_open(struct zero__placer *placer)
{
    int err = cpu_open(placer);

    return err ? err : disk_open(placer);
}

void zero__tiers_close(struct zero__placer *placer)
{
    struct zero__slab *disk = &placer->site->slabs[zero__slab(ZERO__T_DISK, 0)];
    int stuck = 0;

    if (disk->base)
        munmap(disk->base, disk[0].bytes + disk[1].bytes);
    for (uint32_t i = ZERO__N_TIERS; i-- > 0;) {
        struct zero__tier_store *t = &placer->site->tiers[i];
        if (t->store && stuck) /* what a disk still does may end in it */
            zero__log(&placer->site->log, ZERO_LOG_WARN, "engine",
                      "%llu bytes of tier %s stay until the process ends",
                      (unsigned long long)(placer->site->slabs[zero__slab(i, 0)].bytes +
                                           placer->site->slabs[zero__slab(i, 1)].bytes),
                      t->name);
        else if (t->store && t->ops.close(t->store)) {
            stuck = 1;
            zero__log(&placer->site->log, ZERO_LOG_WARN, "engine", "tier %s: %s", t->name,
                      zero__error_text());
        }
        t->store = NULL;
        if (i != ZERO__T_DEVICE)
            placer->site->slabs[zero__slab(i, 0)] = placer->site->slabs[zero__slab(i, 1)] =
                (struct zero__slab){0};
    }
}
