/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of a store read and written with so many under way, and compared. A page of the store
 * holds the random bytes of a page of memory, its own number at the beginning and, at the end, when
 * it was written: what is old, or lies in another place, is found.
 *
 * No block is under way twice, so its content is known whatever the order of ends.
 */
#include "config.h"

#include "tier.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/status.h"
#include "machine/clock.h"
#include "machine/line.h"
#include "tools/bench/measure/watch.h"

#define END_WORD (OFFLOAD_PAGE / sizeof(uint64_t) - 1)

struct walk {
    struct offload_tier *t;
    const struct offload_walk *w;
    uint64_t n_blocks, next_read, next_write;
    uint64_t begun, ended; /* blocks */
    uint32_t free[OFFLOAD_MOST_DEPTH], n_free;
    struct zero_io todo[OFFLOAD_MOST_DEPTH]; /* not accepted so far */
    uint32_t n_todo;
    int64_t heard_ns;
    int wrong; /* what is under way still ends */
};

static void stamp(struct offload_tier *t, uint64_t block, uint64_t bytes, char *at)
{
    uint64_t first = block * bytes / OFFLOAD_PAGE, here = (uint64_t)(at - t->memory) / OFFLOAD_PAGE;
    uint64_t when = ++t->n_written << 32;

    for (uint64_t i = 0; i < bytes / OFFLOAD_PAGE; i++) {
        uint64_t *page = (uint64_t *)(void *)(at + i * OFFLOAD_PAGE);
        page[0] = first + i;
        page[END_WORD] = t->written[first + i] = when | (here + i);
    }
}

/* Of pages that were not written since `seen`. */
static int compare(const struct offload_tier *t, uint64_t block, uint64_t bytes, const char *at,
                   uint64_t seen)
{
    uint64_t first = block * bytes / OFFLOAD_PAGE;

    for (uint64_t i = 0; i < bytes / OFFLOAD_PAGE; i++) {
        uint64_t written = t->written[first + i];
        const char *want = t->memory + (uint32_t)written * (uint64_t)OFFLOAD_PAGE;
        const uint64_t *page = (const uint64_t *)(const void *)(at + i * OFFLOAD_PAGE);
        if (written >> 32 > seen)
            continue;
        if (page[0] != first + i || page[END_WORD] != written)
            return zero__fail(-EBADMSG,
                              "%s: at %" PRIu64 " there is what belongs to %" PRIu64
                              ", written %s it should be",
                              t->name, (first + i) * OFFLOAD_PAGE, page[0] * OFFLOAD_PAGE,
                              page[END_WORD] == written ? "when" : "at another time than");
        if (memcmp(page + 1, want + sizeof *page, OFFLOAD_PAGE - 2 * sizeof *page) != 0)
            return zero__fail(-EBADMSG, "%s: the %u bytes at %" PRIu64 " are not what was written",
                              t->name, OFFLOAD_PAGE, (first + i) * OFFLOAD_PAGE);
    }
    return 0;
}

/* The next block that is not under way: there are more blocks than may be. */
static uint64_t choose(struct walk *k, bool reads)
{
    uint64_t *next = reads ? &k->next_read : &k->next_write, block;

    if (k->w->shape.random)
        *next = offload_random(&k->t->random) % k->n_blocks;
    while (k->t->busy[*next])
        *next = (*next + 1) % k->n_blocks;
    block = *next;
    *next = (block + 1) % k->n_blocks;
    k->t->busy[block] = true;
    return block;
}

static char *place(const struct offload_tier *t, const struct offload_walk *w, uint32_t slot,
                   bool reads)
{
    return t->memory + (reads ? t->memory_bytes / 2 : 0) + slot * w->shape.block;
}

static void begin(struct walk *k)
{
    const struct offload_walk *w = k->w;
    struct offload_tier *t = k->t;
    uint32_t slot = k->free[--k->n_free];
    bool reads = w->shape.op == OFFLOAD_READ || (w->shape.op == OFFLOAD_MIXED && k->begun % 2);
    uint64_t block = choose(k, reads);
    char *at = place(t, w, slot, reads);

    t->slots[slot] =
        (struct offload_slot){.reads = reads, .block = block, .seen = t->n_written, .holds = reads};
    if (!reads && t->o->check)
        stamp(t, block, w->shape.block, at);
    k->todo[k->n_todo++] =
        (struct zero_io){.op = reads ? ZERO_IO_READ : ZERO_IO_WRITE,
                         .store_off = block * w->shape.block,
                         .buf = {t->mr, (uint64_t)(at - t->memory), w->shape.block},
                         .user = slot};
    k->begun++;
}

static int end(struct walk *k, const struct zero_cqe *c)
{
    const struct offload_walk *w = k->w;
    struct offload_tier *t = k->t;
    const struct offload_slot *s = &t->slots[c->user % OFFLOAD_MOST_DEPTH];

    if (c->user >= w->shape.depth || !t->busy[s->block] ||
        (c->res >= 0 && (uint64_t)c->res != w->shape.block))
        return zero__fail(-EPROTO, "%s reported an end that makes no sense: %" PRIu64 ", %" PRId64,
                          t->name, c->user, c->res);
    t->busy[s->block] = false;
    k->free[k->n_free++] = (uint32_t)c->user;
    k->ended++;
    if (k->wrong)
        return 0;
    if (c->res < 0)
        k->wrong = (int)c->res;
    else if (w->compare && s->reads)
        k->wrong =
            compare(t, s->block, w->shape.block, place(t, w, (uint32_t)c->user, true), s->seen);
    return 0;
}

static int turn(struct walk *k)
{
    struct offload_tier *t = k->t;
    struct zero_cqe cqes[64];
    int n = 0;

    if (k->n_todo)
        n = t->ops->submit(t->store, k->todo, k->n_todo);
    if (n < 0)
        return n;
    k->n_todo -= (uint32_t)n;
    memmove(k->todo, k->todo + n, k->n_todo * sizeof *k->todo);
    n = t->ops->poll(t->store, cqes, 64, ZERO_SECOND);
    if (n < 0)
        return n;
    int64_t now = zero__now_ns();
    if (!n && now - k->heard_ns > t->timeout_ns)
        return zero__fail(-ETIMEDOUT,
                          "%s: nothing has ended for %g s (ZERO_TIMEOUT): is the disk alive? A "
                          "slow one needs a larger ZERO_TIMEOUT",
                          t->name, (double)t->timeout_ns * 1e-9);
    k->heard_ns = n ? now : k->heard_ns;
    int err = 0;
    for (int i = 0; i < n && !err; i++)
        err = end(k, &cqes[i]);
    return err;
}

/* With the kernel's threads that work for us. */
static double cpu_seconds(void)
{
    return bench_used_s(RUSAGE_SELF);
}

/* Bytes that this process had read from and written to disks. */
static uint64_t disk_bytes(void)
{
    const char *path = "/proc/self/io";
    uint64_t in, out;

    if (!zero__number_read(path, "read_bytes:", &in) ||
        !zero__number_read(path, "write_bytes:", &out))
        return OFFLOAD_UNKNOWN;
    return in + out;
}

/* What is still there of what was read. */
static int compare_last(const struct offload_tier *t, const struct offload_walk *w)
{
    int err = 0;

    for (uint32_t slot = 0; slot < w->shape.depth && !err; slot++) {
        const struct offload_slot *s = &t->slots[slot];
        if (s->holds)
            err = compare(t, s->block, w->shape.block, place(t, w, slot, true), s->seen);
    }
    return err;
}

static bool may_begin(const struct walk *k)
{
    if (k->wrong || !k->n_free)
        return false;
    if (k->w->until_ns == ZERO_NEVER)
        return k->begun < k->n_blocks;
    return k->begun == 0 || zero__now_ns() < k->w->until_ns;
}

int offload_walk(struct offload_tier *t, const struct offload_walk *w,
                 struct offload_sample *sample)
{
    struct walk k = {.t = t, .w = w, .n_blocks = t->o->bytes / w->shape.block};
    uint64_t disk = disk_bytes();
    double cpu = cpu_seconds();
    int err = 0;

    memset(t->slots, 0, OFFLOAD_MOST_DEPTH * sizeof *t->slots);
    memset(t->busy, 0, k.n_blocks * sizeof *t->busy);
    for (uint32_t i = w->shape.depth; i-- > 0;)
        k.free[k.n_free++] = i;
    k.next_write = w->shape.op == OFFLOAD_MIXED ? k.n_blocks / 2 : 0;
    int64_t start = k.heard_ns = zero__now_ns();
    while (!err) {
        while (may_begin(&k))
            begin(&k);
        if (k.ended == k.begun)
            break;
        err = turn(&k);
    }
    err = err ? err : k.wrong;
    if (!err && sample) {
        *sample = (struct offload_sample){.seconds = (double)(zero__now_ns() - start) * 1e-9,
                                          .cpu_seconds = cpu_seconds() - cpu,
                                          .bytes = k.ended * w->shape.block,
                                          .disk_bytes = disk_bytes()};
        if (sample->disk_bytes != OFFLOAD_UNKNOWN)
            sample->disk_bytes -= disk;
    }
    return !err && t->o->check && !w->compare ? compare_last(t, w) : err;
}

void offload_copy(struct offload_tier *t, const struct offload_walk *w, enum bench_way way,
                  struct offload_sample *sample)
{
    struct walk k = {.t = t, .w = w, .n_blocks = t->o->bytes / w->shape.block};
    double cpu = cpu_seconds();
    int64_t start = zero__now_ns();

    memset(t->busy, 0, k.n_blocks * sizeof *t->busy);
    k.next_write = w->shape.op == OFFLOAD_MIXED ? k.n_blocks / 2 : 0;
    do {
        bool reads = w->shape.op == OFFLOAD_READ || (w->shape.op == OFFLOAD_MIXED && k.begun % 2);
        uint64_t block = choose(&k, reads);
        char *at = place(t, w, (uint32_t)(k.begun++ % w->shape.depth), reads);
        char *there = (char *)t->map + block * w->shape.block;
        t->busy[block] = false;
        if (!reads && t->o->check)
            stamp(t, block, w->shape.block, at);
        bench_loop_copy(reads ? at : there, reads ? there : at, w->shape.block, way);
    } while (zero__now_ns() < w->until_ns);
    *sample = (struct offload_sample){.seconds = (double)(zero__now_ns() - start) * 1e-9,
                                      .cpu_seconds = cpu_seconds() - cpu,
                                      .bytes = k.begun * w->shape.block,
                                      .disk_bytes = OFFLOAD_UNKNOWN};
}

static struct offload_walk whole(const struct offload_tier *t, enum offload_op op)
{
    uint64_t block = t->o->bytes % OFFLOAD_FILL_BLOCK ? OFFLOAD_PAGE : OFFLOAD_FILL_BLOCK;
    uint64_t n = t->o->bytes / block;

    return (struct offload_walk){
        .shape = {.op = op,
                  .block = block,
                  .depth = n < OFFLOAD_FILL_DEPTH ? (unsigned)n : OFFLOAD_FILL_DEPTH},
        .until_ns = ZERO_NEVER,
        .compare = true};
}

int offload_fill(struct offload_tier *t)
{
    const struct offload_walk w = whole(t, OFFLOAD_WRITE);

    for (uint64_t i = 0; i < t->o->bytes / OFFLOAD_PAGE; i++)
        t->written[i] = 0;
    return offload_walk(t, &w, NULL);
}

int offload_compare(struct offload_tier *t)
{
    const struct offload_walk w = whole(t, OFFLOAD_READ);

    t->memory[OFFLOAD_PAGE / 2] ^= t->o->spoil; /* what some page was written from */
    int err = offload_walk(t, &w, NULL);
    t->memory[OFFLOAD_PAGE / 2] ^= t->o->spoil;
    return err;
}
