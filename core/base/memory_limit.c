/* SPDX-License-Identifier: Apache-2.0 */
/* A list of tier:bytes, each tier at most once, every limit greater than zero. */
#include "base/memory_limit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

static int entry_parse(const char *entry, size_t len, struct zero__memory_limit *limit, char *why,
                       size_t bytes)
{
    char number[32];
    int64_t value;
    uint64_t *tier;

    if (len > 7 && memcmp(entry, "device:", 7) == 0) {
        tier = &limit->device_bytes;
        entry += 7, len -= 7;
    } else if (len > 4 && memcmp(entry, "cpu:", 4) == 0) {
        tier = &limit->cpu_bytes;
        entry += 4, len -= 4;
    } else {
        snprintf(why, bytes,
                 "\"%.*s\" is not device:BYTES or cpu:BYTES, for example device:1G (what is "
                 "free on a disk is its limit)",
                 (int)(len > 40 ? 40 : len), entry);
        return -EINVAL;
    }
    if (*tier != ZERO__NO_LIMIT) {
        snprintf(why, bytes, "the tier %s is limited twice",
                 tier == &limit->device_bytes ? "device" : "cpu");
        return -EINVAL;
    }
    snprintf(number, sizeof number, "%.*s", (int)(len > 31 ? 31 : len), entry);
    if (len > 31 || zero__bytes_parse(number, &value) || value <= 0) {
        snprintf(why, bytes, "\"%s\" is no number of bytes greater than 0", number);
        return -EINVAL;
    }
    *tier = (uint64_t)value;
    return 0;
}

int zero__memory_limit_parse(const char *text, struct zero__memory_limit *limit, char *why,
                             size_t bytes)
{
    struct zero__memory_limit parsed = {ZERO__NO_LIMIT, ZERO__NO_LIMIT};

    while (*text) {
        size_t len = strcspn(text, ",");
        int err = entry_parse(text, len, &parsed, why, bytes);
        if (err)
            return err;
        text += len;
        if (*text == ',')
            text++;
    }
    *limit = parsed;
    return 0;
}
