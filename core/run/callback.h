/* SPDX-License-Identifier: Apache-2.0 */
/* Inside core/run/: launches of the application's own optimizer. */
#ifndef ZERO_RUN_CALLBACK_H
#define ZERO_RUN_CALLBACK_H

#include "run/run.h"

/* One update's operands in one segment; elements count from the start of what is updated. */
struct zero__operands {
    uint32_t segment, grad_dtype;
    uint64_t first, count; /* in the segment */
    uint8_t *grad, *param;
    float *master; /* NULL: the halves in param and low are the master */
    uint16_t *low;
    uint8_t *m, *v;
};

/* On the queue's stream; *o is copied, what it points to lives as long as the op. */
int zero__callback_launch(struct zero__runner *run, uint32_t queue, const struct zero__operands *o);

#endif
