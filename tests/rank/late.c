/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where parameters are mapped no byte moves, so nothing makes ranks meet but what the program says:
 * no rank updates parameters that a late peer still reads, and none reads those that a late owner
 * has not updated. One rank is late for so long that the other would be through, and the weights
 * are those of copies without delays.
 *
 * What is late to read is an evaluation in front of the update, too: a backward pass alone would be
 * waited for by the reductions of its gradients.
 */
#include "../tap.h"

#include <time.h>
#include <unistd.h>

#include "toy.h"

#define RANKS 2
#define LAYERS 4
#define STEPS 3
#define LATE_MS 15u
#define NOBODY (-1)

/* The built-in kernels cannot be made late. */
static int sgd(void *arg, uint32_t param, uint64_t first, uint64_t count, uint64_t step, float *p,
               float *m, float *v, const float *grad)
{
    const uint32_t *late_ms = arg;
    struct timespec t = {0, *late_ms * 1000000L};

    (void)param, (void)first, (void)step, (void)m, (void)v;
    if (*late_ms)
        nanosleep(&t, NULL);
    for (uint64_t i = 0; i < count; i++)
        p[i] -= 0.05f * grad[i];
    return 0;
}

static void registered(struct zero_runtime *rt, int rank, void *arg)
{
    uint32_t *late_ms = arg;

    zero_set_optimizer(rt, sgd, &late_ms[rank]);
}

static int run(const char *map, uint32_t dtype, const char *accum, uint32_t flags, int reader,
               int owner, struct toy_result *r)
{
    struct zero_setting s[] = {
        {"stage", "3"}, {"comm", "shm"}, {"map", map}, {"accum", accum}, {"timeout", "20"}};
    uint32_t late_ms[RANKS] = {0}; /* of owners */
    struct toy t = {.ranks = RANKS, .layers = LAYERS, .steps = STEPS, .dtype = dtype,
                    .flags = flags | TOY_BEFORE, .width = 6144, .settings = s, .n_settings = 5,
                    .seed = 5, .late = reader, .late_ms = reader == NOBODY ? 0 : LATE_MS,
                    .registered = registered, .arg = late_ms};

    if (owner != NOBODY)
        late_ms[owner] = LATE_MS;
    if (toy_train(&t, r))
        diag("%s", r->error);
    return r->err;
}

static void late(uint32_t dtype, const char *accum, uint32_t flags)
{
    struct toy_result copied, r;

    if (run("0", dtype, accum, flags, NOBODY, NOBODY, &copied) || copied.memory.mapped) {
        ok(0, "copies without delays");
        return;
    }
    for (int i = 0; i < 2 * RANKS; i++) {
        int reads = i < RANKS, rank = i % RANKS;
        run("1", dtype, accum, flags, reads ? rank : NOBODY, reads ? NOBODY : rank, &r);
        ok(!r.err && r.agree && r.hash == copied.hash && r.memory.mapped,
           "%s, %s micro-batches: rank %d is late to %s, the same bits", zero_dtype_name(dtype),
           accum, rank, reads ? "read" : "update");
    }
}

int main(void)
{
    alarm(100);
    late(ZERO_F32, "1", 0);
    late(ZERO_BF16, "2", TOY_TIED);
    done();
}
