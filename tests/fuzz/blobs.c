/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange in which plugins of networks tell each other their addresses, when other ranks say
 * anything: the input is what comes back, one exchange after the other. Where a byte is left, the
 * others do not answer.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdarg.h>

#include "plugins/common/oob.h"

#define RANKS 3
#define MINE 48

static const struct {
    uint32_t lengths[RANKS];
    char blobs[RANKS][64];
    int32_t status[RANKS];
} good = {{64, MINE, 60}, {"one", "two", "three"}, {0}},
  failed = {{64, MINE, 60}, {"one", "two", "three"}, {0, 0, -5}},
  no_errno = {{64, MINE, 60}, {"one", "two", "three"}, {INT32_MIN}};

enum { TAKEN = 1u << 0, REFUSED = 1u << 1, AGREED = 1u << 2, NOT_AGREED = 1u << 3 };

const struct fuzz_seed fuzz_seeds[] = {
    {&good, sizeof good, TAKEN | AGREED},
    {&failed, sizeof failed, TAKEN | NOT_AGREED},
    {&no_errno, sizeof no_errno, TAKEN | NOT_AGREED},
    {&good, sizeof good - sizeof good.status + 1, TAKEN | NOT_AGREED},
    FUZZ_TEXT("\x08\0\0\0\x08\0\0\0\x08\0\0\0 what follows is too short", /* the own one shrank */
              REFUSED | NOT_AGREED),
    FUZZ_TEXT("\x40\0\0\0\0\0\0\0\xff\xff\xff\xff", REFUSED | NOT_AGREED),
    {NULL, 0, 0},
};

unsigned fuzz_reached;

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
    if (in->size == 1)
        return -EINPROGRESS;
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
    int err = zero__oob_gather_blobs(&voice, &oob, 1, "fuzz", mine, sizeof mine, &all, &stride);
    fuzz_reached |= err ? REFUSED : TAKEN;
    if (!err) {
        if (stride < sizeof mine || stride > 65536)
            abort();
        for (size_t i = 0; i < RANKS * stride; i++) /* all of it can be read */
            sum += (unsigned char)all[i];
        free(all);
    }
    err = zero__oob_agree(&voice, &oob, 1, "fuzz", sum == 1 ? -EIO : 0);
    if (err > 0 || err < -4095)
        abort();
    fuzz_reached |= err ? NOT_AGREED : AGREED;
    return 0;
}
