/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of a GPU by its own events, each beside what limits it: the fused AdamW beside a copy on
 * the device, and the plugin's copies from and to pinned memory beside plain ones.
 *
 *     times [MEBIBYTES]        (of memory that is moved at once; default 1024)
 *
 * Prints rows of a Markdown table.
 */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/options.h"
#include "core/plugin/loader.h"
#include "plugins/cuda/kernel/launch.h"

#define REPEAT 20
#define SECOND INT64_C(1000000000)

static struct gpu gpu;
static uint64_t bytes;

/* ---- AdamW ----------------------------------------------------------------------------------- */

/* Bytes a second of a copy on the device, read and written. */
static double copy_rate(void)
{
    void *from = gpu_alloc(&gpu, bytes), *to = gpu_alloc(&gpu, bytes);

    gpu_copy(&gpu, to, from, bytes);
    struct cuda_event *start = gpu_mark(&gpu);
    for (int i = 0; i < REPEAT; i++)
        gpu_copy(&gpu, to, from, bytes);
    const double s = gpu_seconds(&gpu, start, gpu_mark(&gpu));
    gpu_free(&gpu, from);
    gpu_free(&gpu, to);
    return 2.0 * (double)bytes * REPEAT / s;
}

/*
 * Bytes that an update moves an element, in and out: moments and gradient, and a master in full, as
 * training keeps it on a device, or the lower half of one beside the parameter.
 */
enum {
    FULL = (4 + 4 + 2 + 4) + (4 + 4 + 4 + 2),
    HALVES = (4 + 4 + 2 + 2 + 2) + (4 + 4 + 2 + 2),
    KEPT = 4 + 4 + 4 + 2 + 2, /* bytes of memory, with a master in full */
};

static void adamw_launch(const struct zero__cuda_launch *l)
{
    gpu_launch(&gpu, zero__cuda_kernel_name(l->kernel), l->grid, l->block[0], l->shared_bytes,
               l->params, l->params_bytes);
}

/* Bytes a second. */
static double adamw_rate(bool halves)
{
    static const struct zero_host host = {.size = sizeof host};
    static struct zero__cuda_launch l;
    const uint64_t n = bytes / KEPT / 4096 * 4096;
    struct zero_scalars scalars = {.factor = 1, .loss_scale = 1, .step = 1};
    char *base = gpu_alloc(&gpu, n * KEPT);
    void *device_scalars = gpu_alloc(&gpu, sizeof scalars);
    const struct zero_update_args args = {
        .m = base,
        .v = base + 4 * n,
        .grad = base + 8 * n,
        .out = base + 10 * n,
        .p = halves ? NULL : (float *)(base + 12 * n),
        .low = halves ? (uint16_t *)(base + 12 * n) : NULL,
        .count = n,
        .grad_dtype = ZERO_BF16,
        .out_dtype = ZERO_BF16,
        .scalars = device_scalars,
        .hyper = {.lr = 1e-3f, .weight_decay = 0.1f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f}};
    const struct zero_launch launch = {
        .kernel = ZERO_KERNEL_ADAMW, .args = &args, .args_bytes = sizeof args};
    uint32_t n_launches = 0;

    gpu_check(&gpu, gpu.driver.memory_set((uintptr_t)base, 0, n * KEPT, gpu.stream), "zeros");
    gpu_copy(&gpu, device_scalars, &scalars, sizeof scalars);
    if (zero__cuda_launch_plan(&host, (uint32_t)gpu.multiprocessors, &launch, &l, 1, &n_launches))
        gpu_check(&gpu, CUDA_INVALID_VALUE, "the plan of an update");
    adamw_launch(&l);
    struct cuda_event *start = gpu_mark(&gpu);
    for (int i = 0; i < REPEAT; i++)
        adamw_launch(&l);
    const double s = gpu_seconds(&gpu, start, gpu_mark(&gpu));
    gpu_free(&gpu, base);
    gpu_free(&gpu, device_scalars);
    return (double)(halves ? HALVES : FULL) * (double)n * REPEAT / s;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

struct plugin {
    struct zero__log log;
    struct zero__options *options;
    struct zero__loader *loader;
    const struct zero_device_ops *ops;
    struct zero_device *dev;
};

static void notify(void *arg)
{
    (void)arg;
}

static void fail(const char *what)
{
    printf("Bail out! %s: %s\n", what, zero_last_error());
    exit(1);
}

static void plugin_open(struct plugin *p)
{
    struct zero__plugin *plugin;
    char why[256];

    zero__log_levels(&p->log, "error", why, sizeof why);
    if (zero__options_load(NULL, 0, &p->options) ||
        zero__loader_create(p->options, &p->log, NULL, 0, &p->loader) ||
        zero__loader_load(p->loader, ZERO_IFACE_DEVICE, "cuda", &plugin))
        fail("the plugin cuda");
    p->ops = zero__plugin_device(plugin);
    const struct zero_device_open params = {.size = sizeof params,
                                            .host = zero__loader_host(p->loader),
                                            .threads = 1,
                                            .timeout_ns = 60 * SECOND,
                                            .notify = notify};
    if (p->ops->open(&params, &p->dev))
        fail("the plugin's GPU");
}

static void plugin_close(struct plugin *p)
{
    p->ops->close(p->dev);
    zero__loader_free(p->loader);
    zero__options_free(p->options);
}

/* By the plugin (NULL: by the driver), on our stream, which the plugin takes as it is. */
static double copies(const struct plugin *p, void *to, const void *from)
{
    struct cuda_event *start = NULL;

    for (int i = -1; i < REPEAT; i++) {
        if (i == 0)
            start = gpu_mark(&gpu);
        if (!p)
            gpu_copy(&gpu, to, from, bytes);
        else if (p->ops->copy(p->dev, to, from, bytes, gpu.stream))
            fail("a copy of the plugin's");
    }
    return (double)bytes * REPEAT / gpu_seconds(&gpu, start, gpu_mark(&gpu));
}

/* least 0: nothing is wanted of it. */
static void row(const char *what, double a, const char *beside, double b, double least)
{
    printf("| %s | %.1f GB/s | %s: %.1f GB/s | %.3f |", what, a * 1e-9, beside, b * 1e-9, a / b);
    if (least > 0)
        printf(" ≥ %.2f", least);
    printf(" |\n");
}

/* Both ways, in turn, so that both see the same machine. */
static void pinned_copies(void)
{
    struct plugin p = {0};
    void *pinned = NULL, *theirs = NULL, *plain = NULL, *device;

    plugin_open(&p);
    device = gpu_alloc(&gpu, bytes);
    if (p.ops->alloc(p.dev, bytes, ZERO_MEM_PINNED, &pinned) ||
        p.ops->alloc(p.dev, bytes, ZERO_MEM_CUDA, &theirs))
        fail("memory of the plugin's");
    gpu_check(&gpu, gpu.driver.host_alloc(&plain, bytes, 0), "pinned memory");
    const double up = copies(&p, theirs, pinned), plain_up = copies(NULL, device, plain);
    const double down = copies(&p, pinned, theirs), plain_down = copies(NULL, plain, device);
    row("copies of the plugin to the GPU", up, "a loop of cuMemcpyAsync()", plain_up, 0.95);
    row("copies of the plugin to the host", down, "a loop of cuMemcpyAsync()", plain_down, 0.95);
    gpu_check(&gpu, gpu.driver.host_free(plain), "giving pinned memory back");
    p.ops->release(p.dev, pinned, bytes, ZERO_MEM_PINNED);
    p.ops->release(p.dev, theirs, bytes, ZERO_MEM_CUDA);
    gpu_free(&gpu, device);
    plugin_close(&p);
}

int main(int argc, char **argv)
{
    char why[512];

    bytes = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1024) << 20;
    if (!gpu_open(&gpu, why, sizeof why)) {
        fprintf(stderr, "times: %s\n", why);
        return 77;
    }
    const char *beside = "copies on the device";
    const double copy = copy_rate(), full = adamw_rate(false), halves = adamw_rate(true);
    row("fused AdamW, bf16, 28 bytes an element", full, beside, copy, 0.9);
    row("the same, with the master as its lower half, 26 bytes", halves, beside, copy, 0);
    pinned_copies();
    gpu_close(&gpu);
    return 0;
}
