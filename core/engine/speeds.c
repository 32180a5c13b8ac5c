/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the disk is for this job: it is measured once, by all ranks of a host at the same time
 * and in requests of a tile, as they will use it, before anything lies there, for a few seconds at
 * most; where that decides what will lie there, in a store of its own. The figures are kept
 * (base/kept.h) by a fingerprint of the machine, the folders and the ranks that share them.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <xxhash.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/kept.h"
#include "base/status.h"
#include "engine/runtime.h"

/* Of a rank, in each direction: a sixteenth of its store within these; disks have caches, too. */
#define LEAST_BYTES (UINT64_C(256) << 20)
#define MOST_BYTES (UINT64_C(2) << 30)
#define WALK_NS (2 * ZERO_SECOND) /* then no more is begun */
#define MOST_CQES 16
#define MOST_DEPTH 64
#define FIRST_BLOCKS 16 /* of memory, before there is any other */
#define POLL_NS (ZERO_SECOND / 4)

/* How much of a store is measured. */
static uint64_t sample_bytes(uint64_t store)
{
    uint64_t share = store / 16 > LEAST_BYTES ? store / 16 : LEAST_BYTES;

    return zero__least(store, zero__least(share, MOST_BYTES));
}

/* ---- What is known --------------------------------------------------------------------------- */

static uint64_t fingerprint(const struct zero_runtime *rt, uint64_t store)
{
    const struct zero_store_info *info = &rt->tiers[ZERO__T_DISK].info;
    const char *folders = zero__option_find(rt->options, "nvme_path"); /* NULL: another plugin */
    struct utsname u;
    char text[5000];

    memset(&u, 0, sizeof u);
    uname(&u);
    int n = snprintf(text, sizeof text, "%s %s %s %s %s %" PRIu64 " %u %d %u %" PRIu64, u.nodename,
                     u.machine, rt->tiers[ZERO__T_DISK].name, info->note, folders ? folders : "",
                     info->best_io, info->depth, rt->local_ranks, rt->recipe.tile,
                     sample_bytes(store) >> 20);
    return XXH3_64bits(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static int is_speed(double x)
{
    return isfinite(x) && x > 1e3 && x < 1e15;
}

static int speeds_known(const struct zero_runtime *rt, uint64_t store, struct speeds *s)
{
    double x[3];

    if (!zero__kept_find("speeds", fingerprint(rt, store), x, 3) || !is_speed(x[0]) ||
        !is_speed(x[1]) || !is_speed(x[2]))
        return 0;
    *s = (struct speeds){x[0], x[1], x[2]};
    return 1;
}

static void speeds_note(const struct zero_runtime *rt, uint64_t store, const struct speeds *s)
{
    int err = zero__kept_note("speeds", fingerprint(rt, store),
                              (double[]){s->read, s->write, s->both}, 3);

    if (err)
        zero__log(&rt->log, ZERO_LOG_DEBUG, "engine", "the speed of %s cannot be kept: %s",
                  rt->tiers[ZERO__T_DISK].name, strerror(-err));
}

/* ---- Measuring ------------------------------------------------------------------------------- */

struct walk {
    struct zero__job *job;
    struct tier *t;
    uint8_t *memory;
    uint64_t block, blocks; /* of the store: bytes of one, how many */
    uint32_t depth;         /* blocks of memory, all registered: one for each request */
};

/* Reads the first blocks and writes others, from `first_write` on, in turn. */
struct mix {
    uint64_t reads, writes, first_write;
    int64_t most_ns; /* 0: however long it takes */
};

/* How many were moved, and in which time. A store that ends nothing for a timeout has failed. */
static int walk_run(const struct walk *w, const struct mix *m, int64_t timeout_ns, uint64_t *moved,
                    double *seconds)
{
    uint64_t n = m->reads + m->writes, begun = 0, ended = 0, r = 0;
    int64_t began = zero__now_ns(), heard = began;
    uint32_t free[MOST_DEPTH], n_free = 0;

    while (n_free < w->depth)
        free[n_free] = n_free, n_free++;

    while (ended < n) {
        struct zero_cqe cqes[MOST_CQES];
        int k = 1;
        if (m->most_ns && zero__now_ns() - began > m->most_ns)
            n = begun;
        while (k > 0 && begun < n && n_free) {
            int is_read = r < m->reads && (begun % 2 == 0 || begun - r >= m->writes);
            uint64_t block = is_read ? r : m->first_write + begun - r;
            struct zero_io io = {.op = is_read ? ZERO_IO_READ : ZERO_IO_WRITE,
                                 .store_off = block * w->block,
                                 .buf = {w->t->mr, free[n_free - 1] * w->block, w->block},
                                 .user = free[n_free - 1]};
            k = w->t->ops.submit(w->t->store, &io, 1);
            if (k < 0)
                return k;
            r += k > 0 && is_read;
            begun += k > 0;
            n_free -= k > 0;
        }
        if (ended == n)
            break;
        k = w->t->ops.poll(w->t->store, cqes, MOST_CQES, k == 0 ? ZERO__STORE_FULL_NS : POLL_NS);
        if (k < 0)
            return k;
        for (int i = 0; i < k; i++) {
            if (cqes[i].res < 0)
                return (int)cqes[i].res;
            if (n_free == w->depth || cqes[i].user >= w->depth)
                return zero__fail(-EPROTO,
                                  "%s reported a completion that was never asked for: %llu",
                                  w->t->name, (unsigned long long)cqes[i].user);
            free[n_free++] = (uint32_t)cqes[i].user;
        }
        ended += (uint64_t)k;
        if (k > 0) {
            heard = zero__now_ns();
            zero__job_worked(w->job);
        }
        if (zero__now_ns() - heard > timeout_ns)
            return zero__fail(-ETIMEDOUT, "%s has not ended a request for %g s (ZERO_TIMEOUT)",
                              w->t->name, (double)timeout_ns / 1e9);
    }
    *moved = begun;
    *seconds = (double)(zero__now_ns() - began) / 1e9;
    return 0;
}

/* What no disk can leave out or make smaller. */
static void memory_fill(const struct walk *w)
{
    uint64_t x = 88172645463325252u;

    for (uint64_t i = 0; i < w->depth * w->block / sizeof x; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy(w->memory + i * sizeof x, &x, sizeof x);
    }
}

/*
 * What has never been written costs no reading, so writing comes first; then reading it, then both;
 * and last all is zero again, as a store is at first.
 */
static int measure(struct zero_runtime *rt, struct tier *t, uint64_t store, void *memory,
                   uint64_t span, struct speeds *s)
{
    uint64_t bytes = sample_bytes(store), n = 0, half = 0, k = 0;
    struct walk w = {.job = rt->job,
                     .t = t,
                     .memory = memory,
                     .block = (uint64_t)rt->recipe.tile * sizeof(float)};
    double written = 0, read = 0, both = 0, zeroed;

    if (w.block > span)
        w.block = span / ZERO_BUFFER_ALIGN * ZERO_BUFFER_ALIGN;
    w.blocks = w.block ? bytes / w.block : 0;
    if (w.blocks < 2) /* so little that it does not matter */
        return 0;
    w.depth = (uint32_t)zero__least(zero__least(span / w.block, MOST_DEPTH),
                                    w.t->info.depth ? w.t->info.depth : 1);
    zero__log(&rt->log, ZERO_LOG_INFO, "engine", "measuring how fast %s is", w.t->name);
    memory_fill(&w);
    int err = walk_run(&w, &(struct mix){0, w.blocks, 0, WALK_NS}, rt->timeout_ns, &n, &written);
    if (!err) {
        half = n / 2;
        s->write = (double)(n * w.block) / written;
        err = walk_run(&w, &(struct mix){n, 0, 0, WALK_NS}, rt->timeout_ns, &k, &read);
        s->read = (double)(k * w.block) / read;
    }
    if (!err) {
        err = walk_run(&w, &(struct mix){half, half, half, WALK_NS}, rt->timeout_ns, &k, &both);
        s->both = (double)(k * w.block) / both;
    }
    memset(w.memory, 0, w.depth * w.block);
    if (!err)
        err = walk_run(&w, &(struct mix){0, n, 0, 0}, rt->timeout_ns, &k, &zeroed);
    if (err || !is_speed(s->read) || !is_speed(s->write) || !is_speed(s->both))
        *s = (struct speeds){0};
    return err;
}

/* Collective: what the slowest rank has is every rank's. `have`: whether all have something. */
static int least(struct zero_runtime *rt, struct speeds *s, int *have)
{
    struct speeds *all = calloc((size_t)rt->ranks, sizeof *all);
    int err = all ? zero__job_allgather(rt->job, s, sizeof *s, all)
                  : zero__fail(-ENOMEM, "no memory for the speeds of %d ranks", rt->ranks);

    *have = 1;
    for (int i = 0; i < rt->ranks && !err; i++) {
        *have = *have && all[i].read > 0;
        s->read = fmin(s->read, all[i].read);
        s->write = fmin(s->write, all[i].write);
        s->both = fmin(s->both, all[i].both);
    }
    free(all);
    return err;
}

/*
 * What is known or was measured, of a store of so many bytes; `measure_it` is asked where not all
 * ranks know (NULL: this rank has no part in the disk). `before`: nothing has a place yet.
 */
static int speeds_settle(struct zero_runtime *rt, uint64_t store,
                         int (*measure_it)(struct zero_runtime *rt, uint64_t store,
                                           struct speeds *s),
                         int before)
{
    const char *name = rt->tiers[ZERO__T_DISK].name;
    struct speeds s = {0};
    int have = 0;

    if (measure_it)
        speeds_known(rt, store, &s);
    int err = least(rt, &s, &have);
    int measures = zero__option_int(rt->options, ZERO__OPT_OFFLOAD_MEASURE) != 0;
    int again = !have && before; /* it is asked for once more */
    if (!err && !measures && !again && rt->rank == 0)
        zero__log(&rt->log, ZERO_LOG_INFO, "engine", "ZERO_OFFLOAD_MEASURE=0: how fast %s is %s",
                  name, have ? "was measured before" : "is not known: nothing is forecast");
    if (!err && !have) { /* also where this rank does not measure: another one may */
        s = (struct speeds){0};
        int own = measure_it && measures ? measure_it(rt, store, &s) : 0;
        err = least(rt, &s, &have);
        err = own ? own : err;
        if (!err && have && measure_it && zero__job_local_rank(rt->job) == 0)
            speeds_note(rt, store, &s);
    }
    rt->speeds = have && !err ? s : (struct speeds){0};
    return err;
}

/* With the job's own store and memory. */
static int measure_own(struct zero_runtime *rt, uint64_t store, struct speeds *s)
{
    const struct slab *host = &rt->slabs[zero__slab(ZERO__T_CPU, 0)];
    struct tier *t = &rt->tiers[ZERO__T_DISK];

    return measure(rt, t, store, host[0].base + t->mr_first,
                   host[0].bytes + host[1].bytes - t->mr_first, s);
}

int zero__speeds_find(struct zero_runtime *rt)
{
    if (!rt->tiers[ZERO__T_DISK].name || rt->speeds.read > 0) /* on all ranks alike */
        return 0;
    return speeds_settle(rt, rt->slabs[zero__slab(ZERO__T_DISK, 0)].bytes,
                         rt->tiers[ZERO__T_DISK].store ? measure_own : NULL, 0);
}

static uint64_t first_span(const struct zero_runtime *rt)
{
    return FIRST_BLOCKS * (uint64_t)rt->recipe.tile * sizeof(float);
}

uint64_t zero__speeds_room(const struct zero_runtime *rt)
{
    return first_span(rt) + 2 * ZERO__COPIES_BYTES;
}

/* With a store and memory that are there for so long. */
static int measure_first(struct zero_runtime *rt, uint64_t store, struct speeds *s)
{
    const uint32_t mem = zero__device_is_host(rt) ? rt->device_mem : ZERO_MEM_PINNED;
    const uint64_t span = first_span(rt);
    struct tier t = rt->tiers[ZERO__T_DISK];
    void *memory = NULL;
    int err = rt->dev_ops.alloc(rt->dev, span, mem, &memory);

    if (err)
        return err;
    err = zero__store_open(rt, &t, sample_bytes(store));
    if (!err)
        err = t.ops.reg(t.store, memory, span, ZERO_MEM_HOST, &t.mr);
    if (!err)
        err = measure(rt, &t, store, memory, span, s);
    if (t.mr && t.ops.unreg(t.store, t.mr) && !err)
        err = zero__fail(-EIO, "%s does not let go of memory", t.name);
    if (t.store && t.ops.close(t.store)) /* what it still does may end in the memory */
        return err ? err : zero__fail(-EIO, "%s does not close", t.name);
    rt->dev_ops.release(rt->dev, memory, span, mem);
    return err;
}

int zero__speeds_foresee(struct zero_runtime *rt, uint64_t bytes)
{
    if (rt->speeds.read > 0)
        return 0;
    return speeds_settle(rt, bytes, measure_first, 1);
}
