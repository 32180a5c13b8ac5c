/* SPDX-License-Identifier: Apache-2.0 */
/* What offload.h says about one request, as code. */
#ifndef ZERO_PLUGINS_COMMON_IO_H
#define ZERO_PLUGINS_COMMON_IO_H

#include <string.h>

#include <zero/offload.h>

#include "voice.h"

/* What a request may touch: the store, and the registered memory that its slice names. */
struct zero__io_bounds {
    uint64_t store_bytes;
    uint32_t offset_align, buffer_align;
    const char *base; /* NULL: the memory is not of this store */
    uint64_t bytes;
};

/* "read" and so on, "?" for what is not known. */
const char *zero__io_name(uint32_t op);

/* 0, -EINVAL or -ERANGE with the sentence recorded. */
int zero__io_check(const struct zero__voice *voice, const struct zero_io *io,
                   const struct zero__io_bounds *b);

/* Gives as much as the caller's struct has, whose size stays. */
static inline void zero__store_info_give(const struct zero_store_info *full,
                                         struct zero_store_info *info)
{
    uint32_t size = info->size;

    memcpy(info, full, size < sizeof *full ? size : sizeof *full);
    info->size = size;
}

#endif
