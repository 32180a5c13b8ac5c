/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of one model in every stage; see table.h. */
#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "session.h"

struct row {
    uint64_t formula, planned, reserved;
};

/* Parameters, gradients and optimizer states: the classes that ZeRO is about. */
static struct row model_states(const struct zero_memory_report *m)
{
    struct row sum = {0, 0, 0};
    for (uint32_t i = 0; i < m->n_rows; i++) {
        if (m->rows[i].memory_class > ZERO_CLASS_VARIANCE)
            continue;
        sum.formula += m->rows[i].formula;
        sum.planned += m->rows[i].planned;
        sum.reserved += m->rows[i].reserved;
    }
    return sum;
}

/* One step on tokens that mean nothing. */
static int one_step(struct gpt2_session *s)
{
    const size_t rows = gpt2_rows(&s->shape);
    const uint32_t accum = (uint32_t)gpt2_session_number(s, "accum");
    int32_t *tokens = calloc(rows, sizeof *tokens);
    float *loss = calloc(rows, sizeof *loss);
    int err = tokens && loss ? 0 : -ENOMEM;

    if (err)
        s->error = "no memory for a batch: try a smaller --batch";
    for (uint32_t m = 0; m < accum && !err; m++) {
        err = zero_begin(s->rt, ZERO_TRAIN, m + 1 == accum);
        if (!err)
            err = gpt2_train(&s->host, &s->shape, tokens, tokens, zero_loss_scale(s->rt), loss);
    }
    if (!err)
        err = zero_update(s->rt, NULL);
    free(loss);
    free(tokens);
    return err;
}

static int measure(const struct gpt2_options *o, int stage, struct row *row, int *rank, int *ranks,
                   char *text, size_t bytes)
{
    static const char *const stages[] = {"0", "1", "2", "3"};
    const struct zero_setting setting = {"stage", stages[stage]};
    struct zero_config base = ZERO_CONFIG_INIT;
    struct zero_memory_report memory = {.size = sizeof memory};
    char model[32];
    struct gpt2_session s;

    snprintf(model, sizeof model, "stage%d", stage);
    base.settings = &setting;
    base.n_settings = 1;
    base.model = model;
    int err = gpt2_session_open(&s, o, &base);
    if (!err)
        err = gpt2_session_device(&s, o, text, bytes);
    if (!err)
        err = gpt2_session_commit(&s, o);
    if (!err)
        err = one_step(&s);
    if (err && !*text)
        snprintf(text, bytes, "%s", gpt2_session_error(&s));
    if (!err)
        err = zero_memory_report(s.rt, &memory);
    if (!err) {
        *row = model_states(&memory);
        *rank = zero_rank(s.rt);
        *ranks = zero_ranks(s.rt);
    }
    gpt2_session_close(&s);
    return err;
}

int gpt2_memory_table(const struct gpt2_options *o, char *text, size_t bytes)
{
    static const char *const what[] = {"nothing sharded", "optimizer states", "+ gradients",
                                       "+ parameters"};
    for (int stage = 0; stage < 4; stage++) {
        struct row row = {0, 0, 0};
        int rank = 0, ranks = 1;
        int err = measure(o, stage, &row, &rank, &ranks, text, bytes);
        if (err)
            return err;
        if (rank)
            continue;
        if (stage == 0)
            printf("Bytes of model states per rank, %s with %" PRIu64 " parameters in %s, %d "
                   "rank%s:\n  %-5s %-17s %14s %14s %14s\n",
                   o->model.name, gpt2_n_parameters(&o->model), zero_dtype_name(o->dtype), ranks,
                   ranks == 1 ? "" : "s", "stage", "sharded", "by formula", "with padding",
                   "reserved");
        printf("  %-5d %-17s %14" PRIu64 " %14" PRIu64 " %14" PRIu64 "\n", stage, what[stage],
               row.formula, row.planned, row.reserved);
        fflush(stdout);
    }
    return 0;
}
