/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of zero-gpt2 on an emulated grid, every barrier and every piece of shared memory
 * looked at, against the model's code for the host: all types, sizes around every edge.
 */
#include "gpt2_gpu_case.h"

#include "tests/fake/cuda_grid.h"
#include "tests/tap.h"

#include <zero/types.h>

#define SEED UINT64_C(20240301)
#define ROUNDS 24u

static bool launch(struct gpt2_case *c, const struct gpt2_launch *l)
{
    const uint32_t grid[3] = {l->grid[0], l->grid[1], 1}, block[3] = {l->block, 1, 1};
    const struct fake_cuda_options options = {.seed = c->seed};

    return fake_cuda_run_with(&options, fake_cuda_kernel_find(gpt2_kernel_name(l->kernel)), grid,
                              block, l->shared_bytes, l->params, c->error, sizeof c->error) == 0;
}

int main(void)
{
    static const uint32_t dtypes[] = {ZERO_F32, ZERO_BF16, ZERO_F16};
    const uint32_t rounds = is_short() ? ROUNDS / 4 : ROUNDS;
    struct gpt2_case c;

    gpt2_case_open(&c);
    c.launch = launch;
    for (uint32_t i = 0; i < gpt2_n_cases(); i++)
        for (int d = 0; d < 3; d++) {
            uint64_t seed = SEED;
            bool good = true;
            for (uint32_t r = 0; r < rounds && good; r++)
                good = gpt2_case_run(&c, i, seed += 1000, dtypes[d]);
            if (!ok(good, "%s in %s: the host's numbers", gpt2_case_name(i),
                    zero_dtype_name(dtypes[d])))
                diag("%s; seed %" PRIu64, c.error, seed);
        }
    gpt2_case_close(&c);
    done();
}
