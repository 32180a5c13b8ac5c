/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory is given back after an abort while a large message that cannot be cancelled is on its way
 * into it. Nothing touches it after that, whatever the transport does at its end.
 */
#include "comm.h"

#define BIG (UINT64_C(1) << 20)
#define MARK 0x5a

static atomic_int held;    /* messages to rank 0 */
static atomic_int through; /* rank 0 has closed its context */
static uint64_t seed;

static bool begin(struct rank *r, struct comm_rank *c)
{
    const struct zero_coll q = {.kind = ZERO_ALL_GATHER,
                                .src_dtype = ZERO_U8,
                                .dst_dtype = ZERO_U8,
                                .scale = 1,
                                .count = BIG,
                                .user = 1,
                                .src = comm_slice(c, 0, BIG),
                                .dst = comm_slice(c, BIG, BIG * 2)};
    int64_t until = now_ms() + 10000;
    struct zero_cqe cqe;

    if (!want(r, !c->ops->post(c->world, &q, 1, NULL), "post: %s", zero_last_error()))
        return false;
    while (!atomic_load(&held) && now_ms() < until)
        c->ops->progress(c->ctx, &cqe, 0, 1000000);
    return want(r, atomic_load(&held) == 1, "%d messages are held", atomic_load(&held));
}

/* The memory stays mapped, so that what touches it is seen instead of felt. */
static void give_back(struct rank *r, struct comm_rank *c)
{
    struct zero_mr *mr;
    uint64_t n = 0;

    want(r, !c->ops->abort(c->ctx), "abort: %s", zero_last_error());
    want(r, !c->ops->unreg(c->ctx, c->mr), "unreg: %s", zero_last_error());
    memset(c->memory, MARK, c->bytes);
    int err = c->ops->reg(c->ctx, c->memory, c->bytes, ZERO_MEM_HOST, &mr);
    want(r, err == -ECANCELED, "reg of a transport that was stopped: %d", err);
    int64_t res = comm_wait(c, NULL);
    want(r, res == -ECANCELED, "it ends with %d", (int)res);
    want(r, !c->ops->close(c->ctx), "close: %s", zero_last_error());
    c->ctx = NULL;
    for (uint64_t i = 0; i < c->bytes; i++)
        n += (unsigned char)c->memory[i] != MARK;
    want(r, n == 0, "%" PRIu64 " bytes changed after the memory was given back", n);
}

static void run(struct rank *r)
{
    char number[24], address[24];
    const struct zero_setting settings[] = {{"mem_seed", number}, {"mem_hold", address}};
    int64_t until = now_ms() + 20000;
    struct comm_rank c = {0};

    snprintf(number, sizeof number, "%" PRIu64, seed);
    snprintf(address, sizeof address, "%" PRIuPTR, r->rank == 0 ? (uintptr_t)&held : 0);
    if (comm_open(r, &c, "mem", 3 * BIG, settings, 2)) {
        memset(c.memory, r->rank, c.bytes);
        if (begin(r, &c) && r->rank == 0)
            give_back(r, &c);
    }
    if (r->rank == 0)
        atomic_store(&through, 1);
    while (!atomic_load(&through) && now_ms() < until)
        sleep_ms(1);
    comm_end(r, &c);
}

int main(void)
{
    comm_test_plugins();
    for (seed = 1; seed <= 8; seed++) { /* even: receives are late */
        atomic_store(&held, 0);
        atomic_store(&through, 0);
        ranks_good(comm_ranks(2, AS_THREADS, run, NULL), 2,
                   "nothing touches memory that was given back, seed %" PRIu64, seed);
    }
    done();
}
