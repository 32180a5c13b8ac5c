/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes over the whole network: which unit is used when, and which memory lives how long.
 *
 * Parameters and memory come from a host: the library (session.c) or plain arrays (plain.c). What
 * is computed in a use is another choice: by the processor (cpu.c), or by a GPU (gpu/). The order
 * of uses and the lifetimes of regions are tables, so that they can be declared beforehand.
 */
#ifndef GPT2_NETWORK_H
#define GPT2_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block.h"

/* Regions of memory; GPT2_SAVED + l belongs to block l. */
enum gpt2_region {
    GPT2_STREAM,       /* the residual stream */
    GPT2_POSITION,     /* scratch of the position embedding */
    GPT2_WORK_FORWARD, /* scratch of the blocks */
    GPT2_WORK_BACKWARD,
    GPT2_FINAL,        /* what the final layer norm saves */
    GPT2_HEAD_FORWARD, /* scratch of the output layer */
    GPT2_HEAD,         /* what the output layer saves */
    GPT2_D_STREAM,     /* gradient of the residual stream */
    GPT2_EMBED,        /* scratch of the embeddings' gradients */
    GPT2_BATCH,        /* tokens and losses, where computing is elsewhere */
    GPT2_PRODUCTS,     /* scratch of a library's matrix products */
    GPT2_SAVED,
};

/* A use of a unit. */
struct gpt2_use {
    uint32_t unit;
    bool backward;
};

/* In a lifetime, no unit: the step's beginning or end. */
#define GPT2_WHOLE_STEP UINT32_MAX

/* A region lives from the first use `from` to the last use `to`, both included. */
struct gpt2_lifetime {
    const char *name;
    bool activation; /* else scratch */
    struct gpt2_use from, to;
};

struct gpt2_math;

/* All return 0 or a negative errno. */
struct gpt2_host {
    void *arg;
    /* Fills params with the unit's tensors. */
    int (*acquire)(void *arg, struct gpt2_use use, struct gpt2_param *params);
    int (*release)(void *arg, struct gpt2_use use);
    /* 64-byte aligned memory of a region while it lives, else NULL. */
    void *(*region)(void *arg, uint32_t region);
    const struct gpt2_math *math; /* who computes */
    void *math_arg;
};

/* A pass under way: the first error stops everything that follows. */
struct gpt2_pass {
    const struct gpt2_host *host;
    const struct gpt2_shape *shape;
    const int32_t *tokens, *targets; /* targets NULL: the logits after position `row` are wanted */
    bool training;
    float scale; /* of the mean loss, in training */
    size_t row;
    float *result;                                /* losses, or logits */
    struct gpt2_param params[GPT2_BLOCK_TENSORS]; /* of the unit that is held */
    struct gpt2_use use;
    int err;
};

/* The memory of a region, or NULL with the pass's error set. */
void *gpt2_pass_region(struct gpt2_pass *p, uint32_t region);

/*
 * What is computed, a function for each use, between its acquire and its release. They look for
 * their regions, note errors in the pass and do nothing after one.
 */
struct gpt2_math {
    size_t (*region_bytes)(const struct gpt2_shape *s, uint32_t region); /* 0: it is not wanted */
    void (*begin)(struct gpt2_pass *p); /* or NULL; before the first use */
    void (*embed)(struct gpt2_pass *p);
    void (*position)(struct gpt2_pass *p);
    void (*block)(struct gpt2_pass *p, uint32_t layer);
    void (*norm)(struct gpt2_pass *p);   /* the final one */
    void (*losses)(struct gpt2_pass *p); /* to p->result, and what training needs of them */
    void (*logits)(struct gpt2_pass *p); /* to p->result */
    void (*d_head)(struct gpt2_pass *p);
    void (*d_norm)(struct gpt2_pass *p);
    void (*d_block)(struct gpt2_pass *p, uint32_t layer);
    void (*d_position)(struct gpt2_pass *p);
    void (*d_embed)(struct gpt2_pass *p);
    void (*end)(struct gpt2_pass *p); /* or NULL; after the last use, also after an error */
};

extern const struct gpt2_math gpt2_cpu_math;

uint32_t gpt2_n_regions(const struct gpt2_config *c);
struct gpt2_lifetime gpt2_lifetime(const struct gpt2_config *c, uint32_t region);

/* Uses of one training micro-step or evaluation, in order; returns how many (≤ 2 * units + 2). */
uint32_t gpt2_order(const struct gpt2_config *c, bool training, struct gpt2_use *uses);

/*
 * Forward and backward pass of `scale` * the mean loss over batch * seq positions; gradients go
 * where the host says. loss: nats of each position, batch * seq.
 */
int gpt2_train(const struct gpt2_host *host, const struct gpt2_shape *s, const int32_t *tokens,
               const int32_t *targets, float scale, float *loss);
/* The losses alone. */
int gpt2_evaluate(const struct gpt2_host *host, const struct gpt2_shape *s, const int32_t *tokens,
                  const int32_t *targets, float *loss);
/* Logits (vocab of them) of what follows position `row`. */
int gpt2_predict(const struct gpt2_host *host, const struct gpt2_shape *s, const int32_t *tokens,
                 size_t row, float *logits);

#endif
