/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes and presets; see model.h. */
#include "model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The big ones have nanoGPT's shapes: the vocabulary is rounded up to a multiple of 64 rows. */
static const struct gpt2_config presets[] = {
    {"micro", 2, 2, 64, 32, 256},        {"tiny", 4, 4, 128, 128, 256},
    {"124M", 12, 12, 768, 1024, 50304},  {"350M", 24, 16, 1024, 1024, 50304},
    {"774M", 36, 20, 1280, 1024, 50304}, {"1.5B", 48, 25, 1600, 1024, 50304},
};

int gpt2_config_preset(const char *name, struct gpt2_config *c)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcasecmp(presets[i].name, name) == 0) {
            *c = presets[i];
            return 0;
        }
    return -EINVAL;
}

const char *gpt2_presets(void)
{
    return "micro, tiny, 124M, 350M, 774M, 1.5B";
}

uint32_t gpt2_n_units(const struct gpt2_config *c)
{
    return c->n_layers + 3;
}

uint32_t gpt2_n_tensors(const struct gpt2_config *c)
{
    return 2 + c->n_layers * GPT2_BLOCK_TENSORS + 2;
}

uint32_t gpt2_first_tensor(uint32_t unit)
{
    return unit < GPT2_UNIT_BLOCK ? unit : 2 + (unit - GPT2_UNIT_BLOCK) * GPT2_BLOCK_TENSORS;
}

uint32_t gpt2_unit_tensors(const struct gpt2_config *c, uint32_t unit)
{
    if (unit < GPT2_UNIT_BLOCK)
        return 1;
    return unit < GPT2_UNIT_BLOCK + c->n_layers ? GPT2_BLOCK_TENSORS : 2;
}

void gpt2_unit_name(const struct gpt2_config *c, uint32_t unit, char *name, size_t bytes)
{
    if (unit == GPT2_UNIT_WTE)
        snprintf(name, bytes, "wte");
    else if (unit == GPT2_UNIT_WPE)
        snprintf(name, bytes, "wpe");
    else if (unit < GPT2_UNIT_BLOCK + c->n_layers)
        snprintf(name, bytes, "h.%u", unit - GPT2_UNIT_BLOCK);
    else
        snprintf(name, bytes, "ln_f");
}

/* rows 0: a vector of `columns` elements. */
static void describe(struct gpt2_tensor *t, uint64_t rows, uint64_t columns, float mean,
                     float deviation)
{
    t->n_dims = rows ? 2 : 1;
    t->dims[0] = rows ? rows : columns;
    t->dims[1] = rows ? columns : 0;
    t->elements = (rows ? rows : 1) * columns;
    t->mean = mean;
    t->deviation = deviation;
    t->decay = rows != 0;
}

static void describe_block(const struct gpt2_config *c, uint32_t which, struct gpt2_tensor *t)
{
    static const char *const names[GPT2_BLOCK_TENSORS] = {
        "ln_1.weight",        "ln_1.bias",        "attn.c_attn.weight", "attn.c_attn.bias",
        "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight",        "ln_2.bias",
        "mlp.c_fc.weight",    "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias",
    };
    const uint64_t w = c->width;
    /* Projections into the residual stream start smaller, so that its variance does not grow. */
    const float residual = 0.02f / sqrtf(2.0f * (float)c->n_layers);

    snprintf(t->name, sizeof t->name, "h.%u.%s", t->unit - GPT2_UNIT_BLOCK, names[which]);
    switch (which) {
    case GPT2_LN1_W:
    case GPT2_LN2_W:
        describe(t, 0, w, 1, 0);
        break;
    case GPT2_QKV_W:
        describe(t, 3 * w, w, 0, 0.02f);
        break;
    case GPT2_QKV_B:
        describe(t, 0, 3 * w, 0, 0);
        break;
    case GPT2_ATT_W:
        describe(t, w, w, 0, residual);
        break;
    case GPT2_FC_W:
        describe(t, 4 * w, w, 0, 0.02f);
        break;
    case GPT2_FC_B:
        describe(t, 0, 4 * w, 0, 0);
        break;
    case GPT2_PROJ_W:
        describe(t, w, 4 * w, 0, residual);
        break;
    default: /* the other biases */
        describe(t, 0, w, 0, 0);
    }
}

void gpt2_tensor(const struct gpt2_config *c, uint32_t index, struct gpt2_tensor *t)
{
    const uint32_t after = 2 + c->n_layers * GPT2_BLOCK_TENSORS;

    memset(t, 0, sizeof *t);
    if (index < 2) {
        t->unit = index;
        snprintf(t->name, sizeof t->name, "%s.weight", index == 0 ? "wte" : "wpe");
        describe(t, index == 0 ? c->vocab : c->context, c->width, 0, 0.02f);
    } else if (index < after) {
        t->unit = GPT2_UNIT_BLOCK + (index - 2) / GPT2_BLOCK_TENSORS;
        describe_block(c, (index - 2) % GPT2_BLOCK_TENSORS, t);
    } else {
        t->unit = GPT2_UNIT_BLOCK + c->n_layers;
        snprintf(t->name, sizeof t->name, "ln_f.%s", index == after ? "weight" : "bias");
        describe(t, 0, c->width, index == after ? 1 : 0, 0);
    }
}

uint64_t gpt2_n_parameters(const struct gpt2_config *c)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < gpt2_n_tensors(c); i++) {
        struct gpt2_tensor t;
        gpt2_tensor(c, i, &t);
        n += t.elements;
    }
    return n;
}
