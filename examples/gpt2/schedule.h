/* SPDX-License-Identifier: Apache-2.0 */
/* Learning rate of a step: linear warm-up, then a cosine down to a tenth. */
#ifndef GPT2_SCHEDULE_H
#define GPT2_SCHEDULE_H

#include <math.h>
#include <stdint.h>

struct gpt2_schedule {
    double lr; /* the largest */
    uint64_t warmup, steps;
};

/* Of step 0, 1, … */
static inline float gpt2_learning_rate(const struct gpt2_schedule *s, uint64_t step)
{
    const double pi = 3.14159265358979324;
    if (step < s->warmup)
        return (float)(s->lr * (double)(step + 1) / (double)s->warmup);
    if (step >= s->steps)
        return (float)(0.1 * s->lr);
    const double done = (double)(step - s->warmup) / (double)(s->steps - s->warmup);
    return (float)(0.1 * s->lr + 0.45 * s->lr * (1 + cos(pi * done)));
}

#endif
