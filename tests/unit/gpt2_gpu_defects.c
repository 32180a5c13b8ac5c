/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof that the test of zero-gpt2's kernels can fail: every barrier that they come by is taken
 * away and every bound that they ask for is moved, each alone, and each time the emulated grid, the
 * comparison with the host or a page that may not be touched has to notice. A child process tries.
 */
#include "gpt2_gpu_case.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <zero/types.h>

#include "tests/fake/cuda_grid.h"
#include "tests/tap.h"

#define SEED UINT64_C(20240301)
#define ROUNDS 24u

static bool launch(struct gpt2_case *c, const struct gpt2_launch *l)
{
    const uint32_t grid[3] = {l->grid[0], l->grid[1], 1}, block[3] = {l->block, 1, 1};
    struct fake_cuda_options *options = c->arg;

    options->seed = c->seed;
    return fake_cuda_run_with(options, fake_cuda_kernel_find(gpt2_kernel_name(l->kernel)), grid,
                              block, l->shared_bytes, l->params, c->error, sizeof c->error) == 0;
}

static bool sound(struct gpt2_case *c, uint32_t which, struct fake_cuda_options *options)
{
    uint64_t seed = SEED;
    bool good = true;

    c->arg = options;
    for (uint32_t r = 0; r < ROUNDS && good; r++)
        good = gpt2_case_run(c, which, seed += 1000, r % 2 ? ZERO_BF16 : ZERO_F32);
    return good;
}

static bool is_noticed(struct gpt2_case *c, uint32_t which, const struct fake_cuda_site *site,
                       uint64_t slack)
{
    struct fake_cuda_options options = {.broken = site, .slack = slack};
    int status = 0;

    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        bail("no process");
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        if (!freopen("/dev/null", "w", stderr)) /* where sanitizers complain */
            _exit(0);
        _exit(sound(c, which, &options) ? 0 : 1);
    }
    return waitpid(child, &status, 0) == child && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static uint32_t try_case(struct gpt2_case *c, uint32_t which)
{
    struct fake_cuda_sites sites = {0};
    struct fake_cuda_options options = {.sites = &sites};
    uint32_t missed = 0, tried = 0;

    if (!ok(sound(c, which, &options) && sites.n > 0 && sites.n < FAKE_CUDA_SITES,
            "%s: sound as it is", gpt2_case_name(which))) {
        diag("%s", c->error);
        return 0;
    }
    for (uint32_t i = 0; i < sites.n; i++)
        for (uint64_t slack = 1; slack <= 4096; slack *= 4096) {
            const struct fake_cuda_site *s = &sites.at[i];
            const char *file = strrchr(s->file, '/');
            if (s->barrier && slack > 1)
                continue;
            tried++;
            if (is_noticed(c, which, s, slack))
                continue;
            missed++;
            diag("%s of %s:%d, %" PRIu64 " more: not noticed", s->barrier ? "barrier" : "bound",
                 file ? file + 1 : s->file, s->line, slack);
        }
    is_int(missed, 0, "%s: %u defects noticed", gpt2_case_name(which), tried);
    return tried;
}

int main(void)
{
    struct gpt2_case c;
    uint32_t defects = 0;

    gpt2_case_open(&c);
    c.launch = launch;
    for (uint32_t i = 0; i < gpt2_n_cases(); i++)
        defects += try_case(&c, i);
    diag("%u defects", defects);
    gpt2_case_close(&c);
    done();
}
