/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing text: every rank computes the same logits and draws the same token, so that the order of
 * what the ranks gather stays the same without another message. Rank 0 prints.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "train.h"

/* The token at which the sum of the probabilities passes a random number. */
static int32_t draw(const float *logits, uint32_t vocab, double temperature, double uniform)
{
    uint32_t best = 0;
    double sum = 0, at = 0;

    for (uint32_t v = 1; v < vocab; v++)
        best = logits[v] > logits[best] ? v : best;
    if (temperature == 0)
        return (int32_t)best;
    for (uint32_t v = 0; v < vocab; v++)
        sum += exp((double)(logits[v] - logits[best]) / temperature);
    for (uint32_t v = 0; v < vocab; v++) {
        at += exp((double)(logits[v] - logits[best]) / temperature);
        if (at >= uniform * sum)
            return (int32_t)v;
    }
    return (int32_t)best;
}

/* Bytes are shown as they are, but for control characters; other tokens as numbers. */
static void show(FILE *out, int32_t token, bool bytes)
{
    if (!bytes)
        fprintf(out, " %d", token);
    else if (token == '\n' || token == '\t' || (token >= 32 && token < 127))
        fputc(token, out);
    else
        fputc('?', out);
}

static int write_text(struct gpt2_trainer *t, uint64_t n, float *logits, FILE *out)
{
    struct gpt2_session *s = t->session;
    struct gpt2_shape one = s->shape; /* a single sequence fits where a batch does */
    const bool bytes = t->data->token_bytes == 1;
    const uint64_t key = gpt2_key(t->options->seed, GPT2_STREAM_SAMPLE);
    size_t length = 0;
    int err = 0;

    one.batch = 1;
    memset(t->tokens, 0, one.seq * sizeof *t->tokens);
    for (const char *p = t->options->prompt; *p; p++) {
        if (length == one.seq)
            memmove(t->tokens, t->tokens + 1, --length * sizeof *t->tokens);
        t->tokens[length++] = (uint8_t)*p % one.model.vocab;
    }
    for (size_t i = 0; i < length; i++)
        show(out, t->tokens[i], bytes);
    for (uint64_t i = 0; i < n && !err; i++) {
        err = zero_begin(s->rt, ZERO_EVAL, 1);
        if (!err)
            err = gpt2_predict(&s->host, &one, t->tokens, length - 1, logits);
        if (err)
            break;
        if (length == one.seq)
            memmove(t->tokens, t->tokens + 1, --length * sizeof *t->tokens);
        t->tokens[length++] =
            draw(logits, one.model.vocab, t->options->temperature, gpt2_uniform(key, i));
        show(out, t->tokens[length - 1], bytes);
    }
    return err;
}

int gpt2_trainer_sample(struct gpt2_trainer *t, uint64_t n)
{
    float *logits = calloc(t->session->shape.model.vocab, sizeof *logits);
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    int err = -ENOMEM;

    if (logits && out)
        err = write_text(t, n, logits, out);
    else
        snprintf(t->error, sizeof t->error, "no memory to write a text");
    if (out)
        fclose(out);
    if (!err)
        gpt2_log_say(t->log, "----\n%s\n----", text);
    free(text);
    free(logits);
    return err;
}
