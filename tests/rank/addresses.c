/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a use finds its parameters and gradients, and whether it overwrites or adds, is the same in
 * each micro-step of its kind, wherever they lie at other times: what was recorded of it, as in a
 * CUDA graph, can be replayed.
 */
#include "../tap.h"

#include <pthread.h>

#include <zero/zero.h>

#include "try.h"

#define UNITS 4
#define ELEMENTS 3000
#define USES (2 * UNITS)
#define STEPS 4
#define ACCUM 3

enum kind { SOME, LAST, EVALUATION, KINDS };

struct place {
    const void *param;
    void *grad;
    float beta;
};

struct rank {
    pthread_t thread;
    const char *stage, *offload, *job;
    int number, err, moved;
    struct place places[KINDS][USES];
    bool seen[KINDS];
    char error[256];
};

static int use(struct zero_runtime *rt, struct rank *r, enum kind kind, uint32_t i)
{
    const uint32_t unit = i < UNITS ? i : USES - 1 - i;
    const uint32_t pass = i < UNITS ? ZERO_FORWARD : ZERO_BACKWARD;
    struct place now = {NULL, NULL, 0}, *then = &r->places[kind][i];

    TRY(zero_acquire(rt, unit, pass, NULL));
    now.param = zero_param(rt, unit);
    if (pass == ZERO_BACKWARD) {
        now.grad = zero_grad(rt, unit, &now.beta);
        for (int k = 0; now.grad && k < ELEMENTS; k++)
            ((float *)now.grad)[k] = 0.5f;
    }
    if (r->seen[kind])
        r->moved += now.param != then->param || now.grad != then->grad || now.beta != then->beta;
    *then = now;
    return zero_release(rt, unit, pass, NULL);
}

static int pass_all(struct zero_runtime *rt, struct rank *r, enum kind kind)
{
    TRY(zero_begin(rt, kind == EVALUATION ? ZERO_EVAL : ZERO_TRAIN, kind == LAST));
    for (uint32_t i = 0; i < (kind == EVALUATION ? UNITS : USES); i++)
        TRY(use(rt, r, kind, i));
    r->seen[kind] = true;
    return 0;
}

static int run(struct rank *r, struct zero_runtime **rt)
{
    const struct zero_setting s[] = {{"stage", r->stage},       {"accum", "3"},
                                     {"prefetch_bytes", "16K"}, {"timeout", "20"},
                                     {"threads", "1"},          {"map", "0"},
                                     {"offload", r->offload}};
    struct zero_config c = ZERO_CONFIG_INIT;
    uint32_t unit, param;
    char name[16];

    c.settings = s;
    c.n_settings = r->offload ? 7 : 6;
    c.rank = r->number;
    c.ranks = c.local_ranks = 2;
    c.job = r->job;
    TRY(zero_create(&c, rt));
    for (int u = 0; u < UNITS; u++) {
        struct zero_param_desc d = {
            .size = sizeof d, .name = name, .dtype = ZERO_F32, .n_dims = 1, .dims = {ELEMENTS}};
        snprintf(name, sizeof name, "unit%d", u);
        TRY(zero_unit_add(*rt, name, &unit));
        TRY(zero_param_add(*rt, unit, &d, &param));
    }
    TRY(zero_commit(*rt));
    for (int step = 0; step < STEPS; step++) {
        for (int m = 0; m < ACCUM; m++)
            TRY(pass_all(*rt, r, m + 1 == ACCUM ? LAST : SOME));
        TRY(zero_update(*rt, NULL));
        TRY(pass_all(*rt, r, EVALUATION));
    }
    return zero_begin(*rt, ZERO_EVAL, 0); /* the end of the last one */
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    struct zero_runtime *rt = NULL;

    r->err = run(r, &rt);
    snprintf(r->error, sizeof r->error, "%s", zero_last_error());
    zero_destroy(rt);
    return NULL;
}

static void same(const char *stage, const char *offload)
{
    struct rank r[2];
    char job[64];

    snprintf(job, sizeof job, "addresses-%d", (int)getpid());
    for (int i = 0; i < 2; i++) {
        r[i] = (struct rank){.stage = stage, .offload = offload, .job = job, .number = i};
        pthread_create(&r[i].thread, NULL, rank_main, &r[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(r[i].thread, NULL);
    ok(!r[0].err && !r[1].err && r[0].seen[EVALUATION] && !r[0].moved && !r[1].moved,
       "stage %s%s%s: the same addresses in each micro-step of a kind", stage,
       offload ? ", " : "", offload ? offload : "");
    if (r[0].err || r[0].moved || r[1].moved)
        diag("%d, %d moved, %d moved: %s", r[0].err, r[0].moved, r[1].moved, r[0].error);
}

int main(void)
{
    static const char *const stages[] = {"0", "1", "2", "3"};

    alarm(60);
    for (int i = 0; i < 4; i++)
        same(stages[i], NULL);
    same("3", "parameters:cpu,optimizer:cpu");
    same("2", "gradients:cpu,optimizer:cpu");
    done();
}
