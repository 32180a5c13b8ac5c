/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom a collective waits for when all ranks have posted it and one does not go on: that one, and
 * only then those that wait for it, too.
 */
#include "comm.h"

#define RANKS 4
#define STUCK 3
#define COUNT (UINT64_C(64) << 10) /* elements of a rank, in chunks of 4 KiB */
#define STEADY 50                  /* times that the same is said, a millisecond each */

static atomic_int stuck, seen; /* the rank does not go on; so many others have named it */

struct try {
    const char *plugin;
    uint32_t kind;
    bool midway; /* it has to hear its peers before they know that it has posted */
};

/* Posts, goes on until its first sums are there, and stays away until the others have seen it. */
static void stay_away(struct comm_rank *c, const struct try *t, const float *sums)
{
    int64_t until = now_ms() + WAIT_NS / 1000000;
    struct zero_cqe none;

    while (t->midway && *sums == 0 && now_ms() < until)
        c->ops->progress(c->ctx, &none, 0, 0);
    atomic_store(&stuck, 1);
    until = now_ms() + 2 * WAIT_NS / 1000000;
    while (atomic_load(&seen) < RANKS - 1 && now_ms() < until)
        sleep_ms(1);
}

static void look(struct rank *r, struct comm_rank *c)
{
    int64_t until = now_ms() + WAIT_NS / 1000000;
    int32_t who[RANKS] = {-1};
    struct zero_cqe none;
    int steady = 0, n = 0;

    while (steady < STEADY && now_ms() < until) {
        c->ops->progress(c->ctx, &none, 0, 1000000);
        n = c->ops->missing(c->world, who, RANKS);
        steady = atomic_load(&stuck) && n > 0 && who[0] == STUCK ? steady + 1 : 0;
    }
    want(r, steady == STEADY, "of %d ranks the first is %d", n, (int)who[0]);
    want(r, n == RANKS - 1, "%d ranks and not all others", n);
    n = c->ops->missing(c->world, who, 1);
    want(r, n == 1 && who[0] == STUCK, "the first of %d is %d", n, (int)who[0]);
    atomic_fetch_add(&seen, 1);
}

static void run(struct rank *r)
{
    const struct zero_setting settings[] = {{"mem_most", "4096"}};
    const struct try *t = r->arg;
    uint64_t count = t->kind == ZERO_REDUCE_SCATTER ? RANKS * COUNT : COUNT;
    struct comm_rank c = {0};

    if (!comm_open(r, &c, t->plugin, 4 * (count + COUNT), settings, t->midway))
        goto end;
    float *src = (float *)(void *)c.memory, *dst = src + count;
    const struct zero_coll coll = {.kind = t->kind,
                                   .src_dtype = ZERO_F32,
                                   .dst_dtype = ZERO_F32,
                                   .scale = 1,
                                   .count = COUNT,
                                   .src = comm_slice(&c, 0, 4 * count),
                                   .dst = comm_slice(&c, 4 * count, 4 * COUNT)};
    for (uint64_t i = 0; i < count; i++)
        src[i] = 1;
    dst[0] = 0;
    if (!want(r, !c.ops->post(c.world, &coll, 1, NULL), "post: %s", zero_last_error()))
        goto end;
    if (r->rank == STUCK)
        stay_away(&c, t, dst);
    else
        look(r, &c);
    want(r, comm_wait(&c, NULL) == 4 * (int64_t)COUNT, "it ends in the end");
    want(r, dst[COUNT - 1] == RANKS, "the sum is %g", (double)dst[COUNT - 1]);
end:
    comm_end(r, &c);
}

static void try(const char *plugin, uint32_t kind, bool midway)
{
    struct try t = {plugin, kind, midway};

    atomic_store(&stuck, 0);
    atomic_store(&seen, 0);
    ranks_good(comm_ranks(RANKS, AS_THREADS, run, &t), RANKS, "%s names who does not go on",
               plugin);
}

int main(void)
{
    try("shm", ZERO_ALL_REDUCE, false);
    comm_test_plugins();
    try("mem", ZERO_REDUCE_SCATTER, true);
    done();
}
