/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators, batches, and the order in which collectives complete. */
#include <string.h>

#include "rank.h"
#include "tools/common/values.h"

#define SLAB (UINT64_C(4) << 20)
#define ROUNDS 300u
#define LANES 3u

struct lane {
    struct zero_comm *comm;
    int rank, ranks;
    unsigned posted, completed;
};

/* This rank's part of n_colors; its place in it, by key. */
static void split(struct check_comm *c, struct zero_comm *parent, int n_colors, bool backwards,
                  struct lane *l)
{
    struct check_rank *r = c->r;
    int key = backwards ? -r->rank : 0;

    *l = (struct lane){0};
    for (int p = 0; p < r->ranks; p++)
        if (p % n_colors == r->rank % n_colors) {
            l->ranks++;
            l->rank += backwards ? p > r->rank : p < r->rank;
        }
    want(r, !c->ops->split(c->ctx, parent, r->rank % n_colors, key, &l->comm), "split: %s",
         check_error());
}

/* Slots: [lane][collective % 64][8 sources, then 8 for each of at most 64 ranks]. */
static uint64_t slot(unsigned lane, unsigned number)
{
    return ((uint64_t)lane * 64 + number % 64) * (8 + 8 * CHECK_RANKS) * 8;
}

static void lane_post(struct check_comm *c, struct lane *l, unsigned which)
{
    uint64_t at = slot(which, l->posted);
    struct zero_coll q = {.kind = ZERO_ALL_GATHER,
                          .src_dtype = ZERO_I64,
                          .dst_dtype = ZERO_I64,
                          .scale = 1,
                          .count = 1 + l->posted % 8,
                          .sequence = l->posted,
                          .group = which,
                          .user = (uint64_t)which << 32 | l->posted};

    q.src = check_slice(c, at, q.count * 8);
    q.dst = check_slice(c, at + 64, q.count * 8 * (uint64_t)l->ranks);
    for (uint64_t i = 0; i < q.count; i++)
        value_store(ZERO_I64, c->memory + at, i, mix(which, (uint64_t)l->rank, l->posted) + i);
    check_mark(c->r->host);
    int err = c->ops->post(l->comm, &q, 1, NULL);
    want(c->r, !check_ended(c->r, "post gives", err), "%s", c->r->ended);
    l->posted++;
}

static void lane_completed(struct check_comm *c, struct lane *lanes, const struct zero_cqe *cqe)
{
    unsigned which = (unsigned)(cqe->user >> 32) % LANES, k = (unsigned)cqe->user;
    struct lane *l = &lanes[which];
    struct check_rank *r = c->r;

    want(r, k == l->completed, "communicator %u: completion %u came where %u was due", which, k,
         l->completed);
    l->completed++;
    want(r, check_ended(r, "result", cqe->res) >= 0, "communicator %u, collective %u: %s", which, k,
         r->ended);
    for (uint64_t e = 0; e < (1 + k % 8) * (uint64_t)l->ranks; e++) {
        uint64_t got = value_load(ZERO_I64, c->memory + slot(which, k) + 64, e);
        uint64_t due = mix(which, e / (1 + k % 8), k) + e % (1 + k % 8);
        want(r, got == due,
             "communicator %u, collective %u: element %" PRIu64 " is 0x%" PRIx64
             ", want 0x%" PRIx64,
             which, k, e, got, due);
    }
}

/*
 * Three communicators with many collectives in flight each, posted in an order of every rank's own:
 * each gathers a counter that tells who sent what and when.
 */
void check_case_concurrent(struct check_rank *r)
{
    uint64_t rest = LANES * ROUNDS, z = 17 + (uint64_t)r->rank;
    unsigned room = r->caps.max_inflight < 64 ? r->caps.max_inflight : 64;
    int64_t until = check_now_ms() + 60000;
    struct lane lanes[LANES];
    struct check_comm c;

    if (!check_open(r, &c, SLAB)) {
        check_close(&c);
        return;
    }
    lanes[0] = (struct lane){.comm = c.world, .rank = r->rank, .ranks = r->ranks};
    split(&c, NULL, 2, true, &lanes[1]);
    split(&c, c.world, 3, false, &lanes[2]);
    while (rest && r->n_bad == 0) {
        unsigned which = (unsigned)((z = mix(z, 1, 1)) % LANES);
        struct lane *l = &lanes[which];
        struct zero_cqe cqes[8];
        if (l->posted < ROUNDS && l->posted - l->completed < room)
            lane_post(&c, l, which);
        int n = c.ops->progress(c.ctx, cqes, 8, z & 0xf00 ? 0 : 1000000);
        check_ended(r, "progress gives", n);
        want(r, n >= 0 && check_now_ms() < until, "%u of %u have ended: %s",
             (unsigned)(LANES * ROUNDS - rest), LANES * ROUNDS, r->ended);
        for (int i = 0; i < n; i++, rest--)
            lane_completed(&c, lanes, &cqes[i]);
    }
    want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
    for (unsigned i = 1; i < LANES; i++)
        if (lanes[i].comm)
            want(r, !c.ops->comm_close(lanes[i].comm), "comm_close: %s", check_error());
    check_close(&c);
}

/* A collective that is declared and, if any does, brings data; sums must not depend on order. */
static struct zero_coll some_collective(const struct check_rank *r)
{
    static const uint32_t kinds[] = {ZERO_ALL_REDUCE, ZERO_REDUCE_SCATTER, ZERO_ALL_GATHER,
                                     ZERO_BROADCAST};
    struct zero_coll q = {.src_dtype = ZERO_I32, .dst_dtype = ZERO_I32, .scale = 1, .count = 129};

    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        q.kind = kinds[i];
        if (check_can(r, &q))
            return q;
    }
    return (struct zero_coll){.kind = ZERO_BARRIER, .scale = 1};
}

/* Ranks with color -1 take part and get nothing; a communicator may be split again. */
void check_case_leave_out(struct check_rank *r)
{
    struct zero_comm *comm = (struct zero_comm *)1, *inner;
    struct zero_coll q = some_collective(r);
    struct check_comm c;

    if (check_open(r, &c, SLAB)) {
        if (want(r, !c.ops->split(c.ctx, NULL, r->rank == 0 ? -1 : 5, 0, &comm), "split: %s",
                 check_error()))
            want(r, (comm == NULL) == (r->rank == 0), "split: %s",
                 comm ? "color -1 got a communicator, not NULL" : "color 5 got no communicator");
        if (comm && !r->n_bad) {
            check_exact(&c, comm, r->rank - 1, r->ranks - 1, q, 5);
            if (want(r, !c.ops->split(c.ctx, comm, 0, -r->rank, &inner), "split again: %s",
                     check_error()))
                check_exact(&c, inner, r->ranks - 1 - r->rank, r->ranks - 1, q, 6);
        }
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
    }
    check_close(&c);
}

/* Communicators that come and go, some of them open at the same time. */
void check_case_many(struct check_rank *r)
{
    struct zero_coll q = {.kind = ZERO_ALL_GATHER,
                          .src_dtype = ZERO_I32,
                          .dst_dtype = ZERO_I32,
                          .scale = 1,
                          .count = 5};
    struct zero_comm *comms[8] = {NULL};
    struct check_comm c;

    if (check_open(r, &c, SLAB)) {
        for (uint64_t i = 0; i < 40 && !r->n_bad; i++) {
            struct zero_comm **comm = &comms[i % 8];
            if (*comm)
                want(r, !c.ops->comm_close(*comm), "comm_close: %s", check_error());
            if (want(r, !c.ops->split(c.ctx, i % 2 ? c.world : NULL, 0, 0, comm), "split: %s",
                     check_error()))
                check_exact(&c, *comm, r->rank, r->ranks, q, 700 + i);
            if (comms[(i + 3) % 8] && !r->n_bad)
                check_exact(&c, comms[(i + 3) % 8], r->rank, r->ranks, q, 800 + i);
        }
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
    }
    check_close(&c);
}

/* A batch is one post; a full ring says so and accepts more later. */
void check_case_batches(struct check_rank *r)
{
    struct zero_coll q[8];
    struct zero_cqe cqes[64];
    uint32_t posted = 0, most = r->caps.max_inflight, batch = most < 8 ? most : 8;
    struct check_comm c;
    int n, err = 0;

    if (!check_open(r, &c, SLAB)) {
        check_close(&c);
        return;
    }
    for (int i = 0; i < 8; i++)
        q[i] = check_meeting(&c, (uint64_t)i), q[i].user = (uint64_t)i;
    while (posted < 100000 && !(err = c.ops->post(c.world, q, batch, NULL))) {
        posted += batch;
        for (int i = 0; i < 8; i++)
            q[i].dst = check_meeting(&c, posted + (uint64_t)i).dst;
    }
    want(r, err == -EAGAIN && posted == most / batch * batch,
         "max_inflight is %u: %u in batches of %u were taken, then came %s; %u and -EAGAIN are due",
         most, posted, batch, check_value(r, err), most / batch * batch);
    for (uint32_t got = 0; got < posted; got += (uint32_t)n) {
        n = c.ops->progress(c.ctx, cqes, 5, CHECK_WAIT_NS);
        if (!want(r, n > 0 && n <= 5, "progress of 5 gives %s, %u are to come",
                  check_value(r, n), posted - got))
            break;
        for (uint32_t i = 0; i < (uint32_t)n; i++)
            want(r, cqes[i].user == (got + i) % batch,
                 "tag %" PRIu64 " came where %u was due, at place %u of %u", cqes[i].user,
                 (got + i) % batch, got + i, posted);
    }
    want(r, check_meet(&c, c.world) == 0, "after all have ended: %s", r->ended);
    check_close(&c);
}

/* Rank 0 sleeps in the first of two collectives that another rank posts as one batch. */
void check_case_batch_wakes(struct check_rank *r)
{
    struct zero_coll q[2];
    struct check_comm c;
    uint64_t user = 0;

    if (!check_open(r, &c, SLAB)) {
        check_close(&c);
        return;
    }
    for (int i = 0; i < 2; i++)
        q[i] = check_meeting(&c, 1 + (uint64_t)i), q[i].user = (uint64_t)i;
    want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
    if (r->rank) {
        check_sleep_ms(100);
        want(r, !c.ops->post(c.world, q, 2, NULL), "post of two: %s", check_error());
    } else {
        struct zero_cqe cqe;
        want(r, !c.ops->post(c.world, q, 1, NULL), "post of the first: %s", check_error());
        int n = c.ops->progress(c.ctx, &cqe, 1, CHECK_WAIT_NS);
        want(r, n == 1, "progress gives %s where the first of a batch should wake it",
             check_value(r, n));
        want(r, !c.ops->post(c.world, q + 1, 1, NULL), "post of the second: %s", check_error());
    }
    for (uint64_t i = r->rank == 0; i < 2; i++) {
        int64_t res = check_wait(&c, &user);
        want(r, res >= 0 && user == i,
             "tag %" PRIu64 " came where tag %" PRIu64 " was due: %s", user, i, r->ended);
    }
    want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
    check_close(&c);
}
