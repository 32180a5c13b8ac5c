/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several models in one job: each rank's process trains two at once, in two threads, under one job
 * name and two model names; the weights are those of each model alone.
 */
#include "../threads.h"

#include "toy.h"

#define RANKS 3

struct run {
    struct toy toy;
    struct zero_setting settings[3];
    struct toy_result result;
};

static void run_fill(struct run *r, const char *job, int second)
{
    *r = (struct run){.settings = {{"stage", second ? "1" : "3"},
                                   {"accum", second ? "3" : "1"},
                                   {"timeout", "20"}},
                      .toy = {.ranks = RANKS,
                              .layers = second ? 4 : 6,
                              .steps = 6,
                              .dtype = second ? ZERO_F32 : ZERO_BF16,
                              .flags = second ? TOY_TIED : TOY_EVAL,
                              .width = second ? 900 : 1500,
                              .n_settings = 3,
                              .seed = 5,
                              .job = job,
                              .model = second ? "second" : "first"}};
    r->toy.settings = r->settings;
}

static void *run_main(void *arg)
{
    struct run *r = arg;
    toy_train(&r->toy, &r->result);
    return NULL;
}

int main(void)
{
    struct run alone[2], both[2];
    char job[64];

    for (int i = 0; i < 2; i++) {
        run_fill(&alone[i], NULL, i);
        run_main(&alone[i]);
    }
    snprintf(job, sizeof job, "two-models-%d", (int)getpid());
    alarm(60);
    for (int i = 0; i < 2; i++)
        run_fill(&both[i], job, i);
    in_threads(run_main, both, 2);
    for (int i = 0; i < 2; i++)
        ok(!both[i].result.err && !alone[i].result.err && both[i].result.agree &&
               both[i].result.hash == alone[i].result.hash,
           "model %d trains beside the other as alone: %s", i + 1,
           both[i].result.err ? both[i].result.error : "same weights");
    ok(alone[0].result.hash != alone[1].result.hash, "and they are different models");
    done();
}
