/* SPDX-License-Identifier: Apache-2.0 */
/* zero_create() with bad options and ranks: an errno, a sentence, and no runtime. */
#include "../tap.h"

#include <errno.h>

#include <zero/zero.h>

static void create_with(const char *what, const char *name, const char *value, int want,
                        const char *word)
{
    struct zero_setting s = {name, value};
    struct zero_config c = ZERO_CONFIG_INIT;
    struct zero_runtime *rt = (void *)0x1;

    c.settings = &s;
    c.n_settings = 1;
    int err = zero_create(&c, &rt);
    ok(err == -want && strstr(zero_last_error(), word) && rt == (void *)0x1,
       "zero_create() with %s", what);
    if (err != -want || !strstr(zero_last_error(), word))
        diag("got %d, \"%s\"", err, err ? zero_last_error() : "");
    if (!err)
        zero_destroy(rt);
}

static void create_ranks(const char *what, int rank, int ranks, const char *job, const char *word)
{
    struct zero_config c = ZERO_CONFIG_INIT;
    struct zero_runtime *rt;

    c.rank = rank, c.ranks = ranks, c.job = job;
    int err = zero_create(&c, &rt);
    ok(err == -EINVAL && strstr(zero_last_error(), word), "zero_create() with %s", what);
    if (err != -EINVAL || !strstr(zero_last_error(), word))
        diag("got %d, \"%s\"", err, err ? zero_last_error() : "");
    if (!err)
        zero_destroy(rt);
}

static void creation(void)
{
    struct zero_config c = ZERO_CONFIG_INIT;
    struct zero_runtime *rt;

    c.size = 12;
    is_int(zero_create(&c, &rt), -EINVAL, "zero_create() with another size");
    has_str(zero_last_error(), "zero_config.size is 12", "and it says so");
    create_with("an unknown option", "stge", "3", EINVAL, "nearest option is stage");
    create_with("a nameless option", NULL, "3", EINVAL, "setting 0");
    create_with("stage 7", "stage", "7", EINVAL, "from 0 to 3");
    create_with("accum 0", "accum", "0", EINVAL, "accum=0");
    create_with("bucket_bytes 12 apples", "bucket_bytes", "12 apples", EINVAL, "12 apples");
    create_with("an unknown optimizer", "optimizer", "lion", EINVAL, "adamw");
    create_with("an unknown log level", "log", "loud", EINVAL, "loud");
    create_with("a bad memory limit", "memory_limit", "gpu:1G", EINVAL, "gpu");
    create_with("an unknown plugin", "comm", "pigeon", ENOENT, "zero-comm-pigeon.so");
    create_with("an unknown device", "device", "abacus", ENOENT, "zero-device-abacus.so");
    create_ranks("rank 2 of 2", 2, 2, "misuse", "zero_config.rank is 2");
    create_ranks("rank -1", -1, 2, "misuse", "zero_config.rank is -1");
    create_ranks("no job", 0, 2, NULL, "job");
    zero_destroy(NULL);
}

int main(void)
{
    creation();
    done();
}
