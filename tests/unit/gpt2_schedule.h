/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device buffers of a GPT-2 training run under ZeRO stage 3, computed from the tensor shapes in
 * the order in which an eager framework makes and drops them: model-state shards, gathers with
 * prefetch, activations (kept or recomputed), the chunked loss, gradients on their way through
 * buckets, the optimizer's temporaries. Input for tests of the planner; nothing is measured.
 */
#ifndef ZERO_TESTS_GPT2_SCHEDULE_H
#define ZERO_TESTS_GPT2_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/plan.h"

struct gpt2_shape {
    uint64_t layers, d, heads, vocab, seq, batch, world, prefetch, bucket_bytes, loss_chunks;
    int micro_steps, steps;
    bool recompute, flash;
};

struct schedule {
    struct zero__plan_buffer *buffers; /* owned */
    uint32_t n, room, now;
};

extern const struct gpt2_shape gpt2_small, gpt2_xl;

/* Lifetimes of the whole run; free(out->buffers). Ends the program when memory runs out. */
void gpt2_schedule_make(const struct gpt2_shape *shape, struct schedule *out);

#endif
