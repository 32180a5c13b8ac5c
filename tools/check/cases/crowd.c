/* SPDX-License-Identifier: Apache-2.0 */
/* Large collectives on several communicators at the same time. */
#include <stdlib.h>
#include <string.h>

#include "rank.h"
#include "tools/common/values.h"

#define LANES 3u
#define ROUNDS 16u
#define UNDER_WAY 2u /* of a communicator */

/* A communicator, and the gathers and sums on it. */
struct lane {
    struct zero_comm *comm;
    int rank, ranks;
    unsigned posted, completed;
};

struct crowd {
    struct check_comm c;
    struct lane lanes[LANES];
    uint64_t most; /* bytes of one of the two operands */
};

/* Small whole numbers, whose sums are exact in any order. */
static float value(unsigned which, int rank, unsigned k, uint64_t i)
{
    return (float)((which + 1) * 31 + (unsigned)rank * 7 + k + (unsigned)(i % 251));
}

static uint64_t operand(const struct crowd *w, unsigned which, unsigned k, bool dst)
{
    return ((which * UNDER_WAY + k % UNDER_WAY) * 2 + dst) * w->most;
}

/* From one element to as many as there is room for, and every kind of message between. */
static struct zero_coll collective(const struct crowd *w, unsigned which, unsigned k)
{
    const struct lane *l = &w->lanes[which];
    const struct check_rank *r = w->c.r;
    uint64_t x = mix(r->seed, which, k), most = w->most / 4 / (uint64_t)l->ranks >> x % 12;
    struct zero_coll q = {.kind = ZERO_REDUCE_SCATTER,
                          .src_dtype = ZERO_F32,
                          .dst_dtype = ZERO_F32,
                          .scale = 1,
                          .count = most ? 1 + (x >> 8) % most : 1,
                          .sequence = k,
                          .group = which,
                          .user = (uint64_t)which << 32 | k};
    uint64_t all;

    if (k % 2 == 0 || !check_can(r, &q))
        q.kind = ZERO_ALL_GATHER;
    all = 4 * q.count * (uint64_t)l->ranks;
    q.src = check_slice(&w->c, operand(w, which, k, false),
                        q.kind == ZERO_ALL_GATHER ? 4 * q.count : all);
    q.dst = check_slice(&w->c, operand(w, which, k, true),
                        q.kind == ZERO_ALL_GATHER ? all : 4 * q.count);
    return q;
}

static void lane_post(struct crowd *w, unsigned which)
{
    struct lane *l = &w->lanes[which];
    const struct zero_coll q = collective(w, which, l->posted);
    float *src = (float *)(void *)(w->c.memory + q.src.off);
    int err;

    for (uint64_t i = 0; i < q.src.len / 4; i++)
        src[i] = value(which, l->rank, l->posted, i);
    memset(w->c.memory + q.dst.off, 0xff, q.dst.len);
    check_mark(w->c.r->host);
    err = w->c.ops->post(l->comm, &q, 1, NULL);
    want(w->c.r, !check_ended(w->c.r, "post gives", err), "%s", w->c.r->ended);
    l->posted++;
}

/* Element i of the result. */
static float result(const struct lane *l, const struct zero_coll *q, unsigned which, uint64_t i)
{
    unsigned k = (unsigned)q->user;
    float sum = 0;

    if (q->kind == ZERO_ALL_GATHER)
        return value(which, (int)(i / q->count), k, i % q->count);
    for (int p = 0; p < l->ranks; p++)
        sum += value(which, p, k, (uint64_t)l->rank * q->count + i);
    return sum;
}

static void lane_completed(struct crowd *w, const struct zero_cqe *cqe)
{
    unsigned which = (unsigned)(cqe->user >> 32) % LANES, k = (unsigned)cqe->user;
    struct lane *l = &w->lanes[which];
    const struct zero_coll q = collective(w, which, k);
    const float *dst = (const float *)(const void *)(w->c.memory + q.dst.off);
    struct check_rank *r = w->c.r;

    want(r, k == l->completed, "communicator %u: completion %u came where %u was due", which, k,
         l->completed);
    l->completed++;
    check_ended(r, "result", cqe->res);
    want(r, cqe->res == (int64_t)q.dst.len,
         "communicator %u, collective %u: %s, want %" PRIu64, which, k, r->ended, q.dst.len);
    for (uint64_t i = 0; i < q.dst.len / 4 && !r->n_bad; i++) {
        float due = result(l, &q, which, i);
        want(r, dst[i] == due, "communicator %u, collective %u: element %" PRIu64 " is %g, want %g",
             which, k, i, (double)dst[i], (double)due);
    }
}

static bool lanes_make(struct crowd *w)
{
    struct check_comm *c = &w->c;
    struct check_rank *r = c->r;
    struct lane *l = w->lanes;

    l[0] = (struct lane){.comm = c->world, .rank = r->rank, .ranks = r->ranks};
    l[1] = (struct lane){.rank = r->rank / 2, .ranks = (r->ranks + 1 - r->rank % 2) / 2};
    l[2] = (struct lane){.rank = r->ranks - 1 - r->rank, .ranks = r->ranks};
    return want(r, !c->ops->split(c->ctx, NULL, r->rank % 2, 0, &l[1].comm), "split: %s",
                check_error()) &&
           want(r, !c->ops->split(c->ctx, c->world, 0, -r->rank, &l[2].comm), "split: %s",
                check_error());
}

static void crowd_run(struct crowd *w)
{
    struct check_rank *r = w->c.r;
    uint64_t rest = LANES * ROUNDS, z = r->seed + (uint64_t)r->rank;
    const uint32_t room = r->caps.max_inflight < UNDER_WAY ? r->caps.max_inflight : UNDER_WAY;
    int64_t until = check_now_ms() + 60000;
    struct zero_cqe cqes[4];

    while (rest && r->n_bad == 0) {
        unsigned which = (unsigned)((z = mix(z, 1, 1)) % LANES);
        const struct lane *l = &w->lanes[which];
        if (l->posted < ROUNDS && l->posted - l->completed < room)
            lane_post(w, which);
        int n = w->c.ops->progress(w->c.ctx, cqes, 4, z & 0x700 ? 0 : 1000000);
        check_ended(r, "progress gives", n);
        want(r, n >= 0 && check_now_ms() < until, "%u of %u have ended: %s",
             (unsigned)(LANES * ROUNDS - rest), LANES * ROUNDS, r->ended);
        for (int i = 0; i < n; i++, rest--)
            lane_completed(w, &cqes[i]);
    }
}

/*
 * Three communicators, on which every rank posts in an order of its own: the copies and sums of one
 * must not keep the others from their turn, and no two large messages wait for each other.
 */
void check_case_crowd(struct check_rank *r)
{
    struct crowd w = {.most = UINT64_C(1) << (r->ranks > 8 ? 18 : 21)};

    if (check_open(r, &w.c, LANES * UNDER_WAY * 2 * w.most) && lanes_make(&w)) {
        crowd_run(&w);
        want(r, check_meet(&w.c, w.c.world) == 0, "meeting: %s", r->ended);
    }
    for (unsigned i = 1; i < LANES; i++)
        if (w.lanes[i].comm)
            want(r, !w.c.ops->comm_close(w.lanes[i].comm), "comm_close: %s", check_error());
    check_close(&w.c);
}
