/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZERO_ENGINE_OPERANDS_H
#define ZERO_ENGINE_OPERANDS_H

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

/* ---- callback.c: the application's optimizer on one segment's part, on the device's stream. */

int zero__callback_create(struct zero_runtime *rt);
void zero__callback_free(struct zero_runtime *rt);
int zero__callback_launch(struct zero_runtime *rt, uint32_t queue, const struct zero__operands *o);

#endif
