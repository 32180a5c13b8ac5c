/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comm plugin of a single rank: every collective is a copy, a conversion or nothing. It obeys
 * comm.h to the letter (order, completions, wake, abort), so that an application runs the same code
 * alone and among others, and it is the smallest complete plugin to learn from.
 */
#ifndef ZERO_PLUGINS_SELF_H
#define ZERO_PLUGINS_SELF_H

#include <stdatomic.h>

#include "../common/bell.h"
#include "../common/coll.h"
#include "machine/isa.h"

#define SELF_INFLIGHT 64u /* posted and not completed, per communicator; a power of two */
#define SELF_PIECE (UINT64_C(256) << 10) /* bytes that one progress() without timeout moves */

struct zero_mr {
    char *base;
    uint64_t bytes;
    int owned; /* by alloc: unmapped at the end */
    int exchanged;
    struct zero_mr *next;
};

struct zero_comm {
    struct zero_comm_ctx *ctx;
    struct zero_comm *next;
    uint64_t posted, completed; /* counts of collectives */
    uint64_t done;              /* elements of the oldest that are through */
    struct zero_coll queue[SELF_INFLIGHT];
};

struct zero_comm_ctx {
    struct zero__voice voice;
    enum zero__isa isa;
    struct zero__caches caches;
    struct zero__bell bell;
    _Atomic uint32_t woken, aborted;
    struct zero_mr *mrs;
    struct zero_comm *comms;
};

/* collectives.c: entries of the table. */
int zero__self_post(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n,
                    void *stream);
int zero__self_progress(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                        int64_t timeout_ns);

#endif
