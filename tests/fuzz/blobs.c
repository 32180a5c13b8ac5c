/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange in which plugins of networks tell each other their addresses, when other ranks say
 * anything: the input is what comes back, one exchange after the other.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/oob.h"

#define RANKS 3
#define MINE 48

static const struct {
    uint32_t lengths[RANKS];
    char blobs[RANKS][64];
} good = {{64, MINE, 60}, {"one", "two", "three"}};

const struct fuzz_seed fuzz_seeds[] = {
    {&good, sizeof good},
    FUZZ_TEXT("\x08\0\0\0\x08\0\0\0\x08\0\0\0 what follows is too short"), /* the own one shrank */
    FUZZ_TEXT("\x40\0\0\0\0\0\0\0\xff\xff\xff\xff"),
    {NULL, 0},
};

struct input {
    const uint8_t *data;
    size_t size;
    uint32_t len; /* of the exchange under way */
};

static int fail(void *ctx, const char *plugin, int err, const char *fmt, ...)
{
    (void)ctx, (void)plugin, (void)fmt;
    return err;
}

static int post(void *ctx, const void *src, uint32_t len)
{
    struct input *in = ctx;

    (void)src;
    if (!len || len > 65536)
        abort();
    in->len = len;
    return 0;
}

static int test(void *ctx, void *dst)
{
    struct input *in = ctx;
    size_t want = (size_t)RANKS * in->len, n = in->size < want ? in->size : want;

    memset(dst, 0, want);
    if (!in->size)
        return -ECONNRESET;
    memcpy(dst, in->data, n);
    in->data += n;
    in->size -= n;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zero_host host = {.size = sizeof host, .fail = fail};
    struct zero__voice voice = {&host, "fuzz"};
    struct input in = {data, size, 0};
    struct zero_oob oob = {sizeof oob, &in, 1, RANKS, post, test};
    char mine[MINE] = "mine", *all = NULL;
    size_t stride = 0, sum = 0;

    /* The deadline has long passed: who answers at once is heard all the same. */
    if (!zero__oob_gather_blobs(&voice, &oob, 1, "fuzz", mine, sizeof mine, &all, &stride)) {
        if (stride < sizeof mine || stride > 65536)
            abort();
        for (size_t i = 0; i < RANKS * stride; i++) /* all of it can be read */
            sum += (unsigned char)all[i];
        free(all);
    }
    zero__oob_agree(&voice, &oob, 1, "fuzz", sum == 1 ? -EIO : 0);
    return 0;
}
