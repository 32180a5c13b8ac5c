/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of zero-gpt2. What the library decides (stage, micro-batches, learning rate,
 * clipping) is passed on only where the user typed it, so that ZERO_* variables and the
 * configuration file work as for any program.
 */
#ifndef GPT2_OPTIONS_H
#define GPT2_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <zero/zero.h>

#include "model.h"

#define GPT2_MAX_SETTINGS 8

struct gpt2_options {
    struct gpt2_config model;
    uint32_t dtype;
    uint64_t batch, seq, vocab;
    bool recompute;
    uint64_t steps, warmup, seed;
    double held;                       /* fraction of the data that is held out */
    uint64_t eval_every, eval_windows; /* 0: only at the end; 0: all */
    bool beat_bigram;
    uint64_t sample;
    double temperature;
    double weight_decay, beta2; /* negative: not typed */
    const char *prompt, *data, *format, *weights_in, *weights_out, *ops, *program, *json;
    const char *cublas; /* or NULL */
    bool memory_table;
    struct zero_setting settings[GPT2_MAX_SETTINGS]; /* what was typed for the library */
    uint32_t n_settings;
};

/*
 * Parses a command line: 0 to go on, 1 when all is done (--help), or -EINVAL with one sentence in
 * `text`. Strings of argv are kept.
 */
int gpt2_options_parse(struct gpt2_options *o, int argc, char **argv, char *text, size_t bytes);

#endif
