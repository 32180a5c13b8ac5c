/* SPDX-License-Identifier: Apache-2.0 */
/* The training loop; see train.h. */
#include "train.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FORECAST_STEP 2 /* the first one touches memory for the first time */

int gpt2_trainer_open(struct gpt2_trainer *t, struct gpt2_session *s, const struct gpt2_options *o,
                      struct gpt2_data *d, struct gpt2_log *log)
{
    const size_t rows = gpt2_rows(&s->shape);

    memset(t, 0, sizeof *t);
    t->session = s;
    t->options = o;
    t->data = d;
    t->log = log;
    t->schedule = (struct gpt2_schedule){gpt2_session_number(s, "lr"), o->warmup, o->steps};
    t->accum = (uint32_t)gpt2_session_number(s, "accum");
    t->tokens = calloc(rows, sizeof *t->tokens);
    t->targets = calloc(rows, sizeof *t->targets);
    t->loss = calloc(rows, sizeof *t->loss);
    if (t->tokens && t->targets && t->loss)
        return 0;
    snprintf(t->error, sizeof t->error,
             "no memory for a batch of %zu tokens: try a smaller --batch", rows);
    return -ENOMEM;
}

void gpt2_trainer_close(struct gpt2_trainer *t)
{
    free(t->loss);
    free(t->targets);
    free(t->tokens);
    memset(t, 0, sizeof *t);
}

static int data_error(struct gpt2_trainer *t, int err)
{
    memcpy(t->error, t->data->error, sizeof t->error);
    return err;
}

/* This rank's part of a micro-batch: the samples of a step are numbered over all ranks. */
static int load_batch(struct gpt2_trainer *t, uint64_t step, uint32_t micro)
{
    const struct gpt2_shape *s = &t->session->shape;
    const uint64_t rank = (uint64_t)zero_rank(t->session->rt);
    const uint64_t ranks = (uint64_t)zero_ranks(t->session->rt);
    const uint64_t first = ((step * t->accum + micro) * ranks + rank) * s->batch;

    for (uint32_t i = 0; i < s->batch; i++) {
        const size_t at = (size_t)i * s->seq;
        int err = gpt2_data_sample(t->data, first + i, t->tokens + at, t->targets + at);
        if (err)
            return data_error(t, err);
    }
    return 0;
}

static double sum_loss(const struct gpt2_trainer *t, size_t first, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)t->loss[first + i];
    return sum;
}

/* Forward and backward pass of a micro-batch; adds its mean loss to *loss. */
static int micro_step(struct gpt2_trainer *t, uint64_t step, uint32_t micro, double *loss)
{
    struct gpt2_session *s = t->session;
    const size_t rows = gpt2_rows(&s->shape);
    int err = load_batch(t, step, micro);

    if (!err)
        err = zero_begin(s->rt, ZERO_TRAIN, micro + 1 == t->accum);
    if (!err)
        err =
            gpt2_train(&s->host, &s->shape, t->tokens, t->targets, zero_loss_scale(s->rt), t->loss);
    if (!err)
        *loss += sum_loss(t, 0, rows) / (double)rows;
    return err;
}

static int one_step(struct gpt2_trainer *t, uint64_t step)
{
    struct gpt2_session *s = t->session;
    struct zero_step_info info = {0};
    const float lr = gpt2_learning_rate(&t->schedule, step);
    const uint64_t start = gpt2_now_ns();
    double loss = 0;
    int err = 0;

    s->compute_ns = 0;
    for (uint32_t g = 0; g < 2 && !err; g++)
        err = zero_set_lr(s->rt, s->groups[g], lr);
    for (uint32_t m = 0; m < t->accum && !err; m++)
        err = micro_step(t, step, m, &loss);
    if (!err)
        err = zero_update(s->rt, &info);
    if (!err)
        err = zero_sum(s->rt, &loss, 1);
    if (err)
        return err;
    const double ranks = zero_ranks(s->rt), time_s = (double)(gpt2_now_ns() - start) * 1e-9;
    struct gpt2_step r = {.step = step + 1,
                          .loss = loss / (ranks * t->accum),
                          .grad_norm = info.grad_norm,
                          .time_s = time_s,
                          .compute_s = (double)s->compute_ns * 1e-9,
                          .exposed_s = (double)info.exposed_ns * 1e-9,
                          .optimizer_s = (double)info.update_ns * 1e-9,
                          .wire_bytes = info.wire_bytes,
                          .disk_read_bytes = info.disk_read_bytes,
                          .disk_written_bytes = info.disk_written_bytes};
    r.other_s = r.time_s - r.compute_s - r.exposed_s - r.optimizer_s;
    r.tokens_per_s = ranks * t->accum * (double)gpt2_rows(&s->shape) / r.time_s;
    gpt2_log_step(t->log, &r);
    gpt2_log_ops(t->log, s, step + 1);
    if (step + 1 == FORECAST_STEP)
        gpt2_log_forecast(t->log, s);
    return 0;
}

int gpt2_trainer_run(struct gpt2_trainer *t)
{
    const struct gpt2_options *o = t->options;
    int err = 0;

    for (uint64_t step = 0; step < o->steps && !err; step++) {
        err = one_step(t, step);
        if (err || !o->eval_every || (step + 1) % o->eval_every || step + 1 == o->steps)
            continue;
        uint64_t stride, count;
        double loss;
        err = gpt2_trainer_evaluate(t, &loss, &stride, &count);
        if (!err) {
            gpt2_log_eval(t->log, step + 1, loss);
            gpt2_log_say(t->log, "step %llu  held-out loss %.4f", (unsigned long long)step + 1,
                         loss);
        }
    }
    return err;
}

/* ---- Evaluation ------------------------------------------------------------------------------ */

/* One batch of windows from number `first` on; what lies behind `count` is computed in vain. */
static int evaluate_batch(struct gpt2_trainer *t, uint64_t first, uint64_t stride, uint64_t count,
                          double *sum)
{
    struct gpt2_session *s = t->session;
    const uint32_t seq = s->shape.seq;
    int err = 0;

    for (uint32_t i = 0; i < s->shape.batch && !err; i++) {
        const uint64_t w = first + i < count ? (first + i) * stride : 0;
        err =
            gpt2_data_window(t->data, w, t->tokens + (size_t)i * seq, t->targets + (size_t)i * seq);
    }
    if (err)
        return data_error(t, err);
    err = zero_begin(s->rt, ZERO_EVAL, 1);
    if (!err)
        err = gpt2_evaluate(&s->host, &s->shape, t->tokens, t->targets, t->loss);
    for (uint32_t i = 0; i < s->shape.batch && !err; i++)
        if (first + i < count)
            *sum += sum_loss(t, (size_t)i * seq, seq);
    return err;
}

int gpt2_trainer_evaluate(struct gpt2_trainer *t, double *loss, uint64_t *step, uint64_t *count)
{
    struct gpt2_session *s = t->session;
    const uint64_t all = gpt2_data_n_windows(t->data), most = t->options->eval_windows;
    const uint64_t n = most && most < all ? most : all, stride = n ? all / n : 1;
    const uint64_t rank = (uint64_t)zero_rank(s->rt), ranks = (uint64_t)zero_ranks(s->rt);
    double sum = 0;
    int err = 0;

    for (uint64_t first = 0; first < n && !err; first += ranks * s->shape.batch)
        err = evaluate_batch(t, first + rank * s->shape.batch, stride, n, &sum);
    if (!err)
        err = zero_sum(s->rt, &sum, 1);
    if (err)
        return err;
    *loss = sum / ((double)n * s->shape.seq);
    *step = stride;
    *count = n;
    return 0;
}
