/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training data: a file of text, one token a byte, or of 16-bit tokens (nanoGPT's train.bin). The
 * tail of the file is held out. Samples are drawn by number from the seed alone, so every rank
 * finds its own part of any step without asking the others. The file is read with pread: nothing
 * of it counts as this process's memory, and one that shrinks is an error instead of a SIGBUS.
 */
#ifndef GPT2_DATA_H
#define GPT2_DATA_H

#include <stddef.h>
#include <stdint.h>

struct gpt2_data {
    int fd;
    uint32_t token_bytes, vocab, seq;
    uint64_t n_tokens, n_train, n_held; /* n_train + n_held = n_tokens */
    uint64_t key;
    uint16_t *row; /* seq + 1 tokens as they lie in the file */
    char path[256];
    char error[512]; /* what went wrong, for a person */
};

/*
 * Opens a file. kind: "text", "tokens", or NULL to decide by the name (.bin: tokens). `held`: the
 * fraction that is held out. Returns 0 or a negative errno with d->error filled.
 */
int gpt2_data_open(struct gpt2_data *d, const char *path, const char *kind, double held,
                   uint32_t vocab, uint32_t seq, uint64_t seed);
void gpt2_data_close(struct gpt2_data *d);

/* Sample number `index` of the training: seq tokens and the seq tokens that follow each. */
int gpt2_data_sample(struct gpt2_data *d, uint64_t index, int32_t *tokens, int32_t *targets);

/* The held-out part in windows of seq tokens. */
uint64_t gpt2_data_n_windows(const struct gpt2_data *d);
int gpt2_data_window(struct gpt2_data *d, uint64_t window, int32_t *tokens, int32_t *targets);

/*
 * Held-out loss, in nats per token, of counting which byte follows which in the training part, over
 * `count` windows 0, stride, 2 stride, … Interpolated with single bytes; how much is chosen on the
 * held-out part itself, in favour of the counting. Only for text.
 */
int gpt2_data_bigram(struct gpt2_data *d, uint64_t stride, uint64_t count, double *nats);

#endif
