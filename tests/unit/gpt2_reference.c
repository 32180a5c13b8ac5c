/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 100 steps of the GPT-2 example's preset `micro`, with plain AdamW and without the library,
 * against the float64 run of PyTorch: same weights, same samples.
 */
#include "tests/unit/gpt2_reference.h"

#include "examples/gpt2/data.h"
#include "examples/gpt2/gemm.h"
#include "examples/gpt2/plain.h"
#include "examples/gpt2/schedule.h"

enum { MAX_ROWS = 4096 };

struct run {
    struct reference reference;
    struct gpt2_plain model;
    struct gpt2_data data;
};

static void run_open(struct run *r, uint32_t dtype)
{
    char path[4096];
    struct gpt2_shape s = {.dtype = dtype};

    reference_open(&r->reference);
    s.model = r->reference.model;
    s.batch = (uint32_t)setting(&r->reference, "batch");
    s.seq = (uint32_t)setting(&r->reference, "seq");
    const uint64_t seed = (uint64_t)setting(&r->reference, "seed");
    snprintf(path, sizeof path, "%s/LICENSE", reference_top());
    if (gpt2_data_open(&r->data, path, "text", 0, s.model.vocab, s.seq, seed))
        bail(r->data.error);
    if ((double)r->data.n_tokens != number(r->reference.file, "data_bytes"))
        bail("the data file is not the one of the reference");
    if (gpt2_plain_create(&s, seed, &r->model))
        bail("no memory");
}

static void run_close(struct run *r)
{
    gpt2_plain_destroy(&r->model);
    gpt2_data_close(&r->data);
    json_decref(r->reference.file);
}

static double step_loss(struct run *r, uint32_t step)
{
    const struct gpt2_shape *s = &r->model.shape;
    static int32_t tokens[MAX_ROWS], targets[MAX_ROWS];
    static float loss[MAX_ROWS];
    double sum = 0;

    for (uint32_t i = 0; i < s->batch; i++)
        if (gpt2_data_sample(&r->data, (uint64_t)step * s->batch + i, tokens + i * s->seq,
                             targets + i * s->seq))
            bail(r->data.error);
    if (gpt2_train(&r->model.host, s, tokens, targets, 1, loss))
        bail("gpt2_train failed");
    for (size_t i = 0; i < gpt2_rows(s); i++)
        sum += (double)loss[i];
    return sum / (double)gpt2_rows(s);
}

static void train(struct run *r, double bound, double factor)
{
    const struct reference *f = &r->reference;
    const struct gpt2_schedule schedule = {setting(f, "lr"), (uint64_t)setting(f, "warmup"),
                                           (uint64_t)setting(f, "steps")};

    for (uint32_t step = 0; step < schedule.steps; step++) {
        const struct gpt2_adamw a = {gpt2_learning_rate(&schedule, step),
                                     (float)setting(f, "weight_decay"),
                                     (float)setting(f, "beta1"),
                                     (float)setting(f, "beta2"),
                                     (float)setting(f, "eps"),
                                     (float)setting(f, "clip")};
        reference_loss(&r->reference, step, step_loss(r, step), bound, factor);
        gpt2_plain_update(&r->model, &a, 1);
    }
}

int main(void)
{
    struct run r;

    gpt2_gemm_init();
    gpt2_gemm16_init();
    run_open(&r, ZERO_F32);
    train(&r, 1e-5, 2);
    ok(r.reference.n_late == 0, "fp32: loss error of 100 steps at most %.2e", r.reference.worst);
    for (uint32_t t = 0; t < gpt2_n_tensors(&r.model.shape.model); t++)
        reference_weights(&r.reference, t, r.model.master + r.model.first[t]);
    run_close(&r);

    run_open(&r, ZERO_BF16);
    train(&r, 1e-2, 0);
    ok(r.reference.n_late == 0, "bf16: loss error of 100 steps at most %.2e", r.reference.worst);
    run_close(&r);
    done();
}
