/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin nccl over a library that the tests made. */
#ifndef ZERO_TESTS_RANK_NCCL_H
#define ZERO_TESTS_RANK_NCCL_H

#include <dlfcn.h>

#include "tests/fake/nccl/fake.h"

#include "ranks.h"

static char fake_nccl_path[4096];

/* Plugins and libraries from now on: of tests/fake/nccl, `library` among them; and of the build. */
static void fake_nccl_choose(const char *library)
{
    const char *build = getenv("ZERO_TEST_BUILD");
    char folder[4000], path[8100];

    snprintf(folder, sizeof folder, "%s/tests/fake/nccl/.libs", build ? build : ".");
    snprintf(fake_nccl_path, sizeof fake_nccl_path, "%s/%s.so", folder, library);
    snprintf(path, sizeof path, "%s:%s/.libs", folder, build ? build : ".");
    setenv("ZERO_PLUGIN_PATH", path, 1);
    setenv("ZERO_NCCL_LIBRARY", fake_nccl_path, 1);
    setenv("ZERO_CUDA_LIBRARY", fake_nccl_path, 1);
}

/* What is there in this process. */
static const struct fake_api *fake_nccl(void)
{
    void *file = dlopen(fake_nccl_path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const struct fake_api *api = file ? dlsym(file, "fake_nccl_api") : NULL;

    if (!api)
        bail("the fake library cannot be loaded");
    return api;
}

__attribute__((unused)) static void fake_nccl_left(struct rank *r)
{
    const struct fake_api *api = fake_nccl();
    char text[400];

    want(r, api->live() == 0, "%d things of NCCL's are left", api->live());
    want(r, api->misused(text, sizeof text) == 0, "bad usage: %s", text);
}

#endif
