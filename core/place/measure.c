/* SPDX-License-Identifier: Apache-2.0 */
/* Measures a store: blocks are written, read and both, as many at a time as pay. */
#include "place/speeds.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/status.h"
#include "machine/clock.h"
#include "place/placer.h"

#define WALK_NS (2 * ZERO_SECOND) /* then no more is begun */
#define MOST_CQES 16
#define TOLD_BYTES (UINT64_C(64) << 20) /* less is a matter of a moment */
#define MOST_DEPTH 64

uint64_t zero__block_bytes(const struct zero__placer *placer, const struct zero__tier_store *t)
{
    uint64_t tile =
        zero__least((uint64_t)placer->site->recipe.tile * sizeof(float), zero__io_most(&t->info));
    uint64_t best = t->info.best_io / ZERO_BUFFER_ALIGN * ZERO_BUFFER_ALIGN;

    return best ? zero__least(tile, best) : tile;
}

static int is_speed(double x)
{
    return isfinite(x) && x > 1e3 && x < 1e15;
}

int zero__are_speeds(const struct zero__speeds *s)
{
    return is_speed(s->read) && is_speed(s->write) && is_speed(s->both);
}

struct walk {
    struct zero__placer *placer;
    struct zero__tier_store t;
    uint8_t *memory;
    uint64_t block, blocks; /* of the store: bytes of one, how many */
    uint32_t depth;         /* blocks of memory, all registered: one for each request */
    int is_trial;           /* the store is there for this alone */
};

/* Reads the first blocks and writes others, from `first_write` on, in turn. */
struct mix {
    uint64_t reads, writes, first_write;
};

/* What a store has moved so far; one that does not say has moved nothing. */
static uint64_t moved_so_far(const struct zero__tier_store *t)
{
    struct zero_store_info info = {.size = sizeof info};

    return t->ops.info(t->store, &info) ? 0 : info.bytes_read + info.bytes_written;
}

_Static_assert(MOST_DEPTH <= 64, "requests under way have a bit each");

/* in_store: those. */
static int end_check(const struct walk *w, const struct zero_cqe *c, uint64_t in_store)
{
    if (c->user >= MOST_DEPTH || !(in_store >> c->user & 1))
        return zero__fail(-EPROTO,
                          "%s ended a request that is not under way, tag %llu: try it "
                          "with zero check offload",
                          w->t.name, (unsigned long long)c->user);
    if (c->res < 0)
        return (int)c->res;
    if ((uint64_t)c->res != w->block)
        return zero__fail(-EPROTO,
                          "%s ended a request after %lld bytes of %llu, without an "
                          "error: try it with zero check offload",
                          w->t.name, (long long)c->res, (unsigned long long)w->block);
    return 0;
}

static int nothing_moved(const struct walk *w, int64_t timeout_ns)
{
    return zero__fail(-ETIMEDOUT,
                      "%s has moved nothing for %g s (ZERO_TIMEOUT): is the disk "
                      "alive? A slow one needs a larger ZERO_TIMEOUT",
                      w->t.name, (double)timeout_ns / 1e9);
}

/*
 * How many were moved, and in which time. A store that for a timeout ends nothing, and moves
 * nothing of what it is at, has failed.
 */
static int walk_run(const struct walk *w, const struct mix *m, int64_t timeout_ns, uint64_t *moved,
                    double *seconds)
{
    uint64_t n = m->reads + m->writes, begun = 0, ended = 0, r = 0, before = 0;
    int64_t began = zero__now_ns(), heard = began;
    uint32_t free[MOST_DEPTH], n_free = 0;
    uint64_t in_store = 0; /* a bit for each */

    while (n_free < w->depth)
        free[n_free] = n_free, n_free++;

    while (ended < n) {
        struct zero_cqe cqes[MOST_CQES];
        int k = 1;
        if (zero__now_ns() - began > WALK_NS)
            n = begun;
        while (k > 0 && begun < n && n_free) {
            int is_read = r < m->reads && (begun % 2 == 0 || begun - r >= m->writes);
            uint64_t block = is_read ? r : m->first_write + begun - r;
            struct zero_io io = {.op = is_read ? ZERO_IO_READ : ZERO_IO_WRITE,
                                 .store_off = block * w->block,
                                 .buf = {w->t.mr, free[n_free - 1] * w->block, w->block},
                                 .user = free[n_free - 1]};
            k = zero__store_submit(w->placer->run, &w->t, &io, 1);
            if (k < 0)
                return k;
            r += k > 0 && is_read;
            begun += k > 0;
            if (k > 0)
                in_store |= UINT64_C(1) << free[--n_free];
        }
        if (ended == n)
            break;
        k = zero__store_poll(w->placer->run, &w->t, cqes, MOST_CQES,
                             k == 0 ? ZERO__STORE_FULL_NS : ZERO__STORE_POLL_NS);
        if (k < 0)
            return k;
        for (int i = 0; i < k; i++) {
            int err = end_check(w, &cqes[i], in_store);
            if (err)
                return err;
            in_store &= ~(UINT64_C(1) << cqes[i].user);
            free[n_free++] = (uint32_t)cqes[i].user;
        }
        ended += (uint64_t)k;
        uint64_t so_far = moved_so_far(&w->t);
        if (k > 0 || so_far > before) {
            heard = zero__now_ns();
            zero__job_worked(w->placer->site->job);
        }
        before = so_far;
        if (zero__now_ns() - heard > timeout_ns)
            return nothing_moved(w, timeout_ns);
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

/* It takes seconds and wears the disk: whoever waits for it should know, once for each host. */
static void measure_tell(const struct zero__placer *placer, const struct walk *w)
{
    const uint64_t bytes = w->blocks * w->block;
    const int long_one = bytes >= TOLD_BYTES && zero__job_local_rank(placer->site->job) == 0;
    const int walks = w->is_trial ? 3 : 4; /* see store_clear() */
    const double times = w->is_trial ? 1.5 : 2.5;

    zero__log(
        &placer->site->log, long_one ? ZERO_LOG_WARN : ZERO_LOG_INFO, "engine",
        "measuring how fast %s is, once: up to %d s, and %.3g GB written by each rank at most "
        "(ZERO_OFFLOAD_MEASURE=0 does without, and without a forecast)",
        w->t.name, (int)(walks * WALK_NS / ZERO_SECOND), times * (double)bytes / 1e9);
}

/*
 * All is zero again, as a store is at first: its first n blocks, which were written. It could as
 * well shrink and grow, in a moment and without wear, but then another job may take the room.
 */
static int store_clear(const struct walk *w, uint64_t n, int64_t timeout_ns)
{
    int64_t heard = zero__now_ns();
    uint64_t done = 0, k = 0;
    double seconds;
    int err = 0;

    memset(w->memory, 0, w->depth * w->block);
    for (; done < n && !err; done += k) { /* a walk ends after a while, whatever the store takes */
        err = walk_run(w, &(struct mix){0, n - done, done}, timeout_ns, &k, &seconds);
        if (k > 0)
            heard = zero__now_ns();
        else if (!err && zero__now_ns() - heard > timeout_ns)
            err = nothing_moved(w, timeout_ns);
    }
    return err;
}

struct measuring {
    struct walk w;
    struct zero__speeds s;
};

/*
 * What has never been written costs no reading, so writing comes first; then reading it, then both,
 * which writes half of the same once more; and last the store is as it was, where it is not that of
 * a trial.
 */
static int measure_run(void *arg)
{
    struct measuring *m = arg;
    const struct walk *w = &m->w;
    const int64_t timeout_ns = w->placer->site->timeout_ns;
    double written = 0, read = 0, both = 0;
    uint64_t n = 0, half = 0, k = 0;

    zero__unsay();
    memory_fill(w);
    int err = walk_run(w, &(struct mix){0, w->blocks, 0}, timeout_ns, &n, &written);
    if (!err) {
        half = n / 2;
        m->s.write = (double)(n * w->block) / written;
        err = walk_run(w, &(struct mix){n, 0, 0}, timeout_ns, &k, &read);
        m->s.read = (double)(k * w->block) / read;
    }
    if (!err) {
        err = walk_run(w, &(struct mix){half, half, half}, timeout_ns, &k, &both);
        m->s.both = (double)(k * w->block) / both;
    }
    if (!err && !w->is_trial)
        err = store_clear(w, n, timeout_ns);
    memset(w->memory, 0, w->depth * w->block);
    return err ? zero__unsaid(err, w->t.name) : 0;
}

int zero__disk_measure(struct zero__placer *placer, const struct zero__tier_store *t,
                       const struct sample *x, void *memory, struct zero__speeds *s)
{
    struct measuring m = {
        .w = {.placer = placer, .t = *t, .memory = memory, .block = zero__block_bytes(placer, t)},
        .s = *s};
    struct walk *w = &m.w;

    if (w->block > x->memory)
        w->block = x->memory / ZERO_BUFFER_ALIGN * ZERO_BUFFER_ALIGN;
    w->blocks = w->block ? x->bytes / w->block : 0;
    if (w->blocks < 2) /* so little that it does not matter */
        return 0;
    w->depth = (uint32_t)zero__least(zero__least(x->memory / w->block, MOST_DEPTH),
                                     t->info.depth ? t->info.depth : 1);
    w->is_trial = t != &placer->site->tiers[ZERO__T_DISK];
    measure_tell(placer, w);
    int err = zero__store_call(placer->run, measure_run, &m, sizeof m);
    *s = err || !zero__are_speeds(&m.s) ? (struct zero__speeds){0} : m.s;
    return err;
}
