/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kernel, of the plugin and of zero-gpt2, on a GPU: the launches that the emulated grid runs
 * in tests/unit/, against the host's results.
 *
 *     kernels [ROUNDS]
 */
#include "device.h"

#include <zero/types.h>

#include "tests/unit/cuda_case.h"
#include "tests/unit/gpt2_gpu_case.h"

#define REGION (600u * 1024u) /* as in cuda_case.c */

static struct gpu gpu;

static int plugin_launch(void *arg, const struct zero__cuda_launch *l, char *error, size_t n)
{
    const struct case_memory *mem = arg;
    struct gpu_array arrays[CASE_FIELDS];

    (void)error, (void)n;
    for (uint32_t i = 0; i < CASE_FIELDS; i++)
        arrays[i] = (struct gpu_array){mem->region[1][i], REGION};
    gpu_run(&gpu, zero__cuda_kernel_name(l->kernel), l->grid, l->block[0], l->shared_bytes,
            l->params, l->params_bytes, arrays, CASE_FIELDS);
    return 0;
}

static void plugin_kernels(uint32_t rounds)
{
    const struct fake_cuda_options none = {0};
    struct case_memory mem = {.launch = plugin_launch};
    char error[400];

    case_memory_open(&mem);
    for (uint32_t f = 0; f < ZERO__CUDA_N_KERNELS; f++)
        if (!ok(case_rounds(f, &mem, rounds, 1, &none, error, sizeof error), "%s: the host's bits",
                zero__cuda_kernel_name(f)))
            diag("%s", error);
    case_memory_close(&mem);
}

static bool gpt2_launch(struct gpt2_case *c, const struct gpt2_launch *l)
{
    struct gpu_array arrays[GPT2_CASE_ARRAYS];

    for (uint32_t i = 0; i < c->n_arrays; i++)
        arrays[i] = (struct gpu_array){c->array[i].at, c->array[i].bytes};
    gpu_run(&gpu, gpt2_kernel_name(l->kernel), l->grid, l->block, l->shared_bytes, l->params,
            l->params_bytes, arrays, c->n_arrays);
    return true;
}

static void gpt2_kernels(uint32_t rounds)
{
    static const uint32_t dtypes[] = {ZERO_F32, ZERO_BF16, ZERO_F16};
    struct gpt2_case c;

    gpt2_case_open(&c);
    c.launch = gpt2_launch;
    for (uint32_t i = 0; i < gpt2_n_cases(); i++)
        for (int t = 0; t < 3; t++) {
            bool good = true;
            for (uint32_t r = 0; r < rounds && good; r++)
                good = gpt2_case_run(&c, i, 1000 * (r + 1), dtypes[t]);
            if (!ok(good, "%s in %s: the host's numbers", gpt2_case_name(i),
                    zero_dtype_name(dtypes[t])))
                diag("%s", c.error);
        }
    gpt2_case_close(&c);
}

int main(int argc, char **argv)
{
    const uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 20;
    char why[512];

    if (!gpu_open(&gpu, why, sizeof why))
        skip_all(why);
    diag("%s", gpu.name);
    plugin_kernels(rounds);
    gpt2_kernels(rounds);
    gpu_close(&gpu);
    done();
}
