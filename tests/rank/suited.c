/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does not suit is refused at the start, in words: a transport that lacks what this model
 * needs, and structs of a program that was compiled with another header.
 */
#include "../tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zero/zero.h>

static char slow[4096], self[4096];

/* A unit of a parameter that is trained and one that is frozen, on one rank. */
static int model_commit(const char *room, const char *sums, uint32_t trained, uint32_t frozen)
{
    const struct zero_setting settings[] = {
        {"comm", slow}, {"slow_plugin", self}, {"slow_room", room}, {"slow_sums", sums}};
    struct zero_config config = ZERO_CONFIG_INIT;
    struct zero_param_desc d = {.size = sizeof d, .name = "w", .dtype = trained, .n_dims = 1};
    struct zero_runtime *rt;
    uint32_t unit, param;

    config.settings = settings;
    config.n_settings = 4;
    int err = zero_create(&config, &rt);
    if (err)
        return err;
    d.dims[0] = 10;
    err = zero_unit_add(rt, "layer", &unit);
    err = err ? err : zero_param_add(rt, unit, &d, &param);
    d.name = "table";
    d.dtype = frozen;
    d.flags = ZERO_PARAM_FROZEN;
    err = err ? err : zero_param_add(rt, unit, &d, &param);
    err = err ? err : zero_commit(rt);
    zero_destroy(rt);
    return err;
}

static void transports(void)
{
    is_int(model_commit("", "", ZERO_BF16, ZERO_F32), 0, "a transport that lacks nothing");
    is_int(model_commit("2", "2", ZERO_F32, ZERO_BF16), 0, "or just has what is needed");
    is_int(model_commit("", "2", ZERO_BF16, ZERO_BF16), -ENOTSUP, "one that sums fp32 alone");
    has_str(zero_last_error(), "does not sum bf16", "is refused in words");
    is_int(model_commit("1", "", ZERO_F32, ZERO_BF16), -ENOTSUP, "one collective at a time");
    has_str(zero_last_error(), "takes 1 collectives at once, and unit layer has 2", "likewise");
    is_int(model_commit("0", "", ZERO_F32, ZERO_F32), -ENOTSUP, "none at a time");
    has_str(zero_last_error(), "room for a collective", "likewise");
}

static void structs(void)
{
    struct {
        struct zero_config config;
        uint64_t later;
    } newer = {.config = ZERO_CONFIG_INIT};
    struct zero_runtime *rt = NULL;

    newer.config.size = sizeof newer;
    is_int(zero_create(&newer.config, &rt), 0, "a struct with more, that is zero");
    zero_destroy(rt);
    newer.later = 1;
    is_int(zero_create(&newer.config, &rt), -EINVAL, "that is not");
    has_str(zero_last_error(), "older than the program", "is refused in words");
    newer.config.size = 8;
    is_int(zero_create(&newer.config, &rt), -EINVAL, "a struct that is too small");
    newer.config.size = SIZE_MAX;
    is_int(zero_create(&newer.config, &rt), -EINVAL, "a size that nobody has set");

    is_int(zero_create(NULL, &rt), 0, "a runtime");
    struct zero_group_desc g = {
        .size = sizeof g, .name = "sgd", .lr = 0.1f, .beta1 = 0.9f, .beta2 = 0.99f};
    uint32_t group;
    is_int(zero_group_add(rt, &g, &group), -EINVAL, "Adam divides by eps");
    zero_destroy(rt);
    struct zero_config config = ZERO_CONFIG_INIT;
    config.settings = &(struct zero_setting){"optimizer", "sgd"};
    config.n_settings = 1;
    is_int(zero_create(&config, &rt), 0, "a runtime");
    is_int(zero_group_add(rt, &g, &group), 0, "SGD does not");
    zero_destroy(rt);
}

int main(void)
{
    const char *build = getenv("ZERO_TEST_BUILD");

    snprintf(slow, sizeof slow, "%s/tests/plugin/.libs/zero-comm-slow.so", build ? build : ".");
    snprintf(self, sizeof self, "%s/.libs/zero-comm-self.so", build ? build : ".");
    transports();
    structs();
    done();
}
