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
#include "schedule/program.h"

int zero__plan_body(struct zero__body *b, uint64_t nodes, uint32_t threads)
{
    struct zero__plan_params params = {
        .align = ZERO_BUFFER_ALIGN, .node_budget = nodes, .n_threads = threads};
    struct zero__plan_result result;
    struct zero__plan_buffer *p = calloc(b->n_buffers + 1, sizeof *p);

    if (!p)
        return zero__fail(-ENOMEM, "no memory to plan %u buffers", b->n_buffers);
    for (uint32_t i = 0; i < b->n_buffers; i++)
        p[i] = (struct zero__plan_buffer){
            .bytes = b->buffers[i].bytes, .first = b->buffers[i].first, .last = b->buffers[i].last};
    int err = zero__plan_solve(p, b->n_buffers, &params, &result);
    if (!err) {
        for (uint32_t i = 0; i < b->n_buffers; i++)
            b->buffers[i].offset = p[i].offset;
        b->height = result.height;
        b->lower_bound = result.lower_bound;
    }
    free(p);
    return err;
}
