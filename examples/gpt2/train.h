/* SPDX-License-Identifier: Apache-2.0 */
/* Training, evaluation and the writing of text with an open session. All functions are collective.
 */
#ifndef GPT2_TRAIN_H
#define GPT2_TRAIN_H

#include "data.h"
#include "log.h"
#include "schedule.h"
#include "session.h"

struct gpt2_trainer {
    struct gpt2_session *session;
    const struct gpt2_options *options;
    struct gpt2_data *data;
    struct gpt2_log *log;
    struct gpt2_schedule schedule;
    uint32_t accum;
    int32_t *tokens, *targets; /* of a micro-batch */
    float *loss;
    char error[512]; /* what went wrong, where the library does not know */
};

/* -ENOMEM, or 0; close it either way. */
int gpt2_trainer_open(struct gpt2_trainer *t, struct gpt2_session *s, const struct gpt2_options *o,
                      struct gpt2_data *d, struct gpt2_log *log);
void gpt2_trainer_close(struct gpt2_trainer *t);

/* All steps, with evaluations in between where they are wanted. */
int gpt2_trainer_run(struct gpt2_trainer *t);

/* Held-out loss in nats per token; *step and *count: which windows it is the mean of. */
int gpt2_trainer_evaluate(struct gpt2_trainer *t, double *loss, uint64_t *step, uint64_t *count);

/* Continues the prompt by `n` tokens and prints both. */
int gpt2_trainer_sample(struct gpt2_trainer *t, uint64_t n);

#endif
