/* SPDX-License-Identifier: Apache-2.0 */
/* What is written is what is read. */
#include <stdlib.h>
#include <string.h>

#include <zero/zero.h>

#include "store.h"
#include "values.h"

#define ROUNDS 60
#define BATCH 6
#define PARTS 16u /* of a store, each a request */
#define TURNS 8u

/*
 * Blocks are of the declared alignment; a block holds what its key makes, 0: nothing was written.
 * A batch writes up to BATCH extents that do not overlap, each from a part of the memory of its
 * own; the next one reads all of them, cut otherwise, and random others.
 */
struct extents {
    struct check_store s;
    uint64_t *keys, *old;           /* of what was written last, and of what was there before */
    uint64_t n_blocks, block, part; /* part: blocks of memory for one extent */
    uint64_t seed, drawn;
    uint64_t first[BATCH], blocks[BATCH]; /* what was written last */
    uint32_t n_written;
};

static uint64_t draw(struct extents *e, uint64_t below)
{
    return mix(e->seed, 1, e->drawn++) % below;
}

/* Small extents are as frequent as large ones. */
static uint64_t draw_length(struct extents *e)
{
    uint64_t most = UINT64_C(1) << draw(e, 12);

    most = most < e->part ? most : e->part;
    return 1 + draw(e, most);
}

static bool overlaps(const struct zero_io *ios, uint32_t n, uint64_t off, uint64_t bytes)
{
    for (uint32_t i = 0; i < n; i++)
        if (off < ios[i].store_off + ios[i].buf.len && ios[i].store_off < off + bytes)
            return true;
    return false;
}

static void write_some(struct extents *e, uint64_t round)
{
    uint64_t wanted = 1 + draw(e, BATCH);
    struct zero_io ios[BATCH];
    uint32_t n = 0;

    for (uint64_t i = 0; i < wanted; i++) {
        uint64_t blocks = draw_length(e), first = draw(e, e->n_blocks - blocks + 1);
        if (overlaps(ios, n, first * e->block, blocks * e->block))
            continue;
        ios[n] = check_store_io(&e->s, ZERO_IO_WRITE, first * e->block, n * e->part * e->block,
                                blocks * e->block);
        for (uint64_t b = 0; b < blocks; b++) {
            e->old[first + b] = e->keys[first + b];
            e->keys[first + b] = mix(e->seed, 2, round * e->n_blocks + first + b) | 1;
            check_store_fill(e->s.memory + ios[n].buf.off + b * e->block, e->block,
                             e->keys[first + b]);
        }
        e->first[n] = first;
        e->blocks[n++] = blocks;
    }
    e->n_written = n;
    int64_t err = check_store_run(&e->s, ios, n);
    want(&e->s.t->verdict, !err, "round %" PRIu64 ": %" PRIi64 ", %s", round, err, check_error());
}

/* A part of the memory may be smaller than what was written and what lies beside it. */
static struct zero_io read_io(struct extents *e, uint64_t first, uint64_t blocks, uint64_t part)
{
    blocks = blocks < e->part ? blocks : e->part;
    blocks = blocks < e->n_blocks - first ? blocks : e->n_blocks - first;
    return check_store_io(&e->s, ZERO_IO_READ, first * e->block, part * e->part * e->block,
                          blocks * e->block);
}

static bool is_zero(const char *at, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (at[i])
            return false;
    return true;
}

static void compare(struct extents *e, uint64_t round, uint64_t b, const char *at)
{
    if (!e->keys[b] || check_store_is(at, e->block, e->keys[b]))
        return;
    bool old = e->old[b] ? check_store_is(at, e->block, e->old[b]) : is_zero(at, e->block);
    want(&e->s.t->verdict, false,
         "round %" PRIu64 ": block %" PRIu64 " of %" PRIu64 " bytes differs%s", round, b, e->block,
         old ? ": a write of it has ended well, and what was there before it still is" : "");
}

static void read_some(struct extents *e, uint64_t round)
{
    struct check_rank *r = &e->s.t->verdict;
    struct zero_io ios[BATCH];
    uint32_t n = 0;

    while (n < e->n_written) { /* from up to 8 blocks before each to some behind it */
        uint64_t from = e->first[n], before = draw(e, 9);
        before = before < from ? before : from;
        before = before < e->part - e->blocks[n] ? before : e->part - e->blocks[n];
        ios[n] = read_io(e, from - before, before + e->blocks[n] + draw(e, 9), n);
        n++;
    }
    while (n < BATCH && draw(e, 2)) {
        uint64_t blocks = draw_length(e);
        ios[n] = read_io(e, draw(e, e->n_blocks - blocks + 1), blocks, n);
        n++;
    }
    for (uint32_t i = 0; i < n; i++)
        memset(e->s.memory + ios[i].buf.off, 0, ios[i].buf.len);
    int64_t err = check_store_run(&e->s, ios, n);
    want(r, !err, "round %" PRIu64 ": %" PRIi64 ", %s", round, err, check_error());
    for (uint32_t i = 0; i < n && !err; i++) {
        uint64_t first = ios[i].store_off / e->block;
        for (uint64_t b = 0; b < ios[i].buf.len / e->block; b++)
            compare(e, round, first + b, e->s.memory + ios[i].buf.off + b * e->block);
    }
}

void check_store_extents(struct check_tier *t)
{
    struct extents e = {.seed = t->verdict.seed};

    if (check_store_open(t, &e.s, t->bytes)) {
        e.block = e.s.info.offset_align;
        e.n_blocks = t->bytes / e.block;
        e.part = e.n_blocks / BATCH;
        e.keys = calloc(e.n_blocks, sizeof *e.keys);
        e.old = calloc(e.n_blocks, sizeof *e.old);
        want(&t->verdict, e.keys && e.old, "no memory for the keys of %" PRIu64 " blocks",
             e.n_blocks);
        for (uint64_t round = 0; round < ROUNDS && !t->verdict.n_bad; round++) {
            write_some(&e, round);
            read_some(&e, round);
        }
        free(e.keys);
        free(e.old);
    }
    check_store_close(&e.s);
}

/*
 * One of the turns: of neighbours one is read and one written, all at once, and the other way round
 * the next time. In turn 0 all are written, in the last one all are read.
 */
static void beside_turn(struct check_store *s, uint64_t turn, uint64_t part, uint32_t n,
                        uint64_t keys[PARTS])
{
    struct check_rank *r = &s->t->verdict;
    struct zero_io ios[PARTS];

    for (uint32_t i = 0; i < n; i++) {
        bool writes = turn == 0 || (turn < TURNS && (turn + i) % 2);
        char *at = s->memory + i * part;
        ios[i] = check_store_io(s, writes ? ZERO_IO_WRITE : ZERO_IO_READ, i * part, i * part, part);
        memset(at, 0, part);
        if (writes)
            check_store_fill(at, part, keys[i] = mix(r->seed, 3, turn * PARTS + i));
    }
    int64_t err = check_store_run(s, ios, n);
    if (!want(r, !err, "turn %" PRIu64 ": %" PRIi64 ", %s", turn, err, check_error()))
        return;
    for (uint32_t i = 0; i < n; i++)
        want(r, check_store_is(s->memory + i * part, part, keys[i]),
             "turn %" PRIu64 ": the %" PRIu64 " bytes at %" PRIu64 " differ%s", turn, part,
             i * part, ios[i].op == ZERO_IO_WRITE ? " in the memory that is written" : "");
}

/* As training does all the time: what comes next is read while what has changed is written. */
void check_store_beside(struct check_tier *t)
{
    uint64_t keys[PARTS];
    struct check_store s;

    if (check_store_open(t, &s, t->bytes)) {
        uint64_t blocks = t->bytes / s.info.offset_align;
        uint32_t n = blocks < PARTS ? (uint32_t)blocks : PARTS;
        uint64_t part = n ? blocks / n * s.info.offset_align : 0;
        for (uint64_t turn = 0; n && turn <= TURNS && !t->verdict.n_bad; turn++)
            beside_turn(&s, turn, part, n, keys);
    }
    check_store_close(&s);
}

void check_store_fresh(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct check_store s;

    if (check_store_open(t, &s, 2 * t->bytes)) {
        uint64_t bytes = check_store_round(&s, t->bytes);
        memset(s.memory, 0x5a, 2 * bytes);
        want(r, !check_store_one(&s, ZERO_IO_READ, 0, 0, bytes), "read: %s", check_error());
        want(r, is_zero(s.memory, bytes), "a fresh store has other bytes than zeros");
        want(r, !s.ops->resize(s.store, 2 * bytes), "resize to twice: %s", check_error());
        want(r, !check_store_one(&s, ZERO_IO_READ, bytes, bytes, bytes), "read: %s", check_error());
        want(r, is_zero(s.memory + bytes, bytes), "a store grows by other bytes than zeros");
    }
    check_store_close(&s);
}

/* A request of more than one may have is refused, or done. */
static void too_large(struct check_store *s, uint64_t bytes)
{
    struct zero_io io = check_store_io(s, ZERO_IO_WRITE, 0, 0, bytes);
    const struct zero_host *host = s->t->host;
    struct check_rank *r = &s->t->verdict;
    struct zero_cqe cqe = {0};

    host->fail(host->ctx, "check", -EIO, "nothing was said");
    check_store_fill(s->memory, bytes, r->seed + 1);
    int n = check_store_submit(s, &io, 1);
    if (n > 0) {
        n = s->ops->poll(s->store, &cqe, 1, CHECK_WAIT_NS);
        want(r, n == 1 && (cqe.res < 0 || cqe.res == (int64_t)bytes),
             "%" PRIu64 " bytes, of which max_io is less, are taken: poll gives %d, with %" PRIi64,
             bytes, n, cqe.res);
        n = cqe.res < 0 ? -1 : 1;
    }
    want(r, n, "%" PRIu64 " bytes, of which max_io is less, are never taken and not refused",
         bytes);
    want(r, n >= 0 || !strstr(zero_last_error(), "nothing was said"),
         "%" PRIu64 " bytes, of which max_io is less: refused, and nothing is said", bytes);
    if (n < 0) /* the store goes on */
        want(r, !check_store_one(s, ZERO_IO_WRITE, 0, 0, bytes), "write: %s", check_error());
    memset(s->memory, 0, bytes);
    want(r, !check_store_one(s, ZERO_IO_READ, 0, 0, bytes), "read: %s", check_error());
    want(r, check_store_is(s->memory, bytes, r->seed + 1), "other bytes come back");
}

void check_store_large(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct check_store s;

    if (check_store_open(t, &s, t->bytes)) {
        uint64_t most = check_store_most(&s), bytes = most < t->bytes ? most : t->bytes;
        check_store_fill(s.memory, bytes, r->seed);
        want(r, !check_store_one(&s, ZERO_IO_WRITE, 0, 0, bytes),
             "write of %" PRIu64 " bytes, max_io %" PRIu64 ": %s", bytes, s.info.max_io,
             check_error());
        memset(s.memory, 0, bytes);
        want(r, !check_store_one(&s, ZERO_IO_READ, 0, 0, bytes),
             "read of %" PRIu64 " bytes, max_io %" PRIu64 ": %s", bytes, s.info.max_io,
             check_error());
        want(r, check_store_is(s.memory, bytes, r->seed), "other bytes come back");
        if (!r->n_bad && t->bytes - bytes >= s.info.offset_align)
            too_large(&s, bytes + s.info.offset_align);
    }
    check_store_close(&s);
}

/* The counters are a sign of life: they stand still where nothing moves. */
void check_store_counts(struct check_tier *t)
{
    struct zero_store_info now = {.size = sizeof now};
    struct check_rank *r = &t->verdict;
    struct check_store s;

    if (check_store_open(t, &s, t->bytes)) {
        uint64_t part = check_store_round(&s, t->bytes / 4), read = s.info.bytes_read,
                 written = s.info.bytes_written;
        struct zero_io ios[3];
        for (uint32_t i = 0; i < 3; i++)
            ios[i] = check_store_io(&s, ZERO_IO_WRITE, i * part, i * part, part);
        want(r, !check_store_run(&s, ios, 3), "write: %s", check_error());
        want(r, !check_store_one(&s, ZERO_IO_READ, 0, 0, part), "read: %s", check_error());
        want(r, !s.ops->info(s.store, &now), "info: %s", check_error());
        if (!r->n_bad && !now.bytes_read && !now.bytes_written)
            t->skipped = "the plugin counts nothing";
        else
            want(r, now.bytes_written - written == 3 * part && now.bytes_read - read == part,
                 "of %" PRIu64 " bytes written %" PRIu64 " count, of %" PRIu64 " read %" PRIu64,
                 3 * part, now.bytes_written - written, part, now.bytes_read - read);
    }
    check_store_close(&s);
}

/* Every request ends once, with its own tag and all of its bytes. */
void check_store_many(struct check_tier *t)
{
    enum { N = 2000 };
    int64_t until = check_now_ms() + CHECK_WAIT_NS / 1000000;
    struct check_rank *r = &t->verdict;
    uint32_t submitted = 0, ended = 0;
    static unsigned char seen[N];
    struct check_store s;
    static struct zero_io ios[N];

    memset(seen, 0, sizeof seen);
    if (check_store_open(t, &s, t->bytes)) {
        uint64_t block = s.info.offset_align, n_blocks = t->bytes / block;
        for (uint32_t i = 0; i < N; i++) {
            ios[i] = check_store_io(&s, ZERO_IO_WRITE, i % n_blocks * block, i % n_blocks * block,
                                    block);
            ios[i].user = i;
        }
        uint32_t n = n_blocks < N ? (uint32_t)n_blocks : N;
        while (ended < n && check_now_ms() < until && !r->n_bad) {
            struct zero_cqe cqes[3];
            int got = s.ops->submit(s.store, ios + submitted, n - submitted);
            if (!want(r, got >= 0 && got <= (int)(n - submitted), "submit gives %d: %s", got,
                      check_error()))
                break;
            submitted += (uint32_t)got;
            got = s.ops->poll(s.store, cqes, 3, 100000000);
            want(r, got >= 0 && got <= 3, "poll of 3 gives %d: %s", got, check_error());
            for (int i = 0; i < got && i < 3; i++) {
                want(r, cqes[i].res == (int64_t)block, "result %" PRIi64 ", want %" PRIu64,
                     cqes[i].res, block);
                want(r, cqes[i].user < n && !seen[cqes[i].user],
                     "tag %" PRIu64 " ends twice, or is of nobody", cqes[i].user);
                if (cqes[i].user < n)
                    seen[cqes[i].user] = 1;
                ended++;
            }
        }
        want(r, ended == n, "%u of %u requests have ended", ended, n);
    }
    check_store_close(&s);
}

void check_store_two(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct check_store a, b = {0};

    if (check_store_open(t, &a, t->bytes) && check_store_open(t, &b, t->bytes)) {
        uint64_t bytes = check_store_round(&a, t->bytes / 2);
        check_store_fill(a.memory, bytes, r->seed + 1);
        check_store_fill(b.memory, bytes, r->seed + 2);
        want(r, !check_store_one(&a, ZERO_IO_WRITE, 0, 0, bytes), "write: %s", check_error());
        want(r, !check_store_one(&b, ZERO_IO_WRITE, 0, 0, bytes), "write: %s", check_error());
        memset(a.memory, 0, bytes);
        want(r, !check_store_one(&a, ZERO_IO_READ, 0, 0, bytes), "read: %s", check_error());
        want(r, check_store_is(a.memory, bytes, r->seed + 1), "the first has other bytes");
        struct zero_io io = check_store_io(&a, ZERO_IO_READ, 0, 0, bytes);
        want(r, check_store_submit(&b, &io, 1) < 0, "a region of another store is taken");
    }
    check_store_close(&a);
    if (b.t)
        check_store_close(&b);
}

/*
 * One that does nothing passes, too: what is read comes from the memory of the system, whether it
 * lies on the disk or not. Who sees the calls of the system below can tell.
 */
void check_store_sync(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct check_store s;

    if (check_store_open(t, &s, t->bytes)) {
        uint64_t bytes = check_store_round(&s, t->bytes / 4);
        struct zero_io io = {.op = ZERO_IO_SYNC, .user = 9};
        want(r, !check_store_run(&s, &io, 1), "sync of nothing: %s", check_error());
        check_store_fill(s.memory, bytes, r->seed);
        want(r, !check_store_one(&s, ZERO_IO_WRITE, 0, 0, bytes), "write: %s", check_error());
        want(r, !check_store_run(&s, &io, 1), "sync: %s", check_error());
        memset(s.memory, 0, bytes);
        want(r, !check_store_one(&s, ZERO_IO_READ, 0, 0, bytes), "read: %s", check_error());
        want(r, check_store_is(s.memory, bytes, r->seed), "other bytes come back");
    }
    check_store_close(&s);
}

void check_store_map(struct check_tier *t)
{
    struct check_rank *r = &t->verdict;
    struct check_store s;
    void *base = NULL;

    if (check_store_open(t, &s, t->bytes) &&
        want(r, s.ops->map && !s.ops->map(s.store, &base) && base, "map: %s", check_error()) &&
        want(r, (uintptr_t)base % CHECK_PAGE == 0, "map gives %p: a multiple of %u is due", base,
             CHECK_PAGE)) {
        uint64_t off = check_store_round(&s, t->bytes / 3), bytes = off < 70000 ? off : 70000;
        bytes = check_store_round(&s, bytes);
        check_store_fill(base, t->bytes, r->seed);
        want(r, !check_store_one(&s, ZERO_IO_READ, 0, 0, t->bytes), "read: %s", check_error());
        want(r, check_store_is(s.memory, t->bytes, r->seed), "what was stored there is not read");
        check_store_fill(s.memory, bytes, r->seed + 1);
        want(r, !check_store_one(&s, ZERO_IO_WRITE, off, 0, bytes), "write: %s", check_error());
        want(r, check_store_is((char *)base + off, bytes, r->seed + 1),
             "what was written is not there");
    }
    check_store_close(&s);
}
