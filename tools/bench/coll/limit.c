/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plain loops that limit an operation: all ranks meet, then each moves the bytes that it has to
 * read and write. What a loop reads lies where the operation finds it. On the board, which all
 * ranks have mapped, is what several of them read (a cache that they share has it once) and what
 * was just written (--fresh, or summed up), which is in the caches of the rank that wrote it. What
 * one rank alone reads, again and again the same, is private.
 */
#include "config.h"

#include "case.h"

#include <string.h>

#include "machine/clock.h"
#include "tools/bench/measure/loops.h"

/* The plain loops want their sources at multiples of a cache line. */
static uint64_t step_of(const struct coll_case *c)
{
    return (c->bytes / (uint64_t)c->o->ranks + 63) / 64 * 64;
}

/*
 * What all ranks read, and what was just written: so was what an all_reduce in place reads, by the
 * one before.
 */
static bool on_board(const struct coll_options *o, enum coll_op op)
{
    return o->fresh || op == COLL_ALL_GATHER || op == COLL_EXCHANGE || op == COLL_BROADCAST ||
           (op == COLL_ALL_REDUCE && o->in_place);
}

void coll_limit_memory(const struct coll_options *o, enum coll_op op, uint64_t slots,
                       uint64_t *plain, uint64_t *board)
{
    *plain = *board = 0;
    if (!coll_has_limit(o, op) || op == COLL_BARRIER || op == COLL_MAP)
        return;
    *plain = slots;
    if (op == COLL_PING_PONG) {
        *board = slots / 2;
    } else if (on_board(o, op)) {
        *plain = 0;
        *board = slots;
    } else if (op == COLL_ALL_REDUCE) { /* sources here, the result there */
        *board = slots / 2;
    }
}

bool coll_has_limit(const struct coll_options *o, enum coll_op op)
{
    bool reduces = op == COLL_REDUCE_SCATTER || op == COLL_ALL_REDUCE;

    return o->limit && !(reduces && o->dtype == ZERO_F16);
}

unsigned coll_n_ways(const struct coll_case *c)
{
    if (!coll_has_limit(c->o, c->op))
        return 0;
    if (c->op == COLL_BARRIER || c->op == COLL_MAP)
        return 1; /* nothing is moved */
    if (c->op == COLL_REDUCE_SCATTER)
        return BENCH_MEMCPY;
    /* Two read as much if each sums everything, and meet once less; in place they may not. */
    return c->op == COLL_ALL_REDUCE && c->o->ranks == 2 && !c->in_place ? N_BENCH_WAYS
                                                                        : N_BENCH_COPIES;
}

int coll_limit_huge(const struct coll_case *c)
{
    const struct coll_pages *p = &c->pages;
    uint64_t plain, board;

    coll_limit_memory(c->o, c->op, 2 * c->half * c->n_slots, &plain, &board);
    if (!(plain + board) || (plain && p->plain < 0) || (board && p->board < 0))
        return -1;
    return (int)(((double)plain * p->plain + (double)board * p->board) / (double)(plain + board));
}

static char *board_at(const struct coll_case *c, int rank)
{
    return bench_board_memory(c->board, rank);
}

static uint64_t board_stride(const struct coll_case *c)
{
    return (uint64_t)(board_at(c, 1) - board_at(c, 0));
}

static void gather(const struct coll_case *c, uint64_t slot, enum bench_way way)
{
    uint64_t n = (uint64_t)c->o->ranks, own = (uint64_t)c->b->rank, shard = c->bytes / n;
    uint64_t step = step_of(c);

    for (uint64_t i = 1; i <= n; i++) {
        uint64_t p = (own + i) % n, there = slot + c->half + p * step;
        if (p != own || !c->in_place)
            bench_loop_copy(board_at(c, c->b->rank) + there,
                            board_at(c, (int)p) + (c->in_place ? there : slot), shard, way);
    }
}

/* A part of as many sources as there are ranks, or all of them. */
static void sum(const struct coll_case *c, uint64_t slot, char *to, enum bench_way way)
{
    uint64_t n = (uint64_t)c->o->ranks, own = (uint64_t)c->b->rank;
    bool all = way == BENCH_EACH;
    uint64_t next = all ? c->half : step_of(c);
    const char *from = c->plain + slot;

    if (on_board(c->o, c->op)) {
        from = board_at(c, 0) + slot + (all ? 0 : own * step_of(c));
        next = board_stride(c);
    }
    bench_loop_add(to, from, all ? c->bytes : c->bytes / n, next, (unsigned)n,
                   c->o->dtype == ZERO_F32, way);
}

static void scatter(const struct coll_case *c, uint64_t slot, enum bench_way way)
{
    char *base = c->o->fresh ? board_at(c, c->b->rank) : c->plain;

    sum(c, slot, base + slot + (c->in_place ? (uint64_t)c->b->rank * step_of(c) : c->half), way);
}

/*
 * A part summed up where all can read it, and when all have, the other parts from there; or
 * everything by each.
 */
static int reduce_all(struct coll_case *c, uint64_t slot, enum bench_way way)
{
    uint64_t n = (uint64_t)c->o->ranks, own = (uint64_t)c->b->rank, step = step_of(c);
    uint64_t at = !on_board(c->o, c->op) ? slot / 2 : slot + (c->in_place ? 0 : c->half);
    bool all = way == BENCH_EACH;

    sum(c, slot, board_at(c, c->b->rank) + at + (all ? 0 : own * step), way);
    if (all)
        return 0;
    int err = bench_board_meet(c->board, c->b->timeout_ns);
    for (uint64_t i = 1; !err && i < n; i++) {
        uint64_t p = (own + i) % n;
        bench_loop_copy(board_at(c, c->b->rank) + at + p * step,
                        board_at(c, (int)p) + at + p * step, c->bytes / n, way);
    }
    return err;
}

/* All meet, as an operation cannot end before all have begun; then each moves its bytes once. */
static int run(struct coll_case *c, enum bench_way way)
{
    uint64_t slot = coll_next_slot(c);

    if (c->op == COLL_PING_PONG)
        return bench_board_ping(c->board, c->plain + slot + c->half, slot / 2, c->bytes, way,
                                c->b->timeout_ns);
    int err = bench_board_meet(c->board, c->b->timeout_ns);
    if (err)
        return err;
    switch (c->op) {
    case COLL_ALL_GATHER:
        gather(c, slot, way);
        return 0;
    case COLL_REDUCE_SCATTER:
        scatter(c, slot, way);
        return 0;
    case COLL_ALL_REDUCE:
        return reduce_all(c, slot, way);
    case COLL_BROADCAST:
        if (c->b->rank != 0)
            bench_loop_copy(board_at(c, c->b->rank) + slot + c->half, board_at(c, 0) + slot,
                            c->bytes, way);
        return 0;
    default: /* a barrier moves nothing */
        return 0;
    }
}

/* What this rank gives, once nobody reads what it gave before. */
static int refresh(struct coll_case *c)
{
    uint64_t size = zero_dtype_bytes(c->o->dtype), step = step_of(c);
    uint64_t slot = c->turn % c->n_slots * 2 * c->half;
    char *at = board_at(c, c->b->rank);

    if (!c->o->fresh || c->op == COLL_BARRIER || c->op == COLL_MAP)
        return 0;
    int err = bench_board_meet(c->board, c->b->timeout_ns);
    if (err)
        return err;
    if (c->op == COLL_PING_PONG)
        memset(at + slot / 2, 1, c->bytes);
    else if (c->op == COLL_ALL_GATHER)
        memset(at + slot + (c->in_place ? c->half + (uint64_t)c->b->rank * step : 0), 1,
               c->count * size);
    else if (c->op == COLL_BROADCAST)
        memset(at + slot, 1, c->bytes);
    else
        memset(at + slot, 1, step * (uint64_t)c->o->ranks);
    return 0;
}

int coll_sample_limit(struct coll_case *c, enum bench_way way, struct coll_moment *m)
{
    int err = 0;

    for (unsigned i = 0; i < c->n_warm && !err; i++) {
        err = refresh(c);
        if (!err)
            err = run(c, way);
    }
    if (!err)
        err = refresh(c);
    if (!err)
        err = tool_comm_barrier(c->b);
    m->start = zero__now_ns();
    for (unsigned i = 0; !err && i < c->batch; i++)
        err = run(c, way);
    m->end = zero__now_ns();
    return err;
}
