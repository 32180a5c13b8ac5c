/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes through the host's memory since the transport does not take the device's: pieces of one
 * collective overlap. When a piece is given to the transport, and when it goes back to the device,
 * another one is under way, too.
 */
#include "../tap.h"

#include <stdatomic.h>

#include "../fake/cuda_driver.h"
#include "engine/runtime.h"
#include "run/relay_types.h"
#include "toy.h"

static int (*copy)(struct zero_device *dev, void *dst, const void *src, uint64_t bytes,
                   void *stream);
static int (*post)(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n, void *stream);
static struct zero_runtime *_Atomic looked_at; /* rank 0's */
/* Of its lanes; alone: no other piece was under way, though the collective had more. */
static atomic_int n_posted[RELAY_LANES], n_posted_alone[RELAY_LANES];
static atomic_int n_back[RELAY_LANES], n_back_alone[RELAY_LANES];

/* Both are called with the lock held. */
static int copy_seen(struct zero_device *dev, void *dst, const void *src, uint64_t bytes,
                     void *stream)
{
    const struct zero_runtime *rt = atomic_load(&looked_at);

    for (int k = 0; dev == rt->site.dev && rt->run->relay && k < RELAY_LANES; k++) {
        const struct relay_lane *l = &rt->run->relay->lanes[k];
        if (stream != l->out)
            continue;
        n_back[k] += l->begun - l->ended > 1 || l->coll < l->n_colls;
        n_back_alone[k] += l->begun - l->ended == 1 && l->coll < l->n_colls;
    }
    return copy(dev, dst, src, bytes, stream);
}

static int post_seen(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n,
                     void *stream)
{
    const struct zero_runtime *rt = atomic_load(&looked_at);

    for (int k = 0; rt->run->relay && k < RELAY_LANES; k++) {
        const struct relay_lane *l = &rt->run->relay->lanes[k];
        if (comm != rt->run->lanes[k ? ZERO__Q_REDUCE : ZERO__Q_GATHER].comm || !l->s)
            continue;
        n_posted[k] += l->begun - l->ended > 1 || l->coll < l->n_colls;
        n_posted_alone[k] += l->begun - l->ended == 1 && l->coll < l->n_colls;
    }
    return post(comm, colls, n, stream);
}

static void look_on(struct zero_runtime *rt, int rank, void *arg)
{
    (void)arg;
    if (rank)
        return;
    atomic_store(&looked_at, rt);
    copy = rt->site.dev_ops.copy;
    post = rt->site.comm_ops.post;
    rt->site.dev_ops.copy = copy_seen;
    rt->site.comm_ops.post = post_seen;
}

static void *reach(const void *p)
{
    return fake_cuda_reach(p);
}

int main(void)
{
    static const struct zero_setting s[] = {{"device", "cuda"},  {"stage", "3"},
                                            {"shm_device", "0"}, {"relay_bytes", "8K"},
                                            {"timeout", "20"},   {"threads", "1"}};
    struct toy t = {.ranks = 2,
                    .layers = 4,
                    .steps = 3,
                    .dtype = ZERO_BF16,
                    .width = 6000,
                    .settings = s,
                    .n_settings = sizeof s / sizeof *s,
                    .seed = 11,
                    .registered = look_on,
                    .reach = reach};
    static const char *const names[RELAY_LANES] = {"gather", "reduce"};
    struct toy_result r;

    alarm(60);
    fake_cuda_set(NULL);
    ok(!toy_train(&t, &r) && r.agree, "two ranks train through the host's memory: %s", r.error);
    for (int k = 0; k < RELAY_LANES; k++) {
        ok(n_posted[k] > 0 && !n_posted_alone[k],
           "%s: a piece goes to the transport with another one under way", names[k]);
        ok(n_back[k] > 0 && !n_back_alone[k], "%s: also while one goes back", names[k]);
        diag("%d of %d alone there, %d of %d on the way back", n_posted_alone[k], n_posted[k],
             n_back_alone[k], n_back[k]);
    }
    done();
}
