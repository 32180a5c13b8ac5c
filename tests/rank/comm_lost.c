/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives over messages when connections break: each communicator with a lost peer fails and
 * names it, also those of the second peer that is lost; others go on. When the transport itself
 * breaks, what is said are its own words. A communicator that is closed and cannot say so goes.
 */
#include "comm.h"

#include "../../plugins/common/p2p/internal.h"
#include "base/status.h"

enum { A, B, C, D, PAIRS };

/* Of four ranks each communicator has those of one pair; D none that is lost. */
static const int pairs[PAIRS][2] = {{0, 1}, {0, 2}, {0, 3}, {2, 3}};

static atomic_int cut;     /* what rank 0 has lost, as bits */
static atomic_int n_ready; /* ranks with all communicators */

/* Moves on until the communicator has failed. */
static int failed(struct comm_rank *c, struct zero_comm *comm)
{
    int64_t until = now_ms() + WAIT_NS / 1000000;
    struct zero_cqe cqe;

    while (!c->ops->error(comm) && now_ms() < until)
        if (c->ops->progress(c->ctx, &cqe, 1, 1000000) < 0)
            break;
    return c->ops->error(comm);
}

static void lose(struct rank *r, struct comm_rank *c, struct zero_comm *comm, int peer)
{
    char name[16];

    atomic_fetch_or(&cut, 1 << peer);
    snprintf(name, sizeof name, "rank %d", peer);
    int err = failed(c, comm);
    want(r, err == -ECONNRESET, "without rank %d: %d", peer, err);
    /* What is posted now is refused with the reason. */
    struct zero_coll coll = {.kind = ZERO_BARRIER, .scale = 1};
    err = c->ops->post(comm, &coll, 1, NULL);
    want(r, err < 0 && strstr(zero_last_error(), name), "post: %d %s", err, zero_last_error());
}

/* Not a barrier of the transport: rank 0 would break it for those who are not through yet. */
static bool all_ready(struct comm_rank *c)
{
    int64_t until = now_ms() + WAIT_NS / 1000000;
    struct zero_cqe cqe;

    atomic_fetch_add(&n_ready, 1);
    while (atomic_load(&n_ready) < c->end.ranks && now_ms() < until)
        c->ops->progress(c->ctx, &cqe, 1, 1000000);
    return atomic_load(&n_ready) >= c->end.ranks;
}

static void run(struct rank *r)
{
    char address[24];
    const struct zero_setting settings[] = {{"mem_cut", address}};
    struct zero_comm *comms[PAIRS] = {NULL};
    struct comm_rank c = {0};

    snprintf(address, sizeof address, "%" PRIuPTR, r->rank == 0 ? (uintptr_t)&cut : 0);
    if (!comm_open(r, &c, "mem", 4096, settings, 1))
        goto end;
    for (int i = 0; i < PAIRS; i++) {
        bool in = r->rank == pairs[i][0] || r->rank == pairs[i][1];
        if (!want(r, !c.ops->split(c.ctx, c.world, in, r->rank, &comms[i]), "split: %s",
                  zero_last_error()))
            goto end;
    }
    if (!want(r, all_ready(&c), "the others are not ready"))
        goto end;
    if (r->rank == 0) {
        lose(r, &c, comms[A], 1);
        want(r, !c.ops->error(comms[B]) && !c.ops->error(comms[C]), "others failed, too");
        lose(r, &c, comms[B], 2);
        want(r, !c.ops->error(comms[C]), "the third failed, too");
    }
    if (r->rank == 2 || r->rank == 3)
        want(r, comm_barrier(&c, comms[D]) == 0, "a barrier of two who have lost nobody");
    if (r->rank == 0 || r->rank == 3)
        want(r, comm_barrier(&c, comms[C]) == 0, "a barrier with who is left");
end:
    comm_end(r, &c);
}

static atomic_int broken[2];

static void breaks(struct rank *r)
{
    const struct zero_coll coll = {.kind = ZERO_BARRIER, .scale = 1};
    char address[24];
    const struct zero_setting settings[] = {{"mem_broken", address}};
    struct comm_rank c = {0};
    struct zero_cqe cqe;

    snprintf(address, sizeof address, "%" PRIuPTR, (uintptr_t)&broken[r->rank]);
    if (comm_open(r, &c, "mem", 4096, settings, 1) &&
        want(r, comm_barrier(&c, c.world) == 0, "a barrier: %s", zero_last_error())) {
        atomic_store(&broken[r->rank], 1);
        int err = failed(&c, c.world);
        want(r, err == -EIO && strstr(zero_last_error(), "broken: the cable is out"),
             "error: %d %s", err, zero_last_error());
        zero__fail(-EIO, "nothing was said");
        err = c.ops->post(c.world, &coll, 1, NULL);
        want(r, err == -EIO && strstr(zero_last_error(), "the cable is out"), "post: %d %s", err,
             zero_last_error());
        zero__fail(-EIO, "nothing was said");
        err = c.ops->progress(c.ctx, &cqe, 1, 0);
        want(r, err == -EIO && strstr(zero_last_error(), "the cable is out"), "progress: %d %s",
             err, zero_last_error());
    }
    comm_end(r, &c);
}

static atomic_int refused; /* peers to which rank 0 can send nothing, as bits */
static atomic_int gone;    /* its communicator, or it was waited for in vain */

/* Its peer says nothing meanwhile, which would end the receive of its words. */
static void close_mute(struct rank *r)
{
    int64_t until = now_ms() + WAIT_NS / 1000000;
    char address[24];
    const struct zero_setting settings[] = {{"mem_refuse", address}};
    struct zero_comm *comm = NULL;
    struct comm_rank c = {0};
    struct zero_cqe cqe;

    snprintf(address, sizeof address, "%" PRIuPTR, r->rank == 0 ? (uintptr_t)&refused : 0);
    if (!comm_open(r, &c, "mem", 4096, settings, 1) ||
        !want(r, !c.ops->split(c.ctx, NULL, 0, 0, &comm), "split: %s", zero_last_error()) ||
        !want(r, comm_barrier(&c, comm) == 0, "a barrier: %s", zero_last_error()))
        goto end;
    if (r->rank == 0) {
        atomic_store(&refused, 1 << 1);
        want(r, !c.ops->comm_close(comm), "comm_close: %s", zero_last_error());
        for (int i = 0; i < 1000 && c.ctx->closed; i++)
            c.ops->progress(c.ctx, &cqe, 0, 0);
        want(r, !c.ctx->closed, "a closed communicator stays");
        atomic_store(&refused, 0);
    }
end:
    if (r->rank == 0)
        atomic_store(&gone, 1);
    while (!atomic_load(&gone) && now_ms() < until)
        sleep_ms(1);
    if (r->rank == 1 && c.ctx) /* it would wait for the word of rank 0 */
        c.ops->abort(c.ctx);
    comm_end(r, &c);
}

int main(void)
{
    comm_test_plugins();
    ranks_good(comm_ranks(4, AS_THREADS, run, NULL), 4, "one peer after the other is lost");
    ranks_good(comm_ranks(2, AS_THREADS, breaks, NULL), 2, "a transport that breaks says why");
    ranks_good(comm_ranks(2, AS_THREADS, close_mute, NULL), 2,
               "a closed communicator that cannot say so goes");
    done();
}
