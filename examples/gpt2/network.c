/* SPDX-License-Identifier: Apache-2.0 */
/* The passes over the whole network; see network.h. */
#include "network.h"

#include <errno.h>
#include <string.h>

/*
 * Logits of a training step are kept up to this size (with --recompute, which saves memory for
 * time, a smaller one), above it they are computed twice.
 */
#define KEEP_LOGITS_BYTES ((size_t)256 << 20)
#define KEEP_LOGITS_BYTES_RECOMPUTE ((size_t)64 << 20)

struct final {
    float *x, *stat, *vector;
};

/* `logits` and `scratch` are scratch, except for the kept logits in the region GPT2_HEAD. */
struct head_forward {
    float *normed, *stat, *loss, *logits, *scratch;
};

struct head {
    float *normed, *d_normed, *stat, *logits, *scratch;
};

static struct gpt2_head head_of(const struct gpt2_shape *s, bool training)
{
    const size_t bytes = gpt2_rows(s) * s->model.vocab * sizeof(float);
    const size_t most = s->recompute ? KEEP_LOGITS_BYTES_RECOMPUTE : KEEP_LOGITS_BYTES;
    return (struct gpt2_head){gpt2_rows(s), s->model.width, s->model.vocab, s->dtype,
                              training && bytes <= most};
}

static size_t carve_final(const struct gpt2_shape *s, void *region, struct final *f)
{
    struct gpt2_bump b = {region, 0};
    f->x = gpt2_take(&b, gpt2_rows(s) * s->model.width * sizeof(float));
    f->stat = gpt2_take(&b, gpt2_rows(s) * 2 * sizeof(float));
    f->vector = gpt2_take(&b, (size_t)s->model.width * 5 * sizeof(float));
    return b.used;
}

static size_t carve_head_forward(const struct gpt2_shape *s, void *region, struct head_forward *f)
{
    const struct gpt2_head h = head_of(s, false);
    struct gpt2_bump b = {region, 0};
    f->normed = gpt2_take(&b, h.rows * h.width * sizeof(float));
    f->stat = gpt2_take(&b, h.rows * 2 * sizeof(float));
    f->loss = gpt2_take(&b, h.rows * sizeof(float));
    f->logits = gpt2_take(&b, gpt2_head_logits(&h, 0) * sizeof(float));
    f->scratch = gpt2_take(&b, gpt2_head_scratch(&h) * sizeof(float));
    return b.used;
}

static size_t carve_head(const struct gpt2_shape *s, void *region, struct head *f)
{
    const struct gpt2_head h = head_of(s, true);
    struct gpt2_bump b = {region, 0};
    f->normed = gpt2_take(&b, h.rows * h.width * sizeof(float));
    f->d_normed = gpt2_take(&b, h.rows * h.width * sizeof(float));
    f->stat = gpt2_take(&b, h.rows * 2 * sizeof(float));
    f->logits = gpt2_take(&b, gpt2_head_logits(&h, h.keep) * sizeof(float));
    f->scratch = gpt2_take(&b, gpt2_head_scratch(&h) * sizeof(float));
    return b.used;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

uint32_t gpt2_n_regions(const struct gpt2_config *c)
{
    return GPT2_SAVED + c->n_layers;
}

void gpt2_region(const struct gpt2_shape *s, uint32_t region, struct gpt2_lifetime *l)
{
    const size_t rows = gpt2_rows(s), stream = rows * s->model.width * sizeof(float);
    const size_t vector = (size_t)s->model.width * sizeof(float);
    const size_t chains = gpt2_embed_scratch(s->model.vocab, rows) * sizeof(int32_t);
    const uint32_t block = GPT2_UNIT_BLOCK, last = block + s->model.n_layers - 1, norm = last + 1;
    const struct gpt2_use wte = {GPT2_UNIT_WTE, false}, wpe = {GPT2_UNIT_WPE, false};
    const struct gpt2_use d_wte = {GPT2_UNIT_WTE, true}, d_wpe = {GPT2_UNIT_WPE, true};
    const struct gpt2_use f = {norm, false}, d_f = {norm, true};
    struct final final;
    struct head_forward forward;
    struct head head;

    switch (region) {
    case GPT2_STREAM:
        *l = (struct gpt2_lifetime){"stream", true, stream, wte, f};
        break;
    case GPT2_POSITION:
        *l = (struct gpt2_lifetime){"wpe.work", false, vector, wpe, wpe};
        break;
    case GPT2_WORK_FORWARD:
        *l = (struct gpt2_lifetime){
            "block.work", false, gpt2_block_work(s, 0), {block, false}, {last, false}};
        break;
    case GPT2_WORK_BACKWARD:
        *l = (struct gpt2_lifetime){
            "block.work.backward", false, gpt2_block_work(s, 1), {last, true}, {block, true}};
        break;
    case GPT2_FINAL:
        *l = (struct gpt2_lifetime){"ln_f", true, carve_final(s, NULL, &final), f, d_f};
        break;
    case GPT2_HEAD_FORWARD:
        *l = (struct gpt2_lifetime){"head.work", false, carve_head_forward(s, NULL, &forward), f,
                                    wte};
        break;
    case GPT2_HEAD:
        *l = (struct gpt2_lifetime){"head", true, carve_head(s, NULL, &head), f, d_f};
        break;
    case GPT2_D_STREAM:
        *l = (struct gpt2_lifetime){"stream.gradient", true, stream, d_f, d_wte};
        break;
    case GPT2_EMBED:
        *l = (struct gpt2_lifetime){"embed.work", false, vector + chains + 64, d_wpe, d_wte};
        break;
    default:
        *l = (struct gpt2_lifetime){"block",
                                    true,
                                    gpt2_block_saved(s),
                                    {block + region - GPT2_SAVED, false},
                                    {block + region - GPT2_SAVED, true}};
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

/* ---- Passes ---------------------------------------------------------------------------------- */

/* One pass: the first error stops everything that follows. */
struct pass {
    const struct gpt2_host *host;
    const struct gpt2_shape *shape;
    struct gpt2_param params[GPT2_BLOCK_TENSORS];
    struct gpt2_use use;
    int err;
};

/* Acquires a unit; false after an error. */
static bool use(struct pass *p, uint32_t unit, bool backward)
{
    p->use = (struct gpt2_use){unit, backward};
    if (!p->err)
        p->err = p->host->acquire(p->host->arg, p->use, p->params);
    return !p->err;
}

static void end_use(struct pass *p)
{
    int err = p->host->release(p->host->arg, p->use);
    if (err && !p->err)
        p->err = err;
}

static void *region(struct pass *p, uint32_t which)
{
    void *r = p->host->region(p->host->arg, which);
    if (!r && !p->err)
        p->err = -EFAULT;
    return r;
}

/* Token and position embedding and the blocks. */
static void forward_blocks(struct pass *p, const int32_t *tokens)
{
    const struct gpt2_shape *s = p->shape;
    const struct gpt2_config *c = &s->model;

    if (use(p, GPT2_UNIT_WTE, false)) {
        float *x = region(p, GPT2_STREAM);
        if (!p->err)
            gpt2_embed_forward(p->params, tokens, gpt2_rows(s), c->width, x);
        end_use(p);
    }
    if (use(p, GPT2_UNIT_WPE, false)) {
        float *x = region(p, GPT2_STREAM), *vector = region(p, GPT2_POSITION);
        if (!p->err)
            gpt2_position_forward(p->params, s->batch, s->seq, c->width, x, vector);
        end_use(p);
    }
    for (uint32_t l = 0; l < c->n_layers && use(p, GPT2_UNIT_BLOCK + l, false); l++) {
        float *x = region(p, GPT2_STREAM);
        void *saved = region(p, GPT2_SAVED + l), *work = region(p, GPT2_WORK_FORWARD);
        if (!p->err)
            gpt2_block_forward(s, p->params, saved, work, x);
        end_use(p);
    }
}

/* The final layer norm of the stream; its output goes to what the head uses. */
static void forward_final(struct pass *p, bool training)
{
    const struct gpt2_shape *s = p->shape;
    const size_t rows = gpt2_rows(s), width = s->model.width;
    struct final f;
    struct head_forward forward;
    struct head head = {0};

    if (!use(p, GPT2_UNIT_BLOCK + s->model.n_layers, false))
        return;
    const float *x = region(p, GPT2_STREAM);
    carve_final(s, region(p, GPT2_FINAL), &f);
    carve_head_forward(s, region(p, GPT2_HEAD_FORWARD), &forward);
    if (training)
        carve_head(s, region(p, GPT2_HEAD), &head);
    if (!p->err) {
        memcpy(f.x, x, rows * width * sizeof *x);
        gpt2_norm_stat(f.x, rows, width, f.stat);
        gpt2_norm_forward(&p->params[0], &p->params[1], f.x, f.stat, rows, width,
                          training ? head.normed : forward.normed, f.vector);
    }
    end_use(p);
}

/* Losses of the head, in training with all that its backward pass needs. */
static void forward_head(struct pass *p, const int32_t *targets, bool training, float *loss)
{
    const struct gpt2_head h = head_of(p->shape, training);
    struct head_forward f;
    struct head t = {0};

    if (!use(p, GPT2_UNIT_WTE, false))
        return;
    carve_head_forward(p->shape, region(p, GPT2_HEAD_FORWARD), &f);
    if (training)
        carve_head(p->shape, region(p, GPT2_HEAD), &t);
    if (!p->err) {
        gpt2_head_forward(&h, p->params, training ? t.normed : f.normed, targets, f.loss,
                          training ? t.stat : f.stat, h.keep ? t.logits : f.logits, f.scratch);
        memcpy(loss, f.loss, h.rows * sizeof *loss);
    }
    end_use(p);
}

static void backward_head(struct pass *p, const int32_t *targets, float scale)
{
    const struct gpt2_shape *s = p->shape;
    const struct gpt2_head h = head_of(s, true);
    struct head t;
    struct final f;

    if (use(p, GPT2_UNIT_WTE, true)) {
        carve_head(s, region(p, GPT2_HEAD), &t);
        if (!p->err)
            gpt2_head_backward(&h, p->params, t.normed, targets, t.stat, scale / (float)h.rows,
                               t.d_normed, t.logits, t.scratch);
        end_use(p);
    }
    if (use(p, GPT2_UNIT_BLOCK + s->model.n_layers, true)) {
        float *dx = region(p, GPT2_D_STREAM);
        carve_head(s, region(p, GPT2_HEAD), &t);
        carve_final(s, region(p, GPT2_FINAL), &f);
        if (!p->err)
            gpt2_norm_backward(&p->params[0], &p->params[1], f.x, f.stat, t.d_normed, h.rows,
                               h.width, 0, dx, f.vector);
        end_use(p);
    }
}

static void backward_blocks(struct pass *p, const int32_t *tokens)
{
    const struct gpt2_shape *s = p->shape;
    const struct gpt2_config *c = &s->model;

    for (uint32_t l = c->n_layers; l-- > 0 && use(p, GPT2_UNIT_BLOCK + l, true);) {
        float *dx = region(p, GPT2_D_STREAM);
        void *saved = region(p, GPT2_SAVED + l), *work = region(p, GPT2_WORK_BACKWARD);
        if (!p->err)
            gpt2_block_backward(s, p->params, saved, work, dx);
        end_use(p);
    }
    if (use(p, GPT2_UNIT_WPE, true)) {
        float *dx = region(p, GPT2_D_STREAM), *vector = region(p, GPT2_EMBED);
        if (!p->err)
            gpt2_position_backward(p->params, dx, s->batch, s->seq, c->context, c->width, vector);
        end_use(p);
    }
    if (use(p, GPT2_UNIT_WTE, true)) {
        const float *dx = region(p, GPT2_D_STREAM);
        struct gpt2_bump b = {region(p, GPT2_EMBED), 0};
        if (!p->err) {
            float *vector = gpt2_take(&b, c->width * sizeof *vector);
            int32_t *chains = gpt2_take(&b, 0);
            gpt2_embed_backward(p->params, tokens, dx, gpt2_rows(s), c->vocab, c->width, chains,
                                vector);
        }
        end_use(p);
    }
}

int gpt2_train(const struct gpt2_host *host, const struct gpt2_shape *s, const int32_t *tokens,
               const int32_t *targets, float scale, float *loss)
{
    struct pass p = {.host = host, .shape = s};

    forward_blocks(&p, tokens);
    forward_final(&p, true);
    forward_head(&p, targets, true, loss);
    backward_head(&p, targets, scale);
    backward_blocks(&p, tokens);
    return p.err;
}

int gpt2_evaluate(const struct gpt2_host *host, const struct gpt2_shape *s, const int32_t *tokens,
                  const int32_t *targets, float *loss)
{
    struct pass p = {.host = host, .shape = s};

    forward_blocks(&p, tokens);
    forward_final(&p, false);
    forward_head(&p, targets, false, loss);
    return p.err;
}

int gpt2_predict(const struct gpt2_host *host, const struct gpt2_shape *s, const int32_t *tokens,
                 size_t row, float *logits)
{
    const struct gpt2_head h = head_of(s, false);
    struct pass p = {.host = host, .shape = s};
    struct head_forward f;

    forward_blocks(&p, tokens);
    forward_final(&p, false);
    if (use(&p, GPT2_UNIT_WTE, false)) {
        carve_head_forward(s, region(&p, GPT2_HEAD_FORWARD), &f);
        if (!p.err)
            gpt2_head_row(&h, p.params, f.normed + row * h.width, logits, f.scratch);
        end_use(&p);
    }
    return p.err;
}
