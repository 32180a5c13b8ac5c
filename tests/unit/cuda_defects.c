/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof that the tests of the CUDA kernels can fail: every barrier that a kernel runs into is
 * taken away, every bound that it asks for is moved by one and by many, each alone, and each time
 * the emulated grid or the comparison with the host's bits has to notice. A child process tries, so
 * that a page that may not be touched is a way of noticing, too.
 */
#include "cuda_case.h"

#include <sys/resource.h>
#include <sys/wait.h>

#define ROUNDS 60u

static struct case_memory memory;

/* All places that a kernel passes, in the rounds that are tried below. */
static bool find_sites(uint32_t function, struct fake_cuda_sites *sites)
{
    struct fake_cuda_options options = {.sites = sites};
    char error[400];

    sites->n = 0;
    return case_rounds(function, &memory, ROUNDS, SEED, &options, error, sizeof error);
}

/* Whether the kernel with that defect is told from a sound one; how, goes to `how`. */
static bool is_noticed(uint32_t function, const struct fake_cuda_site *site, uint64_t slack,
                       char *how, size_t n)
{
    struct fake_cuda_options options = {.broken = site, .slack = slack};
    int channel[2], status = 0;
    ssize_t got;

    if (pipe(channel))
        bail("no pipe");
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        bail("no process");
    if (child == 0) {
        struct rlimit none = {0, 0};
        char error[400] = "";
        setrlimit(RLIMIT_CORE, &none);
        if (!freopen("/dev/null", "w", stderr)) /* where sanitizers complain */
            _exit(0);
        bool sound = case_rounds(function, &memory, ROUNDS, SEED, &options, error, sizeof error);
        got = write(channel[1], error, strlen(error));
        _exit(sound ? 0 : 1);
    }
    close(channel[1]);
    got = read(channel[0], how, n - 1);
    how[got > 0 ? got : 0] = 0;
    close(channel[0]);
    if (waitpid(child, &status, 0) != child)
        return false;
    if (got <= 0)
        snprintf(how, n, "the end of the process");
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void try_function(uint32_t function, uint32_t *defects)
{
    const char *name = zero__cuda_kernel_name(function);
    struct fake_cuda_sites sites;
    uint32_t missed = 0, tried = 0;
    char how[400];

    if (!ok(find_sites(function, &sites) && sites.n > 0 && sites.n < FAKE_CUDA_SITES,
            "%s: sound as it is", name))
        return;
    for (uint32_t i = 0; i < sites.n; i++)
        for (uint64_t slack = 1; slack <= 4096; slack *= 4096) {
            const struct fake_cuda_site *s = &sites.at[i];
            const char *file = strrchr(s->file, '/');
            if (s->barrier && slack > 1)
                continue;
            tried++;
            if (is_noticed(function, s, slack, how, sizeof how))
                continue;
            missed++;
            diag("%s: %s of %s:%d, %llu more: not noticed", name, s->barrier ? "barrier" : "bound",
                 file ? file + 1 : s->file, s->line, (unsigned long long)slack);
        }
    is_int(missed, 0, "%s: %u defects noticed", name, tried);
    *defects += tried;
}

int main(void)
{
    const bool brief = is_short();
    uint32_t defects = 0;

    case_memory_open(&memory);
    for (uint32_t f = 0; f < ZERO__CUDA_N_KERNELS; f += brief && f >= ZERO__CUDA_SCALARS ? 5 : 1)
        try_function(f, &defects);
    diag("%u defects", defects);
    case_memory_close(&memory);
    done();
}
