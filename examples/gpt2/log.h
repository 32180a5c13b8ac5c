/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rank 0 tells: a progress line (in place on a terminal, now and then as a plain line
 * elsewhere), sentences, and the JSON log. Other ranks are silent, but for JSON files of their
 * own.
 */
#ifndef GPT2_LOG_H
#define GPT2_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "session.h"

#define GPT2_LOG_PATH 4096
#define GPT2_LOG_AFTER 5 /* steps that a forecast is compared with */

struct gpt2_log {
    FILE *json, *ops, *program; /* NULL: not wanted */
    char json_path[GPT2_LOG_PATH], ops_path[GPT2_LOG_PATH], program_path[GPT2_LOG_PATH];
    bool root, terminal, line_open;
    uint64_t steps, start_ns, shown_ns;
    uint64_t done, disk_read_bytes, disk_written_bytes; /* steps; of all of them, on rank 0 */
    double forecast_s, after_s[GPT2_LOG_AFTER]; /* 0: there is none; the steps after it */
    uint32_t n_after;
};

/* One training step. */
struct gpt2_step {
    uint64_t step; /* from 1 */
    double loss, grad_norm;
    double time_s, compute_s, exposed_s, optimizer_s, other_s;
    double tokens_per_s;
    uint64_t wire_bytes, disk_read_bytes, disk_written_bytes;
};

/* Creates the files; -errno with the sentence in `text`. */
int gpt2_log_open(struct gpt2_log *log, const struct gpt2_options *o, int rank, char *text,
                  size_t bytes);
/* Ends the progress line and the files; -errno with the sentence if not all could be written. */
int gpt2_log_close(struct gpt2_log *log, char *text, size_t bytes);

/* A line of text; ends the progress line first. */
__attribute__((format(printf, 2, 3))) void gpt2_log_say(struct gpt2_log *log, const char *fmt, ...);

void gpt2_log_step(struct gpt2_log *log, const struct gpt2_step *s);
void gpt2_log_eval(struct gpt2_log *log, uint64_t step, double loss);
/* With something outside the device: what, and how much is where. */
void gpt2_log_placement(struct gpt2_log *log, struct gpt2_session *s);
/* Likewise: what a step should take. */
void gpt2_log_forecast(struct gpt2_log *log, struct gpt2_session *s);
/* The ops of the bodies that ran since the last call. */
void gpt2_log_ops(struct gpt2_log *log, struct gpt2_session *s, uint64_t step);

/* The memory table, the weights' hash and the summary. Collective. */
int gpt2_log_summary(struct gpt2_log *log, struct gpt2_session *s);

#endif
