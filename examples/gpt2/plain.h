/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same model without the library: one process, plain arrays, AdamW as a loop. Tests use it to
 * check the mathematics, and the benchmark to see what the runtime costs.
 */
#ifndef GPT2_PLAIN_H
#define GPT2_PLAIN_H

#include "network.h"

struct gpt2_adamw {
    float lr, weight_decay, beta1, beta2, eps, clip; /* clip 0: none */
};

struct gpt2_plain {
    struct gpt2_shape shape;
    uint64_t n_elements; /* of all tensors, each padded to 64 */
    uint64_t *first;     /* n_tensors: where each starts */
    float *master, *momentum, *variance;
    void *values, *gradients; /* in the shape's dtype; values is master for fp32 */
    void **regions;
    uint64_t step;
    bool written; /* the token embedding has its first gradient of this step */
    struct gpt2_host host;
};

/* Allocates all and sets the initial values; -ENOMEM. */
int gpt2_plain_create(const struct gpt2_shape *s, uint64_t seed, struct gpt2_plain *p);
void gpt2_plain_destroy(struct gpt2_plain *p);

/* One update with the gradients times `factor`; returns their norm, before clipping. */
double gpt2_plain_update(struct gpt2_plain *p, const struct gpt2_adamw *a, float factor);

#endif
