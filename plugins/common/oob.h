/* SPDX-License-Identifier: Apache-2.0 */
/* The library's exchange, waited for. */
#ifndef ZERO_PLUGINS_COMMON_OOB_H
#define ZERO_PLUGINS_COMMON_OOB_H

#include <stddef.h>

#include "coll.h"

/*
 * All-gathers `bytes` bytes of every rank into `all`, at the latest until the absolute time
 * `until`; `doing` is what failed then.
 */
int zero__oob_gather(const struct zero__voice *voice, const struct zero_oob *oob, int64_t until,
                     const char *doing, const void *mine, uint32_t bytes, void *all);

/*
 * All-gathers blobs whose length differs from rank to rank, 1 to 60,000 bytes; that of rank p is at
 * *all + p * *stride, followed by zeros. To be freed.
 */
int zero__oob_gather_blobs(const struct zero__voice *voice, const struct zero_oob *oob,
                           int64_t until, const char *doing, const void *mine, size_t bytes,
                           char **all, size_t *stride);

/* The verdict of all ranks: `status` where it is an error, else that some other rank failed. */
int zero__oob_agree(const struct zero__voice *voice, const struct zero_oob *oob, int64_t until,
                    const char *doing, int status);

/* -EINVAL with the sentence when the exchange is not one of 1 to `most` ranks. */
int zero__oob_check(const struct zero__voice *voice, const struct zero_oob *oob, int32_t most);

#endif
