/* SPDX-License-Identifier: Apache-2.0 */
/* What the plans of launches have in common. */
#ifndef ZERO_PLUGINS_CUDA_KERNEL_PLAN_H
#define ZERO_PLUGINS_CUDA_KERNEL_PLAN_H

#include "../../common/voice.h"
#include "launch.h"

/* Of the blocks that would cover the work once, those of the grid. */
uint32_t zero__grid_most(uint32_t kernel, uint32_t multiprocessors, uint64_t blocks);
/* One launch; `blocks` blocks would cover the work once. */
void zero__grid_set(struct zero__cuda_launch *out, uint32_t kernel, uint32_t multiprocessors,
                    uint64_t blocks, const void *params);

/* An array of a launch: NULL if unused. */
struct plan_array {
    const void *at;
    uint32_t bytes; /* of an element */
};

/* Vectors of `width` elements, from the first element on at which all arrays are aligned to one. */
struct zero__cuda_span zero__span_of(uint64_t count, uint32_t width,
                                     const struct plan_array *array, uint32_t n);
/* Blocks that cover a span once, with `batch` vectors a thread. */
uint64_t zero__span_blocks(const struct zero__cuda_span *span, uint32_t kernel, uint32_t batch);

/* plan_update.c: at most `max` launches; see zero__cuda_launch_plan(). */
int zero__updates_plan(const struct zero__voice *voice, uint32_t multiprocessors,
                       const struct zero_updates_args *a, struct zero__cuda_launch *out,
                       uint32_t max, uint32_t *n);

#endif
