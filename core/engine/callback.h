/* SPDX-License-Identifier: Apache-2.0 */
/* The application's own optimizer, and what an update of a segment's part works on. */
#ifndef ZERO_ENGINE_CALLBACK_H
#define ZERO_ENGINE_CALLBACK_H

#include <stdint.h>

struct zero_runtime;

/* One update's operands in one segment; elements count from the start of what is updated. */
struct zero__operands {
    uint32_t segment, grad_dtype;
    uint64_t first, count; /* in the segment */
    uint8_t *grad, *param;
    float *master; /* NULL: it is param and low */
    uint16_t *low;
    uint8_t *m, *v;
};

/* Where ZERO_OPTIMIZER is callback; else nothing. */
int zero__callback_create(struct zero_runtime *rt);
void zero__callback_free(struct zero_runtime *rt);
/* On the queue's stream; *o is copied, what it points to lives as long as the op. */
int zero__callback_launch(struct zero_runtime *rt, uint32_t queue,
                          const struct zero__operands *o);

#endif
