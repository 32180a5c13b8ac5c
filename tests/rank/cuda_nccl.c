/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugins cuda and nccl together, over a driver and a library that the tests brought: two ranks
 * on two GPUs train by collectives in the order of their streams, whatever lies outside the device,
 * to the bits of the host's memory and shm. (Two ranks: a sum of two is the same in any order.)
 */
#include "../tap.h"

#include <dlfcn.h>

#include "../fake/cuda_left.h"
#include "folder.h"
#include "tests/fake/nccl/fake.h"
#include "toy.h"

static char library[4096], folder[4096];

struct run {
    const char *stage, *accum, *offload; /* offload NULL: all on the GPU */
    uint32_t dtype, flags;
    const char *update_at; /* NULL: at the end */
};

static const struct fake_api *nccl_api(void)
{
    void *file = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const struct fake_api *api = file ? dlsym(file, "fake_nccl_api") : NULL;

    if (!api)
        bail("the library cannot be loaded");
    return api;
}

static void *reach(const void *p)
{
    return fake_cuda_reach(p);
}

static int train(const struct run *run, bool gpus, struct toy_result *r)
{
    const struct zero_setting s[] = {{"device", gpus ? "cuda" : "host"},
                                     {"comm", gpus ? "nccl" : "shm"},
                                     {"numerics", gpus ? "relaxed" : "ordered"},
                                     {"stage", run->stage},
                                     {"accum", run->accum},
                                     {"clip", run->update_at ? "0" : "0.5"},
                                     {"timeout", "20"},
                                     {"threads", "1"},
                                     {"update_at", run->update_at ? run->update_at : "end"},
                                     {"offload", run->offload},
                                     {"tile_bytes", "64K"},
                                     {"nvme_path", folder},
                                     {"nvme_engine", "threads"}};
    struct toy t = {.ranks = 2,
                    .layers = 4,
                    .steps = 3,
                    .dtype = run->dtype,
                    .flags = run->flags,
                    .width = run->offload ? 20000 : 1500,
                    .settings = s,
                    .n_settings = run->offload ? 13 : 9,
                    .seed = 7,
                    .reach = gpus ? reach : NULL};

    return toy_train(&t, r);
}

static void same(const struct run *run)
{
    const struct fake_api *api = nccl_api();
    struct toy_result host, gpus;
    char misuse[400];

    fake_cuda_set(NULL);
    if (train(run, false, &host))
        bail(host.error);
    api->fail(0, "", 0, 0, false); /* calls count from here */
    int err = train(run, true, &gpus);
    const unsigned reduced = api->calls(0, "ReduceScatter");
    const int wrong = api->misused(misuse, sizeof misuse);
    ok(!err && gpus.agree && gpus.hash == host.hash && reduced > 0,
       "stage %s, %s micro-batches, %s, flags %x, %s: the bits of the host", run->stage, run->accum,
       zero_dtype_name(run->dtype), run->flags, run->offload ? run->offload : "all on the GPU");
    if (err || gpus.hash != host.hash || !reduced)
        diag("%d %s; %016" PRIx64 ", on the host %016" PRIx64 "; %u reductions", err, gpus.error,
             gpus.hash, host.hash, reduced);
    struct fake_cuda_work work;
    fake_cuda_work(&work);
    ok(!wrong && !work.illegal && !api->live() && nothing_left(), "all good usage, nothing left");
    if (wrong || work.illegal || api->live())
        diag("%d wrong: %s; %" PRIu64 " illegal; %d left", wrong, misuse, work.illegal,
             api->live());
}

/* A collective that NCCL gives up ends both ranks, with their GPUs well. */
static void given_up(void)
{
    const struct run run = {"3", "1", "optimizer:cpu", ZERO_BF16, TOY_STREAM, NULL};
    const struct fake_api *api = nccl_api();
    struct toy_result r;
    char misuse[400];

    fake_cuda_set(NULL);
    api->fail(1, "ReduceScatter", 3, NCCL_REMOTE_ERROR, false);
    int err = train(&run, true, &r);
    ok(err && api->has_failed() && strstr(r.error, "nccl: "), "a collective that fails: %s",
       r.error);
    api->fail(0, "", 0, 0, false);
    ok(!api->misused(misuse, sizeof misuse) && !api->live() && nothing_left(), "nothing is left");
}

int main(void)
{
    static const struct run runs[] = {
        {"0", "1", NULL, ZERO_F32, 0, NULL},
        {"1", "1", NULL, ZERO_BF16, TOY_STREAM, NULL},
        {"2", "3", NULL, ZERO_BF16, TOY_STREAM | TOY_TIED, NULL},
        {"3", "1", NULL, ZERO_BF16, TOY_STREAM | TOY_EVAL, NULL},
        {"3", "3", NULL, ZERO_F32, TOY_STREAM | TOY_RECOMPUTE, NULL},
        {"0", "1", "optimizer:cpu", ZERO_BF16, TOY_STREAM, NULL},
        {"2", "1", "optimizer:cpu", ZERO_BF16, TOY_STREAM, "backward"},
        {"3", "1", "optimizer:nvme,parameters:cpu", ZERO_BF16, TOY_STREAM, NULL},
        {"3", "3", "optimizer:device:0.3+cpu:0.3+nvme:0.4,gradients:cpu", ZERO_BF16, TOY_STREAM,
         NULL},
        {"1", "1", "activations:cpu", ZERO_BF16, TOY_STREAM | TOY_ACTIVATIONS, NULL},
    };
    const char *build = getenv("ZERO_TEST_BUILD");

    alarm(240);
    snprintf(library, sizeof library, "%s/tests/fake/nccl/.libs/libnccl_cuda.so",
             build ? build : ".");
    setenv("ZERO_NCCL_LIBRARY", library, 1);
    folder_make("cuda-nccl", folder);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        same(&runs[i]);
    given_up();
    rmdir(folder);
    done();
}
