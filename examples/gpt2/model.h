/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a GPT-2 model consists of: shapes, presets, the list of its tensors, their initial values.
 *
 * Units (what is gathered together), in forward order: 0 token embedding, 1 position embedding,
 * 2 … blocks, last the final layer norm. The output layer uses the token embedding again.
 * Matrices are (outputs, inputs), row-major.
 */
#ifndef GPT2_MODEL_H
#define GPT2_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpt2_config {
    char name[16];
    uint32_t n_layers, n_heads, width, context, vocab;
};

enum { GPT2_UNIT_WTE = 0, GPT2_UNIT_WPE = 1, GPT2_UNIT_BLOCK = 2 };

/* Tensors of a block, in order. */
enum gpt2_block_tensor {
    GPT2_LN1_W,
    GPT2_LN1_B,
    GPT2_QKV_W,
    GPT2_QKV_B,
    GPT2_ATT_W,
    GPT2_ATT_B,
    GPT2_LN2_W,
    GPT2_LN2_B,
    GPT2_FC_W,
    GPT2_FC_B,
    GPT2_PROJ_W,
    GPT2_PROJ_B,
    GPT2_BLOCK_TENSORS,
};

struct gpt2_tensor {
    char name[40];
    uint32_t unit, n_dims;
    uint64_t dims[2], elements;
    float mean, deviation; /* initial values; deviation 0: constant */
    bool decay;            /* matrices get weight decay */
};

/* Fills *c; -EINVAL for a name that is none of gpt2_presets(). */
int gpt2_config_preset(const char *name, struct gpt2_config *c);
/* "micro, tiny, …" for messages. */
const char *gpt2_presets(void);

uint32_t gpt2_n_units(const struct gpt2_config *c);
uint32_t gpt2_n_tensors(const struct gpt2_config *c);
/* First tensor of a unit, and how many it has. */
uint32_t gpt2_first_tensor(uint32_t unit);
uint32_t gpt2_unit_tensors(const struct gpt2_config *c, uint32_t unit);
void gpt2_unit_name(const struct gpt2_config *c, uint32_t unit, char *name, size_t bytes);
/* Describes tensor `index` < gpt2_n_tensors(). */
void gpt2_tensor(const struct gpt2_config *c, uint32_t index, struct gpt2_tensor *t);
uint64_t gpt2_n_parameters(const struct gpt2_config *c);

/* Initial values of elements first … first + count - 1 of a tensor. */
void gpt2_initial(const struct gpt2_tensor *t, uint32_t index, uint64_t seed, uint64_t first,
                  uint64_t count, float *values);

#endif
