/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The independent check of a plan: a sweep over the buffers by start that compares each with all
 * that are still alive. It shares no code with the solvers.
 */
#include <stdlib.h>

#include "base/status.h"
#include "memory/plan.h"

struct entry {
    uint32_t first, index;
};

static int entry_compare(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

int zero__plan_check(const struct zero__plan_buffer *buffers, uint32_t n, uint32_t *a, uint32_t *b)
{
    struct entry *order = malloc(((size_t)n + 1) * sizeof *order);
    uint32_t *live = malloc(((size_t)n + 1) * sizeof *live);
    uint32_t n_order = 0, n_live = 0;
    int err = 0;

    if (!order || !live) {
        err = zero__fail(-ENOMEM, "memory plan: no memory to check a plan");
        goto out;
    }
    for (uint32_t i = 0; i < n; i++)
        if (buffers[i].bytes > 0 && buffers[i].first < buffers[i].last)
            order[n_order++] = (struct entry){buffers[i].first, i};
    qsort(order, n_order, sizeof *order, entry_compare);
    for (uint32_t k = 0; k < n_order; k++) {
        const struct zero__plan_buffer *x = &buffers[order[k].index];
        uint32_t kept = 0;
        for (uint32_t j = 0; j < n_live; j++) {
            const struct zero__plan_buffer *y = &buffers[live[j]];
            if (y->last <= x->first)
                continue;
            live[kept++] = live[j];
            if (x->offset < y->offset ? y->offset - x->offset < x->bytes
                                      : x->offset - y->offset < y->bytes) {
                *a = live[j];
                *b = order[k].index;
                err = zero__fail(-EEXIST,
                                 "memory plan: buffers %u and %u are alive together and overlap",
                                 (unsigned)*a, (unsigned)*b);
                goto out;
            }
        }
        n_live = kept;
        live[n_live++] = order[k].index;
    }
out:
    free(live);
    free(order);
    return err;
}
