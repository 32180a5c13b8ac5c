/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan pass: an offset for every transient buffer of a body, from lifetimes in list order.
 * Two buffers may share bytes when one ends before the other begins in the list; the link pass then
 * makes the later one's first op wait for the earlier one's last.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/status.h"
#include "memory/plan.h"
#include "schedule/passes.h"

/* The buffers of one tier: each has a plan of its own. */
static int tier_plan(struct zero__body *b, uint32_t tier, uint64_t nodes, uint32_t threads)
{
    struct zero__plan_params params = {
        .align = ZERO_BUFFER_ALIGN, .node_budget = nodes, .n_threads = threads};
    struct zero__plan_result result;
    struct zero__plan_buffer *p = calloc(b->n_buffers + 1, sizeof *p);

    uint32_t n = 0;

    if (!p)
        return zero__fail(-ENOMEM, "no memory to plan %u buffers", b->n_buffers);
    for (uint32_t i = 0; i < b->n_buffers; i++)
        if (b->buffers[i].tier == tier)
            p[n++] = (struct zero__plan_buffer){.bytes = b->buffers[i].bytes,
                                                .first = b->buffers[i].first,
                                                .last = b->buffers[i].last};
    int err = n ? zero__plan_solve(p, n, &params, &result) : 0;
    if (!err && n) {
        for (uint32_t i = 0, k = 0; i < b->n_buffers; i++)
            if (b->buffers[i].tier == tier)
                b->buffers[i].offset = p[k++].offset;
        b->height[tier] = result.height;
        b->lower_bound[tier] = result.lower_bound;
    }
    free(p);
    return err;
}

int zero__plan_body(struct zero__body *b, uint64_t nodes, uint32_t threads)
{
    int err = 0;

    for (uint32_t tier = 0; tier < ZERO__N_TIERS && !err; tier++)
        err = tier_plan(b, tier, nodes, threads);
    return err || b->is_draft ? err : zero__live_body(b);
}
