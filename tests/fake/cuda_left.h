/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a program has given back all that it had of the driver without a GPU. */
#ifndef ZERO_TESTS_FAKE_CUDA_LEFT_H
#define ZERO_TESTS_FAKE_CUDA_LEFT_H

#include "../tap.h"
#include "cuda_driver.h"

static bool nothing_left(void)
{
    struct fake_cuda_live l;

    fake_cuda_live(&l);
    uint64_t all = l.contexts + l.modules + l.streams + l.events + l.ranges + l.chunks + l.maps +
                   l.plain + l.pinned + l.registered + l.pushed + l.mode + l.bytes;
    if (all)
        diag("left: %" PRIu64 " contexts, %" PRIu64 " modules, %" PRIu64 " streams, %" PRIu64
             " events, %" PRIu64 " ranges, %" PRIu64 " chunks, %" PRIu64 " maps, %" PRIu64
             " plain, %" PRIu64 " pinned, %" PRIu64 " registered, %" PRIu64 " pushed, mode %" PRIu64
             ", %" PRIu64 " bytes",
             l.contexts, l.modules, l.streams, l.events, l.ranges, l.chunks, l.maps, l.plain,
             l.pinned, l.registered, l.pushed, l.mode, l.bytes);
    return all == 0;
}

#endif
