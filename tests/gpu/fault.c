/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel of the application's that touches memory which is not there: CUDA takes the context away
 * with it. The step in which that happens fails with a sentence, on the rank that did it and on all
 * others, and nothing hangs.
 *
 *     zero run -n 2 -- fault CUBLAS        (rank 0 does it; CUBLAS "": that of the machine)
 *
 * Prints what each rank is told. Status 0 where it was told something.
 */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/gpt2/session.h"

#define STEPS 5

static struct gpu gpu;

static int step(struct gpt2_session *s, const int32_t *tokens, float *loss)
{
    int err = zero_begin(s->rt, ZERO_TRAIN, 1);

    if (!err)
        err = gpt2_train(&s->host, &s->shape, tokens, tokens, 1, loss);
    return err ? err : zero_update(s->rt, NULL);
}

/* Embeddings for tokens at address 64. */
static void astray(void)
{
    const struct gpt2_gpu_embed q = {
        .x = NULL, .tokens = (const int32_t *)64, .rows = 1, .width = 4};
    const uint32_t grid[2] = {1, 1};
    char why[512];

    if (!gpu_open(&gpu, why, sizeof why)) {
        printf("Bail out! %s\n", why);
        exit(1);
    }
    gpu_launch(&gpu, "gpt2_embed", grid, 256, 0, &q, sizeof q);
}

int main(int argc, char **argv)
{
    static const struct zero_setting settings[] = {{"device", "cuda:0"}, {"timeout", "20"}};
    struct gpt2_options o = {.dtype = ZERO_BF16, .seed = 1, .beta2 = 0.95, .batch = 1, .seq = 64};
    struct zero_config base = ZERO_CONFIG_INIT;
    static struct gpt2_session s;
    char text[512] = "";
    static int32_t tokens[64];
    static float loss[64];

    if (argc != 2 || gpt2_config_preset("tiny", &o.model))
        return 2;
    o.cublas = *argv[1] ? argv[1] : NULL;
    base.settings = settings;
    base.n_settings = 2;
    int err = gpt2_session_open(&s, &o, &base);
    if (!err)
        err = gpt2_session_device(&s, &o, text, sizeof text);
    if (!err)
        err = gpt2_session_commit(&s, &o);
    if (!err)
        err = step(&s, tokens, loss);
    if (err) {
        fprintf(stderr, "before the fault: %s\n", *text ? text : zero_last_error());
        return 1;
    }
    if (zero_rank(s.rt) == 0)
        astray();
    for (int i = 0; i < STEPS && !err; i++)
        err = step(&s, tokens, loss);
    const char *own = gpt2_session_error(&s);
    printf("rank %d is told: %s\n", zero_rank(s.rt), *own ? own : err ? zero_last_error() : "");
    gpt2_session_close(&s);
    return err == 0;
}
