/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activations on the device, in memory of the host, on a disk, or divided among them: the same bits
 * as a model that keeps them itself, in every stage, with accumulation, evaluations, streams and
 * steps out of order, whatever the budget for copies; and what is reserved where. The plugin
 * `fault` does parts of requests only, late, and has no room at times. Last, a copy that fails.
 */
#include "../tap.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"
#include "engine/runtime.h"
#include "folder.h"
#include "toy.h"

static char path[4096];

struct what {
    const char *stage;
    uint32_t dtype, flags;
    int ranks;
    const char *accum, *prefetch;
};

static int run(const struct what *w, const char *offload, struct toy_result *r)
{
    struct zero_setting s[] = {{"stage", w->stage},
                               {"accum", w->accum},
                               {"prefetch_bytes", w->prefetch},
                               {"lr", "0.01"},
                               {"timeout", "20"},
                               {"offload", offload},
                               {"nvme_path", path},
                               {"tile_bytes", "64K"},
                               {"fault_io", "cut=20000:times=0,delay=1:op=write:n=3:times=40,"
                                            "delay=2:op=read:n=5:times=20,busy:n=2:times=3"}};
    bool faults = strstr(offload, "fault"), disk = faults || strstr(offload, "nvme");
    struct toy t = {.ranks = w->ranks,
                    .layers = 6,
                    .steps = 4,
                    .dtype = w->dtype,
                    .flags = w->flags,
                    .width = 9000,
                    .settings = s,
                    .n_settings = faults ? 9
                                  : disk ? 8
                                         : 6,
                    .seed = 7};

    return toy_train(&t, r);
}

static void agree(struct what w)
{
    static const char *const tiers[] = {"",
                                        "activations:cpu",
                                        "activations:nvme",
                                        "activations:device:0.3+cpu:0.3+nvme:0.4",
                                        "activations:fault",
                                        "optimizer:nvme,activations:cpu:0.5+nvme:0.5",
                                        "parameters:nvme,activations:cpu"};
    struct toy_result here, there;
    int good = !run(&w, "", &here);

    if (!good)
        diag("without activations: %s", here.error);
    w.flags |= TOY_ACTIVATIONS;
    /* A step that leaves the order has the room of the plan: with parts on the device that is less.
     */
    unsigned n = w.flags & TOY_SKIP ? 3 : sizeof tiers / sizeof *tiers;
    for (unsigned i = 0; i < n && good; i++) {
        good = !run(&w, tiers[i], &there) && there.agree && there.hash == here.hash &&
               there.loss == here.loss;
        if (!good)
            diag("%s: %s, hash %016" PRIx64 ", without activations %016" PRIx64, tiers[i],
                 there.err ? there.error : "it trains", there.hash, here.hash);
    }
    ok(good,
       "stage %s, %s, %d rank%s, %s micro-batch%s, prefetch %s%s: the same bits in every tier",
       w.stage, zero_dtype_name(w.dtype), w.ranks, w.ranks > 1 ? "s" : "", w.accum,
       strcmp(w.accum, "1") ? "es" : "", w.prefetch,
       w.flags != TOY_ACTIVATIONS ? ", odd model" : "");
}

static uint64_t bytes_in(const struct toy_result *r, const char *tier)
{
    return toy_planned(r, tier, "activations");
}

/*
 * Six activations of nine pages (36,000 bytes), and the vectors between two layers. The last two
 * are consumed so soon that they stay.
 */
static void reserved(void)
{
    static const struct what w = {"2", ZERO_BF16, TOY_ACTIVATIONS, 2, "1", "64K"};
    struct toy_result here, cpu, disk;
    const uint64_t one = 36864;
    int err = run(&w, "", &here) || run(&w, "activations:cpu", &cpu) ||
              run(&w, "activations:nvme", &disk);

    is_int(err, 0, "the toy trains in each tier");
    is_int(bytes_in(&cpu, "cpu"), 4 * one,
           "all but two at the turning point lie in the host's memory");
    is_int(bytes_in(&disk, "nvme"), 4 * one, "or on the disk");
    ok(bytes_in(&disk, "cpu") <= 2 * one, "which needs %" PRIu64 " bytes of the host's memory",
       bytes_in(&disk, "cpu"));
    is_int(bytes_in(&here, "device") - bytes_in(&cpu, "device"), 3 * one,
           "three of six are on the device at once: in use, on its way, at the turning point");
    is_int(bytes_in(&disk, "device"), bytes_in(&cpu, "device"), "with a disk as with the host");
}

/* ---- A copy that fails ----------------------------------------------------------------------- */

#define FAILS "rank 1 failed in save: activation kept1: the copy fails"

static int no_copy(struct zero_device *dev, void *dst, const void *src, uint64_t bytes,
                   void *stream)
{
    (void)dev, (void)dst, (void)src, (void)bytes, (void)stream;
    return zero__fail(-EIO, "the copy fails");
}

static void spoil(struct zero_runtime *rt, int rank, void *arg)
{
    (void)arg;
    if (rank == 1)
        rt->site.dev_ops.copy = no_copy; /* which this model asks for in a save alone */
}

/* Of the first error of each rank, and of what the next call of rank 1 says. */
static void note(struct zero_runtime *rt, int rank, int err, const char *error, void *arg)
{
    int *good = arg;

    if (rank == 1) {
        good[2] = zero_begin(rt, ZERO_TRAIN, 1) == err && strstr(zero_last_error(), FAILS);
        error = strstr(error, "activation kept1: the copy fails");
    } else {
        error = strstr(error, FAILS);
    }
    good[rank] = err == -EIO && error;
}

static void copy_fails(void)
{
    struct zero_setting s[] = {{"stage", "2"}, {"timeout", "20"}};
    int good[3] = {0};
    struct toy_result r;
    struct toy t = {.ranks = 2, .layers = 6, .steps = 1, .dtype = ZERO_F32, .width = 9000,
                    .flags = TOY_ACTIVATIONS | TOY_STREAM, .settings = s, .n_settings = 2,
                    .seed = 7, .committed = spoil, .lost = note, .log = log_nothing, .arg = good};

    int err = toy_train(&t, &r);
    ok(err == -EIO && good[0] && good[1], "a save whose copy fails ends the job on all ranks");
    ok(good[2], "later calls say so");
    if (err != -EIO || !good[0] || !good[1] || !good[2])
        diag("%d: %s", err, err ? r.error : "it trains");
}

int main(void)
{
    static const struct what whats[] = {
        {"0", ZERO_F32, 0, 2, "1", "128M"},
        {"1", ZERO_BF16, TOY_EVAL, 3, "1", "40K"},
        {"2", ZERO_BF16, TOY_TIED | TOY_EVAL, 2, "3", "128M"},
        {"3", ZERO_BF16, 0, 1, "1", "0"},
        {"3", ZERO_BF16, TOY_FROZEN | TOY_PERSISTENT | TOY_RECOMPUTE, 2, "1", "128M"},
        {"3", ZERO_F32, TOY_REORDER | TOY_STREAM | TOY_EVAL, 2, "3", "128M"},
        {"3", ZERO_BF16, TOY_STREAM, 2, "1", "4K"},
        {"2", ZERO_BF16, TOY_REORDER | TOY_ANNOUNCE | TOY_EVAL, 2, "1", "4K"},
        {"3", ZERO_F16, TOY_NAN | TOY_EVAL, 2, "1", "128M"},
        {"0", ZERO_BF16, TOY_UNUSED | TOY_SKIP, 2, "1", "128M"},
    };

    folder_make("activations", path);
    for (unsigned i = 0; i < sizeof whats / sizeof *whats; i++)
        agree(whats[i]);
    reserved();
    copy_fails();
    folder_end(path);
    done();
}
