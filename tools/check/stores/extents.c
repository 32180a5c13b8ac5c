/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes of drawn extents, one after the other and side by side. */
#include <stdlib.h>
#include <string.h>

#include "tier.h"
#include "tools/common/values.h"

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
    want(&e->s.t->verdict, !err, "round %" PRIu64 ": %s", round, e->s.t->verdict.ended);
}

/* A part of the memory may be smaller than what was written and what lies beside it. */
static struct zero_io read_io(struct extents *e, uint64_t first, uint64_t blocks, uint64_t part)
{
    blocks = blocks < e->part ? blocks : e->part;
    blocks = blocks < e->n_blocks - first ? blocks : e->n_blocks - first;
    return check_store_io(&e->s, ZERO_IO_READ, first * e->block, part * e->part * e->block,
                          blocks * e->block);
}

static void compare(struct extents *e, uint64_t round, uint64_t b, const char *at)
{
    if (!e->keys[b] || check_store_is(at, e->block, e->keys[b]))
        return;
    bool old = e->old[b] ? check_store_is(at, e->block, e->old[b])
                          : check_store_zero(at, e->block);
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
    want(r, !err, "round %" PRIu64 ": %s", round, r->ended);
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
    if (!want(r, !err, "turn %" PRIu64 ": %s", turn, r->ended))
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
