/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a forecast says after each step: while the disk still works for it, and after one that left
 * the declared order. A disk is measured for it in the job's own room.
 */
#include "../tap.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "folder.h"
#include "toy.h"

#define STEPS 4

static char path[4096];

static void foretell(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                     void *arg)
{
    struct zero_forecast f = {.size = sizeof f};

    (void)info;
    if (rank == 0 && zero_forecast(rt, &f))
        diag("step %d: %s", step, zero_last_error());
    else if (rank == 0)
        ((double *)arg)[step] = f.step_s;
}

static void each_step(const char *offload)
{
    struct zero_setting s[] = {{"offload", offload}, {"stage", "3"},
                               {"nvme_path", path}, {"timeout", "20"}, {"tile_bytes", "64K"}};
    double said[STEPS] = {0};
    struct toy t = {.ranks = 2, .layers = 4, .steps = STEPS, .dtype = ZERO_BF16, .width = 40000,
                    .flags = TOY_ACTIVATIONS, .settings = s, .n_settings = 5, .seed = 7,
                    .stepped = foretell, .arg = said};
    struct toy_result r;
    int good = !toy_train(&t, &r);

    for (int i = 0; i < STEPS; i++)
        good = good && said[i] > 0;
    ok(good, "%s: a forecast after each step, while its update is still written: %g s", offload,
       said[STEPS - 1]);
    if (r.err)
        diag("%s", r.error);
}

struct refusal {
    int err;
    char why[512];
};

static void refused(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    struct zero_forecast f = {.size = sizeof f};
    struct refusal *r = arg;

    (void)info, (void)step;
    if (rank == 0) {
        r->err = zero_forecast(rt, &f);
        snprintf(r->why, sizeof r->why, "%s", zero_last_error());
    }
}

/* A disk of unknown speed does not take no time. */
static void not_measured(void)
{
    struct zero_setting s[] = {{"offload", "optimizer:nvme"}, {"nvme_path", path},
                               {"timeout", "20"}, {"tile_bytes", "64K"}, {"offload_measure", "0"}};
    struct refusal said = {0};
    struct toy t = {.ranks = 1, .layers = 3, .steps = 2, .dtype = ZERO_BF16, .width = 41000,
                    .settings = s, .n_settings = 5, .seed = 7, .stepped = refused, .arg = &said};
    struct toy_result r;
    int err = toy_train(&t, &r);

    is_int(err, 0, "a disk that is not measured");
    is_int(said.err, -EAGAIN, "has no forecast");
    has_str(said.why, "ZERO_OFFLOAD_MEASURE is 0", "and why");
    s[4].value = "1";
    s[3].value = "4M"; /* of which there are less than two on the disk */
    err = toy_train(&t, &r);
    is_int(err, 0, "a disk on which hardly anything lies");
    is_int(said.err, -EAGAIN, "has none either");
    has_str(said.why, "too little lies there", "and why");
}

struct heard {
    pthread_mutex_t lock;
    int measured, resized; /* lines that say so */
};

static void hear(void *arg, int level, const char *line)
{
    struct heard *h = arg;

    (void)level;
    pthread_mutex_lock(&h->lock);
    h->measured += strstr(line, "measuring how fast trace is") != NULL;
    h->resized += strstr(line, "resize to ") != NULL;
    pthread_mutex_unlock(&h->lock);
}

/* The job has its room on the disk when that is measured: others might take what it gives back. */
static void keeps_room(void)
{
    struct zero_setting s[] = {{"offload", "optimizer:trace"}, {"trace_offload", "nvme"},
                               {"nvme_path", path}, {"timeout", "20"}, {"tile_bytes", "64K"},
                               {"log", "info,trace:trace"}};
    struct heard heard = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct toy t = {.ranks = 2, .layers = 4, .steps = 2, .dtype = ZERO_BF16, .width = 40000,
                    .settings = s, .n_settings = 6, .seed = 7, .log = hear, .arg = &heard};
    struct toy_result r;
    int err = toy_train(&t, &r);

    ok(!err && heard.measured == 2 && heard.resized == 0,
       "a disk that %d ranks measure: %d stores give room back: %s", heard.measured, heard.resized,
       err ? r.error : "it trains");
}

/* Of a step that nobody times, nothing is taken for what the application does between its uses. */
static void out_of_order(void)
{
    struct zero_setting s[] = {{"timeout", "20"}};
    double said[2] = {0};
    struct toy t = {.ranks = 1, .layers = 6, .steps = 2, .dtype = ZERO_F32, .width = 1000,
                    .flags = TOY_SKIP, .compute_ms = 20, .settings = s, .n_settings = 1, .seed = 7,
                    .stepped = foretell, .arg = said};
    struct toy_result r;
    int err = toy_train(&t, &r);

    ok(!err && said[0] > 0.2 && said[1] > 0.7 * said[0] && said[1] < 1.3 * said[0],
       "after a step out of order it is that of the one before: %g s, not %g", said[0], said[1]);
    if (err)
        diag("%s", r.error);
}

int main(void)
{
    folder_make("forecast", path);
    each_step("optimizer:nvme,parameters:nvme");
    each_step("activations:nvme"); /* which are no states */
    not_measured();
    keeps_room();
    out_of_order();
    rmdir(path);
    done();
}
