/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zero-gpt2: trains GPT-2 on a text. Every rank runs this program; what only one should tell, rank
 * 0 tells. Status: 0, 1 after an error, 3 if --beat-bigram did not, 130 after Ctrl-C.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gemm.h"
#include "table.h"
#include "train.h"
#include "weights.h"

enum { STATUS_ERROR = 1, STATUS_BIGRAM = 3, STATUS_SIGNAL = 128 };

/* Parameters, from which on the start takes seconds: reserving memory, and the first values. */
#define LARGE 100000000

static const char interrupted[] = "interrupted by a signal";
static volatile sig_atomic_t stop; /* number of the signal */

static void on_signal(int number)
{
    stop = number;
}

/* From here on a signal ends the step in an orderly way; the second one ends the process. */
static void catch_signals(struct gpt2_session *s)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    s->stop = &stop;
}

/* Of what all ranks know without each other, only one tells. */
static bool tells(void)
{
    const char *rank = getenv("RANK");
    return !rank || strcmp(rank, "0") == 0;
}

struct program {
    struct gpt2_options options;
    struct gpt2_session session;
    struct gpt2_data data;
    struct gpt2_log log;
    struct gpt2_trainer trainer;
    char error[512];
};

/* An error that some ranks met before the first step: all end, and one tells what all met. */
static int agree(struct program *p, int err)
{
    double failed[2] = {err != 0, 1};
    int lost = zero_sum(p->session.rt, failed, 2);

    if (lost == -ECANCELED) /* a rank that knew already has told and stopped the job */
        p->error[0] = '\0';
    if (lost)
        return lost;
    if (failed[0] > 0 && (!err || (failed[0] == failed[1] && zero_rank(p->session.rt) != 0)))
        p->error[0] = '\0', err = -ECANCELED;
    return err;
}

static int no_pairs(struct program *p)
{
    snprintf(p->error, sizeof p->error,
             "--beat-bigram compares with pairs of bytes, and %s holds tokens of 16 bits: leave it "
             "out, or give a text",
             p->data.path);
    return -EINVAL;
}

static int open_files(struct program *p)
{
    const struct gpt2_options *o = &p->options;
    int err = gpt2_session_device(&p->session, o, p->error, sizeof p->error);

    if (err)
        return agree(p, err);
    err = gpt2_data_open(&p->data, o->data, o->format, o->held, o->model.vocab, (uint32_t)o->seq,
                         o->seed);
    if (err)
        memcpy(p->error, p->data.error, sizeof p->error);
    else if (o->beat_bigram && p->data.token_bytes != 1)
        err = no_pairs(p);
    else
        err = gpt2_log_open(&p->log, o, zero_rank(p->session.rt), p->error, sizeof p->error);
    if (!err && o->weights_out && zero_rank(p->session.rt) == 0)
        err = gpt2_weights_try(o->weights_out, p->error, sizeof p->error);
    return agree(p, err);
}

/* The last evaluation, beside counting pairs of bytes. *beaten: the model is better. */
static int compare(struct program *p, bool *beaten)
{
    uint64_t stride, count;
    double loss, pairs;
    int err = gpt2_trainer_evaluate(&p->trainer, &loss, &stride, &count);

    *beaten = true;
    if (err)
        return err;
    gpt2_log_eval(&p->log, p->options.steps, loss);
    if (p->data.token_bytes != 1) {
        gpt2_log_say(&p->log, "Held-out loss %.4f nats per token", loss);
        return 0;
    }
    err = gpt2_data_bigram(&p->data, stride, count, &pairs);
    if (err) {
        memcpy(p->error, p->data.error, sizeof p->error);
        return err;
    }
    *beaten = loss < pairs;
    gpt2_log_say(&p->log, "Held-out loss %.4f nats per byte; counting pairs of bytes gives %.4f",
                 loss, pairs);
    return 0;
}

static int train(struct program *p, bool *beaten)
{
    const struct gpt2_options *o = &p->options;
    char computes[256];

    if (gpt2_n_parameters(&o->model) >= LARGE)
        gpt2_log_say(&p->log, "%s: planning, and reserving memory", o->model.name);
    int err = gpt2_session_commit(&p->session, o);
    if (!err && p->log.program)
        err = zero_program_dump(p->session.rt, fileno(p->log.program));
    if (!err)
        err = gpt2_trainer_open(&p->trainer, &p->session, o, &p->data, &p->log);
    if (!err && o->weights_in)
        err = gpt2_weights_load(&p->session, o->weights_in, p->error, sizeof p->error);
    if (err)
        return err;
    catch_signals(&p->session);
    gpt2_session_computes(&p->session, computes, sizeof computes);
    gpt2_log_say(&p->log, "%s: %" PRIu64 " parameters in %s, %d rank%s, stage %s, %s",
                 o->model.name, gpt2_n_parameters(&o->model), zero_dtype_name(o->dtype),
                 zero_ranks(p->session.rt), zero_ranks(p->session.rt) == 1 ? "" : "s",
                 zero_option(p->session.rt, "stage"), computes);
    if (*zero_option(p->session.rt, "offload"))
        gpt2_log_placement(&p->log, &p->session);
    p->log.start_ns = gpt2_now_ns();
    err = gpt2_trainer_run(&p->trainer);
    if (!err && o->held > 0)
        err = compare(p, beaten);
    if (!err && o->sample)
        err = gpt2_trainer_sample(&p->trainer, o->sample);
    if (!err && o->weights_out)
        err = gpt2_weights_save(&p->session, o->weights_out, p->error, sizeof p->error);
    return err ? err : gpt2_log_summary(&p->log, &p->session);
}

/* Says what went wrong, once, and stops the other ranks. */
static int report(struct program *p)
{
    const char *text = p->error;

    if (stop)
        text = interrupted;
    else if (!*text)
        text = *p->trainer.error                  ? p->trainer.error
               : *gpt2_session_error(&p->session) ? gpt2_session_error(&p->session)
                                                  : zero_last_error();
    if (p->session.rt)
        zero_abort(p->session.rt, text);
    if (stop || strstr(text, interrupted))
        return STATUS_SIGNAL + (stop ? stop : SIGINT);
    fprintf(stderr, "zero-gpt2: %s\n", text);
    return STATUS_ERROR;
}

static int run(struct program *p)
{
    bool beaten = true;
    int status = 0, err;

    p->data.fd = -1;
    err = gpt2_session_open(&p->session, &p->options, NULL);
    if (!err) {
        err = open_files(p);
        if (err && !*p->error) /* another rank tells */
            status = STATUS_ERROR;
    }
    if (!err)
        err = train(p, &beaten);
    if (err && !status)
        status = report(p);
    if (gpt2_log_close(&p->log, p->error, sizeof p->error)) {
        fprintf(stderr, "zero-gpt2: %s\n", p->error);
        status = status ? status : STATUS_ERROR;
    }
    if (!status && (fflush(stdout) || ferror(stdout))) {
        fprintf(stderr, "zero-gpt2: cannot write the output: %s\n", strerror(errno));
        status = STATUS_ERROR;
    }
    gpt2_trainer_close(&p->trainer);
    gpt2_data_close(&p->data);
    gpt2_session_close(&p->session);
    if (!status && p->options.beat_bigram && !beaten) {
        if (tells())
            fprintf(stderr, "zero-gpt2: the model is not better than counting pairs of bytes: "
                            "train more --steps\n");
        status = STATUS_BIGRAM;
    }
    return status;
}

int main(int argc, char **argv)
{
    static struct program p;
    int err = gpt2_options_parse(&p.options, argc, argv, p.error, sizeof p.error);

    if (err > 0)
        return fflush(stdout) ? STATUS_ERROR : 0;
    if (err) {
        if (tells())
            fprintf(stderr, "zero-gpt2: %s\n", p.error);
        return STATUS_ERROR;
    }
    /* A shell that starts a job in the background may have switched Ctrl-C off. */
    signal(SIGINT, SIG_DFL);
    gpt2_gemm_init();
    gpt2_gemm16_init();
    if (!p.options.memory_table)
        return run(&p);
    err = gpt2_memory_table(&p.options, p.error, sizeof p.error);
    if (err)
        fprintf(stderr, "zero-gpt2: %s\n", *p.error ? p.error : zero_last_error());
    return err ? STATUS_ERROR : 0;
}
