/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of fewer micro-batches than ZERO_ACCUM: the same bits as with a ZERO_ACCUM of that number,
 * and full steps beside them are what they were, in every stage and tier; a forecast leaves them
 * out; and ranks that end a step after different numbers of micro-batches are an error on all.
 */
#include "../tap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "folder.h"
#include "toy.h"
#include "try.h"

#define STEPS 6

static char path[4096];

struct model {
    const char *stage, *reduce_at, *offload, *update_at;
    uint32_t dtype, flags;
    int ranks;
    uint64_t width; /* 0: 1500 */
    int callback;   /* an optimizer of the application's own */
};

/* The built-in SGD without momentum and decay. */
static int sgd(void *arg, uint32_t param, uint64_t first, uint64_t count, uint64_t step, float *p,
               float *m, float *v, const float *grad)
{
    (void)arg, (void)param, (void)first, (void)step, (void)m, (void)v;
    for (uint64_t i = 0; i < count; i++)
        p[i] = fmaf(-0.01f, grad[i], p[i]);
    return 0;
}

static void optimizer_set(struct zero_runtime *rt, int rank, void *arg)
{
    (void)rank, (void)arg;
    zero_set_optimizer(rt, sgd, NULL);
}

static int run(const struct model *m, const char *accum, const int *micros, int n,
               struct toy_result *r)
{
    const char *offload = m->offload ? m->offload : "";
    struct zero_setting s[] = {{"stage", m->stage},
                               {"accum", accum},
                               {"reduce_at", m->reduce_at},
                               {"update_at", m->update_at ? m->update_at : "end"},
                               {"loss_scale", m->update_at ? "256" : "dynamic"},
                               {"lr", "0.01"},
                               {"clip", m->update_at ? "0" : "0.5"},
                               {"timeout", "20"},
                               {"optimizer", m->callback ? "sgd" : "adamw"},
                               {"weight_decay", "0"},
                               {"tile_bytes", "64K"},
                               {"offload", offload},
                               {"nvme_path", path}};
    struct toy t = {.ranks = m->ranks,
                    .layers = 4,
                    .steps = STEPS,
                    .dtype = m->dtype,
                    .flags = m->flags,
                    .width = m->width ? m->width : 1500,
                    .settings = s,
                    .n_settings = strstr(offload, "nvme") ? 13 : 12,
                    .seed = 7,
                    .micros = micros,
                    .n_micros = n,
                    .registered = m->callback == 2 ? optimizer_set : NULL};

    return toy_train(&t, r);
}

static const char *describe(const struct model *m)
{
    static char text[300];

    snprintf(text, sizeof text, "stage %s, %s, %d rank%s, reduce at %s, flags %x%s%s%s%s%s",
             m->stage, zero_dtype_name(m->dtype), m->ranks, m->ranks > 1 ? "s" : "", m->reduce_at,
             m->flags, m->offload ? ", " : "", m->offload ? m->offload : "",
             m->update_at ? ", early" : "", m->width ? ", wide" : "",
             m->callback ? ", callback" : "");
    return text;
}

static int same(const char *what, const struct toy_result *a, const struct toy_result *b)
{
    const int good = !a->err && !b->err && a->agree && b->agree && a->hash == b->hash &&
                     a->info.step == b->info.step && a->info.loss_scale == b->info.loss_scale &&
                     (a->info.grad_norm == b->info.grad_norm ||
                      (isnan(a->info.grad_norm) && isnan(b->info.grad_norm)));

    if (!good)
        diag("%s: %s%s, hash %016" PRIx64 " and %016" PRIx64 ", norm %.17g and %.17g, step %" PRIu64
             " and %" PRIu64,
             what, a->error, b->error, a->hash, b->hash, a->info.grad_norm, b->info.grad_norm,
             a->info.step, b->info.step);
    return good;
}

/* All steps as short, against a ZERO_ACCUM of that number; then steps of any length. */
static void equal(const struct model *m)
{
    static const int two[] = {2}, three[] = {3}, one[] = {1}, mixed[] = {2, 4, 1, 4, 3, 1};
    struct toy_result a, b;
    const struct model plain = {.stage = "0", .reduce_at = m->reduce_at, .dtype = m->dtype,
                                .flags = m->flags & ~(uint32_t)TOY_STREAM, .ranks = m->ranks,
                                .width = m->width, .callback = m->callback};
    int good;

    run(m, "4", two, 1, &a);
    run(m, "2", NULL, 0, &b);
    good = same("2 of 4 and 2", &a, &b);
    run(m, "4", three, 1, &a);
    run(m, "3", NULL, 0, &b);
    good &= same("3 of 4 and 3", &a, &b);
    if (m->dtype == ZERO_F32) {
        run(m, "4", one, 1, &a);
        run(m, "1", NULL, 0, &b);
        good &= same("1 of 4 and 1", &a, &b);
    }
    run(m, "4", mixed, 6, &a);
    run(m, "7", mixed, 6, &b);
    good &= same("any of 4, and of 7", &a, &b);
    if (!m->update_at) { /* clips */
        run(&plain, "4", mixed, 6, &b);
        good &= same("any of 4, and in stage 0", &a, &b);
    }
    ok(good, "%s: steps of fewer micro-batches", describe(m));
}

static const struct model models[] = {
    {"0", "boundary", .dtype = ZERO_F32, .ranks = 1},
    {"0", "boundary", .dtype = ZERO_BF16, .ranks = 2, .flags = TOY_EVAL},
    {"0", "micro", .dtype = ZERO_F32, .ranks = 3, .flags = TOY_TIED},
    {"1", "boundary", .dtype = ZERO_F32, .ranks = 2, .flags = TOY_BETWEEN | TOY_BEFORE},
    {"1", "micro", .dtype = ZERO_BF16, .ranks = 2, .flags = TOY_PERSISTENT | TOY_FROZEN},
    {"2", "boundary", .dtype = ZERO_BF16, .ranks = 3, .flags = TOY_UNUSED},
    {"2", "micro", .dtype = ZERO_F32, .ranks = 2, .flags = TOY_EARLY},
    {"3", "boundary", .dtype = ZERO_F32, .ranks = 2, .flags = TOY_EARLY | TOY_BETWEEN},
    {"3", "micro", .dtype = ZERO_BF16, .ranks = 3, .flags = TOY_STREAM | TOY_EVAL},
    {"3", "micro", .dtype = ZERO_F32, .ranks = 2, .width = 6144}, /* mapped */
    {"3", "boundary", .dtype = ZERO_BF16, .ranks = 2, .width = 6144, .flags = TOY_BETWEEN},
    /* Out of order, in full and in short steps. */
    {"1", "boundary", .dtype = ZERO_F32, .ranks = 2, .flags = TOY_REORDER},
    {"2", "micro", .dtype = ZERO_BF16, .ranks = 2, .flags = TOY_REORDER | TOY_EVAL},
    {"3", "micro", .dtype = ZERO_F32, .ranks = 2, .flags = TOY_REORDER, .width = 6144},
    {"3", "boundary", .dtype = ZERO_F32, .ranks = 2, .flags = TOY_SKIP},
    {"2", "boundary", .dtype = ZERO_BF16, .ranks = 2, .flags = TOY_SHORT | TOY_STILL},
    /* A step that is skipped, and a loss scale that follows. */
    {"0", "boundary", .dtype = ZERO_F16, .ranks = 2, .flags = TOY_NAN},
    {"2", "micro", .dtype = ZERO_F16, .ranks = 2, .flags = TOY_NAN},
    {"3", "micro", .dtype = ZERO_F16, .ranks = 2, .flags = TOY_NAN | TOY_BETWEEN},
    /* Tiers. */
    {"2", "micro", .dtype = ZERO_BF16, .ranks = 2, .width = 40000, .offload = "optimizer:cpu"},
    {"1", "boundary", .dtype = ZERO_F32, .ranks = 2, .width = 40000,
     .offload = "optimizer:nvme,gradients:cpu"},
    {"2", "micro", .dtype = ZERO_F32, .ranks = 2, .width = 40000, .offload = "gradients:nvme"},
    {"3", "micro", .dtype = ZERO_BF16, .ranks = 2, .width = 40000, .flags = TOY_EARLY,
     .offload = "gradients:device:0.4+cpu:0.3+nvme:0.3,parameters:cpu"},
    {"3", "boundary", .dtype = ZERO_F32, .ranks = 2, .width = 40000,
     .flags = TOY_ACTIVATIONS | TOY_REORDER,
     .offload = "optimizer:nvme,gradients:cpu,parameters:nvme,activations:cpu"},
    /* Updates beside the backward pass. */
    {"2", "micro", .dtype = ZERO_BF16, .ranks = 2, .width = 40000, .update_at = "backward",
     .offload = "optimizer:cpu"},
    {"1", "boundary", .dtype = ZERO_F32, .ranks = 2, .width = 40000, .update_at = "backward",
     .offload = "optimizer:nvme,gradients:cpu", .flags = TOY_UNUSED | TOY_BETWEEN},
    {"3", "micro", .dtype = ZERO_F32, .ranks = 2, .width = 40960, .update_at = "backward",
     .offload = "optimizer:cpu,gradients:nvme", .flags = TOY_EARLY},
    {"3", "boundary", .dtype = ZERO_BF16, .ranks = 2, .width = 40960, .update_at = "backward",
     .offload = "optimizer:cpu", .flags = TOY_REORDER | TOY_UNUSED},
    /* An optimizer of the application's own, and the built-in one. */
    {"2", "micro", .dtype = ZERO_F32, .ranks = 2, .callback = 1},
    {"2", "micro", .dtype = ZERO_F32, .ranks = 2, .callback = 2},
    {"3", "boundary", .dtype = ZERO_BF16, .ranks = 2, .callback = 2, .width = 40000,
     .offload = "optimizer:cpu"},
};

/* ---- The mean -------------------------------------------------------------------------------- */

static int micro_batch(struct zero_runtime *rt, uint32_t unit, uint32_t param, int last, float grad)
{
    double held = 0;

    TRY(zero_begin(rt, ZERO_TRAIN, last));
    for (uint32_t pass = ZERO_FORWARD; pass <= ZERO_BACKWARD; pass++) {
        TRY(zero_acquire(rt, unit, pass, NULL));
        float *g = pass == ZERO_BACKWARD ? zero_grad(rt, param, NULL) : NULL;
        if (g)
            *g = grad;
        TRY(zero_sum(rt, &held, 1)); /* is allowed while a unit is held */
        TRY(zero_release(rt, unit, pass, NULL));
    }
    return 0;
}

/* Gradients 1, 2, 3, …: plain SGD with a rate of 1 takes their mean off the parameter. */
static int means(struct zero_runtime *rt, int *right)
{
    static const int n[] = {2, 4, 1, 3};
    struct zero_param_desc d = {.size = sizeof d, .name = "w", .dtype = ZERO_F32,
                                .init = {.kind = ZERO_INIT_CONSTANT, .a = 100}};
    float want = 100, got;
    uint32_t unit, param;

    TRY(zero_unit_add(rt, "u", &unit));
    TRY(zero_param_add(rt, unit, &d, &param));
    TRY(zero_commit(rt));
    for (int s = 0; s < 4; s++) {
        const float mean = (float)(1 + n[s]) / 2;
        struct zero_step_info info;
        for (int i = 0; i < n[s]; i++)
            TRY(micro_batch(rt, unit, param, i + 1 == n[s], (float)(i + 1)));
        TRY(zero_update(rt, &info));
        TRY(zero_param_read(rt, param, 0, 1, &got));
        want -= mean;
        *right += fabsf(got - want) < 1e-4f && fabs(info.grad_norm - (double)mean) < 1e-6;
    }
    return 0;
}

static void mean_is_right(void)
{
    const struct zero_setting s[] = {{"accum", "4"}, {"optimizer", "sgd"}, {"lr", "1"},
                                     {"weight_decay", "0"}, {"momentum", "0"}};
    struct zero_config c = ZERO_CONFIG_INIT;
    struct zero_runtime *rt = NULL;
    int right = 0;

    c.settings = s, c.n_settings = 5;
    int err = zero_create(&c, &rt);
    if (!err)
        err = means(rt, &right);
    if (err)
        diag("%s", zero_last_error());
    is_int(right, 4, "the gradient is the mean over the micro-batches that there were");
    zero_destroy(rt);
}

/* ---- Forecasts ------------------------------------------------------------------------------- */

struct foretold {
    int err[STEPS];
    struct zero_forecast f[STEPS];
};

static void foretell(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                     void *arg)
{
    struct foretold *x = arg;

    (void)rank, (void)info;
    x->f[step].size = sizeof x->f[step];
    x->err[step] = zero_forecast(rt, &x->f[step]);
}

/* A short step is not what a step takes: before a full one, nor after it. */
static void forecasts(void)
{
    static const int micros[] = {1, 2, 4, 1, 2, 3};
    const struct zero_setting s[] = {{"accum", "4"}, {"timeout", "20"}};
    struct foretold x = {.err = {0}};
    struct toy t = {.ranks = 1, .layers = 3, .steps = STEPS, .dtype = ZERO_F32, .width = 1500,
                    .settings = s, .n_settings = 2, .seed = 7, .micros = micros,
                    .n_micros = 6, .stepped = foretell, .arg = &x};
    struct toy_result r;
    int good = !toy_train(&t, &r), kept = 1;

    ok(good && x.err[0] == -EAGAIN && x.err[1] == -EAGAIN, "no forecast before a full step");
    for (int i = 3; i < STEPS; i++)
        kept &= x.err[i] == 0 && x.f[i].compute_s == x.f[2].compute_s;
    ok(good && x.err[2] == 0 && x.f[2].compute_s > 0 && kept,
       "then what the last full step computed");
}

/* ---- Ranks that differ ----------------------------------------------------------------------- */

#define RANKS 3

struct ends {
    int updates[RANKS], status[RANKS], err[RANKS];
    char text[RANKS][512];
};

static void count_update(struct zero_runtime *rt, int rank, int step,
                         const struct zero_step_info *info, void *arg)
{
    (void)rt, (void)info;
    ((struct ends *)arg)->updates[rank] = step + 1;
}

static void note_end(struct zero_runtime *rt, int rank, int err, const char *error, void *arg)
{
    struct ends *x = arg;

    x->err[rank] = err;
    snprintf(x->text[rank], sizeof x->text[rank], "%s", error);
    x->status[rank] = zero_status(rt);
}

/* Rank 1 ends step 1 with its second micro-batch, the others with their third, or the converse. */
static void apart(const char *comm, const char *stage, const char *reduce_at, int odd,
                  uint32_t flags)
{
    static const int usual[] = {4, 3}, shorter[] = {4, 2}, longer[] = {4, 4};
    const struct zero_setting s[] = {{"comm", comm}, {"stage", stage}, {"accum", "4"},
                                     {"reduce_at", reduce_at}, {"timeout", "2"}, {"map", "0"}};
    struct ends x = {.err = {0}};
    struct toy t = {.ranks = RANKS, .layers = 3, .steps = 3, .dtype = ZERO_F32, .flags = flags,
                    .width = 600, .settings = s, .n_settings = 6, .seed = 3, .micros = usual,
                    .n_micros = 2, .odd_micros = odd < 3 ? shorter : longer,
                    .stepped = count_update, .lost = note_end, .arg = &x};
    struct toy_result r;
    int good = 0, named, late = 0;

    toy_train(&t, &r);
    for (int i = 0; i < RANKS; i++) {
        good += x.err[i] && x.err[i] == x.err[0] && x.status[i] == x.err[i];
        late |= x.updates[i] > 1;
    }
    named = r.err == -EPROTO && (strstr(r.error, "last_micro") || strstr(r.error, "micro-batches"));
    /* Where nothing is compared, ranks whose micro-batches have collectives wait for each other. */
    if (!strcmp(comm, "blind") && r.err == -ETIMEDOUT &&
        (!strcmp(reduce_at, "micro") || *stage == '3'))
        named = strstr(r.error, "ZERO_TIMEOUT") != NULL;
    ok(named && good == RANKS && !late,
       "%s, stage %s, reduce at %s, flags %x: %d micro-batches on one rank and 3 on others", comm,
       stage, reduce_at, flags, odd);
    for (int i = 0; i < RANKS; i++)
        if (i == 0 || strcmp(x.text[i], x.text[0]))
            diag("rank %d: %d: %s", i, x.err[i], x.text[i]);
}

static void apart_all(void)
{
    static const char *const stages[] = {"0", "1", "2", "3"};

    for (int i = 0; i < 4; i++)
        for (int odd = 2; odd <= 4; odd += 2) {
            apart("shm", stages[i], "boundary", odd, 0);
            apart("shm", stages[i], "micro", odd, 0);
            apart("blind", stages[i], "boundary", odd, 0);
            apart("blind", stages[i], "micro", odd, 0);
        }
    apart("shm", "2", "micro", 2, TOY_BEFORE);
    apart("blind", "0", "boundary", 2, TOY_BEFORE);
    apart("shm", "3", "micro", 2, TOY_REORDER);
    apart("shm", "1", "boundary", 4, TOY_REORDER);
}

int main(void)
{
    const size_t by = is_short() ? 4 : 1;
    char plugins[8192];

    snprintf(plugins, sizeof plugins, "%s/tests/plugin/.libs:%s", getenv("ZERO_TEST_BUILD"),
             getenv("ZERO_PLUGIN_PATH"));
    setenv("ZERO_PLUGIN_PATH", plugins, 1);
    folder_make("short_steps", path);
    mean_is_right();
    forecasts();
    for (size_t i = 0; i < sizeof models / sizeof *models; i += by)
        equal(&models[i]);
    apart_all();
    folder_end(path);
    done();
}
