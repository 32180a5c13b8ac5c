/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators share the work of a turn: one whose last message comes while another's long copy
 * takes all of it is not forgotten, though no further message will ever wake it.
 * And who waits in split() for a rank that is late has no work, and sleeps.
 */
#include "comm.h"

#define COPY (UINT64_C(24) << 20) /* two dozen turns of work */
#define SUM UINT64_C(1000)        /* elements of a rank */
#define SEEDS 12                  /* the message comes in a turn of either communicator's */

static atomic_int said; /* 1: rank 0 waits for the sum, 2: rank 1 has sent its part of it */
static uint64_t seed;

static void turns(struct comm_rank *c, int n)
{
    struct zero_cqe none;

    while (n--)
        c->ops->progress(c->ctx, &none, 0, 0);
}

static void say(struct comm_rank *c, int what)
{
    turns(c, 100);
    atomic_store(&said, what);
}

static void hear(int what)
{
    int64_t until = now_ms() + 10000;

    while (atomic_load(&said) < what && now_ms() < until)
        usleep(1000);
}

static void post_and_wait(struct rank *r, struct comm_rank *c, struct zero_comm *alone)
{
    const uint64_t of_sum = 4 * SUM * (uint64_t)r->ranks, far = 2 * COPY;
    const struct zero_coll
        sum = {.kind = ZERO_REDUCE_SCATTER,
               .src_dtype = ZERO_F32,
               .dst_dtype = ZERO_F32,
               .scale = 1,
               .count = SUM,
               .user = 1,
               .src = comm_slice(c, far, of_sum),
               .dst = comm_slice(c, far + of_sum, 4 * SUM)},
        copy = {.kind = ZERO_ALL_GATHER,
                .src_dtype = ZERO_U8,
                .dst_dtype = ZERO_U8,
                .scale = 1,
                .count = COPY,
                .user = 2,
                .src = comm_slice(c, 0, COPY),
                .dst = comm_slice(c, COPY, COPY)};
    uint64_t first = 0, second = 0;

    if (r->rank == 1)
        hear(1);
    want(r, !c->ops->post(c->world, &sum, 1, NULL), "post: %s", zero_last_error());
    say(c, r->rank == 1 ? 2 : 1);
    if (r->rank == 0) {
        hear(2);
        want(r, !c->ops->post(alone, &copy, 1, NULL), "post: %s", zero_last_error());
        int64_t one = comm_wait(c, &first), two = comm_wait(c, &second);
        want(r, one > 0 && two > 0 && first + second == 3,
             "user %d ends with %d, user %d with %d: the sum has user 1", (int)first, (int)one,
             (int)second, (int)two);
    } else {
        want(r, comm_wait(c, &first) == 4 * (int64_t)SUM && first == 1, "the peer has no sum");
    }
}

static void share(struct rank *r)
{
    struct comm_rank c = {0};
    struct zero_comm *alone;
    char number[24];
    const struct zero_setting settings[] = {{"mem_seed", number}};

    snprintf(number, sizeof number, "%" PRIu64, seed);
    if (comm_open(r, &c, "mem", 2 * COPY + 16 * SUM, settings, 1) &&
        want(r, !c.ops->split(c.ctx, c.world, r->rank, 0, &alone), "split: %s", zero_last_error()))
        post_and_wait(r, &c, alone);
    comm_end(r, &c);
}

static double used_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* With a collective that has ended, and that nobody asks for meanwhile. */
static void wait_in_split(struct rank *r)
{
    struct comm_rank c = {0};
    const struct zero_coll barrier = {.kind = ZERO_BARRIER, .scale = 1, .user = 3};
    struct zero_comm *other;
    uint64_t user;
    double before;

    if (!comm_open(r, &c, "mem", SUM, NULL, 0)) {
        comm_end(r, &c);
        return;
    }
    want(r, !c.ops->post(c.world, &barrier, 1, NULL), "post: %s", zero_last_error());
    turns(&c, 100);
    if (r->rank == 1)
        sleep_ms(600);
    before = used_s();
    want(r, !c.ops->split(c.ctx, c.world, 0, 0, &other), "split: %s", zero_last_error());
    want(r, used_s() - before < 0.3, "split() used a processor for %.3f s", used_s() - before);
    want(r, comm_wait(&c, &user) == 0 && user == 3, "the barrier is lost");
    comm_end(r, &c);
}

int main(void)
{
    comm_test_plugins();
    for (seed = 1; seed <= SEEDS; seed++) {
        atomic_store(&said, 0);
        ranks_good(comm_ranks(2, AS_THREADS, share, NULL), 2,
                   "a sum ends beside a copy that takes all turns, seed %" PRIu64, seed);
    }
    ranks_good(comm_ranks(2, AS_THREADS, wait_in_split, NULL), 2, "split() sleeps");
    done();
}
