/* SPDX-License-Identifier: Apache-2.0 */
/* What an operation is: its collectives and its slots in memory. */
#include "config.h"

#include "case.h"

#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "machine/clock.h"
#include "tools/bench/measure/loops.h"

#define BATCH_BYTES (UINT64_C(16) << 20) /* small operations are timed many at a time */
#define WARM 4u
#define BATCH_MOST 256u

const char *coll_name(enum coll_op op)
{
    static const char *const names[N_COLL_OPS] = {
        "all_gather", "reduce_scatter", "all_reduce", "broadcast",
        "barrier",    "map",            "ping_pong",  "exchange"};
    return names[op];
}

bool coll_has_exchange(const struct coll_options *o)
{
    for (unsigned k = 0; k < o->n_ops; k++)
        if (o->ops[k] == COLL_EXCHANGE)
            return true;
    return false;
}

static uint64_t round_up(uint64_t x, uint64_t to)
{
    return (x + to - 1) / to * to;
}

/* The plain loops want their sources at multiples of a cache line. */
static uint64_t half_of(uint64_t bytes, int ranks)
{
    return round_up(bytes + 64 * (uint64_t)ranks + BENCH_SPARE_BYTES, 4096);
}

/* Elements of the whole message: as many for each rank. */
static uint64_t elements(const struct coll_options *o, uint64_t bytes)
{
    return round_up((bytes + zero_dtype_bytes(o->dtype) - 1) / zero_dtype_bytes(o->dtype),
                    (uint64_t)o->ranks);
}

static uint64_t shard_of_map(const struct coll_options *o, uint64_t bytes)
{
    return round_up(elements(o, bytes) * zero_dtype_bytes(o->dtype) / (uint64_t)o->ranks,
                    (uint64_t)sysconf(_SC_PAGESIZE));
}

uint64_t coll_bytes(const struct coll_options *o, enum coll_op op, uint64_t bytes)
{
    if (op == COLL_BARRIER)
        return 0;
    return op == COLL_MAP ? shard_of_map(o, bytes) * (uint64_t)o->ranks
                          : elements(o, bytes) * zero_dtype_bytes(o->dtype);
}

static unsigned slots_of(const struct coll_options *o, uint64_t half)
{
    return o->cold ? (unsigned)(4 * bench_cache_bytes() / (2 * half) + 2) : 1;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void op_memory(const struct coll_options *o, enum coll_op op, struct coll_memory *out)
{
    for (unsigned i = 0; i < o->n_sizes; i++) {
        uint64_t bytes = coll_bytes(o, op, o->sizes[i]), half = half_of(bytes, o->ranks);
        uint64_t slots = 2 * half * slots_of(o, half), plain, board;

        coll_limit_memory(o, op, slots, &plain, &board);
        if (op == COLL_MAP) {
            out->map = larger(out->map, bytes / (uint64_t)o->ranks);
        } else if (op != COLL_BARRIER) {
            out->region = larger(out->region, slots);
        }
        out->plain = larger(out->plain, plain);
        out->board = larger(out->board, board);
    }
}

void coll_memory(const struct coll_options *o, struct coll_memory *out)
{
    *out = (struct coll_memory){0};
    for (unsigned k = 0; k < o->n_ops; k++)
        op_memory(o, o->ops[k], out);
}

static int map_open(struct coll_case *c)
{
    uint64_t shard = c->bytes / (uint64_t)c->o->ranks;
    void *base;

    if (!(c->b->caps.flags & ZERO_COMM_MAP) || !c->b->ops.map)
        return zero__fail(-ENOTSUP, "comm plugin %s cannot map: leave map out of --op", c->o->comm);
    c->count = shard / zero_dtype_bytes(c->o->dtype);
    int err = tool_region_create(c->b, shard, &c->map_region);
    if (!err)
        err = c->b->ops.map(c->b->ctx, c->map_region.mr, 0, shard, &base);
    if (!err)
        c->map = base;
    return err;
}

int coll_case_open(struct coll_case *c)
{
    uint64_t all = elements(c->o, c->wanted);

    c->name = coll_name(c->op);
    c->is_beside = c->op == COLL_EXCHANGE;
    c->in_place = c->o->in_place || c->is_beside;
    c->op = c->is_beside ? COLL_ALL_GATHER : c->op;
    c->bytes = coll_bytes(c->o, c->op, c->wanted);
    c->count = c->op == COLL_ALL_GATHER || c->op == COLL_REDUCE_SCATTER
                   ? all / (uint64_t)c->o->ranks
                   : all;
    c->half = half_of(c->bytes, c->o->ranks);
    c->n_slots = slots_of(c->o, c->half);
    uint64_t moved = c->op == COLL_MAP ? 0 : c->bytes;
    c->batch = c->o->fresh ? 1 : BATCH_MOST; /* what is written is for one operation */
    if (!c->o->fresh && moved > BATCH_BYTES / BATCH_MOST)
        c->batch = moved < BATCH_BYTES ? (unsigned)(BATCH_BYTES / moved) : 1;
    c->n_warm = c->batch > 1 ? 1 : c->bytes <= 2 * bench_cache_bytes() ? WARM : 0;
    return c->op == COLL_MAP ? map_open(c) : 0;
}

void coll_case_close(struct coll_case *c)
{
    tool_region_free(c->b, &c->map_region);
}

uint64_t coll_next_slot(struct coll_case *c)
{
    return c->turn++ % c->n_slots * 2 * c->half;
}

static struct zero_slice slice(const struct coll_case *c, uint64_t off, uint64_t bytes)
{
    return (struct zero_slice){c->region->mr, off, bytes};
}

static void gather_fill(const struct coll_case *c, uint64_t slot, struct zero_coll *x)
{
    uint64_t shard = c->bytes / (uint64_t)c->o->ranks, own = shard * (uint64_t)c->b->rank;

    x->kind = ZERO_ALL_GATHER;
    x->src = slice(c, c->in_place ? slot + c->half + own : slot, shard);
    x->dst = slice(c, slot + c->half, c->bytes);
}

static void reduce_fill(const struct coll_case *c, uint64_t slot, struct zero_coll *x)
{
    uint64_t shard = c->bytes / (uint64_t)c->o->ranks, own = shard * (uint64_t)c->b->rank;
    bool all = c->op == COLL_ALL_REDUCE;

    x->kind = all ? ZERO_ALL_REDUCE : ZERO_REDUCE_SCATTER;
    x->scale = 1.0f / (float)c->o->ranks; /* averages stay in range when done in place for ever */
    x->src = slice(c, slot, c->bytes);
    x->dst =
        slice(c, c->in_place ? slot + (all ? 0 : own) : slot + c->half, all ? c->bytes : shard);
}

static int broadcast_run(struct coll_case *c, uint64_t slot, int root)
{
    struct zero_coll x = {.kind = ZERO_BROADCAST,
                          .scale = 1,
                          .root = root,
                          .count = c->count,
                          .src_dtype = c->o->dtype,
                          .dst_dtype = c->o->dtype};

    if (c->b->rank == root)
        x.src = slice(c, slot, c->bytes);
    else
        x.dst = slice(c, slot + c->half, c->bytes);
    return tool_comm_run(c->b, &x);
}

int coll_case_run(struct coll_case *c)
{
    struct zero_coll x = {.count = c->count,
                          .src_dtype = c->o->dtype,
                          .dst_dtype = c->o->dtype,
                          .flags = c->in_place ? ZERO_COLL_INPLACE : 0,
                          .scale = 1};
    uint64_t slot = coll_next_slot(c);
    int err;

    switch (c->op) {
    case COLL_ALL_GATHER:
        gather_fill(c, slot, &x);
        break;
    case COLL_REDUCE_SCATTER:
    case COLL_ALL_REDUCE:
        reduce_fill(c, slot, &x);
        break;
    case COLL_BROADCAST:
        return broadcast_run(c, slot, 0);
    case COLL_PING_PONG:
        err = broadcast_run(c, slot, 0);
        return err ? err : broadcast_run(c, slot, 1);
    default: /* a gather of what is mapped moves nothing: all have written, that is all */
        return tool_comm_barrier(c->b);
    }
    return tool_comm_run(c->b, &x);
}

char *coll_source(const struct coll_case *c)
{
    uint64_t shard = c->bytes / (uint64_t)c->o->ranks;

    if (c->op == COLL_MAP)
        return c->map_region.base;
    if (c->op == COLL_ALL_GATHER && c->in_place)
        return c->region->base + c->half + shard * (uint64_t)c->b->rank;
    return c->region->base;
}

uint64_t coll_n_sources(const struct coll_case *c)
{
    if (c->op == COLL_BARRIER)
        return 0;
    return c->op == COLL_REDUCE_SCATTER ? c->count * (uint64_t)c->o->ranks : c->count;
}

char *coll_result(const struct coll_case *c)
{
    uint64_t shard = c->bytes / (uint64_t)c->o->ranks;

    if (c->op == COLL_REDUCE_SCATTER && c->in_place)
        return c->region->base + shard * (uint64_t)c->b->rank;
    if (c->op == COLL_ALL_REDUCE && c->in_place)
        return c->region->base;
    return c->region->base + c->half;
}

/* A small number in each type, as bytes. */
char coll_fresh_value(unsigned turn, int rank)
{
    return (char)(0x3c + (turn + (unsigned)rank) % 4);
}

/* What this rank gives, in the next slot, is in its caches and in nobody else's. */
static void source_write(struct coll_case *c)
{
    uint64_t slot = c->op == COLL_MAP ? 0 : c->turn % c->n_slots * 2 * c->half;

    if (!c->o->fresh || c->op == COLL_BARRIER)
        return;
    c->fresh_slot = slot;
    c->fresh_turn = c->turn;
    memset(coll_source(c) + slot, coll_fresh_value(c->turn, c->b->rank),
           coll_n_sources(c) * zero_dtype_bytes(c->o->dtype));
}

int coll_case_once(struct coll_case *c)
{
    source_write(c);
    return coll_case_run(c);
}

/*
 * What came before, another loop perhaps, leaves other caches behind, and lines that are yet to be
 * written: where they matter, some rounds are not timed. One is too few for messages of half of the
 * last level, since it always follows the same loop.
 */
static int warm_up(struct coll_case *c)
{
    int err = 0;

    for (unsigned i = 0; i < c->n_warm && !err; i++)
        err = coll_case_once(c);
    return err;
}

int coll_sample(struct coll_case *c, struct coll_moment *m)
{
    int err = warm_up(c);

    source_write(c);
    if (!err)
        err = tool_comm_barrier(c->b);
    m->start = zero__now_ns();
    for (unsigned i = 0; !err && i < c->batch; i++)
        err = coll_case_run(c);
    m->end = zero__now_ns();
    return err;
}

/* The ranks wait for it on the control channel, asleep, so that it has their processors. */
int coll_sample_bare(struct coll_case *c, struct coll_moment *m)
{
    char mine = 0, all[2];
    double seconds = 0;
    int err = tool_comm_gather(c->b, &mine, sizeof mine, all);

    if (!err && c->bare && !*c->bare_why &&
        bench_bare_run(c->bare, c->bytes / 2, c->batch, c->n_warm, c->b->timeout_ns, &seconds,
                       c->bare_why))
        seconds = 0;
    *m = (struct coll_moment){0, (int64_t)(seconds * 1e9)};
    return err ? err : tool_comm_gather(c->b, &mine, sizeof mine, all);
}
