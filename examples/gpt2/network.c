/* SPDX-License-Identifier: Apache-2.0 */
/* The passes over the whole network; see network.h. */
#include "network.h"

#include <errno.h>

uint32_t gpt2_n_regions(const struct gpt2_config *c)
{
    return GPT2_SAVED + c->n_layers;
}

struct gpt2_lifetime gpt2_lifetime(const struct gpt2_config *c, uint32_t region)
{
    const uint32_t first = GPT2_UNIT_BLOCK, last = first + c->n_layers - 1, norm = last + 1;
    const struct gpt2_use wte = {GPT2_UNIT_WTE, false}, wpe = {GPT2_UNIT_WPE, false};
    const struct gpt2_use d_wte = {GPT2_UNIT_WTE, true}, d_wpe = {GPT2_UNIT_WPE, true};
    const struct gpt2_use f = {norm, false}, d_f = {norm, true};
    const struct gpt2_use whole = {GPT2_WHOLE_STEP, false};
    const uint32_t block = first + region - GPT2_SAVED;

    switch (region) {
    case GPT2_STREAM:
        return (struct gpt2_lifetime){"stream", true, wte, f};
    case GPT2_POSITION:
        return (struct gpt2_lifetime){"wpe.work", false, wpe, wpe};
    case GPT2_WORK_FORWARD:
        return (struct gpt2_lifetime){"block.work", false, {first, false}, {last, false}};
    case GPT2_WORK_BACKWARD:
        return (struct gpt2_lifetime){"block.work.backward", false, {last, true}, {first, true}};
    case GPT2_FINAL:
        return (struct gpt2_lifetime){"ln_f", true, f, d_f};
    case GPT2_HEAD_FORWARD:
        return (struct gpt2_lifetime){"head.work", false, f, wte};
    case GPT2_HEAD:
        return (struct gpt2_lifetime){"head", true, f, d_f};
    case GPT2_D_STREAM:
        return (struct gpt2_lifetime){"stream.gradient", true, d_f, d_wte};
    case GPT2_EMBED:
        return (struct gpt2_lifetime){"embed.work", false, d_wpe, d_wte};
    case GPT2_BATCH:
        return (struct gpt2_lifetime){"batch", false, whole, whole};
    case GPT2_PRODUCTS:
        return (struct gpt2_lifetime){"cublas.work", false, whole, whole};
    default:
        return (struct gpt2_lifetime){"block", true, {block, false}, {block, true}};
    }
}

uint32_t gpt2_order(const struct gpt2_config *c, bool training, struct gpt2_use *uses)
{
    const uint32_t units = gpt2_n_units(c);
    uint32_t n = 0;

    for (uint32_t u = 0; u < units; u++)
        uses[n++] = (struct gpt2_use){u, false};
    uses[n++] = (struct gpt2_use){GPT2_UNIT_WTE, false};
    if (!training)
        return n;
    uses[n++] = (struct gpt2_use){GPT2_UNIT_WTE, true};
    for (uint32_t u = units; u-- > 0;)
        uses[n++] = (struct gpt2_use){u, true};
    return n;
}

void *gpt2_pass_region(struct gpt2_pass *p, uint32_t region)
{
    void *r = p->host->region(p->host->arg, region);
    if (!r && !p->err)
        p->err = -EFAULT;
    return r;
}

/* Acquires a unit; false after an error. */
static bool use(struct gpt2_pass *p, uint32_t unit, bool backward)
{
    p->use = (struct gpt2_use){unit, backward};
    if (!p->err)
        p->err = p->host->acquire(p->host->arg, p->use, p->params);
    return !p->err;
}

static void end_use(struct gpt2_pass *p)
{
    int err = p->host->release(p->host->arg, p->use);
    if (err && !p->err)
        p->err = err;
}

/* One use, in which one function computes. */
static void in_use(struct gpt2_pass *p, uint32_t unit, bool backward,
                   void (*compute)(struct gpt2_pass *p))
{
    if (!use(p, unit, backward))
        return;
    compute(p);
    end_use(p);
}

static void in_block(struct gpt2_pass *p, uint32_t layer, bool backward,
                     void (*compute)(struct gpt2_pass *p, uint32_t layer))
{
    if (!use(p, GPT2_UNIT_BLOCK + layer, backward))
        return;
    compute(p, layer);
    end_use(p);
}

/* Up to losses or logits. */
static void forward(struct gpt2_pass *p)
{
    const struct gpt2_math *m = p->host->math;
    const uint32_t n_layers = p->shape->model.n_layers;

    in_use(p, GPT2_UNIT_WTE, false, m->embed);
    in_use(p, GPT2_UNIT_WPE, false, m->position);
    for (uint32_t l = 0; l < n_layers && !p->err; l++)
        in_block(p, l, false, m->block);
    in_use(p, GPT2_UNIT_BLOCK + n_layers, false, m->norm);
    in_use(p, GPT2_UNIT_WTE, false, p->targets ? m->losses : m->logits);
}

static void backward(struct gpt2_pass *p)
{
    const struct gpt2_math *m = p->host->math;
    const uint32_t n_layers = p->shape->model.n_layers;

    in_use(p, GPT2_UNIT_WTE, true, m->d_head);
    in_use(p, GPT2_UNIT_BLOCK + n_layers, true, m->d_norm);
    for (uint32_t l = n_layers; l-- > 0 && !p->err;)
        in_block(p, l, true, m->d_block);
    in_use(p, GPT2_UNIT_WPE, true, m->d_position);
    in_use(p, GPT2_UNIT_WTE, true, m->d_embed);
}

static int run(struct gpt2_pass *p)
{
    const struct gpt2_math *m = p->host->math;

    if (m->begin)
        m->begin(p);
    forward(p);
    if (p->training)
        backward(p);
    if (m->end)
        m->end(p);
    return p->err;
}

int gpt2_train(const struct gpt2_host *host, const struct gpt2_shape *s, const int32_t *tokens,
               const int32_t *targets, float scale, float *loss)
{
    struct gpt2_pass p = {.host = host,
                          .shape = s,
                          .tokens = tokens,
                          .targets = targets,
                          .training = true,
                          .scale = scale,
                          .result = loss};
    return run(&p);
}

int gpt2_evaluate(const struct gpt2_host *host, const struct gpt2_shape *s, const int32_t *tokens,
                  const int32_t *targets, float *loss)
{
    struct gpt2_pass p = {
        .host = host, .shape = s, .tokens = tokens, .targets = targets, .result = loss};
    return run(&p);
}

int gpt2_predict(const struct gpt2_host *host, const struct gpt2_shape *s, const int32_t *tokens,
                 size_t row, float *logits)
{
    struct gpt2_pass p = {.host = host, .shape = s, .tokens = tokens, .row = row, .result = logits};
    return run(&p);
}
