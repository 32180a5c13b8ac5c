/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The founding promise on a toy model: stages 0 to 3 give the same bits, with whatever else the
 * model and the options ask for.
 */
#include "../tap.h"

#include <math.h>

#include "toy.h"

#define MAX_SETTINGS 8

static int run(uint32_t flags, uint32_t dtype, int ranks, const char *stage, const char *accum,
               const char *reduce_at, const char *more_name, const char *more_value,
               struct toy_result *r)
{
    struct zero_setting s[MAX_SETTINGS] = {{"stage", stage},
                                           {"accum", accum},
                                           {"reduce_at", reduce_at},
                                           {"clip", "0.5"},
                                           {"lr", "0.01"},
                                           {"timeout", "20"},
                                           {more_name, more_value},
                                           {"momentum", "0.9"}};
    bool sgd = more_value && !strcmp(more_value, "sgd");
    struct toy t = {.ranks = ranks,
                    .layers = 5,
                    .steps = 6,
                    .dtype = dtype,
                    .flags = flags,
                    .width = more_name && !strcmp(more_name, "map") ? 6144 : 1500, /* pages */
                    .settings = s,
                    .n_settings = sgd ? 8 : more_name ? 7 : 6,
                    .seed = 7};
    return toy_train(&t, r);
}

/* Bytes that a class reserves. */
static uint64_t row_of(const struct toy_result *r, const char *class)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < r->memory.n_rows; i++)
        if (!strcmp(r->memory.rows[i].class_name, class))
            bytes += r->memory.rows[i].reserved;
    return bytes;
}

static void stages_agree(const char *what, uint32_t flags, uint32_t dtype, int ranks,
                         const char *accum, const char *reduce_at, const char *name,
                         const char *value)
{
    static const char *const stages[] = {"0", "1", "2", "3"};
    struct toy_result r[4];
    int good = 1, maps = name && !strcmp(name, "map");

    for (int i = 0; i < 4; i++) {
        if (run(flags, dtype, ranks, stages[i], accum, reduce_at, name, value, &r[i])) {
            diag("stage %d: %s", i, r[i].error);
            good = 0;
        } else if (!r[i].agree || r[i].hash != r[0].hash) {
            diag("stage %d: hash %016" PRIx64 ", stage 0 %016" PRIx64 ", ranks agree: %d, norm %g",
                 i, r[i].hash, r[0].hash, r[i].agree, r[i].info.grad_norm);
            good = 0;
        }
    }
    if (good && name && !strcmp(name, "optimizer") && !row_of(&r[0], "momentum")) {
        diag("the optimizer has no momentum");
        good = 0;
    }
    if (good && maps && !r[3].memory.mapped) {
        diag("nothing is mapped");
        good = 0;
    }
    ok(good, "%s: stages 0 to 3 agree (%s, %d ranks, %s micro-batches, reduce at %s)", what,
       zero_dtype_name(dtype), ranks, accum, reduce_at);
}

int main(void)
{
    stages_agree("plain", 0, ZERO_F32, 1, "1", "auto", NULL, NULL);
    stages_agree("plain", 0, ZERO_F32, 2, "1", "auto", NULL, NULL);
    stages_agree("plain", 0, ZERO_BF16, 3, "1", "auto", NULL, NULL);
    stages_agree("plain", 0, ZERO_F16, 2, "1", "auto", NULL, NULL);
    stages_agree("plain", 0, ZERO_BF16, 2, "3", "micro", NULL, NULL);
    stages_agree("plain", 0, ZERO_BF16, 4, "3", "boundary", NULL, NULL);
    stages_agree("small buckets", 0, ZERO_BF16, 2, "1", "auto", "bucket_bytes", "4K");
    stages_agree("no prefetch", 0, ZERO_F32, 2, "1", "auto", "prefetch_bytes", "0");
    stages_agree("retained", 0, ZERO_F32, 2, "1", "auto", "retain_bytes", "1M");
    stages_agree("tied", TOY_TIED, ZERO_BF16, 2, "1", "auto", NULL, NULL);
    stages_agree("tied", TOY_TIED, ZERO_F32, 3, "3", "micro", NULL, NULL);
    stages_agree("frozen, persistent", TOY_FROZEN | TOY_PERSISTENT, ZERO_BF16, 2, "1", "auto", NULL,
                 NULL);
    stages_agree("unused", TOY_UNUSED, ZERO_BF16, 2, "3", "boundary", NULL, NULL);
    stages_agree("recompute", TOY_RECOMPUTE, ZERO_F32, 2, "1", "auto", NULL, NULL);
    stages_agree("evaluations", TOY_EVAL, ZERO_BF16, 2, "1", "auto", NULL, NULL);
    stages_agree("on a stream", TOY_STREAM, ZERO_BF16, 2, "1", "auto", NULL, NULL);
    stages_agree("on a stream, tied, recompute", TOY_STREAM | TOY_TIED | TOY_RECOMPUTE, ZERO_F32, 3,
                 "3", "micro", NULL, NULL);
    stages_agree("on a stream, order changes", TOY_STREAM | TOY_REORDER, ZERO_F32, 2, "1", "auto",
                 NULL, NULL);
    stages_agree("order changes unannounced", TOY_REORDER, ZERO_BF16, 2, "1", "auto", NULL, NULL);
    stages_agree("order changes unannounced", TOY_REORDER, ZERO_F32, 2, "3", "micro", NULL, NULL);
    stages_agree("order changes announced", TOY_REORDER | TOY_ANNOUNCE, ZERO_BF16, 3, "1", "auto",
                 NULL, NULL);
    stages_agree("a unit left out", TOY_SKIP, ZERO_BF16, 2, "1", "auto", NULL, NULL);
    stages_agree("a unit left out at last", TOY_EARLY, ZERO_BF16, 2, "3", "micro", NULL, NULL);
    stages_agree("a unit left out at last", TOY_EARLY, ZERO_F32, 3, "3", "boundary", NULL, NULL);
    stages_agree("a use left out behind a frozen unit", TOY_STILL | TOY_SHORT, ZERO_BF16, 2, "1",
                 "auto", NULL, NULL);
    stages_agree("a use left out behind a frozen unit", TOY_STILL | TOY_SHORT, ZERO_F32, 2, "3",
                 "boundary", NULL, NULL);
    stages_agree("sgd with momentum", 0, ZERO_F32, 2, "1", "auto", "optimizer", "sgd");
    stages_agree("sgd with momentum", 0, ZERO_BF16, 3, "3", "micro", "optimizer", "sgd");
    stages_agree("adam", 0, ZERO_F32, 2, "1", "auto", "optimizer", "adam");
    stages_agree("adam", 0, ZERO_BF16, 3, "3", "micro", "optimizer", "adam");
    stages_agree("mapped", 0, ZERO_F32, 2, "1", "auto", "map", "1");
    stages_agree("mapped", 0, ZERO_BF16, 3, "3", "micro", "map", "1");
    stages_agree("mapped, tied", TOY_TIED | TOY_EVAL, ZERO_BF16, 2, "1", "auto", "map", "1");
    stages_agree("mapped, frozen, persistent", TOY_FROZEN | TOY_PERSISTENT, ZERO_F32, 3, "2",
                 "boundary", "map", "1");
    stages_agree("mapped, recompute, on a stream", TOY_STREAM | TOY_RECOMPUTE, ZERO_BF16, 3, "1",
                 "auto", "map", "1");
    stages_agree("mapped, order changes unannounced", TOY_REORDER, ZERO_BF16, 2, "3", "micro",
                 "map", "1");
    stages_agree("mapped, not finite", TOY_NAN, ZERO_F16, 2, "1", "auto", "map", "1");
    stages_agree("not finite", TOY_NAN, ZERO_F16, 2, "1", "auto", NULL, NULL);
    done();
}
