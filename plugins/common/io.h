/* SPDX-License-Identifier: Apache-2.0 */
/* What offload.h says about one request, as code. */
#ifndef ZERO_PLUGINS_COMMON_IO_H
#define ZERO_PLUGINS_COMMON_IO_H

#include <string.h>

#include <zero/offload.h>

#include "voice.h"

/* Memory that is registered with a store: where zero__io_check() is used, a zero_mr begins so. */
struct zero__io_region {
    struct zero_store *store;
    char *base;
    uint64_t bytes;
};

/* "read" and so on, "?" for what is not known. */
const char *zero__io_name(uint32_t op);

/* A request to a store of so many bytes: 0, -EINVAL or -ERANGE with the sentence recorded. */
int zero__io_check(const struct zero__voice *voice, const struct zero_io *io,
                   const struct zero_store *store, uint64_t store_bytes, uint32_t offset_align,
                   uint32_t buffer_align);

/* Gives as much as the caller's struct has, whose size stays. */
static inline void zero__store_info_give(const struct zero_store_info *full,
                                         struct zero_store_info *info)
{
    uint32_t size = info->size;

    memcpy(info, full, size < sizeof *full ? size : sizeof *full);
    info->size = size;
}

#endif
