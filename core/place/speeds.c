/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the disk is for this job: it is measured once, by all ranks of a host at the same time
 * and in requests of a tile, as they will use it, before anything lies there, for a few seconds at
 * most; where that decides what will lie there, in a store of its own, within what the disk and the
 * limits of memory leave. The figures are kept (base/kept.h) by a fingerprint of the machine, the
 * disks, the way to them as an open store tells it, and the ranks that share them.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/checked.h"
#include "base/kept.h"
#include "base/status.h"
#include "place/placer.h"
#include "place/room.h"
#include "place/speeds.h"

/* Of a rank, in each direction: a sixteenth of its store within these; disks have caches, too. */
#define LEAST_BYTES (UINT64_C(256) << 20)
#define MOST_BYTES (UINT64_C(2) << 30)
#define FIRST_BLOCKS 16 /* of memory at most, before there is any other */
#define FIRST_LEAST 2

static uint64_t sample_bytes(uint64_t store)
{
    uint64_t share = store / 16 > LEAST_BYTES ? store / 16 : LEAST_BYTES;

    return zero__least(store, zero__least(share, MOST_BYTES));
}

/* Large samples tell the same, small ones not: disks have caches. */
static uint32_t sample_kind(uint64_t bytes)
{
    uint32_t kind = 0;

    for (bytes = zero__least(bytes, LEAST_BYTES) >> 24; bytes; bytes /= 2)
        kind++;
    return kind;
}

/* Each folder and its file system: another disk may be mounted there tomorrow. */
static uint64_t folders_hash(const struct zero__placer *placer)
{
    const char *at =
        zero__option_find(placer->site->options, "nvme_path"); /* NULL: another plugin */
    uint64_t hash = 0;

    while (at && *at) {
        size_t n = strcspn(at, ":");
        char folder[4096];
        struct stat st = {0};
        snprintf(folder, sizeof folder, "%.*s", (int)zero__least(n, sizeof folder - 1), at);
        uint64_t device = stat(folder, &st) ? 0 : (uint64_t)st.st_dev;
        hash = XXH3_64bits_withSeed(&device, sizeof device, XXH3_64bits_withSeed(at, n, hash));
        at += n + (at[n] == ':');
    }
    return hash;
}

/* t: with what its open store says of itself, whichever that is. */
static uint64_t fingerprint(const struct zero__placer *placer, const struct zero__tier_store *t,
                            const struct sample *x)
{
    int is_little = x->memory < FIRST_BLOCKS / 2 * zero__block_bytes(placer, t);

    return zero__kept_key("%s %s %x %" PRIx64 " %" PRIu64 " %u %d %u %u %d", t->name, t->info.note,
                          t->info.flags, folders_hash(placer), t->info.best_io, t->info.depth,
                          placer->site->local_ranks, placer->site->recipe.tile,
                          sample_kind(x->bytes), is_little);
}

static int speeds_known(const struct zero__placer *placer, const struct zero__tier_store *t,
                        const struct sample *x, struct zero__speeds *s)
{
    double kept[3] = {0};
    int is_kept = zero__kept_find("speeds", fingerprint(placer, t, x), kept, 3);
    const struct zero__speeds found = {kept[0], kept[1], kept[2]};

    if (!is_kept || !zero__are_speeds(&found))
        return 0;
    *s = found;
    return 1;
}

static void speeds_note(const struct zero__placer *placer, const struct zero__tier_store *t,
                        const struct sample *x, const struct zero__speeds *s)
{
    int err = zero__kept_note("speeds", fingerprint(placer, t, x),
                              (double[]){s->read, s->write, s->both}, 3);

    if (err)
        zero__log(&placer->site->log, ZERO_LOG_DEBUG, "engine",
                  "the speed of %s cannot be kept: %s", t->name, strerror(-err));
}

int zero__figures_least(struct zero__placer *placer, uint32_t n, double *own, double *hosts)
{
    struct {
        double x[ZERO__FIGURES];
        int64_t host;
    } mine = {.host = zero__job_host(placer->site->job)}, *all;
    int err;

    memcpy(mine.x, own, n * sizeof *own);
    memcpy(hosts, own, n * sizeof *own);
    all = zero__ranks_ask(placer->site, &mine, sizeof mine, &err);
    for (int i = 0; i < placer->site->ranks && !err; i++)
        for (uint32_t k = 0; k < n; k++) {
            own[k] = fmin(own[k], all[i].x[k]);
            if (all[i].host == mine.host)
                hosts[k] = fmin(hosts[k], all[i].x[k]);
        }
    free(all);
    return err;
}

/* A rank without a store has no part in it; 0: no rank has one. */
static double known(double x)
{
    return isinf(x) ? 0 : x;
}

/* What the slowest rank has is every rank's; `hosts`: what that of this host has. */
static int least(struct zero__placer *placer, struct zero__speeds *s, struct zero__speeds *hosts)
{
    double own[ZERO__FIGURES] = {s->read, s->write, s->both}, here[ZERO__FIGURES];
    int err = zero__figures_least(placer, ZERO__FIGURES, own, here);

    *s = (struct zero__speeds){known(own[0]), known(own[1]), known(own[2])};
    *hosts = (struct zero__speeds){known(here[0]), known(here[1]), known(here[2])};
    return err;
}

/*
 * What is known or was measured of such a sample; `measure_it` is asked where not all ranks know
 * (NULL: this rank has no store; it has none to offer where nothing has a place yet, `before`).
 */
static int speeds_settle(struct zero__placer *placer, struct zero__tier_store *t,
                         const struct sample *x,
                         int (*measure_it)(struct zero__placer *placer, struct zero__tier_store *t,
                                           const struct sample *x, struct zero__speeds *s),
                         int before)
{
    const struct zero__speeds any = {INFINITY, INFINITY, INFINITY};
    const struct zero__speeds none = measure_it || before ? (struct zero__speeds){0} : any;
    struct zero__speeds s = none, hosts;

    if (measure_it)
        speeds_known(placer, t, x, &s);
    int err = least(placer, &s, &hosts), have = s.read > 0;
    int measures = zero__option_int(placer->site->options, ZERO__OPT_OFFLOAD_MEASURE) != 0;
    int again = !have && before; /* it is asked for once more */
    if (!err && !measures && !again && placer->site->rank == 0)
        zero__log(&placer->site->log, ZERO_LOG_INFO, "engine",
                  "ZERO_OFFLOAD_MEASURE=0: how fast %s is %s", t->name,
                  have ? "was measured before" : "is not known: nothing is forecast");
    if (!err && !have) { /* also where this rank does not measure: another one may */
        s = none;
        int own = measure_it && measures ? measure_it(placer, t, x, &s) : 0;
        err = least(placer, &s, &hosts);
        err = own ? own : err;
        have = s.read > 0;
        if (!err && hosts.read > 0 && measure_it && zero__job_local_rank(placer->site->job) == 0)
            speeds_note(placer, t, x, &hosts); /* another host's job may be without a slower one */
    }
    placer->speeds = have && !err ? s : (struct zero__speeds){0};
    return err;
}

/* With the job's own store and memory. */
static int measure_own(struct zero__placer *placer, struct zero__tier_store *t,
                       const struct sample *x, struct zero__speeds *s)
{
    const struct zero__slab *host = &placer->site->slabs[zero__slab(ZERO__T_CPU, 0)];

    return zero__disk_measure(placer, t, x, host->base + t->mr_first, s);
}

int zero__speeds_find(struct zero__placer *placer)
{
    const struct zero__slab *host = &placer->site->slabs[zero__slab(ZERO__T_CPU, 0)];
    const struct zero__slab *disk = &placer->site->slabs[zero__slab(ZERO__T_DISK, 0)];
    struct zero__tier_store *t = &placer->site->tiers[ZERO__T_DISK];
    struct sample x = {sample_bytes(disk[0].bytes + disk[1].bytes),
                       host[0].bytes + host[1].bytes - t->mr_first};

    if (!t->name || placer->speeds.read > 0) /* on all ranks alike */
        return 0;
    return speeds_settle(placer, t, &x, t->store ? measure_own : NULL, 0);
}

/* A choice can be made without; a disk that fails will do so again. */
static void trial_failed(struct zero__placer *placer, const struct zero__tier_store *t)
{
    zero__log(&placer->site->log, ZERO_LOG_INFO, "engine",
              "%s is not measured before it is chosen: %s", t->name, zero__error_text());
}

/* Where it does not close, what it still does may end in memory that it knows. */
static int trial_close(struct zero__tier_store *t)
{
    int stays = t->store && t->ops.close(t->store);

    t->store = NULL;
    return stays ? zero__fail(-EIO, "%s does not close", t->name) : 0;
}

/* It wears the disk, too. */
static void trial_count(struct zero__placer *placer, const struct zero__tier_store *t)
{
    struct zero_store_info info = {.size = sizeof info};

    if (t->ops.info(t->store, &info))
        return;
    zero__storage_tried(placer->run, info.bytes_read, info.bytes_written);
}

/* With a store and memory that are there for so long. */
static int trial_run(struct zero__placer *placer, struct zero__tier_store *t,
                     const struct sample *x, struct zero__speeds *s)
{
    const uint32_t mem =
        zero__device_is_host(placer->site) ? placer->site->device_mem : ZERO_MEM_PINNED;
    void *memory = NULL;
    int err, stays;

    if (x->memory < FIRST_LEAST * zero__block_bytes(placer, t))
        return zero__fail(-ENOMEM, "the limits leave no memory for it");
    err = placer->site->dev_ops.alloc(placer->site->dev, x->memory, mem, &memory);
    if (err)
        return err;
    err = zero__store_resize(placer->run, t, x->bytes);
    if (!err)
        err = t->ops.reg(t->store, memory, x->memory, ZERO_MEM_HOST, &t->mr);
    if (!err)
        err = zero__disk_measure(placer, t, x, memory, s);
    if (zero__runner_is_left(placer->run)) /* whoever has not come back may still use the memory */
        return err;
    if (!err && t->ops.unreg(t->store, t->mr))
        err = zero__fail(-EIO, "%s does not let go of memory", t->name);
    if (!err) /* a system may free what is closed a moment later, and the job wants the room now */
        err = zero__store_resize(placer->run, t, ZERO_BUFFER_ALIGN);
    if (zero__runner_is_left(placer->run))
        return err;
    trial_count(placer, t);
    stays = trial_close(t);
    if (!stays)
        placer->site->dev_ops.release(placer->site->dev, memory, x->memory, mem);
    return err ? err : stays;
}

static int measure_first(struct zero__placer *placer, struct zero__tier_store *t,
                         const struct sample *x, struct zero__speeds *s)
{
    int err = trial_run(placer, t, x, s);

    if (!err || zero__runner_is_left(placer->run))
        return err;
    *s = (struct zero__speeds){0};
    trial_failed(placer, t);
    return 0;
}

int zero__speeds_foresee(struct zero__placer *placer, const struct zero__room *room, uint64_t bytes)
{
    struct sample x = {zero__least(sample_bytes(bytes), room->tier[ZERO__T_DISK] / 2), 0};
    uint64_t beside = zero__disk_beside((uint32_t)room->bytes_per_mib, x.bytes);
    uint64_t lent = zero__room_lends(room, ZERO__T_CPU);
    struct zero__tier_store t = placer->site->tiers[ZERO__T_DISK];

    if (placer->speeds.read > 0)
        return 0;
    int err = zero__store_open(placer, &t, ZERO_BUFFER_ALIGN, 1); /* it tells what it is like */
    if (zero__runner_is_left(placer->run))
        return err;
    if (err) {
        trial_failed(placer, &t);
        trial_close(&t);
        t.info = placer->site->tiers[ZERO__T_DISK].info;
    }
    x.memory = zero__least(lent > beside ? (lent - beside) / zero__block_bytes(placer, &t) : 0,
                           FIRST_BLOCKS) *
               zero__block_bytes(placer, &t);
    err = speeds_settle(placer, &t, &x, t.store ? measure_first : NULL, 1);
    if (!zero__runner_is_left(placer->run) && trial_close(&t))
        trial_failed(placer, &t);
    return err;
}
