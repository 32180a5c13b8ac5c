/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An optimizer of the application's own: SGD with momentum by zero_set_optimizer() gives the bits
 * of the built-in one, in every stage, and is called for each element of this rank exactly once.
 * One that fails is told with the parameter.
 */
#include "../tap.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>

#include "toy.h"

#define RANKS 2
#define WIDTH 1500        /* elements of a parameter */
#define TILED_WIDTH 40000 /* of one whose part of a rank takes some tiles of 32 KiB */
#define LR 0.01f
#define MOMENTUM 0.9f
#define DECAY 0.01f

struct counts {
    atomic_uint_fast64_t elements;
    atomic_int bad;
};

/* As device.h prescribes for SGD with coupled weight decay. */
static int sgd(void *arg, uint32_t param, uint64_t first, uint64_t count, uint64_t step, float *p,
               float *m, float *v, const float *grad)
{
    struct counts *c = arg;

    (void)param, (void)first;
    for (uint64_t i = 0; i < count; i++) {
        float g = fmaf(DECAY, p[i], grad[i]);
        m[i] = step == 1 ? g : fmaf(MOMENTUM, m[i], g);
        p[i] = fmaf(-LR, m[i], p[i]);
        if (v[i] != 0) /* nobody else writes it */
            atomic_fetch_add(&c->bad, 1);
    }
    atomic_fetch_add(&c->elements, count);
    return 0;
}

static void optimizer_set(struct zero_runtime *rt, int rank, void *arg)
{
    (void)rank;
    zero_set_optimizer(rt, sgd, arg);
}

static int run(const char *stage, const char *accum, const char *offload, uint32_t dtype,
               uint32_t flags, struct counts *counts, struct toy_result *r)
{
    struct zero_setting s[] = {{"stage", stage}, {"accum", accum},   {"lr", "0.01"},
                               {"clip", "0.5"},  {"timeout", "20"},  {"weight_decay", "0.01"},
                               {"momentum", "0.9"}, {"reduce_at", "micro"},
                               {"offload", offload}, {"tile_bytes", "32K"},
                               {"optimizer", "sgd"}};
    struct toy t = {.ranks = RANKS,
                    .layers = 3,
                    .steps = 4,
                    .dtype = dtype,
                    .flags = flags,
                    .width = *offload ? TILED_WIDTH : WIDTH,
                    .settings = s,
                    .n_settings = counts ? 10 : 11,
                    .seed = 3,
                    .registered = counts ? optimizer_set : NULL,
                    .arg = counts};
    return toy_train(&t, r);
}

static void equal(const char *stage, const char *accum, const char *offload, uint32_t dtype,
                  uint32_t flags)
{
    struct counts c = {0};
    struct toy_result built_in, own;
    int err = run(stage, accum, offload, dtype, flags, NULL, &built_in);

    if (!err)
        err = run(stage, accum, offload, dtype, flags, &c, &own);
    if (err) {
        ok(0, "stage %s: %s", stage, own.err ? own.error : built_in.error);
        return;
    }
    ok(built_in.hash == own.hash && own.agree,
       "stage %s, %s, %s micro-batches%s%s%s: the same bits", stage,
       zero_dtype_name(dtype), accum, flags & TOY_FROZEN ? ", frozen" : "",
       *offload ? ", " : "", offload);
    /* Two parameters a layer; in stage 0 every rank updates them all. A skipped step calls none. */
    uint64_t trained = 2 * 3 - (flags & TOY_FROZEN ? 1 : 0);
    uint64_t steps = own.info.step, copies = *stage == '0' ? RANKS : 1;
    is_int(c.elements, trained * (*offload ? TILED_WIDTH : WIDTH) * steps * copies,
           "every element once a step");
    is_int(c.bad, 0, "what the callback does not use stays zero");
}

/* Parameter 3 is the second one of the second layer. */
static int fails(void *arg, uint32_t param, uint64_t first, uint64_t count, uint64_t step, float *p,
                 float *m, float *v, const float *grad)
{
    (void)arg, (void)first, (void)count, (void)step, (void)p, (void)m, (void)v, (void)grad;
    return param == 3 ? -EIO : 0;
}

static void failing_set(struct zero_runtime *rt, int rank, void *arg)
{
    (void)rank, (void)arg;
    zero_set_optimizer(rt, fails, NULL);
}

static void failing(void)
{
    struct zero_setting s[] = {{"stage", "0"}, {"timeout", "20"}};
    struct toy t = {.ranks = RANKS, .layers = 3, .steps = 1, .dtype = ZERO_BF16, .width = WIDTH,
                    .settings = s, .n_settings = 2, .seed = 3, .registered = failing_set};
    struct toy_result r;
    int err = toy_train(&t, &r);

    ok(err == -EIO && strstr(r.error, "the optimizer callback returned -5 for parameter layer1.b, "
                                      "elements 0 to 1499"),
       "one that fails: %s", r.error);
}

int main(void)
{
    equal("0", "1", "", ZERO_F32, 0);
    equal("1", "1", "", ZERO_BF16, 0);
    equal("2", "3", "", ZERO_BF16, TOY_FROZEN);
    equal("3", "1", "", ZERO_F16, 0);
    equal("3", "3", "", ZERO_F32, TOY_FROZEN | TOY_PERSISTENT);
    equal("2", "1", "optimizer:cpu", ZERO_BF16, 0);
    equal("3", "2", "optimizer:cpu,gradients:cpu", ZERO_F32, 0);
    equal("1", "1", "optimizer:nvme", ZERO_BF16, TOY_FROZEN);
    failing();
    done();
}
