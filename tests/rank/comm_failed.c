/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator fails while a large message of it is under way to a rank that will never receive
 * it. Memory that the message does not use can be given back, and others go on.
 */
#include "comm.h"

#define BIG (UINT64_C(1) << 20)

static atomic_int said; /* ranks that have had their turns, one after the other */
static uint64_t seed;

static void turns(struct comm_rank *c, int n)
{
    struct zero_cqe cqe;

    for (; n; n--)
        c->ops->progress(c->ctx, &cqe, 0, 0);
}

/* Rank 1 says that it is ready, rank 0 sends to it, rank 2 posts something else. */
static void fall_apart(struct rank *r, struct comm_rank *c, struct zero_comm *comm)
{
    static const int before[] = {1, 0, 2};
    const uint64_t bytes = r->rank == 2 ? BIG / 2 : BIG;
    const struct zero_coll q = {.kind = ZERO_ALL_GATHER,
                                .src_dtype = ZERO_U8,
                                .dst_dtype = ZERO_U8,
                                .scale = 1,
                                .count = bytes,
                                .user = 1,
                                .src = comm_slice(c, 0, bytes),
                                .dst = comm_slice(c, BIG, bytes * 3)};
    int64_t until = now_ms() + 10000, res;

    while (atomic_load(&said) < before[r->rank] && now_ms() < until)
        sleep_ms(1);
    want(r, !c->ops->post(comm, &q, 1, NULL), "post: %s", zero_last_error());
    turns(c, 60);
    atomic_fetch_add(&said, 1);
    res = comm_wait(c, NULL);
    want(r, res == -EPROTO, "result %d", (int)res);
}

static void go_on(struct rank *r)
{
    struct comm_rank c = {0};
    struct zero_comm *failing;
    struct zero_mr *other = NULL;
    static char memory[3][4096];
    char number[24];
    const struct zero_setting settings[] = {{"mem_seed", number}};

    snprintf(number, sizeof number, "%" PRIu64, seed);
    if (comm_open(r, &c, "mem", 4 * BIG, settings, 1) &&
        want(r, !c.ops->split(c.ctx, NULL, 0, 0, &failing), "split: %s", zero_last_error()) &&
        want(r,
             !c.ops->reg(c.ctx, memory[r->rank], sizeof memory[0], ZERO_MEM_HOST, &other) &&
                 !c.ops->exchange(c.ctx, other),
             "reg: %s", zero_last_error())) {
        fall_apart(r, &c, failing);
        want(r, !c.ops->unreg(c.ctx, other), "unreg: %s", zero_last_error());
        int64_t met = comm_barrier(&c, c.world);
        want(r, met == 0, "another communicator ends with %d: %s", (int)met, zero_last_error());
    }
    comm_end(r, &c);
}

int main(void)
{
    comm_test_plugins();
    for (seed = 2; seed <= 16; seed += 2) { /* even: receives are late */
        atomic_store(&said, 0);
        ranks_good(comm_ranks(3, AS_THREADS, go_on, NULL), 3,
                   "memory of others is given back, seed %" PRIu64, seed);
    }
    done();
}
